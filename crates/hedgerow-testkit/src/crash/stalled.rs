//! A crash beside a writer that stalls in its commit, while others fill segments of the log and its
//! keyspace is cleared or dropped.
//!
//! Threads begin one after another, each when the disk is quiet. On a busy machine a thread may
//! pause by chance, and another interleaving runs. The same statements hold in each.

use std::collections::BTreeMap;
use std::ops::Range;
use std::thread;

use hedgerow::io::Environment;
use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Design, Durability, Keyspace, Layout, Result};

use super::DIR;
use crate::random::Random;

mod mark;

pub use mark::run_with_a_stalled_mark;

/// If nothing happens on the disk for this many turns, all other threads wait.
const QUIET_TURNS: u32 = 3000;

/// The plan of a run.
struct Plan {
    seed: u64,
    /// The contents of tables before the run.
    before: Vec<Write>,
    stalling: Vec<u8>,
    beside: Vec<Write>,
    /// The write before which the stalled writer's keyspace is cleared or dropped.
    goes_at: usize,
    is_cleared: bool,
    /// True if the stalled writer continues before the crash.
    goes_on: bool,
    is_cut: bool,
}

#[derive(Clone)]
struct Write {
    key: String,
    value: Vec<u8>,
    durability: Durability,
}

/// The result of a crash.
struct Left {
    disk: SimStorage,
    /// For each concurrent write, and for the clear or drop, whether it was acknowledged.
    acknowledged: Vec<bool>,
    is_gone: bool,
}

/// Makes one run: some writes, a stalled one, and others beside it. Among these its keyspace is
/// cleared or dropped. Then comes a crash, before or after the stalled writer continues.
///
/// # Errors
/// The first violation.
pub fn run_with_a_stalled_writer(seed: u64) -> std::result::Result<(), String> {
    let plan = Plan::any(seed);
    let left = plan.carry_out();
    let left = left.map_err(|e| format!("nothing was wrong with the disk, found {e}"))?;
    plan.check(&left)
}

impl Plan {
    fn any(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let before = writes_before(&mut random, seed % 5);
        let beside = any_writes(&mut random, "beside", seed % 17 + 1, 1000..3500);
        Plan {
            seed,
            before,
            stalling: any_value(&mut random, 2500..3500),
            goes_at: random.below(beside.len() as u64) as usize,
            beside,
            is_cleared: random.one_in(2),
            goes_on: !random.one_in(4),
            is_cut: random.one_in(2),
        }
    }

    fn carry_out(&self) -> Result<Left> {
        let disk = SimStorage::new(self.seed);
        let db = open(&disk, self.seed)?;
        let kept = db.keyspace_with("kept", Layout::sorted(), Design::default())?;
        let going = db.keyspace_with("going", Layout::sorted(), Design::default())?;
        for write in &self.before {
            kept.put(&write.key, &write.value)?;
        }
        db.flush()?;
        let go = || match self.is_cleared {
            true => going.clear(),
            false => db.drop_keyspace("going"),
        };
        thread::scope(|scope| {
            let stall = disk.stall_write(&self.stalling);
            let mut threads = vec![scope.spawn(|| going.put("stalled", &self.stalling))];
            stall.wait_until_reached();
            for (i, write) in self.beside.iter().enumerate() {
                if i == self.goes_at {
                    threads.insert(0, scope.spawn(go));
                    wait_until_quiet(&disk);
                }
                let kept = &kept;
                let put = || kept.put_with(&write.key, &write.value, write.durability);
                threads.push(scope.spawn(put));
                wait_until_quiet(&disk);
            }
            let image = || match self.is_cut {
                true => disk.crash(),
                false => disk.kill(),
            };
            let early = (!self.goes_on).then(|| {
                let acknowledged: Vec<_> = threads.iter().map(|t| t.is_finished()).collect();
                (acknowledged, image())
            });
            drop(stall);
            let mut acknowledged = Vec::new();
            for thread in threads {
                thread.join().expect("no thread panics")?;
                acknowledged.push(true);
            }
            let (acknowledged, disk) = early.unwrap_or_else(|| (acknowledged, image()));
            Ok(Left {
                disk,
                is_gone: acknowledged[0],
                acknowledged: acknowledged[2..].to_vec(),
            })
        })
    }

