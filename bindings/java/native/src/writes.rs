//! Writes: single ones, and those of batches, many in one array of bytes.
//!
//! An array of writes names a keyspace by its handle, and then has operations on it until it names
//! another one.

use std::time::{Duration, UNIX_EPOCH};

use engine::{Batch, Durability, Expiry, IndexedBatch, Keyspace, Slice};
use hedgerow_bindings::{Failure, Held};
use jni_sys::{jbyteArray, jint, jlong, jobject};

use crate::env::enter;
use crate::objects::{self, Owned};
use crate::packed::Unpack;
use crate::scan::Range;

/// A batch of either kind.
pub(crate) trait Writes {
    fn put(&mut self, at: &Keyspace, key: &[u8], value: &[u8]) -> engine::Result<()>;
    fn put_expiring(
        &mut self,
        at: &Keyspace,
        entry: (&[u8], &[u8]),
        expiry: Expiry,
    ) -> engine::Result<()>;
    fn delete(&mut self, at: &Keyspace, key: &[u8]) -> engine::Result<()>;
    fn merge(&mut self, at: &Keyspace, key: &[u8], operand: &[u8]) -> engine::Result<()>;
    fn delete_range(&mut self, at: &Keyspace, range: &Range) -> engine::Result<()>;
}

macro_rules! writes {
    ($($batch:ty)*) => {$(
        impl Writes for $batch {
            fn put(&mut self, at: &Keyspace, key: &[u8], value: &[u8]) -> engine::Result<()> {
                self.put(at, key, value).map(drop)
            }

            fn put_expiring(
                &mut self,
                at: &Keyspace,
                (key, value): (&[u8], &[u8]),
                expiry: Expiry,
            ) -> engine::Result<()> {
                self.put_expiring(at, key, value, expiry).map(drop)
            }

            fn delete(&mut self, at: &Keyspace, key: &[u8]) -> engine::Result<()> {
                self.delete(at, key).map(drop)
            }

            fn merge(&mut self, at: &Keyspace, key: &[u8], operand: &[u8]) -> engine::Result<()> {
                self.merge(at, key, operand).map(drop)
            }

            fn delete_range(&mut self, at: &Keyspace, range: &Range) -> engine::Result<()> {
                match range.prefix() {
                    Some(prefix) => self.delete_prefix(at, prefix).map(drop),
                    None => self.delete_range::<&[u8]>(at, range.bounds()).map(drop),
                }
            }
        }
    )*};
}

writes!(Batch IndexedBatch);

/// Adds packed writes to a batch.
///
/// # Errors
/// As [`Batch::put`]; those before the refused one are in the batch.
pub(crate) fn add_all(batch: &mut impl Writes, packed: &[u8]) -> Result<(), Failure> {
    let mut packed = Unpack(packed);
    let mut keyspace: Option<Held<Owned<Keyspace>>> = None;
    while !packed.is_empty() {
        let kind = packed.u8()?;
        if kind == 0 {
            keyspace = Some(objects::find(packed.i64()?)?);
            continue;
        }
        let at = keyspace.as_deref();
        let at = at.ok_or_else(|| Failure::invalid("expected a keyspace before its writes"))?;
        match kind {
            1 => batch.put(at, packed.bytes()?, packed.bytes()?)?,
            2 => batch.delete(at, packed.bytes()?)?,
            3 => batch.merge(at, packed.bytes()?, packed.bytes()?)?,
            4 => {
                let expiry = expiry(i32::from(packed.u8()?), packed.i64()?);
                batch.put_expiring(at, (packed.bytes()?, packed.bytes()?), expiry)?;
            }
            5 => batch.delete_range(at, &Range::unpack(&mut packed)?)?,
            _ => {
                return Err(Failure::invalid(format!(
                    "expected a write, found kind {kind}"
                )));
            }
        }
    }
    Ok(())
}

/// An expiry as Java passes it: kind 0 is never, 1 at a time, 2 after a time, in milliseconds.
pub(crate) fn expiry(kind: jint, ms: jlong) -> Expiry {
    let duration = Duration::from_millis(ms.max(0) as u64);
    match kind {
        0 => Expiry::Never,
        // A time that the system cannot show is never reached.
        1 => UNIX_EPOCH
            .checked_add(duration)
            .map_or(Expiry::Never, Expiry::At),
        _ => Expiry::In(duration),
    }
}

pub(crate) fn durability(sync: jint) -> Durability {
    match sync {
        0 => Durability::Buffered,
        _ => Durability::Synced,
    }
}

/// The old value of a key that a function may replace.
fn replace(
    keyspace: &Keyspace,
    key: &[u8],
    new: impl Fn(Option<&[u8]>) -> Option<Vec<u8>>,
) -> Result<Option<Slice>, Failure> {
    let mut before = None;
    keyspace.update(key, |old| {
        before = old.map(Slice::copy_from);
        new(old)
    })?;
    Ok(before)
}

