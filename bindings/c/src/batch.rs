//! Batches: writes to any keyspaces that become visible and durable together.

use std::ffi::c_int;

use engine::{Batch, Db};
use hedgerow_bindings::foreign::{Out, number};
use hedgerow_bindings::{Exclusive, Failure};

use crate::keyspace::range;
use crate::progress::{wait, wait_for_memory};
use crate::types::{
    BATCHES, call, database, durability, expiry, free, give, hg_batch, hg_bytes, hg_code, hg_db,
    hg_error, hg_keyspace, keyspace,
};

/// The commit of a batch from this size on can be left by its caller. Smaller ones are not worth a
/// thread.
pub(crate) const LONG_BATCH_BYTES: usize = 1 << 20;

/// Makes an empty batch.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_new(
    db: *mut hg_db,
    batch: *mut *mut hg_batch,
    error: *mut hg_error,
) -> hg_code {
    let make = |place: Out<*mut hg_batch>| {
        let db = Db::clone(&*database(db)?);
        let batch = db.batch();
        give(&place, &BATCHES, Exclusive::new((db, batch)))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, batch, make) }
}

/// Frees a batch and discards its writes.
#[unsafe(no_mangle)]
pub extern "C" fn hg_batch_free(batch: *mut hg_batch) -> hg_code {
    free(&BATCHES, batch)
}

fn with<R>(
    batch: *mut hg_batch,
    change: impl FnOnce(&mut Batch) -> Result<R, Failure>,
) -> Result<R, Failure> {
    change(&mut BATCHES.get(number(batch))?.lock()?.1)
}

/// Adds a put.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_put(
    batch: *mut hg_batch,
    handle: *mut hg_keyspace,
    key: hg_bytes,
    value: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let put = |(key, value): (&[u8], &[u8])| {
        let keyspace = keyspace(handle)?;
        with(batch, |batch| {
            Ok(batch.put(&keyspace, key, value).map(drop)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value), put) }
}

/// Adds a put of a value that expires.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_put_expiring(
    batch: *mut hg_batch,
    handle: *mut hg_keyspace,
    key: hg_bytes,
    value: hg_bytes,
    meaning: c_int,
    millis: u64,
    error: *mut hg_error,
) -> hg_code {
    let put = |(key, value): (&[u8], &[u8])| {
        let (keyspace, expiry) = (keyspace(handle)?, expiry(meaning, millis)?);
        with(batch, |batch| {
            Ok(batch
                .put_expiring(&keyspace, key, value, expiry)
                .map(drop)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value), put) }
}

/// Adds a delete.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_delete(
    batch: *mut hg_batch,
    handle: *mut hg_keyspace,
    key: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let delete = |key: &[u8]| {
        let keyspace = keyspace(handle)?;
        with(batch, |batch| Ok(batch.delete(&keyspace, key).map(drop)?))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, key, delete) }
}

/// Adds a merge.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_merge(
    batch: *mut hg_batch,
    handle: *mut hg_keyspace,
    key: hg_bytes,
    operand: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let merge = |(key, operand): (&[u8], &[u8])| {
        let keyspace = keyspace(handle)?;
        with(batch, |batch| {
            Ok(batch.merge(&keyspace, key, operand).map(drop)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, operand), merge) }
}

/// Adds a delete of a range.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_delete_range(
    batch: *mut hg_batch,
    handle: *mut hg_keyspace,
    from: hg_bytes,
    to: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let delete = |keys: (&'static [u8], &'static [u8])| {
        let keyspace = keyspace(handle)?;
        let range = range((from, keys.0), (to, keys.1));
        with(batch, |batch| {
            Ok(batch.delete_range::<&[u8]>(&keyspace, range).map(drop)?)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (from, to), delete) }
}

/// Removes all operations.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_clear(batch: *mut hg_batch, error: *mut hg_error) -> hg_code {
    let clear = |()| {
        with(batch, |batch| {
            batch.clear();
            Ok(())
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), clear) }
}

/// Writes the number of operations.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_count(
    batch: *mut hg_batch,
    count: *mut usize,
    error: *mut hg_error,
) -> hg_code {
    let get = |place: Out<usize>| {
        place.set(with(batch, |batch| Ok(batch.len()))?);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, count, get) }
}

/// Commits all operations, or none; the batch is empty then.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_commit(
    batch: *mut hg_batch,
    how: c_int,
    error: *mut hg_error,
) -> hg_code {
    let commit = |()| {
        let how = durability(how)?;
        let batch = BATCHES.get(number(batch))?;
        let mut held = batch.lock()?;
        let (db, batch) = &mut *held;
        if batch.bytes() < LONG_BATCH_BYTES {
            wait_for_memory(db, Db::writes_wait, Db::wait_for_memory)?;
            return Ok(batch.commit_and_clear(how)?);
        }
        let mut taken = std::mem::replace(batch, db.batch());
        let (taken, result) = wait(move || {
            let result = taken.commit_and_clear(how);
            Ok((taken, result))
        })?;
        // After a failure it has its operations.
        *batch = taken;
        Ok(result?)
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), commit) }
}
