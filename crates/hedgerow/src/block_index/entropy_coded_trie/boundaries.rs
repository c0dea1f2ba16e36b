//! Level 2: a bit for the first and one for the last key of each block, set where the next of these
//! keys has another prefix. So the groups of equal prefix are what ends with each set bit:
//!
//! ```text
//! blocks     a a c | c c c | c d e        the keys' prefixes
//! first, last  a c   c   c   c e
//! bits         1 0   0   0   1 1          groups a: 0, c: 1 to 4, e: 5
//! ```
//!
//! Group `c` begins inside of the first block and ends inside of the third: its boundaries have a
//! zero at an odd position each, a *cut*.

use super::bits::Bits;
use crate::codec::packed;

/// The number of set bits is stored before every so many bits.
const SAMPLE_BITS: usize = 256;
const WORD_BITS: usize = 64;
/// The bits that can be read from any position, less one to be even.
const PEEKED_BITS: usize = 56;
/// The bits of a word at odd positions: the ends of blocks.
const ODD: u64 = 0x5555_5555_5555_5555;

/// How many bits are set before each sample.
pub(super) fn sample_ranks(bits: Bits<'_>, count: usize) -> Vec<usize> {
    let mut rank = 0;
    let ranks = (0..count.div_ceil(SAMPLE_BITS)).map(|sample| {
        let before = rank;
        let start = sample * SAMPLE_BITS / WORD_BITS;
        let words = start..start + SAMPLE_BITS / WORD_BITS;
        rank += words
            .map(|i| word(bits, i).count_ones() as usize)
            .sum::<usize>();
        before
    });
    ranks.collect()
}

pub(super) fn samples_for(blocks: usize) -> usize {
    (2 * blocks).div_ceil(SAMPLE_BITS)
}

/// Level 2 of a segment: positions are those of first and last keys, two per block.
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

    /// Whether smaller prefixes are in its first block, too.
    pub(super) fn begins_inside(self) -> bool {
        self.low % 2 == 1
    }

    /// Whether larger prefixes are in its last block, too.
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

    /// The end of the group before the one of this rank: where its last key is.
    #[inline]
    pub(super) fn end_before(&self, rank: usize) -> Option<usize> {
        rank.checked_sub(1).map(|before| self.select(before))
    }

    /// Groups that begin at or after the beginning of a block and have cuts, in order.
    pub(super) fn groups_with_cuts(&self, block: usize) -> impl Iterator<Item = Group> {
        let mut at = 2 * block;
        if block > 0 && self.bits.peek(at - 1) >> (WORD_BITS - 1) == 0 {
            // Here goes on a group that began before.
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

    /// The position of the set bit before which there are `rank` others; the last position if there
    /// are fewer.
    #[inline]
    fn select(&self, rank: usize) -> usize {
        let (mut low, mut high) = (0, samples_for(self.blocks));
        while low + 1 < high {
            let middle = low.midpoint(high);
            if self.sample(middle) <= rank {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut left = rank.saturating_sub(self.sample(low));
        for i in low * (SAMPLE_BITS / WORD_BITS)..(2 * self.blocks).div_ceil(WORD_BITS) {
            let word = word(self.bits, i);
            let ones = word.count_ones() as usize;
            if left < ones {
                let position = i * WORD_BITS + select_in_word(word, left);
                return position.min(2 * self.blocks - 1);
            }
            left -= ones;
        }
        2 * self.blocks - 1
    }

    #[inline]
    fn sample(&self, number: usize) -> usize {
        packed::get(self.samples, number * self.rank_bytes, self.rank_bytes) as usize
    }

    /// The first set bit at or after a position; the last position if there is none.
    #[inline]
    fn next_set(&self, at: usize) -> usize {
        self.next(at, |word| word).unwrap_or(2 * self.blocks - 1)
    }

    /// The first boundary at or after a position with one prefix on both sides.
    #[inline]
    fn next_cut(&self, at: usize) -> Option<usize> {
        self.next(at, |word| !word & ODD)
    }

    /// The first position at or after another of a bit that `wanted` sets in a word.
    #[inline]
    fn next(&self, at: usize, wanted: impl Fn(u64) -> u64) -> Option<usize> {
        // Words begin at even positions, so that odd ones stay odd.
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

/// The position, from the top, of the set bit before which there are `rank` others.
#[inline]
fn select_in_word(mut word: u64, mut rank: usize) -> usize {
    let mut position = 0;
    let mut width = WORD_BITS / 2;
    while width >= 8 {
        let ones = (word >> (WORD_BITS - width)).count_ones() as usize;
        if rank >= ones {
            rank -= ones;
            position += width;
            word <<= width;
        }
        width /= 2;
    }
    for _ in 0..rank {
        word &= !(1 << (WORD_BITS - 1) >> word.leading_zeros());
    }
    position + word.leading_zeros() as usize
}

#[cfg(test)]
mod tests;
