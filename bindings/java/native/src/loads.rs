//! Bulk loads. Java hands over sorted entries, many in one array, and a thread of the load takes
//! them.

use std::sync::mpsc::TrySendError;

use engine::LoadOp;
use hedgerow_bindings::Failure;
use hedgerow_bindings::load::{Entries, Entry, Parts};
use jni_sys::{jbyteArray, jint, jlong};

use crate::calls;
use crate::env::enter;
use crate::objects;
use crate::packed::{Pack, Unpack};
use crate::writes::expiry;

/// The way of packed entries to the thread of a load.
pub(crate) type Loading = Parts<Vec<u8>>;

/// The results of handing something over, as `BulkLoad` has them.
const ENDED: jint = 0;
const TAKEN: jint = 1;
const FULL: jint = 2;

/// Reads an entry: its kind as in a batch, its key, and what the kind has.
fn entry(packed: &mut Unpack<'_>) -> Result<Entry, Failure> {
    let kind = packed.u8()?;
    let expiry = match kind {
        4 => Some(expiry(i32::from(packed.u8()?), packed.i64()?)),
        _ => None,
    };
    let key = packed.bytes()?.to_vec();
    let op = match (kind, expiry) {
        (1, _) => LoadOp::Put(packed.bytes()?.to_vec()),
        (2, _) => LoadOp::Delete,
        (3, _) => LoadOp::Merge(packed.bytes()?.to_vec()),
        (_, Some(expiry)) => LoadOp::PutExpiring(packed.bytes()?.to_vec(), expiry),
        _ => {
            let message = format!("expected an entry of a bulk load, found kind {kind}");
            return Err(Failure::invalid(message));
        }
    };
    Ok((key, op))
}

native! {
    /// Begins a load, and returns its handle. The answer is the numbers of a `BulkLoad.Report`.
    fn Java_io_hedgerow_BulkLoad_begin0(_env, id: jlong, keyspace: jlong) -> jlong {
        let found = objects::find::<engine::Keyspace>(keyspace)?;
        let (way, entries) = Entries::new(|packed: Vec<u8>| Unpack(&packed).all(entry));
        let handle = objects::keep::<Loading>(found.owner(), way)?;
        let keyspace = objects::keyspace(keyspace)?;
        let started = calls::start(id, move |_| {
            let report = keyspace.bulk_load_ops(entries)?;
            let mut packed = Pack::default();
            for number in [report.entries, report.bytes, report.tables] {
                packed.i64(number as i64);
            }
            Ok(Some(packed.0))
        });
        match started {
            Ok(()) => Ok(handle),
            Err(failure) => {
                objects::free::<Loading>(handle)?;
                Err(failure)
            }
        }
    }

    /// Hands entries over, if there is room.
    fn Java_io_hedgerow_BulkLoad_add0(
        env, load: jlong, packed: jbyteArray, bytes: jint
    ) -> jint {
        let packed = env.bytes_of(packed, bytes)?;
        send(load, Some(packed.into_vec()))
    }

    /// Says that there are no more entries, if there is room.
    fn Java_io_hedgerow_BulkLoad_end0(_env, load: jlong) -> jint {
        send(load, None)
    }
}

fn send(load: jlong, part: Option<Vec<u8>>) -> Result<jint, Failure> {
    Ok(match objects::find::<Loading>(load)?.try_send(part) {
        Ok(()) => TAKEN,
        Err(TrySendError::Full(_)) => FULL,
        Err(TrySendError::Disconnected(_)) => ENDED,
    })
}
