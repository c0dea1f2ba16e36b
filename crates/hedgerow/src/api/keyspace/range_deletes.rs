//! Deletes of many keys at once.

use std::ops::RangeBounds;

use super::Keyspace;
use crate::base::error::Result;
use crate::base::options::Durability;
use crate::paths::delete_range;

/// # Deletes of many keys
impl Keyspace {
    /// Deletes all keys of a range, buffered, at once. Keys put later are not affected. An empty or
    /// inverted range deletes nothing.
    /// Cost: as a put, for each tree that the range covers, whatever the range holds. Reads seek
    /// past the range. Merges give its space back, and tables that lie in the range are dropped
    /// without being read.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let readings = db.keyspace("readings", Layout::sorted())?;
    /// for day in ["2024-01-30", "2024-01-31", "2024-02-01"] {
    ///     readings.put(day, "3.1")?;
    /// }
    /// readings.delete_range("2024-01".."2024-02")?;
    /// assert_eq!(readings.get("2024-01-31")?, None);
    /// assert!(readings.contains_key("2024-02-01")?);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` if keys are not sorted; `InvalidArgument` for a bound that no key can have; as
    /// [`Keyspace::put`].
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.delete_range_with(range, Durability::Buffered)
    }

    /// Deletes a range as [`Keyspace::delete_range`] does, at this durability.
    ///
    /// # Errors
    /// As [`Keyspace::delete_range`].
    pub fn delete_range_with<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        durability: Durability,
    ) -> Result<()> {
        self.check_not_dropped()?;
        let parts = delete_range::of_range(&self.cell.facts, &range)?;
        delete_range::commit(&self.engine, &self.cell, &parts, durability)
    }

    /// Deletes all keys with a prefix, buffered, at once. In a sorted keyspace these are the keys
    /// that begin with `prefix`, in a semi-sorted one those whose first fragment is `prefix`.
    /// Cost: as [`Keyspace::delete_range`]. In a semi-sorted keyspace reads step over the deleted
    /// keys until merges have dropped them, because other prefixes may lie between.
    ///
    /// # Errors
    /// `Unsupported` if keys are hashed, `InvalidArgument` for bytes that can be no prefix; as
    /// [`Keyspace::put`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_prefix_with(prefix, Durability::Buffered)
    }

    /// Deletes a prefix as [`Keyspace::delete_prefix`] does, at this durability.
    ///
    /// # Errors
    /// As [`Keyspace::delete_prefix`].
    pub fn delete_prefix_with(
        &self,
        prefix: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        self.check_not_dropped()?;
        let parts = delete_range::of_prefix(&self.cell.facts, prefix.as_ref())?;
        delete_range::commit(&self.engine, &self.cell, &parts, durability)
    }
}
