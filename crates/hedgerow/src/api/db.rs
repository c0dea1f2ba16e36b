//! The database: keyspaces, whole-database operations, closing.

// First: the documentation shows the methods in the order of the modules.
mod blocking;

mod async_calls;
mod bounds;
mod consumers;
mod opening;

pub use opening::Builder;

use std::fmt;

use crate::tree::engine::Handle;

/// A database: a directory of keyspaces. A cheap handle, `Send + Sync`.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Layout};
///
/// let db = Db::open(dir.path())?;
/// let users = db.keyspace("users", Layout::sorted())?;
/// users.put(b"ada", b"1815")?;
/// assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
/// db.close()?;
/// # Ok::<(), hedgerow::Error>(())
/// ```
///
/// When the last handle (of the database, its keyspaces, snapshots and cursors) is dropped, the
/// database is closed as by [`Db::close`], but errors are lost.
#[derive(Clone)]
pub struct Db {
    engine: Handle,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db")
            .field("dir", &self.engine.directories.root)
            .finish()
    }
}
