//! One cuckoo filter for several runs of a group, which says which of them may hold a key: a slot is
//! a fingerprint and the number of a run (SlimDB, section 3.2). A lookup reads two cache lines
//! however many runs there are, and the false positives are those of one filter.
//!
//! * **Set mode** stores each pair of class and run once; the answer holds every run that holds the
//!   key. It needs to know nothing of the keys, and is right for readers at old snapshots.
//! * **Unique mode** stores one run per class, the newest that holds the key, and needs to be told
//!   whether a key that is written was there before. Keys whose class another key occupies go to
//!   the *secondary table*, by their whole hash. The answer holds the newest run of a key; a reader
//!   who may not see what is there must ask all older runs of the group. The paper's insertion
//!   (its algorithm 2) loses keys: it neither updates the secondary table first nor finds out whose
//!   fingerprint occupies the class. When the secondary table gets large, set mode takes over.
//!
//! Entries for which no room can be made are kept by their whole hash, too, in the same table: they
//! are never lost. Keys with the same hash are one key here; the sets in that table keep the runs of
//! all of them, so that only [`MultiLevelCuckoo::erase`] has to be careful with them.
//!
//! A filter belongs to a version and does not change: [`MultiLevelCuckoo::extend`] copies it and
//! inserts one run. Runs are numbered around a ring; the numbers become places, newest first, when
//! the filter is asked. It cannot grow: fingerprints do not say where their keys would go, so a
//! larger filter is built from the hashes of all runs ([`run_hashes`]).
//!
//! In set mode the copies of a key crowd its two buckets. If every second key is written again, some
//! 4 % find no room at the load that different keys reach; a filter for such data wants to be made
//! for more entries.
//!
//! Costs: `docs/design/0008-multi-level-cuckoo.md`.

mod encoding;
pub(crate) mod file;
mod ring;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::page::{Buffer, Page, Step};

use crate::table::filter::bucket_word::Word;
use crate::table::filter::buckets;
use crate::table::filter::buckets::{Filling, Geometry, Inserted, PADDING_BYTES, Place, SLOTS};
use crate::table::filter::{Probe, RunMask, remix};
use ring::Ring;

/// The largest table, in bytes: a group with more keys (a billion) wants more partitions.
const TABLE_BYTES_MAX: u64 = 2 << 30;
/// How much more than it was made for a filter takes: runs are not all of one size. At so much more than 95 % load
/// it keeps few entries by their whole hashes.
const CAPACITY_SLACK: f64 = 0.02;
/// The largest share of keys, in unique mode, that the secondary table takes before set mode does.
const SECONDARY_SHARE_MAX: f64 = 0.02;
/// Keys whose buckets are fetched from memory together.
const BATCH: usize = 64;

/// What is stored of a key that is in several runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All of them.
    Set,
    /// The newest one.
    Unique,
    /// As in unique mode for the runs before the secondary table was full, all of the later ones.
    UniqueThenSet,
}

/// What is known about a key that is inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prior {
    /// Nothing: a blind write.
    Unknown,
    /// No run of this filter holds it.
    Absent,
    /// A run of this filter holds it.
    Found,
}

/// What a filter is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizing {
    /// 4 to 24.
    pub(crate) fingerprint_bits: u8,
    /// 1 to 64, rounded up to a power of two.
    pub(crate) runs_max: usize,
    /// Set mode: the keys of all runs together. Unique mode: the different ones.
    pub(crate) entries: u64,
    /// Not [`Mode::UniqueThenSet`].
    pub(crate) mode: Mode,
}

/// Runs by whole hash: the numbers of runs as a set of bits.
type WholeHashes = HashMap<u64, u64, BuildHasherDefault<Remixer>>;

/// Hashes what is a hash already.
#[derive(Debug, Default, Clone, Copy)]
struct Remixer(u64);

impl Hasher for Remixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = remix(hash);
    }
}

/// The filter of the runs of a group.
#[derive(Debug)]
pub(crate) struct MultiLevelCuckoo {
    geometry: Geometry,
    /// The buckets, then padding.
    buckets: Buffer,
    /// The secondary table, and what found no room.
    whole: WholeHashes,
    ring: Ring,
    mode: Mode,
    /// Slots in use.
    entries: u64,
}

