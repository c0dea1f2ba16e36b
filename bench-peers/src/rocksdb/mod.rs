//! RocksDB, through its C interface.
//!
//! The library that is linked is the one that `fetch-rocksdb` fetches, or another that `build.rs`
//! is told of; which one runs is read from the options that it writes into its directory.

mod ffi;
mod settings;
mod stats;
mod transactions;

pub(crate) use transactions::Transactions;

use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, ptr, thread};

use hedgerow_bench::{Counters, Description, OpenOptions, Result, Store, cpu_time_of_threads};

use crate::c_api;
use settings::InForce;

/// An open database with one column family.
///
/// The pointers are valid and not null from `open` to `drop`. That is what the comments on unsafe
/// blocks call *ours*; *lent* is what comes from a slice that outlives the call.
#[derive(Debug)]
pub(crate) struct RocksDb {
    db: *mut ffi::Db,
    column_family: *mut ffi::ColumnFamily,
    read: *mut ffi::ReadOptions,
    write: *mut ffi::WriteOptions,
    in_force: InForce,
}

// SAFETY: `rocksdb/db.h`: all methods of a database may be called from any threads at once; the
// options are only read.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    /// Opens or creates the database; `overrides` are options of RocksDB (`name=value;…`) that go
    /// before ours.
    ///
    /// # Errors
    /// What RocksDB says, and a memory budget without room for its parts.
    pub(crate) fn open(options: &OpenOptions, overrides: &str) -> Result<RocksDb> {
        if options.fresh && options.dir.exists() {
            fs::remove_dir_all(&options.dir)?;
        }
        let text = settings::options(options, overrides)?;
        let (db, column_family) = open(&options.dir, &text)?;
        // SAFETY: takes nothing.
        let read = unsafe { ffi::rocksdb_readoptions_create() };
        // SAFETY: takes nothing.
        let write = unsafe { ffi::rocksdb_writeoptions_create() };
        // SAFETY: just made.
        unsafe { ffi::rocksdb_writeoptions_set_sync(write, options.sync.into()) };
        let mut store = RocksDb {
            db,
            column_family,
            read,
            write,
            in_force: InForce::default(),
        };
        store.in_force = InForce::read(&options_file(&options.dir)?, text)?;
        Ok(store)
    }

    fn number(&self, property: &CStr) -> Option<u64> {
        let mut value = 0;
        // SAFETY: ours; the name ends with a zero.
        let failed = unsafe { ffi::rocksdb_property_int(self.db, property.as_ptr(), &mut value) };
        (failed == 0).then_some(value)
    }

    fn text(&self, property: &CStr) -> String {
        // SAFETY: ours; the name ends with a zero.
        let text = unsafe { ffi::rocksdb_property_value(self.db, property.as_ptr()) };
        // SAFETY: the library allocated it for us.
        unsafe { c_api::take_string(text, ffi::rocksdb_free) }.unwrap_or_default()
    }

    fn is_any(&self, signs: &[&CStr]) -> bool {
        signs.iter().any(|sign| self.number(sign) != Some(0))
    }

    fn flush(&self) -> Result<()> {
        // SAFETY: takes nothing; by default it waits for the flush.
        let options = unsafe { ffi::rocksdb_flushoptions_create() };
        let mut error = ptr::null_mut();
        // SAFETY: ours and just made.
        unsafe { ffi::rocksdb_flush(self.db, options, &mut error) };
        // SAFETY: just made, and not used again.
        unsafe { ffi::rocksdb_flushoptions_destroy(options) };
        check(error)
    }
}

const RUNNING: [&CStr; 2] = [
    c"rocksdb.num-running-flushes",
    c"rocksdb.num-running-compactions",
];
const PENDING: [&CStr; 2] = [
    c"rocksdb.mem-table-flush-pending",
    c"rocksdb.compaction-pending",
];

/// Opens a database with the column family that every database has, whose handle the batched
/// multi-get asks for.
fn open(dir: &Path, text: &str) -> Result<(*mut ffi::Db, *mut ffi::ColumnFamily)> {
    let options = Options::parse(text)?;
    let path = c_api::path(dir)?;
    let name = c"default".as_ptr();
    let mut column_family = ptr::null_mut();
    let mut error = ptr::null_mut();
    // SAFETY: one name, one set of options, one handle; all live through the call, which copies.
    let db = unsafe {
        ffi::rocksdb_open_column_families(
            options.0,
            path.as_ptr(),
            1,
            &name,
            &options.0.cast_const(),
            &mut column_family,
            &mut error,
        )
    };
    check(error)?;
    Ok((db, column_family))
}

