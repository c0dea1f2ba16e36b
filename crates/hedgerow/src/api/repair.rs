//! Rebuilding a database whose manifest is lost or damaged, from the footers of its tables.
//!
//! A table's footer does not record its place in the tree. So the repair merges the tables of each
//! partition into one sorted run: every version carries its sequence number, and recency is the
//! number alone. Then it replays the log over the run. The readable part of the old manifest gives
//! the names and layouts of keyspaces; without it the ids in the footers tell keyspaces apart.
//!
//! The repair takes every readable block of a damaged table. It reports missing entries by key
//! range and by count (invariant I27).
//!
//! Only filters over several runs are thrown away; they are built again. Damaged files are kept in
//! the directory `lost`. All tables stay there while the repair is under way, so an interrupted
//! repair can be started again. A damaged table is kept as `NUMBER.table.damaged`. If a whole copy
//! exists, put it there as `NUMBER.table` and repair again: no other table gets its number.
//!
//! Tables, log and filters are searched in all places that the old manifest names; if it is lost,
//! in those that the builder names ([`Builder::level_paths`]).
//!
//! One case cannot be recognized: a table that was merged but not yet removed looks like any other.
//! A key deleted since may then come back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::{Background, Environment, Storage};

mod guessing;
mod old_log;
mod replayed_log;
mod tables;

use guessing::{guess, guess_from_log, guess_partitioning};
use replayed_log::{KeysInLog, RangeInLog, RangesInLog, log_start, partitions_in_log, replayable};
use tables::FoundTable;
pub use tables::Missing;

use crate::api::db::{Builder, Db};
use crate::base::entry::RunId;
use crate::base::entry::{KeyspaceId, LogPosition, PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::page::TableId;
use crate::base::range_tombstones::RangeTombstones;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::{file_number, filters_dir};
use crate::paths::compaction::output::OutputTables;
use crate::paths::compaction::retain::Retain;
use crate::paths::recover::{places_to_repair, take_lock};
use crate::table::iter::merge::merge;
use crate::table::iter::{InternalIter, ValueSource};
use crate::tree::engine::{Engine, log_dir};
use crate::tree::partition::tables_dir;
use crate::tree::snapshot_list::Held;
use crate::tree::version::edit::{Change, KeyspaceChange, KeyspaceDescription};
use crate::tree::version::manifest;
use crate::tree::version::manifest::Manifest;
use crate::tree::version::state::State;

/// The directory of files that could not be used.
const LOST: &str = "lost";

/// The outcome of a repair.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Tables that were whole.
    pub tables: usize,
    /// Damaged tables of which something could be read.
    pub salvaged: usize,
    /// Entries that were read from both kinds of tables.
    pub entries: u64,
    /// Keyspaces whose names and layouts the old manifest still had.
    pub keyspaces_known: usize,
    /// Keyspaces known from tables or from the log only; they are named `keyspace-N`.
    pub keyspaces_guessed: usize,
    /// Damaged files, now in the directory `lost`, with the damage.
    pub lost: Vec<(PathBuf, String)>,
    /// The entries that could not be read. Empty if the database has everything that the files had.
    pub missing: Vec<Missing>,
}

/// Rebuilds the manifest of a database from its tables and its log. The database must not be open.
/// Cost: reads and writes every table once; needs as much free space as the tables take, and as the
/// part of the log takes that is behind a damage.
///
/// # Errors
/// `Locked`, `InvalidArgument` if there is no such directory, `NoSpace`, `Io`.
pub fn repair(dir: impl AsRef<Path>) -> Result<RepairReport> {
    repair_with(Db::builder(dir))
}

