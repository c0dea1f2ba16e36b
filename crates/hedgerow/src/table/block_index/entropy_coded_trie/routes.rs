//! Level 3: for each group in several blocks, the data that decides between them.
//!
//! First comes a *fence*: the bits that distinguish the group's prefix from those neighbours that
//! are no block's first or last prefix, because level 1 does not know these. Then come the *cuts*,
//! in one of two forms. Each separates the last suffix of a block from the first of the next.
//!
//! - *tail*: the trie of the last suffixes, each leaf followed by the bits that it shares with the
//!   first suffix of the next block beyond the leaf's depth. The most compact.
//! - *array*: the shortest prefixes of the first suffixes, one after the other.

use super::bits::{BitWriter, Cursor};
use super::code;
use super::hash_trie;
use super::hash_trie::{HASH_BITS, LeafKind, WalkEnd};
use crate::base::error::{Error, Result};

/// The distance between the samples in the stream of routes, in blocks, as a power of 2. It is
/// below the size of most groups, so that a lookup skips few groups.
pub(super) fn sample_shift(blocks: usize, groups: usize) -> u32 {
    (blocks / groups.max(1)).max(1).ilog2().clamp(4, 6)
}

/// The number of samples of the routes of `blocks` blocks: one for each `2^sample_shift` blocks,
/// rounded up.
pub(super) fn samples_for(blocks: usize, sample_shift: u32) -> usize {
    blocks.div_ceil(1 << sample_shift)
}

/// The form `array` stores the place of every such separator of a group.
const CHUNK_SEPARATORS: usize = 16;
/// The number of bits of a separator's size, which is stored minus one.
const SIZE_BITS: usize = 6;

/// The form of the cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Tail,
    Array,
}

impl Form {
    pub(super) fn code(self) -> u8 {
        match self {
            Form::Tail => 0,
            Form::Array => 1,
        }
    }

    pub(super) fn of_code(code: u8) -> Result<Form> {
        match code {
            0 => Ok(Form::Tail),
            1 => Ok(Form::Array),
            _ => Err(Error::corruption(format!(
                "expected an index of the form 0 or 1, found {code}"
            ))),
        }
    }
}

/// Two neighbouring suffixes in two blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RouteCut {
    /// The last suffix of the block before.
    pub(super) last: u64,
    /// The first suffix of the block after.
    pub(super) first: u64,
}

impl RouteCut {
    /// The number of leading bits that they share.
    fn shared(self) -> u32 {
        (self.last ^ self.first).leading_zeros()
    }
}

/// The `count` bits of a hash from `depth` on.
fn middle(hash: u64, depth: u32, count: u32) -> u64 {
    match count {
        0 => 0,
        _ => hash << depth >> (HASH_BITS - count),
    }
}

/// Writes a fence: the bits of `key` from its leaf's depth to the first one that differs from its
/// neighbours. `shared` is the number of bits that it shares with them.
pub(super) fn put_fence(out: &mut BitWriter, key: u64, depth: u32, shared: Option<u32>) {
    let Some(shared) = shared.filter(|shared| *shared >= depth) else {
        return out.put(0, 1);
    };
    let count = shared + 1 - depth;
    out.put(1, 1);
    code::put_rice(out, count as usize - 1);
    out.put(middle(key, depth, count), count as usize);
}

/// Compares a key with the key of a fence.
#[inline]
pub(super) fn compare_with_fence(
    cursor: &mut Cursor<'_>,
    key: u64,
    depth: u32,
) -> std::cmp::Ordering {
    if !cursor.take_bit() {
        return std::cmp::Ordering::Equal;
    }
    let count = (code::take_rice(cursor) as u32 + 1).min(HASH_BITS.saturating_sub(depth));
    middle(key, depth, count).cmp(&cursor.take(count as usize))
}

#[inline]
fn skip_fence(cursor: &mut Cursor<'_>) {
    if cursor.take_bit() {
        let count = code::take_rice(cursor) + 1;
        cursor.advance(count);
    }
}

/// Writes the cuts of one group.
pub(super) fn put_cuts(out: &mut BitWriter, cuts: &[RouteCut], form: Form) {
    match form {
        Form::Tail => put_tails(out, cuts),
        Form::Array => put_array(out, cuts),
    }
}

/// The number of the group's cuts before a suffix: the index of its block. Exact for a suffix of
/// the group. For another suffix it may be one too small.
#[inline]
pub(super) fn route(cursor: &mut Cursor<'_>, cuts: usize, suffix: u64, form: Form) -> usize {
    let before = match form {
        Form::Tail => route_by_tails(cursor, cuts, suffix),
        Form::Array => route_by_array(cursor, cuts, suffix),
    };
    before.min(cuts)
}

/// Skips the fence and the cuts of a group.
#[inline]
pub(super) fn skip(cursor: &mut Cursor<'_>, cuts: usize, form: Form) {
    skip_fence(cursor);
    match form {
        Form::Tail if cuts == 1 => Tails::skip_leaf(cursor),
        Form::Tail => hash_trie::skip::<Tails>(cursor, cuts),
        Form::Array => skip_array(cursor, cuts),
    }
}