impl Sizing {
    /// The memory of such a filter in bytes, if it can be.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        self.parts().map(|(_, geometry)| geometry.bytes())
    }

    fn parts(&self) -> Option<(Ring, Geometry)> {
        let ring = Ring::for_runs(self.runs_max)?;
        let buckets = u32::try_from(Geometry::buckets_for(self.entries)).ok()?;
        let geometry = Geometry::new(buckets, self.fingerprint_bits, ring.bits()).ok()?;
        (geometry.bytes() <= TABLE_BYTES_MAX).then_some((ring, geometry))
    }
}

impl MultiLevelCuckoo {
    /// A filter of no runs.
    ///
    /// # Errors
    /// `InvalidArgument` for more than [`TABLE_BYTES_MAX`], or parameters out of range.
    pub(crate) fn new(sizing: Sizing) -> Result<MultiLevelCuckoo> {
        let (ring, geometry) = sizing.parts().ok_or_else(|| {
            Error::invalid(format!(
                "expected a filter of 1 to 64 runs with fingerprints of 4 to 24 bits, in at most \
                 {TABLE_BYTES_MAX} bytes, found {sizing:?}"
            ))
        })?;
        Ok(MultiLevelCuckoo {
            geometry,
            buckets: Buffer::allocate(geometry.bytes() as usize + PADDING_BYTES),
            whole: WholeHashes::default(),
            ring,
            mode: sizing.mode,
            entries: 0,
        })
    }

    /// Builds the filter of several runs, oldest first. Cost: as of inserting them, without copies.
    ///
    /// # Errors
    /// As of [`MultiLevelCuckoo::new`] and [`MultiLevelCuckoo::extend`].
    pub(crate) fn build<R>(sizing: Sizing, runs: impl IntoIterator<Item = R>) -> Result<Self>
    where
        R: IntoIterator<Item = (u64, Prior)>,
    {
        let mut filter = MultiLevelCuckoo::new(sizing)?;
        runs.into_iter().try_for_each(|run| filter.push(run))?;
        Ok(filter)
    }

    /// The filter with one more run, the newest: its keys' hashes ([`hash_of`]), each once, fastest
    /// in ascending order, with what is known about them. Set mode does not need to know.
    ///
    /// # Errors
    /// `InvalidArgument` if there are as many runs as the filter was made for.
    pub(crate) fn extend(&self, keys: impl IntoIterator<Item = (u64, Prior)>) -> Result<Self> {
        let mut filter = self.copy();
        filter.push(keys)?;
        Ok(filter)
    }

    /// The filter without its `runs` oldest runs, whose numbers can be used again.
    pub(crate) fn without_oldest(&self, runs: usize) -> Self {
        let mut filter = self.copy();
        let gone = filter.ring.drop_oldest(runs);
        let mut filling = Filling::<u128>::new(filter.geometry, &mut filter.buckets);
        for index in 0..self.geometry.buckets() {
            let bucket = filling.bucket(index);
            for at in 0..SLOTS {
                let slot = self.geometry.slot(bucket, at);
                if slot != 0 && gone >> self.geometry.payload(slot) & 1 == 1 {
                    filling.set(index, at, 0);
                    filter.entries = filter.entries.saturating_sub(1);
                }
            }
        }
        filter.whole.retain(|_, set| {
            *set &= !gone;
            *set != 0
        });
        filter
    }

    /// Unique mode: the filter after keys have left some runs. For each its hash, and the newest
    /// run that it has left (as in a mask: 0 is the newest of all); it has left the older ones, too.
    /// A key comes once: erased a second time it would take another key's slot with it. No key with
    /// the same hash may be left in that run.
    ///
    /// # Errors
    /// `InvalidArgument` in set mode, where keys of one class share their slots.
    pub(crate) fn erase(&self, keys: impl IntoIterator<Item = (u64, usize)>) -> Result<Self> {
        if self.mode != Mode::Unique {
            return Err(Error::invalid(format!(
                "expected a filter in unique mode to erase keys of, found {:?} mode",
                self.mode
            )));
        }
        let mut filter = self.copy();
        for (hash, run) in keys {
            filter.erase_one(hash, run);
        }
        Ok(filter)
    }

    /// Whether one more run of so many keys finds room. If not, a larger filter is to be built: this one
    /// would keep them by their whole hashes, at 17 to 34 bytes each.
    pub(crate) fn has_room_for(&self, keys: u64) -> bool {
        !self.ring.is_full() && self.has_slots_for(keys)
    }

    /// Whether so many more keys find room in a run that the filter has.
    pub(crate) fn has_slots_for(&self, keys: u64) -> bool {
        let capacity = self.geometry.capacity() as f64 * (1.0 + CAPACITY_SLACK);
        self.entries.saturating_add(keys) <= capacity as u64
    }

