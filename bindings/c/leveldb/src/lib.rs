//! LevelDB's C interface, the 68 functions of `leveldb/c.h`, over Hedgerow.
//!
//! A database of this library is a Hedgerow database with one keyspace, `default`, of sorted keys.
//! The pointers that C code holds are handles: one that was freed, or never given, is an error, or
//! nothing happens where LevelDB has no way to report one. No panic leaves the library.
//!
//! Differences from LevelDB:
//! * The files are Hedgerow's. The library refuses a directory with a database of LevelDB.
//! * A comparator must order keys as `memcmp` does; others are refused when a database is opened.
//! * A Bloom filter has at most 32 bits per key; more count as 32.
//! * A filter policy of the program's own is never called; the first one causes a line on stderr.
//! * `max_open_files`, `paranoid_checks`, `block_restart_interval`, `verify_checksums` and
//!   `fill_cache` have no effect: Hedgerow verifies every page that it reads.
//! * A key has at most 65,536 bytes.
//! * A cache larger than the machine's memory counts as that.
//! * An iterator whose database was closed keeps its key, and reports an error when it moves.
//!
//! As in LevelDB, no call can be interrupted while it waits.
#![allow(
    non_camel_case_types,
    reason = "the names are those of LevelDB's C interface"
)]

pub mod batch;
mod calls;
pub mod database;
pub mod iterator;
pub mod objects;
pub mod options;
mod properties;

use std::ffi::{c_int, c_void};

/// The version of LevelDB whose interface this is.
const VERSION: (c_int, c_int) = (1, 23);

/// Frees memory that this library returned.
///
/// # Safety
/// `pointer` is NULL or was returned by this library as memory to free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_free(pointer: *mut c_void) {
    // SAFETY: such memory comes from `malloc`.
    unsafe { libc::free(pointer) };
}

/// The major version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    VERSION.0
}

/// The minor version of LevelDB whose interface this is.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    VERSION.1
}
