//! Level 2: a bit for the first and one for the last key of each block. A bit is set if the next of
//! these keys has another prefix. So each set bit ends a group of equal prefix:
//!
//! ```text
//! blocks     a a c | c c c | c d e        the keys' prefixes
//! first, last  a c   c   c   c e
//! bits         1 0   0   0   1 1          groups a: 0, c: 1 to 4, e: 5
//! ```
//!
//! Group `c` begins inside the first block and ends inside the third. Each of its boundaries has a
//! zero at an odd position, a *cut*.

use std::array;

use super::bits::Bits;
use crate::base::codec::packed;

/// The distance between samples, in bits. A sample is the number of set bits before it.
const SAMPLE_BITS: usize = 256;
const WORD_BITS: usize = 64;
const WORDS_PER_SAMPLE: usize = SAMPLE_BITS / WORD_BITS;
/// The bits that can be read from any position, minus one to be even.
const PEEKED_BITS: usize = 56;
/// The bits of a word at odd positions: the ends of blocks.
const ODD: u64 = 0x5555_5555_5555_5555;

/// Computes the number of set bits before each sample.
pub(super) fn sample_ranks(bits: Bits<'_>, count: usize) -> Vec<usize> {
    let mut rank = 0;
    let ranks = (0..count.div_ceil(SAMPLE_BITS)).map(|sample| {
        let before = rank;
        let start = sample * WORDS_PER_SAMPLE;
        let words = start..start + WORDS_PER_SAMPLE;
        rank += words
            .map(|i| word(bits, i).count_ones() as usize)
            .sum::<usize>();
        before
    });
    ranks.collect()
}

/// The number of samples of `blocks` blocks, which have two bits each: one sample for each
/// [`SAMPLE_BITS`] bits, rounded up.
pub(super) fn samples_for(blocks: usize) -> usize {
    (2 * blocks).div_ceil(SAMPLE_BITS)
}

/// Level 2 of a segment. Positions are those of first and last keys, two per block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Boundaries<'a> {
    pub(super) blocks: usize,
    pub(super) bits: Bits<'a>,
    pub(super) samples: &'a [u8],
    pub(super) rank_bytes: usize,
}

/// The positions of the first and the last of the first and last keys with one prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) low: usize,
    pub(super) high: usize,
}

impl Group {
    pub(super) fn first_block(self) -> usize {
        self.low / 2
    }

    pub(super) fn last_block(self) -> usize {
        self.high / 2
    }

    /// Returns true if smaller prefixes are in its first block, too.
    pub(super) fn begins_inside(self) -> bool {
        self.low % 2 == 1
    }

    /// Returns true if larger prefixes are in its last block, too.
    pub(super) fn ends_inside(self) -> bool {
        self.high.is_multiple_of(2)
    }

    pub(super) fn cuts(self) -> usize {
        self.last_block() - self.first_block()
    }
}

