//! Power cuts, kills, faults and full disks on a simulated disk. A seed determines everything.
//!
//! A run is some rounds on one disk. Each round opens the database, writes and reads for a while
//! with some [`Trouble`], and then checks what is left. These statements must hold:
//!
//! * After a power cut the state is that after some *prefix* of all commits, over all keyspaces and
//!   partitions alike. The prefix has every commit that was known to be durable. After a kill it
//!   has every commit that was acknowledged.
//! * A keyspace is durably made, cleared or dropped when the call returns, and so is its design.
//!   After a call with an unknown outcome the design is the old or the new one.
//! * With a fault, calls may fail, but every answer is right. A write that fails without `Poisoned`
//!   was not done. After `Poisoned` no write is accepted and reads continue.
//! * On a full disk writes fail with `NoSpace`, reads continue, and writes resume when there is
//!   room.
//! * An opening succeeds unless it meets a fault, however often it was cut short before. Then
//!   `verify` finds nothing, and the contents found stay.

mod adoptions;
mod copies;
mod ends;
mod loads;
mod maintenance;
mod oracle;
mod ranges;
mod reads;
mod stalled;
mod transact;
mod trouble;
mod values;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hedgerow::io::Environment;
use hedgerow::io::sim::{SimClock, SimStorage};
use hedgerow::{Db, Error, ErrorKind, KeyOrder, Keyspace, Partitioning};

use crate::blob::{Blob, Filler};
use crate::generate::key;
use crate::metamorphic::{ORDERS, any_design, any_partitioning, any_workers};
use crate::operator::Notes;
use crate::order::{ANY_KEY, takes};
use crate::random::{Random, mix};
use crate::setup::{Setup, suited};

use adoptions::{Adoptions, Designs, Told};
use oracle::{AllValues, Change, NAMES, Oracle, set};
pub use stalled::{run_with_a_stalled_mark, run_with_a_stalled_writer};
pub use trouble::Trouble;
use values::Values;

/// The result of a run. Equal seeds have equal results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// A hash over the traces of all its disks.
    pub trace_hash: u64,
    /// The operations and their answers.
    pub transcript: Vec<String>,
}

/// Makes one run with troubles of these kinds.
///
/// # Errors
/// The first violation, after all operations before it.
pub fn run(seed: u64, troubles: &[Trouble]) -> Result<Outcome, String> {
    Harness::new(seed).run(troubles)
}

/// Makes a run with self-tuning keyspaces, which get enough reads to retune themselves.
///
/// # Errors
/// Those of [`run`].
pub fn run_self_tuning(seed: u64, troubles: &[Trouble]) -> Result<Outcome, String> {
    let mut harness = Harness::new(seed);
    harness.setup.tune_itself();
    harness.run(troubles)
}

/// Makes a run of many short lives without any merge, so that level 0 becomes as full as it can.
///
/// # Errors
/// Those of [`run`].
pub fn run_without_merges(seed: u64) -> Result<Outcome, String> {
    let mut harness = Harness::new(seed);
    harness.setup.partitioning = Partitioning::Single;
    harness.paths = &[FLUSHES_APART];
    harness.rounds = 150;
    harness.run(&[Trouble::NoMerges])
}

const DIR: &str = "/db";
/// The assignments of a database's files to directories.
const PATHS: [&str; 4] = [
    "",
    "0=/fast;1-=/slow;log=/fast;filters=/slow",
    "0-2=/fast;log=/slow",
    "1=/slow;filters=/fast",
];

/// An assignment with a disk of its own for flushes, and one for merges.
const FLUSHES_APART: &str = "0=/fast;1-=/slow";

struct Harness {
    seed: u64,
    random: Random,
    setup: Setup,
    keys: u64,
    disk: SimStorage,
    oracle: Oracle,
    /// The clock of the machine, which power cuts do not stop.
    clock: Arc<SimClock>,
    /// The hours that have passed.
    hour: u64,
    /// The values that have not expired.
    live: AllValues,
    /// The keys whose expiry is not known, for the rest of the run: a later power cut may lose what
    /// is written over them.
    unsure: BTreeSet<(String, Vec<u8>)>,
    /// The possible times to live of keyspaces, in hours; 0 is for ever. The last one is in force.
    time_to_live: BTreeMap<String, Vec<u64>>,
    designs: Designs,
    adoptions: Adoptions,
    transcript: Vec<String>,
    trace_hash: u64,
    written: u64,
    copies: u32,
    /// The assignments of the database's files. Each opening uses one of them or none. A single
    /// assignment is always used.
    paths: &'static [&'static str],
    rounds: u64,
}

/// The state of a round.
struct Round {
    db: Db,
    trouble: Trouble,
    /// True if writes are refused, as they must be after a failure of the log.
    poisoned: bool,
}

/// The outcome of a call that may fail: done, not done, or unknown.
enum Ended {
    Done,
    NotDone,
    Unknown,
}

