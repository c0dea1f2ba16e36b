//! Opening a database: lock, manifest, tables, log, in this order.
//!
//! Recovery reads the log twice or three times. The first pass ([`survey::survey`]) changes
//! nothing: it finds the end of the log and refuses damage. The second pass replays the writes that
//! are not in tables yet. It flushes whenever the memtables are full, so that the budget holds, and
//! merges runs of a full level 0. At its end all writes are in tables. If they are few, they stay
//! in memtables instead, and a third pass copies their records into a new log (`copy`). One edit of
//! the manifest names all tables and begins the log with a new segment; then the old segments are
//! free. A crash at any moment leaves the old log in force.
//!
//! There is one edit because recovery does not make the log durable that an earlier process failed
//! to sync: the system may have it in memory alone, whatever later syncs report. If the tables of
//! one partition came into force before those of another, they could outlive writes that the other
//! lost.
//!
//! Recovery tells the end of the log from damage as follows (design section 5). Records are good up
//! to the first bad one. If a later record, or the manifest's note of a clean close, says that the
//! log was durable beyond that place, durable data is gone: `Corruption`. Otherwise the log ends
//! there.

pub(crate) mod beside;
mod copy;
pub(crate) mod files;
mod marks;
mod orphans;
mod replay;
mod survey;
pub(crate) mod under_repair;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use hedgerow_io::{Environment, FileLock, ReadMode, Storage};
use hedgerow_mem::Publisher;

use crate::base::entry::{KeyspaceId, PartitionId, SeqNo};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::merge_operator::Operators;
use crate::base::names::Names;
use crate::base::options::LevelPaths;
use crate::base::runtime::{RateLimiter, Scheduler, Throttle};
use crate::base::stats::{Event, Listener, Stats};
use crate::design::advisor::Device;
use crate::design::in_force::DesignInForce;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::{FilterFiles, Host, filters_dir};
use crate::paths::background;
use crate::paths::group_filters;
use crate::table::TableContext;
use crate::table::memory::Memory;
use crate::table::open::table_number;
use crate::tree::engine::{
    Asynchronous, Catalog, CommitState, CurrentCatalog, Directories, Engine, Events, Ids,
    KeyspaceCell, KeyspaceState, Stripes, WholeTrees, Writer, log_dir,
};
use crate::tree::expiry_clock::ExpiryClock;
use crate::tree::partition::{KeyspaceFacts, Partition, tables_dir};
use crate::tree::snapshot_list::SnapshotList;
use crate::tree::version::edit::KeyspaceDescription;
use crate::tree::version::manifest;
use crate::tree::version::places::Places;
use crate::tree::version::state::{State, TreeDescription};
use crate::tree::version::{Version, VersionSet};
use crate::tree::wal::Log;
pub(crate) use marks::{MARK_FILE, read_mark};
use replay::{begin_new_log, replay};
use survey::{Survey, survey};
pub(crate) use survey::{files_in, would_open};
use under_repair::lost_dir;

/// The maximum number of commits under way.
const COMMITS_UNDER_WAY_MAX: usize = 1024;

/// The options for opening a database.
#[derive(Clone)]
pub(crate) struct OpenOptions {
    pub(crate) environment: Environment,
    pub(crate) memory_budget: u64,
    pub(crate) read_only: bool,
    pub(crate) create_if_missing: bool,
    pub(crate) read_mode: ReadMode,
    pub(crate) io_bytes_per_second: Option<u64>,
    pub(crate) log_bytes_max: Option<u64>,
    pub(crate) log_segment_bytes: Option<u64>,
    pub(crate) compress_log: bool,
    pub(crate) listener: Option<Listener>,
    pub(crate) workers: usize,
    pub(crate) worker_queue_tasks: usize,
    pub(crate) device: Device,
    pub(crate) operators: Operators,
    pub(crate) level_paths: Option<LevelPaths>,
}

