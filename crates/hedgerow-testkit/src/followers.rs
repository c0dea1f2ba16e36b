//! A writer and those that follow it: a consumer of its changes, a follower beside it, a replica on
//! another machine. Each of them crashes at any moment. A seed determines everything.
//!
//! These statements must hold:
//!
//! * Commits come in the order of their numbers. When a consumer has all of them, it has exactly
//!   the contents of the database, also after any crash of the writer. So it never has a commit
//!   that the writer loses.
//! * A follower sees every write that has reached the system, and never an earlier state again.
//! * A replica that has received everything has the contents of the writer, also if it crashed or
//!   the transport was cut.
//!
//! Contents are values with their times of expiry. All clocks are one, which passes by hours.

mod contents;
mod writer;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hedgerow::io::sim::{SimClock, SimStorage};
use hedgerow::io::{Clock, Environment, Storage};
use hedgerow::{Builder, Db, Follower, Result, repair_with};
use hedgerow_copies::backup::{Options, Repository};
use hedgerow_copies::replica::{OWN_KEYSPACE, Replica, send};

use crate::operator;
use crate::random::Random;

use contents::{Contents, Known, apply, contents, same, wrong};

const SLOT: &str = "consumer";
const HOUR: Duration = Duration::from_secs(3600);

/// Makes one run.
///
/// # Errors
/// The first violation, or an error of a call that must succeed.
pub fn run(seed: u64) -> std::result::Result<(), String> {
    let mut world = World::new(seed).map_err(|e| e.to_string())?;
    for step in 0..120 {
        let stepped = world.step();
        stepped.map_err(|e| format!("step {step}, {}: {e}", world.doing))?;
    }
    let ended = world.check_everybody();
    ended.map_err(|e| format!("at the end: {e}"))
}

struct World {
    random: Random,
    disk: SimStorage,
    db: Option<Db>,
    clock: Arc<SimClock>,
    /// The contents that follow from the changes.
    consumed: Contents<Known>,
    position: u64,
    follower: Option<Follower>,
    replica_disk: SimStorage,
    replica: Option<Replica>,
    /// The position up to which the replica is durable.
    received: u64,
    written: u64,
    copies: u64,
    /// A run has one repair.
    is_repaired: bool,
    doing: &'static str,
}

impl World {
    fn new(seed: u64) -> Result<World> {
        let mut world = World {
            random: Random::new(seed),
            disk: SimStorage::new(seed),
            db: None,
            clock: Arc::default(),
            consumed: Contents::new(),
            position: 0,
            follower: None,
            replica_disk: SimStorage::new(seed ^ 1),
            replica: None,
            received: 0,
            written: 0,
            copies: 0,
            is_repaired: false,
            doing: "opening",
        };
        world.open()?;
        world.begin_anew()?;
        world.write()?;
        Ok(world)
    }

    fn environment(&self, disk: &SimStorage) -> Environment {
        Environment {
            clock: self.clock.clone(),
            ..Environment::simulated(disk, 3)
        }
    }

    fn builder(&self, disk: &SimStorage) -> Builder {
        Db::builder("/db")
            .environment(self.environment(disk))
            .merge_operator(operator::Notes)
            .memory_budget(1 << 20)
            .log_segment_bytes(8 << 10)
            .log_bytes_max(32 << 10)
    }

    fn open(&mut self) -> Result<()> {
        self.db = Some(self.builder(&self.disk).open()?);
        Ok(())
    }

    fn db(&self) -> Result<&Db> {
        self.db
            .as_ref()
            .ok_or_else(|| wrong("the database is closed".to_owned()))
    }

    fn open_replica(&mut self, begin: u64) -> Result<()> {
        let db = self.builder(&self.replica_disk).open()?;
        self.replica = Some(Replica::open(db, begin)?);
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        self.clock.advance(HOUR * self.random.range(1, 3) as u32);
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let (doing, act): (_, fn(&mut World) -> Result<()>) = match self.random.below(25) {
            0..=9 => ("writing", World::write),
            10..=12 => ("changing keyspaces", World::change_keyspaces),
            13 => ("loading", World::load),
            14 | 15 => ("merging", World::merge),
            16 | 17 => ("consuming", World::consume_some),
            18 | 19 => ("following", World::follow),
            20 | 21 => ("replicating", World::replicate),
            22 => ("crashing the writer", World::crash_writer),
            23 => ("waiting", World::wait),
            _ => ("crashing the replica", World::crash_replica),
        };
        self.doing = doing;
        act(self)
    }

