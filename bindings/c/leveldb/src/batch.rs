//! Batches. One is a list of operations, which a write brings into a database.

use std::ffi::{c_char, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Mutex;

use hedgerow_bindings::foreign::Bytes;
use hedgerow_bindings::{Failure, Handles, opaque, run};

use crate::calls::{call, number, pointer};
use crate::options::lock;

static BATCHES: Handles<Mutex<Operations>> = Handles::new(7, "batch");

opaque!(leveldb_writebatch_t);

/// Puts and deletes in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Operations {
    bytes: Vec<u8>,
    operations: Vec<Operation>,
}

/// A put, or a delete if it has no value. Ranges are of the bytes.
#[derive(Debug, Clone)]
struct Operation {
    key: Range<usize>,
    value: Option<Range<usize>>,
}

impl Operations {
    /// The operations of a batch.
    pub(crate) fn of(batch: *const leveldb_writebatch_t) -> Result<Operations, Failure> {
        // A copy: a function that the program gives to `iterate` may change the batch.
        Ok(lock(&*BATCHES.get(number(batch))?).clone())
    }

    /// Keys with their values; a delete has none.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let bytes = |range: &Range<usize>| &self.bytes[range.clone()];
        let operations = self.operations.iter();
        operations.map(move |it| (bytes(&it.key), it.value.as_ref().map(bytes)))
    }

    fn add(&mut self, key: &[u8], value: Option<&[u8]>) {
        let mut copy = |bytes: &[u8]| {
            let from = self.bytes.len();
            self.bytes.extend_from_slice(bytes);
            from..self.bytes.len()
        };
        let operation = Operation {
            key: copy(key),
            value: value.map(copy),
        };
        self.operations.push(operation);
    }
}

/// Makes an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_create() -> *mut leveldb_writebatch_t {
    pointer(run(|| BATCHES.insert(Mutex::default())).ok())
}

/// Frees a batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_destroy(batch: *mut leveldb_writebatch_t) {
    drop(BATCHES.free(number(batch)));
}

/// Removes all operations.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_clear(batch: *mut leveldb_writebatch_t) {
    drop(run(|| {
        *lock(&*BATCHES.get(number(batch))?) = Operations::default();
        Ok(())
    }));
}

/// Adds a put.
///
/// # Safety
/// Key and value can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_put(
    batch: *mut leveldb_writebatch_t,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    let arguments = (Bytes(key.cast(), klen), Bytes(val.cast(), vlen));
    let add = |(key, value): (&[u8], &[u8])| {
        lock(&*BATCHES.get(number(batch))?).add(key, Some(value));
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(null_mut(), arguments, add) };
}

/// Adds a delete.
///
/// # Safety
/// The key can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_delete(
    batch: *mut leveldb_writebatch_t,
    key: *const c_char,
    klen: usize,
) {
    let add = |key: &[u8]| {
        lock(&*BATCHES.get(number(batch))?).add(key, None);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(null_mut(), Bytes(key.cast(), klen), add) };
}

/// Calls `put` or `deleted` for each operation in order.
///
/// # Safety
/// The functions may be called with `state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_iterate(
    batch: *const leveldb_writebatch_t,
    state: *mut c_void,
    put: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>,
    deleted: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
) {
    let Ok(operations) = run(|| Operations::of(batch)) else {
        return;
    };
    for (key, value) in operations.iter() {
        let at = key.as_ptr().cast();
        match (value, put, deleted) {
            (Some(value), Some(put), _) => {
                let (data, len) = (value.as_ptr().cast(), value.len());
                // SAFETY: the caller's promise; key and value can be read.
                unsafe { put(state, at, key.len(), data, len) };
            }
            // SAFETY: the caller's promise; the key can be read.
            (None, _, Some(deleted)) => unsafe { deleted(state, at, key.len()) },
            _ => {}
        }
    }
}

/// Adds the operations of a batch to another one.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_append(
    destination: *mut leveldb_writebatch_t,
    source: *const leveldb_writebatch_t,
) {
    drop(run(|| {
        let source = Operations::of(source)?;
        let destination = BATCHES.get(number(destination))?;
        let mut destination = lock(&destination);
        source
            .iter()
            .for_each(|(key, value)| destination.add(key, value));
        Ok(())
    }));
}
