//! A simulated disk that tells a watcher of the calls that find, read, make or remove files.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{DirEntry, FileLock, RandomRead, ReadMode, Segment, SequentialWrite, Storage};

/// Learns of calls before they are made: `list`, `size`, `open`, `create`, `segment` or `remove`.
pub(crate) trait Watcher: Send + Sync + 'static {
    fn before(&self, call: &str, path: &Path);
}

pub(crate) struct Watched<W> {
    pub(crate) disk: SimStorage,
    pub(crate) watcher: W,
}

impl<W> fmt::Debug for Watched<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl<W: Watcher> Watched<W> {
    fn before(&self, call: &str, path: &Path) -> &SimStorage {
        self.watcher.before(call, path);
        &self.disk
    }
}

#[rustfmt::skip]
impl<W: Watcher> Storage for Watched<W> {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> { self.disk.create_dir_all(dir) }
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> { self.before("list", dir).list(dir) }
    fn size(&self, path: &Path) -> io::Result<u64> { self.before("size", path).size(path) }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> { self.disk.rename(from, to) }
    fn remove(&self, path: &Path) -> io::Result<()> { self.before("remove", path).remove(path) }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> { self.disk.remove_dir(dir) }
    fn rename_dir(&self, from: &Path, to: &Path) -> io::Result<()> { self.disk.rename_dir(from, to) }
    fn sync_file(&self, path: &Path) -> io::Result<()> { self.disk.sync_file(path) }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> { self.disk.link(from, to) }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> { self.disk.sync_dir(dir) }
    fn available_bytes(&self, dir: &Path) -> io::Result<u64> { self.disk.available_bytes(dir) }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> { self.disk.lock(path) }
    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn RandomRead>> { self.before("open", path).open(path, mode) }
    fn create(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> { self.before("create", path).create(path) }
    fn create_segment(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn Segment>> { self.before("segment", path).create_segment(path, bytes) }
    fn recycle_segment(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn Segment>> { self.before("segment", to).recycle_segment(from, to) }
}
