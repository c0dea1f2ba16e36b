//! The manifest: one append-only file of edits, from which a database's description is rebuilt.
//!
//! The first record is a snapshot; each later one is an edit. A new file is written beside the old
//! one, made durable, and renamed over it, so that a crash leaves one or the other. Only the record
//! being appended can be torn. So replay ends at a bad record with nothing valid behind it, and
//! reports any other bad record as `Corruption`. `docs/format/manifest.md` draws the bytes.
//!
//! Used by one thread at a time. After a failed append it is unknown whether the edit is durable.
//! Then the manifest takes no more edits, and neither the files that the edit adds nor those that
//! it removes may be deleted.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::{ReadMode, SequentialWrite, Storage};

use crate::base::codec::ByteReader;
use crate::base::codec::checksum::{agree, place, seeded};
use crate::base::codec::features::Features;
use crate::base::error::{Error, ErrorKind, Result};

use super::edit::Edit;
use super::edit_encoding::{decode_edit, encode_edit};

/// The name of the manifest in the database's directory.
pub(crate) const FILE_NAME: &str = "MANIFEST";
/// The name while it is being written.
pub(crate) const NEW_FILE_NAME: &str = "MANIFEST.new";
/// The version of the format.
pub(crate) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"hedgeman";
/// The size of the header; the first record begins here.
pub(crate) const HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 12;
/// Below this size rotation is not worth its two syncs.
const ROTATE_BYTES_MIN: u64 = 1 << 20;
/// The manifest is rotated when it is this many times larger than its first snapshot: at most a
/// third more writing.
const ROTATE_GROWTH: u64 = 4;
/// The space that an append leaves free. An append must not fail half way for lack of space, since
/// that poisons, and others may write at the same time. An edit takes some hundred bytes.
const RESERVED_BYTES: u64 = 64 << 10;
/// Mixed into the seeds of checksums, so that no other file's records verify.
const SEED: u64 = u64::from_le_bytes(MAGIC);

/// The manifest of a database that is open for writing.
#[derive(Debug)]
pub(crate) struct Manifest {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    file: Box<dyn SequentialWrite>,
    snapshot_bytes: u64,
    poisoned: bool,
}

impl Manifest {
    /// Replaces the manifest in `dir`, if any, by one with a single snapshot. It is durable when
    /// this returns; after an error the old or the new one is in place.
    /// Cost: two syncs.
    pub(crate) fn create(storage: Arc<dyn Storage>, dir: &Path, snapshot: &Edit) -> Result<Self> {
        let file = write_new(&*storage, dir, snapshot)?;
        put_in_place(&*storage, dir)?;
        Ok(Manifest {
            storage,
            dir: dir.to_path_buf(),
            snapshot_bytes: file.bytes(),
            file,
            poisoned: false,
        })
    }

    /// Appends an edit and makes it durable.
    ///
    /// # Errors
    /// `NoSpace` if there is hardly any room, with nothing written. After a failure of the write
    /// itself, every later call is `Poisoned`: see [`Manifest::is_poisoned`].
    pub(crate) fn append(&mut self, edit: &Edit) -> Result<()> {
        self.check_usable()?;
        let record = encode_record(edit, self.file.bytes())?;
        self.check_room(record.len() as u64)?;
        let file = &mut self.file;
        self.poisoned = true;
        file.write(&record)
            .and_then(|()| file.sync())
            .map_err(|e| Error::io("append to", &self.path(), e))?;
        self.poisoned = false;
        Ok(())
    }

    /// Starts over with a snapshot of the state that the edits lead to.
    ///
    /// # Errors
    /// If the new file cannot be written, the old one stays in use. If it cannot be put in place
    /// durably, every later call is `Poisoned`.
    pub(crate) fn rotate(&mut self, snapshot: &Edit) -> Result<()> {
        self.check_usable()?;
        let file = write_new(&*self.storage, &self.dir, snapshot)?;
        self.poisoned = true;
        put_in_place(&*self.storage, &self.dir)?;
        self.poisoned = false;
        self.snapshot_bytes = file.bytes();
        self.file = file;
        Ok(())
    }

    /// The size of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Returns true if the file has grown so much that a snapshot is due.
    pub(crate) fn should_rotate(&self) -> bool {
        self.bytes() >= ROTATE_BYTES_MIN.max(ROTATE_GROWTH * self.snapshot_bytes)
    }

