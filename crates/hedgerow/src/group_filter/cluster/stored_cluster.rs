//! Files of clusters: the body is the pages, the description is the directory
//! ([`frame`](crate::group_filter::frame)).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::codec::compress;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::page::{Buffer, Page, PageId, PageSource, TRAILER_BYTES, TableId};
use crate::group_filter::{Context, FilterFile, FilterFileWriter, Magic};
use crate::table::page_io;
use crate::table::paged_file::{PagedFile, TableContext};
use hedgerow_io::RandomRead;

use super::{Cluster, Directory, PAGE_BYTES, PageEnds, Source, assemble, pages_for};

pub(super) const MAGIC: Magic = *b"hedgeclu";

/// The bytes of one write, and of one read from each cluster that becomes part of another.
const PIECE_BYTES: usize = 256 << 10;

/// A cluster's file, with the places of its pages.
#[derive(Clone)]
pub(crate) struct ClusterFile {
    pub(super) file: Arc<PagedFile>,
    directory: Arc<Directory>,
}

/// A cluster with the files that keep its stripes: its own, or several if it was joined in memory.
/// Its bytes count in the memory budget until it is dropped.
pub(crate) struct StoredCluster {
    pub(crate) cluster: Cluster,
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
            number,
            files: files.into(),
            context,
            memory_bytes,
            damaged: AtomicBool::new(false),
        })
    }

    /// The cluster of a file.
    ///
    /// # Errors
    /// `Io`, `Corruption`.
    pub(super) fn open(file: Arc<PagedFile>, framed: &FilterFile) -> Result<Arc<StoredCluster>> {
        let directory = Arc::new(Directory::decode(&framed.description, framed.body_bytes)?);
        ClusterFile { file, directory }.paged()
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
        own.clone().paged().map(Some)
    }
}

impl ClusterFile {
    pub(crate) fn number(&self) -> TableId {
        self.file.id()
    }

    /// The cluster, whose pages are read when a probe needs them.
    fn paged(self) -> Result<Arc<StoredCluster>> {
        self.file.file()?;
        let cluster = Cluster::paged(self.number(), self.directory.clone());
        Ok(StoredCluster::new(self.number(), cluster, vec![self]))
    }
}

/// Checks all of a file, and returns the cluster, whose pages are not in memory.
///
/// # Errors
/// `Io`, `Corruption`.
pub(crate) fn checked(file: &FilterFile) -> Result<Cluster> {
    let directory = Directory::decode(&file.description, file.body_bytes)?;
    let cluster = Cluster::paged(file.number, Arc::new(directory));
    let mut pieces = Pieces::default();
    for id in cluster.page_ids() {
        let page = pieces.page((&*file.file, &*file.path), id, || ())?;
        let checked = cluster.check_page(id, &page);
        checked.map_err(|e| e.at(&file.path, Some(id.handle.offset)))?;
    }
    Ok(cluster)
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
    clusters: BTreeMap<TableId, (&'a StoredCluster, &'a PagedFile, Pieces)>,
}

impl<'a> Fetch<'a> {
    pub(crate) fn new(clusters: impl IntoIterator<Item = &'a StoredCluster>) -> Self {
        let with_pieces = |cluster: &'a StoredCluster| {
            let file = cluster.pages()?;
            Some((cluster.number, (cluster, file, Pieces::default())))
        };
        Fetch {
            clusters: clusters.into_iter().filter_map(with_pieces).collect(),
        }
    }

    pub(crate) fn page(&mut self, id: PageId) -> Result<Page> {
        let found = self.clusters.get_mut(&id.table);
        let (cluster, file, pieces) = found.expect("a page of one of these clusters");
        let count = || file.context().stats.device_reads.add(1);
        let opened = file.file();
        let page = opened.and_then(|it| pieces.page((&**it, file.path()), id, count));
        page.inspect_err(|error| cluster.note(error))
    }
}

/// Reads the pages of a file from front to back, in long pieces and past the page cache.
#[derive(Default)]
struct Pieces {
    start: u64,
    piece: Option<Buffer>,
}

impl Pieces {
    /// The page of a file. Calls `on_read` if that takes a read.
    fn page(
        &mut self,
        (file, path): (&dyn RandomRead, &Path),
        id: PageId,
        on_read: impl FnOnce(),
    ) -> Result<Page> {
        let (at, bytes) = (id.handle.offset, id.handle.bytes as usize);
        let piece = self.piece.take();
        let held = piece.filter(|piece| {
            let end = self.start + piece.len() as u64;
            at >= self.start && at + bytes as u64 <= end
        });
        let piece = match held {
            Some(piece) => piece,
            None => {
                let rest = file.bytes().saturating_sub(at) as usize;
                let wanted = PIECE_BYTES.max(bytes).min(rest);
                self.start = at;
                on_read();
                page_io::read_range(file, path, at, wanted)?
            }
        };
        let from = (at - self.start) as usize;
        let stored = piece.get(from..from + bytes).unwrap_or_default();
        let page = page_io::decode(stored, id).map_err(|e| e.at(path, Some(at)));
        self.piece = Some(piece);
        page
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
    let mut file = FilterFileWriter::create(cx)?;
    let number = file.number();
    let in_memory = match is_resident {
        true => Some(Cluster::resident(number, sources, |id| fetch.page(id))?),
        false => None,
    };
    let of_memory = in_memory
        .as_ref()
        .map(|it| [Source::Cluster(it, it.all_stripes())]);
    let sources = of_memory.as_ref().map_or(sources, |it| &it[..]);
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
                file.write(&stored)?;
                stored.clear();
            }
            Ok(pages)
        },
    )?;
    cx.host.pace(stored.len() as u64)?;
    file.write(&stored)?;
    // A reader that finds the directory after a loss of power relies on the pages, if the tables
    // were durable before.
    file.sync()?;
    let file = ClusterFile {
        file: file.finish(MAGIC, &directory.encode())?,
        directory: Arc::new(directory),
    };
    drop(of_memory);
    match in_memory {
        Some(cluster) => Ok(StoredCluster::new(number, cluster, vec![file])),
        None => file.paged(),
    }
}