/// Makes a write, and returns 0. If it would wait for a flush, returns 1 and writes nothing: then
/// the caller waits for memory, which can be interrupted, and comes again.
fn written(
    keyspace: jlong,
    write: impl FnOnce(&Keyspace) -> engine::Result<()>,
) -> Result<jint, Failure> {
    let keyspace = objects::find::<Keyspace>(keyspace)?;
    if keyspace.writes_wait() {
        return Ok(1);
    }
    write(&keyspace)?;
    Ok(0)
}

native! {
    fn Java_io_hedgerow_Keyspace_put0(
        env, keyspace: jlong, key: jbyteArray, value: jbyteArray
    ) -> jint {
        let (key, value) = (env.bytes(key)?, env.bytes(value)?);
        written(keyspace, |it| it.put(&key, &value))
    }

    fn Java_io_hedgerow_Keyspace_putDirect0(
        env, keyspace: jlong, key: jobject, key_at: jint, key_bytes: jint,
        value: jobject, value_at: jint, value_bytes: jint
    ) -> jint {
        let key = env.buffer_bytes(key, (key_at, key_bytes))?;
        let value = env.buffer_bytes(value, (value_at, value_bytes))?;
        written(keyspace, |it| it.put(&key, &value))
    }

    fn Java_io_hedgerow_Keyspace_putExpiring0(
        env, keyspace: jlong, key: jbyteArray, value: jbyteArray, kind: jint, ms: jlong
    ) -> jint {
        let (key, value) = (env.bytes(key)?, env.bytes(value)?);
        let expiry = expiry(kind, ms);
        written(keyspace, |it| {
            it.put_expiring(&key, &value, expiry)
        })
    }

    fn Java_io_hedgerow_Keyspace_delete0(env, keyspace: jlong, key: jbyteArray) -> jint {
        let key = env.bytes(key)?;
        written(keyspace, |it| it.delete(&key))
    }

    fn Java_io_hedgerow_Keyspace_merge0(
        env, keyspace: jlong, key: jbyteArray, operand: jbyteArray
    ) -> jint {
        let (key, operand) = (env.bytes(key)?, env.bytes(operand)?);
        written(keyspace, |it| it.merge(&key, &operand))
    }

    fn Java_io_hedgerow_Keyspace_deleteRange0(
        env, keyspace: jlong, from: jbyteArray, to: jbyteArray, flags: jint
    ) -> jint {
        let range = Range::read(env, from, to, flags)?;
        let delete = |it: &Keyspace| match range.prefix() {
            Some(prefix) => it.delete_prefix(prefix),
            None => it.delete_range::<&[u8]>(range.bounds()),
        };
        written(keyspace, delete)
    }

    /// Gives a key a value, null for none, and returns the one before.
    fn Java_io_hedgerow_Keyspace_getAndSet0(
        env, keyspace: jlong, key: jbyteArray, value: jbyteArray
    ) -> jbyteArray {
        let (key, value) = (env.bytes(key)?, env.optional_bytes(value)?);
        let keyspace = objects::find::<Keyspace>(keyspace)?;
        let before = replace(&keyspace, &key, |_| value.as_ref().map(|it| it.to_vec()))?;
        env.new_optional(before.as_deref())
    }

    /// Gives a key that has a value another one, and returns the one before; null if it had none.
    fn Java_io_hedgerow_Keyspace_replace0(
        env, keyspace: jlong, key: jbyteArray, value: jbyteArray
    ) -> jbyteArray {
        let (key, value) = (env.bytes(key)?, env.bytes(value)?);
        let keyspace = objects::find::<Keyspace>(keyspace)?;
        let before = replace(&keyspace, &key, |old| old.map(|_| value.to_vec()))?;
        env.new_optional(before.as_deref())
    }

    fn Java_io_hedgerow_Keyspace_putIfAbsent0(
        env, keyspace: jlong, key: jbyteArray, value: jbyteArray
    ) -> jbyteArray {
        let (key, value) = (env.bytes(key)?, env.bytes(value)?);
        let present = objects::find::<Keyspace>(keyspace)?.put_if_absent(&key, &value)?;
        env.new_optional(present.as_deref())
    }

    /// Returns 1 if the value was the expected one.
    fn Java_io_hedgerow_Keyspace_compareAndSet0(
        env, keyspace: jlong, key: jbyteArray, expected: jbyteArray, new: jbyteArray
    ) -> jint {
        let key = env.bytes(key)?;
        let (expected, new) = (env.optional_bytes(expected)?, env.optional_bytes(new)?);
        let keyspace = objects::find::<Keyspace>(keyspace)?;
        let set = keyspace.compare_and_swap(&key, expected.as_deref(), new.as_deref())?;
        Ok(jint::from(set))
    }

    /// Commits the first bytes of an array of writes, all or none.
    fn Java_io_hedgerow_Batch_commit0(
        env, database: jlong, packed: jbyteArray, bytes: jint, sync: jint
    ) -> () {
        let packed = env.bytes_of(packed, bytes)?;
        let mut batch = objects::database(database)?.db.batch();
        add_all(&mut batch, &packed)?;
        Ok(batch.commit(durability(sync))?)
    }
}
