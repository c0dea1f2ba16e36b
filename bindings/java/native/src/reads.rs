//! Reads of a keyspace: as it is now, in a snapshot, or through a batch.

use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use engine::{Keyspace, Scan, Slice, Snapshot, UnorderedScan};
use hedgerow_bindings::{Failure, Held};
use jni_sys::{jbyteArray, jint, jlong, jobject};

use crate::env::{Bytes, enter};
use crate::objects::{self, Database, OwnBatch, Owned, lock};
use crate::packed::{Pack, Unpack};

/// A keyspace, and the state of it that is read.
pub(crate) struct Source {
    state: State,
    keyspace: Held<Owned<Keyspace>>,
}

enum State {
    Present,
    Snapshot(Held<Owned<Snapshot>>),
    Batch(Held<Owned<Mutex<OwnBatch>>>),
}

type Limits<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

impl Source {
    /// `kind` says what the handle `state` is of: 0 nothing, 3 a snapshot, 4 a batch.
    pub(crate) fn find(kind: jint, state: jlong, keyspace: jlong) -> Result<Source, Failure> {
        let state = match kind {
            3 => State::Snapshot(objects::find(state)?),
            4 => State::Batch(objects::find(state)?),
            _ => State::Present,
        };
        Ok(Source {
            state,
            keyspace: objects::find(keyspace)?,
        })
    }

    pub(crate) fn owner(&self) -> &Arc<Database> {
        self.keyspace.owner()
    }

    /// Calls `see` with the value of a key, if it has one, without a lock.
    fn visit(&self, key: &[u8], see: impl FnOnce(&[u8])) -> engine::Result<bool> {
        let value = match &self.state {
            State::Present => return self.keyspace.visit_value(key, see),
            State::Snapshot(snapshot) => snapshot.get(&self.keyspace, key)?,
            State::Batch(batch) => locked(batch).indexed()?.get(&self.keyspace, key)?,
        };
        Ok(value.map(|value| see(&value)).is_some())
    }

    fn contains(&self, key: &[u8]) -> engine::Result<bool> {
        match &self.state {
            State::Present => self.keyspace.contains_key(key),
            State::Snapshot(snapshot) => snapshot.contains_key(&self.keyspace, key),
            State::Batch(batch) => locked(batch).indexed()?.contains_key(&self.keyspace, key),
        }
    }

    fn multi_get(&self, keys: &[&[u8]]) -> engine::Result<Vec<Option<Slice>>> {
        match &self.state {
            State::Present => self.keyspace.multi_get(keys),
            State::Snapshot(snapshot) => snapshot.multi_get(&self.keyspace, keys),
            State::Batch(batch) => locked(batch).indexed()?.multi_get(&self.keyspace, keys),
        }
    }

    pub(crate) fn scan(&self, limits: Limits<'_>) -> engine::Result<Scan> {
        match &self.state {
            State::Present => self.keyspace.scan::<&[u8]>(limits),
            State::Snapshot(snapshot) => snapshot.scan::<&[u8]>(&self.keyspace, limits),
            State::Batch(batch) => locked(batch)
                .indexed()?
                .scan::<&[u8]>(&self.keyspace, limits),
        }
    }

    pub(crate) fn scan_prefix(&self, prefix: &[u8]) -> engine::Result<Scan> {
        match &self.state {
            State::Present => self.keyspace.scan_prefix(prefix),
            State::Snapshot(snapshot) => snapshot.scan_prefix(&self.keyspace, prefix),
            State::Batch(batch) => locked(batch).indexed()?.scan_prefix(&self.keyspace, prefix),
        }
    }

    pub(crate) fn scan_unordered(&self) -> engine::Result<UnorderedScan> {
        match &self.state {
            State::Present => self.keyspace.scan_unordered(),
            State::Snapshot(snapshot) => snapshot.scan_unordered(&self.keyspace),
            State::Batch(batch) => locked(batch).indexed()?.scan_unordered(&self.keyspace),
        }
    }
}

fn locked(batch: &Held<Owned<Mutex<OwnBatch>>>) -> MutexGuard<'_, OwnBatch> {
    lock(batch)
}

/// Keys that Java passes in one array.
pub(crate) fn unpack_keys(keys: &Bytes) -> Result<Vec<&[u8]>, Failure> {
    Unpack(keys).all(Unpack::bytes)
}

/// Values for Java in one array.
pub(crate) fn pack_values(values: &[Option<Slice>]) -> Vec<u8> {
    let mut packed = Pack::default();
    for value in values {
        packed.optional(value.as_deref());
    }
    packed.0
}

native! {
    /// The value of a key; null if it has none.
    fn Java_io_hedgerow_ReadView_get0(
        env, kind: jint, source: jlong, keyspace: jlong, key: jbyteArray
    ) -> jbyteArray {
        let key = env.bytes(key)?;
        let mut array = env.new_optional(None);
        let see = |value: &[u8]| array = env.new_bytes(value);
        Source::find(kind, source, keyspace)?.visit(&key, see)?;
        array
    }

    /// Copies the value of a key to a buffer. Returns its length, -1 if there is none.
    fn Java_io_hedgerow_ReadView_getDirect0(
        env, kind: jint, source: jlong, keyspace: jlong,
        key: jobject, key_at: jint, key_bytes: jint,
        value: jobject, value_at: jint, value_bytes: jint
    ) -> jint {
        let key = env.buffer_bytes(key, (key_at, key_bytes))?;
        let mut copied = Ok(-1);
        let see = |found: &[u8]| {
            let filled = env.fill_buffer(value, (value_at, value_bytes), found);
            copied = filled.map(|()| found.len() as jint);
        };
        Source::find(kind, source, keyspace)?.visit(&key, see)?;
        copied
    }

    /// Returns 1 if a key has a value.
    fn Java_io_hedgerow_ReadView_contains0(
        env, kind: jint, source: jlong, keyspace: jlong, key: jbyteArray
    ) -> jint {
        let key = env.bytes(key)?;
        let source = Source::find(kind, source, keyspace)?;
        Ok(jint::from(source.contains(&key)?))
    }

    /// The values of packed keys, packed.
    fn Java_io_hedgerow_ReadView_multiGet0(
        env, kind: jint, source: jlong, keyspace: jlong, keys: jbyteArray
    ) -> jbyteArray {
        let keys = env.bytes(keys)?;
        let source = Source::find(kind, source, keyspace)?;
        let values = source.multi_get(&unpack_keys(&keys)?)?;
        env.new_bytes(&pack_values(&values))
    }
}