    /// What the answers hold.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// The runs of the filter.
    pub(crate) fn runs(&self) -> usize {
        self.ring.runs()
    }

    /// Slots in use.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Buckets, and bits of a fingerprint.
    pub(crate) fn dimensions(&self) -> (u32, u8) {
        (self.geometry.buckets(), self.geometry.fingerprint_bits())
    }

    /// Entries that are kept by their whole hash.
    pub(crate) fn whole_hashes(&self) -> usize {
        self.whole.len()
    }

    /// The runs that may hold keys with these hashes. Many at a time cost less each: their cache
    /// lines are fetched from memory together.
    pub(crate) fn candidates_of_many(&self, hashes: &[KeyHash], answers: &mut Vec<RunMask>) {
        for hashes in hashes.chunks(BATCH) {
            if self.geometry.is_narrow() {
                self.answer::<u64>(hashes, answers);
            } else {
                self.answer::<u128>(hashes, answers);
            }
        }
    }

    /// Answers at most [`BATCH`] questions: first has all buckets fetched, then looks at them.
    #[inline]
    fn answer<W: Word>(&self, hashes: &[KeyHash], answers: &mut Vec<RunMask>) {
        let mut places = [Place::default(); BATCH];
        for (place, &hash) in places.iter_mut().zip(hashes) {
            *place = self.geometry.place(hash_of(hash));
            self.geometry.prefetch(&self.buckets, *place);
        }
        answers.extend(hashes.iter().zip(places).map(|(&hash, place)| {
            self.runs_in::<W>(self.fetch(place), place.fingerprint, hash_of(hash))
        }));
    }

    #[inline]
    fn fetch<W: Word>(&self, place: Place) -> [W; 2] {
        place
            .buckets
            .map(|index| self.geometry.bucket(&self.buckets, index))
    }

    /// The runs that may hold a key with this hash, given its buckets.
    #[inline]
    fn runs_in<W: Word>(&self, buckets: [W; 2], fingerprint: u32, hash: u64) -> RunMask {
        let [first, second] = buckets.map(|bucket| self.numbers(bucket, fingerprint));
        let mut numbers = first | second;
        if !self.whole.is_empty() {
            numbers |= self.whole.get(&hash).copied().unwrap_or(0);
        }
        self.ring.newest_first(numbers)
    }

    /// The numbers of runs in the slots with this fingerprint, as a set. Without branches: of the
    /// two buckets of a key one holds it, and nobody could predict which.
    #[inline]
    fn numbers<W: Word>(&self, bucket: W, fingerprint: u32) -> u64 {
        let slot_bits = self.geometry.slot_bits();
        let marks = self.geometry.with_fingerprint(bucket, fingerprint);
        (0..SLOTS).fold(0, |numbers, at| {
            let slot = (bucket >> (at * slot_bits)).low() as u32;
            let mark = (marks >> ((at + 1) * slot_bits - 1)).low() & 1;
            numbers | mark << self.geometry.payload(slot)
        })
    }

    /// The same filter, to add runs to. Cost: that of copying its memory.
    pub(crate) fn copy(&self) -> Self {
        let mut buckets = Buffer::allocate(self.buckets.len());
        buckets.copy_from_slice(&self.buckets);
        MultiLevelCuckoo {
            buckets,
            whole: self.whole.clone(),
            ..*self
        }
    }

