//! The limit on files open for reading: a share of the process's limit, for any number of tables.
//!
//! A read opens its file if it is closed. If too many files are open, a CLOCK sweep first closes
//! files that were not read recently. A read holds its file, so no file is closed under it. Cost of
//! a read of an open file: one lock, shared only with readers of the same file. Cost of reopening a
//! file: some microseconds.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::system;

/// The open files take one part in `SHARE` of the process's limit. The rest is for other uses.
const SHARE: u64 = 2;
/// The files of tables that a large database has open.
const USUAL: u64 = 512;
/// With a lower limit, a merge of many runs would close the files that it reads next.
const LIMIT_MIN: usize = 64;

/// The function that opens a file.
type Open = fn(&Path) -> io::Result<File>;

/// The open files; see the module.
#[derive(Debug)]
pub(super) struct OpenFiles {
    limit: usize,
    count: AtomicUsize,
    /// The open files in the order of the sweep. Some of them are gone.
    clock: Mutex<VecDeque<Weak<Handle>>>,
}

/// The files that the process may open beside those of databases, if that has a limit. Databases
/// have half of the limit; of a large one they rarely need more than a part.
pub fn open_files_for_others() -> Option<u64> {
    system::open_files_max().map(|most| most - (most / SHARE).min(USUAL))
}

/// A file that is opened on demand.
#[derive(Debug)]
struct Handle {
    path: PathBuf,
    open: Open,
    file: Mutex<Option<Arc<File>>>,
    /// True if the file was read again since the last sweep.
    used: AtomicBool,
    files: Arc<OpenFiles>,
}

/// A file for reads. It is reopened if it was closed.
#[derive(Debug)]
pub(super) struct ReopenedFile(Arc<Handle>);

impl OpenFiles {
    /// The open files of all databases of the process: at most half of the process's limit.
    pub(super) fn of_process() -> Arc<OpenFiles> {
        static OF_PROCESS: OnceLock<Arc<OpenFiles>> = OnceLock::new();
        let new = || {
            let most = system::open_files_max().unwrap_or(u64::MAX) / SHARE;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            Arc::new(OpenFiles::with_limit(most.max(LIMIT_MIN)))
        };
        OF_PROCESS.get_or_init(new).clone()
    }

    pub(super) fn with_limit(limit: usize) -> OpenFiles {
        OpenFiles {
            limit: limit.max(1),
            count: AtomicUsize::new(0),
            clock: Mutex::default(),
        }
    }

    /// Opens a file. Returns the handle for later reads and the file as it is open now. Nobody may
    /// remove the file while the handle exists.
    pub(super) fn open(
        self: &Arc<Self>,
        path: &Path,
        open: Open,
    ) -> io::Result<(ReopenedFile, Arc<File>)> {
        let handle = Arc::new(Handle {
            path: path.to_path_buf(),
            open,
            file: Mutex::default(),
            used: AtomicBool::new(false),
            files: self.clone(),
        });
        let opened = handle.reopen()?;
        Ok((ReopenedFile(handle), opened))
    }

    /// Closes files until at most `most` are open, or every open file was read just now.
    fn close_down_to(&self, most: usize) {
        let mut clock = lock(&self.clock);
        let mut looks = 2 * clock.len();
        while self.count.load(Ordering::Relaxed) > most && looks > 0 {
            looks -= 1;
            let Some(next) = clock.pop_front() else { break };
            let Some(handle) = next.upgrade() else {
                continue;
            };
            if handle.used.swap(false, Ordering::Relaxed) {
                clock.push_back(next);
            } else {
                handle.close();
            }
        }
    }

    fn note_opened(&self, handle: &Arc<Handle>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut clock = lock(&self.clock);
        clock.push_back(Arc::downgrade(handle));
        if clock.len() > 2 * self.count.load(Ordering::Relaxed) + LIMIT_MIN {
            clock.retain(|handle| handle.strong_count() > 0);
        }
    }
}

impl Handle {
    fn get(self: &Arc<Self>) -> io::Result<Arc<File>> {
        let open = lock(&self.file).clone();
        let Some(file) = open else {
            return self.reopen();
        };
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Ok(file)
    }

