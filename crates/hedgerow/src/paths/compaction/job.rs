//! Carries out one plan: reads the inputs, keeps the entries that a reader can still see, writes
//! tables, and logs the edit.
//!
//! The inputs bypass the page cache, so that a merge does not evict pages that reads need. The
//! outputs stay in the system's cache, where reads find them. Large merges are divided by key range
//! over the free threads of the pool. The tables of a failed merge are removed. The inputs stay
//! until the edit is durable and no reader needs them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::base::compaction_filter::{FilteredMerge, SharedFilter};
use crate::base::entry::SeqNo;
use crate::base::entry::{Flags, RunId};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::page::{Page, PageId, TableId};
use crate::base::range_tombstones::RangeTombstones;
use crate::base::runtime::Priority;
use crate::base::runtime::lock;
use crate::base::stats::{Event, OperationKind};
use crate::base::table_meta::TableMeta;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::plan::{Input, Plan, Target};
use crate::design::merge_policy::shape::Facts;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::paths::group_filters;
use crate::table::Table;
use crate::table::iter::concat::{ConcatIter, Parts};
use crate::table::iter::merge::MergeIter;
use crate::table::iter::{Entry, InternalIter, ValueSource};
use crate::table::open::{STREAM_BYTES_MAX, STREAM_BYTES_MIN, StreamedPages};
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;
use crate::tree::snapshot_list::Held;
use crate::tree::version::Version;

use super::filtering::{Filtered, Filtering};
use super::filters;
use super::filters::Allotted;
use super::fold::Folding;
use super::output::{Below, OutputTables};
use super::retain::Retain;

/// A merge is cut into pieces of at least this many output tables.
const PIECE_TABLES_MIN: u64 = 2;
/// The number of entries between two checks whether to continue.
const CHECK_ENTRIES: u64 = 1024;

/// Carries a plan out up to its edit. Returns the bytes of the input tables.
pub(crate) fn run(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    design: &Arc<DesignInForce>,
    plan: &Plan,
) -> Result<u64> {
    match plan {
        // A file moves to another place only by being rewritten there.
        Plan::Move { inputs, target, .. }
            if !leaves_its_place(engine, partition, inputs, target)? =>
        {
            move_down(engine, partition, inputs, target)
        }
        Plan::Move { inputs, target, .. } | Plan::Merge { inputs, target, .. } => {
            merge(engine, partition, design, inputs, target)
        }
        Plan::Discard { inputs } => discard(engine, partition, plan, inputs),
        Plan::Drain { .. } | Plan::SetDepth { .. } | Plan::SetRanges { .. } | Plan::Shift(_) => {
            engine.install(partition, plan.edit(partition.id), None)?;
            Ok(0)
        }
    }
}

/// Returns true if tables are in another place than that of their target level.
fn leaves_its_place(
    engine: &Engine,
    partition: &Partition,
    inputs: &[Input],
    target: &Target,
) -> Result<bool> {
    let version = &partition.tree().version;
    let place = engine.places.of_level(target.level);
    let mut leaves = false;
    for &id in inputs.iter().flat_map(|input| &input.tables) {
        leaves |= table_of(version, id)?.meta().path != place;
    }
    Ok(leaves)
}

/// Moves tables that overlap neither each other nor anything below: only their placement changes.
fn move_down(
    engine: &Engine,
    partition: &Partition,
    inputs: &[Input],
    target: &Target,
) -> Result<u64> {
    let version = partition.tree_owned().version.clone();
    let run = target.run.unwrap_or(RunId(engine.writer()?.next_table().0));
    let mut edit = TreeEdit::new(partition.id);
    let mut bytes = 0;
    for &id in inputs.iter().flat_map(|input| &input.tables) {
        let table = table_of(&version, id)?;
        bytes += table.meta().file_bytes;
        let place = version.placement(target.level, run, table.meta());
        edit.moved.push((id, place));
    }
    let design = partition.keyspace.design_owned();
    let filters = group_filters::prepare(engine, partition, &design, &edit);
    engine.install_with(partition, edit, None, |it| filters.put(it))?;
    engine.stats.moves.add(1);
    engine.tell(Event::Moved {
        keyspace: partition.keyspace.name(),
        from_level: inputs.iter().map(|it| it.level).min().unwrap_or_default(),
        to_level: target.level,
        bytes,
    });
    Ok(bytes)
}

