//! The part of the log that is kept for replicas: at most as many bytes as `repl-backlog-size`
//! says, beyond what the database needs itself.
//!
//! A slot of the engine that would keep more than its limit loses its place, and with it everything
//! that it kept. So there are several, which begin one after the other: when the oldest one loses
//! its place, the next one keeps what is behind it. No replica has a slot of its own: one that is
//! gone for good would hold the log up to the limit for ever.

use hedgerow::{Db, Result};

const PREFIX: &str = "replicas-";
/// The slots that share the limit. What is kept is between 7/8 of it and all.
const SLOTS: u64 = 8;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Retention {
    /// The bytes of the log when the newest slot began.
    begun: u64,
}

/// The numbers of the slots, oldest first.
fn slots(db: &Db) -> Result<Vec<u64>> {
    let slots = db.slots()?;
    let numbers = slots.keys().filter_map(|name| name.strip_prefix(PREFIX));
    let mut numbers: Vec<u64> = numbers.filter_map(|it| it.parse().ok()).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns true if the log is kept.
pub(super) fn is_on(db: &Db) -> Result<bool> {
    Ok(!slots(db)?.is_empty())
}

/// Keeps the log from now on, if it is not kept yet.
pub(super) fn begin(db: &Db, bytes_max: u64) -> Result<()> {
    if slots(db)?.is_empty() {
        db.create_slot(&format!("{PREFIX}0"), bytes_max)?;
    }
    Ok(())
}

/// Keeps nothing more.
pub(super) fn end(db: &Db) -> Result<()> {
    for number in slots(db)? {
        db.drop_slot(&format!("{PREFIX}{number}"))?;
    }
    Ok(())
}

/// Begins anew in a copy, which has the slots of another server.
pub(super) fn begin_in_copy(db: &Db, bytes_max: u64) -> Result<()> {
    let others = slots(db)?;
    let next = others.last().map_or(0, |it| it + 1);
    db.create_slot(&format!("{PREFIX}{next}"), bytes_max)?;
    let old = others.iter().map(|it| format!("{PREFIX}{it}"));
    old.into_iter().try_for_each(|name| db.drop_slot(&name))
}

impl Retention {
    /// Begins the next slot when a part of the limit was written, and drops the ones that have lost
    /// their places. Cost: the statistics of the engine.
    pub(super) fn go_on(&mut self, db: &Db, bytes_max: u64) -> Result<()> {
        let numbers = slots(db)?;
        let Some(newest) = numbers.last() else {
            return Ok(());
        };
        let written = db.stats().log_bytes;
        if written < self.begun {
            // Another database has taken the place of the one before.
            self.begun = written;
        }
        if written - self.begun < (bytes_max / SLOTS).max(1) {
            return Ok(());
        }
        db.create_slot(&format!("{PREFIX}{}", newest + 1), bytes_max)?;
        self.begun = written;
        let surplus = (numbers.len() as u64 + 1).saturating_sub(SLOTS + 1);
        for number in &numbers[..surplus as usize] {
            db.drop_slot(&format!("{PREFIX}{number}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hedgerow::{ErrorKind, Layout};

    #[test]
    fn the_last_part_of_the_log_is_kept() {
        const LIMIT: u64 = 1 << 20;
        let dir = tempfile::tempdir().unwrap();
        let db = Db::builder(dir.path()).memory_budget(8 << 20);
        let db = db
            .log_segment_bytes(64 << 10)
            .log_bytes_max(256 << 10)
            .open()
            .unwrap();
        let words = db.keyspace("words", Layout::sorted()).unwrap();
        begin(&db, LIMIT).unwrap();
        let mut retention = Retention::default();
        let mut numbers = Vec::new();
        for round in 0..100 {
            for at in 0..100 {
                words.put(format!("{round}/{at}"), [7; 1_000]).unwrap();
            }
            numbers.push(db.snapshot().unwrap().number());
            retention.go_on(&db, LIMIT).unwrap();
        }
        // A round has about 100 KiB.
        let is_kept = |rounds: usize| db.changes_since(numbers[100 - rounds]).map(drop);
        is_kept(7).unwrap();
        let error = is_kept(40).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Gap { .. }), "{error}");
        assert!(slots(&db).unwrap().len() as u64 <= SLOTS + 1);
        end(&db).unwrap();
        assert!(!is_on(&db).unwrap());
    }
}
