//! Runs a script on the engine, beside the model, and compares their answers line by line.

mod openings;
mod reads;
mod transact;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{
    Db, Durability, Error, ErrorKind, Event, KeyOrder, Keyspace, Operations, Result, Snapshot,
};
use tempfile::TempDir;

use crate::answer;
use crate::blob::Blob;
use crate::model::Model;
use crate::operator::Notes;
use crate::ops::{self, Op, Source};
use crate::order::{self, ANY_KEY, Position};
use crate::setup::{DiskSpec, Setup, suited};
use crate::shifted_clock::ShiftedClock;

/// The keyspaces at the beginning of every run.
pub const KEYSPACES: [&str; 3] = ["a", "b", "c"];

/// The answers to a script, a line per operation.
pub type Transcript = Vec<String>;

/// The first difference between engine and model.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The setup of the run.
    pub setup: Setup,
    /// The operations up to the wrong answer.
    pub script: Vec<Op>,
    /// The expected answer.
    pub expected: String,
    /// The answer found.
    pub found: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "setup: {}", self.setup)?;
        writeln!(f, "script:\n{}", ops::print(&self.script))?;
        writeln!(f, "first difference, at the last operation:")?;
        writeln!(f, "  expected {}", self.expected)?;
        write!(f, "  found    {}", self.found)
    }
}

/// Runs a script and compares with the model. Panics of the engine are failures like others.
///
/// # Errors
/// The first difference.
pub fn check(setup: &Setup, script: &[Op]) -> std::result::Result<Transcript, Box<Failure>> {
    let mut transcript = Transcript::new();
    let mut reached = 0;
    let ran = catch_unwind(AssertUnwindSafe(|| {
        compare(setup, script, &mut transcript, &mut reached)
    }));
    let (expected, found) = match ran {
        Ok(None) => return Ok(transcript),
        Ok(Some(difference)) => difference,
        Err(panic) => ("no panic".into(), format!("panic: {}", panic_text(&*panic))),
    };
    Err(Box::new(Failure {
        setup: setup.clone(),
        script: script[..reached.min(script.len())].to_vec(),
        expected,
        found,
    }))
}

fn compare(
    setup: &Setup,
    script: &[Op],
    transcript: &mut Transcript,
    reached: &mut usize,
) -> Option<(String, String)> {
    let mut model = Model::new(&KEYSPACES, setup.order);
    let mut engine = match Runner::new(setup) {
        Ok(engine) => engine,
        Err(e) => return Some(("an open database".into(), e.to_string())),
    };
    for op in script {
        *reached += 1;
        let expected = model.apply(op);
        let (found, detail) = match engine.answer(op) {
            Ok(line) => (line, String::new()),
            Err(e) => (answer::error(e.kind()), format!(" ({e})")),
        };
        if found != expected {
            return Some((expected, found + &detail));
        }
        transcript.push(found);
    }
    // After any script the database is sound, and the same after a new opening.
    for op in [
        Op::Verify,
        Op::ReadOnly,
        Op::Reopen,
        Op::Verify,
        Op::ReadOnly,
    ] {
        let expected = model.apply(&op);
        match engine.answer(&op) {
            Ok(found) if found == expected => {}
            Ok(found) => return Some((format!("at the end, {op}: {expected}"), found)),
            Err(e) => return Some((format!("at the end, {op}: {expected}"), e.to_string())),
        }
    }
    None
}

/// Reads a key that no script writes and every order takes, many times. After that many reads a
/// small self-tuning keyspace of one tree checks, behind its next flush, whether another design
/// would pay.
///
/// # Errors
/// The first error of a call.
pub(crate) fn ask_often(keyspace: &Keyspace) -> Result<()> {
    let times = 2 * Operations::window(0);
    (0..times).try_for_each(|_| keyspace.contains_key(b"\x02n/absent").map(drop))
}

/// The message of a panic.
pub fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no text").to_owned()
}

#[derive(Debug)]
enum Disk {
    Simulated(SimStorage, u64),
    Directory(TempDir),
}

/// An open database with the handles that a script holds.
#[derive(Debug)]
pub struct Runner {
    setup: Setup,
    disk: Disk,
    cursors: BTreeMap<u8, Position>,
    snapshots: BTreeMap<u8, Snapshot>,
    handles: BTreeMap<String, Keyspace>,
    /// The keyspaces that got enough reads to tune themselves.
    asked: BTreeSet<String>,
    db: Option<Db>,
    checkpoints: u32,
    /// Merges and moves since the last operation began.
    merges: Arc<AtomicU64>,
    /// The clock of all databases of the run: it is not set back by openings and kills.
    clock: Arc<ShiftedClock>,
}

/// The limit on merges and moves of one operation. Beyond it merging does not end: real operations
/// have fewer than 300.
const MERGES_MAX: u64 = 5_000;

