//! Writes: packed operations that are committed together.
//!
//! ```text
//! operations = any number of: operation: u8, then
//!   0 put          key: bytes, value: bytes
//!   1 delete       key: bytes
//!   2 put until    key: bytes, value: bytes, milliseconds since 1970: f64
//!   3 merge        key: bytes, operand: bytes
//!   4 delete range bound, bound
//!   5 keyspace     its index in a list of handles: u32; the operations behind it are for it
//! bound      = 0: u8 (none), or 1: u8 (inclusive) or 2: u8 (exclusive), then bytes
//! ```

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use engine::io::WallTime;
use engine::{Batch, Durability, Expiry};
use napi::bindgen_prelude::{AsyncTask, Either};
use napi_derive::napi;

use crate::call::{Answer, Call, later};
use crate::database::Database;
use crate::failure::{Code, Failure, Result, caught};
use crate::handles;
use crate::packed::{Bytes, Reader};

pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The most keys that a clear with a limit or a snapshot deletes in one commit.
const CLEAR_KEYS_MAX: usize = 4096;

/// Commits packed operations together. `keyspaces` are the handles that they name by index. With
/// `at_once` this thread commits them if the commit need not wait, and the result is true.
#[napi(catch_unwind)]
pub fn write(
    handle: f64,
    operations: Bytes<'_>,
    keyspaces: Vec<f64>,
    sync: bool,
    at_once: bool,
) -> napi::Result<Either<bool, AsyncTask<Call>>, Code> {
    let database = handles::database(handle)?;
    let keyspaces = keyspaces.into_iter().map(handles::database);
    let keyspaces = keyspaces.collect::<Result<Vec<_>>>()?;
    let try_commit = || Ok(batch(&database, &keyspaces, &operations)?.try_commit()?);
    if at_once && !sync && caught(try_commit)? {
        return Ok(Either::A(true));
    }
    let operations = operations.to_vec();
    Ok(Either::B(later(move || {
        let batch = batch(&database, &keyspaces, &operations)?;
        batch.commit(durability(sync))?;
        Ok(Answer::Nothing)
    })))
}

fn durability(sync: bool) -> Durability {
    match sync {
        true => Durability::Synced,
        false => Durability::Buffered,
    }
}

fn batch(database: &Database, others: &[Arc<Database>], operations: &[u8]) -> Result<Batch> {
    let mut batch = database.db.batch();
    let mut keyspace = &database.keyspace;
    let mut packed = Reader::new(operations);
    while !packed.is_at_end() {
        match packed.byte()? {
            0 => batch.put(keyspace, packed.bytes()?, packed.bytes()?)?,
            1 => batch.delete(keyspace, packed.bytes()?)?,
            2 => {
                let (key, value) = (packed.bytes()?, packed.bytes()?);
                batch.put_expiring(keyspace, key, value, expiry(packed.double()?)?)?
            }
            3 => batch.merge(keyspace, packed.bytes()?, packed.bytes()?)?,
            4 => batch.delete_range(keyspace, bounds(&mut packed)?)?,
            5 => {
                let index = packed.number()? as usize;
                let other = others.get(index).ok_or_else(|| {
                    let found = others.len();
                    Failure::invalid(format!("expected keyspace {index}, found {found} of them"))
                })?;
                keyspace = &other.keyspace;
                continue;
            }
            other => {
                let message = format!("expected a packed operation, found {other}");
                return Err(Failure::invalid(message));
            }
        };
    }
    Ok(batch)
}

fn expiry(milliseconds: f64) -> Result<Expiry> {
    // The numbers that a date of JavaScript can have.
    if !(0.0..=8.64e15).contains(&milliseconds) {
        let message = format!("expected a time after 1970 in milliseconds, found {milliseconds}");
        return Err(Failure::invalid(message));
    }
    let since = Duration::from_millis(milliseconds as u64);
    Ok(Expiry::At(WallTime::UNIX_EPOCH + since))
}

/// Reads a packed range of keys.
pub(crate) fn bounds(packed: &mut Reader<'_>) -> Result<Bounds> {
    Ok((bound(packed)?, bound(packed)?))
}

fn bound(packed: &mut Reader<'_>) -> Result<Bound<Vec<u8>>> {
    Ok(match packed.byte()? {
        0 => Bound::Unbounded,
        1 => Bound::Included(packed.bytes()?.to_vec()),
        2 => Bound::Excluded(packed.bytes()?.to_vec()),
        other => {
            let message = format!("expected a packed bound, found {other}");
            return Err(Failure::invalid(message));
        }
    })
}

/// Deletes the first `limit` keys of a packed range, those of a snapshot if there is one. Negative:
/// no limit. `abort` is the handle of an abort, or 0.
#[napi(catch_unwind)]
pub fn clear(
    handle: f64,
    snapshot: f64,
    range: Bytes<'_>,
    reverse: bool,
    limit: f64,
    abort: f64,
) -> napi::Result<AsyncTask<Call>, Code> {
    let abort = handles::abort(abort)?.unwrap_or_default();
    let database = handles::database(handle)?;
    let snapshot = handles::snapshot(snapshot)?;
    let range = bounds(&mut Reader::new(&range))?;
    let limit = if limit < 0.0 {
        usize::MAX
    } else {
        limit as usize
    };
    Ok(later(move || {
        let db = &database.db;
        let snapshot = match snapshot {
            Some(snapshot) => snapshot,
            None => db.snapshot()?,
        };
        let keyspace = &database.keyspace;
        let mut keys = snapshot.scan(keyspace, range)?.keys();
        let mut batch = db.batch();
        for _ in 0..limit {
            abort.check()?;
            let Some(key) = (if reverse {
                keys.next_back()
            } else {
                keys.next()
            }) else {
                break;
            };
            batch.delete(keyspace, key?)?;
            if batch.len() == CLEAR_KEYS_MAX {
                batch.commit_and_clear(Durability::Buffered)?;
            }
        }
        batch.commit(Durability::Buffered)?;
        Ok(Answer::Nothing)
    }))
}
