//! Buckets of four slots, packed to the bit. Both cuckoo filters consist of them (B. Fan, D.
//! Andersen, M. Kaminsky, M. Mitzenmacher, "Cuckoo filter: practically better than Bloom", 2014,
//! section 3).
//!
//! A slot holds the fingerprint of a key and, below it, a payload. The key's two buckets are `b`
//! and `(G(fingerprint) - b) mod m`. Each follows from the other and the fingerprint for any number
//! `m` of buckets; the paper's exclusive or wants a power of two. Two slots with the same
//! fingerprint that share one bucket therefore share both: they are of one *class*. A move to the
//! other bucket does not change the class.

use std::marker::PhantomData;

use crate::base::error::{Error, Result};
use crate::base::options::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN, LOAD_MAX};
use crate::base::page::prefetch;

use super::bucket_word::Word;
use super::remix;

pub(crate) const SLOTS: u32 = 4;
/// The number of one of 64 runs, and a bit.
pub(crate) const PAYLOAD_BITS_MAX: u8 = 7;
/// A read or write of a bucket covers the bytes that follow it.
pub(crate) const PADDING_BYTES: usize = <u128 as Word>::BYTES;
/// Four slots of this width fit a word of 64 bits. If the width is odd, the half byte before them
/// fits, too.
const NARROW_SLOT_BITS: u32 = 16;
/// The search for room follows the entries of at most this many buckets, to four other buckets for
/// each. At the largest load it visits about six.
const VISITS_MAX: usize = 128;
/// The least such number, in buckets that are too full for longer searches.
const VISITS_MIN: usize = 2;

/// The bits of a key's hash that cuckoo filters look at.
pub(crate) const HASH_BITS: u32 = 56;

/// The hash that cuckoo filters look at: the 56 high bits of the low half of a key's hash.
#[inline]
pub(crate) fn hash_of(low: u64) -> u64 {
    low >> (u64::BITS - HASH_BITS)
}

/// The bytes of `buckets` buckets: each takes half as many as a slot has bits.
pub(crate) fn bytes_of(buckets: u32, slot_bits: u32) -> u64 {
    (u64::from(buckets) * u64::from(slot_bits)).div_ceil(2)
}

/// The buckets that may hold a key, and its fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BucketPair {
    /// The fingerprint. 0 marks a free slot, so it is never 0.
    pub(crate) fingerprint: u32,
    pub(crate) buckets: [u32; 2],
}

/// The number of buckets, and the parts of their slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BucketGeometry {
    buckets: u32,
    fingerprint_bits: u8,
    payload_bits: u8,
    /// The lowest bit of each slot.
    ones: u128,
}

impl BucketGeometry {
    /// # Errors
    /// `Corruption` if there are no buckets or the slots have too few or too many bits.
    pub(crate) fn new(
        buckets: u32,
        fingerprint_bits: u8,
        payload_bits: u8,
    ) -> Result<BucketGeometry> {
        let fingerprints = FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX;
        let fits = fingerprints.contains(&fingerprint_bits) && payload_bits <= PAYLOAD_BITS_MAX;
        if buckets == 0 || !fits {
            return Err(Error::corruption(format!(
                "expected buckets with fingerprints of {FINGERPRINT_BITS_MIN} to \
                 {FINGERPRINT_BITS_MAX} bits and payloads of at most {PAYLOAD_BITS_MAX}, found \
                 {buckets} with {fingerprint_bits} and {payload_bits}"
            )));
        }
        let geometry = BucketGeometry {
            buckets,
            fingerprint_bits,
            payload_bits,
            ones: 0,
        };
        Ok(geometry.with_payload_bits(payload_bits))
    }

    /// The same number of buckets with other payloads, of at most [`PAYLOAD_BITS_MAX`].
    pub(crate) fn with_payload_bits(self, payload_bits: u8) -> BucketGeometry {
        let slot_bits = u32::from(self.fingerprint_bits + payload_bits);
        BucketGeometry {
            payload_bits,
            ones: (0..SLOTS).map(|slot| 1 << (slot * slot_bits)).sum(),
            ..self
        }
    }

