//! Explains step by step how a get finds its answer. The lookup is that of [`crate::paths::read`],
//! with an observer that records each step; it counts in the statistics like any other get.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::entry::{KeyHash, Kind, SeqNo, Tag};
use crate::base::error::Result;
use crate::base::expiry::Moment;
use crate::base::key_order::Order;
use crate::base::page::{PageClass, PageId};
use crate::base::slice::Slice;
use crate::base::stats::WorkerStats;
use crate::group_filter::GroupProbe;
use crate::paths::read;
use crate::paths::read::{Observer, RunPlace, Want};
use crate::table::filter::RunMask;
use crate::table::{GetState, Lookup, Table};
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::memtable::Memtable;

/// The steps of a get of one key, in order.
///
/// ```
/// # use hedgerow::{Db, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// let db = Db::open(dir.path())?;
/// let users = db.keyspace("users", Layout::sorted())?;
/// users.put("ada", "1815")?;
/// users.flush()?;
/// let explanation = users.explain("ada")?;
/// assert_eq!(explanation.value.as_deref(), Some(&b"1815"[..]));
/// assert_eq!(explanation.memtables[0].found, None);
/// let table = explanation.runs[0].table.as_ref().unwrap();
/// assert!(table.found.is_some());
/// assert_eq!(explanation.pages().count(), 1);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Explanation {
    /// The index of the tree that the key lives in.
    pub partition: usize,
    /// The number of trees of the keyspace.
    pub partitions: usize,
    /// The worker that makes asynchronous calls for the key, and its queue now.
    pub worker: Option<WorkerStats>,
    /// The memtables probed, newest first.
    pub memtables: Vec<MemtableProbe>,
    /// The filters over several runs probed, by level. A level's filters come before its runs.
    pub group_filters: Vec<GroupFilterProbe>,
    /// The runs probed, by level, and newest first within a level. None if a memtable answered.
    pub runs: Vec<RunProbe>,
    /// The result of the get: `None` if there is no entry, or if the newest is a tombstone.
    pub value: Option<Slice>,
}

impl Explanation {
    /// The entry that answered: the last one found.
    pub fn found(&self) -> Option<FoundEntry> {
        let in_memtables = self.memtables.iter().filter_map(|memtable| memtable.found);
        in_memtables
            .chain(self.tables().filter_map(|table| table.found))
            .last()
    }

    /// The tables probed, in order.
    pub fn tables(&self) -> impl Iterator<Item = &TableProbe> {
        self.runs.iter().filter_map(|run| run.table.as_ref())
    }

    /// The pages requested, cached or not, in order: first those of filters over several runs, then
    /// those of tables.
    pub fn pages(&self) -> impl Iterator<Item = &PageRequest> {
        let filters = self.group_filters.iter();
        let of_filters = filters.filter_map(|filter| filter.page.as_ref());
        of_filters.chain(self.tables().flat_map(|table| &table.pages))
    }

    /// The number of pages that were not cached, each of which took one read.
    pub fn reads(&self) -> usize {
        self.pages().filter(|page| !page.cached).count()
    }

    /// The number of tables whose filter was probed.
    pub fn filter_probes(&self) -> usize {
        let is_probed = |table: &&TableProbe| table.filter != FilterAnswer::Missing;
        self.tables().filter(is_probed).count()
    }

    /// The number of tables without an entry of the key whose filter let the get through.
    pub fn filter_false_positives(&self) -> usize {
        let passed = |table: &&TableProbe| table.filter == FilterAnswer::Maybe;
        let passed = self.tables().filter(passed);
        passed.filter(|table| table.found.is_none()).count()
    }
}

/// The newest entry of the key in a memtable or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoundEntry {
    /// Its sequence number.
    pub seqno: u64,
    /// A put, or the tombstone of a delete.
    pub kind: Kind,
}

/// A memtable that was probed. Cost: no I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemtableProbe {
    /// It takes no more writes and waits to be flushed.
    pub sealed: bool,
    /// The entries in it.
    pub entries: usize,
    /// The key's newest entry in it, which ends the lookup.
    pub found: Option<FoundEntry>,
}

/// A filter over several runs of the key's group. Cost: none, or one page of a cluster that is not
/// in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupFilterProbe {
    /// The level, from 0.
    pub level: usize,
    /// The group within the level, from 0.
    pub group: usize,
    /// The number of runs of the group that may hold the key after its answer, including runs that
    /// it does not cover.
    pub runs_left: usize,
    /// The page requested.
    pub page: Option<PageRequest>,
}

/// A run of the key's group. Cost: none if no table's bounds hold the key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunProbe {
    /// The level, from 0.
    pub level: usize,
    /// The group within the level, from 0.
    pub group: usize,
    /// The index of the run within the group; 0 is the newest.
    pub run: usize,
    /// The one table whose bounds hold the key, if any.
    pub table: Option<TableProbe>,
}