/// Options that are freed when dropped; an open database has a copy.
struct Options(*mut ffi::Options);

impl Options {
    fn new() -> Options {
        // SAFETY: takes nothing.
        Options(unsafe { ffi::rocksdb_options_create() })
    }

    fn parse(text: &str) -> Result<Options> {
        let (base, options) = (Options::new(), Options::new());
        let text = CString::new(text)?;
        let mut error = ptr::null_mut();
        // SAFETY: both live, the text ends with a zero.
        unsafe {
            ffi::rocksdb_get_options_from_string(base.0, text.as_ptr(), options.0, &mut error);
        }
        check(error)?;
        Ok(options)
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: made by `new`, not used again.
        unsafe { ffi::rocksdb_options_destroy(self.0) };
    }
}

fn check(error: *mut c_char) -> Result<()> {
    // SAFETY: null or written by a call of this library just before.
    unsafe { c_api::check(error, ffi::rocksdb_free) }
        .map_err(|message| format!("rocksdb: {message}").into())
}

/// The newest of the files in which RocksDB writes down its version and options.
fn options_file(dir: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("OPTIONS-") {
            found.push(entry.path());
        }
    }
    let newest = found.into_iter().max();
    newest.ok_or_else(|| format!("expected a file of options in {}", dir.display()).into())
}

/// The version of the library that has opened a database.
pub(crate) fn version(dir: &Path) -> Result<String> {
    Ok(InForce::read(&options_file(dir)?, String::new())?.version)
}

/// A value that is pinned in the block cache, or nothing.
struct Pinned(*mut ffi::PinnableSlice);

impl Pinned {
    fn value(&self) -> Option<&[u8]> {
        if self.0.is_null() {
            return None;
        }
        let mut length = 0;
        // SAFETY: not null, so a slice that is freed only by `drop`.
        let bytes = unsafe { ffi::rocksdb_pinnableslice_value(self.0, &mut length) };
        // SAFETY: the library pins them until `drop`, and `self` is borrowed.
        Some(unsafe { c_api::lend(bytes, length) })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: not freed yet, not used again.
            unsafe { ffi::rocksdb_pinnableslice_destroy(self.0) };
        }
    }
}

/// A batch that is freed when dropped.
struct Batch(*mut ffi::WriteBatch);

impl Batch {
    fn of(entries: &[(Vec<u8>, Vec<u8>)]) -> Batch {
        // SAFETY: takes nothing.
        let batch = Batch(unsafe { ffi::rocksdb_writebatch_create() });
        for (key, value) in entries {
            let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: the batch lives, key and value are lent and copied.
            unsafe {
                ffi::rocksdb_writebatch_put(batch.0, key_at, key.len(), value_at, value.len());
            }
        }
        batch
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: made by `of`, not used again.
        unsafe { ffi::rocksdb_writebatch_destroy(self.0) };
    }
}

/// An iterator that is freed when dropped.
struct Iterator(*mut ffi::Iterator);

impl Iterator {
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        // SAFETY: the iterator lives.
        if unsafe { ffi::rocksdb_iter_valid(self.0) } == 0 {
            return None;
        }
        let (mut key_length, mut value_length) = (0, 0);
        // SAFETY: the iterator lives and is valid.
        let key = unsafe { ffi::rocksdb_iter_key(self.0, &mut key_length) };
        // SAFETY: the iterator lives and is valid.
        let value = unsafe { ffi::rocksdb_iter_value(self.0, &mut value_length) };
        // SAFETY: valid until the iterator moves, for which it must not be borrowed.
        let key = unsafe { c_api::lend(key, key_length) };
        // SAFETY: as for the key.
        let value = unsafe { c_api::lend(value, value_length) };
        Some((key, value))
    }

    fn advance(&mut self) {
        // SAFETY: the iterator lives, and is valid since an entry was just read.
        unsafe { ffi::rocksdb_iter_next(self.0) };
    }

    fn check(&self) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the iterator lives.
        unsafe { ffi::rocksdb_iter_get_error(self.0, &mut error) };
        check(error)
    }
}

impl Drop for Iterator {
    fn drop(&mut self) {
        // SAFETY: not freed yet, not used again; the database is still open.
        unsafe { ffi::rocksdb_iter_destroy(self.0) };
    }
}

