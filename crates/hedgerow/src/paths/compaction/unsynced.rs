//! Tables that are made durable together.
//!
//! Each sync of a new file makes the file system commit its own log: thousands of small tables,
//! synced one after another, take seconds. Once the bytes of several are on their way to the disk,
//! the first sync commits for all of them. So recovery syncs the tables that it writes in groups,
//! the last one before the edit that names them.

use std::collections::BTreeSet;
use std::path::PathBuf;

use hedgerow_io::{LaterSync, SequentialWrite, Storage};

use crate::base::durable::sync_dir;
use crate::base::error::{Error, Result};

/// The maximum number of files that wait. They are open, beside those that the engine keeps for
/// reading; four times as many would hardly be faster.
const FILES_MAX: usize = 16;

/// Tables whose files or names may not be durable yet.
#[derive(Default)]
pub(crate) struct SyncQueue {
    files: Vec<(PathBuf, LaterSync)>,
    dirs: BTreeSet<PathBuf>,
}

impl SyncQueue {
    /// Adds the file of a table. Makes files durable if many wait.
    pub(super) fn add(&mut self, path: PathBuf, file: Box<dyn SequentialWrite>) -> Result<()> {
        let sync = file.hand_over().map_err(|e| Error::io("write", &path, e))?;
        self.files.push((path, sync));
        if self.files.len() == FILES_MAX {
            self.sync_files()?;
        }
        Ok(())
    }

    /// Adds the directory of tables.
    pub(super) fn add_dir(&mut self, dir: PathBuf) {
        self.dirs.insert(dir);
    }

    /// Makes all files and their names durable.
    pub(crate) fn sync(mut self, storage: &dyn Storage) -> Result<()> {
        self.sync_files()?;
        self.dirs.iter().try_for_each(|dir| sync_dir(storage, dir))
    }

    fn sync_files(&mut self) -> Result<()> {
        let mut files = self.files.drain(..);
        files.try_for_each(|(path, sync)| sync().map_err(|e| Error::io("sync", &path, e)))
    }
}