    fn crash_writer(&mut self) -> Result<()> {
        let way = self.random.below(10);
        self.doing = match way {
            0..=2 => "killing the writer",
            3 | 4 => "closing the writer",
            5 => "repairing the writer",
            _ => "cutting the writer off",
        };
        match way {
            0..=2 => self.disk = self.disk.kill(),
            3..=5 => {
                if way == 5 {
                    // A repair forgets what the consumer lacks.
                    self.consume(usize::MAX)?;
                }
                if let Some(db) = self.db.take() {
                    db.close()?;
                }
            }
            _ => {
                self.disk = self.disk.crash();
                // The next opening may be cut, too.
                if self.random.one_in(2) {
                    self.disk.crash_after(self.random.below(40));
                    drop(self.builder(&self.disk).open());
                    self.disk = self.disk.crash();
                }
            }
        }
        if way == 5 && !self.is_repaired {
            return self.repair();
        }
        // A follower stays when the disk does.
        if !(3..=5).contains(&way) {
            self.follower = None;
        }
        self.open()?;
        self.follow()?;
        self.check_consumer()
    }

    /// A repair forgets the slots. Whoever follows begins anew, with a copy.
    fn repair(&mut self) -> Result<()> {
        self.is_repaired = true;
        repair_with(self.builder(&self.disk))?;
        self.open()?;
        self.follow()?;
        self.begin_anew()
    }

    /// Makes a new slot, and gives the replica a copy. The consumer has everything: from a copy it
    /// could not tell operands from the value under them, which may expire.
    fn begin_anew(&mut self) -> Result<()> {
        let old = self.db()?.slots()?;
        old.keys().try_for_each(|name| self.db()?.drop_slot(name))?;
        self.position = self.db()?.create_slot(SLOT, 1 << 30)?;
        self.copies += 1;
        let copy = format!("/copy-{}", self.copies);
        let environment = self.environment(&self.disk);
        let repository = Repository::new("/backups").environment(environment);
        let builder = self.builder(&self.disk);
        let backup = repository.create(&builder, Options::default(), |_| true)?;
        repository.restore(None, &copy, |_| true)?;
        self.replica = None;
        self.replica_disk = SimStorage::new(self.copies);
        for dir in ["tables", "filters", "log"] {
            let made = Path::new("/db").join(dir);
            let made = self.replica_disk.create_dir_all(&made);
            made.map_err(|e| wrong(e.to_string()))?;
        }
        for path in self.disk.paths() {
            if let Ok(rest) = path.strip_prefix(&copy) {
                let bytes = self.disk.contents(&path);
                let to = Path::new("/db").join(rest);
                let copied = bytes.and_then(|bytes| self.replica_disk.set_contents(to, &bytes));
                copied.map_err(|e| wrong(e.to_string()))?;
            }
        }
        self.received = backup.last;
        self.open_replica(backup.last)
    }

    // ---- those that follow ----

    /// Applies some changes, read here or from the files.
    fn consume(&mut self, commits_max: usize) -> Result<()> {
        let mut changes = match self.random.one_in(2) {
            true => self.db()?.changes_since(self.position)?,
            false => self.builder(&self.disk).changes_since(self.position)?,
        };
        for commit in changes.by_ref().take(commits_max) {
            let commit = commit?;
            if commit.number <= self.position {
                let (found, position) = (commit.number, self.position);
                return Err(wrong(format!(
                    "expected a commit behind {position}, found {found}"
                )));
            }
            self.position = commit.number;
            for change in commit.changes {
                apply(&mut self.consumed, change)?;
            }
        }
        Ok(())
    }

