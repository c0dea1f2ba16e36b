//! A simulated disk that tells a watcher of the calls that find, read, make or remove files.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{DirEntry, FileLock, RandomRead, ReadMode, Segment, SequentialWrite, Storage};

/// Learns of calls before they are made: `list`, `size`, `open`, `create`, `segment` or `remove`,
/// and `sync` of a segment.
pub(crate) trait Watcher: Send + Sync + 'static {
    fn before(&self, call: &str, path: &Path);

    /// Refuses room by an error. An edit of the manifest first asks for the room in its directory.
    fn room(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) struct Watched<W> {
    pub(crate) disk: SimStorage,
    pub(crate) watcher: Arc<W>,
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

    fn segment(
        &self,
        path: &Path,
        made: io::Result<Arc<dyn Segment>>,
    ) -> io::Result<Arc<dyn Segment>> {
        Ok(Arc::new(WatchedSegment {
            segment: made?,
            watcher: self.watcher.clone(),
            path: path.to_path_buf(),
        }))
    }
}

struct WatchedSegment<W> {
    segment: Arc<dyn Segment>,
    watcher: Arc<W>,
    path: PathBuf,
}

impl<W> fmt::Debug for WatchedSegment<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WatchedSegment")
    }
}

impl<W: Watcher> Segment for WatchedSegment<W> {
    fn capacity_bytes(&self) -> u64 {
        self.segment.capacity_bytes()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.segment.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.watcher.before("sync", &self.path);
        self.segment.sync()
    }

    fn prepare(&self, range: Range<u64>) {
        self.segment.prepare(range);
    }

    fn write_back(&self, range: Range<u64>) {
        self.segment.write_back(range);
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
    fn available_bytes(&self, dir: &Path) -> io::Result<u64> { self.watcher.room(dir).and_then(|()| self.disk.available_bytes(dir)) }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> { self.disk.lock(path) }
    fn open(&self, path: &Path, mode: ReadMode) -> io::Result<Arc<dyn RandomRead>> { self.before("open", path).open(path, mode) }
    fn create(&self, path: &Path) -> io::Result<Box<dyn SequentialWrite>> { self.before("create", path).create(path) }
    fn create_segment(&self, path: &Path, bytes: u64) -> io::Result<Arc<dyn Segment>> { self.segment(path, self.before("segment", path).create_segment(path, bytes)) }
    fn recycle_segment(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn Segment>> { self.segment(to, self.before("segment", to).recycle_segment(from, to)) }
}
