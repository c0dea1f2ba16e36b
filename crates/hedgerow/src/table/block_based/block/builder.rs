//! Writes a block. The entries stay separate until the block is finished: only then the smallest
//! sequence number is known, and the others are stored as small distances above it.

use crate::base::codec::{packed, shared_prefix, varint};
use crate::base::entry::{SeqNo, Tag};
use crate::base::page::Handle;
use crate::table::entry_parts::{ValueHandle, put_tag, tag_bytes};

use super::entry_head::{LENGTH_ESCAPE, RawEntry};
use super::{PREFIX_BYTES, RESTART_ENTRIES};

#[derive(Debug)]
struct EntryHead {
    seqno: SeqNo,
    tag: Tag,
    out_of_line: bool,
    shared: usize,
    key_bytes: usize,
    value_bytes: usize,
}

/// Collects the entries of one block, and then of the next.
#[derive(Debug, Default)]
pub(in super::super) struct BlockBuilder {
    pending: Vec<EntryHead>,
    /// The keys without their shared bytes.
    keys: Vec<u8>,
    values: Vec<u8>,
    last_key: Vec<u8>,
    /// `None` before the first entry of all blocks.
    last_seqno: Option<SeqNo>,
    base: Option<SeqNo>,
    largest_seqno: SeqNo,
    /// The bytes of the lengths.
    lengths_bytes: usize,
    heads: Vec<u8>,
    /// For each restart point the places of the head and the value, and the integer.
    restarts: Vec<(usize, usize, u64)>,
}

impl BlockBuilder {
    /// Checks that `(key, seqno)` comes after the last entry. Returns true if the key equals the
    /// last one. A table out of order would answer wrong, so this is always checked.
    pub(in super::super) fn check_order(&self, key: &[u8], seqno: SeqNo) -> bool {
        let Some(last_seqno) = self.last_seqno else {
            return false;
        };
        let same_key = *key == self.last_key[..];
        assert!(
            same_key || *key > self.last_key[..],
            "entries are added in order: {key:?} after {:?}",
            self.last_key
        );
        assert!(
            !same_key || seqno < last_seqno,
            "versions are added newest first: {seqno:?} after {last_seqno:?}"
        );
        same_key
    }

    /// Appends an entry with its value.
    pub(in super::super) fn add(&mut self, key: &[u8], seqno: SeqNo, tag: Tag, value: &[u8]) {
        self.add_key(key, seqno, tag, false);
        self.add_value(value);
    }

    /// Appends an entry whose value is out of line.
    pub(in super::super) fn add_out_of_line(
        &mut self,
        key: &[u8],
        seqno: SeqNo,
        tag: Tag,
        handle: Handle,
        bytes: u32,
    ) {
        self.add_key(key, seqno, tag, true);
        let start = self.values.len();
        ValueHandle { handle, bytes }.put(&mut self.values);
        self.note_value_bytes(self.values.len() - start);
    }

    /// Appends an entry of another block under this key.
    pub(in super::super) fn add_stored(&mut self, key: &[u8], entry: &RawEntry, value: &[u8]) {
        self.add_key(key, entry.seqno, entry.tag, entry.out_of_line);
        self.add_value(value);
    }

    fn add_key(&mut self, key: &[u8], seqno: SeqNo, tag: Tag, out_of_line: bool) {
        let restart = self.pending.len().is_multiple_of(RESTART_ENTRIES);
        let same = shared_prefix(&self.last_key, key);
        let shared = if restart { 0 } else { same };
        self.keys.extend_from_slice(&key[shared..]);
        self.last_key.truncate(same);
        self.last_key.extend_from_slice(&key[same..]);
        self.last_seqno = Some(seqno);
        self.base = Some(self.base.map_or(seqno, |base| base.min(seqno)));
        self.largest_seqno = self.largest_seqno.max(seqno);
        self.pending.push(EntryHead {
            seqno,
            tag,
            out_of_line,
            shared,
            key_bytes: key.len() - shared,
            value_bytes: 0,
        });
    }

    fn add_value(&mut self, value: &[u8]) {
        self.values.extend_from_slice(value);
        self.note_value_bytes(value.len());
    }

    fn note_value_bytes(&mut self, bytes: usize) {
        if let Some(pending) = self.pending.last_mut() {
            pending.value_bytes = bytes;
            self.lengths_bytes += lengths_bytes(pending.shared, pending.key_bytes, bytes);
        }
    }

