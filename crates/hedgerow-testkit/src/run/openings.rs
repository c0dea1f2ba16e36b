//! Closing and killing a database, and opening it or a copy of it again.

use hedgerow::{Error, ErrorKind, Result};
use hedgerow_copies::backup::{Options, Repository};

use super::{Disk, Runner, contents};
use crate::order::ANY_KEY;

impl Runner {
    /// Closes with all handles still held, which must then be `Closed`, and opens again.
    pub(super) fn reopen(&mut self) -> Result<()> {
        let Some(db) = self.db.take() else {
            return self.open();
        };
        db.close()?;
        for keyspace in self.handles.values() {
            match keyspace.get(ANY_KEY) {
                Err(e) if e.kind() == ErrorKind::Closed => {}
                other => {
                    let text = format!("a closed database answered {other:?}");
                    return Err(Error::new(ErrorKind::Conflict, text));
                }
            }
        }
        self.let_go();
        self.open()
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        let Disk::Simulated(disk, seed) = &self.disk else {
            return self.reopen();
        };
        self.disk = Disk::Simulated(disk.kill(), *seed);
        self.let_go();
        self.db = None;
        self.open()
    }

    pub(super) fn let_go(&mut self) {
        self.cursors.clear();
        self.snapshots.clear();
        self.handles.clear();
    }

    pub(super) fn checkpoint(&mut self) -> Result<String> {
        self.checkpoints += 1;
        let name = format!("checkpoint-{}", self.checkpoints);
        let (environment, dir) = (self.environment(), self.path(&name));
        if self.checkpoints.is_multiple_of(2) {
            // A backup has the same moment.
            let repository = Repository::new(self.path("backups")).environment(environment);
            repository.create(&self.builder("db"), Options::default(), |_| true)?;
            repository.restore(None, dir, |_| true)?;
        } else {
            self.db()?.checkpoint(dir)?;
        }
        let copy = self.builder(&name).open()?;
        let line = contents(&copy)?;
        copy.verify()?;
        // A write to the copy must stay in the copy.
        for name in copy.keyspaces() {
            if let Some(keyspace) = copy.existing_keyspace(&name) {
                keyspace.put([ANY_KEY, b" only in the copy"].concat(), b"")?;
                keyspace.flush()?;
            }
        }
        copy.close()?;
        Ok(line)
    }

    pub(super) fn read_only(&mut self) -> Result<String> {
        let reader = self.builder("db").read_only(true).open()?;
        let line = contents(&reader)?;
        if line != contents(self.db()?)? {
            return Ok(format!(
                "{line} beside a writer with {}",
                contents(self.db()?)?
            ));
        }
        if let Some(name) = reader.keyspaces().first()
            && let Some(keyspace) = reader.existing_keyspace(name)
        {
            match keyspace.put(ANY_KEY, b"v") {
                Err(e) if e.kind() == ErrorKind::Unsupported => {}
                other => return Ok(format!("a write to a reader was answered {other:?}")),
            }
        }
        reader.close()?;
        Ok(line)
    }
}
