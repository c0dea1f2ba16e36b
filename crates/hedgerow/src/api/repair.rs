//! Rebuilding a database whose manifest is lost or damaged, from the footers of its tables.
//!
//! A table's footer does not record its place in the tree. So the repair merges the tables of each
//! partition into one sorted run: every version carries its sequence number, and recency is the
//! number alone. Then it replays the log over the run, in this order: a flush leaves out the range
//! tombstones that nothing older needs. The readable part of the old manifest gives the names and
//! layouts of keyspaces; without it the ids in the footers tell keyspaces apart.
//!
//! The repair takes every readable block of a damaged table. It reports missing entries by key
//! range and by count (invariant I27).
//!
//! Filters over several runs are thrown away; they are built again. So is what an opening would
//! remove, if nothing is damaged that an opening needs. Damaged files are kept in the directory
//! `lost`. All tables and the old manifest stay there while the repair is under way.
//! A repair that was stopped can be started again, and nothing else opens the database before. A
//! damaged table is kept as `NUMBER.table.damaged`. If a whole copy exists, put it there as
//! `NUMBER.table` and repair again: no other table gets its number.
//!
//! Tables, log and filters are searched in all places that the old manifest names; if it is lost,
//! in those that the builder names ([`Builder::level_paths`]).
//!
//! If something is damaged, one case cannot be recognized: a table that was merged but not yet
//! removed looks like any other. A key deleted since may then come back. A whole copy that is put
//! back into `lost` has the same effect: a merge may have dropped the deletes of its keys.
//!
//! Entries of a damaged page are reported as missing also if the log still has them. Replaying what
//! tables have would put a logged entry above a bulk load, which has no record, and would count
//! operands twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::Storage;

mod guessing;
mod naming;
mod old_log;
mod old_manifest;
mod replayed_log;
mod tables;

use guessing::{guess_unknown, replace_cleared};
use old_manifest::OldManifest;
use replayed_log::{KeysInLog, Log, last_before};
use tables::FoundTable;
pub use tables::MissingEntries;

use crate::api::db::{Builder, Db};
use crate::base::entry::RunId;
use crate::base::entry::{PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::page::TableId;
use crate::base::range_tombstones::RangeTombstones;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::{file_number, filters_dir};
use crate::paths::compaction::output::OutputTables;
use crate::paths::compaction::retain::Retain;
use crate::paths::recover;
use crate::paths::recover::under_repair::lost_dir;
use crate::paths::recover::{OpenOptions, places_to_repair, take_lock, would_open};
use crate::paths::write;
use crate::table::iter::merge::merge;
use crate::table::iter::{InternalIter, ValueSource};
use crate::tree::engine::{Engine, Handle, log_dir};
use crate::tree::partition::{Partition, tables_dir};
use crate::tree::snapshot_list::SnapshotFacts;
use crate::tree::version::edit::Change;
use crate::tree::version::manifest;
use crate::tree::version::manifest::Manifest;
use crate::tree::version::state::State;

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
    pub missing: Vec<MissingEntries>,
}

/// Rebuilds the manifest of a database from its tables and its log. The database must not be open.
/// Cost: reads every table twice and writes it once; needs as much free space as the tables take,
/// and as the part of the log takes that is behind a damage. If it is stopped, call it again: it
/// reports everything, but for the files that have their last names.
///
/// # Errors
/// `Locked`; `InvalidArgument` if there is no such directory, or if a repair that was stopped had
/// other directories; `FormatVersion` of the manifest, the log or a table; `Corruption` if two
/// tables have one number, or if nothing tells how a keyspace was divided; `NoSpace`; `Io`, also if
/// the device cannot read the facts of a file: move the file elsewhere to repair without it.
pub fn repair(dir: impl AsRef<Path>) -> Result<RepairReport> {
    repair_with(Db::builder(dir))
}