/// Repairs as [`repair`] does, with the environment and the memory budget of a builder.
///
/// # Errors
/// As [`repair`].
pub fn repair_with(builder: Builder) -> Result<RepairReport> {
    let (dir, options) = builder.parts();
    options.check()?;
    let environment = options.environment.clone();
    let storage = &*environment.storage;
    storage.list(&tables_dir(&dir)).map_err(|_| {
        Error::invalid(format!(
            "expected a database, found no tables in {}",
            dir.display()
        ))
    })?;
    let mut report = RepairReport::default();
    let (mut known, state);
    let places: Vec<PathBuf>;
    {
        let _lock = take_lock(storage, &dir)?;
        known = known_state(storage, &dir);
        known.places = places_to_repair(&dir, &options, &known)?;
        places = known.places.all(&dir).map(|(_, dir)| dir).collect();
        for place in &places {
            for made in [place.join(LOST), log_dir(place)] {
                let created = storage.create_dir_all(&made);
                created.map_err(|e| Error::io("create", &made, e))?;
            }
            remove_filters(storage, place)?;
            tables::set_aside(storage, place)?;
        }
        let tables = tables::find(storage, &places, &known, &mut report)?;
        state = describe(&known, &tables, &mut report, storage, &dir)?;
        Manifest::create(environment.storage.clone(), &dir, &state.snapshot())?;
    }
    // No merge may run before the old tables are back at the oldest place.
    let idle = Environment {
        background: Background::Inline { seed: 0 },
        ..environment.clone()
    };
    let builder = builder.environment(idle);
    let (db, ranges) = open_over_log(&builder, (&dir, &places), &environment, state, &mut report)?;
    let tables = tables::find(storage, &places, &known, &mut RepairReport::default())?;
    for (partition, tables) in by_partition(&tables) {
        let ranges = ranges.get(&partition).map_or(&[][..], |it| it);
        merge_into(db.engine(), partition, &tables, ranges)?;
    }
    db.sync()?;
    db.close()?;
    tables::put_away(storage, &tables, &report)?;
    old_log::put_away(storage, &places)?;
    Ok(report)
}

/// The readable part of the old manifest.
fn known_state(storage: &dyn Storage, dir: &Path) -> State {
    let edits = manifest::salvage(storage, dir);
    let mut state = State::default();
    for change in edits.iter().flatten() {
        let before = state.clone();
        if state.apply(change).is_err() {
            return before;
        }
    }
    state
}

/// Removes the filters over several runs. They are built again, since table ids may start anew.
fn remove_filters(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let dir = filters_dir(dir);
    for file in storage.list(&dir).unwrap_or_default() {
        let path = dir.join(&file.name);
        if file_number(&file.name).is_some() {
            let removed = storage.remove(&path);
            removed.map_err(|e| Error::io("remove", &path, e))?;
        }
    }
    Ok(())
}

fn by_partition(tables: &[FoundTable]) -> BTreeMap<PartitionId, Vec<&FoundTable>> {
    let mut partitions: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for table in tables {
        partitions
            .entry(PartitionId(table.meta.partition))
            .or_default()
            .push(table);
    }
    partitions
}