    /// As [`MultiLevelCuckoo::extend`], in place: of a filter that nobody asks yet.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn push(&mut self, keys: impl IntoIterator<Item = (u64, Prior)>) -> Result<()> {
        self.begin_run()?;
        self.grow(keys);
        Ok(())
    }

    /// From now on keys are those of a further run, the newest.
    ///
    /// # Errors
    /// `InvalidArgument` if there are as many runs as the filter was made for.
    pub(crate) fn begin_run(&mut self) -> Result<()> {
        self.ring.push().map(drop)
    }

    /// Inserts more keys of the newest run, which the run has not had yet.
    pub(crate) fn grow(&mut self, keys: impl IntoIterator<Item = (u64, Prior)>) {
        if self.geometry.is_narrow() {
            self.grow_as::<u64>(keys);
        } else {
            self.grow_as::<u128>(keys);
        }
    }

    fn grow_as<W: Word>(&mut self, keys: impl IntoIterator<Item = (u64, Prior)>) {
        let number = u32::from(self.ring.newest());
        let secondary_max = (self.geometry.capacity() as f64 * SECONDARY_SHARE_MAX) as usize;
        let mut filling = Filling::<W>::new(self.geometry, &mut self.buckets);
        let mut keys = keys.into_iter();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            batch.extend(keys.by_ref().take(BATCH).map(|(hash, prior)| {
                let place = self.geometry.place(hash);
                (hash, prior, place)
            }));
            if batch.is_empty() {
                return;
            }
            filling.fetch(batch.iter().map(|(_, _, place)| *place));
            for &(hash, prior, place) in &batch {
                let inserted = match self.mode {
                    Mode::Unique => {
                        insert_unique(&mut filling, &mut self.whole, hash, place, number, prior)
                    }
                    Mode::Set | Mode::UniqueThenSet => filling.insert(place, number),
                };
                match inserted {
                    Inserted::Stored => self.entries += 1,
                    Inserted::Present => {}
                    Inserted::Full => *self.whole.entry(hash).or_insert(0) |= 1 << number,
                }
                if self.mode == Mode::Unique && self.whole.len() > secondary_max {
                    self.mode = Mode::UniqueThenSet;
                }
            }
        }
    }

    fn erase_one(&mut self, hash: u64, run: usize) {
        if let Some(set) = self.whole.get_mut(&hash) {
            *set &= self.ring.newer_than(run);
            if *set == 0 {
                self.whole.remove(&hash);
            }
            return;
        }
        let place = self.geometry.place(hash);
        let mut filling = Filling::<u128>::new(self.geometry, &mut self.buckets);
        if let Some((bucket, at, slot)) = class_entry(&filling, place)
            && self.geometry.payload(slot) == self.ring.number(run)
        {
            filling.set(bucket, at, 0);
            self.entries = self.entries.saturating_sub(1);
        }
    }
}

/// Makes `number` the newest run of a key in unique mode.
fn insert_unique<W: Word>(
    filling: &mut Filling<'_, W>,
    whole: &mut WholeHashes,
    hash: u64,
    place: Place,
    number: u32,
    prior: Prior,
) -> Inserted {
    // First of all: a key that was moved here stays here, or its old number would outlive it.
    if let Some(set) = whole.get_mut(&hash) {
        *set |= 1 << number;
        return Inserted::Present;
    }
    match (class_entry(filling, place), prior) {
        (None, _) => filling.insert(place, number),
        (Some((bucket, at, _)), Prior::Found) => {
            let slot = filling.geometry.slot_of(place.fingerprint, number);
            filling.set(bucket, at, slot);
            Inserted::Present
        }
        // Another key's, or nobody knows whose.
        (Some(_), Prior::Absent | Prior::Unknown) => Inserted::Full,
    }
}

/// The only entry of a class in unique mode: its bucket, its place there, the slot.
fn class_entry<W: Word>(filling: &Filling<'_, W>, place: Place) -> Option<(u32, u32, u32)> {
    place.buckets.into_iter().find_map(|index| {
        let bucket = filling.bucket(index);
        let marks = filling.geometry.with_fingerprint(bucket, place.fingerprint);
        let at = filling.geometry.first(marks)?;
        Some((index, at, filling.geometry.slot(bucket, at)))
    })
}

/// What a filter knows of a key.
pub(crate) fn hash_of(hash: KeyHash) -> u64 {
    buckets::hash_of(hash.low())
}

impl Probe for MultiLevelCuckoo {
    fn candidates(&self, hash: KeyHash, _: Option<&Page>) -> Result<Step<RunMask>> {
        let place = self.geometry.place(hash_of(hash));
        let runs = if self.geometry.is_narrow() {
            self.runs_in(self.fetch::<u64>(place), place.fingerprint, hash_of(hash))
        } else {
            self.runs_in(self.fetch::<u128>(place), place.fingerprint, hash_of(hash))
        };
        Ok(Step::Done(runs))
    }

    fn knows_newest_only(&self) -> bool {
        self.mode != Mode::Set
    }

    fn touch(&self, hash: KeyHash) {
        let place = self.geometry.place(hash_of(hash));
        self.geometry.prefetch(&self.buckets, place);
    }

    fn memory_bytes(&self) -> usize {
        let entry = size_of::<(u64, u64)>() + 1;
        size_of::<Self>() + self.buckets.len() + self.whole.capacity() * 8 / 7 * entry
    }
}

#[cfg(test)]
mod tests;
