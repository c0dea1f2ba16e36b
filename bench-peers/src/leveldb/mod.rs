//! LevelDB, through its C interface, from the system's `libleveldb-dev`.

mod ffi;
mod stats;

use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;
use std::{fs, ptr, thread};

use hedgerow_bench::{Counters, Description, OpenOptions, Result, Store};
use serde_json::{Value, json};

use crate::c_api;
use crate::shares::{self, Shares};
use stats::Levels;

/// Write buffers that exist at most: one that fills, one that is flushed.
const WRITE_BUFFERS: u64 = 2;
/// Fewer and larger files than the default of 2 MiB, as `options.h` advises for larger data.
const FILE_BYTES_MAX: usize = 8 << 20;
/// Files whose index and filter stay in memory. Each costs what the shares count for it.
const OPEN_FILES_MAX: c_int = 10_000;

/// An open database.
///
/// The pointers are valid and not null from `open` to `drop`. That is what the comments on unsafe
/// blocks call *ours*; *lent* is what comes from a slice that outlives the call.
#[derive(Debug)]
pub(crate) struct LevelDb {
    db: *mut ffi::Db,
    cache: *mut ffi::Cache,
    filter: *mut ffi::FilterPolicy,
    read: *mut ffi::ReadOptions,
    write: *mut ffi::WriteOptions,
    settings: Value,
}

// SAFETY: `leveldb/db.h`: a database may be used from any threads at once; options, cache and
// filter are only read by us.
unsafe impl Send for LevelDb {}
// SAFETY: as above.
unsafe impl Sync for LevelDb {}

impl LevelDb {
    /// Opens or creates the database.
    ///
    /// # Errors
    /// What LevelDB says, and options that it does not have.
    pub(crate) fn open(options: &OpenOptions) -> Result<LevelDb> {
        if options.fresh && options.dir.exists() {
            fs::remove_dir_all(&options.dir)?;
        }
        if shares::is_compressed(options)? {
            return Err("expected no compression: LevelDB has no LZ4".into());
        }
        let shares = Shares::of(options)?;
        let write_buffer = usize::try_from(shares.memtables / WRITE_BUFFERS)?;
        let cache_bytes = usize::try_from(shares.cache)?;
        let bits = shares::filter_bits(options).map(|bits| bits.round() as c_int);
        // SAFETY: takes a number.
        let cache = unsafe { ffi::leveldb_cache_create_lru(cache_bytes) };
        let filter = match bits {
            // SAFETY: takes a number.
            Some(bits) => unsafe { ffi::leveldb_filterpolicy_create_bloom(bits) },
            None => ptr::null_mut(),
        };
        // SAFETY: takes nothing.
        let read = unsafe { ffi::leveldb_readoptions_create() };
        // SAFETY: takes nothing.
        let write = unsafe { ffi::leveldb_writeoptions_create() };
        // SAFETY: just made.
        unsafe { ffi::leveldb_writeoptions_set_sync(write, options.sync.into()) };
        let mut store = LevelDb {
            // From here on `drop` frees what there is.
            db: ptr::null_mut(),
            cache,
            filter,
            read,
            write,
            settings: json!({
                "write_buffer_size": write_buffer,
                "write_buffers_max": WRITE_BUFFERS,
                "block_cache_bytes": cache_bytes,
                "bloom_bits_per_key": bits,
                "block_size": options.design.block_bytes,
                "max_file_size": FILE_BYTES_MAX,
                "max_open_files": OPEN_FILES_MAX,
                "compression": "none",
                "reads": "maps the first 1000 files, past its block cache",
            }),
        };
        store.db = open(options, &store, write_buffer)?;
        Ok(store)
    }

    fn levels(&self) -> Levels {
        let name: &CStr = c"leveldb.stats";
        // SAFETY: ours; the name ends with a zero.
        let text = unsafe { ffi::leveldb_property_value(self.db, name.as_ptr()) };
        // SAFETY: the library allocated it for us.
        let text = unsafe { c_api::take_string(text, ffi::leveldb_free) };
        Levels::parse(&text.unwrap_or_default())
    }

