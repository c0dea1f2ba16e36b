//! A crash beside a change of keyspaces that stalls before it writes its mark, while others fill
//! segments of the log and a flush lets segments go.

use std::thread;

use hedgerow::io::sim::SimStorage;
use hedgerow::{Design, Layout, Result};

use super::{Write, any_value, any_writes, check_writes, open, wait_until_quiet, writes_before};
use crate::random::Random;

/// A part of the mark of a number, as docs/format/wal.md describes it.
const MARK: [u8; 7] = [0, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 0];

struct Plan {
    seed: u64,
    /// The log that a slot may keep, in bytes. With little the slot loses its place.
    slot_bytes: u64,
    before: Vec<Write>,
    /// The value that the flush writes.
    flushed: Vec<u8>,
    /// Concurrent writes. The flush ends between them.
    beside: Vec<Write>,
    flush_ends_at: usize,
    /// True if the mark is written before the crash.
    goes_on: bool,
    is_cut: bool,
}

/// The result of a crash.
struct Left {
    disk: SimStorage,
    is_made: bool,
    /// For each concurrent write, whether it was acknowledged.
    acknowledged: Vec<bool>,
}

/// Makes one run: a flush begins; the mark of a new keyspace stalls; others write, and the flush
/// ends between them. Then comes a crash, before or after the mark is written.
///
/// # Errors
/// The first violation.
pub fn run_with_a_stalled_mark(seed: u64) -> std::result::Result<(), String> {
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
            slot_bytes: *random.pick(&[1, 1, 1 << 20]),
            before,
            flushed: any_value(&mut random, 100..2000),
            flush_ends_at: random.below(beside.len() as u64) as usize,
            beside,
            goes_on: !random.one_in(4),
            is_cut: random.one_in(2),
        }
    }

    fn carry_out(&self) -> Result<Left> {
        let disk = SimStorage::new(self.seed);
        let db = open(&disk, self.seed)?;
        let kept = db.keyspace_with("kept", Layout::sorted(), Design::default())?;
        let other = db.keyspace_with("other", Layout::sorted(), Design::default())?;
        db.create_slot("slot", self.slot_bytes)?;
        for write in &self.before {
            kept.put(&write.key, &write.value)?;
        }
        kept.flush()?;
        other.put("flushed", &self.flushed)?;
        thread::scope(|scope| {
            let stalled_flush = disk.stall_write(&self.flushed);
            let flush = scope.spawn(|| other.flush());
            stalled_flush.wait_until_reached();
            let mut stalled_flush = Some(stalled_flush);
            let stalled_mark = disk.stall_write(&MARK);
            let made = scope.spawn(|| {
                let made = db.keyspace_with("made", Layout::sorted(), Design::default());
                made.map(drop)
            });
            stalled_mark.wait_until_reached();
            let mut writers = Vec::new();
            for (i, write) in self.beside.iter().enumerate() {
                if i == self.flush_ends_at {
                    stalled_flush = None;
                    wait_until_quiet(&disk);
                }
                let kept = &kept;
                let put = || kept.put_with(&write.key, &write.value, write.durability);
                writers.push(scope.spawn(put));
                wait_until_quiet(&disk);
            }
            drop(stalled_flush);
            let image = || match self.is_cut {
                true => disk.crash(),
                false => disk.kill(),
            };
            let early = (!self.goes_on).then(|| Left {
                is_made: made.is_finished(),
                acknowledged: writers.iter().map(|t| t.is_finished()).collect(),
                disk: image(),
            });
            drop(stalled_mark);
            flush.join().expect("no thread panics")?;
            made.join().expect("no thread panics")?;
            let mut acknowledged = Vec::new();
            for writer in writers {
                writer.join().expect("no thread panics")?;
                acknowledged.push(true);
            }
            Ok(early.unwrap_or_else(|| Left {
                is_made: true,
                acknowledged,
                disk: image(),
            }))
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
        let other = db.existing_keyspace("other").ok_or("`other` is gone")?;
        let flushed = other.get("flushed").map_err(wrong)?;
        if !self.is_cut && flushed.as_deref() != Some(&self.flushed[..]) {
            return Err(format!("expected the flushed value, found {flushed:?}"));
        }
        if left.is_made && db.existing_keyspace("made").is_none() {
            return Err("expected the keyspace that was made, found none".to_owned());
        }
        db.verify().map(drop).map_err(wrong)
    }
}
