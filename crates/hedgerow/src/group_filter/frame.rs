//! The frame of a filter's file: the body, which its kind alone knows, then a description, which
//! begins with the owner, then a tail. The format is in `docs/format/filter_file.md`.
//!
//! A file is a cache of what the tables keep. Nothing but its place names it, and its description
//! lists the tables whose keys it knows; numbers of tables are never reused. A file that is missing
//! or damaged is no error: its filter is built from the tables. It is removed when no filter needs
//! it any more, and when the database is opened and the file fits nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::{RandomRead, ReadMode, SequentialWrite, Storage};

use crate::base::codec::checksum::{agree, place, seeded};
use crate::base::codec::features::check_version;
use crate::base::codec::{ByteReader, varint};
use crate::base::durable::sync_dir;
use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::error::{Error, Result};
use crate::base::page::{Buffer, DEVICE_PAGE_BYTES, TableId};
use crate::table::TableContext;
use crate::table::page_io;
use crate::table::paged_file::PagedFile;

use super::{Context, FilterContents, FilterKind, KINDS};

const VERSION: u32 = 1;
/// The last bytes of a file.
const TAIL_BYTES: usize = 28;

/// The kind of a filter, in its file.
pub(crate) type Magic = [u8; 8];

/// The partition whose keys are in a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) partition: PartitionId,
    /// The seed of the hashes of keys.
    pub(crate) hash_seed: u64,
}

impl Owner {
    fn encode(self, out: &mut Vec<u8>) {
        varint::put(out, u64::from(self.keyspace.0));
        varint::put(out, u64::from(self.partition.0));
        out.extend(self.hash_seed.to_le_bytes());
    }

    fn decode(reader: &mut ByteReader<'_>) -> Result<Owner> {
        Ok(Owner {
            keyspace: KeyspaceId(reader.varint_as("keyspace")?),
            partition: PartitionId(reader.varint_as("partition")?),
            hash_seed: reader.u64("seed of hashes")?,
        })
    }
}

/// The number in the name of a filter's file. Clusters had names of their own once.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".filter");
    let digits = digits.or_else(|| name.strip_suffix(".cluster"))?;
    digits.parse().ok().filter(|_| digits.len() == 10)
}

/// A file of a filter, of a size that is not known yet. It is removed when nobody holds it.
pub(super) fn filter_file(
    context: &Arc<TableContext>,
    number: TableId,
    path: PathBuf,
) -> PagedFile {
    let file = PagedFile::new(number, path, 0, context.clone());
    file.mark_obsolete();
    file
}

// ---- writing ----

/// A file of a filter that is being written.
pub(super) struct FilterFileWriter {
    out: Box<dyn SequentialWrite>,
    /// Removed unless a filter takes it.
    file: PagedFile,
    dir: PathBuf,
    owner: Owner,
}

impl FilterFileWriter {
    pub(super) fn create(cx: &Context<'_>) -> Result<FilterFileWriter> {
        let (number, dir) = (cx.host.next_number()?, cx.host.filters_dir());
        let path = dir.join(format!("{:010}.filter", number.0));
        let file = filter_file(cx.tables, number, path);
        let out = cx.tables.storage.create(file.path());
        Ok(FilterFileWriter {
            out: out.map_err(|e| Error::io("write", file.path(), e))?,
            file,
            dir,
            owner: cx.owner,
        })
    }

    pub(super) fn number(&self) -> TableId {
        self.file.id()
    }

    /// Appends bytes of the body.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.out.write(bytes);
        written.map_err(|e| Error::io("write", self.file.path(), e))
    }

    pub(super) fn sync(&mut self) -> Result<()> {
        let synced = self.out.sync();
        synced.map_err(|e| Error::io("write", self.file.path(), e))
    }

    /// Ends the file with what its kind describes. The file and its name are durable afterwards.
    pub(super) fn finish(mut self, magic: Magic, description: &[u8]) -> Result<Arc<PagedFile>> {
        let end = encode(
            magic,
            (self.number(), self.out.bytes()),
            self.owner,
            description,
        );
        self.write(&end)?;
        self.sync()?;
        let context = self.file.context().clone();
        sync_dir(&*context.storage, &self.dir)?;
        self.file.set_bytes(self.out.bytes());
        context.stats.filter_write_bytes.add(self.file.bytes());
        Ok(Arc::new(self.file))
    }
}

/// The bytes behind the body in the file `number`.
pub(crate) fn encode(
    magic: Magic,
    (number, body_bytes): (TableId, u64),
    owner: Owner,
    description: &[u8],
) -> Vec<u8> {
    let mut bytes = Vec::new();
    owner.encode(&mut bytes);
    bytes.extend(description);
    seal(&mut bytes, place(number.0, body_bytes));

    let pages = body_bytes.div_ceil(DEVICE_PAGE_BYTES) as u32;
    let mut tail = pages.to_le_bytes().to_vec();
    tail.extend((bytes.len() as u64).to_le_bytes());
    tail.extend(VERSION.to_le_bytes());
    tail.extend(magic);
    seal(&mut tail, place(number.0, u64::MAX));
    bytes.extend(tail);
    bytes
}

