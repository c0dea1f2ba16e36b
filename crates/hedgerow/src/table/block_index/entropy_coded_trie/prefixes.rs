//! Level 1: the prefixes that blocks begin or end with, as tries of some tens of keys each.
//!
//! A segment covers a slice of the hash space, so the raw leading bits of its hashes are equal. So
//! one multiplication spreads a prefix over the buckets first. The upper word of the product is the
//! bucket, the lower one the key in its trie. The map keeps order and differences.

use super::bits::{BitWriter, Bits};
use super::hash_trie;
use super::hash_trie::{Bare, WalkEnd};
use crate::base::codec::packed;

/// The average number of prefixes per trie. Each prefix costs 2.7 bits, each bucket 32 for its
/// place. A search takes half as many steps.
const BUCKET_PREFIXES: usize = 40;

/// The map of a segment's hashes to buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) first: u64,
    pub(super) multiplier: u64,
}

impl Spread {
    /// Spreads from `first` to `last` over at most `buckets` buckets.
    pub(super) fn new(first: u64, last: u64, buckets: usize) -> Spread {
        let hashes = u128::from(last - first) + 1;
        let multiplier = ((buckets as u128) << 64) / hashes;
        Spread {
            first,
            multiplier: u64::try_from(multiplier).unwrap_or(u64::MAX),
        }
    }

    /// The bucket and the key in it; `None` for a hash before the first.
    #[inline]
    pub(super) fn place(self, hash: u64) -> Option<(usize, u64)> {
        let distance = hash.checked_sub(self.first)?;
        let product = u128::from(distance) * u128::from(self.multiplier);
        Some(((product >> 64) as usize, product as u64))
    }
}

/// The encoded prefixes: their tries, and the beginning of each.
#[derive(Debug, Default)]
pub(super) struct EncodedPrefixes {
    pub(super) tries: BitWriter,
    /// For each bucket, the numbers of prefixes and bits up to its end.
    pub(super) ends: Vec<(usize, usize)>,
    /// The depth of each prefix's leaf.
    pub(super) depths: Vec<u32>,
}

pub(super) fn buckets_for(prefixes: usize) -> usize {
    prefixes.div_ceil(BUCKET_PREFIXES).max(1)
}

pub(super) fn encode(prefixes: &[u64], spread: Spread, buckets: usize) -> EncodedPrefixes {
    let mut encoded = EncodedPrefixes::default();
    let places = prefixes.iter().filter_map(|&prefix| spread.place(prefix));
    let places: Vec<(usize, u64)> = places.collect();
    let mut rest = &places[..];
    for bucket in 0..buckets {
        let (own, others) = rest.split_at(rest.partition_point(|place| place.0 == bucket));
        let keys: Vec<u64> = own.iter().map(|place| place.1).collect();
        let depths = &mut encoded.depths;
        let mut note_depth = |_, depth, _: &mut BitWriter| depths.push(depth);
        hash_trie::encode::<Bare>(&keys, &mut encoded.tries, &mut note_depth);
        rest = others;
        encoded
            .ends
            .push((places.len() - rest.len(), encoded.tries.bits()));
    }
    assert!(rest.is_empty(), "every prefix is in a bucket");
    encoded
}

/// Level 1 of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefixes<'a> {
    pub(super) spread: Spread,
    pub(super) count: usize,
    pub(super) buckets: usize,
    /// The ends of the buckets: for each the prefixes, then the bits.
    pub(super) ends: &'a [u8],
    pub(super) rank_bytes: usize,
    pub(super) offset_bytes: usize,
    pub(super) tries: Bits<'a>,
}

/// The place of a prefix among those of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundPrefix {
    pub(super) place: WalkEnd,
    /// The bits that distinguish the leaf's prefix from others: see [`Spread`].
    pub(super) key: u64,
}

impl Prefixes<'_> {
    #[inline]
    pub(super) fn locate(&self, prefix: u64) -> FoundPrefix {
        let (bucket, key) = match self.spread.place(prefix) {
            None => return FoundPrefix::beside(0),
            Some((bucket, _)) if bucket >= self.buckets => return FoundPrefix::beside(self.count),
            Some(place) => place,
        };
        let (start, offset) = match bucket.checked_sub(1) {
            Some(before) => self.end(before),
            None => (0, 0),
        };
        let (end, _) = self.end(bucket);
        let keys = end.min(self.count).saturating_sub(start);
        let mut cursor = self.tries.cursor(offset);
        let mut place = hash_trie::locate::<Bare>(&mut cursor, keys, key);
        place.rank = (place.rank + start).min(self.count);
        FoundPrefix { place, key }
    }

    #[inline]
    fn end(&self, bucket: usize) -> (usize, usize) {
        let at = bucket * (self.rank_bytes + self.offset_bytes);
        let rank = packed::get(self.ends, at, self.rank_bytes);
        let offset = packed::get(self.ends, at + self.rank_bytes, self.offset_bytes);
        (rank as usize, offset as usize)
    }
}

impl FoundPrefix {
    fn beside(rank: usize) -> FoundPrefix {
        let place = WalkEnd {
            leaf: false,
            rank,
            depth: 0,
        };
        FoundPrefix { place, key: 0 }
    }
}