/// The description of the repaired database before its tables are merged back.
fn describe(
    known: &State,
    tables: &[FoundTable],
    report: &mut RepairReport,
    storage: &dyn Storage,
    dir: &Path,
) -> Result<State> {
    let mut state = State::default();
    state.places = known.places.clone();
    let mut keyspaces: BTreeMap<KeyspaceId, KeyspaceDescription> = known.keyspaces.clone();
    let log_start = log_start(known, storage, dir)?;
    let log = partitions_in_log(storage, &known.places.log_root(dir), log_start)?;
    report.keyspaces_known = keyspaces.len();
    for table in tables {
        let id = KeyspaceId(table.meta.keyspace);
        let partition = PartitionId(table.meta.partition);
        let guessed = !known.keyspaces.contains_key(&id);
        let keyspace = keyspaces
            .entry(id)
            .or_insert_with(|| guess(id, &table.footer));
        if guessed && !keyspace.partitions.contains(&partition) {
            keyspace.partitions.push(partition);
        }
    }
    guess_from_log(known, &log, &mut keyspaces);
    for (&id, keyspace) in &mut keyspaces {
        if !known.keyspaces.contains_key(&id) {
            report.keyspaces_guessed += 1;
            keyspace.partitions.sort_unstable();
            keyspace.layout.partitioning = guess_partitioning(id, keyspace, &log, tables)?;
        }
        state.apply(&keyspace.creation(id))?;
        if let Some(&ms) = known.times_to_live.get(&id) {
            state.apply(&Change::Keyspace(id, KeyspaceChange::SetTimeToLive(ms)))?;
        }
    }
    state.apply(&Change::Clock { ms: known.clock })?;
    for (partition, tables) in by_partition(tables) {
        // Memtables are flushed whole and in order: an entry with a smaller number than any flushed
        // entry is in a table, too.
        let mut edit = TreeEdit::new(partition);
        // A bulk load does not follow this order unless the manifest tells that it was finished.
        let in_order = |table: &&&FoundTable| {
            table.meta.seqno_override.is_none() || known.table(table.meta.id).is_some()
        };
        let flushed = tables.iter().filter(in_order);
        edit.flushed_through = flushed.map(|t| t.meta.largest_seqno).max();
        state.apply(&Change::Tree(edit))?;
    }
    let places: Vec<PathBuf> = known.places.all(dir).map(|(_, dir)| dir).collect();
    let next_table = tables::next_number(storage, &places)?;
    number_above(known, tables, &log, next_table, &mut state)?;
    number_above_cuts(storage, &places, &mut state)?;
    state.apply(&Change::LogStart { segment: log_start })?;
    // A clean close has noted the end of the log: one that ends before it is damaged.
    let closed = known.closed.filter(|_| log_start == known.log_start);
    state.closed = closed.map(|(end, _)| (end, state.last));
    Ok(state)
}

/// The number above all of these.
fn above(ids: impl Iterator<Item = u64>) -> u64 {
    ids.max().map_or(0, |id| id + 1)
}

/// Sets the next numbers above all old ones, also those that only readers of changes still have.
fn number_above(
    known: &State,
    tables: &[FoundTable],
    log: &KeysInLog,
    next_table: u64,
    state: &mut State,
) -> Result<()> {
    let last = tables.iter().map(|t| t.meta.largest_seqno);
    let closed_last = known.closed.map_or(SeqNo(0), |(_, last)| last);
    let last = last.chain([known.last, known.feed.last(), closed_last]);
    let last = last.max().unwrap_or_default();
    state.apply(&Change::Numbered { last })?;
    let next_keyspace = above(state.keyspaces.keys().map(|id| u64::from(id.0))) as u32;
    // A known partition without tables cannot be told from a dropped one, and is passed over.
    let partitions = state.trees.keys().chain(log.keys());
    let next_partition = above(partitions.map(|id| u64::from(id.0))) as u32;
    state.apply(&Change::Counters {
        next_table: next_table.max(known.next_table),
        next_keyspace: next_keyspace.max(known.next_keyspace),
        next_partition: next_partition.max(known.next_partition),
    })
}

/// Sets the last number above all that may have been cut from the log.
fn number_above_cuts(storage: &dyn Storage, places: &[PathBuf], state: &mut State) -> Result<()> {
    let last = old_log::numbers_end(storage, places, state.last)?;
    if last <= SeqNo::OPENED_MAX {
        state.apply(&Change::Numbered { last })?;
    }
    Ok(())
}

