//! Replacing the value of a key by a function of it.

use crate::base::error::{Error, Result};
use crate::base::options::Durability;
use crate::base::slice::Slice;

use super::Keyspace;

impl Keyspace {
    /// Replaces a key's value atomically: no other write to the key comes between reading the old
    /// value and writing the new one. `new` receives the old value and returns the new one; `None`
    /// is no value. `new` may be called several times. Returns the new value. Writes nothing if the
    /// new value is the old one. The time of expiry stays as it is.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let counters = db.keyspace("counters", Layout::sorted())?;
    /// counters.update(b"visits", |old| {
    ///     let count = old.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    ///     Some((count + 1).to_le_bytes().to_vec())
    /// })?;
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`] and [`Keyspace::get`].
    pub fn update(
        &self,
        key: impl AsRef<[u8]>,
        new: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Slice>> {
        self.update_with(key, new, Durability::Buffered)
    }

    /// Updates as [`Keyspace::update`] does, at this durability.
    ///
    /// # Errors
    /// As [`Keyspace::update`].
    pub fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        mut new: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
        durability: Durability,
    ) -> Result<Option<Slice>> {
        self.try_update_with(key, |old| Ok::<_, Error>(new(old)), durability)
    }

    /// Updates as [`Keyspace::update`] does, with a function that may fail: then nothing is
    /// written, and its error is returned.
    ///
    /// ```
    /// # use hedgerow::{Db, Error, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let stock = db.keyspace("stock", Layout::sorted())?;
    /// stock.put("apples", [3])?;
    /// let sell = |count| {
    ///     stock.try_update("apples", |old| match old {
    ///         Some([left]) if *left >= count => Ok(Some(vec![left - count])),
    ///         _ => Err(Box::<dyn std::error::Error>::from("sold out")),
    ///     })
    /// };
    /// sell(2).unwrap();
    /// assert_eq!(sell(2).unwrap_err().to_string(), "sold out");
    /// assert_eq!(stock.get("apples")?.as_deref(), Some(&[1][..]));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `new`; as [`Keyspace::update`].
    pub fn try_update<E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        new: impl FnMut(Option<&[u8]>) -> std::result::Result<Option<Vec<u8>>, E>,
    ) -> std::result::Result<Option<Slice>, E> {
        self.try_update_with(key, new, Durability::Buffered)
    }

    /// Updates as [`Keyspace::try_update`] does, at this durability.
    ///
    /// # Errors
    /// As [`Keyspace::try_update`].
    pub fn try_update_with<E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        mut new: impl FnMut(Option<&[u8]>) -> std::result::Result<Option<Vec<u8>>, E>,
        durability: Durability,
    ) -> std::result::Result<Option<Slice>, E> {
        self.update_entry(key.as_ref(), durability, |old, expiry| {
            let is_new = old.is_none();
            let default = || self.cell.facts.expiry_of_puts(|| self.engine.time());
            let new = new(old)?;
            Ok(new.map(|value| (value, if is_new { default() } else { expiry })))
        })
    }
}
