//! The source that is a file.

#![allow(
    clippy::disallowed_methods,
    reason = "a file of the user, which is no part of a database"
)]

use std::fs::File as OsFile;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use data_encoding::HEXLOWER;
use hedgerow::{Error, ErrorKind, Result};
use serde_json::{Value as Json, json};

use super::directory::database;
use super::{Item, Part, Source};
use crate::rdb::file::{self, File, Position};

/// See the module.
pub(super) struct RdbFile {
    path: PathBuf,
    file: File<OsFile>,
    identity: Json,
    bytes: u64,
    /// The end was read.
    ended: bool,
}

impl RdbFile {
    pub(super) fn open(path: &Path) -> Result<RdbFile> {
        let failed = |error| Error::io("read", path, error);
        let mut file = OsFile::open(path).map_err(failed)?;
        let facts = file.metadata().map_err(failed)?;
        let modified = facts.modified().map_err(failed)?;
        let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        // The checksum, if the file has one.
        let mut end = Vec::new();
        let tail = facts.len().min(8);
        file.seek(SeekFrom::End(-(tail as i64))).map_err(failed)?;
        file.read_to_end(&mut end).map_err(failed)?;
        file.rewind().map_err(failed)?;
        Ok(RdbFile {
            path: path.to_owned(),
            file: File::begin(file).map_err(|failure| told(path, failure))?,
            identity: json!({
                "bytes": facts.len(),
                "end": HEXLOWER.encode(&end),
                "modified_ns": modified.as_nanos() as u64,
            }),
            bytes: facts.len(),
            ended: false,
        })
    }
}

fn told(path: &Path, failure: file::Failure) -> Error {
    let of_kind = |kind, text| Error::new(kind, format!("{}: {text}", path.display()));
    match failure {
        file::Failure::Io(error) => Error::io("read", path, error),
        file::Failure::Damaged(text) => of_kind(ErrorKind::Corruption, text),
        file::Failure::Unsupported(text) => of_kind(ErrorKind::Unsupported, text),
    }
}

impl Source for RdbFile {
    fn identity(&self) -> Json {
        self.identity.clone()
    }

    fn resume(&mut self, position: &Json) -> Result<()> {
        let number = |name: &str| position[name].as_u64();
        let (Some(offset), Some(sum), Some(version), Some(db)) = (
            number("offset"),
            number("sum"),
            number("version"),
            number("db"),
        ) else {
            return Ok(());
        };
        let failed = |error| Error::io("read", &self.path, error);
        let mut file = OsFile::open(&self.path).map_err(failed)?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        let position = Position {
            offset,
            sum,
            version,
            db,
        };
        self.file = File::at(file, position);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Part>> {
        if self.ended {
            return Ok(None);
        }
        let part = self
            .file
            .next()
            .map_err(|failure| told(&self.path, failure))?;
        Ok(Some(match part {
            file::Part::End => {
                self.ended = true;
                return Ok(None);
            }
            file::Part::Library(text) => Part::Library(text),
            file::Part::Key(key) => Part::Key(Item {
                db: database(key.db)?,
                key: key.key,
                expires: key.expires,
                value: key.value,
            }),
        }))
    }

    fn position(&self) -> Json {
        let at = self.file.position();
        json!({"offset": at.offset, "sum": at.sum, "version": at.version, "db": at.db})
    }

    fn steps(&self) -> (u64, u64) {
        (self.file.position().offset, self.bytes)
    }
}
