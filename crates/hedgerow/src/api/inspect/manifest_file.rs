//! The manifest: its records, and the state that they amount to.

use std::path::{Path, PathBuf};

use hedgerow_io::Storage;

use super::change;
use super::change::Edit;
use crate::base::error::{Error, ErrorKind, Result};
use crate::tree::version::manifest;
use crate::tree::version::manifest::{FILE_NAME, HEADER_BYTES};
use crate::tree::version::state::State;

/// The contents of a manifest.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Manifest {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The records in order, the first one a snapshot. A damaged record, or an edit that does not
    /// fit the ones before it, is an error with its offset.
    pub records: Vec<Result<ManifestRecord>>,
    /// The changes that lead from nothing to the final state; `None` after any error.
    pub state: Option<Edit>,
    /// The offset of trailing bytes that are no record: a crash of the process or the machine
    /// interrupted this edit, so it never happened.
    pub torn: Option<u64>,
}

/// One record of a manifest.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ManifestRecord {
    /// Its offset in the file.
    pub offset: u64,
    /// Its size.
    pub bytes: u64,
    /// The changes that happened together.
    pub edit: Edit,
}

/// Reads the manifest of the database in `dir`. Cost: reads the file, and holds it in memory.
///
/// # Errors
/// `Io` if no manifest can be read, `FormatVersion` if a later version wrote it. Damage is reported
/// in the result.
pub fn manifest(storage: &dyn Storage, dir: &Path) -> Result<Manifest> {
    let path = dir.join(FILE_NAME);
    let contents = manifest::read(storage, &path).map_err(|e| Error::io("read", &path, e))?;
    let mut walk = Walk {
        path: &path,
        records: Vec::new(),
        state: Some(State::default()),
    };
    match manifest::decode_header(&contents) {
        Err(error) if error.kind() == ErrorKind::FormatVersion => return Err(error.at(&path, None)),
        header => header.map_or_else(|error| walk.damaged(error), drop),
    }
    let mut end = HEADER_BYTES.min(contents.len());
    loop {
        for record in manifest::records(&contents, end) {
            end = record.end();
            walk.record(&record);
        }
        let Some(next) = manifest::next_record(&contents, end) else {
            break;
        };
        walk.damaged(manifest::skipped(end, next));
        end = next;
    }
    if walk.records.is_empty() {
        walk.damaged(Error::corruption("the snapshot is damaged").at_offset(end as u64));
    }
    Ok(Manifest {
        bytes: contents.len() as u64,
        records: walk.records,
        state: walk.state.map(|state| change::edit(&state.snapshot())),
        torn: (end < contents.len()).then_some(end as u64),
        path,
    })
}

struct Walk<'a> {
    path: &'a Path,
    records: Vec<Result<ManifestRecord>>,
    state: Option<State>,
}

impl Walk<'_> {
    fn damaged(&mut self, error: Error) {
        self.records.push(Err(error.at(self.path, None)));
        self.state = None;
    }

    fn record(&mut self, record: &manifest::Record<'_>) {
        let offset = record.offset as u64;
        let edit = match record.edit() {
            Ok(edit) => edit,
            Err(error) => return self.damaged(error),
        };
        let applied = match &mut self.state {
            Some(state) => edit.iter().try_for_each(|change| state.apply(change)),
            None => Ok(()),
        };
        self.records.push(Ok(ManifestRecord {
            offset,
            bytes: (record.end() - record.offset) as u64,
            edit: change::edit(&edit),
        }));
        if let Err(error) = applied {
            self.damaged(error.at_offset(offset));
        }
    }
}