    /// The number of buckets for `entries` entries.
    pub(crate) fn buckets_for(entries: u64) -> u64 {
        let slots = (entries as f64 / LOAD_MAX).ceil() as u64;
        slots.div_ceil(u64::from(SLOTS)).max(1)
    }

    /// The number of entries that find room.
    pub(crate) fn capacity(&self) -> u64 {
        (f64::from(self.buckets) * f64::from(SLOTS) * LOAD_MAX) as u64
    }

    pub(crate) fn buckets(&self) -> u32 {
        self.buckets
    }

    pub(crate) fn fingerprint_bits(&self) -> u8 {
        self.fingerprint_bits
    }

    #[inline]
    pub(crate) fn slot_bits(&self) -> u32 {
        u32::from(self.fingerprint_bits + self.payload_bits)
    }

    /// Returns true if a bucket is read as 64 bits. Otherwise it is read as 128.
    #[inline]
    pub(crate) fn is_narrow(&self) -> bool {
        self.slot_bits() <= NARROW_SLOT_BITS
    }

    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(self.buckets, self.slot_bits())
    }

    /// The fingerprint and the buckets of a key. They come from disjoint bits of its hash, so the
    /// buckets say nothing about the fingerprint. Keys in the order of their hashes have first
    /// buckets in order.
    #[inline]
    pub(crate) fn place(&self, hash: u64) -> BucketPair {
        let fingerprint =
            (hash as u32 & 0xFF_FFFF) >> (FINGERPRINT_BITS_MAX - self.fingerprint_bits);
        let fingerprint = fingerprint.max(1);
        let first = scale((hash >> FINGERPRINT_BITS_MAX) as u32, self.buckets);
        self.place_in(first, fingerprint)
    }

    /// The place of an entry in a bucket.
    #[inline]
    pub(crate) fn place_in(&self, bucket: u32, fingerprint: u32) -> BucketPair {
        BucketPair {
            fingerprint,
            buckets: [bucket, self.alternate(bucket, fingerprint)],
        }
    }

    /// The other bucket of an entry.
    #[inline]
    pub(crate) fn alternate(&self, bucket: u32, fingerprint: u32) -> u32 {
        let sum = scale((remix(u64::from(fingerprint)) >> 32) as u32, self.buckets);
        let difference = sum.wrapping_sub(bucket);
        if sum < bucket {
            difference.wrapping_add(self.buckets)
        } else {
            difference
        }
    }

    /// The bucket `index` of those that begin with `bytes`. The bits above its slots belong to
    /// others.
    #[inline]
    pub(crate) fn bucket<W: Word>(&self, bytes: &[u8], index: u32) -> W {
        let (at, shift) = self.locate(index);
        W::read(bytes, at) >> shift
    }

    /// Prefetches the buckets of a place.
    #[inline]
    pub(crate) fn prefetch(&self, bytes: &[u8], place: BucketPair) {
        for bucket in place.buckets {
            prefetch(bytes, self.locate(bucket).0);
        }
    }

    /// The byte and the bit at which a bucket begins.
    #[inline]
    fn locate(&self, index: u32) -> (usize, u32) {
        let half_bytes = u64::from(index) * u64::from(self.slot_bits());
        ((half_bytes / 2) as usize, (half_bytes % 2) as u32 * 4)
    }

    /// The slots, each marked by its highest bit, that hold this fingerprint, whatever the payload.
    #[inline]
    pub(crate) fn with_fingerprint<W: Word>(&self, bucket: W, fingerprint: u32) -> W {
        let ones = W::of(self.ones);
        let payloads = ones.times(W::from((1 << self.payload_bits) - 1));
        let wanted = ones.times(W::from(fingerprint << self.payload_bits));
        self.zeros((bucket ^ wanted) & !payloads)
    }

    #[inline]
    pub(crate) fn vacant<W: Word>(&self, bucket: W) -> Option<u32> {
        self.first(self.with_fingerprint(bucket, 0))
    }

    /// The first of the marked slots.
    #[inline]
    pub(crate) fn first<W: Word>(&self, marks: W) -> Option<u32> {
        (marks != W::from(0)).then(|| marks.lowest_bit() / self.slot_bits())
    }

    /// Returns true if the bucket holds a slot with this content.
    #[inline]
    fn holds<W: Word>(&self, bucket: W, slot: u32) -> bool {
        self.zeros(bucket ^ W::of(self.ones).times(W::from(slot))) != W::from(0)
    }

    #[inline]
    pub(crate) fn slot_of(&self, fingerprint: u32, payload: u32) -> u32 {
        fingerprint << self.payload_bits | payload
    }

    /// The content of a slot.
    #[inline]
    pub(crate) fn slot<W: Word>(&self, bucket: W, at: u32) -> u32 {
        (bucket >> (at * self.slot_bits())).low() as u32 & self.slot_mask()
    }

    #[inline]
    pub(crate) fn payload(&self, slot: u32) -> u32 {
        slot & ((1 << self.payload_bits) - 1)
    }

    #[inline]
    pub(crate) fn fingerprint(&self, slot: u32) -> u32 {
        slot >> self.payload_bits
    }

    #[inline]
    fn slot_mask(&self) -> u32 {
        (1 << self.slot_bits()) - 1
    }

    /// Marks the slots that are zero, exactly: no carry leaves a slot.
    #[inline]
    fn zeros<W: Word>(&self, bucket: W) -> W {
        let ones = W::of(self.ones);
        let high = ones << (self.slot_bits() - 1);
        let below = ones.times(W::from(self.slot_mask() >> 1));
        let nonzero = (bucket & below).plus(below) | bucket;
        !nonzero & high
    }
}