impl Boundaries<'_> {
    /// The group of this rank.
    #[inline]
    pub(super) fn group(&self, rank: usize) -> Group {
        let Some(before) = rank.checked_sub(1) else {
            let high = self.next_set(0);
            return Group { low: 0, high };
        };
        let low = (self.select(before) + 1).min(2 * self.blocks - 1);
        let high = self.next_set(low);
        Group { low, high }
    }

    /// The position of the last key of the group before the one of this rank.
    #[inline]
    pub(super) fn end_before(&self, rank: usize) -> Option<usize> {
        rank.checked_sub(1).map(|before| self.select(before))
    }

    /// The groups with cuts that begin at or after the beginning of a block, in order.
    pub(super) fn groups_with_cuts(&self, block: usize) -> impl Iterator<Item = Group> {
        let mut at = 2 * block;
        if block > 0 && self.bits.peek(at - 1) >> (WORD_BITS - 1) == 0 {
            // A group that began before continues here.
            at = self.next_set(at) + 1;
        }
        std::iter::from_fn(move || {
            let cut = self.next_cut(at)?;
            let before = cut > at && self.bits.peek(cut - 1) >> (WORD_BITS - 1) == 0;
            let high = self.next_set(cut);
            at = high + 1;
            Some(Group {
                low: if before { cut - 1 } else { cut },
                high,
            })
        })
    }

    /// The position of the set bit with `rank` set bits before it. If there are fewer, the last
    /// position.
    #[inline]
    fn select(&self, rank: usize) -> usize {
        // A segment has at most 16 samples. A comparison with all of them takes no unpredictable
        // branch, and neither do the steps below.
        let samples = 1..samples_for(self.blocks);
        let sample = samples.filter(|&it| self.sample(it) <= rank).count();
        let left = rank.saturating_sub(self.sample(sample));
        let first = sample * WORDS_PER_SAMPLE;
        let words: [u64; WORDS_PER_SAMPLE] = array::from_fn(|i| word(self.bits, first + i));
        let mut before = [0; WORDS_PER_SAMPLE];
        for i in 1..WORDS_PER_SAMPLE {
            before[i] = before[i - 1] + words[i - 1].count_ones() as usize;
        }
        let at = (1..WORDS_PER_SAMPLE).filter(|&i| before[i] <= left).count();
        let position = (first + at) * WORD_BITS + select_in_word(words[at], left - before[at]);
        position.min(2 * self.blocks - 1)
    }

    #[inline]
    fn sample(&self, number: usize) -> usize {
        packed::get(self.samples, number * self.rank_bytes, self.rank_bytes) as usize
    }

    /// The first set bit at or after a position. If there is none, the last position.
    #[inline]
    fn next_set(&self, at: usize) -> usize {
        self.next(at, |word| word).unwrap_or(2 * self.blocks - 1)
    }

    /// The first boundary at or after a position with one prefix on both sides.
    #[inline]
    fn next_cut(&self, at: usize) -> Option<usize> {
        self.next(at, |word| !word & ODD)
    }

    /// The first position at or after `at` of a bit that `wanted` sets in a word.
    #[inline]
    fn next(&self, at: usize, wanted: impl Fn(u64) -> u64) -> Option<usize> {
        // Words begin at even positions, so that odd positions stay odd.
        let (mut start, mut from) = (at & !1, at % 2);
        loop {
            let found = wanted(self.bits.peek(start)) & (u64::MAX >> from);
            let position = start + found.leading_zeros() as usize;
            if found.leading_zeros() < PEEKED_BITS as u32 {
                return (position < 2 * self.blocks).then_some(position);
            }
            (start, from) = (start + PEEKED_BITS, 0);
            if start >= 2 * self.blocks {
                return None;
            }
        }
    }
}

#[inline]
fn word(bits: Bits<'_>, number: usize) -> u64 {
    bits.peek(number * WORD_BITS)
}

/// A one in each byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// `IN_BYTE[byte][rank]`: the position, from the top, of the set bit with `rank` set bits before
/// it.
static IN_BYTE: [[u8; 8]; 256] = in_byte();

const fn in_byte() -> [[u8; 8]; 256] {
    let mut table = [[8; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut position, mut rank) = (0, 0);
        while position < 8 {
            if byte >> (7 - position) & 1 == 1 {
                table[byte][rank] = position as u8;
                rank += 1;
            }
            position += 1;
        }
        byte += 1;
    }
    table
}

/// The position, from the top, of the set bit with `rank` set bits before it; 64 if there are
/// fewer. After S. Vigna, "Broadword implementation of rank/select queries", 2008: all bytes are
/// counted at once.
#[inline]
fn select_in_word(word: u64, rank: usize) -> usize {
    let rank = rank.min(WORD_BITS) as u64;
    // The first byte is the lowest.
    let word = word.swap_bytes();
    let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let counts = (fours + (fours >> 4)) & 0x0F0F_0F0F_0F0F_0F0F;
    // In each byte, the number of ones up to its end.
    let through = counts.wrapping_mul(ONES);
    let passed = (((rank * ONES) | (0x80 * ONES)) - through) & (0x80 * ONES);
    let byte = passed.count_ones();
    if byte == 8 {
        return WORD_BITS;
    }
    let before = (through << 8 >> (8 * byte)) & 0xFF;
    let within = IN_BYTE[(word >> (8 * byte) & 0xFF) as usize][((rank - before) & 7) as usize];
    (8 * byte) as usize + usize::from(within)
}

#[cfg(test)]
mod tests;
