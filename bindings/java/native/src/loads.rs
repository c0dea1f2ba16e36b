//! Bulk loads. Java hands over sorted entries, many in one array, and a thread of the load takes
//! them.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use engine::{ErrorKind, LoadOp};
use hedgerow_bindings::Failure;
use jni_sys::{jbyteArray, jint, jlong};

use crate::calls;
use crate::env::enter;
use crate::objects;
use crate::packed::{Pack, Unpack};
use crate::writes::expiry;

/// Arrays of entries that wait for the thread of a load.
const WAITING: usize = 2;

/// The way to the thread of a load.
pub(crate) type Loading = SyncSender<Part>;

/// A part of a load.
pub(crate) enum Part {
    Entries(Vec<u8>),
    End,
}

type Entry = (Vec<u8>, LoadOp<Vec<u8>>);

/// Reads the parts of a load until its end. If Java gives the load up, that is an error.
struct Entries {
    parts: Receiver<Part>,
    entries: std::vec::IntoIter<Entry>,
}

impl Iterator for Entries {
    type Item = Result<Entry, Failure>;

    fn next(&mut self) -> Option<Result<Entry, Failure>> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Some(Ok(entry));
            }
            match self.parts.recv() {
                Ok(Part::Entries(packed)) => match Unpack(&packed).all(entry) {
                    Ok(entries) => self.entries = entries.into_iter(),
                    Err(failure) => return Some(Err(failure)),
                },
                Ok(Part::End) => return None,
                Err(_) => {
                    let message = "the bulk load was closed before its end";
                    return Some(Err(Failure::new(ErrorKind::Cancelled, message)));
                }
            }
        }
    }
}

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
        let (sender, parts) = sync_channel(WAITING);
        let handle = objects::keep::<Loading>(found.owner(), sender)?;
        let keyspace = objects::keyspace(keyspace)?;
        let entries = Entries { parts, entries: Vec::new().into_iter() };
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

    /// Hands entries over. Returns 0 if the load has ended, whose answer says why.
    fn Java_io_hedgerow_BulkLoad_add0(
        env, load: jlong, packed: jbyteArray, bytes: jint
    ) -> jint {
        let packed = env.bytes_of(packed, bytes)?;
        send(load, Part::Entries(packed.into_vec()))
    }

    /// Says that there are no more entries.
    fn Java_io_hedgerow_BulkLoad_end0(_env, load: jlong) -> jint {
        let sent = send(load, Part::End)?;
        objects::free::<Loading>(load)?;
        Ok(sent)
    }
}

fn send(load: jlong, part: Part) -> Result<jint, Failure> {
    // A copy: while the thread of the load takes its time, the object may be closed.
    let sender = Loading::clone(&*objects::find::<Loading>(load)?);
    Ok(jint::from(sender.send(part).is_ok()))
}