/// A table that was probed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableProbe {
    /// The file.
    pub path: PathBuf,
    /// The number of the table.
    pub number: u64,
    /// The keys of its first and of its last entry.
    pub bounds: (Vec<u8>, Vec<u8>),
    /// True if this was the table's first read since the database was opened. Then its footer was
    /// read first, and its index and filter if they are to be resident: a few reads that are not in
    /// `pages`.
    pub opened: bool,
    /// The answer of its filter.
    pub filter: FilterAnswer,
    /// The pages requested.
    pub pages: Vec<PageRequest>,
    /// The key's newest entry in it, which ends the lookup.
    pub found: Option<FoundEntry>,
}

/// The answer of a table's filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterAnswer {
    /// The table has no filter.
    Missing,
    /// The key is certainly not there.
    No,
    /// The key may be there. If the table has no entry of it, this was a false positive.
    Maybe,
}

/// A page that a table requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageRequest {
    /// The class of its contents.
    pub class: PageClass,
    /// Its offset in the table's file.
    pub offset: u64,
    /// Its stored size in bytes, with its trailer.
    pub bytes: u32,
    /// True if it was in the page cache; otherwise one read fetched it from the file.
    pub cached: bool,
}

/// See [`crate::Keyspace::explain`].
pub(crate) fn explain(
    engine: &Arc<Engine>,
    state: &KeyspaceState,
    user_key: &[u8],
) -> Result<Explanation> {
    let mut trace = Trace {
        order: &*state.facts.order,
        memtables: Vec::new(),
        group_filters: Vec::new(),
        probe_page: None,
        runs: Vec::new(),
    };
    let value = read::get_observed(
        engine,
        state,
        user_key,
        Moment::PRESENT,
        Want::Value,
        &mut trace,
    )?;
    let hash = KeyHash::of(user_key, state.facts.seed);
    let partition = state.route(user_key, hash).index;
    let asynchronous = &engine.asynchronous;
    let worker = asynchronous.worker_of(partition);
    Ok(Explanation {
        partition,
        partitions: state.partitions.len(),
        worker: asynchronous.worker_stats(&engine.catalog.load(), worker),
        memtables: trace.memtables,
        group_filters: trace.group_filters,
        runs: trace.runs,
        value,
    })
}

/// The steps observed so far.
struct Trace<'a> {
    order: &'a dyn Order,
    memtables: Vec<MemtableProbe>,
    group_filters: Vec<GroupFilterProbe>,
    /// The page of the filter that has not answered yet.
    probe_page: Option<PageRequest>,
    runs: Vec<RunProbe>,
}

impl Trace<'_> {
    /// The table that is being probed, or has just answered.
    fn table(&mut self) -> &mut TableProbe {
        let probed = self.runs.last_mut().and_then(|run| run.table.as_mut());
        probed.expect("a lookup names the table before what it asks of it")
    }
}

impl Observer for Trace<'_> {
    fn memtable(&mut self, memtable: &Memtable, found: Option<(SeqNo, Tag)>) {
        self.memtables.push(MemtableProbe {
            sealed: memtable.sealed_at().is_some(),
            entries: memtable.entries() as usize,
            found: found.map(|(seqno, tag)| found_entry(seqno, tag)),
        });
    }

    fn run(&mut self, place: RunPlace, table: Option<&Arc<Table>>) {
        let user_key = |key: &[u8]| self.order.decode(key).to_vec();
        let table = table.map(|table| TableProbe {
            path: table.path().to_path_buf(),
            number: table.meta().id.0,
            bounds: (
                user_key(&table.meta().smallest_key),
                user_key(&table.meta().largest_key),
            ),
            opened: !table.is_open(),
            filter: FilterAnswer::Missing,
            pages: Vec::new(),
            found: None,
        });
        self.runs.push(RunProbe {
            level: place.level,
            group: place.group,
            run: place.run,
            table,
        });
    }

    fn narrowed(&mut self, level: usize, group: usize, left: RunMask) {
        self.group_filters.push(GroupFilterProbe {
            level,
            group,
            runs_left: left.0.count_ones() as usize,
            page: self.probe_page.take(),
        });
    }

    fn probe_page(&mut self, probe: &GroupProbe, id: PageId) {
        self.probe_page = Some(page_request(id, probe.pages.has_cached(id)));
    }

    fn page(&mut self, table: &Table, id: PageId) {
        let page = page_request(id, table.pages().has_cached(id));
        self.table().pages.push(page);
    }

    fn answered(&mut self, state: &GetState, lookup: &Lookup) {
        let table = self.table();
        table.filter = match (state.filter_probed, state.filter_passed) {
            (false, _) => FilterAnswer::Missing,
            (true, false) => FilterAnswer::No,
            (true, true) => FilterAnswer::Maybe,
        };
        if let Lookup::Found { seqno, tag, .. } = lookup {
            table.found = Some(found_entry(*seqno, *tag));
        }
    }
}

fn page_request(id: PageId, cached: bool) -> PageRequest {
    PageRequest {
        class: id.class,
        offset: id.handle.offset,
        bytes: id.handle.bytes,
        cached,
    }
}

fn found_entry(seqno: SeqNo, tag: Tag) -> FoundEntry {
    FoundEntry {
        seqno: seqno.0,
        kind: tag.kind,
    }
}
