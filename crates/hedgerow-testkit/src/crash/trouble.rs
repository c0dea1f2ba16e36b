//! The trouble of a round: its beginning, the failures it allows, and the checks after it.

use hedgerow::io::sim::{Fault, OpClass};
use hedgerow::{Error, ErrorKind};

use super::oracle::NAMES;
use super::reads::read_everything;
use super::values::Op;
use super::{Harness, Round};

/// The trouble of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The power is lost at some operation of the disk.
    PowerCut,
    /// The process is killed between two calls.
    Kill,
    /// A few operations of the disk fail.
    Faults,
    /// The disk is full for a while.
    FullDisk,
    /// The disk of the levels below level 0 is full, so nothing is merged.
    NoMerges,
}

impl Harness {
    /// Starts the trouble of a round of `ops` operations.
    pub(super) fn begin(&mut self, trouble: Trouble, ops: u64) {
        match trouble {
            Trouble::PowerCut => {
                let count = self.random.skewed(4 * ops);
                self.note(format!("the power goes after {count} operations"));
                self.disk.crash_after(count);
            }
            Trouble::Kill | Trouble::NoMerges => {}
            Trouble::Faults => self.schedule_faults(),
            Trouble::FullDisk => {
                let room = self.random.skewed(100 << 10);
                self.note(format!("the disk has room for {room} bytes"));
                let used = self.disk.used_bytes();
                self.disk.set_capacity_bytes(Some(used + room));
            }
        }
    }

    pub(super) fn schedule_faults(&mut self) {
        for _ in 0..self.random.range(1, 3) {
            let random = &mut self.random;
            let class = *random.pick(&[
                OpClass::Any,
                OpClass::Lookup,
                OpClass::Read,
                OpClass::Create,
                OpClass::Write,
                OpClass::Sync,
                OpClass::Name,
            ]);
            let fault = *random.pick(&[Fault::Io, Fault::Short, Fault::StorageFull]);
            let path = *random.pick(&["", "", "log", "table", "filter", "MANIFEST", "/db/"]);
            let count = random.skewed(60);
            self.disk.fail_path_after(class, path, count, fault);
            self.note(format!("fault {fault:?} at {class:?} {count} of `{path}`"));
        }
    }

    pub(super) fn after_faults(&mut self, round: &mut Round) -> Result<(), String> {
        let fired = self.disk.faults_fired();
        self.note(format!("{fired} faults happened"));
        if round.poisoned {
            // The failed commit may be visible. All others must be.
            let found = read_everything(&round.db)?;
            let at_least = self.oracle.acknowledged;
            self.oracle.check(&found, at_least, self.hour)?;
            return Ok(());
        }
        self.check_reads(&round.db)?;
        let mut result = round.db.flush();
        if result.is_err() {
            // The first call may report an earlier failure in the background.
            result = round.db.flush();
        }
        match result {
            Ok(()) => {
                self.oracle.everything_is_durable();
                let verified = round.db.verify();
                verified.map_err(|e| format!("expected nothing wrong, found {e}"))?;
            }
            Err(e) if e.kind() == ErrorKind::Poisoned && fired > 0 => round.poisoned = true,
            Err(e) => return Err(format!("expected to flush without faults, found {e}")),
        }
        self.check_reads(&round.db)
    }

    pub(super) fn after_full_disk(&mut self, round: &mut Round) -> Result<(), String> {
        self.check_reads(&round.db)?;
        let keyspace = NAMES.iter().find(|name| self.live.contains_key(**name));
        let Some(name) = keyspace.copied() else {
            return Ok(());
        };
        let keyspace = round.db.existing_keyspace(name);
        let keyspace = keyspace.ok_or_else(|| format!("`{name}` is not there"))?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            match keyspace.put(b"room", b"again") {
                Ok(()) => break,
                // A failure in the background may be reported once before the retry.
                Err(e) if e.kind() == ErrorKind::NoSpace && attempts < 4 => {}
                Err(e) => return Err(format!("expected writes to resume, found {e}")),
            }
        }
        let put = Op::Put(b"again"[..].into());
        self.committed(vec![self.change(&[], name, b"room", &put)]);
        let flushed = round.db.flush().or_else(|_| round.db.flush());
        flushed.map_err(|e| format!("expected to flush with room, found {e}"))?;
        self.oracle.everything_is_durable();
        let verified = round.db.verify();
        verified.map_err(|e| format!("expected nothing wrong, found {e}"))?;
        self.check_reads(&round.db)
    }

    /// Checks that a call may fail with this error.
    pub(super) fn allowed(&self, round: &Round, error: &Error) -> Result<(), String> {
        let troubled = match round.trouble {
            Trouble::PowerCut => self.disk.power_lost(),
            Trouble::Kill => false,
            Trouble::Faults => self.disk.faults_fired() > 0,
            Trouble::FullDisk | Trouble::NoMerges => error.kind() == ErrorKind::NoSpace,
        };
        match troubled {
            true => Ok(()),
            false => Err(format!("nothing was wrong with the disk, found {error}")),
        }
    }
}