impl Harness {
    fn new(seed: u64) -> Harness {
        let mut random = Random::new(seed);
        let mut setup = Setup::tiny(seed);
        setup.order = *random.pick(&ORDERS);
        setup.partitioning = any_partitioning(&mut random, setup.order);
        if random.one_in(2) {
            setup.design = suited(any_design(&mut random), setup.order);
        }
        if random.one_in(4) {
            setup.segment_bytes = Some(*random.pick(&[16 << 10, 64 << 10]));
            setup.log_bytes_max = None;
        }
        setup.workers = any_workers(&mut random);
        let paths: &[_] = if random.one_in(3) { &PATHS } else { &[] };
        let rounds = random.range(2, 6);
        Harness {
            seed,
            keys: *random.pick(&[5, 40, 200]),
            disk: SimStorage::new(seed),
            random,
            setup,
            oracle: Oracle::settled(AllValues::new()),
            clock: Arc::new(SimClock::new()),
            hour: 0,
            live: AllValues::new(),
            unsure: BTreeSet::new(),
            time_to_live: BTreeMap::new(),
            designs: Designs::default(),
            adoptions: Adoptions::default(),
            transcript: Vec::new(),
            trace_hash: 0,
            written: 0,
            copies: 0,
            paths,
            rounds,
        }
    }

    fn run(mut self, troubles: &[Trouble]) -> Result<Outcome, String> {
        for _ in 0..self.rounds {
            let trouble = *self.random.pick(troubles);
            if let Err(wrong) = self.round(trouble) {
                let transcript = &self.transcript;
                let from = transcript.len().saturating_sub(150);
                let recent = transcript[from..].join("\n");
                return Err(format!("setup: {}\n{recent}\n{wrong}", self.setup));
            }
        }
        self.fold_trace();
        Ok(Outcome {
            trace_hash: self.trace_hash,
            transcript: self.transcript,
        })
    }

    fn round(&mut self, trouble: Trouble) -> Result<(), String> {
        self.note(format!("-- {trouble:?}"));
        let full = (trouble == Trouble::NoMerges).then_some("/slow/tables");
        self.disk.fill_path(full);
        let db = self.open_whole()?;
        let mut round = Round {
            db,
            trouble,
            poisoned: false,
        };
        let ops = match trouble {
            // Enough for a table at the next opening, most of the time.
            Trouble::NoMerges => self.random.range(4, 24),
            _ => self.random.skewed(300) + 10,
        };
        self.begin(trouble, ops);
        for _ in 0..ops {
            self.step(&mut round)?;
            self.hear();
            if self.disk.power_lost() {
                break;
            }
        }
        self.end(round)
    }

    // ---- opening ----

    fn environment(&self) -> Environment {
        Environment {
            clock: self.clock.clone(),
            ..Environment::simulated(&self.disk, self.seed)
        }
    }

    fn builder(&mut self) -> hedgerow::Builder {
        self.setup.compress_log = !self.setup.compress_log;
        let mut builder = Db::builder(DIR)
            .memory_budget(self.setup.budget_bytes)
            .compress_log(self.setup.compress_log)
            .workers(self.setup.workers.unwrap_or(0))
            .merge_operator(Notes)
            .environment(self.environment())
            .listener(self.adoptions.listener());
        if self.paths.len() == 1 || !self.paths.is_empty() && self.random.one_in(2) {
            let paths = *self.random.pick(self.paths);
            self.note(format!("opened with the paths `{paths}`"));
            builder = builder.level_paths(paths.parse().unwrap_or_default());
        }
        if let Some(bytes) = self.setup.segment_bytes {
            builder = builder.log_segment_bytes(bytes);
        }
        if let Some(bytes) = self.setup.log_bytes_max {
            builder = builder.log_bytes_max(bytes);
        }
        builder
    }

    /// Opens a database without trouble, and makes the missing keyspaces.
    fn open_whole(&mut self) -> Result<Db, String> {
        let db = self.builder().open();
        let db = db.map_err(|e| format!("expected the database to open, found {e}"))?;
        for name in NAMES {
            if self.live.contains_key(name) {
                continue;
            }
            let made = db.keyspace_with(name, self.setup.layout(), self.setup.design.clone());
            made.map_err(|e| format!("expected to make `{name}`, found {e}"))?;
            self.live.insert(name.to_owned(), Values::new());
            self.time_to_live.remove(name);
            self.designs.set(name, vec![self.setup.design.clone()]);
            self.oracle.create(name, true);
        }
        if self.setup.self_tuning {
            let all = NAMES.iter().filter_map(|name| db.existing_keyspace(name));
            let set = { all.into_iter() }.try_for_each(|it| it.set_self_tuning(true));
            set.map_err(|e| format!("expected to let keyspaces tune themselves, found {e}"))?;
        }
        Ok(db)
    }

    /// Continues with another disk.
    fn take(&mut self, disk: SimStorage, why: &str) {
        self.fold_trace();
        self.note(format!("-- {why}"));
        self.disk = disk;
    }

    fn fold_trace(&mut self) {
        self.trace_hash = mix(self.trace_hash.rotate_left(5) ^ self.disk.trace_hash());
    }