    #[cold]
    fn reopen(self: &Arc<Self>) -> io::Result<Arc<File>> {
        let files = &self.files;
        files.close_down_to(files.limit - 1);
        let opened = (self.open)(&self.path).or_else(|error| {
            if !system::is_out_of_files(&error) {
                return Err(error);
            }
            // Other users in the process hold more than their share.
            files.close_down_to(files.count.load(Ordering::Relaxed) / 2);
            (self.open)(&self.path)
        });
        let opened = Arc::new(opened?);
        {
            let mut file = lock(&self.file);
            if let Some(file) = &*file {
                // Another reader has opened it meanwhile.
                return Ok(file.clone());
            }
            *file = Some(opened.clone());
        }
        files.note_opened(self);
        Ok(opened)
    }

    fn close(&self) {
        if lock(&self.file).take().is_some() {
            self.files.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

impl ReopenedFile {
    /// Returns the file, open as long as the result is held.
    #[inline]
    pub(super) fn get(&self) -> io::Result<Arc<File>> {
        self.0.get()
    }

    #[cfg(test)]
    fn if_open(&self) -> Option<Arc<File>> {
        lock(&self.0.file).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::{fs, thread};

    use super::*;

    fn files(dir: &Path, count: usize) -> Vec<PathBuf> {
        let write = |i: usize| {
            let path = dir.join(i.to_string());
            fs::write(&path, [i as u8; 16]).unwrap();
            path
        };
        (0..count).map(write).collect()
    }

    fn open(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    fn read(file: &ReopenedFile) -> u8 {
        let mut byte = [0];
        file.get().unwrap().read_exact_at(&mut byte, 7).unwrap();
        byte[0]
    }

    #[test]
    fn no_more_files_are_open_than_may_be_and_all_can_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let open_files = Arc::new(OpenFiles::with_limit(5));
        let paths = files(dir.path(), 40);
        let opened = paths
            .iter()
            .map(|path| open_files.open(path, open).unwrap().0);
        let opened: Vec<ReopenedFile> = opened.collect();
        thread::scope(|scope| {
            for thread in 0..3 {
                let (opened, open_files) = (&opened, &open_files);
                scope.spawn(move || {
                    for i in 0..2000 {
                        let at = (i * (thread + 7)) % opened.len();
                        assert_eq!(read(&opened[at]), at as u8);
                        // Each thread may be opening one more.
                        assert!(open_files.count.load(Ordering::Relaxed) <= 5 + 3);
                    }
                });
            }
        });
        let is_open = |file: &&ReopenedFile| file.if_open().is_some();
        let open = opened.iter().filter(is_open).count();
        assert_eq!(open, open_files.count.load(Ordering::Relaxed));
        assert!((1..=5 + 3).contains(&open), "{open}");
        drop(opened);
        assert_eq!(open_files.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_read_all_the_time_stays_open() {
        let dir = tempfile::tempdir().unwrap();
        let open_files = Arc::new(OpenFiles::with_limit(4));
        let paths = files(dir.path(), 30);
        let hot = open_files.open(&paths[0], open).unwrap().0;
        let first = hot.get().unwrap();
        let others = paths[1..].iter().map(|path| {
            read(&hot);
            open_files.open(path, open).unwrap().0
        });
        let others: Vec<ReopenedFile> = others.collect();
        assert!(Arc::ptr_eq(&first, &hot.if_open().unwrap()));
        assert!(others[0].if_open().is_none());
        assert_eq!(read(&others[0]), 1);
    }

    #[test]
    fn a_file_that_is_being_read_is_not_closed_under_its_reader() {
        let dir = tempfile::tempdir().unwrap();
        let open_files = Arc::new(OpenFiles::with_limit(1));
        let paths = files(dir.path(), 2);
        let first = open_files.open(&paths[0], open).unwrap().0;
        let held = first.get().unwrap();
        let second = open_files.open(&paths[1], open).unwrap().0;
        assert_eq!(read(&second), 1);
        assert!(first.if_open().is_none());
        let mut byte = [9];
        held.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [0]);
    }

    #[test]
    fn files_that_come_and_go_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let open_files = Arc::new(OpenFiles::with_limit(1000));
        let paths = files(dir.path(), 1);
        for _ in 0..10_000 {
            drop(open_files.open(&paths[0], open).unwrap());
        }
        assert!(lock(&open_files.clock).len() <= 2 * LIMIT_MIN);
        assert_eq!(open_files.count.load(Ordering::Relaxed), 0);
        assert!(open_files.open(&dir.path().join("none"), open).is_err());
    }
}
