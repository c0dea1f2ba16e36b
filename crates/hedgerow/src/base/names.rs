//! The storage of an open database, which opens and changes files by their names until it is
//! closed.
//!
//! A call may still run while its database is closed, and after that. Whoever opens the directory
//! next gives files the same numbers again. So a late call must not create, rename or remove any,
//! and not open one to read it. Files that it has opened before are its own.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::{error, fmt, io};

use hedgerow_io::{
    DirEntry, Environment, FileLock, RandomRead, ReadMode, Reads, Segment, SequentialWrite, Storage,
};

/// The reason why a use is refused.
#[derive(Debug)]
struct Refusal;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the database was closed")
    }
}

impl error::Error for Refusal {}

/// Returns true for the error of a use that came too late.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|it| it.is::<Refusal>())
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Names {
    storage: Arc<dyn Storage>,
    /// Uses of names hold it shared.
    are_closed: RwLock<bool>,
}

impl Names {
    /// An environment with the same storage, and its names.
    pub(crate) fn over(environment: &Environment) -> (Environment, Arc<Names>) {
        let names = Arc::new(Names::new(environment.storage.clone()));
        let environment = Environment {
            storage: names.clone(),
            ..environment.clone()
        };
        (environment, names)
    }

    fn new(storage: Arc<dyn Storage>) -> Names {
        Names {
            storage,
            are_closed: RwLock::new(false),
        }
    }

    /// Waits for the uses under way, and refuses later ones.
    pub(crate) fn close(&self) {
        *self
            .are_closed
            .write()
            .unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn using<R>(&self, using: impl FnOnce(&dyn Storage) -> io::Result<R>) -> io::Result<R> {
        let are_closed = self
            .are_closed
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        match *are_closed {
            false => using(&*self.storage),
            true => Err(io::Error::other(Refusal)),
        }
    }
}

impl Storage for Names {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.using(|it| it.create_dir_all(dir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.storage.list(dir)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.storage.size(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.using(|it| it.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.using(|it| it.remove(path))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.using(|it| it.remove_dir(dir))
    }

    fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.using(|it| it.rename_dir(from, to))
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.storage.sync_file(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.using(|it| it.link(from, to))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.storage.sync_dir(dir)
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.storage.available_bytes(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.storage.lock(path)
    }

    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn RandomRead>> {
        self.using(|it| it.open(path, mode))
    }

    fn reads(&self) -> Box<dyn Reads> {
        self.storage.reads()
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> {
        self.using(|it| it.create(path))
    }

    fn create_direct(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> {
        self.using(|it| it.create_direct(path))
    }

    fn create_segment(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn Segment>> {
        self.using(|it| it.create_segment(path, bytes))
    }

    fn recycle_segment(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn Segment>> {
        self.using(|it| it.recycle_segment(from, to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::{Error, ErrorKind};
    use hedgerow_io::sim::SimStorage;
    use std::sync::mpsc::channel;

    #[test]
    fn an_open_file_is_read_and_none_is_opened_or_changed_behind_the_close() {
        let disk = SimStorage::new(1);
        let names = Names::new(Arc::new(disk));
        let [dir, file] = ["/d", "/d/file"].map(Path::new);
        names.create_dir_all(dir).unwrap();
        names.create(file).unwrap().sync().unwrap();
        let opened = names.open(file, ReadMode::Pread).unwrap();
        names.close();
        assert_eq!(opened.bytes(), 0);
        assert!(names.open(file, ReadMode::Pread).is_err());
        assert!(names.create(&dir.join("new")).is_err());
        assert!(names.create_segment(&dir.join("new"), 4096).is_err());
        assert!(names.recycle_segment(file, &dir.join("new")).is_err());
        assert!(names.link(file, &dir.join("new")).is_err());
        assert!(names.rename(file, &dir.join("new")).is_err());
        let refused = names.remove(file).unwrap_err();
        assert_eq!(refused.to_string(), "the database was closed");
        assert_eq!(Error::io("remove", file, refused).kind(), ErrorKind::Closed);
        assert_eq!(names.list(dir).unwrap().len(), 1);
        assert_eq!(names.size(file).unwrap(), 0);
    }

    #[test]
    fn closing_waits_for_a_use() {
        let names = &Names::new(Arc::new(SimStorage::new(1)));
        let (begun, has_begun) = channel();
        let (go, may_go) = channel::<()>();
        std::thread::scope(|scope| {
            let use_of_names = scope.spawn(move || {
                names.using(|storage| {
                    begun.send(()).unwrap();
                    may_go.recv().unwrap();
                    storage.create_dir_all("/d".as_ref())
                })
            });
            has_begun.recv().unwrap();
            let closing = scope.spawn(|| names.close());
            assert!(names.are_closed.try_write().is_err() && !closing.is_finished());
            go.send(()).unwrap();
            use_of_names.join().unwrap().unwrap();
            closing.join().unwrap();
        });
        assert!(names.create_dir_all("/e".as_ref()).is_err());
    }
}