impl Store for RocksDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: database and options are ours, key and value lent.
        unsafe {
            ffi::rocksdb_put(
                self.db,
                self.write,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
        check(error)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut error = ptr::null_mut();
        let key_at = key.as_ptr().cast();
        // SAFETY: database and options are ours, the key is lent.
        unsafe { ffi::rocksdb_delete(self.db, self.write, key_at, key.len(), &mut error) };
        check(error)
    }

    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let batch = Batch::of(entries);
        let mut error = ptr::null_mut();
        // SAFETY: database and options are ours, the batch lives.
        unsafe { ffi::rocksdb_write(self.db, self.write, batch.0, &mut error) };
        check(error)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut error = ptr::null_mut();
        let key_at = key.as_ptr().cast();
        // SAFETY: database and options are ours, the key is lent.
        let pinned = Pinned(unsafe {
            ffi::rocksdb_get_pinned(self.db, self.read, key_at, key.len(), &mut error)
        });
        check(error)?;
        let value = pinned.value();
        if let Some(value) = value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&self, keys: &[Vec<u8>], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let at: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lengths: Vec<usize> = keys.iter().map(Vec::len).collect();
        let mut values = vec![ptr::null_mut(); keys.len()];
        let mut errors = vec![ptr::null_mut(); keys.len()];
        // SAFETY: database, column family and options are ours, the keys lent; four arrays of one
        // length, of which the last two are written.
        unsafe {
            ffi::rocksdb_batched_multi_get_cf(
                self.db,
                self.read,
                self.column_family,
                keys.len(),
                at.as_ptr(),
                lengths.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
        }
        let values: Vec<Pinned> = values.into_iter().map(Pinned).collect();
        errors.into_iter().map(check).fold(Ok(()), Result::and)?;
        for (i, pinned) in values.iter().enumerate() {
            if let Some(value) = pinned.value() {
                found(i, value);
            }
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        // SAFETY: database and options are ours.
        let mut at = Iterator(unsafe { ffi::rocksdb_create_iterator(self.db, self.read) });
        // SAFETY: the iterator lives, the key is lent.
        unsafe { ffi::rocksdb_iter_seek(at.0, from.as_ptr().cast(), from.len()) };
        for left in (0..limit).rev() {
            let Some((key, value)) = at.entry() else {
                break;
            };
            found(key, value);
            if left > 0 {
                at.advance();
            }
        }
        at.check()
    }

    fn settle(&self) -> Result<()> {
        self.flush()?;
        // Twice in a row, since one job is counted out before the next that it makes is counted in.
        // And a second is enough if nothing runs: universal compaction calls merges pending that
        // it never picks.
        let (mut quiet, mut idle) = (0, 0);
        while quiet < 2 && idle < 100 {
            let runs = self.is_any(&RUNNING);
            let is_busy = runs || self.is_any(&PENDING);
            quiet = if is_busy { 0 } else { quiet + 1 };
            idle = if runs { 0 } else { idle + 1 };
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let family = stats::Family::parse(&self.text(c"rocksdb.cfstats-no-file-histogram"));
        let memory = [
            ("memtables", c"rocksdb.size-all-mem-tables"),
            ("page_cache", c"rocksdb.block-cache-usage"),
            ("indexes_and_filters", c"rocksdb.estimate-table-readers-mem"),
        ];
        Counters {
            log_bytes: stats::log_bytes(&self.text(c"rocksdb.dbstats")),
            flush_bytes: family.flush_bytes,
            merge_read_bytes: family.merge_read_bytes,
            merge_write_bytes: family.merge_write_bytes,
            // Flushes have threads of high priority, merges those of low; they stay for the next
            // store.
            flush_cpu: cpu_time_of_threads("rocksdb:high"),
            merge_cpu: cpu_time_of_threads("rocksdb:low"),
            table_bytes: self.number(c"rocksdb.total-sst-files-size"),
            memory: memory
                .into_iter()
                .filter_map(|(part, property)| Some((part, self.number(property)?)))
                .collect(),
            ..Counters::default()
        }
    }

    fn describe(&self) -> Description {
        Description {
            name: "rocksdb".to_owned(),
            version: self.in_force.version.clone(),
            settings: self.in_force.settings.clone(),
        }
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: ours, not used again; before the database, as `rocksdb/db.h` asks.
        unsafe { ffi::rocksdb_column_family_handle_destroy(self.column_family) };
        // SAFETY: ours, not used again; nothing borrowed from it is left.
        unsafe { ffi::rocksdb_close(self.db) };
        // SAFETY: ours, not used again.
        unsafe { ffi::rocksdb_readoptions_destroy(self.read) };
        // SAFETY: ours, not used again.
        unsafe { ffi::rocksdb_writeoptions_destroy(self.write) };
    }
}