    fn check(&self, left: &Left) -> std::result::Result<(), String> {
        let wrong = |e| format!("expected a database that is whole, found {e}");
        let db = open(&left.disk, self.seed).map_err(wrong)?;
        let kept = db.existing_keyspace("kept").ok_or("`kept` is gone")?;
        let writes = [&self.before[..], &self.beside].concat();
        let before = self.before.iter().map(|_| true);
        let acknowledged: Vec<_> = before.chain(left.acknowledged.iter().copied()).collect();
        check_writes(&kept, &writes, &acknowledged, self.is_cut)?;
        let going = db.existing_keyspace("going");
        let is_empty = going.map(|it| it.get("stalled").map(|value| value.is_none()));
        let is_empty = is_empty.transpose().map_err(wrong)?;
        let as_told = if self.is_cleared { Some(true) } else { None };
        if left.is_gone && is_empty != as_told {
            return Err(format!(
                "expected {as_told:?}, found {is_empty:?} of the keyspace that went"
            ));
        }
        db.verify().map(drop).map_err(wrong)
    }
}

/// Checks that a keyspace has the writes that were acknowledged, and what was written only.
fn check_writes(
    keyspace: &Keyspace,
    writes: &[Write],
    acknowledged: &[bool],
    is_cut: bool,
) -> std::result::Result<(), String> {
    let wrong = |e| format!("expected a keyspace that is whole, found {e}");
    let entries = keyspace.scan::<&[u8]>(..).map_err(wrong)?;
    let entries = entries.map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec())));
    let mut found: BTreeMap<_, _> = entries.collect::<Result<_>>().map_err(wrong)?;
    for (write, &is_acknowledged) in writes.iter().zip(acknowledged) {
        let survives = write.durability == Durability::Synced || !is_cut;
        match found.remove(write.key.as_bytes()) {
            Some(value) if value == write.value => {}
            Some(_) => return Err(format!("`{}` has another value", write.key)),
            None if is_acknowledged && survives => {
                return Err(format!("`{}` was acknowledged, and is lost", write.key));
            }
            None => {}
        }
    }
    match found.first_key_value() {
        Some((key, _)) => Err(format!("nobody wrote {key:?}")),
        None => Ok(()),
    }
}

/// Writes that are durable when a run begins.
fn writes_before(random: &mut Random, count: u64) -> Vec<Write> {
    let mut writes = any_writes(random, "before", count, 100..2000);
    writes
        .iter_mut()
        .for_each(|it| it.durability = Durability::Synced);
    writes
}

fn any_writes(random: &mut Random, when: &str, count: u64, bytes: Range<u64>) -> Vec<Write> {
    let write = |i| Write {
        key: format!("{when} {i}"),
        value: any_value(random, bytes.clone()),
        durability: match random.one_in(3) {
            true => Durability::Buffered,
            false => Durability::Synced,
        },
    };
    (0..count).map(write).collect()
}

/// Opens a database that flushes nothing by itself, because a flush could wait for who is stopped.
/// A segment of the log takes few writes.
fn open(disk: &SimStorage, seed: u64) -> Result<Db> {
    let builder = Db::builder(DIR).memory_budget(8 << 20);
    let builder = builder.log_segment_bytes(4 << 10).log_bytes_max(1 << 20);
    builder
        .environment(Environment::simulated(disk, seed))
        .open()
}

fn any_value(random: &mut Random, bytes: Range<u64>) -> Vec<u8> {
    let bytes = random.range(bytes.start, bytes.end);
    (0..bytes).map(|_| random.next() as u8).collect()
}

/// Lets the other threads run until the disk is quiet.
fn wait_until_quiet(disk: &SimStorage) {
    let (mut seen, mut turns) = (disk.operations(), 0);
    while turns < QUIET_TURNS {
        thread::yield_now();
        turns += 1;
        let now = disk.operations();
        if now != seen {
            (seen, turns) = (now, 0);
        }
    }
}