impl Runner {
    /// Opens a new database.
    ///
    /// # Errors
    /// The errors of the opening.
    pub fn new(setup: &Setup) -> Result<Runner> {
        let disk = match setup.disk {
            DiskSpec::Simulated(seed) => Disk::Simulated(SimStorage::new(seed), seed),
            DiskSpec::Directory => {
                let dir = tempfile::tempdir();
                let refused = |e| Error::new(ErrorKind::Io, format!("no temporary directory: {e}"));
                Disk::Directory(dir.map_err(refused)?)
            }
        };
        let mut runner = Runner {
            setup: setup.clone(),
            disk,
            cursors: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            handles: BTreeMap::new(),
            asked: BTreeSet::new(),
            db: None,
            checkpoints: 0,
            merges: Arc::default(),
            clock: Arc::new(ShiftedClock::new(setup)),
        };
        runner.open()?;
        for name in KEYSPACES {
            runner.create(name)?;
        }
        Ok(runner)
    }

    /// The simulated disk, if there is one.
    pub fn disk(&self) -> Option<&SimStorage> {
        match &self.disk {
            Disk::Simulated(disk, _) => Some(disk),
            Disk::Directory(_) => None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        match &self.disk {
            Disk::Simulated(..) => PathBuf::from("/").join(name),
            Disk::Directory(dir) => dir.path().join(name),
        }
    }

    fn builder(&self, name: &str) -> hedgerow::Builder {
        let merges = self.merges.clone();
        let count = move |event: &Event| {
            if matches!(event, Event::Merged { .. } | Event::Moved { .. }) {
                let count = merges.fetch_add(1, Ordering::Relaxed);
                // Once only: a second panic during the unwinding would end the process without a
                // message.
                assert!(count != MERGES_MAX, "merging does not come to an end");
            }
        };
        let mut builder = Db::builder(self.path(name))
            .listener(count)
            .merge_operator(Notes)
            .memory_budget(self.setup.budget_bytes)
            .compress_log(self.setup.compress_log)
            .read_mode(self.setup.read_mode)
            .workers(self.setup.workers.unwrap_or(0))
            .worker_queue(3);
        if let Some(bytes) = self.setup.segment_bytes {
            builder = builder.log_segment_bytes(bytes);
        }
        if let Some(bytes) = self.setup.log_bytes_max {
            builder = builder.log_bytes_max(bytes);
        }
        builder.environment(self.environment())
    }

    fn environment(&self) -> Environment {
        let environment = match &self.disk {
            Disk::Simulated(disk, seed) => Environment::simulated(disk, *seed),
            Disk::Directory(_) => Environment::os(),
        };
        Environment {
            clock: self.clock.clone(),
            ..environment
        }
    }

    fn open(&mut self) -> Result<()> {
        let db = self.builder("db").open()?;
        self.handles.clear();
        for name in db.keyspaces() {
            if let Some(keyspace) = db.existing_keyspace(&name) {
                self.handles.insert(name, keyspace);
            }
        }
        self.db = Some(db);
        Ok(())
    }

    fn create(&mut self, name: &str) -> Result<()> {
        // An existing keyspace keeps the design that a script gave it.
        let db = self.db()?;
        let keyspace = match db.existing_keyspace(name) {
            Some(_) => db.keyspace(name, self.setup.layout())?,
            None => db.keyspace_with(name, self.setup.layout(), self.setup.design.clone())?,
        };
        keyspace.set_self_tuning(self.setup.self_tuning)?;
        self.handles.insert(name.to_owned(), keyspace);
        Ok(())
    }

    fn db(&self) -> Result<&Db> {
        let closed = || Error::new(ErrorKind::Closed, "the database is not open");
        self.db.as_ref().ok_or_else(closed)
    }

    fn keyspace(&self, name: &str) -> Result<&Keyspace> {
        let none = || Error::new(ErrorKind::Closed, format!("no keyspace `{name}`"));
        self.handles.get(name).ok_or_else(none)
    }

    /// Returns the snapshot of a source; `None` is now.
    fn snapshot(&self, source: &Source) -> Result<Option<&Snapshot>> {
        let Some(slot) = source.snapshot else {
            return Ok(None);
        };
        let none = || Error::new(ErrorKind::Cancelled, format!("no snapshot {slot}"));
        self.snapshots.get(&slot).ok_or_else(none).map(Some)
    }

    /// Does an operation and returns its answer.
    ///
    /// # Errors
    /// The errors of the engine.
    pub fn answer(&mut self, op: &Op) -> Result<String> {
        self.merges.store(0, Ordering::Relaxed);
        match op {
            Op::Put { .. }
            | Op::PutExpiring { .. }
            | Op::Delete { .. }
            | Op::Merge { .. }
            | Op::DeleteRange { .. }
            | Op::Update { .. }
            | Op::Batch { .. }
            | Op::Transaction { .. }
            | Op::Load { .. }
            | Op::Pop { .. } => self.write(op),
            Op::Ends { .. }
            | Op::Get { .. }
            | Op::Has { .. }
            | Op::Gets { .. }
            | Op::Scan { .. }
            | Op::Prefix { .. } => self.read(op),
            Op::OpenCursor { .. } | Op::MoveCursor { .. } | Op::CloseCursor { .. } => {
                self.cursor(op)
            }
            Op::Checkpoint => self.checkpoint(),
            Op::ReadOnly => self.read_only(),
            _ => self.maintain(op).map(|()| answer::done()),
        }
    }

    fn maintain(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Snapshot { slot } => {
                let snapshot = self.db()?.snapshot()?;
                self.snapshots.insert(*slot, snapshot);
            }
            Op::Release { slot } => drop(self.snapshots.remove(slot)),
            Op::Flush { keyspace: None } => self.db()?.flush()?,
            Op::Flush {
                keyspace: Some(keyspace),
            } => {
                if self.setup.self_tuning && self.asked.insert(keyspace.clone()) {
                    ask_often(self.keyspace(keyspace)?)?;
                }
                self.keyspace(keyspace)?.flush()?;
            }
            Op::Compact {
                keyspace,
                lower,
                upper,
            } => {
                let keyspace = self.keyspace(keyspace)?;
                match keyspace.layout().order {
                    KeyOrder::Sorted => keyspace.compact(range(lower, upper))?,
                    // Such keys have no ranges.
                    _ => keyspace.compact::<&[u8]>(..)?,
                }
            }
            Op::Settle { keyspace } => {
                let keyspace = self.keyspace(keyspace)?;
                // A keyspace that is gone has nothing left to merge, so its error comes first.
                keyspace.contains_key(ANY_KEY)?;
                keyspace.wait_until_merged()?;
            }
            Op::Clear { keyspace } => self.keyspace(keyspace)?.clear()?,
            Op::Drop { keyspace } => {
                self.keyspace(keyspace)?.contains_key(ANY_KEY)?;
                match self.setup.workers {
                    None => self.db()?.drop_keyspace(keyspace)?,
                    Some(_) => self.db()?.drop_keyspace_async(keyspace).wait()?,
                }
            }
            Op::Create { keyspace } => self.create(keyspace)?,
            Op::Retune { keyspace, design } => {
                let keyspace = self.keyspace(keyspace)?;
                keyspace.retune(suited(design.clone(), keyspace.layout().order))?;
            }
            Op::TimeToLive { keyspace, hours } => {
                let hours = (*hours > 0).then(|| hours_of(*hours));
                self.keyspace(keyspace)?.set_time_to_live(hours)?;
            }
            Op::Wait { hours } => self.clock.advance(hours_of(*hours)),
            Op::Sync => self.db()?.sync()?,
            Op::Verify => drop(self.db()?.verify()?),
            Op::Reopen => self.reopen()?,
            Op::Kill => self.kill()?,
            _ => unreachable!("{op} is no maintenance"),
        }
        Ok(())
    }
}

