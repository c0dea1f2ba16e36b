//! The asynchronous calls of a database.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::api::asynchronous::{Pending, all_workers, call_behind};
use crate::base::error::Error;
use crate::paths::checkpoint;
use crate::paths::write;
use crate::tree::engine::{Engine, Handle};

use super::Db;

impl Db {
    /// Becomes ready when every asynchronous call made before it has ended. Its result is the first
    /// error, since the last barrier, of a write that returned no future
    /// ([`Keyspace::put_later`](crate::Keyspace::put_later)). The barrier adds no durability to
    /// these writes; [`Db::sync`] makes them durable.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// let db = Db::builder(dir.path()).workers(1).open()?;
    /// let events = db.keyspace("events", Layout::sorted())?;
    /// for i in 0..1000_u32 {
    ///     events.put_later(i.to_be_bytes(), "something happened")?;
    /// }
    /// db.barrier().wait()?;
    /// assert_eq!(events.scan::<&[u8]>(..)?.count(), 1000);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn barrier(&self) -> Pending<()> {
        let all = all_workers(&self.engine.asynchronous);
        call_behind(&self.engine, &all, |engine| {
            match engine.asynchronous.take_lost_error() {
                Some(error) => Err(error),
                None => Ok(()),
            }
        })
    }

    /// Drops a keyspace as [`Db::drop_keyspace`] does, after every call for it that was made
    /// before. Calls made after it are `Closed`.
    pub fn drop_keyspace_async(&self, name: &str) -> Pending<()> {
        let name = name.to_owned();
        let all = all_workers(&self.engine.asynchronous);
        let cell = self.engine.catalog.load().keyspaces.get(&name).cloned();
        if let Some(cell) = &cell {
            cell.dropping.store(true, Ordering::Release);
        }
        call_behind(&self.engine, &all, move |engine: &Arc<Engine>| {
            let db = Db::new(Handle::of_worker(engine));
            let dropped = db.drop_keyspace(&name);
            if let Some(cell) = cell {
                cell.dropping.store(false, Ordering::Release);
            }
            dropped
        })
    }

    /// Makes everything durable as [`Db::sync`] does, and every call made before.
    pub fn sync_async(&self) -> Pending<()> {
        let all = all_workers(&self.engine.asynchronous);
        call_behind(&self.engine, &all, |engine: &Arc<Engine>| {
            write::sync(engine)
        })
    }

    /// Makes a checkpoint as [`Db::checkpoint`] does, with every call made before.
    pub fn checkpoint_async(&self, dir: impl AsRef<Path>) -> Pending<()> {
        let all = all_workers(&self.engine.asynchronous);
        let dir = dir.as_ref().to_path_buf();
        call_behind(&self.engine, &all, move |engine: &Arc<Engine>| {
            checkpoint::make(engine, &dir)
        })
    }

    /// Closes the database as [`Db::close`] does, on a thread of its own, after every call made
    /// before.
    pub fn close_async(self) -> Pending<()> {
        let engine = self.engine().clone();
        if engine.scheduler.is_inline() {
            return Pending::ready(self.close());
        }
        let (sender, pending) = Pending::queued(&engine);
        let body = Box::new(move || drop(sender.send(self.close())));
        match engine.environment.spawn.spawn("hedgerow-close", body) {
            Ok(_) => pending,
            Err(e) => Pending::ready(Err(Error::io(
                "start a thread for",
                &engine.directories.root,
                e,
            ))),
        }
    }
}
