//! Keyspaces: what they are, and their care.

use std::ffi::{c_char, c_int};
use std::ops::Bound;
use std::path::PathBuf;
use std::time::Duration;

use hedgerow_bindings::foreign::{Items, MallocCopy, Optional, Out, Text};
use hedgerow_bindings::{Failure, stats, text};

use crate::database::give_text;
use crate::progress::{wait, wait_with_reports};
use crate::types::{KEYSPACES, call, free, hg_bytes, hg_code, hg_error, hg_keyspace, keyspace};

/// A range of keys: from `from` to before `to`; NULL is no bound.
pub(crate) type Range = (Bound<&'static [u8]>, Bound<&'static [u8]>);

/// The range between two keys whose addresses may be NULL, once they were read.
pub(crate) fn range(from: (hg_bytes, &'static [u8]), to: (hg_bytes, &'static [u8])) -> Range {
    let none = |(address, _): &(hg_bytes, _)| address.data.is_null();
    (
        if none(&from) {
            Bound::Unbounded
        } else {
            Bound::Included(from.1)
        },
        if none(&to) {
            Bound::Unbounded
        } else {
            Bound::Excluded(to.1)
        },
    )
}

/// The same range for another thread.
fn owned_range(
    from: (hg_bytes, &'static [u8]),
    to: (hg_bytes, &'static [u8]),
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let (from, to) = range(from, to);
    (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec))
}

/// Frees a handle of a keyspace.
#[unsafe(no_mangle)]
pub extern "C" fn hg_keyspace_free(keyspace: *mut hg_keyspace) -> hg_code {
    free(&KEYSPACES, keyspace)
}

/// Writes name, layout and design of a keyspace as texts.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_describe(
    handle: *mut hg_keyspace,
    name: *mut *mut c_char,
    layout: *mut *mut c_char,
    design: *mut *mut c_char,
    error: *mut hg_error,
) -> hg_code {
    type Place = Option<Out<*mut c_char>>;
    let describe = |(name, layout, design): (Place, Place, Place)| {
        let keyspace = keyspace(handle)?;
        let copied = |place: Place, text: String| {
            let copy = |place| MallocCopy::of(text.as_bytes()).map(|copy| (place, copy));
            place.map(copy).transpose()
        };
        let texts = [
            copied(name, keyspace.name())?,
            copied(layout, keyspace.layout().to_string())?,
            copied(design, keyspace.design().to_string())?,
        ];
        // All of them, or none.
        for (place, text) in texts.into_iter().flatten() {
            place.set(text.give());
        }
        Ok(())
    };
    let places = (Optional(name), Optional(layout), Optional(design));
    // SAFETY: the caller's promise.
    unsafe { call(error, places, describe) }
}

/// Changes the design of a keyspace while it is in use.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_retune(
    handle: *mut hg_keyspace,
    design: *const c_char,
    error: *mut hg_error,
) -> hg_code {
    let retune = |design: Text| {
        let (keyspace, design) = (keyspace(handle)?.clone(), text::design(design.read()?)?);
        wait(move || Ok(keyspace.retune(design)?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, design, retune) }
}

/// Lets a keyspace tune itself, or not.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_set_self_tuning(
    handle: *mut hg_keyspace,
    on: c_int,
    error: *mut hg_error,
) -> hg_code {
    let set = |()| Ok(keyspace(handle)?.set_self_tuning(on != 0)?);
    // SAFETY: the caller's promise.
    unsafe { call(error, (), set) }
}

/// Has later puts expire after some milliseconds; 0 is never.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_set_time_to_live(
    handle: *mut hg_keyspace,
    millis: u64,
    error: *mut hg_error,
) -> hg_code {
    let time_to_live = (millis > 0).then_some(Duration::from_millis(millis));
    let set = |()| {
        let keyspace = keyspace(handle)?.clone();
        wait(move || Ok(keyspace.set_time_to_live(time_to_live)?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), set) }
}

