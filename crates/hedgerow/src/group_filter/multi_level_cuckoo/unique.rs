//! The change from set mode to unique mode.

use crate::base::page::Buffer;
use crate::table::filter::buckets::{
    BucketPair, CuckooBuilder, InsertResult, PADDING_BYTES, SLOTS,
};

use super::ring::Ring;
use super::{Mode, MultiLevelCuckoo, class_entry};

impl MultiLevelCuckoo {
    /// Changes to unique mode: each class is stored once. Cost: an insertion per slot in use.
    pub(super) fn become_unique(&mut self) {
        let payload_bits = Mode::Unique.payload_bits(self.ring);
        let geometry = self.geometry.with_payload_bits(payload_bits);
        let mut buckets = Buffer::allocate(geometry.bytes() as usize + PADDING_BYTES);
        let mut merging = UniqueBuilder {
            filling: CuckooBuilder::new(geometry, &mut buckets),
            ring: self.ring,
            stored: 0,
        };
        for index in 0..geometry.buckets() {
            let bucket = self.geometry.bucket::<u128>(&self.buckets, index);
            let slots = (0..SLOTS).map(|at| self.geometry.slot(bucket, at));
            for slot in slots.filter(|slot| *slot != 0) {
                let place = geometry.place_in(index, self.geometry.fingerprint(slot));
                // There is room: a bucket gets no more entries than it had.
                merging.insert(place, 1 << self.geometry.payload(slot));
            }
        }
        // Copies that crowded one another leave room.
        self.whole
            .retain(|hash, runs| !merging.insert(geometry.place(*hash), *runs));
        self.whole.shrink_to_fit();
        self.entries = merging.stored;
        self.geometry = geometry;
        self.buckets = buckets;
        self.mode = Mode::Unique;
    }
}

/// A filter that changes to unique mode.
struct UniqueBuilder<'a> {
    filling: CuckooBuilder<'a, u128>,
    ring: Ring,
    /// Slots in use.
    stored: u64,
}

impl UniqueBuilder<'_> {
    /// Adds runs to those of a class. Returns false if there is no room.
    fn insert(&mut self, place: BucketPair, numbers: u64) -> bool {
        let geometry = self.filling.geometry;
        let bits = self.ring.bits();
        let of_class = class_entry(&self.filling, place);
        let found = of_class.map_or(0, |(_, _, slot)| geometry.payload(slot));
        let known = of_class.map_or(0, |_| 1 << (found & ((1 << bits) - 1)));
        let runs = self.ring.newest_first(numbers | known).0;
        let newest = self.ring.number(runs.trailing_zeros() as usize);
        let has_older = found >> bits | u32::from(runs.count_ones() > 1);
        let payload = has_older << bits | newest;
        match of_class {
            Some((bucket, at, _)) => {
                let slot = geometry.slot_of(place.fingerprint, payload);
                self.filling.set(bucket, at, slot);
                true
            }
            None => {
                let is_stored = self.filling.insert(place, payload) == InsertResult::Stored;
                self.stored += u64::from(is_stored);
                is_stored
            }
        }
    }
}
