//! Iterators over the keys of a database.

use std::ffi::c_char;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use engine::{Cursor, Result};
use hedgerow_bindings::foreign::{Bytes, Foreign, Optional};
use hedgerow_bindings::{Failure, Handles, opaque, run};

use crate::calls::{call, number, pointer, report, status};
use crate::database::{DATABASES, SNAPSHOTS, leveldb_t};
use crate::options::{leveldb_readoptions_t, lock, snapshot_of};

static ITERATORS: Handles<Mutex<Position>> = Handles::new(10, "iterator");

opaque!(leveldb_iterator_t);

/// A cursor, and the failure of its last move or of its making.
struct Position {
    cursor: std::result::Result<Cursor, Failure>,
    failure: Option<Failure>,
}

impl Position {
    fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref().ok().filter(|_| self.failure.is_none())
    }
}

/// Makes an iterator over the present, or over the snapshot of the options. It has no position. If
/// it cannot be made, it reports the error.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_iterator(
    db: *mut leveldb_t,
    options: *const leveldb_readoptions_t,
) -> *mut leveldb_iterator_t {
    let cursor = run(|| {
        let database = DATABASES.get(number(db))?;
        let keyspace = &database.keyspace;
        Ok(match snapshot_of(options)? {
            0 => keyspace.cursor()?,
            snapshot => SNAPSHOTS.get(snapshot)?.cursor(keyspace)?,
        })
    });
    let position = Mutex::new(Position {
        cursor,
        failure: None,
    });
    pointer(run(|| ITERATORS.insert(position)).ok())
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_destroy(iterator: *mut leveldb_iterator_t) {
    drop(ITERATORS.free(number(iterator)));
}

/// Returns 1 if the iterator is on a key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_valid(iterator: *const leveldb_iterator_t) -> u8 {
    let valid = run(|| {
        let iterator = ITERATORS.get(number(iterator))?;
        let position = lock(&iterator);
        Ok(position
            .cursor()
            .is_some_and(|cursor| cursor.key().is_some()))
    });
    u8::from(valid.unwrap_or(false))
}

/// Moves an iterator; keeps the failure, if it fails.
fn go<E: Into<Failure>>(
    iterator: *mut leveldb_iterator_t,
    to: impl FnOnce(&mut Cursor) -> std::result::Result<bool, E>,
) {
    drop(run(|| {
        let iterator = ITERATORS.get(number(iterator))?;
        let mut position = lock(&iterator);
        if let Ok(cursor) = &mut position.cursor {
            position.failure = run(|| to(cursor).map_err(Into::into)).err();
        }
        Ok(())
    }));
}

/// Moves to the first key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_first(iterator: *mut leveldb_iterator_t) {
    go(iterator, Cursor::seek_first);
}

/// Moves to the last key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_last(iterator: *mut leveldb_iterator_t) {
    go(iterator, Cursor::seek_last);
}

/// Moves to the first key at or after `k`. NULL with a length is an error of the iterator.
///
/// # Safety
/// The key can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek(
    iterator: *mut leveldb_iterator_t,
    k: *const c_char,
    klen: usize,
) {
    let seek = |cursor: &mut Cursor| -> std::result::Result<bool, Failure> {
        // SAFETY: the caller's promise.
        let key = unsafe { Bytes(k.cast(), klen).here() }?;
        Ok(cursor.seek(key)?)
    };
    go(iterator, seek);
}

/// Moves to the next key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_next(iterator: *mut leveldb_iterator_t) {
    go(iterator, Cursor::next);
}

/// Moves to the key before.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_prev(iterator: *mut leveldb_iterator_t) {
    go(iterator, Cursor::prev);
}

/// The address of the key here, which stays until the iterator moves or is freed; NULL without a
/// position.
///
/// # Safety
/// `klen` is a place for the length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_key(
    iterator: *const leveldb_iterator_t,
    klen: *mut usize,
) -> *const c_char {
    let get = |cursor: &Cursor| Ok(cursor.key().map(Part::of));
    // SAFETY: the caller's promise.
    unsafe { part(iterator, klen, get) }
}

/// The address of the value here, as that of the key.
///
/// # Safety
/// `vlen` is a place for the length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_value(
    iterator: *const leveldb_iterator_t,
    vlen: *mut usize,
) -> *const c_char {
    let get = |cursor: &Cursor| Ok(cursor.value()?.map(Part::of));
    // SAFETY: the caller's promise.
    unsafe { part(iterator, vlen, get) }
}

/// The place of a key or a value.
struct Part(*const c_char, usize);

impl Part {
    fn of(bytes: &[u8]) -> Part {
        Part(bytes.as_ptr().cast(), bytes.len())
    }
}

/// # Safety
/// `len` is NULL or a place for the length.
unsafe fn part(
    iterator: *const leveldb_iterator_t,
    len: *mut usize,
    get: impl FnOnce(&Cursor) -> Result<Option<Part>>,
) -> *const c_char {
    let find = |len: Option<hedgerow_bindings::foreign::Out<usize>>| {
        let iterator = ITERATORS.get(number(iterator));
        let found = iterator.map(|iterator| {
            let mut position = lock(&iterator);
            let found = position.cursor().map(|cursor| run(|| Ok(get(cursor)?)));
            match found.unwrap_or(Ok(None)) {
                Ok(found) => found,
                Err(failure) => {
                    position.failure = Some(failure);
                    None
                }
            }
        });
        let Part(data, bytes) = found.ok().flatten().unwrap_or(Part(null(), 0));
        len.inspect(|len| len.set(bytes));
        Ok(data)
    };
    // SAFETY: the caller's promise.
    unsafe { call(null_mut(), Optional(len), find) }.unwrap_or(null())
}

/// Stores the error of the iterator in `*errptr`, if it has one.
///
/// # Safety
/// `*errptr` is NULL or a message that this library returned.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_get_error(
    iterator: *const leveldb_iterator_t,
    errptr: *mut *mut c_char,
) {
    // If another thread has freed the iterator meanwhile, its cursor is dropped here.
    let failure = run(|| {
        let iterator = ITERATORS.get(number(iterator))?;
        let position = lock(&iterator);
        let of_making = position.cursor.as_ref().err();
        Ok(position.failure.as_ref().or(of_making).cloned())
    });
    if let Some(failure) = failure.unwrap_or_else(Some) {
        // SAFETY: the caller's promise.
        unsafe { report(errptr, &status(&failure)) };
    }
}
