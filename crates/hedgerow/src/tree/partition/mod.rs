//! Partitions, which are one LSM-tree each, and the routers that map keys to trees.

#[cfg(test)]
mod conformance;
pub(crate) mod ends;
mod hash;
mod prefix;
mod range;
mod single;
pub(crate) mod watchers;

use std::num::NonZeroU64;
use std::ops::{Bound, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use ends::Ends;
use hedgerow_mem::{CachePadded, ChunkPool};
use watchers::Watchers;

use crate::base::compaction_filter::SharedFilter;
use crate::base::entry::RunId;
use crate::base::entry::{KeyHash, KeyspaceId, PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key_order;
use crate::base::key_order::{Order, SemiSorted};
use crate::base::merge_operator::{KeyspaceOperator, Operators};
use crate::base::mutex::lock;
use crate::base::options::{KeyOrder, Layout, Partitioning};
use crate::base::page::TableId;
use crate::base::range_tombstones::RangeTombstones;
use crate::base::stats::OperationCounters;
use crate::design::allocation::Controller;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::plan::RunningJob;
use crate::group_filter::{Owner, TreeFilters};
use crate::tree::memtable::Memtable;
use crate::tree::version::edit::KeyspaceDescription;
use crate::tree::version::{SuperVersion, Version};

/// The partitions that may hold the keys of a range.
#[derive(Clone)]
pub(crate) struct PartitionRange {
    pub(crate) partitions: Range<usize>,
    /// The split keys of a keyspace's trees, if the trees follow one another in order. Then their
    /// entries are concatenated; otherwise they are merged.
    pub(crate) splits: Option<Arc<[Vec<u8>]>>,
}

/// The bounds of a range of order keys.
pub(crate) type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Maps keys to trees. Fixed when a keyspace is created.
pub(crate) trait Router: std::fmt::Debug + Send + Sync {
    /// The tree of a user key with this hash.
    fn route(&self, user_key: &[u8], hash: KeyHash) -> usize;
    /// The trees that may hold keys within bounds of order keys. In a keyspace that is divided by
    /// key ranges, the order keys are the user keys.
    fn covering(&self, bounds: &KeyBounds) -> PartitionRange;
}

/// The router of the layout of a keyspace with a seed.
pub(crate) fn router(layout: &Layout, seed: u64) -> Box<dyn Router> {
    match (&layout.partitioning, layout.order) {
        (Partitioning::Single, _) => Box::new(single::Single),
        (&Partitioning::Hash(partitions), KeyOrder::SemiSorted(rule)) => {
            let order = SemiSorted { rule, seed };
            Box::new(prefix::Prefix { partitions, order })
        }
        (&Partitioning::Hash(partitions), _) => Box::new(hash::Hash { partitions }),
        (Partitioning::Range(splits), _) => Box::new(range::Range {
            splits: splits.clone(),
        }),
    }
}

/// Scales 16 bits of a hash to a number below `partitions`.
fn scaled(bits: u16, partitions: u16) -> usize {
    ((u32::from(bits) * u32::from(partitions)) >> 16) as usize
}

/// Facts that few keyspaces have.
#[derive(Default)]
pub(crate) struct Extras {
    /// The operation count at the last check for a better design; 0 if there was none.
    pub(crate) looked_at: AtomicU64,
    /// The entries that scans have skipped since this last made a flush due.
    pub(crate) skipped: AtomicU64,
    /// The time to live of puts in milliseconds; 0 is for ever.
    time_to_live: AtomicU64,
    merge_operator: OnceLock<KeyspaceOperator>,
    compaction_filter: Mutex<Option<SharedFilter>>,
}

/// The facts that all partitions of a keyspace share: its layout, and the design in force.
pub(crate) struct KeyspaceFacts {
    pub(crate) id: KeyspaceId,
    name: ArcSwap<String>,
    pub(crate) key_order: KeyOrder,
    pub(crate) partitioning: Partitioning,
    /// Made when it is needed, as there are as many as keyspaces.
    extras: OnceLock<Box<Extras>>,
    /// The seed of the hashes of its keys.
    pub(crate) seed: u64,
    pub(crate) order: Box<dyn Order>,
    pub(crate) router: Box<dyn Router>,
    design: ArcSwap<DesignInForce>,
    /// The bytes of the active memtables of all partitions. Every write changes it.
    pub(crate) active: CachePadded<AtomicU64>,
    pub(crate) operations: OperationCounters,
    /// True if the keyspace adopts the advisor's design.
    pub(crate) tunes_itself: AtomicBool,
    pub(crate) ends: Ends,
    pub(crate) watchers: Watchers,
}

impl KeyspaceFacts {
    pub(crate) fn new(
        id: KeyspaceId,
        keyspace: &KeyspaceDescription,
        design: Arc<DesignInForce>,
        operators: &Operators,
    ) -> Arc<KeyspaceFacts> {
        let layout = keyspace.layout.clone();
        let facts = Arc::new(KeyspaceFacts {
            extras: OnceLock::new(),
            id,
            name: ArcSwap::from_pointee(keyspace.name.clone()),
            seed: keyspace.seed,
            order: key_order::open(layout.order, keyspace.seed),
            router: router(&layout, keyspace.seed),
            key_order: layout.order,
            partitioning: layout.partitioning,
            design: ArcSwap::new(design),
            active: CachePadded::default(),
            operations: OperationCounters::new(keyspace.operations),
            tunes_itself: AtomicBool::new(keyspace.tunes_itself),
            ends: Ends::default(),
            watchers: Watchers::default(),
        });
        if let Some(name) = layout.merge_operator {
            facts.set_merge_operator(operators.named(&name));
        }
        facts
    }

    /// Made when it is asked for.
    pub(crate) fn extras(&self) -> &Extras {
        self.extras.get_or_init(Box::default)
    }

    fn operator(&self) -> Option<&KeyspaceOperator> {
        self.extras.get()?.merge_operator.get()
    }

    /// The whole layout.
    pub(crate) fn layout(&self) -> Layout {
        let operator = self.operator().map(|it| it.name.as_str().into());
        Layout {
            order: self.key_order,
            partitioning: self.partitioning.clone(),
            merge_operator: operator,
        }
    }

    /// The merge operator; `Unsupported` if there is none.
    pub(crate) fn merge_operator(&self) -> Result<&KeyspaceOperator> {
        self.operator().ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "expected a keyspace with a merge operator, found that `{}` has none: name one \
                     in its layout",
                    self.name()
                ),
            )
        })
    }

    /// The time of expiry of a put without one of its own, by the keyspace's time to live.
    #[inline]
    pub(crate) fn expiry_of_puts(&self, now: impl FnOnce() -> u64) -> Option<u64> {
        match self.extras.get()?.time_to_live.load(Ordering::Relaxed) {
            0 => None,
            ms => Some(now().saturating_add(ms)),
        }
    }

    /// The filter that merges ask.
    pub(crate) fn compaction_filter(&self) -> Option<SharedFilter> {
        lock(&self.extras.get()?.compaction_filter).clone()
    }

    pub(crate) fn set_compaction_filter(&self, filter: Option<SharedFilter>) {
        *lock(&self.extras().compaction_filter) = filter;
    }

    /// Gives puts a time to live in milliseconds; 0 is for ever.
    pub(crate) fn set_time_to_live(&self, ms: u64) {
        self.extras().time_to_live.store(ms, Ordering::Relaxed);
    }

    /// Gives the keyspace a merge operator. The edit that does so must be durable.
    pub(crate) fn set_merge_operator(&self, operator: KeyspaceOperator) {
        // It has none: the edit would not be durable.
        let _ = self.extras().merge_operator.set(operator);
    }

    /// The range tombstone of an operation of the log.
    pub(crate) fn range_tombstone(
        &self,
        user_key: &[u8],
        value: &[u8],
        seqno: SeqNo,
    ) -> Result<RangeTombstones> {
        let order = (self.key_order, &*self.order);
        RangeTombstones::of_operation((user_key, value), seqno, order)
    }

    pub(crate) fn name(&self) -> String {
        (**self.name.load()).clone()
    }

    /// Gives the keyspace another name. The edit that does so must be durable.
    pub(crate) fn rename(&self, name: &str) {
        self.name.store(Arc::new(name.to_owned()));
    }

    pub(crate) fn design(&self) -> Guard<Arc<DesignInForce>> {
        self.design.load()
    }

    /// The present design, for a job that keeps it until its end.
    pub(crate) fn design_owned(&self) -> Arc<DesignInForce> {
        self.design.load_full()
    }

    /// The owner that filters of a partition name.
    pub(crate) fn owner(&self, partition: PartitionId) -> Owner {
        Owner {
            keyspace: self.id,
            partition,
            hash_seed: self.seed,
        }
    }

    pub(crate) fn set_design(&self, design: Arc<DesignInForce>) {
        self.design.store(design);
    }
}