/// Appends the checksum of bytes at a place.
fn seal(bytes: &mut Vec<u8>, place: u64) {
    let sum = seeded(place, bytes);
    bytes.extend(sum.to_le_bytes());
}

// ---- reading ----

/// A file whose tail and description were read and checked.
pub(crate) struct FilterFile {
    pub(super) kind: &'static dyn FilterKind,
    pub(crate) number: TableId,
    pub(crate) owner: Owner,
    /// The part of the description that its kind wrote.
    pub(super) description: Vec<u8>,
    pub(super) body_bytes: u64,
    pub(crate) file: Arc<dyn RandomRead>,
    pub(crate) path: PathBuf,
}

impl FilterFile {
    /// Opens the file with this number. Cost: two reads.
    ///
    /// # Errors
    /// `Io`; `Corruption`; `FormatVersion` if a later version wrote it.
    pub(crate) fn open(
        storage: &dyn Storage,
        mode: ReadMode,
        path: &Path,
        number: TableId,
    ) -> Result<FilterFile> {
        let opened = storage.open(path, mode);
        let file = opened.map_err(|e| Error::io("open", path, e))?;
        FilterFile::read(file, path, number).map_err(|e| e.at(path, None))
    }

    /// Opens a file of a database in the database's mode.
    pub(super) fn open_for(context: &TableContext, file: &PagedFile) -> Result<FilterFile> {
        let storage = &*context.storage;
        FilterFile::open(storage, context.read_mode, file.path(), file.id())
    }

    fn read(file: Arc<dyn RandomRead>, path: &Path, number: TableId) -> Result<FilterFile> {
        let tail_at = file.bytes().saturating_sub(TAIL_BYTES as u64);
        let tail = page_io::read_range(&*file, path, tail_at, TAIL_BYTES)?;
        let tail = Tail::decode(&tail, number)?;
        let body_bytes = tail_at.checked_sub(tail.description_bytes);
        let fits = |bytes: &u64| bytes.div_ceil(DEVICE_PAGE_BYTES) == u64::from(tail.pages);
        let body_bytes = body_bytes.filter(fits).ok_or_else(|| {
            Error::corruption(format!(
                "expected {} pages and a description of {} bytes, found a file of {} bytes",
                tail.pages,
                tail.description_bytes,
                file.bytes()
            ))
        })?;
        let bytes = tail.description_bytes as usize;
        let bytes = page_io::read_range(&*file, path, body_bytes, bytes)?;
        let mut reader = ByteReader::new(unsealed(&bytes, place(number.0, body_bytes))?);
        let owner = Owner::decode(&mut reader)?;
        let description = reader.take(reader.remaining(), "description")?;
        Ok(FilterFile {
            kind: tail.kind,
            number,
            owner,
            description: description.to_vec(),
            body_bytes,
            file,
            path: path.to_path_buf(),
        })
    }

    /// All bytes of the body. Cost: one read.
    pub(super) fn body(&self) -> Result<Buffer> {
        page_io::read_range(&*self.file, &self.path, 0, self.body_bytes as usize)
    }

    /// Reads and checks the body.
    pub(crate) fn check(&self) -> Result<FilterContents> {
        let checked = self.kind.check(self);
        checked.map_err(|e| e.at(&self.path, None))
    }
}

/// Checks a whole file. Returns false if it is gone: another process that has the database open for
/// writing removes files that it does not need.
pub(crate) fn verify(file: &PagedFile) -> Result<bool> {
    let context = file.context();
    match FilterFile::open_for(context, file).and_then(|it| it.check()) {
        Err(_) if context.storage.size(file.path()).is_err() => Ok(false),
        checked => checked.map(|_| true),
    }
}

/// The end of a file.
struct Tail {
    /// The pages that the body begins.
    pages: u32,
    description_bytes: u64,
    kind: &'static dyn FilterKind,
}

impl Tail {
    fn decode(bytes: &[u8], number: TableId) -> Result<Tail> {
        // A later version may have other kinds.
        let mut reader = ByteReader::new(unsealed(bytes, place(number.0, u64::MAX))?);
        let pages = reader.u32("pages")?;
        let description_bytes = reader.u64("bytes of the description")?;
        let version = reader.u32("version")?;
        check_version("a filter", VERSION, version)?;
        let magic = reader.take(size_of::<Magic>(), "magic")?;
        let kind = KINDS.into_iter().find(|kind| kind.magic() == *magic);
        let kind =
            kind.ok_or_else(|| Error::corruption("expected a file of a filter, found another"))?;
        Ok(Tail {
            pages,
            description_bytes,
            kind,
        })
    }
}

/// The bytes before the checksum that ends them, which is the right one for the place.
fn unsealed(bytes: &[u8], place: u64) -> Result<&[u8]> {
    let (bytes, sum) = bytes.split_last_chunk().ok_or_else(|| {
        let found = bytes.len();
        Error::corruption(format!("expected a checksum, found {found} bytes"))
    })?;
    let (found, expected) = (u32::from_le_bytes(*sum), seeded(place, bytes));
    match agree(found, expected) {
        true => Ok(bytes),
        false => Err(Error::corruption(format!(
            "expected checksum {expected:#010x} in a filter, found {found:#010x}"
        ))),
    }
}

#[cfg(test)]
mod tests;
