//! Compaction filters: functions that look at entries when these are merged.

use std::sync::Arc;

/// Decides about the values of a keyspace when they are merged
/// ([`Keyspace::set_compaction_filter`](crate::Keyspace::set_compaction_filter)).
///
/// A filter never sees a value that an open snapshot sees, an operand, or a deleted or expired
/// value. Until a value is merged, every read finds it as it is. The functions run in background
/// merges, on any thread, and must not call the database: what they need of it, they get before, or
/// in
/// [`CompactionFilter::prepare`] from elsewhere. A panic fails the merge and loses nothing.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use std::sync::Arc;
///
/// use hedgerow::{CompactionFilter, Db, FilterPass, FilteredMerge, Layout, Verdict};
///
/// /// Removes the values of a tenant that is gone.
/// struct Tenant(Vec<u8>);
///
/// impl CompactionFilter for Tenant {
///     fn prepare(&self, _merge: &FilteredMerge) -> Box<dyn FilterPass> {
///         let gone = self.0.clone();
///         Box::new(move |key: &[u8], _value: &[u8]| match key.starts_with(&gone) {
///             true => Verdict::Remove,
///             false => Verdict::Keep,
///         })
///     }
/// }
///
/// let db = Db::open(dir.path())?;
/// let documents = db.keyspace("documents", Layout::sorted())?;
/// documents.put("acme/1", "text")?;
/// documents.put("zeta/1", "text")?;
/// documents.set_compaction_filter(Some(Arc::new(Tenant(b"acme/".to_vec()))));
/// documents.compact::<&str>(..)?;
/// assert_eq!(documents.scan_all()?.count(), 1);
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub trait CompactionFilter: Send + Sync + 'static {
    /// Called at the beginning of each merge. The pass that it returns serves all threads of it.
    fn prepare(&self, merge: &FilteredMerge) -> Box<dyn FilterPass>;
}

/// A filter during one merge. A function from key and value to a verdict is one.
pub trait FilterPass: Send + Sync {
    /// Decides about a value. Keys ascend within each thread of the merge.
    fn decide(&self, key: &[u8], value: &[u8]) -> Verdict;
}

impl<F: Fn(&[u8], &[u8]) -> Verdict + Send + Sync> FilterPass for F {
    fn decide(&self, key: &[u8], value: &[u8]) -> Verdict {
        self(key, value)
    }
}

/// The merge that a filter is prepared for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilteredMerge {
    /// The name of the keyspace.
    pub keyspace: String,
    /// The index of the tree in the keyspace.
    pub partition: usize,
    /// The level that it writes to.
    pub level: usize,
    /// True if no deeper level has entries.
    pub is_last_level: bool,
}

/// The decision about a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It stays.
    Keep,
    /// The key is deleted, as by a delete with the number of the value: older values do not come
    /// back.
    Remove,
    /// This value takes its place, with the same number and expiry. One that is too long is not
    /// taken.
    Replace(Vec<u8>),
    /// It is removed, and so is all that the merge holds below this key and that the filter would
    /// be asked about. A key that is not behind the present one removes the present one only. So
    /// does every key unless keys are sorted ([`KeyOrder`](crate::KeyOrder)).
    SkipTo(Vec<u8>),
}

/// The filter of a keyspace.
pub(crate) type SharedFilter = Arc<dyn CompactionFilter>;
