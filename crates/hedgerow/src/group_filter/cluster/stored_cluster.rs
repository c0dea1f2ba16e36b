//! Files of clusters. Like all files of filters, a file is a cache of what the tables keep. Nothing
//! but its place names it, and it lists the tables whose keys it knows; numbers of tables are never
//! reused. A file that is missing or damaged when the database is opened is made again. A file is
//! removed when nobody holds the cluster any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::codec::compress;
use crate::base::durable::sync_dir;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::page::{Buffer, Page, PageId, PageSource, TRAILER_BYTES, TableId};
use crate::group_filter::{Context, Owner, StoredFile, filter_file, number_before};
use crate::table::page_io;
use crate::table::paged_file::{PagedFile, TableContext};
use hedgerow_io::{RandomRead, ReadMode, Storage};

use super::{
    Cluster, Directory, PAGE_BYTES, PageEnds, Source, TAIL_BYTES, Tail, assemble, pages_for,
};

/// The bytes of one write, and of one read from each cluster that becomes part of another.
const PIECE_BYTES: usize = 256 << 10;

/// The name of a cluster's file.
fn cluster_name(number: TableId) -> String {
    format!("{:010}.cluster", number.0)
}

/// The number in the name of a cluster's file.
pub(crate) fn cluster_number(name: &str) -> Option<u64> {
    number_before(name, ".cluster")
}

fn directory_of(file: &PagedFile) -> Result<(Owner, Directory)> {
    let read = read_directory(&**file.file()?, file.path(), file.id());
    read.map_err(|e| e.at(file.path(), None))
}

/// A cluster's file, with the places of its pages.
#[derive(Clone)]
pub(crate) struct ClusterFile {
    file: Arc<PagedFile>,
    owner: Owner,
    directory: Arc<Directory>,
}

/// A cluster with the files that keep its stripes: its own, or several if it was joined in memory.
/// Its bytes count in the memory budget until it is dropped.
pub(crate) struct StoredCluster {
    pub(crate) cluster: Cluster,
    pub(crate) owner: Owner,
    number: TableId,
    files: Box<[ClusterFile]>,
    context: Arc<TableContext>,
    memory_bytes: u64,
    /// True if a page did not hold what was written.
    damaged: AtomicBool,
}

impl std::fmt::Debug for StoredCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredCluster")
            .field("number", &self.number)
            .field("files", &self.files.len())
            .field("memory_bytes", &self.memory_bytes)
            .finish_non_exhaustive()
    }
}

impl Drop for StoredCluster {
    fn drop(&mut self) {
        let filters = &self.context.memory.filters;
        filters.fetch_sub(self.memory_bytes, Ordering::Relaxed);
    }
}

