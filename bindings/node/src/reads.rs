//! Reads: one key, or many.

use std::sync::Arc;

use engine::{MemoryAnswer, Slice, Snapshot};
use napi::bindgen_prelude::{AsyncTask, Buffer};
use napi_derive::napi;

use crate::call::{Answer, Call, later};
use crate::database::Database;
use crate::failure::{Code, Failure, Result, caught};
use crate::handles;
use crate::packed::{Bytes, Reader, put_optional};

/// The answer of [`get`] if the key has no value.
const ABSENT: i32 = -1;
/// The answer of [`get`] if a file has to be read.
const UNKNOWN: i32 = -2;

/// The source of reads: the present or a snapshot.
struct View {
    database: Arc<Database>,
    snapshot: Option<Snapshot>,
}

impl View {
    fn of(handle: f64, snapshot: f64) -> Result<View> {
        Ok(View {
            database: handles::database(handle)?,
            snapshot: handles::snapshot(snapshot)?,
        })
    }

    fn get_if_cached(&self, key: &[u8]) -> Result<MemoryAnswer> {
        let keyspace = &self.database.keyspace;
        Ok(match &self.snapshot {
            None => keyspace.get_if_cached(key)?,
            Some(snapshot) => snapshot.get_if_cached(keyspace, key)?,
        })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        let keyspace = &self.database.keyspace;
        Ok(match &self.snapshot {
            None => keyspace.get(key)?,
            Some(snapshot) => snapshot.get(keyspace, key)?,
        })
    }

    fn contains_key(&self, key: &[u8]) -> Result<bool> {
        let keyspace = &self.database.keyspace;
        Ok(match &self.snapshot {
            None => keyspace.contains_key(key)?,
            Some(snapshot) => snapshot.contains_key(keyspace, key)?,
        })
    }

    /// The packed values of packed keys. Files are read together.
    fn values(&self, packed: &[u8]) -> Result<Vec<u8>> {
        let keys = keys(packed)?;
        let keyspace = &self.database.keyspace;
        let values = match &self.snapshot {
            None => keyspace.multi_get(&keys)?,
            Some(snapshot) => snapshot.multi_get(keyspace, &keys)?,
        };
        let mut out = Vec::new();
        for value in &values {
            put_optional(&mut out, value.as_deref());
        }
        Ok(out)
    }

    /// The packed values of packed keys; with `only_presence` they are empty. `None` if a file has
    /// to be read.
    fn cached_values(&self, packed: &[u8], only_presence: bool) -> Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        let mut reader = Reader::new(packed);
        while !reader.is_at_end() {
            match self.get_if_cached(reader.bytes()?)? {
                MemoryAnswer::Absent => put_optional(&mut out, None),
                MemoryAnswer::Value(_) if only_presence => put_optional(&mut out, Some(&[])),
                MemoryAnswer::Value(value) => put_optional(&mut out, Some(&value)),
                MemoryAnswer::Unknown => return Ok(None),
            }
        }
        Ok(Some(out))
    }

    /// For each of these packed keys whether it has a value, as an empty value.
    fn presence(&self, packed: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for key in keys(packed)? {
            let is_there = self.contains_key(key)?;
            put_optional(&mut out, is_there.then_some(&[]));
        }
        Ok(out)
    }
}

fn keys(packed: &[u8]) -> Result<Vec<&[u8]>> {
    let mut keys = Vec::new();
    let mut reader = Reader::new(packed);
    while !reader.is_at_end() {
        keys.push(reader.bytes()?);
    }
    Ok(keys)
}

/// Gets the value of the key in the first `length` bytes of a buffer, and copies it to the start of
/// the buffer if it has room. The result is the length of the value, or `ABSENT`, or `UNKNOWN` if a
/// file has to be read.
#[napi(catch_unwind)]
pub fn get(
    handle: f64,
    snapshot: f64,
    mut buffer: Bytes<'_>,
    length: u32,
) -> napi::Result<i32, Code> {
    let found = caught(|| View::of(handle, snapshot)?.get_if_cached(first(&buffer, length)?))?;
    Ok(match found {
        MemoryAnswer::Unknown => UNKNOWN,
        other => copy(&mut buffer, other.value().as_deref()),
    })
}

/// Gets as [`get`] does, and reads a file if it has to: the event loop waits.
#[napi(catch_unwind)]
pub fn get_sync(
    handle: f64,
    snapshot: f64,
    mut buffer: Bytes<'_>,
    length: u32,
) -> napi::Result<i32, Code> {
    let found = caught(|| View::of(handle, snapshot)?.get(first(&buffer, length)?))?;
    Ok(copy(&mut buffer, found.as_deref()))
}

/// The key in the first bytes of a buffer.
fn first(buffer: &[u8], length: u32) -> Result<&[u8]> {
    buffer.get(..length as usize).ok_or_else(|| {
        let found = buffer.len();
        Failure::invalid(format!(
            "expected a key of {length} bytes in a buffer of {found}"
        ))
    })
}

fn copy(buffer: &mut [u8], value: Option<&[u8]>) -> i32 {
    let Some(value) = value else {
        return ABSENT;
    };
    if let Some(target) = buffer.get_mut(..value.len()) {
        target.copy_from_slice(value);
    }
    // A value has at most 64 MiB.
    value.len() as i32
}

/// Gets the packed values of packed keys. Nothing if a file has to be read. With `only_presence`
/// the values are empty.
#[napi(catch_unwind)]
pub fn get_many(
    handle: f64,
    snapshot: f64,
    keys: Bytes<'_>,
    only_presence: bool,
) -> napi::Result<Option<Buffer>, Code> {
    let values = caught(|| View::of(handle, snapshot)?.cached_values(&keys, only_presence))?;
    Ok(values.map(Buffer::from))
}

/// Gets as [`get_many`] does, on another thread.
#[napi(catch_unwind)]
pub fn get_many_later(
    handle: f64,
    snapshot: f64,
    keys: Bytes<'_>,
    only_presence: bool,
) -> napi::Result<AsyncTask<Call>, Code> {
    let view = View::of(handle, snapshot)?;
    let keys = keys.to_vec();
    Ok(later(move || {
        Ok(Answer::Bytes(match only_presence {
            true => view.presence(&keys)?,
            false => view.values(&keys)?,
        }))
    }))
}
