//! The files of a database at one moment, for a copy of it, also while a process has it open.
//!
//! The tables are held open, so that they can be read when the writer has removed them. The log is
//! not held: its writer reuses segments. Whoever copies it asks afterwards if it was still there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::{RandomRead, ReadMode};

use crate::base::error::{Error, Result};
use crate::table::Table;
use crate::table::open::table_name;
use crate::tree::engine::{Engine, log_dir};
use crate::tree::partition::tables_dir;
use crate::tree::version::manifest;
use crate::tree::wal::log::segment_name;

use super::survey::Survey;
use super::{OpenOptions, assemble, beside};

/// The files that make up a database at one moment; see
/// [`Builder::files`](crate::Builder::files).
pub struct DatabaseFiles {
    engine: Arc<Engine>,
    survey: Survey,
    /// The bytes of the manifest of a copy. It has all files in one directory, so a copy of a
    /// database with [`LevelPaths`](crate::LevelPaths) is without them.
    pub manifest: Vec<u8>,
    /// The tables. They stay readable as long as this lives, unless the limit on open files closed
    /// them.
    pub tables: Vec<DatabaseFile>,
    /// The segments of the log, up to the last commit.
    pub log: Vec<DatabaseFile>,
    /// The sequence number of the last write.
    pub last: u64,
}

/// A file of a database, open for reading.
pub struct DatabaseFile {
    /// The path in the directory of a copy.
    pub path: PathBuf,
    /// The bytes to copy, from the first.
    pub bytes: u64,
    /// The file.
    pub file: Arc<dyn RandomRead>,
    table: Option<Arc<Table>>,
}

impl DatabaseFile {
    /// Reads all of a table and checks every page and every invariant. A segment of the log has
    /// been checked.
    ///
    /// # Errors
    /// `Corruption` with the place, `Io`.
    pub fn check(&self) -> Result<()> {
        self.table.as_ref().map_or(Ok(()), |table| table.verify())
    }
}

impl DatabaseFiles {
    /// Returns normally if no segment of the log was reused so far: what was read of the log is
    /// what was there.
    ///
    /// # Errors
    /// `Io` with the source `NotFound`: then begin again.
    pub fn check_log(&self) -> Result<()> {
        let storage = &*self.engine.environment.storage;
        self.survey.check_there(storage)
    }
}

/// Finds the files. Cost: reads the manifest and the log, opens every table.
pub(crate) fn find(dir: &Path, options: &OpenOptions) -> Result<DatabaseFiles> {
    let storage = &*options.environment.storage;
    beside::read(dir, options, |state, survey| {
        let mut copy = state.clone();
        copy.gather();
        let manifest = manifest::bytes_of(&copy.snapshot())?;
        let places = state.places.clone();
        let engine = assemble(dir, options, state, survey, places, None)?;
        engine.catalog.load().hold_tables()?;
        let mut tables = Vec::new();
        for partition in engine.catalog.load().partitions.values() {
            for (_, table) in partition.tree().version.tables() {
                tables.push(DatabaseFile {
                    path: tables_dir(Path::new("")).join(table_name(table.meta().id)),
                    bytes: table.meta().file_bytes,
                    file: table.pages().file()?.clone(),
                    table: Some(table.clone()),
                });
            }
        }
        let segment = |&number: &u32| {
            let path = survey.segment_path(number);
            // A copy has no commit that the database can lose.
            let synced = storage.sync_file(&path);
            synced.map_err(|e| Error::io("sync", &path, e))?;
            let file = storage.open(&path, ReadMode::Pread);
            let file = file.map_err(|e| Error::io("open", &path, e))?;
            Ok(DatabaseFile {
                path: log_dir(Path::new("")).join(segment_name(number)),
                bytes: match number == survey.end.segment {
                    true => survey.end.offset.into(),
                    false => file.bytes(),
                },
                file,
                table: None,
            })
        };
        Ok(DatabaseFiles {
            manifest,
            tables,
            log: survey.segments.iter().map(segment).collect::<Result<_>>()?,
            last: survey.last.0,
            survey: survey.clone(),
            engine,
        })
    })
}