/// Opens the database, or creates it.
pub(crate) fn open(dir: &Path, options: &OpenOptions) -> Result<Arc<Engine>> {
    if options.read_only {
        return open_read_only(dir, options);
    }
    let storage = &*options.environment.storage;
    if !options.create_if_missing && !manifest::exists(storage, dir)? {
        return Err(no_database(storage, dir));
    }
    let created = storage.create_dir_all(dir);
    created.map_err(|e| Error::io("create", dir, e))?;
    let lock = take_lock(storage, dir)?;
    under_repair::refuse(storage, dir)?;
    let engine = begin(dir, options, Some(vec![lock]))?.finish()?;
    for partition in engine.catalog.load().partitions.values() {
        background::tune_and_settle(&engine, partition);
    }
    engine.events.deliver();
    Ok(engine)
}

/// A database that is described, but whose log is not replayed yet.
pub(crate) struct Recovery {
    pub(crate) engine: Arc<Engine>,
    survey: Survey,
    began: Duration,
}

/// Opens the database, or creates it, except for its log. The caller gives it the lock of its
/// directory, or holds the locks of all its places.
pub(crate) fn begin(
    dir: &Path,
    options: &OpenOptions,
    locks: Option<Vec<Box<dyn FileLock>>>,
) -> Result<Recovery> {
    let storage = &options.environment.storage;
    for made in [tables_dir(dir), filters_dir(dir), log_dir(dir)] {
        storage
            .create_dir_all(&made)
            .map_err(|e| Error::io("create", &made, e))?;
    }
    let mut state = if manifest::exists(&**storage, dir)? {
        let replay = manifest::replay(&**storage, dir)?;
        replay.check_writable()?;
        State::replay(&replay.edits)?
    } else {
        refuse_leftovers(&**storage, dir)?;
        State::default()
    };
    let places = marks::choose(dir, options, &state)?;
    let locks = marks::prepare(&**storage, dir, &state.places, &places, locks)?;
    // The log stays where it was until a new one begins.
    state.places = Places {
        log: state.places.log,
        ..places.clone()
    };
    let began = options.environment.clock.now();
    let survey = survey(&**storage, dir, &state)?;
    let (orphans, highest_file) = orphans::find(&**storage, dir, &state, &places)?;
    state.next_table = state.next_table.max(highest_file + 1);
    state.closed = None;
    let engine = assemble(dir, options, state, &survey, places, Some(locks))?;
    // The manifest as it was read may not have been durable, and the state before it may need these
    // files. Only now there is a new manifest, which is durable.
    orphans::remove(&**storage, &orphans).inspect_err(|_| engine.abandon())?;
    Ok(Recovery {
        engine,
        survey,
        began,
    })
}

impl Recovery {
    /// Replays the log. Merges nothing below level 0: a merge under a repair would drop deletes of
    /// what tables in `lost` still have, and the next repair merges those again.
    pub(crate) fn finish(self) -> Result<Arc<Engine>> {
        let (engine, survey) = (self.engine, self.survey);
        let operations = replay(&engine, &survey)
            .and_then(|replayed| begin_new_log(&engine, &survey, replayed))
            .inspect_err(|_| engine.abandon())?;
        engine.remove_obsolete();
        engine.memory.balance();
        engine.report(Event::Recovered {
            operations,
            took: engine.environment.clock.now().saturating_sub(self.began),
        });
        Ok(engine)
    }
}

/// Opens beside a writer.
fn open_read_only(dir: &Path, options: &OpenOptions) -> Result<Arc<Engine>> {
    let engine = beside::read(dir, options, |state, survey| {
        let places = state.places.clone();
        let engine = assemble(dir, options, state, survey, places, None)?;
        replay(&engine, survey)?;
        engine.catalog.load().hold_tables()?;
        Ok(engine)
    })?;
    engine.memory.balance();
    Ok(engine)
}

/// The error of opening a directory without a manifest: it is no database, or a damaged one.
fn no_database(storage: &dyn Storage, dir: &Path) -> Error {
    match under_repair::refuse(storage, dir).and_then(|()| refuse_leftovers(storage, dir)) {
        Err(error) if error.kind() == ErrorKind::Corruption => error,
        _ => Error::invalid(format!(
            "expected a database, found no manifest in {}",
            dir.display()
        )),
    }
}

/// The places of a database that is repaired. If the manifest is lost, those that the caller names.
pub(crate) fn places_to_repair(dir: &Path, options: &OpenOptions, known: &State) -> Result<Places> {
    if known.places == Places::default() {
        return marks::named(dir, options);
    }
    let places = known.places.at(&marks::choose(dir, options, known)?);
    marks::check(&*options.environment.storage, dir, &known.places, &places)?;
    Ok(places)
}

