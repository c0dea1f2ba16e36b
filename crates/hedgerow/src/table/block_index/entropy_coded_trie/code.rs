//! The codes of an entropy-coded trie, after SILT: the number of a node's `n` keys in its left
//! half, and small integers.
//!
//! A uniform hash goes left with probability 1/2. So for up to 16 keys the number has a static
//! Huffman code with the binomial coefficients as weights. For more keys, its distance from the
//! half is an exp-Golomb code of order 0. The codes are tables made at compile time, indexed by the
//! next eight bits. Whole subtrees of a few keys have a table of their sizes.

use super::bits::{BitWriter, Cursor};

/// The maximum of keys of a node with a Huffman code.
const HUFFMAN_KEYS_MAX: usize = 16;
/// The number of bits that index the decoding tables. 2 of 1000 codes are longer.
const INDEX_BITS: usize = 8;
/// Marks a code that is longer than the table's index.
const LONG: u8 = 0xFF;
/// The maximum of keys of a subtree that is skipped as a whole.
const SMALL_KEYS_MAX: usize = 5;
/// The number of bits that index the table of whole subtrees. Most take 9 bits or fewer.
const SMALL_BITS: usize = 11;
/// The divisor of Rice codes is 4.
const RICE_BITS: usize = 2;

/// A codeword: its bits and their number.
#[derive(Debug, Clone, Copy)]
struct Word {
    bits: u16,
    count: u8,
}

/// `WORDS[n][k]`: k of n keys are on the left.
static WORDS: [[Word; HUFFMAN_KEYS_MAX + 1]; HUFFMAN_KEYS_MAX + 1] = words();
/// `NODES[n][next bits]`: k and, in the upper half, the number of bits of the codeword minus one.
static NODES: [[u8; 1 << INDEX_BITS]; HUFFMAN_KEYS_MAX + 1] = nodes();

const fn words() -> [[Word; HUFFMAN_KEYS_MAX + 1]; HUFFMAN_KEYS_MAX + 1] {
    let mut words = [[Word { bits: 0, count: 0 }; HUFFMAN_KEYS_MAX + 1]; HUFFMAN_KEYS_MAX + 1];
    let mut n = 2;
    while n <= HUFFMAN_KEYS_MAX {
        words[n] = huffman(n);
        n += 1;
    }
    words
}

/// The Huffman code of a binomial distribution. Of equal weights, the one made earlier is merged
/// first. The first of two merged ones gets the bit 0.
const fn huffman(n: usize) -> [Word; HUFFMAN_KEYS_MAX + 1] {
    const NODES_MAX: usize = 2 * HUFFMAN_KEYS_MAX + 1;
    let symbols = n + 1;
    let mut weights = [0u32; NODES_MAX];
    let mut parents = [(0usize, 0u16); NODES_MAX];
    let mut merged = [false; NODES_MAX];
    let (mut k, mut coefficient) = (0, 1);
    while k <= n {
        weights[k] = coefficient;
        coefficient = coefficient * (n - k) as u32 / (k as u32 + 1);
        k += 1;
    }
    let mut made = symbols;
    while made < 2 * symbols - 1 {
        let mut bit = 0;
        while bit < 2 {
            let (mut lightest, mut i) = (made, 0);
            while i < made {
                if !merged[i] && (lightest == made || weights[i] < weights[lightest]) {
                    lightest = i;
                }
                i += 1;
            }
            merged[lightest] = true;
            parents[lightest] = (made, bit);
            weights[made] += weights[lightest];
            bit += 1;
        }
        made += 1;
    }
    let mut words = [Word { bits: 0, count: 0 }; HUFFMAN_KEYS_MAX + 1];
    let mut symbol = 0;
    while symbol < symbols {
        let (mut node, mut word) = (symbol, Word { bits: 0, count: 0 });
        while node != made - 1 {
            word.bits |= parents[node].1 << word.count;
            word.count += 1;
            node = parents[node].0;
        }
        words[symbol] = word;
        symbol += 1;
    }
    words
}

const fn nodes() -> [[u8; 1 << INDEX_BITS]; HUFFMAN_KEYS_MAX + 1] {
    let mut nodes = [[LONG; 1 << INDEX_BITS]; HUFFMAN_KEYS_MAX + 1];
    let mut n = 2;
    while n <= HUFFMAN_KEYS_MAX {
        let mut k = 0;
        while k <= n {
            let Word { bits, count } = WORDS[n][k];
            if count as usize <= INDEX_BITS {
                let free = INDEX_BITS - count as usize;
                let mut rest = 0;
                while rest < 1 << free {
                    nodes[n][(bits as usize) << free | rest] = (count - 1) << 5 | k as u8;
                    rest += 1;
                }
            }
            k += 1;
        }
        n += 1;
    }
    nodes
}

/// `SMALL[n][next bits]`: the number of bits of the whole subtree, or 0 if the next bits do not
/// determine it.
static SMALL: [[u8; 1 << SMALL_BITS]; SMALL_KEYS_MAX + 1] = small();

const fn small() -> [[u8; 1 << SMALL_BITS]; SMALL_KEYS_MAX + 1] {
    let mut small = [[0; 1 << SMALL_BITS]; SMALL_KEYS_MAX + 1];
    let mut n = 2;
    while n <= SMALL_KEYS_MAX {
        let mut next = 0;
        while next < 1 << SMALL_BITS {
            small[n][next] = small_subtree(n, next);
            next += 1;
        }
        n += 1;
    }
    small
}