/// Removes all entries of a keyspace.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_clear(
    handle: *mut hg_keyspace,
    error: *mut hg_error,
) -> hg_code {
    let clear = |()| {
        let keyspace = keyspace(handle)?.clone();
        wait(move || Ok(keyspace.clear()?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), clear) }
}

/// Merges a range down.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_compact(
    handle: *mut hg_keyspace,
    from: hg_bytes,
    to: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let compact = |keys: (&'static [u8], &'static [u8])| {
        let range = owned_range((from, keys.0), (to, keys.1));
        let keyspace = keyspace(handle)?.clone();
        wait_with_reports(move |report| {
            Ok(keyspace.compact_with(range, |it| report(it.done_bytes, it.total_bytes))?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (from, to), compact) }
}

/// Waits until no merge is due.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_wait_until_merged(
    handle: *mut hg_keyspace,
    error: *mut hg_error,
) -> hg_code {
    let wait = |()| {
        let keyspace = keyspace(handle)?.clone();
        wait(move || Ok(keyspace.wait_until_merged()?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), wait) }
}

/// Estimates the bytes and the entries of a range.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_estimate(
    handle: *mut hg_keyspace,
    from: hg_bytes,
    to: hg_bytes,
    bytes: *mut u64,
    entries: *mut u64,
    error: *mut hg_error,
) -> hg_code {
    type Arguments = (
        &'static [u8],
        &'static [u8],
        Option<Out<u64>>,
        Option<Out<u64>>,
    );
    let estimate = |(from_key, to_key, bytes, entries): Arguments| {
        let keyspace = keyspace(handle)?;
        let range = range((from, from_key), (to, to_key));
        if let Some(bytes) = bytes {
            bytes.set(keyspace.approximate_bytes::<&[u8]>(range)?);
        }
        if let Some(entries) = entries {
            entries.set(keyspace.approximate_entries::<&[u8]>(range)?);
        }
        Ok(())
    };
    let arguments = (from, to, Optional(bytes), Optional(entries));
    // SAFETY: the caller's promise.
    unsafe { call(error, arguments, estimate) }
}

/// Writes the statistics of a keyspace as JSON.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_stats_json(
    handle: *mut hg_keyspace,
    json: *mut *mut c_char,
    error: *mut hg_error,
) -> hg_code {
    let write = |place: Out<*mut c_char>| {
        let stats = stats::keyspace(&keyspace(handle)?.stats());
        give_text(&place, &stats.to_string())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, json, write) }
}

/// Writes a range as tables to a new directory.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_export(
    handle: *mut hg_keyspace,
    from: hg_bytes,
    to: hg_bytes,
    path: *const c_char,
    error: *mut hg_error,
) -> hg_code {
    let export = |(from_key, to_key, path): (&'static [u8], &'static [u8], Text)| {
        let range = owned_range((from, from_key), (to, to_key));
        let (keyspace, path) = (keyspace(handle)?.clone(), path.path()?.to_owned());
        wait(move || {
            keyspace.export(range, path)?;
            Ok(())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (from, to, path), export) }
}

/// Takes tables from outside into a keyspace, as one commit.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_ingest(
    handle: *mut hg_keyspace,
    paths: *const *const c_char,
    count: usize,
    error: *mut hg_error,
) -> hg_code {
    let ingest = |paths: &'static [*const c_char]| {
        let mut tables: Vec<PathBuf> = Vec::new();
        for path in paths {
            let read = |path: Text| {
                tables.push(path.path()?.to_owned());
                Ok(())
            };
            // SAFETY: the caller's promise.
            unsafe { hedgerow_bindings::foreign::Foreign::here(*path) }.and_then(read)?;
        }
        let keyspace = keyspace(handle)?.clone();
        wait(move || {
            keyspace.ingest(&tables)?;
            Ok::<(), Failure>(())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, Items(paths, count), ingest) }
}