/// Repairs as [`repair`] does, with the environment and the memory budget of a builder.
///
/// # Errors
/// As [`repair`].
pub fn repair_with(builder: Builder) -> Result<RepairReport> {
    let (dir, mut options) = builder.parts();
    options.check()?;
    let storage = &*options.environment.storage;
    storage.list(&tables_dir(&dir)).map_err(|_| {
        Error::invalid(format!(
            "expected a database, found no tables in {}",
            dir.display()
        ))
    })?;
    // Nobody opens the database before the end, whatever is in the directory meanwhile.
    let _lock = take_lock(storage, &dir)?;
    let mut old = OldManifest::find(storage, &dir)?;
    let described = old.resumed.as_ref().unwrap_or(&old.known);
    old.search(places_to_repair(&dir, &options, described)?)?;
    // The next opening may assign others.
    options.level_paths = None;
    let places: Vec<PathBuf> = old.known.places.all(&dir).map(|(_, dir)| dir).collect();
    let others = places[1..].iter().map(|place| take_lock(storage, place));
    let _others = others.collect::<Result<Vec<_>>>()?;
    let is_sound = old.is_first && old.is_whole && would_open(storage, &dir, &old.known)?;
    replace_cleared(&mut old.known, &tables::all_facts(storage, &places)?)?;
    let log = Log::read(&old, storage, &dir)?;
    // From here on the database is changed, and only a repair opens it.
    set_aside(storage, (&dir, &places), &old, is_sound)?;
    let mut report = RepairReport::default();
    let found = tables::find(storage, &places, &old.known, &mut report)?;
    if !old.is_merged {
        let tables = &found.readable;
        rebuild((&dir, &options), &places, (&old, &log), tables, &mut report)?;
        old_manifest::note_merged(storage, &dir)?;
    }
    old_log::report(
        storage,
        &places,
        &old.known.places.log_root(&dir),
        &mut report,
    )?;
    let kept = old.report(storage, &dir, &mut report)?;
    let now = State::replay(&manifest::replay(storage, &dir)?.edits)?;
    report.keyspaces_known = old.known.keyspaces.len();
    report.keyspaces_guessed = now.keyspaces.len().saturating_sub(report.keyspaces_known);
    tables::put_away(storage, &found, &now, &mut report)?;
    old_log::put_away(storage, &places)?;
    old_manifest::put_away(storage, &dir, kept)?;
    Ok(report)
}