/// `fraction / 2^32` of `count`, rounded down.
#[inline]
fn scale(fraction: u32, count: u32) -> u32 {
    ((u64::from(fraction) * u64::from(count)) >> 32) as u32
}

/// The result of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InsertResult {
    Stored,
    /// The same slot was there before.
    Present,
    /// There is no room and none can be made. Nothing has changed.
    Full,
}

/// Buckets being filled.
#[derive(Debug)]
pub(crate) struct CuckooBuilder<'a, W> {
    pub(crate) geometry: BucketGeometry,
    /// The buckets, with [`PADDING_BYTES`] behind the last one.
    bytes: &'a mut [u8],
    /// The search for room, kept for its memory.
    visits: Vec<Visit>,
    /// The most buckets that the next search follows: half as many after each one in vain, and
    /// twice as many after one that found room. So an insertion into buckets that are too full, of
    /// which there may be millions, costs little more than a look at them.
    visits_max: usize,
    word: PhantomData<W>,
}

/// A bucket in the search for room, and the slot of the bucket before it whose entry could move
/// there.
#[derive(Debug, Clone, Copy)]
struct Visit {
    bucket: u32,
    from: Option<(u16, u8)>,
}

impl<'a, W: Word> CuckooBuilder<'a, W> {
    pub(crate) fn new(geometry: BucketGeometry, bytes: &'a mut [u8]) -> Self {
        assert!(
            bytes.len() as u64 >= geometry.bytes() + PADDING_BYTES as u64,
            "buckets are followed by padding"
        );
        CuckooBuilder {
            geometry,
            bytes,
            visits: Vec::new(),
            visits_max: VISITS_MAX,
            word: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn bucket(&self, index: u32) -> W {
        self.geometry.bucket(self.bytes, index)
    }

    /// Stores an entry unless the same one is there.
    #[inline]
    pub(crate) fn insert(&mut self, place: BucketPair, payload: u32) -> InsertResult {
        let slot = self.geometry.slot_of(place.fingerprint, payload);
        let [first, second] = place.buckets.map(|index| self.bucket(index));
        if self.geometry.holds(first, slot) | self.geometry.holds(second, slot) {
            return InsertResult::Present;
        }
        let vacant = match (self.geometry.vacant(first), self.geometry.vacant(second)) {
            (Some(vacant), _) => Some((place.buckets[0], vacant)),
            (None, Some(vacant)) => Some((place.buckets[1], vacant)),
            (None, None) => self.make_room(place.buckets),
        };
        let Some((bucket, at)) = vacant else {
            return InsertResult::Full;
        };
        self.set(bucket, at, slot);
        InsertResult::Stored
    }

    /// Overwrites a slot; 0 frees it.
    #[inline]
    pub(crate) fn set(&mut self, bucket: u32, at: u32, slot: u32) {
        let (byte, shift) = self.geometry.locate(bucket);
        let shift = shift + at * self.geometry.slot_bits();
        let mask = W::from(self.geometry.slot_mask()) << shift;
        W::update(self.bytes, byte, mask, W::from(slot) << shift);
    }

    /// Prefetches all buckets that insertions at these places will read. One after the other, each
    /// insertion would wait for memory, up to several times.
    pub(crate) fn fetch(&self, places: impl Iterator<Item = BucketPair> + Clone) {
        for place in places.clone() {
            self.geometry.prefetch(self.bytes, place);
        }
        for place in places {
            let [first, second] = place.buckets.map(|index| self.bucket(index));
            let is_full = |bucket| self.geometry.vacant::<W>(bucket).is_none();
            if is_full(first) && is_full(second) {
                for (index, bucket) in place.buckets.into_iter().zip([first, second]) {
                    for other in self.others(index, bucket) {
                        prefetch(self.bytes, self.geometry.locate(other).0);
                    }
                }
            }
        }
    }

    /// The other buckets of the entries of a bucket.
    #[inline]
    fn others(&self, index: u32, bucket: W) -> [u32; SLOTS as usize] {
        [0, 1, 2, 3].map(|at| {
            let slot = self.geometry.slot(bucket, at);
            self.geometry
                .alternate(index, self.geometry.fingerprint(slot))
        })
    }

    /// Frees a slot in one of two full buckets. It moves entries to their other buckets, along the
    /// shortest path to a bucket with room. Nothing moves unless there is such a path: an entry
    /// that was taken out without a new place would be lost, because its key is not known here.
    fn make_room(&mut self, roots: [u32; 2]) -> Option<(u32, u32)> {
        let root = |bucket| Visit { bucket, from: None };
        self.visits.clear();
        self.visits.extend(roots.map(root));
        let mut next = 0;
        while next < self.visits.len().min(self.visits_max) {
            let index = self.visits[next].bucket;
            let others = self.others(index, self.bucket(index));
            let buckets = others.map(|other| self.bucket(other));
            for (at, (other, bucket)) in others.into_iter().zip(buckets).enumerate() {
                // A path that came back to a bucket would move an entry of it twice.
                if self.is_on_path(next, other) {
                    continue;
                }
                self.visits.push(Visit {
                    bucket: other,
                    from: Some((next as u16, at as u8)),
                });
                if let Some(vacant) = self.geometry.vacant(bucket) {
                    self.visits_max = VISITS_MAX.min(2 * self.visits_max);
                    return Some(self.move_along(vacant));
                }
            }
            next += 1;
        }
        self.visits_max = VISITS_MIN.max(self.visits_max / 2);
        None
    }

    /// Returns true if the path that ends with a visit leads through a bucket.
    fn is_on_path(&self, end: usize, bucket: u32) -> bool {
        let mut visit = self.visits[end];
        while let (Some((from, _)), true) = (visit.from, visit.bucket != bucket) {
            visit = self.visits[usize::from(from)];
        }
        visit.bucket == bucket
    }

    /// Moves the entries of the path that ends with the last visit. Returns the slot that became
    /// free.
    fn move_along(&mut self, vacant: u32) -> (u32, u32) {
        let mut visit = self.visits[self.visits.len() - 1];
        let mut free = (visit.bucket, vacant);
        while let Some((from, at)) = visit.from {
            visit = self.visits[usize::from(from)];
            let at = u32::from(at);
            let slot = self.geometry.slot(self.bucket(visit.bucket), at);
            self.set(free.0, free.1, slot);
            free = (visit.bucket, at);
        }
        free
    }
}

#[cfg(test)]
mod tests;
