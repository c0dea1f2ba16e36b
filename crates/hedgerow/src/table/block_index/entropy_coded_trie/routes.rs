//! Level 3: for each group that is in several blocks, what decides between them.
//!
//! First a *fence*: the bits by which the group's prefix is told from those of its neighbours that
//! are no block's first or last, since level 1 does not know these. Then the *cuts*, in one of two
//! forms: each separates the last suffix of a block from the first of the next.
//!
//! - *tail*: the trie of the last suffixes, each leaf followed by the bits that it shares with the
//!   first suffix of the next block beyond the leaf's depth. The most compact.
//! - *array*: the shortest prefixes of the first suffixes, one after the other.

use super::bits::{BitWriter, Cursor};
use super::code;
use super::trie;
use super::trie::{HASH_BITS, Kind, Place};

/// How many blocks, as a power of 2, lie between the places noted in the stream of routes: fewer than
/// those of most groups, so that few groups have to be passed over.
pub(super) fn sample_shift(blocks: usize, groups: usize) -> u32 {
    (blocks / groups.max(1)).max(1).ilog2().clamp(4, 6)
}

/// The form `array` notes the place of every so many separators of one group.
const CHUNK_SEPARATORS: usize = 16;
/// A separator's size is stored in so many bits, less one.
const SIZE_BITS: usize = 6;

/// How cuts are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Tail,
    Array,
}

/// Two neighbouring suffixes in two blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// The last suffix of the block before.
    pub(super) last: u64,
    /// The first of the block after.
    pub(super) first: u64,
}

impl Cut {
    /// How many bits they share.
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

/// Writes a fence of the first bits of `key`, from its leaf's depth to where its neighbours are told
/// from it: one more than it shares with them.
pub(super) fn put_fence(out: &mut BitWriter, key: u64, depth: u32, shared: Option<u32>) {
    let Some(shared) = shared.filter(|shared| *shared >= depth) else {
        return out.put(0, 1);
    };
    let count = shared + 1 - depth;
    out.put(1, 1);
    code::put_rice(out, count as usize - 1);
    out.put(middle(key, depth, count), count as usize);
}

/// How a key compares with the one that a fence is of.
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
pub(super) fn put_cuts(out: &mut BitWriter, cuts: &[Cut], form: Form) {
    match form {
        Form::Tail => put_tails(out, cuts),
        Form::Array => put_array(out, cuts),
    }
}

/// How many of the group's cuts are before a suffix: in which of its blocks it is. Exact for a
/// suffix that the group has; for others, one too few at most.
#[inline]
pub(super) fn route(cursor: &mut Cursor<'_>, cuts: usize, suffix: u64, form: Form) -> usize {
    let before = match form {
        Form::Tail => route_by_tails(cursor, cuts, suffix),
        Form::Array => route_by_array(cursor, cuts, suffix),
    };
    before.min(cuts)
}

/// Passes over the fence and cuts of a group.
#[inline]
pub(super) fn skip(cursor: &mut Cursor<'_>, cuts: usize, form: Form) {
    skip_fence(cursor);
    match form {
        Form::Tail if cuts == 1 => Tails::skip_leaf(cursor),
        Form::Tail => trie::skip::<Tails>(cursor, cuts),
        Form::Array => skip_array(cursor, cuts),
    }
}

/// A trie of last suffixes: its leaves have tails.
#[derive(Debug)]
pub(super) struct Tails;

impl Kind for Tails {
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

/// A tail is 0 when the suffixes differ above the leaf, else one more than the bits that they share
/// below it, and these bits.
fn put_tails(out: &mut BitWriter, cuts: &[Cut]) {
    let lasts: Vec<u64> = cuts.iter().map(|cut| cut.last).collect();
    trie::encode::<Tails>(&lasts, out, &mut |rank, depth, out| {
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
    let Place { leaf, rank, depth } = trie::locate::<Tails>(cursor, cuts, suffix);
    if !leaf {
        return rank;
    }
    let Some(shared) = code::take_rice(cursor).checked_sub(1) else {
        return rank;
    };
    // Where they differ, the last suffix has a zero.
    let count = (shared as u32 + 1).min(HASH_BITS - depth);
    if count == 0 {
        return rank;
    }
    let last = cursor.take(count as usize - 1) << 1;
    rank + usize::from(middle(suffix, depth, count) > last)
}

/// For each cut the number of the bits by which the first suffix exceeds the last one, and these.
/// If there are many, before them where every sixteenth begins.
fn put_array(out: &mut BitWriter, cuts: &[Cut]) {
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

/// Where the separators of a chunk are.
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

    /// A cursor at the first separator of a chunk, from one at the first of all.
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

/// Whether a suffix is at or behind the next separator.
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
