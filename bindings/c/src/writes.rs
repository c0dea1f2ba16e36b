//! Writes of single keys and of ranges.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;

use engine::{Durability, ErrorKind, Keyspace, Slice};
use hedgerow_bindings::foreign::{IfAny, MallocCopy, Out};
use hedgerow_bindings::{Failure, Held};

use crate::keyspace::range;
use crate::operator::Made;
use crate::options::{NOTHING, VALUE};
use crate::progress::wait_for_memory;
use crate::types::hg_code::*;
use crate::types::{
    call, durability, expiry, hg_buffer, hg_bytes, hg_code, hg_error, hg_keyspace, keyspace,
};

/// The keyspace of a handle for a write. If the write would wait for a flush, waits for it before;
/// the progress function of the thread may end that.
fn for_writing(handle: *mut hg_keyspace) -> Result<Held<Keyspace>, Failure> {
    let keyspace = keyspace(handle)?;
    wait_for_memory(&*keyspace, Keyspace::writes_wait, Keyspace::wait_for_memory)?;
    Ok(keyspace)
}

/// Puts a value.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_put(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    value: hg_bytes,
    how: c_int,
    error: *mut hg_error,
) -> hg_code {
    let put = |(key, value): (&[u8], &[u8])| {
        Ok(for_writing(handle)?.put_with(key, value, durability(how)?)?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value), put) }
}

/// Puts a value that expires.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_put_expiring(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    value: hg_bytes,
    meaning: c_int,
    millis: u64,
    how: c_int,
    error: *mut hg_error,
) -> hg_code {
    let put = |(key, value): (&[u8], &[u8])| {
        let expiry = expiry(meaning, millis)?;
        Ok(for_writing(handle)?.put_expiring_with(key, value, expiry, durability(how)?)?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value), put) }
}

/// Changes the time when a key expires.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_set_expiry(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    meaning: c_int,
    millis: u64,
    error: *mut hg_error,
) -> hg_code {
    let set = |key: &[u8]| Ok(for_writing(handle)?.set_expiry(key, expiry(meaning, millis)?)?);
    // SAFETY: the caller's promise.
    unsafe { call(error, key, set) }
}

/// Deletes a key.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_delete(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    how: c_int,
    error: *mut hg_error,
) -> hg_code {
    let delete = |key: &[u8]| Ok(for_writing(handle)?.delete_with(key, durability(how)?)?);
    // SAFETY: the caller's promise.
    unsafe { call(error, key, delete) }
}

/// Changes a value by the operator that the layout names.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_merge(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    operand: hg_bytes,
    how: c_int,
    error: *mut hg_error,
) -> hg_code {
    let merge = |(key, operand): (&[u8], &[u8])| {
        Ok(for_writing(handle)?.merge_with(key, operand, durability(how)?)?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, operand), merge) }
}

/// Deletes a range of keys.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_delete_range(
    handle: *mut hg_keyspace,
    from: hg_bytes,
    to: hg_bytes,
    how: c_int,
    error: *mut hg_error,
) -> hg_code {
    let delete = |keys: (&'static [u8], &'static [u8])| {
        let range = range((from, keys.0), (to, keys.1));
        Ok(for_writing(handle)?.delete_range_with::<&[u8]>(range, durability(how)?)?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (from, to), delete) }
}

/// Deletes all keys with a prefix.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_delete_prefix(
    handle: *mut hg_keyspace,
    prefix: hg_bytes,
    how: c_int,
    error: *mut hg_error,
) -> hg_code {
    let delete = |key: &[u8]| Ok(for_writing(handle)?.delete_prefix_with(key, durability(how)?)?);
    // SAFETY: the caller's promise.
    unsafe { call(error, prefix, delete) }
}

/// Replaces a value if it is the expected one.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_compare_and_swap(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    expected: *const hg_bytes,
    replacement: *const hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    type Maybe = Option<&'static [u8]>;
    let swap = |(key, expected, new): (&[u8], Maybe, Maybe)| {
        Ok(
            match for_writing(handle)?.compare_and_swap(key, expected, new)? {
                true => HG_OK,
                false => HG_CONFLICT,
            },
        )
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, IfAny(expected), IfAny(replacement)), swap) }
}

/// Makes the new value of a key of its old one, which is NULL if it has none.
pub type hg_new_value =
    Option<unsafe extern "C" fn(*mut c_void, *const hg_bytes, *mut hg_buffer) -> c_int>;

/// Replaces a value by the one that a function makes of it.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_update(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    new_value: hg_new_value,
    state: *mut c_void,
    how: c_int,
    error: *mut hg_error,
) -> hg_code {
    let update = |key: &[u8]| {
        let keyspace = for_writing(handle)?;
        let none = || Failure::invalid("expected a function, found NULL");
        let new_value = new_value.ok_or_else(none)?;
        let make = |old: Option<&[u8]>| {
            let old = old.map(hg_bytes::of);
            let old = old.as_ref().map_or(null(), std::ptr::from_ref);
            let mut made = Made::new();
            // SAFETY: the program gave function and state together. All arguments live until it
            // ends.
            match unsafe { new_value(state, old, &raw mut made.0) } {
                VALUE => made.copied().map(Some),
                NOTHING => Ok(None),
                answer => {
                    let message = format!("the function of the update returned {answer}");
                    Err(Failure::new(ErrorKind::Cancelled, message))
                }
            }
        };
        keyspace.try_update_with(key, make, durability(how)?)?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, key, update) }
}

// ---- the first and the last entry ----

/// The places of an entry: its key and the key's length, its value and the value's length.
type Places = (Out<*mut c_char>, Out<usize>, Out<*mut c_char>, Out<usize>);

type Entry = (Slice, Slice);

fn pop(
    handle: *mut hg_keyspace,
    how: c_int,
    (key, key_len, value, value_len): Places,
    take: fn(&Keyspace, Durability) -> engine::Result<Option<Entry>>,
) -> Result<bool, Failure> {
    let Some(found) = take(&*for_writing(handle)?, durability(how)?)? else {
        return Ok(false);
    };
    let copied = |bytes: &Slice| {
        MallocCopy::of(bytes).map_err(|failure| failure.after("the entry was removed"))
    };
    let copies = (copied(&found.0)?, copied(&found.1)?);
    key.set(copies.0.give());
    key_len.set(found.0.len());
    value.set(copies.1.give());
    value_len.set(found.1.len());
    Ok(true)
}

/// Removes the first entry and writes its key and its value to new memory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_pop_first(
    handle: *mut hg_keyspace,
    how: c_int,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut hg_error,
) -> hg_code {
    let pop = |places| pop(handle, how, places, Keyspace::pop_first_with);
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, key_len, value, value_len), pop) }
}

/// Removes the last entry and writes its key and its value to new memory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_pop_last(
    handle: *mut hg_keyspace,
    how: c_int,
    key: *mut *mut c_char,
    key_len: *mut usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut hg_error,
) -> hg_code {
    let pop = |places| pop(handle, how, places, Keyspace::pop_last_with);
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, key_len, value, value_len), pop) }
}
