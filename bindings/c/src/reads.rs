//! Reads of keys, of the present or of a snapshot.

use std::ffi::{c_char, c_int, c_void};

use engine::{Expiry, Slice};
use hedgerow_bindings::foreign::{Buffer, Items, MallocCopy, Optional, Out, Room, pointer};
use hedgerow_bindings::{Failure, Held, explain, left};

use crate::database::give_text;
use crate::progress::Progress;
use crate::types::hg_code::*;
use crate::types::{
    PINNED, call, free, hg_bytes, hg_code, hg_error, hg_keyspace, hg_pinned, hg_snapshot, keyspace,
    snapshot,
};

/// Values that stay where they are until their handle is freed.
pub(crate) enum Pinned {
    One(Slice),
    Many(Vec<Option<Slice>>),
}

fn get(
    handle: *mut hg_keyspace,
    at: *const hg_snapshot,
    key: &[u8],
) -> Result<Option<Slice>, Failure> {
    let keyspace = keyspace(handle)?;
    Ok(match snapshot(at)? {
        None => keyspace.get(key)?,
        Some(snapshot) => snapshot.get(&keyspace, key)?,
    })
}

/// Calls `see` with the value of a key, if it has one.
#[inline]
fn visit(
    handle: *mut hg_keyspace,
    at: *const hg_snapshot,
    key: &[u8],
    see: impl FnOnce(&[u8]),
) -> Result<bool, Failure> {
    let keyspace = keyspace(handle)?;
    Ok(match snapshot(at)? {
        None => keyspace.visit_value(key, see)?,
        Some(snapshot) => {
            let value = snapshot.get(&keyspace, key)?;
            value.map(|value| see(&value)).is_some()
        }
    })
}

/// Writes a copy of a value to its place; the caller frees it.
#[inline]
pub(crate) fn give_copy(
    value: &[u8],
    place: &Out<*mut c_char>,
    len: &Out<usize>,
) -> Result<(), Failure> {
    place.set(MallocCopy::of(value)?.give());
    len.set(value.len());
    Ok(())
}

/// Writes the value of a key to new memory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_get(
    handle: *mut hg_keyspace,
    snapshot: *const hg_snapshot,
    key: hg_bytes,
    value: *mut *mut c_char,
    len: *mut usize,
    error: *mut hg_error,
) -> hg_code {
    let find = |(key, value, len): (&[u8], Out<*mut c_char>, Out<usize>)| {
        let mut copied = Ok(());
        let give = |found: &[u8]| copied = give_copy(found, &value, &len);
        let is_found = visit(handle, snapshot, key, give)?;
        copied.map(|()| is_found)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value, len), find) }
}

/// Writes the value of a key to a buffer.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_get_into(
    handle: *mut hg_keyspace,
    snapshot: *const hg_snapshot,
    key: hg_bytes,
    buffer: *mut c_void,
    capacity: usize,
    len: *mut usize,
    error: *mut hg_error,
) -> hg_code {
    let find = |(key, mut room, len): (&[u8], Room<'_>, Out<usize>)| {
        let mut has_room = true;
        let is_found = visit(handle, snapshot, key, |value| {
            len.set(value.len());
            has_room = room.push(value);
        })?;
        Ok(match (is_found, has_room) {
            (false, _) => HG_NOT_FOUND,
            (true, false) => HG_BUFFER_TOO_SMALL,
            (true, true) => HG_OK,
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, Buffer(buffer, capacity), len), find) }
}

/// Writes the address of the value of a key, without a copy if it is long.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_get_pinned(
    handle: *mut hg_keyspace,
    snapshot: *const hg_snapshot,
    key: hg_bytes,
    value: *mut hg_bytes,
    pinned: *mut *mut hg_pinned,
    error: *mut hg_error,
) -> hg_code {
    let find = |(key, value, place): (&[u8], Out<hg_bytes>, Out<*mut hg_pinned>)| {
        let Some(found) = get(handle, snapshot, key)? else {
            return Ok(false);
        };
        // A short value lies in the slice, so its address is known when the slice has its place.
        let (handle, held) = pin(Pinned::One(found))?;
        if let Pinned::One(found) = &*held {
            value.set(hg_bytes::of(found));
        }
        place.set(handle);
        Ok(true)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value, pinned), find) }
}

