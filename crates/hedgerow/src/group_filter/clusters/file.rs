//! Files of clusters. Like all files of filters, a file is a cache of what the tables keep. Nothing
//! but its place names it, and it lists the tables whose keys it knows; numbers of tables are never
//! reused. A file that is missing or damaged when the database is opened is made again. A file is
//! removed when nobody holds the cluster any more.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::codec::compress;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::page::{Buffer, Page, PageId, PageSource, TRAILER_BYTES, TableId};
use crate::group_filter::cluster::{Cluster, Directory, Owner, Source, TAIL_BYTES, Tail, assemble};
use crate::table::page_io;
use crate::table::paged_file::{PagedFile, TableContext};
use hedgerow_io::{RandomRead, ReadMode, Storage};

/// The bytes of one write, and of one read from each cluster that becomes part of another.
const PIECE_BYTES: usize = 256 << 10;

/// The name of a cluster's file.
fn cluster_name(number: TableId) -> String {
    format!("{:010}.cluster", number.0)
}

/// The number in the name of a cluster's file.
pub(crate) fn cluster_number(name: &str) -> Option<u64> {
    name.strip_suffix(".cluster")
        .filter(|digits| digits.len() == 10)?
        .parse()
        .ok()
}

/// A cluster's file. It is removed when nobody holds it any more.
fn paged_file(
    context: &Arc<TableContext>,
    number: TableId,
    path: PathBuf,
    bytes: u64,
) -> PagedFile {
    let file = PagedFile::new(number, path, bytes, context.clone());
    file.mark_obsolete();
    file
}

fn directory_of(file: &PagedFile) -> Result<(Owner, Directory)> {
    let read = read_directory(&**file.file()?, file.path(), file.id());
    read.map_err(|e| e.at(file.path(), None))
}

/// A cluster with its file. Its bytes count in the memory budget until it is dropped.
pub(crate) struct StoredCluster {
    pub(crate) cluster: Cluster,
    pub(crate) owner: Owner,
    file: Arc<PagedFile>,
    memory_bytes: u64,
    /// True if a page did not hold what was written.
    damaged: AtomicBool,
}

impl std::fmt::Debug for StoredCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredCluster")
            .field("path", &self.file.path())
            .field("memory_bytes", &self.memory_bytes)
            .finish_non_exhaustive()
    }
}

impl Drop for StoredCluster {
    fn drop(&mut self) {
        let filters = &self.file.context().memory.filters;
        filters.fetch_sub(self.memory_bytes, Ordering::Relaxed);
    }
}

impl StoredCluster {
    fn new(cluster: Cluster, owner: Owner, file: Arc<PagedFile>) -> Arc<StoredCluster> {
        let memory = file.context().memory.clone();
        let memory_bytes = cluster.memory_bytes() as u64;
        memory.filters.fetch_add(memory_bytes, Ordering::Relaxed);
        memory.note();
        Arc::new(StoredCluster {
            cluster,
            owner,
            file,
            memory_bytes,
            damaged: AtomicBool::new(false),
        })
    }

    /// Opens a file, and removes it if it cannot be opened. Cost: two reads.
    ///
    /// # Errors
    /// `Io`; `Corruption` or `FormatVersion` if the file is not a whole cluster.
    pub(crate) fn open(
        context: &Arc<TableContext>,
        path: PathBuf,
        number: TableId,
    ) -> Result<Arc<StoredCluster>> {
        // A file that cannot be opened is removed.
        let mut file = paged_file(context, number, path, 0);
        let bytes = context.storage.size(file.path());
        file.set_bytes(bytes.map_err(|e| Error::io("open", file.path(), e))?);
        let (owner, directory) = directory_of(&file)?;
        let cluster = Cluster::paged(number, directory);
        Ok(StoredCluster::new(cluster, owner, Arc::new(file)))
    }

