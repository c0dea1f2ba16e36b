//! A follower: a database that is open for reading, again and again, beside its writer.

use hedgerow_io::Storage;

use crate::api::db::{Builder, Db};
use crate::base::error::Result;
use crate::base::stats::DbStats;
use crate::paths::recover::beside;
use crate::tree::version::manifest;

/// A reader that follows the writer of a database, in this process or another.
///
/// Its view is the database at one moment, a prefix of the writer's commits.
/// [`Follower::catch_up`] moves to a later moment, never to an earlier one, unless
/// [`repair`](crate::repair()) lost commits between. Handles, snapshots and cursors of an earlier
/// view stay valid and keep that view.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Layout};
///
/// let writer = Db::open(dir.path())?;
/// let users = writer.keyspace("users", Layout::sorted())?;
/// let mut follower = Db::builder(dir.path()).open_follower()?;
/// users.put(b"ada", b"1815")?;
/// assert!(follower.catch_up()?);
/// let users = follower.db().existing_keyspace("users").expect("it was created");
/// assert_eq!(users.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
/// assert_eq!(follower.stats()?.lag_writes, 0);
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub struct Follower {
    builder: Builder,
    db: Db,
    /// The files when the view was taken.
    seen: FilesState,
}

/// The facts by which a follower notices that the files have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FilesState {
    manifest: manifest::Stamp,
    end: (u32, u32),
    last: u64,
}

/// The statistics of a follower.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FollowerStats {
    /// Those of its view.
    pub db: DbStats,
    /// The sequence number of the last write in its view.
    pub number: u64,
    /// The numbers between that write and the last one in the writer's log.
    pub lag_writes: u64,
}

impl Builder {
    /// Opens the database for reading, to follow its writer.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_follower(self) -> Result<Follower> {
        let builder = self.read_only(true);
        let seen = look(&builder)?;
        let db = builder.clone().open()?;
        Ok(Follower { builder, db, seen })
    }
}

impl Follower {
    /// The present view.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Moves the view to the present moment. Returns false if there was nothing new. A crash of the
    /// writer, its recovery and a repair are changes like any other.
    /// Cost: reads the log; if there is something new, as much as opening the database.
    ///
    /// # Errors
    /// As [`Builder::open`]; the view is then the one before.
    pub fn catch_up(&mut self) -> Result<bool> {
        let seen = look(&self.builder)?;
        if seen == self.seen {
            return Ok(false);
        }
        let db = self.builder.clone().open()?;
        // The clock of the system may have gone back: what has expired stays so (I36).
        db.engine().expiry.reach(&self.db.engine().expiry);
        (self.db, self.seen) = (db, seen);
        Ok(true)
    }

    /// The statistics, with the lag behind the writer's log.
    /// Cost: reads the log.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn stats(&self) -> Result<FollowerStats> {
        let number = self.db.snapshot()?.number();
        Ok(FollowerStats {
            db: self.db.stats(),
            number,
            lag_writes: look(&self.builder)?.last.saturating_sub(number),
        })
    }
}

/// Looks at the files before they are read, so that a later change is noticed the next time.
fn look(builder: &Builder) -> Result<FilesState> {
    let (dir, options) = builder.parts();
    let storage: &dyn Storage = &*options.environment.storage;
    let manifest = manifest::stamp(storage, &dir).unwrap_or_default();
    beside::read(&dir, &options, |_, survey| {
        Ok(FilesState {
            manifest,
            end: (survey.end.segment, survey.end.offset),
            last: survey.last.0,
        })
    })
}