impl StoredCluster {
    fn new(number: TableId, cluster: Cluster, files: Vec<ClusterFile>) -> Arc<StoredCluster> {
        let context = files[0].file.context().clone();
        let memory_bytes = cluster.memory_bytes() as u64;
        let filters = &context.memory.filters;
        filters.fetch_add(memory_bytes, Ordering::Relaxed);
        context.memory.note();
        Arc::new(StoredCluster {
            cluster,
            owner: files[0].owner,
            number,
            files: files.into(),
            context,
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
        let mut file = filter_file(context, number, path);
        let bytes = context.storage.size(file.path());
        file.set_bytes(bytes.map_err(|e| Error::io("open", file.path(), e))?);
        let (owner, directory) = directory_of(&file)?;
        let directory = Arc::new(directory);
        let file = Arc::new(file);
        let cluster = Cluster::paged(number, directory.clone());
        let file = ClusterFile {
            file,
            owner,
            directory,
        };
        Ok(StoredCluster::new(number, cluster, vec![file]))
    }

    /// The identity of the cluster: its number, and whether it is in memory. A cluster with a file
    /// of its own has the number of the file.
    pub(crate) fn name(&self) -> (TableId, bool) {
        (self.number, self.cluster.is_resident())
    }

    /// The files that keep its stripes.
    pub(crate) fn files(&self) -> &[ClusterFile] {
        &self.files
    }

    /// The file that its pages are read from. `None` if it was joined in memory.
    pub(super) fn pages(&self) -> Option<&PagedFile> {
        Some(&self.own_file()?.file)
    }

    /// The file that holds just its stripes. `None` if it was joined in memory from several files.
    pub(crate) fn own_file(&self) -> Option<&ClusterFile> {
        match &*self.files {
            [file] if file.number() == self.number => Some(file),
            _ => None,
        }
    }

    /// Returns true if a page did not hold what was written. Reads then do without the cluster.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Records damage if the error reports it.
    fn note(&self, error: &Error) {
        if error.kind() == ErrorKind::Corruption {
            self.damaged.store(true, Ordering::Relaxed);
        }
    }

    /// The same cluster, whose pages are read when a probe needs them. `None` if it has no file of
    /// its own.
    pub(crate) fn paged(&self) -> Result<Option<Arc<StoredCluster>>> {
        let Some(own) = self.own_file() else {
            return Ok(None);
        };
        own.file.file()?;
        let cluster = Cluster::paged(self.number, own.directory.clone());
        Ok(Some(StoredCluster::new(
            self.number,
            cluster,
            vec![own.clone()],
        )))
    }
}

impl ClusterFile {
    pub(crate) fn number(&self) -> TableId {
        self.file.id()
    }

    fn check_pages(&self) -> Result<()> {
        let path = self.file.path();
        if directory_of(&self.file)? != (self.owner, (*self.directory).clone()) {
            let error =
                Error::corruption("expected the directory of the open cluster, found another");
            return Err(error.at(path, None));
        }
        let cluster = Cluster::paged(self.number(), self.directory.clone());
        let mut pieces = Pieces::new(self.file.clone());
        for id in cluster.page_ids() {
            let page = pieces.page(id)?;
            let checked = cluster.check_page(id, &page);
            checked.map_err(|e| e.at(path, Some(id.handle.offset)))?;
        }
        Ok(())
    }
}

impl StoredFile for ClusterFile {
    fn file(&self) -> &PagedFile {
        &self.file
    }

    fn check(&self) -> Result<u64> {
        self.check_pages()?;
        Ok(self.file.bytes())
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
    let cluster = Cluster::paged(number, Arc::new(directory));
    let read = |id| page_io::read(&*reader, path, id, Buffer::allocate);
    for id in cluster.page_ids() {
        let checked = cluster.check_page(id, &read(id)?);
        checked.map_err(|e| e.at(path, Some(id.handle.offset)))?;
    }
    if cluster.stripes().is_empty() {
        return Ok((owner, cluster));
    }
    let all = Source::Cluster(&cluster, cluster.all_stripes());
    let cluster = Cluster::resident(number, &[all], read)?;
    Ok((owner, cluster))
}

impl PageSource for StoredCluster {
    fn page(&self, id: PageId) -> Result<Page> {
        match self.own_file() {
            Some(own) => own.file.page(id),
            None => Err(Error::corruption(format!(
                "expected no page to be asked for by a cluster in memory, found {id:?}"
            ))),
        }
    }

    fn has_cached(&self, id: PageId) -> bool {
        self.own_file().is_some_and(|own| own.file.has_cached(id))
    }

    /// Records that a page did not hold what was written.
    fn note_damage(&self, error: &Error) {
        self.note(error);
    }
}

/// Reads pages of some clusters, each from front to back.
pub(crate) struct Fetch<'a> {
    clusters: BTreeMap<TableId, (&'a StoredCluster, Pieces)>,
}

impl<'a> Fetch<'a> {
    pub(crate) fn new(clusters: impl IntoIterator<Item = &'a StoredCluster>) -> Self {
        let with_pieces = |cluster: &'a StoredCluster| {
            let file = cluster.own_file()?.file.clone();
            Some((cluster.number, (cluster, Pieces::new(file))))
        };
        Fetch {
            clusters: clusters.into_iter().filter_map(with_pieces).collect(),
        }
    }

    pub(crate) fn page(&mut self, id: PageId) -> Result<Page> {
        let found = self.clusters.get_mut(&id.table);
        let (cluster, pieces) = found.expect("a page of one of these clusters");
        let page = pieces.page(id);
        page.inspect_err(|error| cluster.note(error))
    }
}

/// Reads the pages of a file from front to back, in long pieces and past the page cache.
struct Pieces {
    file: Arc<PagedFile>,
    start: u64,
    piece: Buffer,
}

impl Pieces {
    fn new(file: Arc<PagedFile>) -> Pieces {
        Pieces {
            file,
            start: 0,
            piece: Buffer::allocate(0),
        }
    }

    fn page(&mut self, id: PageId) -> Result<Page> {
        let (at, bytes) = (id.handle.offset, id.handle.bytes as usize);
        let end = self.start + self.piece.len() as u64;
        if at < self.start || at + bytes as u64 > end {
            let rest = self.file.bytes().saturating_sub(at) as usize;
            let wanted = PIECE_BYTES.max(bytes).min(rest);
            let reader = self.file.file()?;
            self.piece = page_io::read_range(&**reader, self.file.path(), at, wanted)?;
            self.start = at;
            self.file.context().stats.device_reads.add(1);
        }
        let from = (at - self.start) as usize;
        let stored = self.piece.get(from..from + bytes).unwrap_or_default();
        page_io::decode(stored, id).map_err(|e| e.at(self.file.path(), Some(at)))
    }
}

/// Some stripes of clusters as the sources of another one, and the reader of their pages.
pub(super) fn sources_of<'a>(
    members: &'a [(&StoredCluster, Vec<usize>)],
) -> (Vec<Source<'a>>, Fetch<'a>) {
    let source = |(it, stripes): &'a (&StoredCluster, Vec<usize>)| {
        Source::Cluster(&it.cluster, stripes.clone())
    };
    let fetch = Fetch::new(members.iter().map(|(it, _)| *it));
    (members.iter().map(source).collect(), fetch)
}