/// Puts the database under repair, and its tables into the directory `lost`.
fn set_aside(
    storage: &dyn Storage,
    (dir, places): (&Path, &[PathBuf]),
    old: &OldManifest,
    is_sound: bool,
) -> Result<()> {
    if old.is_merged {
        return Ok(());
    }
    for place in places {
        // A place may have had no tables, or no log.
        for made in [lost_dir(place), log_dir(place), tables_dir(place)] {
            let created = storage.create_dir_all(&made);
            created.map_err(|e| Error::io("create", &made, e))?;
        }
    }
    if let Some(resumed) = &old.resumed {
        tables::remove_unfinished(storage, places, resumed)?;
    }
    tables::check_names(storage, places)?;
    if is_sound {
        tables::set_unnamed_aside(storage, places, &old.known)?;
    }
    old_manifest::keep(storage, dir)?;
    places
        .iter()
        .try_for_each(|place| remove_filters(storage, place))?;
    tables::set_aside(storage, places)
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

/// Makes a whole database of the tables and the log.
fn rebuild(
    (dir, options): (&Path, &OpenOptions),
    places: &[PathBuf],
    (old, log): (&OldManifest, &Log),
    tables: &[FoundTable],
    report: &mut RepairReport,
) -> Result<()> {
    let storage = &options.environment.storage;
    let mut state = match &old.resumed {
        Some(resumed) => resumed.without_tables(),
        None => describe(&old.known, log, tables)?,
    };
    state.places = old.known.places.clone();
    state.apply(&Change::Counters {
        next_table: tables::next_number(&**storage, places)?,
        next_keyspace: 0,
        next_partition: 0,
    })?;
    old_log::number_above_cuts(&**storage, places, &mut state)?;
    Manifest::create(storage.clone(), dir, &state.snapshot())?;
    let engine = Handle::new(open_over_log((dir, options), places, tables, report)?);
    write::sync(&engine)?;
    engine.close()
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
fn describe(known: &State, log: &Log, tables: &[FoundTable]) -> Result<State> {
    let (log_start, log) = (log.start, &log.keys);
    let mut state = known.without_tables();
    for (id, keyspace) in guess_unknown(known, log, tables)? {
        state.apply(&keyspace.creation(id))?;
    }
    for tree in state.trees.values_mut() {
        tree.flushed_through = SeqNo(0);
    }
    for (partition, tables) in by_partition(tables) {
        // Memtables are flushed whole and in order: an entry with a smaller number than any flushed
        // entry is in a table, too.
        let mut edit = TreeEdit::new(partition);
        // A bulk load does not follow this order unless the manifest tells that it was finished.
        // A table of which only range tombstones are readable has nothing that the log need not
        // replay.
        let in_order = |table: &&&FoundTable| {
            let is_ordered = table.meta.seqno_override.is_none();
            table.entries > 0 && (is_ordered || known.table(table.meta.id).is_some())
        };
        let flushed = tables.iter().filter(in_order);
        edit.flushed_through = flushed.map(|t| t.meta.largest_seqno).max();
        state.apply(&Change::Tree(edit))?;
    }
    number_above(known, tables, log, &mut state)?;
    state.log_start = 0;
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
    state: &mut State,
) -> Result<()> {
    let last = tables.iter().map(|t| t.meta.largest_seqno);
    let closed_last = known.closed.map_or(SeqNo(0), |(_, last)| last);
    let last = last.chain([known.feed.last(), closed_last]);
    let last = last.max().unwrap_or_default();
    state.apply(&Change::Numbered { last })?;
    let next_keyspace = above(state.keyspaces.keys().map(|id| u64::from(id.0))) as u32;
    // A known partition without tables cannot be told from a dropped one, and is passed over.
    let partitions = state.trees.keys().chain(log.keys());
    let next_partition = above(partitions.map(|id| u64::from(id.0))) as u32;
    state.apply(&Change::Counters {
        next_table: 0,
        next_keyspace,
        next_partition,
    })
}

/// Opens the described database: merges its tables back, then replays the log. A log that is
/// refused is kept up to the refused place. If that is refused, too, nothing of it is kept.
fn open_over_log(
    (dir, options): (&Path, &OpenOptions),
    places: &[PathBuf],
    tables: &[FoundTable],
    report: &mut RepairReport,
) -> Result<Arc<Engine>> {
    let mut attempts = [true, false].into_iter();
    loop {
        let refusal = match recover::begin(dir, options, None) {
            Ok(opening) => {
                let engine = &opening.engine;
                merge_back(engine, tables).inspect_err(|_| engine.abandon())?;
                match opening.finish() {
                    Ok(engine) => return Ok(engine),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        let is_damaged = refusal.kind() == ErrorKind::Corruption;
        let Some(keeps_front) = attempts.next().filter(|_| is_damaged) else {
            return Err(refusal);
        };
        cut_log((dir, options), places, (&refusal, keeps_front), report)?;
    }
}

/// Cuts a refused log. It stays whole until there are copies of what will be cut, and the manifest
/// has numbers above it.
fn cut_log(
    (dir, options): (&Path, &OpenOptions),
    places: &[PathBuf],
    (refusal, keeps_front): (&Error, bool),
    report: &mut RepairReport,
) -> Result<()> {
    let shared = &options.environment.storage;
    let storage = &**shared;
    let mut state = State::replay(&manifest::replay(storage, dir)?.edits)?;
    let root = state.places.log_root(dir);
    let end = old_log::kept_end(&root, &state, refusal, keeps_front);
    let last = last_before(storage, &root, &state, end)?;
    if !keeps_front || old_log::cuts(storage, places)?.is_empty() {
        // Tells also a repair that is started again which entries the front and the tables had.
        let mut front = state.clone();
        front.last = last;
        Manifest::create(shared.clone(), &lost_dir(&root), &front.snapshot())?;
    }
    old_log::keep(storage, &root, end, refusal, report)?;
    state.closed = None;
    state.apply(&Change::Numbered { last })?;
    old_log::number_above_cuts(storage, places, &mut state)?;
    Manifest::create(shared.clone(), dir, &state.snapshot())?;
    old_log::cut(storage, &root, &state, end)
}

/// Merges the tables of each partition back, unless an earlier attempt to open the database has
/// done so.
fn merge_back(engine: &Arc<Engine>, tables: &[FoundTable]) -> Result<()> {
    let catalog = engine.catalog.load_full();
    for (id, tables) in by_partition(tables) {
        // Tables of an unknown one are put away for the next repair.
        if let Some(partition) = catalog.partitions.get(&id)
            && partition.tree().version.tables().next().is_none()
        {
            merge_into(engine, partition, &tables)?;
        }
    }
    Ok(())
}

/// Merges tables into one run of the deepest level.
fn merge_into(engine: &Engine, partition: &Partition, tables: &[&FoundTable]) -> Result<()> {
    let level = partition.tree().version.depth() - 1;
    let run = RunId(engine.writer()?.ids.next_table().0);
    let sources: Vec<Box<dyn InternalIter>> = tables.iter().map(|t| t.iter()).collect();
    let by_number: BTreeMap<TableId, &&FoundTable> =
        tables.iter().map(|t| (t.meta.id, t)).collect();
    let mut merged = merge(sources);
    let design = partition.keyspace.design_owned();
    let mut output = OutputTables::new(engine, partition, design, level, run);
    let lists: Vec<_> = tables.iter().map(|table| table.ranges()).collect();
    let mut retain = Retain::new(&SnapshotFacts::default(), RangeTombstones::merged(&lists));
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
