//! A trie over sorted hashes, coded as the number of keys in the left half of every node, in
//! pre-order; after SILT, strongly ordered.
//!
//! A subtree of one key or none takes no space. The caller knows the number of keys at the root. So
//! the trie knows only the bits of a key that distinguish it from the others. It answers any key
//! with a rank. The rank is right for members and off by at most one for all others:
//! ```text
//! keys 00.. 010.. 011.. 1..     root: 3 of 4 left
//!                              /                \
//!                     1 of 3 left               (one key)
//!                    /          \
//!              (one key)     0 of 2 left
//!                                   \
//!                                1 of 2 left
//! ```
//!
//! A leaf may be followed by bits of the caller's. A large node is followed by the size of its left
//! subtree, so that a walk to the right can skip it.

use super::bits::{BitWriter, Cursor};
use super::code;

/// The number of bits of a hash: the maximum of levels of a trie.
pub(super) const HASH_BITS: u32 = 64;

/// The user's part of a trie.
pub(super) trait LeafKind {
    /// The number of keys above which a node is followed by the size of its left subtree.
    const JUMP_OVER: usize;
    /// The number of raw low bits of such a size.
    const JUMP_BITS: usize;
    /// Skips the bits behind a leaf.
    fn skip_leaf(cursor: &mut Cursor<'_>);
    /// Skips a subtree of some keys at once, if it can.
    fn skip_small(cursor: &mut Cursor<'_>, keys: usize) -> bool;
}

/// A trie with nodes only.
#[derive(Debug)]
pub(super) struct Bare;

impl LeafKind for Bare {
    const JUMP_OVER: usize = 16;
    const JUMP_BITS: usize = 4;

    #[inline]
    fn skip_leaf(_: &mut Cursor<'_>) {}

    #[inline]
    fn skip_small(cursor: &mut Cursor<'_>, keys: usize) -> bool {
        code::skip_small(cursor, keys)
    }
}

/// Writes the trie of sorted, distinct keys. `put_leaf` gets the rank and depth of every leaf.
pub(super) fn encode<K: LeafKind>(
    keys: &[u64],
    out: &mut BitWriter,
    put_leaf: &mut impl FnMut(usize, u32, &mut BitWriter),
) {
    debug_assert!(keys.is_sorted_by(|a, b| a < b), "keys ascend and differ");
    encode_below::<K, _>(keys, 0, 0, out, put_leaf);
}

/// Writes the subtree of `keys`, which begin at `rank` and share `depth` bits.
fn encode_below<K: LeafKind, F: FnMut(usize, u32, &mut BitWriter)>(
    keys: &[u64],
    rank: usize,
    depth: u32,
    out: &mut BitWriter,
    put_leaf: &mut F,
) {
    match keys.len() {
        0 => return,
        1 => return put_leaf(rank, depth, out),
        _ => assert!(depth < HASH_BITS, "keys differ within {HASH_BITS} bits"),
    }
    let split = keys.partition_point(|key| key << depth >> (HASH_BITS - 1) == 0);
    let (left, right) = keys.split_at(split);
    code::put_node(out, keys.len(), split);
    if keys.len() > K::JUMP_OVER {
        let mut apart = BitWriter::default();
        encode_below::<K, F>(left, rank, depth + 1, &mut apart, put_leaf);
        code::put_jump(out, apart.bits(), K::JUMP_BITS);
        out.append(&apart);
    } else {
        encode_below::<K, F>(left, rank, depth + 1, out, put_leaf);
    }
    encode_below::<K, F>(right, rank + split, depth + 1, out, put_leaf);
}

/// The end of a walk for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WalkEnd {
    /// True if the walk ended at a key: the wanted key equals it, or precedes or follows it
    /// immediately. False if it ended beside all keys: the wanted key is absent, and exactly `rank`
    /// keys are smaller.
    pub(super) leaf: bool,
    pub(super) rank: usize,
    /// The number of the key's bits on the walk.
    pub(super) depth: u32,
}

/// Walks from the root of a trie of `keys` keys. The cursor begins at the root and ends behind the
/// leaf's path, at the bits that follow the leaf.
#[inline]
pub(super) fn locate<K: LeafKind>(
    cursor: &mut Cursor<'_>,
    mut keys: usize,
    wanted: u64,
) -> WalkEnd {
    let (mut rank, mut depth) = (0, 0);
    while keys > 1 && depth < HASH_BITS {
        let left = code::take_node(cursor, keys);
        let goes_right = wanted << depth >> (HASH_BITS - 1) == 1;
        depth += 1;
        let jump = (keys > K::JUMP_OVER).then(|| code::take_jump(cursor, K::JUMP_BITS));
        if goes_right {
            match jump {
                Some(bits) => cursor.advance(bits),
                None => skip::<K>(cursor, left),
            }
            rank += left;
            keys -= left;
        } else {
            keys = left;
        }
    }
    WalkEnd {
        leaf: keys == 1,
        rank,
        depth,
    }
}

/// Skips the subtree of `keys` keys.
#[inline]
pub(super) fn skip<K: LeafKind>(cursor: &mut Cursor<'_>, mut keys: usize) {
    // The right subtrees still to skip, from the root down: at most one of each level.
    let mut pending = [0u16; HASH_BITS as usize];
    let mut count: usize = 0;
    while !cursor.is_past_end() {
        if keys <= 1 || K::skip_small(cursor, keys) {
            if keys == 1 {
                K::skip_leaf(cursor);
            }
            let Some(next) = count.checked_sub(1) else {
                return;
            };
            count = next;
            keys = usize::from(pending[count]);
            continue;
        }
        let left = code::take_node(cursor, keys);
        if keys > K::JUMP_OVER {
            let bits = code::take_jump(cursor, K::JUMP_BITS);
            cursor.advance(bits);
            keys -= left;
            continue;
        }
        if count == pending.len() {
            return;
        }
        pending[count] = (keys - left) as u16;
        count += 1;
        keys = left;
    }
}

#[cfg(test)]
pub(super) mod tests;
