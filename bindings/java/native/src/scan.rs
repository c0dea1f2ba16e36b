//! Scans: blocks of many entries, from either end of a range.
//!
//! A block is the handle of the rest of the scan, 0 if it is over, and the entries: the length of
//! the key, that of the value, the key, the value. So a short scan is one crossing, and leaves
//! nothing to be closed.

use std::ops::Bound;
use std::sync::Mutex;

use engine::{Keys, Scan, Slice, UnorderedScan};
use hedgerow_bindings::Failure;
use jni_sys::{jbyteArray, jint, jlong};

use crate::env::{Bytes, Env, enter};
use crate::objects::{self, lock};
use crate::packed::{NONE, Pack, Unpack};
use crate::reads::Source;

/// Bits of the flags of a range.
const FROM_INCLUDED: jint = 1;
const TO_INCLUDED: jint = 2;
const PREFIX: jint = 4;
const REVERSE: jint = 8;
const KEYS_ONLY: jint = 16;
const UNORDERED: jint = 32;

/// Keys that are counted between two looks whether the thread was interrupted.
const COUNTED_AT_ONCE: usize = 1 << 14;

/// A range of keys, as Java passes it.
pub(crate) struct Range {
    /// The first key, or the prefix.
    from: Option<Bytes>,
    to: Option<Bytes>,
    flags: jint,
}

impl Range {
    pub(crate) fn read(
        env: &Env<'_>,
        from: jbyteArray,
        to: jbyteArray,
        flags: jint,
    ) -> Result<Range, Failure> {
        Ok(Range {
            from: env.optional_bytes(from)?,
            to: env.optional_bytes(to)?,
            flags,
        })
    }

    /// Reads a range that a batch has packed.
    pub(crate) fn unpack(packed: &mut Unpack<'_>) -> Result<Range, Failure> {
        Ok(Range {
            flags: jint::from(packed.u8()?),
            from: packed.optional()?.map(Bytes::from_slice),
            to: packed.optional()?.map(Bytes::from_slice),
        })
    }

    fn is(&self, flag: jint) -> bool {
        self.flags & flag != 0
    }

    /// The prefix, if it is the range of one.
    pub(crate) fn prefix(&self) -> Option<&[u8]> {
        self.from.as_deref().filter(|_| self.is(PREFIX))
    }

    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let from = bound(self.from.as_deref(), self.is(FROM_INCLUDED));
        (from, bound(self.to.as_deref(), self.is(TO_INCLUDED)))
    }
}

fn bound(key: Option<&[u8]>, is_included: bool) -> Bound<&[u8]> {
    match key {
        None => Bound::Unbounded,
        Some(key) if is_included => Bound::Included(key),
        Some(key) => Bound::Excluded(key),
    }
}

/// A scan in one direction.
pub(crate) enum Walk {
    Entries(Box<Scan>),
    EntriesBack(Box<Scan>),
    Keys(Box<Keys<Scan>>),
    KeysBack(Box<Keys<Scan>>),
    Unordered(Box<UnorderedScan>),
    UnorderedKeys(Box<Keys<UnorderedScan>>),
}

impl Walk {
    pub(crate) fn begin(source: &Source, range: &Range) -> Result<Walk, Failure> {
        if range.is(UNORDERED) {
            let scan = source.scan_unordered()?;
            return Ok(match range.is(KEYS_ONLY) {
                true => Walk::UnorderedKeys(Box::new(scan.keys())),
                false => Walk::Unordered(Box::new(scan)),
            });
        }
        let scan = match range.prefix() {
            Some(prefix) => source.scan_prefix(prefix)?,
            None => source.scan(range.bounds())?,
        };
        Ok(match (range.is(KEYS_ONLY), range.is(REVERSE)) {
            (false, false) => Walk::Entries(Box::new(scan)),
            (false, true) => Walk::EntriesBack(Box::new(scan)),
            (true, false) => Walk::Keys(Box::new(scan.keys())),
            (true, true) => Walk::KeysBack(Box::new(scan.keys())),
        })
    }

    /// Adds entries to a block until it has `bytes_max` bytes. Returns true if there may be more.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    fn fill(&mut self, block: &mut Pack, bytes_max: usize) -> Result<bool, Failure> {
        let entry = |entry: engine::Result<(Slice, Slice)>| entry.map(|it| (it.0, Some(it.1)));
        let key = |key: engine::Result<Slice>| key.map(|key| (key, None));
        match self {
            Walk::Entries(scan) => Ok(scan.visit(|key, value| {
                pack_entry(block, key, Some(value));
                block.0.len() < bytes_max
            })?),
            Walk::EntriesBack(scan) => fill(block, bytes_max, scan.rev().map(entry)),
            Walk::Keys(scan) => fill(block, bytes_max, scan.map(key)),
            Walk::KeysBack(scan) => fill(block, bytes_max, scan.rev().map(key)),
            Walk::Unordered(scan) => fill(block, bytes_max, scan.map(entry)),
            Walk::UnorderedKeys(scan) => fill(block, bytes_max, scan.map(key)),
        }
    }

    /// Counts the next entries, see [`count`].
    fn count(&mut self) -> Result<(i64, bool), Failure> {
        match self {
            Walk::Keys(keys) | Walk::KeysBack(keys) => count(keys),
            Walk::UnorderedKeys(keys) => count(keys),
            _ => Ok((0, false)),
        }
    }
}