pub(crate) fn take_lock(storage: &dyn Storage, dir: &Path) -> Result<Box<dyn FileLock>> {
    let path = dir.join("LOCK");
    storage.lock(&path).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::new(
            ErrorKind::Locked,
            "expected to be the only writer (`read_only` is not one), found another",
        )
        .at(dir, None),
        _ => Error::io("lock", &path, e),
    })
}

/// Refuses a directory with tables but without a manifest: it is not a new database. A later repair
/// would take in those that an earlier one has set aside.
fn refuse_leftovers(storage: &dyn Storage, dir: &Path) -> Result<()> {
    for tables in [tables_dir(dir), lost_dir(dir)] {
        let found = files_in(storage, &tables)?;
        if found.iter().any(|file| table_number(&file.name).is_some()) {
            return Err(Error::corruption(
                "expected a manifest beside the tables, found none; `repair` makes one from the \
                 tables",
            )
            .at(&dir.join(manifest::FILE_NAME), None));
        }
    }
    Ok(())
}

// ---- building the engine ----

fn table_context(
    options: &OpenOptions,
    names: &Arc<Names>,
    memory: &Arc<Memory>,
    stats: &Arc<Stats>,
) -> Arc<TableContext> {
    Arc::new(TableContext {
        storage: names.clone(),
        read_mode: options.read_mode,
        memory: memory.clone(),
        stats: stats.clone(),
        graveyard: Mutex::default(),
        removing: Mutex::default(),
    })
}

fn assemble(
    dir: &Path,
    options: &OpenOptions,
    state: State,
    survey: &Survey,
    places: Places,
    locks: Option<Vec<Box<dyn FileLock>>>,
) -> Result<Arc<Engine>> {
    let (environment, names) = Names::over(&options.environment);
    let memory = Arc::new(Memory::new(options.memory_budget));
    memory.check_trees(state.trees.len())?;
    memory.set_trees(state.trees.len());
    let stats = Arc::new(Stats::default());
    let tables = table_context(options, &names, &memory, &stats);
    let expiry = ExpiryClock::new(&*environment.clock, state.clock);
    let times_to_live = state.times_to_live.clone();
    let keyspaces = state.keyspaces.clone();
    let trees = state.trees.clone();
    let writer = locks
        .map(|locks| {
            make_writer(
                dir,
                options,
                (state, &places),
                survey,
                (locks, names),
                &memory,
            )
        })
        .transpose()?;
    let events = Arc::new(Events::new(options.listener.clone()));
    let delivered = events.clone();
    let engine = Arc::new(Engine {
        directories: Directories {
            root: dir.to_path_buf(),
            places,
        },
        scheduler: Scheduler::start(&environment, move || delivered.deliver())?,
        throttle: Throttle::new(environment.clock.clone()),
        environment,
        memory,
        tables,
        stats,
        events,
        operators: options.operators.clone(),
        expiry,
        catalog: CurrentCatalog::default(),
        snapshots: SnapshotList::default(),
        publisher: Publisher::new(survey.last.0, COMMITS_UNDER_WAY_MAX),
        writer,
        asynchronous: Asynchronous::default(),
        closed: AtomicBool::new(false),
    });
    let catalog = open_keyspaces(&engine, &keyspaces, &trees)?;
    for (id, ms) in &times_to_live {
        catalog.states[id].facts.set_time_to_live(*ms);
    }
    engine.set_catalog(catalog);
    Ok(engine)
}