    /// Compacting a range first flushes the memtable and waits for that; of a range without keys,
    /// nothing else.
    fn flush(&self) {
        let beyond = [0xff_u8; 64];
        let at = beyond.as_ptr().cast();
        // SAFETY: ours, the bounds are lent.
        unsafe { ffi::leveldb_compact_range(self.db, at, beyond.len(), at, beyond.len()) };
    }

    fn memory_usage(&self) -> Option<u64> {
        let name: &CStr = c"leveldb.approximate-memory-usage";
        // SAFETY: ours; the name ends with a zero.
        let text = unsafe { ffi::leveldb_property_value(self.db, name.as_ptr()) };
        // SAFETY: the library allocated it for us.
        unsafe { c_api::take_string(text, ffi::leveldb_free) }?
            .parse()
            .ok()
    }
}

/// Opens a database with the cache and the filter of a store.
fn open(options: &OpenOptions, store: &LevelDb, write_buffer: usize) -> Result<*mut ffi::Db> {
    let path = c_api::path(&options.dir)?;
    let mut error = ptr::null_mut();
    // SAFETY: takes nothing.
    let set = unsafe { ffi::leveldb_options_create() };
    // SAFETY: just made.
    unsafe { ffi::leveldb_options_set_create_if_missing(set, 1) };
    // SAFETY: just made; the cache is freed after the database.
    unsafe { ffi::leveldb_options_set_cache(set, store.cache) };
    // SAFETY: just made; the filter is freed after the database, or null, which means none.
    unsafe { ffi::leveldb_options_set_filter_policy(set, store.filter) };
    // SAFETY: just made.
    unsafe { ffi::leveldb_options_set_write_buffer_size(set, write_buffer) };
    // SAFETY: just made.
    unsafe { ffi::leveldb_options_set_block_size(set, options.design.block_bytes as usize) };
    // SAFETY: just made.
    unsafe { ffi::leveldb_options_set_max_file_size(set, FILE_BYTES_MAX) };
    // SAFETY: just made.
    unsafe { ffi::leveldb_options_set_max_open_files(set, OPEN_FILES_MAX) };
    // SAFETY: just made.
    unsafe { ffi::leveldb_options_set_compression(set, ffi::NO_COMPRESSION) };
    // SAFETY: just made, the path ends with a zero.
    let db = unsafe { ffi::leveldb_open(set, path.as_ptr(), &mut error) };
    // SAFETY: just made, not used again; the database has a copy.
    unsafe { ffi::leveldb_options_destroy(set) };
    check(error)?;
    Ok(db)
}

fn check(error: *mut c_char) -> Result<()> {
    // SAFETY: null or written by a call of this library just before.
    unsafe { c_api::check(error, ffi::leveldb_free) }
        .map_err(|message| format!("leveldb: {message}").into())
}

/// A value that LevelDB has allocated for us, or nothing.
struct Allocated {
    bytes: *mut c_char,
    length: usize,
}

impl Allocated {
    fn value(&self) -> Option<&[u8]> {
        if self.bytes.is_null() {
            return None;
        }
        // SAFETY: LevelDB gave this pointer with this length; freed only by `drop`.
        Some(unsafe { c_api::lend(self.bytes, self.length) })
    }
}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: null or given by LevelDB, not freed yet, not used again.
        unsafe { ffi::leveldb_free(self.bytes.cast()) };
    }
}

/// A batch that is freed when dropped.
struct Batch(*mut ffi::WriteBatch);

impl Batch {
    fn of(entries: &[(Vec<u8>, Vec<u8>)]) -> Batch {
        // SAFETY: takes nothing.
        let batch = Batch(unsafe { ffi::leveldb_writebatch_create() });
        for (key, value) in entries {
            let (key_at, value_at) = (key.as_ptr().cast(), value.as_ptr().cast());
            // SAFETY: the batch lives, key and value are lent and copied.
            unsafe {
                ffi::leveldb_writebatch_put(batch.0, key_at, key.len(), value_at, value.len());
            }
        }
        batch
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: made by `of`, not used again.
        unsafe { ffi::leveldb_writebatch_destroy(self.0) };
    }
}

/// An iterator that is freed when dropped.
struct Iterator(*mut ffi::Iterator);