/// Drops tables that no reader sees. Returns their bytes.
fn discard(engine: &Engine, partition: &Partition, plan: &Plan, inputs: &[Input]) -> Result<u64> {
    let version = partition.tree_owned().version.clone();
    let mut bytes = 0;
    for &id in inputs.iter().flat_map(|input| &input.tables) {
        bytes += table_of(&version, id)?.meta().file_bytes;
    }
    let edit = plan.edit(partition.id);
    let design = partition.keyspace.design_owned();
    let filters = group_filters::prepare(engine, partition, &design, &edit);
    engine.install_with(partition, edit, None, |it| filters.put(it))?;
    Ok(bytes)
}

/// The facts that all pieces of a merge share.
struct Merge {
    engine: Arc<Engine>,
    partition: Arc<Partition>,
    design: Arc<DesignInForce>,
    version: Arc<Version>,
    /// The tables of each input run, newest run first.
    inputs: Vec<Vec<Arc<Table>>>,
    by_id: BTreeMap<TableId, Arc<Table>>,
    held: Held,
    filtering: Option<Filtering>,
    /// The range tombstones of all inputs.
    ranges: RangeTombstones,
    /// The largest number that an entry may have.
    published: SeqNo,
    target: Target,
    run: RunId,
    filter: Allotted,
}

fn merge(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    design: &Arc<DesignInForce>,
    inputs: &[Input],
    target: &Target,
) -> Result<u64> {
    let began = engine.environment.clock.now();
    let _memory = engine.memory.merge();
    let filter = partition.keyspace.compaction_filter();
    let merged = merge_tables(engine, partition, design, inputs, target, filter)?;
    let is_filtered = merged.filtered_before.is_some();
    let mut installed = install(engine, partition, design, merged);
    if is_filtered && matches!(&installed, Err(error) if error.kind() == ErrorKind::Conflict) {
        // A snapshot sees what the filter has changed. The next merge asks it again.
        let merged = merge_tables(engine, partition, design, inputs, target, None)?;
        installed = install(engine, partition, design, merged);
    }
    let (read_bytes, entries, write_bytes) = installed?;
    engine.stats.merges.add(1);
    engine.stats.merge_read_bytes.add(read_bytes);
    engine.stats.merge_write_bytes.add(write_bytes);
    engine.stats.merge_entries.add(entries);
    engine.tell(Event::Merged {
        keyspace: partition.keyspace.name(),
        partition: partition.index,
        from_level: inputs.iter().map(|i| i.level).min().unwrap_or_default(),
        to_level: target.level,
        read_bytes,
        write_bytes,
        took: engine.environment.clock.now().saturating_sub(began),
    });
    Ok(read_bytes)
}

/// Installs the outputs of a merge, or removes them. Returns the bytes that were read, and the
/// entries and the bytes that were written.
fn install(
    engine: &Engine,
    partition: &Partition,
    design: &Arc<DesignInForce>,
    merged: Merged,
) -> Result<(u64, u64, u64)> {
    let edit = merged.edit;
    let (entries, write_bytes) = edit.written();
    let outputs: Vec<TableMeta> = edit.added.iter().map(|(_, meta)| meta.clone()).collect();
    let filters = group_filters::prepare(engine, partition, design, &edit);
    let snapshot = merged.filtered_before.unwrap_or(u64::MAX);
    let put = |it: &mut Version| filters.put(it);
    let installed = engine.install_unless_taken(snapshot, partition, edit, None, put);
    if installed.is_err() {
        engine.remove_unnamed(partition, &outputs);
    }
    installed.map(|()| (merged.read_bytes, entries, write_bytes))
}

/// The result of a merge: its edit replaces the inputs by the outputs.
pub(crate) struct Merged {
    pub(crate) edit: TreeEdit,
    read_bytes: u64,
    /// If a filter has changed what readers see: the registration of the first snapshot that must
    /// not see the change.
    filtered_before: Option<u64>,
}