/// The keyspaces of the manifest, with their trees. Cost: visits each tree once.
fn open_keyspaces(
    engine: &Engine,
    keyspaces: &BTreeMap<KeyspaceId, KeyspaceDescription>,
    trees: &BTreeMap<PartitionId, TreeDescription>,
) -> Result<Catalog> {
    let mut filters = FilterFiles::list(&engine.tables, &engine.filters_dir());
    let mut catalog = Catalog::default();
    for (&id, keyspace) in keyspaces {
        let tree = |partition: PartitionId, facts: &KeyspaceFacts| -> Result<_> {
            let tree = trees.get(&partition);
            let depth = usize::from(tree.map_or(keyspace.depth, |t| t.depth));
            let mut edit = TreeEdit::new(partition);
            if let Some(tree) = tree {
                edit.added = tree.tables.values().cloned().collect();
                edit.policy_note = (tree.policy_note > 0).then_some(tree.policy_note);
                edit.ranges = tree.ranges.iter().map(|(&l, &r)| (l, r)).collect();
                edit.draining = tree.draining.iter().map(|(&l, &t)| (l, Some(t))).collect();
            }
            let flushed_through = tree.map_or(SeqNo(0), |t| t.flushed_through);
            if edit == TreeEdit::new(partition) {
                return Ok((engine.catalog.empty_version(depth), flushed_through));
            }
            let mut version = Version::new(depth);
            version.apply(&edit, |meta| engine.table(meta, facts))?;
            let design = facts.design_owned();
            let cx = group_filters::context_at_opening(engine, facts, &design, partition);
            filters.attach(&cx, &mut version);
            Ok((Arc::new(version), flushed_through))
        };
        let (memory, operators) = (&engine.memory, &engine.operators);
        let (cell, state) = open_keyspace(memory, operators, id, keyspace, tree)?;
        catalog.add(&cell, &state);
    }
    Ok(catalog)
}

fn make_writer(
    dir: &Path,
    options: &OpenOptions,
    (state, places): (State, &Places),
    survey: &Survey,
    (locks, names): (Vec<Box<dyn FileLock>>, Arc<Names>),
    memory: &Memory,
) -> Result<Writer> {
    let memory = memory.plan();
    let environment = &options.environment;
    let default_segment = (memory.active() / 2).clamp(64 << 10, 64 << 20);
    let segment_bytes = options.log_segment_bytes.unwrap_or(default_segment);
    let log_bytes_max = options
        .log_bytes_max
        .unwrap_or(2 * memory.memtables)
        .max(2 * segment_bytes);
    let next_seqno = SeqNo(survey.last.0 + 1);
    let log_dir = log_dir(&places.log_root(dir));
    let (ids, has_slots) = (Ids::new(&state), state.feed.is_on());
    // The manifest names all places before any file is put into them.
    let manifest = VersionSet::create(names.clone(), dir, state)?;
    let (log, tail) = Log::create(
        names.clone(),
        &log_dir,
        segment_bytes,
        options.compress_log,
        survey.next_segment,
        next_seqno,
        Vec::new(),
    )?;
    Ok(Writer {
        log,
        log_bytes_max,
        commit: Mutex::new(CommitState { next_seqno, tail }),
        stripes: Stripes::default(),
        manifest: Mutex::new(manifest),
        ids,
        preparing_spares: AtomicBool::new(false),
        has_slots: AtomicBool::new(has_slots),
        whole_trees: WholeTrees::default(),
        rate_limiter: RateLimiter::new(environment.clock.clone(), options.io_bytes_per_second),
        device: options.device.clone(),
        to_warm: Mutex::default(),
        names,
        locks: Mutex::new(locks),
    })
}

/// The shared part of a keyspace's handles, over the trees that `tree` returns.
pub(crate) fn open_keyspace(
    memory: &Memory,
    operators: &Operators,
    id: KeyspaceId,
    keyspace: &KeyspaceDescription,
    mut tree: impl FnMut(PartitionId, &KeyspaceFacts) -> Result<(Arc<Version>, SeqNo)>,
) -> Result<(Arc<KeyspaceCell>, Arc<KeyspaceState>)> {
    let design = DesignInForce::derive(
        keyspace.design.clone(),
        &keyspace.layout,
        memory.plan().active(),
    );
    let facts = KeyspaceFacts::new(id, keyspace, design, operators);
    let mut partitions = Vec::with_capacity(keyspace.partitions.len());
    for (index, &partition) in keyspace.partitions.iter().enumerate() {
        let (version, flushed) = tree(partition, &facts)?;
        let facts = facts.clone();
        partitions.push(Partition::new(
            partition,
            index,
            facts,
            version,
            flushed,
            &memory.pool,
        ));
    }
    let state = Arc::new(KeyspaceState {
        facts: facts.clone(),
        partitions,
    });
    let cell = Arc::new(KeyspaceCell {
        facts,
        state: ArcSwap::new(state.clone()),
        dropped: AtomicBool::new(false),
        dropping: AtomicBool::new(false),
    });
    Ok((cell, state))
}