    /// Returns true if a write has failed, so that the contents of the file are unknown.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    fn path(&self) -> PathBuf {
        self.dir.join(FILE_NAME)
    }

    fn check_room(&self, bytes: u64) -> Result<()> {
        let refused = |e| Error::io("ask for room", &self.dir, e);
        let available = self.storage.available_bytes(&self.dir).map_err(refused)?;
        if available >= bytes + RESERVED_BYTES {
            return Ok(());
        }
        let full = io::Error::new(
            io::ErrorKind::StorageFull,
            format!(
                "expected room for {} bytes, found {available}",
                bytes + RESERVED_BYTES
            ),
        );
        Err(Error::io("append to", &self.path(), full))
    }

    fn check_usable(&self) -> Result<()> {
        if !self.poisoned {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Poisoned,
            "an earlier write of the manifest failed: close the database and open it again",
        )
        .at(&self.path(), None))
    }
}

/// The contents of a manifest.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The snapshot, then the edits since, in order; never empty.
    pub(crate) edits: Vec<Edit>,
    /// The size up to the end of the last good record.
    pub(crate) bytes: u64,
    pub(crate) header: Features,
}

impl Replay {
    /// Refuses a database that this version can read but not write.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.header.check_writable("the manifest")
    }
}

/// Returns true if a directory has a manifest, which makes it a database.
pub(crate) fn exists(storage: &dyn Storage, dir: &Path) -> Result<bool> {
    let path = dir.join(FILE_NAME);
    match storage.size(&path) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("find", &path, e)),
    }
}

/// Reads a directory's manifest.
///
/// # Errors
/// `Corruption` with file and offset of the damage, `FormatVersion`, `Io`.
pub(crate) fn replay(storage: &dyn Storage, dir: &Path) -> Result<Replay> {
    let path = dir.join(FILE_NAME);
    let contents = read(storage, &path).map_err(|e| Error::io("read", &path, e))?;
    replay_bytes(&contents).map_err(|e| e.at(&path, None))
}

/// The edits of a damaged manifest up to its first damage.
pub(crate) fn salvage(contents: &[u8]) -> Vec<Edit> {
    let edits = records(contents, HEADER_BYTES).map_while(|record| record.edit().ok());
    edits.collect()
}

/// The size of a manifest and a hash of its end. A manifest that was written anew may reach the
/// size of the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    bytes: u64,
    hash: u64,
}

/// The stamp of a database's manifest. Cost: one open and one read.
pub(crate) fn stamp(storage: &dyn Storage, dir: &Path) -> Result<Stamp> {
    let path = dir.join(FILE_NAME);
    let read = || {
        let file = storage.open(&path, ReadMode::Pread)?;
        let bytes = file.bytes();
        let mut end = vec![0; bytes.min(512) as usize];
        file.read_at(bytes - end.len() as u64, &mut end)?;
        io::Result::Ok(Stamp {
            bytes,
            hash: xxhash_rust::xxh3::xxh3_64(&end),
        })
    };
    read().map_err(|e| Error::io("read", &path, e))
}

/// The bytes of a manifest.
pub(crate) fn read(storage: &dyn Storage, path: &Path) -> io::Result<Vec<u8>> {
    let file = storage.open(path, ReadMode::Pread)?;
    let mut contents = vec![0; usize::try_from(file.bytes()).map_err(io::Error::other)?];
    file.read_at(0, &mut contents)?;
    Ok(contents)
}

/// Reads a manifest's bytes.
pub(crate) fn replay_bytes(contents: &[u8]) -> Result<Replay> {
    let header = decode_header(contents)?;
    let mut edits = Vec::new();
    let mut end = HEADER_BYTES;
    for record in records(contents, HEADER_BYTES) {
        edits.push(record.edit()?);
        end = record.end();
    }
    if edits.is_empty() {
        return Err(Error::corruption("the snapshot is damaged").at_offset(end as u64));
    }
    if let Some(later) = next_record(contents, end) {
        return Err(skipped(end, later));
    }
    Ok(Replay {
        edits,
        bytes: end as u64,
        header,
    })
}

/// A record whose checksums are right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) offset: usize,
    payload: &'a [u8],
}

impl Record<'_> {
    /// The offset of the next record.
    pub(crate) fn end(&self) -> usize {
        self.offset + RECORD_HEADER_BYTES + self.payload.len()
    }

    pub(crate) fn edit(&self) -> Result<Edit> {
        decode_edit(self.payload).map_err(|e| e.at_offset(self.offset as u64))
    }
}

/// The valid records from an offset on, up to the first bad one.
pub(crate) fn records(contents: &[u8], offset: usize) -> impl Iterator<Item = Record<'_>> {
    let at = |offset| {
        let payload = record_at(contents, offset)?;
        Some(Record { offset, payload })
    };
    std::iter::successors(at(offset), move |record| at(record.end()))
}

