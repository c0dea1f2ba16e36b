//! A whole copy of a database over any transport: [`send`] writes it to a writer of bytes,
//! [`receive`] makes a directory of it.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let [db_dir, copy] = ["db", "copy"].map(|it| dir.path().join(it));
//! use hedgerow::{Db, Layout};
//! use hedgerow_copies::transfer;
//!
//! let db = Db::open(&db_dir)?;
//! db.keyspace("users", Layout::sorted())?.put(b"ada", b"1815")?;
//!
//! // The database stays open and in use, in this process or another.
//! let mut bytes = Vec::new();
//! transfer::send(&Db::builder(&db_dir), &mut bytes, |_| true)?;
//! transfer::receive(&mut bytes.as_slice(), &copy, |_| true)?;
//! let copied = Db::open(&copy)?.existing_keyspace("users").expect("it was copied");
//! assert_eq!(copied.get(b"ada")?.as_deref(), Some(&b"1815"[..]));
//! # Ok::<(), hedgerow::Error>(())
//! ```
//!
//! | bytes | |
//! |---|---|
//! | 8 | `HGCOPY01` |
//! | 8 | the number of the last commit |
//! | 8 | the bytes of all files |
//! | 8 | the checksum of these 24 bytes (XXH3) |
//! | | files: manifest, segments of the log, tables |
//! | 2 | zero |
//!
//! A file is the length of its path (2 bytes), the path, its size (8), its bytes, and a checksum
//! (8): that of the path, the size and the checksum of the bytes. Numbers are little-endian. The
//! log is sent before the tables, since its writer reuses segments.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use hedgerow::io::Environment;
use hedgerow::{Builder, Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3;

use crate::backup::stream::{Progress, Stream, checksum};
use crate::backup::{SUBDIRECTORIES, is_inside};

const MAGIC: &[u8; 8] = b"HGCOPY01";
const MANIFEST: &str = "MANIFEST";
/// The name of the manifest until all files are durable.
const RECEIVED_MANIFEST: &str = "MANIFEST.received";
/// The bytes that are received before they are written.
const PIECE_BYTES: u64 = 1 << 20;

fn failed(doing: &str) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| Error::io(doing, Path::new("the transport"), error)
}

/// Writes a copy of a database as it is now. Any process may have it open. Every table is checked
/// before it is sent. Returns the number of the last commit that the copy has. `go_on` receives the
/// progress, and ends the work by returning false.
/// Cost: reads the database twice.
///
/// # Errors
/// `Corruption` of the database; `Cancelled`; `Io` of the output, or with the source `NotFound` if
/// a writer removed a file meanwhile: begin again then. As [`Builder::files`].
pub fn send(
    db: &Builder,
    out: &mut impl Write,
    mut go_on: impl FnMut(Progress) -> bool,
) -> Result<u64> {
    let found = db.files()?;
    let files = found.log.iter().chain(&found.tables);
    let total_bytes = files.map(|file| file.bytes).sum::<u64>() + found.manifest.len() as u64;
    let environment = Environment::os();
    let mut stream = Stream::new(&*environment.clock, None, total_bytes, &mut go_on);
    let send = failed("send a copy");
    out.write_all(&head(found.last, total_bytes))
        .map_err(&send)?;
    let head = file_head(Path::new(MANIFEST), found.manifest.len() as u64);
    out.write_all(&head).map_err(&send)?;
    out.write_all(&found.manifest).map_err(&send)?;
    let sum = file_checksum(&head, checksum(&found.manifest));
    out.write_all(&sum).map_err(&send)?;
    for (place, file) in found.log.iter().chain(&found.tables).enumerate() {
        if place == found.log.len() {
            found.check_log()?;
        }
        file.check()?;
        let head = file_head(&file.path, file.bytes);
        out.write_all(&head).map_err(&send)?;
        let sum = stream.read(&*file.file, &file.path, file.bytes, |bytes| {
            out.write_all(bytes).map_err(&send)
        })?;
        out.write_all(&file_checksum(&head, sum)).map_err(&send)?;
    }
    if found.tables.is_empty() {
        found.check_log()?;
    }
    out.write_all(&[0, 0]).map_err(&send)?;
    out.flush().map_err(&send)?;
    Ok(found.last)
}

fn head(last: u64, total_bytes: u64) -> Vec<u8> {
    let mut head = [&MAGIC[..], &last.to_le_bytes(), &total_bytes.to_le_bytes()].concat();
    let sum = checksum(&head);
    head.extend(sum.to_le_bytes());
    head
}

fn file_head(path: &Path, bytes: u64) -> Vec<u8> {
    let path = path.to_string_lossy();
    let length = (path.len() as u16).to_le_bytes();
    [&length[..], path.as_bytes(), &bytes.to_le_bytes()].concat()
}

fn file_checksum(head: &[u8], sum_of_bytes: u64) -> [u8; 8] {
    checksum(&[head, &sum_of_bytes.to_le_bytes()].concat()).to_le_bytes()
}