/// A trie of last suffixes. Its leaves have tails.
#[derive(Debug)]
pub(super) struct Tails;

impl LeafKind for Tails {
    const JUMP_OVER: usize = 32;
    const JUMP_BITS: usize = 6;

    #[inline]
    fn skip_leaf(cursor: &mut Cursor<'_>) {
        let symbol = code::take_rice(cursor);
        cursor.advance(symbol.saturating_sub(1));
    }

    #[inline]
    fn skip_small(_: &mut Cursor<'_>, _: usize) -> bool {
        false
    }
}

/// Writes tails. A tail is 0 if the suffixes differ above the leaf. Else it is one more than the
/// number of bits that they share below the leaf, and then these bits.
fn put_tails(out: &mut BitWriter, cuts: &[RouteCut]) {
    let lasts: Vec<u64> = cuts.iter().map(|cut| cut.last).collect();
    hash_trie::encode::<Tails>(&lasts, out, &mut |rank, depth, out| {
        let cut = cuts[rank];
        let Some(shared) = cut.shared().checked_sub(depth) else {
            return code::put_rice(out, 0);
        };
        code::put_rice(out, shared as usize + 1);
        out.put(middle(cut.last, depth, shared), shared as usize);
    });
}

#[inline]
fn route_by_tails(cursor: &mut Cursor<'_>, cuts: usize, suffix: u64) -> usize {
    let WalkEnd { leaf, rank, depth } = hash_trie::locate::<Tails>(cursor, cuts, suffix);
    if !leaf {
        return rank;
    }
    let Some(shared) = code::take_rice(cursor).checked_sub(1) else {
        return rank;
    };
    // At the first difference, the last suffix has a zero.
    let count = (shared as u32 + 1).min(HASH_BITS - depth);
    if count == 0 {
        return rank;
    }
    let last = cursor.take(count as usize - 1) << 1;
    rank + usize::from(middle(suffix, depth, count) > last)
}

/// Writes for each cut the shortest separator: the number of its bits, then the bits, up to the
/// first one in which the first suffix exceeds the last. Many separators are preceded by the place
/// of every sixteenth.
fn put_array(out: &mut BitWriter, cuts: &[RouteCut]) {
    let mut separators = BitWriter::default();
    let mut starts = Vec::new();
    for (number, cut) in cuts.iter().enumerate() {
        if number > 0 && number % CHUNK_SEPARATORS == 0 {
            starts.push(separators.bits());
        }
        let count = cut.shared() + 1;
        separators.put(u64::from(count - 1), SIZE_BITS);
        separators.put(middle(cut.first, 0, count), count as usize);
    }
    if let Some(&last) = starts.last() {
        let width = last.ilog2() as usize + 1;
        out.put(width as u64 - 1, SIZE_BITS);
        for start in starts {
            out.put(start as u64, width);
        }
    }
    out.append(&separators);
}

/// The places of a group's chunks of separators.
struct Chunks<'a> {
    starts: Cursor<'a>,
    count: usize,
    width: usize,
}

impl<'a> Chunks<'a> {
    fn of(cursor: &mut Cursor<'a>, cuts: usize) -> Chunks<'a> {
        let count = cuts.saturating_sub(1) / CHUNK_SEPARATORS;
        let width = match count {
            0 => 0,
            _ => cursor.take(SIZE_BITS) as usize + 1,
        };
        let starts = *cursor;
        cursor.advance(count.saturating_mul(width));
        Chunks {
            starts,
            count,
            width,
        }
    }

    /// Returns a cursor at the first separator of a chunk. `first` is at the first separator of
    /// all.
    fn at<'b>(&self, first: &Cursor<'b>, chunk: usize) -> Cursor<'b> {
        let mut cursor = *first;
        if let Some(before) = chunk.checked_sub(1) {
            let mut start = self.starts;
            start.advance(before * self.width);
            cursor.advance((start.take(self.width) as usize).min(cursor.bits_left()));
        }
        cursor
    }
}

/// Returns true if a suffix is at or behind the next separator.
#[inline]
fn is_behind_separator(cursor: &mut Cursor<'_>, suffix: u64) -> bool {
    let count = cursor.take(SIZE_BITS) as usize + 1;
    suffix >> (HASH_BITS as usize - count) >= cursor.take(count)
}

#[inline]
fn route_by_array(cursor: &mut Cursor<'_>, cuts: usize, suffix: u64) -> usize {
    let chunks = Chunks::of(cursor, cuts);
    let (mut low, mut high) = (0, chunks.count + 1);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if is_behind_separator(&mut chunks.at(cursor, middle), suffix) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *cursor = chunks.at(cursor, low);
    let start = low * CHUNK_SEPARATORS;
    let end = cuts.min(start + CHUNK_SEPARATORS);
    let behind = (start..end).take_while(|_| is_behind_separator(cursor, suffix));
    start + behind.count()
}

fn skip_array(cursor: &mut Cursor<'_>, cuts: usize) {
    let chunks = Chunks::of(cursor, cuts);
    *cursor = chunks.at(cursor, chunks.count);
    for _ in chunks.count * CHUNK_SEPARATORS..cuts {
        let count = cursor.take(SIZE_BITS) as usize + 1;
        cursor.advance(count);
    }
}
