//! Databases and snapshots.

use std::ffi::{c_char, c_int};
use std::ops::Bound;
use std::path::Path;
use std::ptr::null_mut;

use engine::{Db, Durability, Keyspace, Layout, Snapshot};
use hedgerow_bindings::foreign::{Bytes, Foreign, Items, MallocCopy, Out, Text};
use hedgerow_bindings::{Failure, Handles, opaque, repair, run};

use crate::batch::{Operations, leveldb_writebatch_t};
use crate::calls::{call, number, pointer};
use crate::options::{
    Options, is_synced, leveldb_options_t, leveldb_readoptions_t, leveldb_snapshot_t,
    leveldb_writeoptions_t, snapshot_of,
};
use crate::properties::property;

/// The keyspace with the entries of the database.
const KEYSPACE: &str = "default";
/// A directory with this file has a database of LevelDB.
const FILE_OF_LEVELDB: &str = "CURRENT";

pub(crate) static DATABASES: Handles<Database> = Handles::new(8, "database");
pub(crate) static SNAPSHOTS: Handles<Snapshot> = Handles::new(9, "snapshot");

opaque!(leveldb_t);

pub(crate) struct Database {
    pub(crate) db: Db,
    pub(crate) keyspace: Keyspace,
}

impl Database {
    fn open(options: &Options, path: &Path) -> Result<Database, Failure> {
        options.check_comparator()?;
        let exists = Db::exists(path)?;
        let (name, refuse) = (path.display(), |message| Err(Failure::invalid(message)));
        if !exists && path.join(FILE_OF_LEVELDB).exists() {
            return refuse(format!(
                "{name}: expected a database of Hedgerow, found one of LevelDB"
            ));
        }
        if !exists && !options.create_if_missing {
            return refuse(format!(
                "{name}: does not exist (create_if_missing is false)"
            ));
        }
        if exists && options.error_if_exists {
            return refuse(format!("{name}: exists (error_if_exists is true)"));
        }
        let db = options.builder(path).open()?;
        let keyspace = db.keyspace_with(KEYSPACE, Layout::sorted(), options.design())?;
        Ok(Database { db, keyspace })
    }
}

/// Opens a database.
///
/// # Safety
/// `name` is a text. `*errptr` is NULL or a message that this library returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_open(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut leveldb_t {
    let open = |name: Text| {
        let database = Database::open(&Options::of(options)?, name.path()?)?;
        DATABASES.insert(database)
    };
    // SAFETY: the caller's promise.
    pointer(unsafe { call(errptr, name, open) })
}

/// Closes a database. Its iterators stay where they are, and report an error when they move.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_close(db: *mut leveldb_t) {
    // LevelDB reports no error here.
    drop(run(|| {
        let database = DATABASES.remove(number(db))?;
        Ok(database.db.clone().close()?)
    }));
}

fn durability(options: *const leveldb_writeoptions_t) -> Result<Durability, Failure> {
    Ok(match is_synced(options)? {
        true => Durability::Synced,
        false => Durability::Buffered,
    })
}

/// Puts a key and its value.
///
/// # Safety
/// Key and value can be read. `*errptr` is NULL or a message that this library returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_put(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: *mut *mut c_char,
) {
    let arguments = (Bytes(key.cast(), keylen), Bytes(val.cast(), vallen));
    let put = |(key, value): (&[u8], &[u8])| {
        let database = DATABASES.get(number(db))?;
        Ok(database
            .keyspace
            .put_with(key, value, durability(options)?)?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(errptr, arguments, put) };
}

/// Deletes a key.
///
/// # Safety
/// The key can be read. `*errptr` is NULL or a message that this library returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_delete(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    key: *const c_char,
    keylen: usize,
    errptr: *mut *mut c_char,
) {
    let delete = |key: &[u8]| {
        let database = DATABASES.get(number(db))?;
        Ok(database.keyspace.delete_with(key, durability(options)?)?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(errptr, Bytes(key.cast(), keylen), delete) };
}

/// Commits the operations of a batch together. The batch stays as it is.
///
/// # Safety
/// `*errptr` is NULL or a message that this library returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_write(
    db: *mut leveldb_t,
    options: *const leveldb_writeoptions_t,
    batch: *mut leveldb_writebatch_t,
    errptr: *mut *mut c_char,
) {
    let write = |()| {
        let database = DATABASES.get(number(db))?;
        let operations = Operations::of(batch)?;
        let mut batch = database.db.batch();
        for (key, value) in operations.iter() {
            match value {
                Some(value) => batch.put(&database.keyspace, key, value)?,
                None => batch.delete(&database.keyspace, key)?,
            };
        }
        Ok(batch.commit(durability(options)?)?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(errptr, (), write) };
}

/// Returns the value of a key in memory that the caller frees; NULL if it has none.
///
/// # Safety
/// The key can be read, `vallen` is a place for the length. `*errptr` is NULL or a message that
/// this library returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_get(
    db: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
    key: *const c_char,
    keylen: usize,
    vallen: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let get = |len: Out<usize>| {
        len.set(0);
        // SAFETY: the caller's promise.
        let key = unsafe { Bytes(key.cast(), keylen).here() }?;
        let database = DATABASES.get(number(db))?;
        let keyspace = &database.keyspace;
        let mut copied = Ok(null_mut());
        let mut copy = |value: &[u8]| {
            copied = MallocCopy::of(value).map(|copy| {
                len.set(value.len());
                copy.give()
            });
        };
        match snapshot_of(options)? {
            0 => {
                keyspace.visit_value(key, copy)?;
            }
            snapshot => {
                if let Some(value) = SNAPSHOTS.get(snapshot)?.get(keyspace, key)? {
                    copy(&value);
                }
            }
        }
        copied
    };
    // SAFETY: the caller's promise.
    unsafe { call(errptr, vallen, get) }.unwrap_or(null_mut())
}

