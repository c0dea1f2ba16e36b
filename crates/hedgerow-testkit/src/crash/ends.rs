//! The end of a round: closing or cutting, opening again, comparing.

use super::oracle::Oracle;
use super::reads::read_everything;
use super::{Harness, Round, Trouble};

impl Harness {
    pub(super) fn end(&mut self, mut round: Round) -> Result<(), String> {
        match round.trouble {
            Trouble::PowerCut | Trouble::Kill | Trouble::NoMerges => {}
            Trouble::Faults => {
                self.disk.clear_faults();
                self.after_faults(&mut round)?;
            }
            Trouble::FullDisk => {
                self.note("there is room again");
                self.disk.set_capacity_bytes(None);
                self.after_full_disk(&mut round)?;
            }
        }
        let cut = match round.trouble {
            Trouble::PowerCut => true,
            Trouble::Kill => false,
            _ => self.random.one_in(2),
        };
        // Sometimes closes in order, if the power is still there.
        if !self.disk.power_lost() && self.random.one_in(4) {
            match round.db.clone().close() {
                Ok(()) if !self.disk.power_lost() => {
                    self.note("closed");
                    self.oracle.everything_is_durable();
                }
                Err(e) if !self.disk.power_lost() && !round.poisoned => {
                    return Err(format!("expected to close, found {e}"));
                }
                _ => {}
            }
        }
        let image = match cut {
            true => self.disk.crash(),
            false => self.disk.kill(),
        };
        drop(round);
        let at_least = match cut {
            true => self.oracle.durable,
            false => self.oracle.acknowledged,
        };
        self.take(image, if cut { "power cut" } else { "kill" });
        self.recover(at_least)
    }

    /// Opens again, sometimes cut short, and compares.
    pub(super) fn recover(&mut self, mut at_least: usize) -> Result<(), String> {
        while self.random.one_in(3) {
            let count = self.random.skewed(60);
            let faulty = self.random.one_in(3);
            if faulty {
                self.schedule_faults();
            } else {
                self.disk.crash_after(count);
            }
            self.note(match faulty {
                true => "opened with faults".to_owned(),
                false => format!("opened with the power going after {count} operations"),
            });
            match self.builder().open() {
                // The state in force is checked below.
                Ok(db) => drop(db),
                Err(e) if self.disk.power_lost() || self.disk.faults_fired() > 0 => {
                    self.note(format!("opening failed: {e}"));
                }
                Err(e) => return Err(format!("expected the database to open, found {e}")),
            }
            self.disk.clear_faults();
            let image = match self.random.one_in(3) && !self.disk.power_lost() {
                true => self.disk.kill(),
                false => {
                    at_least = self.oracle.durable;
                    self.disk.crash()
                }
            };
            self.take(image, "again");
        }
        let db = self.builder().open();
        let db = db.map_err(|e| format!("expected the database to open, found {e}"))?;
        self.check_designs(&db)?;
        let found = read_everything(&db)?;
        let counts = self.oracle.check(&found, at_least, self.hour)?;
        let commits = counts.last().copied().unwrap_or_default();
        let report = db.verify();
        let report = report.map_err(|e| format!("expected nothing wrong, found {e}"))?;
        self.note(format!(
            "{commits} of {} commits are left, in {} tables",
            self.oracle.commits.len(),
            report.tables
        ));
        // Everything that an open database shows is durable.
        self.live = self.oracle.after(commits, &found, self.hour);
        self.note_hidden_differences(counts.range(..commits), &found);
        self.forget_expired();
        self.check_expiry(&db)?;
        self.oracle = Oracle::settled(self.live.clone());
        self.check_reads(&db)?;
        drop(db);
        let again = match self.random.one_in(2) {
            true => self.disk.crash(),
            false => self.disk.kill(),
        };
        self.take(again, "after opening");
        Ok(())
    }
}
