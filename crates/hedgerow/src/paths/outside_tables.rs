//! Tables outside of a database: written by programs, exported, and taken in as one commit.
//!
//! Such a table is block-based, has sorted keys, each once, and no filter. Its number, keyspace and
//! partition are 0. A database seals the pages of its tables with their numbers and hashes keys
//! with a seed of each keyspace. So ingesting writes the entries anew, as a bulk load does, and
//! commits like one: the file stays as it is, and may be ingested by any keyspace with sorted keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_io::{Clock, OsClock, OsStorage, ReadMode, Storage};

use crate::base::durable::sync_dir;
use crate::base::entry::{KeyHash, SeqNo, Tag, check_key, check_stored};
use crate::base::error::{Error, Result};
use crate::base::expiry;
use crate::base::expiry::Expiry;
use crate::base::key_order;
use crate::base::key_order::Order;
use crate::base::options::{Compression, Design, KeyOrder};
use crate::base::page::{PageSource, TableId};
use crate::base::range_tombstones::RangeTombstones;
use crate::paths::bulk_load::{BulkLoad, BulkLoadReport, LoadOp, out_of_order};
use crate::paths::scan::{Cursor, Scan};
use crate::table::format;
use crate::table::iter::{Entry, InternalIter, ValueSource};
use crate::table::page_io::FilePages;
use crate::table::table_file;
use crate::table::table_file::ResidencyChoice;
use crate::table::{Reader, TableOptions, Writer};
use crate::tree::engine::{Engine, KeyspaceState};
use crate::tree::partition::ends::End;

/// The number of every table outside of a database. Those inside have larger ones.
const OUTSIDE: TableId = TableId(0);

/// Writes a table outside of a database, for [`Keyspace::ingest`](crate::Keyspace::ingest).
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Layout, TableWriter};
///
/// let path = dir.path().join("squares.table");
/// let mut table = TableWriter::create(&path)?;
/// table.put(b"2", b"4")?;
/// table.put(b"3", b"9")?;
/// table.delete(b"4")?;
/// table.finish()?;
///
/// let db = Db::open(dir.path().join("db"))?;
/// let squares = db.keyspace("squares", Layout::sorted())?;
/// squares.ingest(&[path])?;
/// assert_eq!(squares.get(b"3")?.as_deref(), Some(&b"9"[..]));
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub struct TableWriter {
    writer: Box<dyn Writer>,
    path: PathBuf,
    last_key: Vec<u8>,
}

impl TableWriter {
    /// Begins a table in a new file.
    ///
    /// # Errors
    /// `Io` if the file exists; `NoSpace`.
    pub fn create(path: impl AsRef<Path>) -> Result<TableWriter> {
        let compression = Design::default().compression;
        TableWriter::create_on(&OsStorage::new(), path.as_ref(), compression)
    }

    /// Begins a table as [`TableWriter::create`] does, on any storage and with this compression.
    ///
    /// # Errors
    /// As [`TableWriter::create`].
    pub fn create_on(
        storage: &dyn Storage,
        path: &Path,
        compression: Compression,
    ) -> Result<TableWriter> {
        let file = storage.create(path);
        let file = file.map_err(|e| Error::io("create", path, e))?;
        let design = Design::default();
        let options = TableOptions {
            id: OUTSIDE,
            keyspace: 0,
            partition: 0,
            level: 0,
            run: 0,
            path: 0,
            hash_seed: 0,
            key_order: KeyOrder::Sorted,
            block_bytes: design.block_bytes,
            compression,
            table: design.table,
            index: design.index,
            seqno_override: None,
            settled: None,
            filter: None,
        };
        Ok(TableWriter {
            writer: format::writer(file, path, options),
            path: path.to_path_buf(),
            last_key: Vec::new(),
        })
    }

