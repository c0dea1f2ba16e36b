//! The names of files that a repair moves.

use std::io;
use std::path::Path;

use hedgerow_io::{ReadMode, Storage};

use crate::base::error::{Error, Result};
use crate::paths::recover::files_in;

/// The bytes of two files that are compared at once.
const COMPARED_BYTES: usize = 64 << 10;

/// The names of the files in a directory, which may be missing.
pub(super) fn names(storage: &dyn Storage, dir: &Path) -> Result<Vec<String>> {
    let files = files_in(storage, dir)?.into_iter();
    Ok(files.map(|file| file.name).collect())
}

pub(super) fn rename(storage: &dyn Storage, from: &Path, to: &Path) -> Result<()> {
    let renamed = storage.rename(from, to);
    renamed.map_err(|e| Error::io("rename", from, e))
}

/// Removes a file that a repair which was stopped may have left.
pub(super) fn remove_left(storage: &dyn Storage, path: &Path) -> Result<()> {
    match storage.remove(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}

/// A name that is not taken: an earlier repair may have kept a file of it.
pub(super) fn free_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let copies = (1..).map(|copy| format!("{name}.{copy}"));
    let mut names = std::iter::once(name.to_owned()).chain(copies);
    names
        .find(|name| !is_taken(name))
        .expect("there is a name for every number")
}

/// Returns true if a file begins with all bytes of another.
pub(super) fn begins_with(storage: &dyn Storage, file: &Path, front: &Path) -> io::Result<bool> {
    let file = storage.open(file, ReadMode::Pread)?;
    let front = storage.open(front, ReadMode::Pread)?;
    if file.bytes() < front.bytes() {
        return Ok(false);
    }
    let mut buffers = [vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]];
    for offset in (0..front.bytes()).step_by(COMPARED_BYTES) {
        let count = COMPARED_BYTES.min((front.bytes() - offset) as usize);
        let [ours, theirs] = buffers.each_mut().map(|it| &mut it[..count]);
        file.read_at(offset, ours)?;
        front.read_at(offset, theirs)?;
        if ours != theirs {
            return Ok(false);
        }
    }
    Ok(true)
}