/// The offset of the next valid record behind a bad one at `offset`.
pub(crate) fn next_record(contents: &[u8], offset: usize) -> Option<usize> {
    (offset + 1..contents.len()).find(|&at| record_at(contents, at).is_some())
}

/// The error of a bad record that cannot be a torn end.
pub(crate) fn skipped(offset: usize, later: usize) -> Error {
    Error::corruption(format!(
        "a record is damaged, but there is a valid one behind it, at offset {later}"
    ))
    .at_offset(offset as u64)
}

/// The payload of the record at an offset, if it is valid. Header and payload have separate
/// checksums, so that searching for a record at every offset takes linear time.
fn record_at(contents: &[u8], offset: usize) -> Option<&[u8]> {
    let (header, rest) = contents
        .get(offset..)?
        .split_at_checked(RECORD_HEADER_BYTES)?;
    let mut reader = ByteReader::new(header);
    let bytes = reader.u32("record size").ok()?;
    let payload_checksum = reader.u32("payload checksum").ok()?;
    let header_checksum = reader.u32("header checksum").ok()?;
    let seed = place(SEED, offset as u64);
    if bytes == 0 || !agree(header_checksum, seeded(seed, &header[..8])) {
        return None;
    }
    let payload = rest.get(..bytes as usize)?;
    agree(payload_checksum, seeded(seed, payload)).then_some(payload)
}

fn encode_record(edit: &Edit, offset: u64) -> Result<Vec<u8>> {
    let payload = encode_edit(edit);
    let Ok(bytes) = u32::try_from(payload.len()) else {
        return Err(Error::invalid(format!(
            "expected an edit of less than 4 GiB, found {} bytes",
            payload.len()
        )));
    };
    let seed = place(SEED, offset);
    let mut record = Vec::with_capacity(RECORD_HEADER_BYTES + payload.len());
    record.extend_from_slice(&bytes.to_le_bytes());
    record.extend_from_slice(&seeded(seed, &payload).to_le_bytes());
    record.extend_from_slice(&seeded(seed, &record).to_le_bytes());
    record.extend_from_slice(&payload);
    Ok(record)
}

fn encode_header(features: Features) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(&MAGIC);
    features.encode(&mut out);
    out.resize(HEADER_BYTES - 4, 0);
    let checksum = seeded(SEED, &out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Checks the header of a manifest.
pub(crate) fn decode_header(contents: &[u8]) -> Result<Features> {
    let damaged = |what: &str| Error::corruption(what).at_offset(0);
    let Some((covered, checksum)) = contents
        .get(..HEADER_BYTES)
        .and_then(|header| header.split_last_chunk::<4>())
    else {
        return Err(damaged("expected a manifest, found a file too short"));
    };
    let mut reader = ByteReader::new(covered);
    if reader.take(MAGIC.len(), "magic")? != MAGIC {
        return Err(damaged("expected a manifest, found something else"));
    }
    if !agree(u32::from_le_bytes(*checksum), seeded(SEED, covered)) {
        return Err(damaged("the header's checksum is wrong"));
    }
    let features = Features::decode(&mut reader)?;
    features
        .check_readable("the manifest", VERSION, 0)
        .map_err(|e| e.at_offset(0))?;
    Ok(features)
}

/// The bytes of a manifest with a single snapshot.
pub(crate) fn bytes_of(snapshot: &Edit) -> Result<Vec<u8>> {
    let mut bytes = encode_header(Features::plain(VERSION));
    bytes.extend_from_slice(&encode_record(snapshot, HEADER_BYTES as u64)?);
    Ok(bytes)
}

/// Writes a manifest under its temporary name and makes its bytes durable.
fn write_new(
    storage: &dyn Storage,
    dir: &Path,
    snapshot: &Edit,
) -> Result<Box<dyn SequentialWrite>> {
    let path = dir.join(NEW_FILE_NAME);
    let bytes = bytes_of(snapshot)?;
    let write = || {
        // A crash may have left a temporary file.
        match storage.remove(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = storage.create(&path)?;
        file.write(&bytes)?;
        file.sync()?;
        Ok(file)
    };
    write().map_err(|e| Error::io("write", &path, e))
}

/// Replaces the manifest by the new one, durably.
fn put_in_place(storage: &dyn Storage, dir: &Path) -> Result<()> {
    let path = dir.join(FILE_NAME);
    storage
        .rename(&dir.join(NEW_FILE_NAME), &path)
        .and_then(|()| storage.sync_dir(dir))
        .map_err(|e| Error::io("replace", &path, e))
}

#[cfg(test)]
mod tests;