/// Makes a database of a copy that was sent, in a directory that has no files, durably. Returns the
/// number of the last commit. The manifest gets its name when everything else is durable, so a copy
/// that ends early leaves files that no open takes for a database: remove the directory.
/// Cost: writes the database.
///
/// # Errors
/// `InvalidArgument` if there are files; `Corruption` of the bytes, `Cancelled`, `NoSpace`, `Io`.
pub fn receive(
    input: &mut impl Read,
    dir: impl AsRef<Path>,
    mut go_on: impl FnMut(Progress) -> bool,
) -> Result<u64> {
    let (dir, environment) = (dir.as_ref(), Environment::os());
    let storage = &*environment.storage;
    let dirs = SUBDIRECTORIES.map(|it| dir.join(it));
    for made in &dirs {
        let created = storage.create_dir_all(made);
        created.map_err(|e| Error::io("create", made, e))?;
        let files = storage.list(made);
        if let Some(file) = files.map_err(|e| Error::io("list", made, e))?.first() {
            let (dir, file) = (dir.display(), &file.name);
            let message = format!("expected no files in {dir}, found {file}");
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
    }
    let magic: [u8; 8] = bytes(input)?;
    if magic != *MAGIC {
        let found = magic.escape_ascii();
        return Err(damaged(&format!("expected a copy, found `{found}`")));
    }
    let last = u64::from_le_bytes(bytes(input)?);
    let total_bytes = u64::from_le_bytes(bytes(input)?);
    let sum: [u8; 8] = bytes(input)?;
    if !head(last, total_bytes).ends_with(&sum) {
        return Err(damaged("expected the head of a copy, found other bytes"));
    }
    let mut progress = Progress {
        total_bytes,
        ..Progress::default()
    };
    while let Some(path) = next_path(input)? {
        let size = u64::from_le_bytes(bytes(input)?);
        receive_file(input, storage, (dir, &path, size), &mut |count| {
            progress.done_bytes += count;
            match go_on(progress) {
                true => Ok(()),
                false => Err(Error::new(
                    ErrorKind::Cancelled,
                    "the copy was ended by its receiver",
                )),
            }
        })?;
    }
    let sync = |made: &Path| {
        let synced = storage.sync_dir(made);
        synced.map_err(|e| Error::io("sync", made, e))
    };
    dirs[1..].iter().try_for_each(|made| sync(made))?;
    let (received, manifest) = (dir.join(RECEIVED_MANIFEST), dir.join(MANIFEST));
    let renamed = storage.rename(&received, &manifest);
    renamed.map_err(|e| Error::io("rename", &received, e))?;
    sync(dir)?;
    Ok(last)
}

fn receive_file(
    input: &mut impl Read,
    storage: &dyn hedgerow::io::Storage,
    (dir, name, size): (&Path, &Path, u64),
    received: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let path = dir.join(match name == Path::new(MANIFEST) {
        true => Path::new(RECEIVED_MANIFEST),
        false => name,
    });
    let failed_file = |e| Error::io("write", &path, e);
    let mut writer = storage.create(&path).map_err(failed_file)?;
    let (mut left, mut sum) = (size, Xxh3::new());
    let mut piece = Vec::new();
    while left > 0 {
        piece.clear();
        let wanted = left.min(PIECE_BYTES);
        let read = input.by_ref().take(wanted).read_to_end(&mut piece);
        read.map_err(failed("receive a copy"))?;
        if piece.len() as u64 != wanted {
            return Err(damaged("expected the rest of a file, found the end"));
        }
        sum.update(&piece);
        writer.write(&piece).map_err(failed_file)?;
        left -= wanted;
        received(wanted)?;
    }
    let expected: [u8; 8] = bytes(input)?;
    if file_checksum(&file_head(name, size), sum.digest()) != expected {
        return Err(damaged(&format!(
            "expected {} with its checksum, found other bytes",
            path.display()
        )));
    }
    writer.sync().map_err(failed_file)
}

/// The path of the next file; `None` behind the last one.
fn next_path(input: &mut impl Read) -> Result<Option<PathBuf>> {
    let length = u16::from_le_bytes(bytes(input)?);
    let mut path = Vec::new();
    let read = input.by_ref().take(length.into()).read_to_end(&mut path);
    read.map_err(failed("receive a copy"))?;
    let path = PathBuf::from(String::from_utf8_lossy(&path).into_owned());
    if length == 0 {
        return Ok(None);
    }
    if !is_inside(&path) {
        let found = path.display();
        return Err(damaged(&format!(
            "expected a file of a database, found {found}"
        )));
    }
    Ok(Some(path))
}

fn bytes<const N: usize>(input: &mut impl Read) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match input.read_exact(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            Err(damaged("expected the rest of a copy, found its end"))
        }
        Err(error) => Err(failed("receive a copy")(error)),
    }
}

fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Corruption, message)
}