/// Writes the outputs of a merge of these tables. Recovery does this, too.
pub(crate) fn merge_tables(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    design: &Arc<DesignInForce>,
    inputs: &[Input],
    target: &Target,
    filter_of: Option<SharedFilter>,
) -> Result<Merged> {
    let version = partition.tree_owned().version.clone();
    let tables_of = |input: &Input| -> Result<Vec<Arc<Table>>> {
        input
            .tables
            .iter()
            .map(|&id| table_of(&version, id).cloned())
            .collect()
    };
    let tables: Vec<Vec<Arc<Table>>> = inputs.iter().map(tables_of).collect::<Result<_>>()?;
    let by_id: BTreeMap<_, _> = tables
        .iter()
        .flatten()
        .map(|t| (t.meta().id, t.clone()))
        .collect();
    let read_bytes = by_id.values().map(|t| t.meta().file_bytes).sum();
    let run = target.run.unwrap_or(RunId(engine.writer()?.next_table().0));
    let filter = filters::of_merge(engine, partition, design, &version, &by_id, target);
    let lists = by_id.values().map(|table| table.ranges());
    let lists = lists
        .filter_map(Result::transpose)
        .collect::<Result<Vec<_>>>()?;
    let ranges = RangeTombstones::merged(lists.into_iter().map(|it| &**it));
    let held = engine.held();
    let last = version.levels.iter().rposition(|level| !level.is_empty());
    let filtering = filter_of.map(|filter| {
        let pass = filter.prepare(&FilteredMerge {
            keyspace: partition.keyspace.name(),
            partition: partition.index,
            level: target.level,
            is_last_level: last.is_none_or(|last| last <= target.level),
        });
        Filtering::new(pass, &held.snapshots)
    });
    let merge = Arc::new(Merge {
        engine: engine.clone(),
        partition: partition.clone(),
        design: design.clone(),
        version: version.clone(),
        inputs: tables,
        by_id,
        held,
        filtering,
        ranges,
        // Read after the snapshots, so that an installed bulk load is published.
        published: SeqNo(engine.publisher.published()),
        target: *target,
        run,
        filter,
    });

    let outputs = merge.run_pieces(read_bytes)?;
    let puts = |meta: &TableMeta| meta.entries - meta.tombstones;
    let before: u64 = merge.by_id.values().map(|table| puts(table.meta())).sum();
    let replaced = before.saturating_sub(outputs.iter().map(puts).sum());
    partition
        .keyspace
        .operations
        .add(OperationKind::Replaced, replaced);
    let mut edit = TreeEdit::new(partition.id);
    edit.removed = merge.by_id.keys().copied().collect();
    let placed = |meta: TableMeta| (version.placement(target.level, run, &meta), meta);
    edit.added = outputs.into_iter().map(placed).collect();
    let filtering = merge.filtering.as_ref();
    let is_filtered = filtering.is_some_and(|it| it.has_changed.load(Ordering::Relaxed));
    Ok(Merged {
        edit,
        read_bytes,
        filtered_before: is_filtered.then_some(merge.held.next),
    })
}

/// The tables of a piece, and the number of entries that it read.
type PieceResult = Mutex<Option<Result<(Vec<TableMeta>, u64)>>>;