    fn consume_some(&mut self) -> Result<()> {
        let some = self.random.below(30) as usize;
        self.consume(some)?;
        // The slot keeps what the replica needs, too.
        let confirmed = self.position.min(self.received);
        let slot = self.db()?.slots()?[SLOT];
        if self.random.one_in(2) && confirmed > slot.position {
            self.db()?.confirm_slot(SLOT, confirmed)?;
        }
        Ok(())
    }

    fn check_consumer(&mut self) -> Result<()> {
        self.consume(usize::MAX)?;
        let now = self.clock.unix_millis();
        let present = |map: &BTreeMap<Vec<u8>, Known>| {
            let entries = map.iter();
            let entries = entries.filter_map(|(k, known)| Some((k.clone(), known.at(k, now)?)));
            entries.collect()
        };
        let consumed = self.consumed.iter();
        let consumed = consumed.map(|(name, map)| (name.clone(), present(map)));
        same("the consumer", &consumed.collect(), &contents(self.db()?)?)
    }

    fn follow(&mut self) -> Result<()> {
        match &mut self.follower {
            Some(follower) => drop(follower.catch_up()?),
            None => self.follower = Some(self.builder(&self.disk).open_follower()?),
        }
        let Some(follower) = &self.follower else {
            return Ok(());
        };
        let lag = follower.stats()?.lag_writes;
        if lag > 0 {
            return Err(wrong(format!("expected no lag, found one of {lag}")));
        }
        same(
            "the follower",
            &contents(follower.db())?,
            &contents(self.db()?)?,
        )
    }

    /// The bytes of all commits that the replica lacks.
    fn sent(&mut self) -> Result<Vec<u8>> {
        let position = self.replica.as_ref().map_or(0, Replica::position);
        let mut changes = match self.random.one_in(2) {
            true => self.db()?.changes_since(position)?,
            false => self.builder(&self.disk).changes_since(position)?,
        };
        let mut bytes = Vec::new();
        send(&mut changes, &mut bytes)?;
        Ok(bytes)
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(replica) = &mut self.replica {
            self.received = replica.receive(&mut &*bytes)?;
        }
        Ok(())
    }

    /// Sends what the replica lacks. The transport may be cut.
    fn replicate(&mut self) -> Result<()> {
        let bytes = self.sent()?;
        if self.random.one_in(3) {
            let cut = self.random.below(bytes.len() as u64 + 1) as usize;
            let _ = self.receive(&bytes[..cut]);
            return Ok(());
        }
        self.receive(&bytes)?;
        self.check_replica()
    }

    fn check_replica(&self) -> Result<()> {
        let Some(replica) = &self.replica else {
            return Ok(());
        };
        let mut copied = contents(replica.db())?;
        copied.remove(OWN_KEYSPACE);
        same("the replica", &copied, &contents(self.db()?)?)
    }

    fn crash_replica(&mut self) -> Result<()> {
        // Perhaps in the middle of its work.
        if self.random.one_in(2) {
            let bytes = self.sent()?;
            self.replica_disk.crash_after(self.random.below(60));
            let _ = self.receive(&bytes);
        }
        let Some(before) = self.replica.take().map(|it| it.position()) else {
            return Ok(());
        };
        self.replica_disk = match self.random.one_in(2) {
            true => self.replica_disk.kill(),
            false => self.replica_disk.crash(),
        };
        self.open_replica(0)?;
        let after = self.replica.as_ref().map_or(0, Replica::position);
        // The position before the first commit is not stored.
        if after == 0 {
            self.consume(usize::MAX)?;
            return self.begin_anew();
        }
        // A transport that was cut may leave commits that are not durable yet.
        match after <= before {
            true => Ok(()),
            false => Err(wrong(format!(
                "expected a position up to {before}, found {after}"
            ))),
        }
    }

    fn check_everybody(&mut self) -> Result<()> {
        self.check_consumer()?;
        self.follow()?;
        let bytes = self.sent()?;
        self.receive(&bytes)?;
        let replica = self.replica.as_ref().map(Replica::db);
        replica
            .into_iter()
            .try_for_each(|db| db.verify().map(drop))?;
        self.db()?.verify()?;
        self.check_replica()
    }
}