/// Takes a snapshot of a database; NULL if it is closed.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_snapshot(db: *mut leveldb_t) -> *const leveldb_snapshot_t {
    let snapshot = run(|| SNAPSHOTS.insert(DATABASES.get(number(db))?.db.snapshot()?));
    pointer(snapshot.ok())
}

/// Releases a snapshot. Iterators over it keep what they see.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_release_snapshot(
    _db: *mut leveldb_t,
    snapshot: *const leveldb_snapshot_t,
) {
    drop(SNAPSHOTS.free(number(snapshot)));
}

/// Returns a property as a text that the caller frees; NULL if there is none of this name.
///
/// # Safety
/// `propname` is a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_property_value(
    db: *mut leveldb_t,
    propname: *const c_char,
) -> *mut c_char {
    let find = |name: Text| {
        let database = DATABASES.get(number(db))?;
        let found = property(&database, name.read()?);
        let copy = |text: String| Ok(MallocCopy::of(text.as_bytes())?.give());
        found.map_or(Ok(null_mut()), copy)
    };
    // SAFETY: the caller's promise.
    unsafe { call(null_mut(), propname, find) }.unwrap_or(null_mut())
}

/// Estimates the bytes of some ranges, each from its start to before its limit. A range that
/// cannot be read has 0.
///
/// # Safety
/// The arrays have `num_ranges` items, and the keys can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_approximate_sizes(
    db: *mut leveldb_t,
    num_ranges: c_int,
    range_start_key: *const *const c_char,
    range_start_key_len: *const usize,
    range_limit_key: *const *const c_char,
    range_limit_key_len: *const usize,
    sizes: *mut u64,
) {
    let count = usize::try_from(num_ranges).unwrap_or(0);
    let arrays = (
        Items(range_start_key, count),
        Items(range_start_key_len, count),
        Items(range_limit_key, count),
        Items(range_limit_key_len, count),
    );
    let fill = |sizes: Out<u64>| {
        for i in 0..count {
            // SAFETY: the caller's promise.
            unsafe { sizes.set_at(i, 0) };
        }
        // SAFETY: the caller's promise.
        let (starts, start_lens, limits, limit_lens) = unsafe { arrays.here() }?;
        let database = DATABASES.get(number(db))?;
        for i in 0..count {
            let range = (
                Bytes(starts[i].cast(), start_lens[i]),
                Bytes(limits[i].cast(), limit_lens[i]),
            );
            let estimate = |(start, limit): (&[u8], &[u8])| {
                Ok(database.keyspace.approximate_bytes(start..limit)?)
            };
            // SAFETY: the caller's promise.
            if let Some(bytes) = unsafe { call(null_mut(), range, estimate) } {
                // SAFETY: the caller's promise.
                unsafe { sizes.set_at(i, bytes) };
            }
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(null_mut(), sizes, fill) };
}

/// Merges a range of keys down. NULL as a start is the first key, NULL as a limit the last one.
///
/// # Safety
/// The keys can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_compact_range(
    db: *mut leveldb_t,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    let len = |key: *const c_char, len| if key.is_null() { 0 } else { len };
    let keys = (
        Bytes(start_key.cast(), len(start_key, start_key_len)),
        Bytes(limit_key.cast(), len(limit_key, limit_key_len)),
    );
    let compact = |(start, limit): (&[u8], &[u8])| {
        let start = match start_key.is_null() {
            true => Bound::Unbounded,
            false => Bound::Included(start),
        };
        let limit = match limit_key.is_null() {
            true => Bound::Unbounded,
            false => Bound::Included(limit),
        };
        let database = DATABASES.get(number(db))?;
        Ok(database.keyspace.compact::<&[u8]>((start, limit))?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(null_mut(), keys, compact) };
}

/// Removes the files of a database. A directory without one stays as it is.
///
/// # Safety
/// `name` is a text. `*errptr` is NULL or a message that this library returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_destroy_db(
    _options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    let destroy = |name: Text| {
        let path = name.path()?;
        if Db::exists(path)? {
            Db::destroy(path)?;
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(errptr, name, destroy) };
}

/// Rebuilds a damaged database of its tables and its log.
///
/// # Safety
/// `name` is a text. `*errptr` is NULL or a message that this library returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_repair_db(
    options: *const leveldb_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    let repair = |name: Text| {
        let builder = Options::of(options)?.builder(name.path()?);
        repair::of_one_keyspace(builder, KEYSPACE)?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(errptr, name, repair) };
}