impl Merge {
    /// Merges piece by piece, in parallel. Returns the tables in key order.
    fn run_pieces(self: &Arc<Self>, read_bytes: u64) -> Result<Vec<TableMeta>> {
        let wanted = (read_bytes / (PIECE_TABLES_MIN * self.design.table_bytes))
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
            let streamed = Streamed(tables.clone(), self.stream_bytes());
            Box::new(ConcatIter::new(streamed)) as Box<dyn InternalIter>
        });
        let mut merged = MergeIter::new(sources.collect());
        match lower {
            Some(key) => merged.seek(key, SeqNo::MAX)?,
            None => merged.seek_first()?,
        }
        let (engine, target) = (&*self.engine, self.target);
        let below = self.below();
        let (partition, design) = (&self.partition, self.design.clone());
        let place = (target.level, self.run);
        let mut output = OutputTables::with(engine, partition, design, place, self.filter, below);
        output.settled = self.settled();
        let is_input = |id| self.by_id.contains_key(&id);
        let mut retain = Retain::new(&self.held, self.ranges.within(lower, upper));
        output.range_tombstones = retain.ranges(|lo, hi| {
            let (level, run) = (target.level, Some(self.run));
            !self.version.older_overlaps(level, run, (lo, hi), is_input)
        });
        let nothing_older_below = |key: &[u8]| {
            let (level, run) = (target.level, Some(self.run));
            !self.version.older_may_hold(level, run, key, is_input)
        };
        let mut skip_to = None;
        let mut folding = Folding::new(engine, &partition.keyspace);
        let mut reached = Reached::new(lower.or(self.keys().map(|keys| keys.0)), self.published);
        let mut entries = 0u64;
        while let Some(entry) = merged.entry() {
            let is_new = reached.pass(&entry).map_err(|found| self.damaged(found))?;
            if is_new && upper.is_some_and(|upper| entry.key >= upper) {
                break;
            }
            if is_new && folding.is_waiting() {
                folding.write(&retain, nothing_older_below, &mut output)?;
            }
            entries += 1;
            if entries.is_multiple_of(CHECK_ENTRIES) {
                engine.check_open()?;
            }
            let entry = match entry.tag.flags.has(Flags::EXPIRES) {
                true => self.or_expired(entry, &retain)?,
                false => entry,
            };
            let keep = retain.keep((entry.key, is_new), entry.seqno, entry.tag, || {
                nothing_older_below(&reached.key)
            });
            if keep {
                let page;
                let value = match entry.value {
                    ValueSource::Inline(value) => value,
                    ValueSource::OutOfLine { page: id, .. } => {
                        page = self.read_page(id)?;
                        &page
                    }
                };
                let filtered = match &self.filtering {
                    Some(filtering) if is_new => {
                        let order = &*partition.keyspace.order;
                        filtering.decide(&entry, value, order, &mut skip_to)?
                    }
                    _ => Filtered::Same,
                };
                match filtered {
                    Filtered::Same if folding.takes(entry.tag) => {
                        folding.push(&entry, value, &mut retain)?;
                    }
                    Filtered::Same => output.add(&entry, value)?,
                    Filtered::Value(value) => output.add(&entry, &value)?,
                    Filtered::Deleted => {
                        let is_needed =
                            !retain.is_seen_by_all(entry.seqno) || !nothing_older_below(entry.key);
                        if is_needed {
                            output.add(&entry.deleted(), b"")?;
                        }
                    }
                }
            }
            merged.advance()?;
        }
        if folding.is_waiting() {
            folding.write(&retain, nothing_older_below, &mut output)?;
        }
        if self
            .keys()
            .is_some_and(|(_, largest)| *reached.key > *largest)
        {
            return Err(self.damaged(format!(
                "expected keys within those of the tables, found {:?}",
                reached.key
            )));
        }
        Ok((output.finish()?, entries))
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

    /// The number up to which every reader sees all entries, if no key has an older entry
    /// elsewhere.
    fn settled(&self) -> Option<SeqNo> {
        let keys = self.keys()?;
        let is_input = |id| self.by_id.contains_key(&id);
        let (level, run) = (self.target.level, Some(self.run));
        let older = self.version.older_overlaps(level, run, keys, is_input);
        (!older).then(|| self.held.snapshots.first().copied().unwrap_or(SeqNo::MAX))
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

/// The position of a merge among its entries. It checks their order and their numbers (invariant
/// I34): a writer takes entries in order only, and a table holds published entries only.
struct Reached {
    key: Vec<u8>,
    /// The number of the last version of the key; `None` before the first version.
    seqno: Option<SeqNo>,
    published: SeqNo,
}

impl Reached {
    /// Before every version of a key.
    fn new(lower: Option<&[u8]>, published: SeqNo) -> Reached {
        Reached {
            key: lower.unwrap_or_default().to_vec(),
            seqno: None,
            published,
        }
    }

    /// Advances to an entry. Returns true if its key is new, or a message that describes the error.
    #[inline]
    fn pass(&mut self, entry: &Entry<'_>) -> std::result::Result<bool, String> {
        let order = entry.key.cmp(&self.key);
        let is_older = self.seqno.is_none_or(|newer| entry.seqno < newer);
        let is_new = order.is_gt() || self.seqno.is_none();
        if order.is_lt() || (order.is_eq() && !is_older) || entry.seqno > self.published {
            return Err(format!(
                "expected entries behind {:?} at {:?}, numbered up to {}, found {:?} at {}",
                self.key, self.seqno, self.published.0, entry.key, entry.seqno.0
            ));
        }
        if order.is_gt() {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
        }
        self.seqno = Some(entry.seqno);
        Ok(is_new)
    }
}

fn table_of(version: &Version, id: TableId) -> Result<&Arc<Table>> {
    version.table(id).map(|(_, table)| table).ok_or_else(|| {
        Error::corruption(format!("expected table {} in the tree, found none", id.0))
    })
}

/// The tables of an input, streamed in pieces of this many bytes.
pub(crate) struct Streamed(pub(crate) Vec<Arc<Table>>, pub(crate) usize);

impl Parts for Streamed {
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
