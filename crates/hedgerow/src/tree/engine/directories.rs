//! The directories of an open database.

use std::path::{Path, PathBuf};

use crate::base::table_meta::TableMeta;
use crate::table::open::table_name;
use crate::tree::partition::tables_dir;
use crate::tree::version::places::Places;

/// The directories of an open database.
pub(crate) struct Directories {
    /// The directory that it is opened by.
    pub(crate) root: PathBuf,
    /// The places of its files beside the root.
    pub(crate) places: Places,
}

impl Directories {
    /// The directory of a place.
    pub(crate) fn place(&self, place: u8) -> PathBuf {
        self.places.dir(&self.root, place)
    }

    /// The directory of log segments.
    pub(crate) fn log(&self) -> PathBuf {
        log_dir(&self.places.log_root(&self.root))
    }

    /// The directory of the tables of a place.
    pub(crate) fn tables(&self, place: u8) -> PathBuf {
        tables_dir(&self.place(place))
    }

    /// The path of a table's file.
    pub(crate) fn table(&self, meta: &TableMeta) -> PathBuf {
        self.tables(meta.path).join(table_name(meta.id))
    }
}

/// The directory of log segments under the directory of the log's place.
pub(crate) fn log_dir(root: &Path) -> PathBuf {
    root.join("log")
}