const fn small_subtree(keys: usize, next: usize) -> u8 {
    let mut pending = [0; SMALL_BITS + 1];
    pending[0] = keys;
    let (mut count, mut bits) = (1, 0);
    while count > 0 {
        count -= 1;
        let n = pending[count];
        if n > 1 {
            let index = next << bits >> (SMALL_BITS - INDEX_BITS) & ((1 << INDEX_BITS) - 1);
            let entry = NODES[n][index];
            let left = (entry & 31) as usize;
            bits += (entry >> 5) as usize + 1;
            if bits > SMALL_BITS {
                return 0;
            }
            pending[count] = n - left;
            pending[count + 1] = left;
            count += 2;
        }
    }
    bits as u8
}

/// Skips a whole subtree of leaves without payload, if it is small enough for the table.
#[inline]
pub(super) fn skip_small(cursor: &mut Cursor<'_>, keys: usize) -> bool {
    let Some(subtrees) = SMALL.get(keys) else {
        return false;
    };
    let bits = subtrees[(cursor.peek() >> (64 - SMALL_BITS)) as usize];
    cursor.advance(usize::from(bits));
    bits > 0
}

/// Writes a node: `left` of its `keys` keys are in its left half. It has at least two keys.
pub(super) fn put_node(out: &mut BitWriter, keys: usize, left: usize) {
    debug_assert!(keys >= 2 && left <= keys, "{left} of {keys}");
    if keys <= HUFFMAN_KEYS_MAX {
        let Word { bits, count } = WORDS[keys][left];
        return out.put(u64::from(bits), usize::from(count));
    }
    let half = keys / 2;
    let zigzag = if left >= half {
        2 * (left - half)
    } else {
        2 * (half - left) - 1
    };
    put_gamma(out, zigzag);
}

/// Reads a node of at least two keys. Returns the number of keys in its left half, never more than
/// all.
#[inline(always)]
pub(super) fn take_node(cursor: &mut Cursor<'_>, keys: usize) -> usize {
    debug_assert!(keys >= 2, "a node has at least two keys");
    let Some(nodes) = NODES.get(keys) else {
        return take_large_node(cursor, keys);
    };
    let next = cursor.peek();
    let entry = nodes[(next >> (64 - INDEX_BITS)) as usize];
    if entry == LONG {
        return take_long_word(cursor, keys, next);
    }
    cursor.advance(usize::from(entry >> 5) + 1);
    usize::from(entry & 31)
}

#[inline]
fn take_large_node(cursor: &mut Cursor<'_>, keys: usize) -> usize {
    let zigzag = take_gamma(cursor);
    let half = keys / 2;
    let left = if zigzag.is_multiple_of(2) {
        half.saturating_add(zigzag / 2)
    } else {
        half.saturating_sub(zigzag / 2 + 1)
    };
    left.min(keys)
}

#[cold]
fn take_long_word(cursor: &mut Cursor<'_>, keys: usize, next: u64) -> usize {
    let is_next = |word: &Word| next >> (64 - word.count) == u64::from(word.bits);
    let words = &WORDS[keys][..=keys];
    let left = words.iter().position(is_next).unwrap_or(0);
    cursor.advance(usize::from(words[left].count));
    left
}

/// Writes the Elias-gamma code of `value + 1`: one zero fewer than it has bits, then its bits.
pub(super) fn put_gamma(out: &mut BitWriter, value: usize) {
    let one_more = value as u64 + 1;
    let zeros = one_more.ilog2() as usize;
    out.put(0, zeros);
    out.put(one_more, zeros + 1);
}

#[inline]
pub(super) fn take_gamma(cursor: &mut Cursor<'_>) -> usize {
    let next = cursor.peek();
    // More zeros than half a word are damage. So the whole code is in the bits read at once.
    let zeros = (next.leading_zeros() as usize).min(28);
    cursor.advance(2 * zeros + 1);
    ((next << zeros >> (63 - zeros)) as usize).saturating_sub(1)
}

/// Writes the number of bits of a subtree: exp-Golomb with `low_bits` raw bits.
pub(super) fn put_jump(out: &mut BitWriter, bits: usize, low_bits: usize) {
    put_gamma(out, bits >> low_bits);
    out.put(bits as u64 & ((1 << low_bits) - 1), low_bits);
}

#[inline]
pub(super) fn take_jump(cursor: &mut Cursor<'_>, low_bits: usize) -> usize {
    take_gamma(cursor) << low_bits | cursor.take(low_bits) as usize
}

/// Writes a Rice code with divisor 4: the quotient in ones and a zero, then two bits.
pub(super) fn put_rice(out: &mut BitWriter, value: usize) {
    let quotient = value >> RICE_BITS;
    for _ in 0..quotient {
        out.put(1, 1);
    }
    out.put(value as u64 & 3, 1 + RICE_BITS);
}

#[inline]
pub(super) fn take_rice(cursor: &mut Cursor<'_>) -> usize {
    let next = cursor.peek();
    // No valid code has more than 17 ones.
    let quotient = (next.leading_ones() as usize).min(32);
    cursor.advance(quotient + 1 + RICE_BITS);
    quotient << RICE_BITS | (next << (quotient + 1) >> (64 - RICE_BITS)) as usize
}

#[cfg(test)]
mod tests;
