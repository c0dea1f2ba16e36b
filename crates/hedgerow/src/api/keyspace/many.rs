//! Gets of many keys by one call, and looks at values where they lie.

use super::Keyspace;
use crate::base::error::Result;
use crate::base::expiry::Moment;
use crate::base::slice::Slice;
use crate::paths::read;

impl Keyspace {
    /// The values of several keys, in the order of `keys`. Each value is as of some moment during
    /// the call; a snapshot reads all at one moment. Cost: one get per key, but pages that are not
    /// cached are read at the same time.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.check_not_dropped()?;
        let state = self.cell.state.load();
        read::multi_get(&self.engine, &state, keys, Moment::PRESENT)
    }

    /// Calls `see` with the place in `keys` and the value of each key that has a value. Values that
    /// memory has come first. A value in a cached block that does not expire is not copied. Each
    /// value is as of some moment during the call; a snapshot reads all at one moment. Cost: as
    /// [`Keyspace::multi_get`]. In a sorted keyspace, many keys in ascending order cost less: a
    /// block that has several of them is found once.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let fruit = db.keyspace("fruit", Layout::sorted())?;
    /// fruit.put("apple", "red")?;
    /// fruit.put("fig", "blue")?;
    /// let mut colors = vec![String::new(); 3];
    /// fruit.visit_values(&["apple", "cherry", "fig"], |at, value| {
    ///     colors[at] = String::from_utf8_lossy(value).into_owned();
    /// })?;
    /// assert_eq!(colors, ["red", "", "blue"]);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`]. Some values were seen before.
    pub fn visit_values<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        see: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        self.check_not_dropped()?;
        let state = self.cell.state.load();
        read::visit_values(&self.engine, &state, keys, Moment::PRESENT, see)
    }

    /// Calls `see` with the value of a key. Returns false if the key has none. Cost: a get, without
    /// the copy of a value that lies in the memtable or in its block. A value that expires, is
    /// merged from operands or has a page of its own is got as by [`Keyspace::get`].
    ///
    /// `see` keeps the value's page and the tree in memory until it returns. It may call the
    /// database: no lock is held.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let fruit = db.keyspace("fruit", Layout::sorted())?;
    /// fruit.put("apple", "red")?;
    /// let mut buffer = [0; 16];
    /// assert!(fruit.visit_value("apple", |value| buffer[..value.len()].copy_from_slice(value))?);
    /// assert_eq!(&buffer[..3], b"red");
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn visit_value(&self, key: impl AsRef<[u8]>, see: impl FnOnce(&[u8])) -> Result<bool> {
        self.check_not_dropped()?;
        let mut see = Some(see);
        let mut see_once = |value: &[u8]| see.take().map(|see| see(value)).is_some();
        let state = self.cell.state.load();
        read::visit_value(&self.engine, &state, key.as_ref(), &mut see_once)
    }
}