/// One tree.
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    /// Its position among the keyspace's partitions.
    pub(crate) index: usize,
    pub(crate) keyspace: Arc<KeyspaceFacts>,
    tree: ArcSwap<SuperVersion>,
    /// Held while a new version of the tree replaces the old one.
    replacing: Mutex<()>,
    /// The number of the latest write; stored inside the commit's critical section.
    latest_write: OnceLock<Arc<CachePadded<AtomicU64>>>,
    /// The log segment in which this partition is registered.
    registered_in: AtomicU32,
    /// The segment in which nothing is left to do for a write: the one of `registered_in`, or 0
    /// while pops or transactions watch the keyspace. One comparison per write serves all.
    pub(crate) log_segment: AtomicU32,
    pub(crate) work: Mutex<Work>,
    pub(crate) filters: TreeFilters,
    /// True if the partition was dropped or cleared: no new work begins, and its tables are removed
    /// when they have no holders.
    dropped: AtomicBool,
    /// The number of running jobs that change the tree, until each has let go of its tables.
    pub(crate) jobs: AtomicU32,
}

/// The state of a tree's background jobs.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) flushing: bool,
    /// True while the operands of a key are merged down.
    pub(crate) folding: bool,
    pub(crate) running: Vec<RunningJob>,
    /// The newest run of level 0 at the last look at it, and one more than the number of gets and
    /// of seeks when each looked last, if it did.
    pub(crate) reads_since: Option<(RunId, [Option<NonZeroU64>; 2])>,
    /// The time when the tree was given another design, until the tree has the shape of that
    /// design.
    pub(crate) retuned_at: Option<Duration>,
    /// Steers the bits of filters.
    pub(crate) filters: Controller,
    /// True while filters over its runs are being built.
    pub(crate) probing: bool,
    /// True while its blocks are being read into the page cache.
    pub(crate) warming: bool,
    /// The first table that warming has not visited.
    pub(crate) warmed: Option<TableId>,
    /// The error of the last flush, until it is tried again; also that of a merge that was to make
    /// room for a flush.
    pub(crate) flush_failure: Option<Error>,
    /// The error of the last merge or filter, until it is tried again. A record of its own, because
    /// a flush that has room succeeds whatever merges do.
    pub(crate) merge_failure: Option<Error>,
}

