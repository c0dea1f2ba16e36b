//! One merge of tables, piece by piece: entries in, tables out.
//!
//! The inputs bypass the page cache, so that a merge does not evict pages that reads need. The
//! outputs stay in the system's cache, where reads find them. Large merges are divided by key range
//! over the free threads of the pool.

mod piece;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::base::compaction_filter::{FilteredMerge, SharedFilter};
use crate::base::entry::{RunId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::mutex::lock;
use crate::base::page::{Page, PageId, TableId};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::runtime::Priority;
use crate::base::stats::OperationKind;
use crate::base::table_meta::TableMeta;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::plan::{Input, Target};
use crate::design::merge_policy::shape::Facts;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::table::Table;
use crate::table::iter::concat::{ConcatIter, Parts};
use crate::table::iter::merge::MergeIter;
use crate::table::iter::{Entry, InternalIter, ValueSource};
use crate::table::open::{STREAM_BYTES_MAX, STREAM_BYTES_MIN, StreamedPages};
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;
use crate::tree::snapshot_list::SnapshotFacts;
use crate::tree::version::Version;

use super::filtering::MergeFilter;
use super::filters::{self, FilterAllotment};
use super::output::Below;
use super::retain::Retain;

use piece::{MergePosition, Piece};

/// A merge is cut into pieces of at least this many output tables.
const PIECE_TABLES_MIN: u64 = 2;
/// The number of entries between two checks whether to continue.
const CHECK_ENTRIES: u64 = 1024;

/// The facts that all pieces of a merge share.
struct Merge {
    engine: Arc<Engine>,
    partition: Arc<Partition>,
    design: Arc<DesignInForce>,
    version: Arc<Version>,
    /// The tables of each input run, newest run first.
    inputs: Vec<Vec<Arc<Table>>>,
    by_id: BTreeMap<TableId, Arc<Table>>,
    held: SnapshotFacts,
    filtering: Option<MergeFilter>,
    /// The range tombstones of all inputs.
    ranges: RangeTombstones,
    /// The largest number that an entry may have.
    published: SeqNo,
    target: Target,
    run: RunId,
    filter: FilterAllotment,
}

/// The result of a merge: its edit replaces the inputs by the outputs.
pub(crate) struct MergeOutput {
    pub(crate) edit: TreeEdit,
    pub(super) read_bytes: u64,
    /// If a filter has changed what readers see: the registration of the first snapshot that must
    /// not see the change.
    pub(super) filtered_before: Option<u64>,
}

/// Writes the outputs of a merge of these tables. Recovery does this, too.
pub(crate) fn merge_tables(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    design: &Arc<DesignInForce>,
    inputs: &[Input],
    target: &Target,
    filter: Option<SharedFilter>,
) -> Result<MergeOutput> {
    let merge = Arc::new(Merge::new(
        engine, partition, design, inputs, target, filter,
    )?);
    let outputs = merge.run_pieces()?;
    let puts = |meta: &TableMeta| meta.entries - meta.tombstones;
    let before: u64 = merge.by_id.values().map(|table| puts(table.meta())).sum();
    let replaced = before.saturating_sub(outputs.iter().map(puts).sum());
    partition
        .keyspace
        .operations
        .add(OperationKind::Replaced, replaced);
    let mut edit = TreeEdit::new(partition.id);
    edit.removed = merge.by_id.keys().copied().collect();
    let place = |meta: &TableMeta| merge.version.placement(target.level, merge.run, meta);
    edit.added = outputs
        .into_iter()
        .map(|meta| (place(&meta), meta))
        .collect();
    let filtering = merge.filtering.as_ref();
    let is_filtered = filtering.is_some_and(|it| it.has_changed.load(Ordering::Relaxed));
    Ok(MergeOutput {
        edit,
        read_bytes: merge.read_bytes(),
        filtered_before: is_filtered.then_some(merge.held.next),
    })
}

/// The tables of a piece, and the number of entries that it read.
type PieceResult = Mutex<Option<Result<(Vec<TableMeta>, u64)>>>;

impl Merge {
    fn new(
        engine: &Arc<Engine>,
        partition: &Arc<Partition>,
        design: &Arc<DesignInForce>,
        inputs: &[Input],
        target: &Target,
        filter: Option<SharedFilter>,
    ) -> Result<Merge> {
        let version = partition.tree_owned().version.clone();
        let tables_of = |input: &Input| -> Result<Vec<Arc<Table>>> {
            let tables = input.tables.iter();
            tables.map(|&id| table_of(&version, id).cloned()).collect()
        };
        let inputs: Vec<_> = inputs.iter().map(tables_of).collect::<Result<_>>()?;
        let tables = inputs.iter().flatten();
        let by_id: BTreeMap<_, _> = tables.map(|it| (it.meta().id, it.clone())).collect();
        let lists = by_id
            .values()
            .filter_map(|table| table.ranges().transpose());
        let lists = lists.collect::<Result<Vec<_>>>()?;
        let held = engine.held();
        let last = version.levels.iter().rposition(|level| !level.is_empty());
        let filtering = filter.map(|filter| {
            let pass = filter.prepare(&FilteredMerge {
                keyspace: partition.keyspace.name(),
                partition: partition.index,
                level: target.level,
                is_last_level: last.is_none_or(|last| last <= target.level),
            });
            MergeFilter::new(pass, &held.snapshots)
        });
        Ok(Merge {
            engine: engine.clone(),
            partition: partition.clone(),
            design: design.clone(),
            run: target
                .run
                .unwrap_or(RunId(engine.writer()?.ids.next_table().0)),
            filter: filters::of_merge(&engine.memory, partition, design, &version, &by_id, target),
            ranges: RangeTombstones::merged(lists.into_iter().map(|it| &**it)),
            inputs,
            by_id,
            version,
            held,
            filtering,
            // Read after the snapshots, so that an installed bulk load is published.
            published: SeqNo(engine.publisher.published()),
            target: *target,
        })
    }

    /// The bytes of the input tables.
    fn read_bytes(&self) -> u64 {
        let tables = self.by_id.values();
        tables.map(|table| table.meta().file_bytes).sum()
    }

    /// Merges piece by piece, in parallel. Returns the tables in key order.
    fn run_pieces(self: &Arc<Self>) -> Result<Vec<TableMeta>> {
        let wanted = (self.read_bytes() / (PIECE_TABLES_MIN * self.design.table_bytes))
            .clamp(1, self.engine.scheduler.merge_threads() as u64);
        let cuts = self.cuts(wanted as usize)?;
        let results: Arc<Vec<PieceResult>> =
            Arc::new((0..=cuts.len()).map(|_| Mutex::new(None)).collect());
        let mut pieces: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for i in 0..=cuts.len() {
            let lower = i.checked_sub(1).map(|before| cuts[before].clone());
            let upper = cuts.get(i).cloned();
            let (merge, results) = (self.clone(), results.clone());
            pieces.push(Box::new(move || {
                let result = merge.run_piece(lower.as_deref(), upper.as_deref());
                *lock(&results[i]) = Some(result);
            }));
        }
        self.engine.scheduler.run_all(Priority::MergeTop, pieces);
        let (mut outputs, mut found) = (Vec::new(), 0);
        let mut failure = None;
        for result in results.iter() {
            // This thread has run every piece that no other thread took.
            let panicked = || Err(Error::new(ErrorKind::Io, "a piece of a merge panicked"));
            match lock(result).take().unwrap_or_else(panicked) {
                Ok((tables, entries)) => {
                    outputs.extend(tables);
                    found += entries;
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // Each entry is in one piece.
        let entries = self.by_id.values().map(|table| table.meta().entries);
        let entries = entries.fold(0, u64::saturating_add);
        if failure.is_none() && found != entries {
            failure = Some(self.damaged(format!("expected {entries} entries, found {found}")));
        }
        let Some(error) = failure else {
            return Ok(outputs);
        };
        self.engine.remove_unnamed(&self.partition, &outputs);
        Err(error)
    }

    /// Keys that cut the inputs into about this many pieces of similar size.
    fn cuts(&self, pieces: usize) -> Result<Vec<Vec<u8>>> {
        if pieces < 2 {
            return Ok(Vec::new());
        }
        let mut keys = Vec::new();
        for table in self.inputs.iter().flatten() {
            keys.push(table.meta().smallest_key.clone());
            keys.extend(table.reader()?.split_keys(4));
        }
        let places = keys.iter().filter_map(|key| self.ranges.cut_near(key));
        let mut keys: Vec<_> = places.collect();
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let cut = |i: usize| keys[i * keys.len() / pieces].clone();
        let mut cuts: Vec<_> = (1..pieces).map(cut).collect();
        cuts.dedup();
        Ok(cuts)
    }

    /// Merges the keys from `lower` (inclusive) to `upper` (exclusive).
    fn run_piece(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> Result<(Vec<TableMeta>, u64)> {
        let engine = &*self.engine;
        // A stream holds a part of one table at a time.
        let held_by = |tables: &Vec<Arc<Table>>| {
            let largest = tables.iter().map(|t| t.meta().file_bytes).max();
            self.stream_bytes().min(largest.unwrap_or(0) as usize)
        };
        let held: usize = self.inputs.iter().map(held_by).sum();
        let _buffers = engine.memory.buffers(held);
        self.merge_range(lower, upper)
    }

    /// The bytes of each input that are read at once. The inputs of all merges that may run share
    /// the memory of merges.
    fn stream_bytes(&self) -> usize {
        let merges = self.engine.scheduler.merge_threads_max() * self.inputs.len().max(1);
        let share = self.engine.memory.plan().merges as usize / 2 / merges;
        share.clamp(STREAM_BYTES_MIN, STREAM_BYTES_MAX)
    }

    fn merge_range(
        &self,
        lower: Option<&[u8]>,
        upper: Option<&[u8]>,
    ) -> Result<(Vec<TableMeta>, u64)> {
        let sources = self.inputs.iter().map(|tables| {
            let streamed = InputTables(tables.clone(), self.stream_bytes());
            Box::new(ConcatIter::new(streamed)) as Box<dyn InternalIter>
        });
        let mut merged = MergeIter::new(sources.collect());
        match lower {
            Some(key) => merged.seek(key, SeqNo::MAX)?,
            None => merged.seek_first()?,
        }
        let mut piece = Piece::new(self, lower, upper);
        let mut reached =
            MergePosition::new(lower.or(self.keys().map(|keys| keys.0)), self.published);
        let mut entries = 0u64;
        while let Some(entry) = merged.entry() {
            let is_new = reached.pass(&entry).map_err(|found| self.damaged(found))?;
            if is_new && upper.is_some_and(|upper| entry.key >= upper) {
                break;
            }
            entries += 1;
            if entries.is_multiple_of(CHECK_ENTRIES) {
                self.engine.check_open()?;
            }
            piece.take(entry, is_new)?;
            merged.advance()?;
        }
        piece.write_folded()?;
        if self
            .keys()
            .is_some_and(|(_, largest)| *reached.key > *largest)
        {
            return Err(self.damaged(format!(
                "expected keys within those of the tables, found {:?}",
                reached.key
            )));
        }
        Ok((piece.output.finish()?, entries))
    }

    /// An entry that may expire; a delete if it has expired for every reader.
    #[cold]
    fn or_expired<'e>(&self, entry: Entry<'e>, retain: &Retain) -> Result<Entry<'e>> {
        let is_expired = match entry.value {
            ValueSource::Inline(stored) => retain.is_expired(stored)?,
            ValueSource::OutOfLine { page, .. } => retain.is_expired(&self.read_page(page)?)?,
        };
        Ok(if is_expired { entry.deleted() } else { entry })
    }

    /// A value that is a page of its own.
    fn read_page(&self, page: PageId) -> Result<Page> {
        let table = self.by_id.get(&page.table).ok_or_else(|| {
            Error::corruption(format!(
                "expected a value in an input table, found table {}",
                page.table.0
            ))
        })?;
        table.read_page(page)
    }

    /// The error of the first damaged input. The outputs of such a merge would be wrong.
    #[cold]
    fn damaged(&self, noticed: String) -> Error {
        Table::culprit(self.by_id.values(), Error::corruption(noticed))
    }

    /// Returns true if keys within these bounds may have older entries outside of the inputs.
    fn has_older(&self, bounds: (&[u8], &[u8])) -> bool {
        let (level, run) = (self.target.level, Some(self.run));
        let is_input = |id| self.by_id.contains_key(&id);
        self.version.older_overlaps(level, run, bounds, is_input)
    }

    /// Returns true if this key may have older entries outside of the inputs.
    fn has_older_of(&self, key: &[u8]) -> bool {
        let (level, run) = (self.target.level, Some(self.run));
        let is_input = |id| self.by_id.contains_key(&id);
        self.version.older_may_hold(level, run, key, is_input)
    }

    /// The number up to which every reader sees all entries, if no key has an older entry
    /// elsewhere.
    fn settled(&self) -> Option<SeqNo> {
        let has_older = self.has_older(self.keys()?);
        (!has_older).then(|| self.held.snapshots.first().copied().unwrap_or(SeqNo::MAX))
    }

    /// The tables of the level below the target's, which a wide output would overlap.
    fn below(&self) -> Vec<Below> {
        let level = self.version.levels.get(self.target.level + 1);
        let Some((level, (lo, hi))) = level.zip(self.keys()) else {
            return Vec::new();
        };
        let groups = level.groups_overlapping(lo, hi);
        let runs = groups.iter().flat_map(|group| &group.runs);
        let tables = runs.flat_map(|run| run.overlapping(lo, hi));
        let mut below: Vec<Below> = tables
            .map(|t| (t.meta().largest_key.clone(), t.meta().file_bytes))
            .collect();
        below.sort_unstable();
        below
    }

    /// The smallest and the largest key of the inputs.
    fn keys(&self) -> Option<(&[u8], &[u8])> {
        let metas = || self.by_id.values().map(|table| table.meta());
        let smallest = metas().map(|meta| meta.smallest_key.as_slice()).min()?;
        let largest = metas().map(|meta| meta.largest_key.as_slice()).max()?;
        Some((smallest, largest))
    }
}

pub(super) fn table_of(version: &Version, id: TableId) -> Result<&Arc<Table>> {
    version.table(id).map(|(_, table)| table).ok_or_else(|| {
        Error::corruption(format!("expected table {} in the tree, found none", id.0))
    })
}

/// The tables of an input, streamed in pieces of this many bytes.
pub(crate) struct InputTables(pub(crate) Vec<Arc<Table>>, pub(crate) usize);

impl Parts for InputTables {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn bounds(&self, table: usize) -> (&[u8], Option<&[u8]>) {
        let meta = self.0[table].meta();
        (&meta.smallest_key, Some(&meta.largest_key))
    }

    fn open(&self, table: usize) -> Result<Box<dyn InternalIter>> {
        let table = &self.0[table];
        let reader = table.reader()?.clone();
        Ok(reader.iter(Arc::new(StreamedPages::new(table.clone(), self.1))))
    }
}
