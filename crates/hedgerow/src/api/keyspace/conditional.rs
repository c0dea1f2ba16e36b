//! Writes of a key that depend on its value.

use super::Keyspace;
use crate::base::error::{Error, Result};
use crate::base::slice::Slice;

/// The outcome of a write that did not take place.
enum ConditionError {
    OtherValue(Option<Slice>),
    Failed(Error),
}

impl From<Error> for ConditionError {
    fn from(error: Error) -> ConditionError {
        ConditionError::Failed(error)
    }
}

/// # Writes on a condition
///
/// Each reads and writes one key atomically, buffered, as [`Keyspace::update`] does. At another
/// durability, use [`Keyspace::try_update_with`]; for several keys, a
/// [`Transaction`](crate::Transaction).
impl Keyspace {
    /// Gives a key a value if it has none, and returns `None`; otherwise returns its value.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let seats = db.keyspace("seats", Layout::sorted())?;
    /// assert_eq!(seats.put_if_absent("12a", "ada")?, None);
    /// assert_eq!(seats.put_if_absent("12a", "alan")?.as_deref(), Some(&b"ada"[..]));
    /// assert!(seats.compare_and_swap("12a", Some(b"ada"), Some(b"alan"))?);
    /// assert!(!seats.delete_if("12a", |passenger| passenger == b"ada")?);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::update`].
    pub fn put_if_absent(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Slice>> {
        self.write_if(key, |old| old.is_none(), Some(value.as_ref()))
    }

    /// Gives a key the value `new` if its value is `expected`, and returns true; otherwise returns
    /// false. `None` is no value.
    ///
    /// # Errors
    /// As [`Keyspace::update`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let mut is_expected = false;
        self.write_if(
            key,
            |old| {
                is_expected = old == expected;
                is_expected
            },
            new,
        )?;
        Ok(is_expected)
    }

    /// Deletes a key if it has a value that `condition` accepts, and returns true; otherwise
    /// returns false. `condition` may be called several times.
    ///
    /// # Errors
    /// As [`Keyspace::update`].
    pub fn delete_if(
        &self,
        key: impl AsRef<[u8]>,
        mut condition: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool> {
        let mut accepted = false;
        self.write_if(
            key,
            |old| {
                accepted = old.is_some_and(&mut condition);
                accepted
            },
            None,
        )?;
        Ok(accepted)
    }

    /// Gives a key a value if `condition` accepts the present one; otherwise returns the present
    /// one.
    fn write_if(
        &self,
        key: impl AsRef<[u8]>,
        mut condition: impl FnMut(Option<&[u8]>) -> bool,
        new: Option<&[u8]>,
    ) -> Result<Option<Slice>> {
        let written = self.try_update(key, |old| match condition(old) {
            true => Ok(new.map(<[u8]>::to_vec)),
            false => Err(ConditionError::OtherValue(old.map(Slice::copy_from))),
        });
        match written {
            Ok(_) => Ok(None),
            Err(ConditionError::OtherValue(old)) => Ok(old),
            Err(ConditionError::Failed(error)) => Err(error),
        }
    }
}