/// Returns every keyspace of a database with a digest, read from both ends.
///
/// # Errors
/// The errors of the engine; `Conflict` if the two ends differ.
pub fn contents(db: &Db) -> Result<String> {
    let mut digests = Vec::new();
    for name in db.keyspaces() {
        let Some(keyspace) = db.existing_keyspace(&name) else {
            continue;
        };
        let all = || order::scan(&keyspace, None, (Bound::Unbounded, Bound::Unbounded));
        let forward = all()?.collect::<Result<Vec<_>>>()?;
        let mut backward = all()?.rev().collect::<Result<Vec<_>>>()?;
        backward.reverse();
        if forward != backward {
            let text = format!("`{name}` differs when read from its end");
            return Err(Error::new(ErrorKind::Conflict, text));
        }
        let entries = forward.iter().map(|(k, v)| (&**k, &**v));
        digests.push((name, answer::digest(entries)));
    }
    Ok(answer::contents(
        digests
            .iter()
            .map(|(name, digest)| (name.as_str(), *digest)),
    ))
}

fn hours_of(hours: u64) -> Duration {
    Duration::from_secs(3600 * hours)
}

fn durability(synced: bool) -> Durability {
    if synced {
        Durability::Synced
    } else {
        Durability::Buffered
    }
}

fn range(lower: &Bound<Blob>, upper: &Bound<Blob>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bytes = |bound: &Bound<Blob>| bound.as_ref().map(Blob::bytes);
    (bytes(lower), bytes(upper))
}