    /// Appends a key with its value.
    ///
    /// # Errors
    /// `InvalidArgument` for a key that is not above the one before; `NoSpace`, `Io`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Tag::PUT, value.as_ref())
    }

    /// Appends the delete of a key.
    ///
    /// # Errors
    /// As [`TableWriter::put`].
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Tag::DELETE, b"")
    }

    /// Appends a key with a value that expires.
    ///
    /// # Errors
    /// As [`TableWriter::put`].
    pub fn put_expiring(
        &mut self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expiry: Expiry,
    ) -> Result<()> {
        let at = expiry.time(|| OsClock::new().unix_millis());
        let (tag, stored) = expiry::stored(at, value.as_ref());
        self.add(key.as_ref(), tag, &stored)
    }

    /// Appends an operand of a key, for a keyspace with a merge operator.
    ///
    /// # Errors
    /// As [`TableWriter::put`].
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.add(key.as_ref(), Tag::MERGE, operand.as_ref())
    }

    fn add(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> Result<()> {
        check_stored(tag, value)?;
        check_key(key)?;
        if self.writer.entries() > 0 && key <= self.last_key.as_slice() {
            return Err(out_of_order(key, &self.last_key));
        }
        let entry = Entry {
            key,
            seqno: SeqNo(0),
            tag,
            value: ValueSource::Inline(value),
        };
        let added = self.writer.add(&entry, value, KeyHash::of(key, 0));
        added.map_err(|e| e.at(&self.path, None))?;
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        Ok(())
    }

    /// The bytes so far: about those of the file if it were finished now.
    pub fn bytes(&self) -> u64 {
        self.writer.estimated_bytes()
    }

    /// Ends the file and makes its bytes durable, not its name. Returns the number of entries.
    ///
    /// # Errors
    /// `InvalidArgument` if there are none; `NoSpace`, `Io`.
    pub fn finish(self) -> Result<u64> {
        if self.writer.entries() == 0 {
            let error = Error::invalid("expected a table with entries, found none");
            return Err(error.at(&self.path, None));
        }
        let finished = self.writer.finish(&RangeTombstones::default());
        let (meta, mut file) = finished.map_err(|e| e.at(&self.path, None))?;
        let synced = file.sync();
        synced.map_err(|e| Error::io("sync", &self.path, e))?;
        Ok(meta.entries)
    }
}

/// A user key, and what a table does to it.
type KeyAndOp = (Vec<u8>, LoadOp<Vec<u8>>);

/// The entries of one table file, in stored order: keys, each once, with their operations.
pub(crate) struct TableEntries {
    pages: Arc<FilePages>,
    reader: Arc<dyn Reader>,
    iter: Box<dyn InternalIter>,
    order: Box<dyn Order>,
    began: bool,
}

impl TableEntries {
    /// Opens the file of table `id`, whose keys have this order.
    pub(crate) fn open(
        storage: &dyn Storage,
        path: &Path,
        id: TableId,
        order: Box<dyn Order>,
    ) -> Result<TableEntries> {
        let file = storage.open(path, ReadMode::Pread);
        let file = file.map_err(|e| Error::io("open", path, e))?;
        let paged = ResidencyChoice {
            index_resident: false,
            filter_resident: false,
            places: false,
        };
        let reader = format::open(file.clone(), path, id, None, paged)?;
        let path = path.to_path_buf();
        let pages = Arc::new(FilePages { file, path });
        Ok(TableEntries {
            iter: reader.clone().iter(pages.clone()),
            pages,
            reader,
            order,
            began: false,
        })
    }

    /// Opens a table outside of the database and checks all of it. Cost: reads the table.
    fn open_outside(storage: &dyn Storage, path: &Path) -> Result<TableEntries> {
        let file = storage.open(path, ReadMode::Pread);
        let file = file.map_err(|e| Error::io("open", path, e))?;
        let (meta, footer) = table_file::read_meta(&*file, path)?;
        if meta.id != OUTSIDE || footer.key_order != KeyOrder::Sorted || meta.ranges.is_some() {
            let error = Error::invalid(format!(
                "expected a table of `TableWriter` or `export`, found table {} of a database",
                meta.id.0
            ));
            return Err(error.at(path, None));
        }
        let order = key_order::open(KeyOrder::Sorted, 0);
        let table = TableEntries::open(storage, path, OUTSIDE, order)?;
        table.reader.verify(&*table.pages)?;
        Ok(table)
    }