    /// The identity of the cluster: the number of its file, and whether it is in memory.
    pub(crate) fn name(&self) -> (TableId, bool) {
        (self.file.id(), self.cluster.is_resident())
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Its file.
    pub(crate) fn pages(&self) -> &PagedFile {
        &self.file
    }

    /// Returns true if a page did not hold what was written. Reads then do without the cluster.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Records damage if the error reports it.
    pub(crate) fn note_damage(&self, error: &Error) {
        if error.kind() == ErrorKind::Corruption && !self.damaged.swap(true, Ordering::Relaxed) {
            let damaged = &self.file.context().damaged_clusters;
            damaged.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The size of its file.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// The same cluster, whose pages are read when a probe needs them.
    pub(crate) fn paged(&self) -> Result<Arc<StoredCluster>> {
        self.file.file()?;
        let directory = self.cluster.directory().clone();
        let cluster = Cluster::paged(self.file.id(), directory);
        Ok(StoredCluster::new(cluster, self.owner, self.file.clone()))
    }

    /// The same cluster with all its pages in memory. Cost: a read of its file.
    pub(crate) fn resident(&self) -> Result<Arc<StoredCluster>> {
        let mut fetch = Fetch::new([self]);
        let mut pages = Vec::with_capacity(self.cluster.pages_bytes() as usize);
        for id in self.cluster.page_ids() {
            pages.extend_from_slice(&fetch.page(id)?);
            pages.resize(pages.len() + TRAILER_BYTES as usize, 0);
        }
        let directory = self.cluster.directory().clone();
        let cluster = Cluster::resident(self.file.id(), directory, pages);
        Ok(StoredCluster::new(cluster, self.owner, self.file.clone()))
    }

    /// Reads and checks the whole file, and returns its size. `None` if it is gone: another process
    /// that has the database open for writing removes files that it does not need.
    pub(crate) fn verify(&self) -> Result<Option<u64>> {
        match self.check() {
            Err(_) if self.file.context().storage.size(self.path()).is_err() => Ok(None),
            checked => checked.map(|()| Some(self.bytes())),
        }
    }

    fn check(&self) -> Result<()> {
        let path = self.path();
        if directory_of(&self.file)? != (self.owner, self.cluster.directory().clone()) {
            let error =
                Error::corruption("expected the directory of the open cluster, found another");
            return Err(error.at(path, None));
        }
        let mut fetch = Fetch::new([self]);
        for id in self.cluster.page_ids() {
            let page = fetch.page(id)?;
            let checked = self.cluster.check_page(id, &page);
            checked.map_err(|e| e.at(path, Some(id.handle.offset)))?;
        }
        Ok(())
    }
}

/// Reads the directory behind the pages.
fn read_directory(
    reader: &dyn RandomRead,
    path: &Path,
    number: TableId,
) -> Result<(Owner, Directory)> {
    let bytes = reader.bytes();
    let tail_at = bytes.saturating_sub(TAIL_BYTES as u64);
    let tail = page_io::read_range(reader, path, tail_at, TAIL_BYTES)?;
    let tail = tail.first_chunk().expect("as long as asked for");
    let tail = Tail::decode(tail, number)?;
    if tail.file_bytes() != bytes {
        return Err(Error::corruption(format!(
            "expected a cluster of {} bytes, found {bytes} bytes",
            tail.file_bytes()
        )));
    }
    let directory_bytes = tail.directory_bytes as usize;
    let directory = page_io::read_range(reader, path, tail.directory_at(), directory_bytes)?;
    Directory::decode(&directory, number, tail)
}

/// Reads a cluster into memory from a file, and checks all of it. Cost: as large as the file.
///
/// # Errors
/// `Io`, `Corruption`, `FormatVersion`.
pub(crate) fn read_whole(
    storage: &dyn Storage,
    path: &Path,
    number: TableId,
) -> Result<(Owner, Cluster)> {
    let opened = storage.open(path, ReadMode::Pread);
    let reader = opened.map_err(|e| Error::io("open", path, e))?;
    let (owner, directory) =
        read_directory(&*reader, path, number).map_err(|e| e.at(path, None))?;
    let cluster = Cluster::paged(number, directory);
    let mut pages = Vec::new();
    for id in cluster.page_ids() {
        let page = page_io::read(&*reader, path, id, Buffer::allocate)?;
        let checked = cluster.check_page(id, &page);
        checked.map_err(|e| e.at(path, Some(id.handle.offset)))?;
        pages.extend_from_slice(&page);
        pages.resize(pages.len() + TRAILER_BYTES as usize, 0);
    }
    let directory = cluster.directory().clone();
    Ok((owner, Cluster::resident(number, directory, pages)))
}

impl PageSource for StoredCluster {
    fn page(&self, id: PageId) -> Result<Page> {
        self.file.page(id)
    }

    fn has_cached(&self, id: PageId) -> bool {
        self.file.has_cached(id)
    }
}

/// Reads pages of some clusters, each from front to back, in long pieces and past the page cache.
pub(crate) struct Fetch<'a> {
    files: BTreeMap<TableId, (&'a StoredCluster, u64, Buffer)>,
}

impl<'a> Fetch<'a> {
    pub(crate) fn new(clusters: impl IntoIterator<Item = &'a StoredCluster>) -> Self {
        let empty = |cluster: &'a StoredCluster| (cluster, 0, Buffer::allocate(0));
        let clusters = clusters.into_iter();
        Fetch {
            files: clusters.map(|it| (it.file.id(), empty(it))).collect(),
        }
    }

    pub(crate) fn page(&mut self, id: PageId) -> Result<Page> {
        let (cluster, start, piece) = self
            .files
            .get_mut(&id.table)
            .expect("a page of one of these clusters");
        let (at, bytes) = (id.handle.offset, id.handle.bytes as usize);
        let is_here = at >= *start && at + bytes as u64 <= *start + piece.len() as u64;
        if !is_here {
            let rest = cluster.cluster.pages_bytes().saturating_sub(at) as usize;
            let wanted = PIECE_BYTES.max(bytes).min(rest);
            let reader = cluster.file.file()?;
            *piece = page_io::read_range(&**reader, cluster.path(), at, wanted)?;
            *start = at;
            cluster.file.context().stats.device_reads.add(1);
        }
        let from = (at - *start) as usize;
        let stored = piece.get(from..from + bytes).unwrap_or_default();
        page_io::decode(stored, id)
            .inspect_err(|error| cluster.note_damage(error))
            .map_err(|e| e.at(cluster.path(), Some(at)))
    }
}

/// Writes a cluster of these sources into a directory. The file and its name are durable
/// afterwards. `fetch` reads from sources that are not resident. `pace` gets the number of bytes
/// before they are written. Cost: 4 KiB for each page.
pub(crate) fn write(
    context: &Arc<TableContext>,
    (dir, number, owner): (&Path, TableId, Owner),
    sources: &[Source<'_>],
    mut fetch: Fetch<'_>,
    is_resident: bool,
    pace: impl Fn(u64) -> Result<()>,
) -> Result<Arc<StoredCluster>> {
    let path = dir.join(cluster_name(number));
    // The file is removed from now on unless a cluster takes it.
    let mut file = paged_file(context, number, path, 0);
    let failed = |e| Error::io("write", file.path(), e);
    let mut out = context.storage.create(file.path()).map_err(failed)?;
    let mut resident = Vec::new();
    let (mut stored, mut offset) = (Vec::with_capacity(PIECE_BYTES), 0);
    let directory = assemble(
        sources,
        |id| fetch.page(id),
        |mut page| {
            if is_resident {
                resident.extend_from_slice(&page);
            }
            let bytes = page.len();
            page.truncate(bytes - TRAILER_BYTES as usize);
            page_io::seal(&mut page, compress::RAW, number, offset);
            stored.extend(page);
            offset += bytes as u64;
            if stored.len() >= PIECE_BYTES {
                pace(stored.len() as u64)?;
                out.write(&stored).map_err(failed)?;
                stored.clear();
            }
            Ok(())
        },
    )?;
    pace(stored.len() as u64)?;
    out.write(&stored).map_err(failed)?;
    // A reader that finds the directory after a loss of power relies on the pages, if the tables
    // were durable before.
    out.sync().map_err(failed)?;
    out.write(&directory.encode(number, owner))
        .map_err(failed)?;
    out.sync().map_err(failed)?;
    let synced = context.storage.sync_dir(dir);
    synced.map_err(|e| Error::io("sync", dir, e))?;
    file.set_bytes(out.bytes());
    context.stats.filter_write_bytes.add(file.bytes());
    let cluster = match is_resident {
        true => Cluster::resident(number, directory, resident),
        false => Cluster::paged(number, directory),
    };
    if !is_resident {
        file.file()?;
    }
    Ok(StoredCluster::new(cluster, owner, Arc::new(file)))
}
