//! Asynchronous calls: a function of the program gets the result.

use std::ffi::{c_int, c_void};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use engine::{Pending, Slice};
use hedgerow_bindings::Failure;
use hedgerow_bindings::foreign::{Items, number};

use crate::reads::read_all;
use crate::types::hg_code::*;
use crate::types::{
    BATCHES, call, database, durability, hg_batch, hg_bytes, hg_code, hg_db, hg_error, hg_keyspace,
    hg_transaction, keyspace,
};

/// Gets the result of a call: its code, a value, and the error or NULL.
pub type hg_done = Option<unsafe extern "C" fn(*mut c_void, hg_code, hg_bytes, *const hg_error)>;

/// The length of an absent value in the result of several gets.
const ABSENT: u32 = u32::MAX;

/// The function of a call, which is called once.
struct Done {
    done: unsafe extern "C" fn(*mut c_void, hg_code, hg_bytes, *const hg_error),
    state: *mut c_void,
}

// SAFETY: the header says that any thread may call the function with its state.
unsafe impl Send for Done {}

impl Done {
    fn new(done: hg_done, state: *mut c_void) -> Result<Done, Failure> {
        let done = done.ok_or_else(|| Failure::invalid("expected a function, found NULL"))?;
        Ok(Done { done, state })
    }

    fn call(self, result: Result<Option<&[u8]>, Failure>) {
        let (code, value, error) = match result {
            Ok(Some(value)) => (HG_OK, hg_bytes::of(value), None),
            Ok(None) => (HG_NOT_FOUND, hg_bytes::NONE, None),
            Err(failure) => {
                let error = hg_error::of(&failure);
                (error.code, hg_bytes::NONE, Some(error))
            }
        };
        let error = error.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the program gave both together; the arguments live until the function returns.
        unsafe { (self.done)(self.state, code, value, error) };
    }
}

/// A call under way. It is its own waker: whoever has the result calls the function.
struct Call<T> {
    state: Mutex<Option<(Pending<T>, Done)>>,
    finish: fn(engine::Result<T>, Done),
}

impl<T: Send + 'static> Call<T> {
    /// Follows a call to its end. The function is called on this thread if the result is there.
    fn follow(pending: Pending<T>, done: Done, finish: fn(engine::Result<T>, Done)) {
        let state = Mutex::new(Some((pending, done)));
        Arc::new(Call { state, finish }).poll();
    }

    fn poll(self: Arc<Self>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((pending, _)) = state.as_mut() else {
            return;
        };
        let waker = Waker::from(self.clone());
        let Poll::Ready(result) = Pin::new(pending).poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let done = state.take().map(|(_, done)| done);
        drop(state);
        if let Some(done) = done {
            (self.finish)(result, done);
        }
    }
}

impl<T: Send + 'static> Wake for Call<T> {
    fn wake(self: Arc<Self>) {
        self.poll();
    }
}

fn follow_write(pending: Pending<()>, done: Done) {
    let finish = |result: engine::Result<()>, done: Done| {
        done.call(result.map(|()| Some(&b""[..])).map_err(Failure::from));
    };
    Call::follow(pending, done, finish);
}

/// Gets a value.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_get_async(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    done: hg_done,
    state: *mut c_void,
    error: *mut hg_error,
) -> hg_code {
    let get = |key: &[u8]| {
        let (keyspace, done) = (keyspace(handle)?, Done::new(done, state)?);
        let finish = |result: engine::Result<Option<Slice>>, done: Done| match result {
            Ok(value) => done.call(Ok(value.as_deref())),
            Err(error) => done.call(Err(error.into())),
        };
        Call::follow(keyspace.get_async(key), done, finish);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, key, get) }
}

/// Gets several values.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_multi_get_async(
    handle: *mut hg_keyspace,
    keys: *const hg_bytes,
    count: usize,
    done: hg_done,
    state: *mut c_void,
    error: *mut hg_error,
) -> hg_code {
    let get = |keys: &[hg_bytes]| {
        // SAFETY: the caller's promise.
        let keys = unsafe { read_all(keys) }?;
        let (keyspace, done) = (keyspace(handle)?, Done::new(done, state)?);
        let finish = |result: engine::Result<Vec<Option<Slice>>>, done: Done| match result {
            Ok(values) => done.call(Ok(Some(&packed(&values)))),
            Err(error) => done.call(Err(error.into())),
        };
        Call::follow(keyspace.multi_get_async(&keys), done, finish);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, Items(keys, count), get) }
}

/// Values one after another, each behind its length of four bytes, little-endian.
fn packed(values: &[Option<Slice>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        let len = value.as_ref().map_or(ABSENT, |value| value.len() as u32);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(value.as_deref().unwrap_or_default());
    }
    bytes
}

/// Puts a value.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_put_async(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    value: hg_bytes,
    how: c_int,
    done: hg_done,
    state: *mut c_void,
    error: *mut hg_error,
) -> hg_code {
    let put = |(key, value): (&[u8], &[u8])| {
        let (keyspace, done) = (keyspace(handle)?, Done::new(done, state)?);
        let pending = keyspace.put_async_with(key, value, durability(how)?);
        follow_write(pending, done);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, value), put) }
}

/// Deletes a key.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_delete_async(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    how: c_int,
    done: hg_done,
    state: *mut c_void,
    error: *mut hg_error,
) -> hg_code {
    let delete = |key: &[u8]| {
        let (keyspace, done) = (keyspace(handle)?, Done::new(done, state)?);
        let pending = keyspace.delete_async_with(key, durability(how)?);
        follow_write(pending, done);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, key, delete) }
}

/// Merges an operand.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_merge_async(
    handle: *mut hg_keyspace,
    key: hg_bytes,
    operand: hg_bytes,
    how: c_int,
    done: hg_done,
    state: *mut c_void,
    error: *mut hg_error,
) -> hg_code {
    let merge = |(key, operand): (&[u8], &[u8])| {
        let (keyspace, done) = (keyspace(handle)?, Done::new(done, state)?);
        let pending = keyspace.merge_async(key, operand, durability(how)?);
        follow_write(pending, done);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (key, operand), merge) }
}

/// Commits a batch, which is empty from now on.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_batch_commit_async(
    batch: *mut hg_batch,
    how: c_int,
    done: hg_done,
    state: *mut c_void,
    error: *mut hg_error,
) -> hg_code {
    let commit = |()| {
        let (how, done) = (durability(how)?, Done::new(done, state)?);
        let batch = BATCHES.get(number(batch))?;
        let mut batch = batch.lock()?;
        let empty = batch.0.batch();
        let full = std::mem::replace(&mut batch.1, empty);
        drop(batch);
        follow_write(full.commit_async(how), done);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), commit) }
}

/// Commits a transaction, which has ended then.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_transaction_commit_async(
    transaction: *mut hg_transaction,
    done: hg_done,
    state: *mut c_void,
    error: *mut hg_error,
) -> hg_code {
    let commit = |()| {
        let done = Done::new(done, state)?;
        follow_write(crate::transaction::take(transaction)?.commit_async(), done);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), commit) }
}

/// Calls the function when everything that was called before is done, with the first error of it.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_barrier_async(
    db: *mut hg_db,
    done: hg_done,
    state: *mut c_void,
    error: *mut hg_error,
) -> hg_code {
    let begin = |()| {
        let (db, done) = (database(db)?, Done::new(done, state)?);
        follow_write(db.barrier(), done);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (), begin) }
}
