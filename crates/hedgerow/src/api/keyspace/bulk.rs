//! Loading entries directly into tables.

use crate::base::error::Error;
use crate::paths::bulk_load::{BulkLoad, BulkLoadReport, LoadOp};

use super::Keyspace;

impl Keyspace {
    /// Puts entries directly into tables, past the log and the memtables: the way to fill a
    /// keyspace. The keys must ascend in a sorted keyspace, and may come in any order in others;
    /// each key comes once.
    ///
    /// Streams its input, so it may be of any length. The load commits once, in all partitions,
    /// when it returns: it overwrites everything written before that moment, and later writes
    /// overwrite it. It is durable then. A snapshot taken before does not see it. Each table goes
    /// to the deepest level that has no overlapping table above it, so a load of new keys merges
    /// nothing.
    ///
    /// Cost: writes every entry once; at the end flushes the keyspace's memtables and syncs the log
    /// and the manifest. Writes of other threads wait for these syncs. Unless the keyspace is
    /// sorted, the entries are sorted first: those beyond the memory of merges are written once
    /// more.
    ///
    /// ```
    /// # use hedgerow::{Db, Error, ErrorKind, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let squares = db.keyspace("squares", Layout::sorted())?;
    /// let entries =
    ///     (0..1000_u64).map(|i| Ok::<_, Error>((i.to_be_bytes(), (i * i).to_be_bytes())));
    /// assert_eq!(squares.bulk_load(entries)?.entries, 1000);
    /// assert_eq!(squares.get(9_u64.to_be_bytes())?.as_deref(), Some(&81_u64.to_be_bytes()[..]));
    ///
    /// let unsorted = [("b", "1"), ("a", "2")].map(Ok::<_, Error>);
    /// assert_eq!(squares.bulk_load(unsorted).unwrap_err().kind(), ErrorKind::InvalidArgument);
    /// assert_eq!(squares.get("b")?, None);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The first error of `entries`; the errors of [`Keyspace::put`] and [`Keyspace::flush`];
    /// `InvalidArgument` for a key that is not above the one before, or that is repeated;
    /// `Conflict` when merges are too far behind; `Closed` also if the keyspace was cleared
    /// meanwhile. After an error nothing was put. After `Poisoned` this is unknown until the
    /// database is opened again.
    pub fn bulk_load<K, V, E>(
        &self,
        entries: impl IntoIterator<Item = Result<(K, V), E>>,
    ) -> Result<BulkLoadReport, E>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        E: From<Error>,
    {
        let put = |entry: Result<(K, V), E>| entry.map(|(key, value)| (key, LoadOp::Put(value)));
        self.bulk_load_ops(entries.into_iter().map(put))
    }

    /// Loads as [`Keyspace::bulk_load`] does, also values that expire, operands and deletes.
    ///
    /// # Errors
    /// As [`Keyspace::bulk_load`]; for operands as [`Keyspace::merge`].
    pub fn bulk_load_ops<K, V, E>(
        &self,
        entries: impl IntoIterator<Item = Result<(K, LoadOp<V>), E>>,
    ) -> Result<BulkLoadReport, E>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
        E: From<Error>,
    {
        self.check_not_dropped()?;
        let state = self.cell.state.load_full();
        let mut load = BulkLoad::begin(&self.engine, &state)?;
        for entry in entries {
            let (key, op) = entry?;
            load.apply(key.as_ref(), &op)?;
        }
        Ok(load.finish()?)
    }
}
