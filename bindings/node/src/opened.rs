//! Open databases, and which of them threads share.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use engine::Db;

use crate::failure::{Code, Failure, Result};

/// The databases that were opened to be shared, by their directories.
static SHARED: Mutex<BTreeMap<PathBuf, Weak<Db>>> = Mutex::new(BTreeMap::new());

/// A database that was opened once, by one thread. If it is shared, others have opened it, too.
pub struct Opened {
    db: Arc<Db>,
    is_shared: bool,
}

impl Deref for Opened {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}

impl Opened {
    pub(crate) fn alone(db: Db) -> Opened {
        Opened {
            db: Arc::new(db),
            is_shared: false,
        }
    }

    /// Shares the database of a directory with those who have it open; the first opens it.
    pub(crate) fn shared(dir: &Path, open: impl FnOnce() -> Result<Db>) -> Result<Opened> {
        let mut shared = shared();
        let opened = |db| Opened {
            db,
            is_shared: true,
        };
        let present = || shared.get(&fs::canonicalize(dir).ok()?)?.upgrade();
        if let Some(db) = present() {
            return Ok(opened(db));
        }
        let db = Arc::new(open()?);
        let dir = fs::canonicalize(dir).map_err(|error| {
            let message = format!("cannot find {}: {error}", dir.display());
            Failure::new(Code::IO, message)
        })?;
        shared.retain(|_, db| db.strong_count() > 0);
        shared.insert(dir, Arc::downgrade(&db));
        Ok(opened(db))
    }

    /// Closes the database. If it is shared, the last who has it open does.
    pub(crate) fn close(self: Arc<Opened>) -> Result<()> {
        if !self.is_shared {
            return Ok(Db::clone(&self.db).close()?);
        }
        // Nobody opens it meanwhile.
        let _shared = shared();
        drop(self);
        Ok(())
    }
}

fn shared() -> MutexGuard<'static, BTreeMap<PathBuf, Weak<Db>>> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_database_is_open_until_the_last_closes_it() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Ok(Db::open(dir.path())?);
        let [first, second] = [0; 2].map(|_| Arc::new(Opened::shared(dir.path(), open).unwrap()));
        first.close().unwrap();
        assert!(open().is_err(), "the second has it open");
        assert!(second.snapshot().is_ok());
        second.close().unwrap();
        open().unwrap();
    }
}