fn fill(
    block: &mut Pack,
    bytes_max: usize,
    entries: impl Iterator<Item = engine::Result<(Slice, Option<Slice>)>>,
) -> Result<bool, Failure> {
    for entry in entries {
        let (key, value) = entry?;
        pack_entry(block, &key, value.as_deref());
        if block.0.len() >= bytes_max {
            return Ok(true);
        }
    }
    Ok(false)
}

fn pack_entry(block: &mut Pack, key: &[u8], value: Option<&[u8]>) {
    block.u32(key.len() as u32);
    block.u32(value.map_or(NONE, |value| value.len() as u32));
    block.0.extend_from_slice(key);
    block.0.extend_from_slice(value.unwrap_or_default());
}

/// A block with all these entries, and nothing left.
pub(crate) fn pack_entries(entries: &[(Slice, Slice)]) -> Vec<u8> {
    let mut block = Pack::default();
    block.i64(0);
    for (key, value) in entries {
        pack_entry(&mut block, key, Some(value));
    }
    block.0
}

native! {
    /// Begins a scan, and returns its first block. The rest of it is handed out as a handle. With
    /// `bytes_max` 0 the block has one entry, and there is no rest.
    fn Java_io_hedgerow_ReadView_scan0(
        env, kind: jint, source: jlong, keyspace: jlong, from: jbyteArray, to: jbyteArray,
        flags: jint, bytes_max: jint
    ) -> jbyteArray {
        let range = Range::read(env, from, to, flags)?;
        let source = Source::find(kind, source, keyspace)?;
        let mut walk = Walk::begin(&source, &range)?;
        let mut block = Pack::default();
        block.i64(0);
        if walk.fill(&mut block, bytes_max.max(0) as usize)? && bytes_max > 0 {
            let handle = objects::keep(source.owner(), Mutex::new(walk))?;
            block.0[..8].copy_from_slice(&handle.to_le_bytes());
        }
        env.new_bytes(&block.0)
    }

    /// The next block of a scan. Its handle is freed if it is over.
    fn Java_io_hedgerow_EntryIterator_next0(
        env, handle: jlong, bytes_max: jint
    ) -> jbyteArray {
        let walk = objects::find::<Mutex<Walk>>(handle)?;
        let mut block = Pack::default();
        block.i64(handle);
        if !lock(&walk).fill(&mut block, bytes_max.max(0) as usize)? {
            objects::free::<Mutex<Walk>>(handle)?;
            block.0[..8].fill(0);
        }
        env.new_bytes(&block.0)
    }

    /// Counts the first entries of a range: the number, and the handle of the rest, 0 for none.
    fn Java_io_hedgerow_ReadView_count0(
        env, kind: jint, source: jlong, keyspace: jlong, from: jbyteArray, to: jbyteArray,
        flags: jint
    ) -> jbyteArray {
        let range = Range::read(env, from, to, flags | KEYS_ONLY)?;
        let source = Source::find(kind, source, keyspace)?;
        let mut walk = Walk::begin(&source, &range)?;
        let (count, has_more) = walk.count()?;
        let rest = match has_more {
            true => objects::keep(source.owner(), Mutex::new(walk))?,
            false => 0,
        };
        env.new_bytes(Pack::default().i64(count).i64(rest).0.as_slice())
    }

    /// Counts the next entries of the rest of a range. Its handle is freed if it is over.
    fn Java_io_hedgerow_ReadView_countOn0(env, rest: jlong) -> jbyteArray {
        let walk = objects::find::<Mutex<Walk>>(rest)?;
        let (count, has_more) = lock(&walk).count()?;
        if !has_more {
            objects::free::<Mutex<Walk>>(rest)?;
        }
        env.new_bytes(Pack::default().i64(count).i64(rest * jlong::from(has_more)).0.as_slice())
    }
}

/// Counts `COUNTED_AT_ONCE` keys at most. Returns true, too, if there may be others.
fn count(keys: impl Iterator<Item = engine::Result<Slice>>) -> Result<(i64, bool), Failure> {
    let mut count = 0;
    for key in keys.take(COUNTED_AT_ONCE) {
        key?;
        count += 1;
    }
    Ok((count, count == COUNTED_AT_ONCE as i64))
}