/// Opens the described database, replaying the log. A log that is refused is kept up to the refused
/// place. If that is refused, too, nothing of it is kept. Returns also the range deletes that were
/// replayed.
fn open_over_log(
    builder: &Builder,
    (dir, places): (&Path, &[PathBuf]),
    environment: &Environment,
    mut state: State,
    report: &mut RepairReport,
) -> Result<(Db, RangesInLog)> {
    let (storage, root) = (&*environment.storage, state.places.log_root(dir));
    let mut attempts = [true, false].into_iter();
    loop {
        let log = replayable(storage, &root, &state, LogPosition::MAX)?;
        let refusal = match builder.clone().open() {
            Ok(db) => {
                let front = known_state(storage, &root.join(LOST));
                old_log::tell(storage, places, &front, report)?;
                return Ok((db, log.ranges));
            }
            Err(error) => error,
        };
        let is_damaged = refusal.kind() == ErrorKind::Corruption;
        let Some(keeps_front) = attempts.next().filter(|_| is_damaged) else {
            return Err(refusal);
        };
        // The log stays whole until there are copies of what will be cut, and the manifest has
        // numbers above it.
        let _lock = take_lock(storage, dir)?;
        state = State::replay(&manifest::replay(storage, dir)?.edits)?;
        let end = old_log::kept_end(&root, &state, &refusal, keeps_front);
        let last = replayable(storage, &root, &state, end)?.last;
        if !keeps_front || old_log::cuts(storage, places)?.is_empty() {
            // Tells also a repair that is started again which entries the front and the tables had.
            let mut front = state.clone();
            front.last = last;
            let storage = environment.storage.clone();
            Manifest::create(storage, &root.join(LOST), &front.snapshot())?;
        }
        old_log::keep(storage, &root, end, &refusal, report)?;
        state.closed = None;
        state.apply(&Change::Numbered { last })?;
        number_above_cuts(storage, places, &mut state)?;
        Manifest::create(environment.storage.clone(), dir, &state.snapshot())?;
        old_log::cut(storage, &root, &state, end)?;
    }
}

/// Merges tables into one run of the deepest level, without the entries that range deletes of the
/// log have deleted.
fn merge_into(
    engine: &Arc<Engine>,
    partition: PartitionId,
    tables: &[&FoundTable],
    ranges: &[RangeInLog],
) -> Result<()> {
    let catalog = engine.catalog.load_full();
    let Some(partition) = catalog.partitions.get(&partition) else {
        return Ok(());
    };
    let level = partition.tree().version.depth() - 1;
    let run = RunId(engine.writer()?.ids.next_table().0);
    let sources: Vec<Box<dyn InternalIter>> = tables.iter().map(|t| t.iter()).collect();
    let by_number: BTreeMap<TableId, &&FoundTable> =
        tables.iter().map(|t| (t.meta.id, t)).collect();
    let mut merged = merge(sources);
    let design = partition.keyspace.design_owned();
    let mut output = OutputTables::new(engine, partition, design, level, run);
    let in_log = ranges
        .iter()
        .map(|(key, value, seqno)| partition.keyspace.range_tombstone(key, value, *seqno));
    let in_tables = tables.iter().map(|table| Ok(table.ranges()));
    let lists = in_tables.chain(in_log).collect::<Result<Vec<_>>>()?;
    let mut retain = Retain::new(&Held::default(), RangeTombstones::merged(&lists));
    let mut last: Option<(Vec<u8>, SeqNo)> = None;
    merged.seek_first()?;
    while let Some(entry) = merged.entry() {
        let is_new = last.as_ref().is_none_or(|(key, _)| key != entry.key);
        // A merged table that was not removed and its successor hold the same entries.
        let repeated = !is_new
            && last
                .as_ref()
                .is_some_and(|(_, seqno)| *seqno == entry.seqno);
        if !repeated && retain.keep((entry.key, is_new), entry.seqno, entry.tag, || true) {
            match entry.value {
                ValueSource::Inline(value) => output.add(&entry, value)?,
                ValueSource::OutOfLine { page, .. } => {
                    let table = by_number.get(&page.table).ok_or_else(|| {
                        Error::corruption(format!(
                            "expected a value in an input table, found table {}",
                            page.table.0
                        ))
                    })?;
                    output.add(&entry, &table.value(page)?)?;
                }
            }
        }
        last = Some((entry.key.to_vec(), entry.seqno));
        merged.advance()?;
    }
    let mut edit = TreeEdit::new(partition.id);
    let version = &partition.tree_owned().version;
    let tables = output.finish()?.into_iter();
    let placed = tables.map(|meta| (version.placement(level, run, &meta), meta));
    edit.added = placed.collect();
    engine.install(partition, edit, None, None, |_| ())
}