    fn step(&mut self) -> Result<Option<KeyAndOp>> {
        match std::mem::replace(&mut self.began, true) {
            false => self.iter.seek_first()?,
            true if self.iter.is_at_entry() => self.iter.advance()?,
            true => {}
        }
        let Some(entry) = self.iter.entry() else {
            return Ok(None);
        };
        let value = match entry.value {
            ValueSource::Inline(value) => value.to_vec(),
            ValueSource::OutOfLine { page, .. } => self.pages.page(page)?.to_vec(),
        };
        let op = match entry.tag {
            Tag::PUT => LoadOp::Put(value),
            Tag::PUT_EXPIRING => {
                let (at, value) = expiry::split(&value)?;
                LoadOp::PutExpiring(value.to_vec(), Expiry::of(Some(at)))
            }
            Tag::MERGE => LoadOp::Merge(value),
            Tag::DELETE => LoadOp::Delete,
            found => {
                let message = "expected a put, a delete or an operand, found";
                return Err(Error::invalid(format!("{message} {found:?}")));
            }
        };
        Ok(Some((self.order.decode(entry.key).to_vec(), op)))
    }
}

impl Iterator for TableEntries {
    type Item = Result<KeyAndOp>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step().map_err(|e| e.at(&self.pages.path, None));
        step.transpose()
    }
}

/// Takes in all entries of these tables by one commit. Cost: reads each table twice and writes it
/// once.
pub(crate) fn ingest(
    engine: &Arc<Engine>,
    state: &KeyspaceState,
    paths: &[impl AsRef<Path>],
) -> Result<BulkLoadReport> {
    state.facts.order.check_ranges()?;
    let storage = &*engine.environment.storage;
    let open = |path: &_| TableEntries::open_outside(storage, AsRef::as_ref(path));
    let mut tables = paths.iter().map(open).collect::<Result<Vec<_>>>()?;
    tables.sort_by_cached_key(|table| table.reader.meta().smallest_key.clone());
    let mut load = BulkLoad::begin(engine, state)?;
    for mut table in tables {
        // A key of two tables, and tables that overlap, are refused by their order.
        let loaded = table.try_for_each(|entry| {
            let (key, op) = entry?;
            load.apply(&key, &op)
        });
        loaded.map_err(|e| e.at(&table.pages.path, None))?;
    }
    load.finish()
}

/// Writes entries with their expiry to tables in a directory, each of about `table_bytes` bytes,
/// and makes their names durable. Returns the files in the order of keys.
pub(crate) fn export(
    storage: &dyn Storage,
    mut entries: Scan,
    dir: &Path,
    table_bytes: u64,
) -> Result<Vec<PathBuf>> {
    let created = storage.create_dir_all(dir);
    created.map_err(|e| Error::io("create", dir, e))?;
    let (mut paths, mut current): (Vec<PathBuf>, Option<TableWriter>) = (Vec::new(), None);
    while let Some(entry) = entries.advance(End::First, Cursor::expiring_pair) {
        let ((key, value), expires) = entry?;
        if let Some(full) = current.take_if(|table| table.bytes() >= table_bytes) {
            full.finish()?;
        }
        let table = match &mut current {
            Some(table) => table,
            None => {
                let path = dir.join(format!("{:06}.table", paths.len() + 1));
                let table = TableWriter::create_on(storage, &path, Design::default().compression)?;
                paths.push(path);
                current.insert(table)
            }
        };
        let (tag, stored) = expiry::stored(expires, &value);
        table.add(&key, tag, &stored)?;
    }
    if let Some(last) = current {
        last.finish()?;
    }
    sync_dir(storage, dir)?;
    Ok(paths)
}