fn pin(values: Pinned) -> Result<(*mut hg_pinned, Held<Pinned>), Failure> {
    let handle = PINNED.insert(values)?;
    Ok((pointer(handle), PINNED.get(handle)?))
}

/// Frees pinned values.
#[unsafe(no_mangle)]
pub extern "C" fn hg_pinned_free(pinned: *mut hg_pinned) -> hg_code {
    free(&PINNED, pinned)
}

/// Writes the addresses of the values of several keys, whose reads overlap.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_multi_get(
    handle: *mut hg_keyspace,
    at: *const hg_snapshot,
    keys: *const hg_bytes,
    count: usize,
    values: *mut hg_bytes,
    pinned: *mut *mut hg_pinned,
    error: *mut hg_error,
) -> hg_code {
    type Arguments = (
        &'static [hg_bytes],
        Option<Out<hg_bytes>>,
        Out<*mut hg_pinned>,
    );
    let find = |(keys, values, place): Arguments| {
        // SAFETY: the caller's promise.
        let keys = unsafe { read_all(keys) }?;
        let (keyspace, snapshot) = (keyspace(handle)?, snapshot(at)?);
        let progress = Progress::of_thread();
        let mut found = Vec::with_capacity(keys.len());
        for (place, some) in keys.chunks(progress.entries_at_once()).enumerate() {
            if place > 0 && !progress.go_on(0, 0) {
                return Err(left());
            }
            found.extend(match &snapshot {
                None => keyspace.multi_get(some)?,
                Some(snapshot) => snapshot.multi_get(&keyspace, some)?,
            });
        }
        let (handle, held) = pin(Pinned::Many(found))?;
        place.set(handle);
        if let (Pinned::Many(found), Some(values)) = (&*held, values) {
            for (i, value) in found.iter().enumerate() {
                let bytes = value
                    .as_ref()
                    .map_or(hg_bytes::NONE, |value| hg_bytes::of(value));
                // SAFETY: the caller promises places for `count` values.
                unsafe { values.set_at(i, bytes) };
            }
        }
        Ok(())
    };
    let arguments = (Items(keys, count), Optional(values), pinned);
    // SAFETY: the caller's promise.
    unsafe { call(error, arguments, find) }
}

/// The bytes of several arguments.
///
/// # Safety
/// Each keeps the rules of its kind.
pub(crate) unsafe fn read_all(keys: &[hg_bytes]) -> Result<Vec<&'static [u8]>, Failure> {
    // SAFETY: the caller's promise.
    let read = |key: &hg_bytes| unsafe { hedgerow_bindings::foreign::Foreign::here(*key) };
    keys.iter().map(read).collect()
}

/// Returns `HG_OK` if a key has a value.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_contains(
    handle: *mut hg_keyspace,
    at: *const hg_snapshot,
    key: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let find = |key: &[u8]| {
        let keyspace = keyspace(handle)?;
        Ok(match snapshot(at)? {
            None => keyspace.contains_key(key)?,
            Some(snapshot) => snapshot.contains_key(&keyspace, key)?,
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, key, find) }
}

/// Writes the time when a key expires.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_expiry_of(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    meaning: *mut c_int,
    millis: *mut u64,
    error: *mut hg_error,
) -> hg_code {
    let find = |(key, meaning, millis): (&[u8], Out<c_int>, Out<u64>)| {
        let Some(expiry) = keyspace(handle)?.expiry(key)? else {
            return Ok(false);
        };
        let at = match expiry {
            Expiry::At(at) => at.duration_since(engine::io::WallTime::UNIX_EPOCH).ok(),
            _ => None,
        };
        meaning.set(c_int::from(at.is_some()));
        millis.set(at.map_or(0, |at| u64::try_from(at.as_millis()).unwrap_or(u64::MAX)));
        Ok(true)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, meaning, millis), find) }
}

/// Writes the steps of a get as JSON.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_explain_json(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    json: *mut *mut c_char,
    error: *mut hg_error,
) -> hg_code {
    let explain = |(key, place): (&[u8], Out<*mut c_char>)| {
        let explanation = keyspace(handle)?.explain(key)?;
        give_text(&place, &explain::json(&explanation).to_string())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, json), explain) }
}