    fn note(&mut self, line: impl Into<String>) {
        // Includes the trace of the disk: where two runs of one seed differ, their lines differ.
        let trace = self.disk.trace_hash() as u16;
        self.transcript.push(format!("{trace:04x} {}", line.into()));
    }

    // ---- steps ----

    fn step(&mut self, round: &mut Round) -> Result<(), String> {
        match self
            .random
            .weighted(&[60, 15, 15, 6, 25, 5, 4, 3, 4, 3, 1, 2, 4, 4, 12, 6, 4, 2])
        {
            0 => self.write(round, 1, true),
            1 => self.write(round, 1, false),
            2 => {
                let count = self.random.skewed(20) + 1;
                self.write(round, count, true)
            }
            3 => self.update(round),
            4 => self.read(round),
            5 => {
                let result = round.db.sync();
                self.maintained(round, "sync", result, true)
            }
            6 => {
                let result = round.db.flush();
                self.maintained(round, "flush", result, true)
            }
            7 => self.merge(round),
            8 if round.trouble == Trouble::NoMerges => Ok(()),
            8 => {
                let name = *self.random.pick(&NAMES);
                self.empty(round, name)
            }
            9 => self.flush(round),
            11 => self.load(round),
            12 => self.retune(round),
            13 => self.move_all(round),
            14 => self.pop(round),
            15 => self.delete_range(round),
            16 => {
                self.pass();
                Ok(())
            }
            17 => self.set_time_to_live(round),
            _ => self.copy(round),
        }
    }

    fn keyspace(&mut self, round: &Round) -> Option<(&'static str, Keyspace)> {
        let name = *self.random.pick(&NAMES);
        Some((name, round.db.existing_keyspace(name)?))
    }

    fn key(&mut self) -> Vec<u8> {
        any_key(&mut self.random, self.keys, self.setup.order)
    }

    fn value(&mut self) -> Arc<[u8]> {
        self.written += 1;
        let bytes = match self.random.below(30) {
            0..=11 => 0,
            12..=24 => self.random.below(150),
            25..=28 => self.random.below(3000),
            _ => self.random.below(30_000),
        } as u32;
        let head = format!("v{}", self.written).into_bytes();
        let filler = match self.random.one_in(2) {
            true => Filler::Random(bytes),
            false => Filler::Repeated(bytes),
        };
        Blob { head, filler }.bytes().into()
    }

    /// Checks that every keyspace has one of its possible designs. From then on that is its only
    /// one.
    fn check_designs(&mut self, db: &Db) -> Result<(), String> {
        self.hear();
        for name in db.keyspaces() {
            let keyspace = db.existing_keyspace(&name).ok_or("a keyspace is gone")?;
            self.designs.check(&name, &keyspace.design())?;
            self.designs.set(&name, vec![keyspace.design()]);
            self.check_time_to_live(&name, &keyspace)?;
        }
        Ok(())
    }

    /// Records the reported adoptions of keyspaces.
    fn hear(&mut self) {
        for told in self.adoptions.take() {
            if let Told::Adopted(name) = &told {
                self.note(format!("`{name}` adopts a design"));
            }
            self.designs.hear(told);
        }
    }

    fn conclude(&mut self, ended: Ended, commit: Vec<Change>, durable: bool) {
        match ended {
            Ended::Done => {
                if !commit.is_empty() {
                    self.committed(commit);
                }
                if durable {
                    self.oracle.everything_is_durable();
                }
            }
            Ended::NotDone => {}
            Ended::Unknown => self.oracle.commit(commit, false),
        }
    }

    fn committed(&mut self, commit: Vec<Change>) {
        for (name, key, value) in &commit {
            if let Some(map) = self.live.get_mut(name) {
                set(map, key, value.clone());
            }
        }
        self.oracle.commit(commit, true);
    }

    /// Checks the result of a call that writes: its outcome, and whether it may fail.
    fn ended(
        &mut self,
        round: &mut Round,
        what: &str,
        result: hedgerow::Result<()>,
    ) -> Result<Ended, String> {
        let text = result.as_ref().err().map_or("ok".into(), Error::to_string);
        self.note(format!("{what}: {text}"));
        let Err(error) = result else {
            if round.poisoned && !what.starts_with("merge") {
                return Err(format!("`{what}` was done after a failure of the log"));
            }
            return Ok(Ended::Done);
        };
        self.allowed(round, &error)?;
        if error.kind() == ErrorKind::Poisoned {
            let first = !round.poisoned;
            round.poisoned = true;
            return Ok(if first {
                Ended::Unknown
            } else {
                Ended::NotDone
            });
        }
        // A checkpoint checks its own directory first, and may meet another fault there.
        if round.poisoned && what != "checkpoint" {
            return Err(format!(
                "expected `Poisoned` after a failure of the log, found {error}"
            ));
        }
        Ok(Ended::NotDone)
    }
}

/// Draws a key that keyspaces of this order take.
fn any_key(random: &mut Random, keys: u64, order: KeyOrder) -> Vec<u8> {
    let key = key(random.skewed(keys)).bytes();
    match takes(order, &key) {
        true => key,
        false => ANY_KEY.to_vec(),
    }
}