impl Iterator {
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        // SAFETY: the iterator lives.
        if unsafe { ffi::leveldb_iter_valid(self.0) } == 0 {
            return None;
        }
        let (mut key_length, mut value_length) = (0, 0);
        // SAFETY: the iterator lives and is valid.
        let key = unsafe { ffi::leveldb_iter_key(self.0, &mut key_length) };
        // SAFETY: the iterator lives and is valid.
        let value = unsafe { ffi::leveldb_iter_value(self.0, &mut value_length) };
        // SAFETY: valid until the iterator moves, for which it must not be borrowed.
        let key = unsafe { c_api::lend(key, key_length) };
        // SAFETY: as for the key.
        let value = unsafe { c_api::lend(value, value_length) };
        Some((key, value))
    }

    fn advance(&mut self) {
        // SAFETY: the iterator lives, and is valid since an entry was just read.
        unsafe { ffi::leveldb_iter_next(self.0) };
    }

    fn check(&self) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the iterator lives.
        unsafe { ffi::leveldb_iter_get_error(self.0, &mut error) };
        check(error)
    }
}

impl Drop for Iterator {
    fn drop(&mut self) {
        // SAFETY: not freed yet, not used again; the database is still open.
        unsafe { ffi::leveldb_iter_destroy(self.0) };
    }
}

impl Store for LevelDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut error = ptr::null_mut();
        // SAFETY: database and options are ours, key and value lent.
        unsafe {
            ffi::leveldb_put(
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
        unsafe { ffi::leveldb_delete(self.db, self.write, key_at, key.len(), &mut error) };
        check(error)
    }

    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        let batch = Batch::of(entries);
        let mut error = ptr::null_mut();
        // SAFETY: database and options are ours, the batch lives.
        unsafe { ffi::leveldb_write(self.db, self.write, batch.0, &mut error) };
        check(error)
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let (mut length, mut error) = (0, ptr::null_mut());
        let key_at = key.as_ptr().cast();
        // SAFETY: database and options are ours, the key is lent.
        let bytes = unsafe {
            ffi::leveldb_get(
                self.db,
                self.read,
                key_at,
                key.len(),
                &mut length,
                &mut error,
            )
        };
        let allocated = Allocated { bytes, length };
        check(error)?;
        let value = allocated.value();
        if let Some(value) = value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        // SAFETY: database and options are ours.
        let mut at = Iterator(unsafe { ffi::leveldb_create_iterator(self.db, self.read) });
        // SAFETY: the iterator lives, the key is lent.
        unsafe { ffi::leveldb_iter_seek(at.0, from.as_ptr().cast(), from.len()) };
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
        self.flush();
        // One merge ends before the next begins, so a moment without work may be between two.
        let mut quiet = 0;
        while quiet < 10 {
            quiet = if self.levels().is_full() {
                0
            } else {
                quiet + 1
            };
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn counters(&self) -> Counters {
        let levels = self.levels();
        let memory = self.memory_usage();
        Counters {
            flush_bytes: Some(levels.flush_bytes()),
            merge_read_bytes: Some(levels.merge_read_bytes()),
            merge_write_bytes: Some(levels.merge_write_bytes()),
            table_bytes: Some(levels.table_bytes()),
            memory: memory
                .map(|bytes| ("memtables_and_block_cache", bytes))
                .into_iter()
                .collect(),
            ..Counters::default()
        }
    }

    fn describe(&self) -> Description {
        // SAFETY: takes nothing.
        let major = unsafe { ffi::leveldb_major_version() };
        // SAFETY: takes nothing.
        let minor = unsafe { ffi::leveldb_minor_version() };
        Description {
            name: "leveldb".to_owned(),
            version: format!("{major}.{minor}"),
            settings: self.settings.clone(),
        }
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        if !self.db.is_null() {
            // SAFETY: ours, not used again; nothing borrowed from it is left.
            unsafe { ffi::leveldb_close(self.db) };
        }
        // SAFETY: ours, not used again; the database that used it is closed.
        unsafe { ffi::leveldb_cache_destroy(self.cache) };
        if !self.filter.is_null() {
            // SAFETY: as the cache.
            unsafe { ffi::leveldb_filterpolicy_destroy(self.filter) };
        }
        // SAFETY: ours, not used again.
        unsafe { ffi::leveldb_readoptions_destroy(self.read) };
        // SAFETY: ours, not used again.
        unsafe { ffi::leveldb_writeoptions_destroy(self.write) };
    }
}