/// Joins clusters in memory. Their files stay. Cost: a copy of their filters, and a read of those
/// that are not resident.
pub(crate) fn join(
    number: TableId,
    members: &[(&StoredCluster, Vec<usize>)],
) -> Result<Arc<StoredCluster>> {
    let (sources, mut fetch) = sources_of(members);
    let cluster = Cluster::resident(number, &sources, |id| fetch.page(id))?;
    let kept: BTreeSet<TableId> = cluster.stripes().iter().map(|it| it.table).collect();
    let is_kept = |file: &&ClusterFile| {
        let mut stripes = file.directory.stripes.iter();
        stripes.any(|stripe| kept.contains(&stripe.table))
    };
    let files = members.iter().flat_map(|(it, _)| it.files());
    let files: BTreeMap<_, _> = { files.filter(is_kept) }
        .map(|file| (file.number(), file.clone()))
        .collect();
    Ok(StoredCluster::new(
        number,
        cluster,
        files.into_values().collect(),
    ))
}

/// Writes a cluster of these sources. The file and its name are durable afterwards. `fetch` reads
/// from sources that are not resident, once. Cost: 4 KiB for each page.
pub(crate) fn write(
    cx: &Context<'_>,
    sources: &[Source<'_>],
    mut fetch: Fetch<'_>,
    is_resident: bool,
) -> Result<Arc<StoredCluster>> {
    let (context, dir) = (cx.tables, &cx.host.filters_dir());
    let number = cx.host.next_number()?;
    let in_memory = match is_resident {
        true => Some(Cluster::resident(number, sources, |id| fetch.page(id))?),
        false => None,
    };
    let of_memory = in_memory
        .as_ref()
        .map(|it| [Source::Cluster(it, it.all_stripes())]);
    let sources = of_memory.as_ref().map_or(sources, |it| &it[..]);
    let path = dir.join(cluster_name(number));
    // The file is removed from now on unless a cluster takes it.
    let mut file = filter_file(context, number, path);
    let failed = |e| Error::io("write", file.path(), e);
    let mut out = context.storage.create(file.path()).map_err(failed)?;
    let (mut stored, mut offset) = (Vec::with_capacity(PIECE_BYTES), 0);
    let directory = assemble(
        sources,
        PageEnds::Full,
        |id| fetch.page(id),
        |mut page| {
            let pages = pages_for(page.len());
            let bytes = pages * PAGE_BYTES;
            page.resize(bytes - TRAILER_BYTES as usize, 0);
            page_io::seal(&mut page, compress::RAW, number, offset);
            stored.extend(page);
            offset += bytes as u64;
            if stored.len() >= PIECE_BYTES {
                cx.host.pace(stored.len() as u64)?;
                out.write(&stored).map_err(failed)?;
                stored.clear();
            }
            Ok(pages)
        },
    )?;
    cx.host.pace(stored.len() as u64)?;
    out.write(&stored).map_err(failed)?;
    // A reader that finds the directory after a loss of power relies on the pages, if the tables
    // were durable before.
    out.sync().map_err(failed)?;
    out.write(&directory.encode(number, cx.owner))
        .map_err(failed)?;
    out.sync().map_err(failed)?;
    sync_dir(&*context.storage, dir)?;
    file.set_bytes(out.bytes());
    context.stats.filter_write_bytes.add(file.bytes());
    let directory = Arc::new(directory);
    drop(of_memory);
    let cluster = match in_memory {
        Some(cluster) => cluster,
        None => {
            file.file()?;
            Cluster::paged(number, directory.clone())
        }
    };
    let file = ClusterFile {
        file: Arc::new(file),
        owner: cx.owner,
        directory,
    };
    Ok(StoredCluster::new(number, cluster, vec![file]))
}