impl Partition {
    pub(crate) fn new(
        id: PartitionId,
        index: usize,
        keyspace: Arc<KeyspaceFacts>,
        version: Arc<Version>,
        flushed_through: SeqNo,
        pool: &Arc<ChunkPool>,
    ) -> Arc<Partition> {
        let tree = SuperVersion::new(Memtable::new(pool), version, flushed_through);
        Arc::new(Partition {
            id,
            index,
            keyspace,
            tree: ArcSwap::from_pointee(tree),
            replacing: Mutex::new(()),
            latest_write: OnceLock::new(),
            registered_in: AtomicU32::new(0),
            log_segment: AtomicU32::new(0),
            work: Mutex::default(),
            filters: TreeFilters::default(),
            dropped: AtomicBool::new(false),
            jobs: AtomicU32::new(0),
        })
    }

    /// The number of the latest write.
    #[inline]
    pub(crate) fn latest_write(&self) -> &Arc<CachePadded<AtomicU64>> {
        self.latest_write.get_or_init(Arc::default)
    }

    /// The number of the latest write since the database was opened; 0 if there was none.
    pub(crate) fn latest_number(&self) -> SeqNo {
        let latest = self.latest_write.get();
        SeqNo(latest.map_or(0, |it| it.load(Ordering::Acquire)))
    }

    /// Records that the partition writes into a segment. Returns false if it did so before. Inside
    /// the commit's critical section.
    pub(crate) fn register_in(&self, segment: u32) -> bool {
        let watched = self.keyspace.ends.is_watched() || self.keyspace.watchers.is_watched();
        let settled_in = if watched { 0 } else { segment };
        self.log_segment.store(settled_in, Ordering::Relaxed);
        self.registered_in.swap(segment, Ordering::Relaxed) != segment
    }

    /// The present tree, for the duration of one call.
    #[inline]
    pub(crate) fn tree(&self) -> Guard<Arc<SuperVersion>> {
        self.tree.load()
    }

    /// The present tree, for as long as the caller holds it.
    pub(crate) fn tree_owned(&self) -> Arc<SuperVersion> {
        self.tree.load_full()
    }

    pub(crate) fn work(&self) -> MutexGuard<'_, Work> {
        lock(&self.work)
    }

    /// Seals the active memtable: numbers from `at` on go to a new one. Inside the commit's
    /// critical section. Returns false if there is nothing to seal.
    pub(crate) fn seal(&self, at: SeqNo, pool: &Arc<ChunkPool>) -> bool {
        let _replacing = lock(&self.replacing);
        let tree = self.tree.load();
        if tree.active.is_empty() {
            return false;
        }
        tree.active.seal(at);
        self.tree
            .store(Arc::new(tree.with_active(Memtable::new(pool))));
        true
    }

    /// Installs a version, and removes the memtable whose entries it has.
    pub(crate) fn install(&self, version: Arc<Version>, flushed: Option<(&Arc<Memtable>, SeqNo)>) {
        let _replacing = lock(&self.replacing);
        let tree = self.tree.load();
        self.tree
            .store(Arc::new(tree.with_version(version, flushed)));
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Marks the partition dropped: no new work begins, and the files of its tables are removed
    /// when they have no readers. The edit that drops the partition is already durable.
    pub(crate) fn mark_dropped(&self) {
        let _replacing = lock(&self.replacing);
        self.dropped.store(true, Ordering::Release);
        self.tree
            .load()
            .version
            .tables()
            .for_each(|(_, table)| table.mark_obsolete());
    }
}

/// The name of the directory of tables under the database's directory.
pub(crate) fn tables_dir(root: &std::path::Path) -> PathBuf {
    root.join("tables")
}