    /// The key of the last entry, even after its block is finished.
    pub(in super::super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// An upper bound on the block's size if it were finished now.
    pub(in super::super) fn bytes_max(&self) -> usize {
        let base = self.base.unwrap_or(self.largest_seqno);
        let content_bytes = self.keys.len() + self.values.len() + self.lengths_bytes;
        block_bytes(self.pending.len(), content_bytes, base, self.largest_seqno)
    }

    /// An upper bound on the block's size with one more entry.
    pub(in super::super) fn bytes_max_with(
        &self,
        key: &[u8],
        seqno: SeqNo,
        value_bytes: usize,
    ) -> usize {
        let base = self.base.map_or(seqno, |base| base.min(seqno));
        let largest = self.largest_seqno.max(seqno);
        let lengths_bytes = self.lengths_bytes + lengths_bytes(key.len(), key.len(), value_bytes);
        let content_bytes =
            self.keys.len() + key.len() + self.values.len() + value_bytes + lengths_bytes;
        block_bytes(self.pending.len() + 1, content_bytes, base, largest)
    }

    pub(in super::super) fn entries(&self) -> usize {
        self.pending.len()
    }

    /// Returns true if the values of the last `count` entries are all in the block.
    pub(in super::super) fn are_inline(&self, count: usize) -> bool {
        let mut last = self.pending.iter().rev().take(count);
        last.all(|pending| !pending.out_of_line)
    }

    /// Moves the last `count` entries to a new builder. They begin the next block.
    pub(in super::super) fn take_back(&mut self, count: usize) -> BlockBuilder {
        let all = std::mem::take(self);
        let mut next = BlockBuilder::default();
        let (mut key, mut keys, mut values) = (Vec::new(), &all.keys[..], &all.values[..]);
        for (number, pending) in all.pending.iter().enumerate() {
            let (rest, value);
            (rest, keys) = keys.split_at(pending.key_bytes);
            (value, values) = values.split_at(pending.value_bytes);
            key.truncate(pending.shared);
            key.extend_from_slice(rest);
            let to = match number + count < all.pending.len() {
                true => &mut *self,
                false => &mut next,
            };
            to.add_key(&key, pending.seqno, pending.tag, pending.out_of_line);
            to.add_value(value);
        }
        next
    }

    pub(in super::super) fn memory_bytes(&self) -> usize {
        self.keys.capacity()
            + self.values.capacity()
            + self.heads.capacity()
            + self.pending.capacity() * size_of::<EntryHead>()
            + self.last_key.capacity()
    }

    /// Replaces `out` with the block and starts the next one, which knows the last entry.
    pub(in super::super) fn finish(&mut self, out: &mut Vec<u8>) {
        out.clear();
        let base = self.base.take().expect("a block has entries");
        let first_key = &self.keys[..self.pending[0].key_bytes];
        let shared = shared_prefix(first_key, &self.last_key);
        let tag_bytes = tag_bytes(base, self.largest_seqno);
        self.write_heads(base, tag_bytes, shared);
        let offset_max = self.heads.len().max(self.values.len());
        let offset_bytes = packed::width_for(offset_max as u64);

        varint::put(out, base.0);
        out.push(tag_bytes as u8 | (offset_bytes as u8) << 4);
        varint::put(out, shared as u64);
        varint::put(out, self.restarts.len() as u64);
        varint::put(out, self.heads.len() as u64);
        for &(head, value, _) in &self.restarts {
            packed::put(out, head as u64, offset_bytes);
            packed::put(out, value as u64, offset_bytes);
        }
        for &(_, _, prefix) in &self.restarts {
            out.extend_from_slice(&prefix.to_be_bytes()[8 - PREFIX_BYTES..]);
        }
        out.extend_from_slice(&self.heads);
        out.extend_from_slice(&self.values);
        self.pending.clear();
        self.keys.clear();
        self.values.clear();
        self.largest_seqno = SeqNo(0);
        self.lengths_bytes = 0;
    }

    fn write_heads(&mut self, base: SeqNo, tag_bytes: usize, shared: usize) {
        self.heads.clear();
        self.restarts.clear();
        let mut keys = &self.keys[..];
        let mut value = 0;
        for (i, pending) in self.pending.iter().enumerate() {
            let (key, after) = keys.split_at(pending.key_bytes);
            keys = after;
            if i.is_multiple_of(RESTART_ENTRIES) {
                let prefix = packed::get_ordered(key, shared, PREFIX_BYTES);
                self.restarts.push((self.heads.len(), value, prefix));
            }
            pending.put_front(&mut self.heads, base, tag_bytes);
            self.heads.extend_from_slice(key);
            value += pending.value_bytes;
        }
    }
}

/// An upper bound on the bytes of an entry's lengths and of its kind.
fn lengths_bytes(shared: usize, key_bytes: usize, value_bytes: usize) -> usize {
    let escaped = |length: usize| match length.checked_sub(LENGTH_ESCAPE) {
        Some(rest) => varint::size(rest as u64),
        None => 0,
    };
    2 + escaped(shared) + escaped(key_bytes) + varint::size(value_bytes as u64)
}

/// An upper bound on the size of a block of `entries` entries with `content_bytes` bytes of keys,
/// values and lengths.
fn block_bytes(entries: usize, content_bytes: usize, base: SeqNo, largest: SeqNo) -> usize {
    let heads_and_values = content_bytes + entries * tag_bytes(base, largest);
    let offset_bytes = packed::width_for(heads_and_values as u64);
    let front_bytes = varint::size(base.0) + 1 + 3 * varint::size(heads_and_values as u64);
    let restarts = entries.div_ceil(RESTART_ENTRIES);
    front_bytes + heads_and_values + restarts * (PREFIX_BYTES + 2 * offset_bytes)
}

impl EntryHead {
    fn put_front(&self, out: &mut Vec<u8>, base: SeqNo, tag_bytes: usize) {
        let (shared, unshared) = (
            self.shared.min(LENGTH_ESCAPE),
            self.key_bytes.min(LENGTH_ESCAPE),
        );
        out.push((shared << 4 | unshared) as u8);
        for length in [self.shared, self.key_bytes] {
            if length >= LENGTH_ESCAPE {
                varint::put(out, (length - LENGTH_ESCAPE) as u64);
            }
        }
        varint::put(out, self.value_bytes as u64);
        let above_base = self.seqno.0 - base.0;
        put_tag(out, self.tag, self.out_of_line, above_base, tag_bytes);
    }
}
