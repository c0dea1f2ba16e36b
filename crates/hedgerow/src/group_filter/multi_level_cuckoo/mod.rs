//! One cuckoo filter for several runs of a group: it names the runs that may hold a key. A slot is
//! a fingerprint and the number of a run (SlimDB, section 3.2). A lookup reads two cache lines for
//! any number of runs, and the false positives are those of one filter.
//!
//! * **Set mode** stores each pair of class and run once. The answer holds the runs of the key, and
//!   those of other keys of its class.
//! * **Unique mode** stores each class once: the newest run that has a key of it, and a bit. The
//!   bit is set if older runs may have a key of the class, too. The answer is that run, and with
//!   the bit all older runs. Readers ask the newest run first, so a key that was written again
//!   costs neither a slot nor a read.
//!
//! Set mode is exact, and a slot has a bit less. It takes a slot for each run of a key, and the
//! copies crowd their two buckets. So [`MultiLevelCuckoo::grow`] changes to unique mode when one of
//! [`COPY_SHARE`] keys has a class that is there, or when the slots run out.
//!
//! Both modes name all runs that may hold the key (I28): two keys with one fingerprint or one hash
//! are one key here. The paper's insertion (its algorithm 2) stores one run per class and asks the
//! store whose class it is, which loses keys.
//!
//! An entry without room is kept by its whole hash, so that it is not lost. It costs ten times as
//! much as a slot. Callers check [`MultiLevelCuckoo::has_slots_for`] before they add a run.
//!
//! A filter belongs to a version and does not change: [`MultiLevelCuckoo::extend`] copies it and
//! inserts one run. Runs are numbered around a ring. A probe turns the numbers into places, newest
//! first. The filter cannot grow: fingerprints do not say where their keys would go, so a larger
//! filter is built from the hashes of all runs ([`run_hashes`]).
//!
//! Costs: `docs/design/0008-multi-level-cuckoo.md`.

mod ahead;
mod coverage;
mod cuckoo_kind;
mod encoding;
mod grow;
mod kept;
mod ring;
mod stored;
mod unique;

pub(crate) use cuckoo_kind::CuckooKind;
pub use stored::CuckooContents;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::base::entry::KeyHash;
use crate::base::error::{Error, Result};
use crate::base::options::FilterSpec;
use crate::base::page::{Buffer, Page, Step};

use crate::table::filter::bucket_word::Word;
use crate::table::filter::buckets;
use crate::table::filter::buckets::{
    BucketGeometry, BucketPair, CuckooBuilder, InsertResult, PADDING_BYTES, SLOTS,
};
use crate::table::filter::{Probe, RunMask, remix};
use ring::Ring;

/// The largest table, in bytes: a group with more keys (a billion) wants more partitions.
const TABLE_BYTES_MAX: u64 = 2 << 30;
/// The excess over the planned size that a filter accepts: runs differ in size. At this much more
/// than 95 % load it keeps few entries by their whole hashes.
const CAPACITY_SLACK: f64 = 0.02;
/// Unique mode takes over when more than one of this many keys has a class that is there. A copy
/// takes a slot of some 15 bits in set mode; unique mode takes a bit of every slot.
const COPY_SHARE: usize = 16;
/// The number of keys whose buckets are prefetched together.
const BATCH: usize = 64;

/// The runs that are stored for a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All of them.
    Set,
    /// The newest one, and whether there are older ones.
    Unique,
}

/// The sizing of a filter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CuckooSize {
    /// 4 to 24.
    pub(crate) fingerprint_bits: u8,
    /// 1 to 64, rounded up to a power of two.
    pub(crate) runs_max: usize,
    /// The different keys of all runs together.
    pub(crate) entries: u64,
    /// The first mode.
    pub(crate) mode: Mode,
}

/// The runs of whole hashes: the numbers of runs as a set of bits.
type WholeHashes = HashMap<u64, u64, BuildHasherDefault<Remixer>>;

/// Hashes a value that is a hash already.
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
    geometry: BucketGeometry,
    /// The buckets, then padding.
    buckets: Buffer,
    /// The entries that found no room.
    whole: WholeHashes,
    ring: Ring,
    mode: Mode,
    /// The number of slots in use.
    entries: u64,
}

impl Mode {
    /// The bits of a fingerprint and the first mode of a filter of this kind; `None` for others.
    pub(crate) fn of_spec(filter: FilterSpec) -> Option<(u8, Mode)> {
        match filter {
            FilterSpec::MultiLevelCuckoo {
                fingerprint_bits,
                unique,
            } => Some((
                fingerprint_bits,
                if unique { Mode::Unique } else { Mode::Set },
            )),
            _ => None,
        }
    }

    /// The bits of a slot beside the fingerprint: the number of a run, and in unique mode one bit
    /// above it. It is set if older runs may have keys of the class.
    fn payload_bits(self, ring: Ring) -> u8 {
        ring.bits() + u8::from(self == Mode::Unique)
    }
}

impl CuckooSize {
    /// The memory of such a filter in bytes, in unique mode, if it can be.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let mode = Mode::Unique;
        let parts = CuckooSize { mode, ..*self }.parts();
        parts.map(|(_, geometry)| geometry.bytes())
    }

    fn parts(&self) -> Option<(Ring, BucketGeometry)> {
        let ring = Ring::for_runs(self.runs_max)?;
        let buckets = u32::try_from(BucketGeometry::buckets_for(self.entries)).ok()?;
        let payload_bits = self.mode.payload_bits(ring);
        let geometry = BucketGeometry::new(buckets, self.fingerprint_bits, payload_bits).ok()?;
        (geometry.bytes() <= TABLE_BYTES_MAX).then_some((ring, geometry))
    }
}

impl MultiLevelCuckoo {
    /// A filter of no runs.
    ///
    /// # Errors
    /// `InvalidArgument` for more than [`TABLE_BYTES_MAX`], or parameters out of range.
    pub(crate) fn new(sizing: CuckooSize) -> Result<MultiLevelCuckoo> {
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

    /// Returns true if all numbers of runs are in use.
    pub(crate) fn is_full_of_runs(&self) -> bool {
        self.ring.is_full()
    }

    /// Returns true if `keys` more keys, which no run has, find room. If not, a larger filter is to
    /// be built: this one would keep them by their whole hashes, at 17 to 34 bytes each.
    pub(crate) fn has_slots_for(&self, keys: u64) -> bool {
        let capacity = self.geometry.capacity() as f64 * (1.0 + CAPACITY_SLACK);
        self.load().saturating_add(keys) <= capacity as u64
    }

    /// The slots that it would use if it had room.
    pub(crate) fn load(&self) -> u64 {
        self.entries + self.whole.len() as u64
    }

    /// Counts the hashes that no run has a key of. Cost: that of a lookup for each.
    pub(crate) fn count_unknown(&self, hashes: &[u64]) -> u64 {
        let mut answers = Vec::with_capacity(BATCH);
        let unknown = hashes.chunks(BATCH).map(|hashes| {
            answers.clear();
            self.answer_batch(hashes.iter().copied(), &mut answers);
            answers.iter().filter(|runs| runs.is_empty()).count() as u64
        });
        unknown.sum()
    }

    /// The runs that a class stores.
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

    /// Answers at most [`BATCH`] questions.
    fn answer_batch(&self, hashes: impl Iterator<Item = u64> + Clone, answers: &mut Vec<RunMask>) {
        if self.geometry.is_narrow() {
            self.answer::<u64>(hashes, answers);
        } else {
            self.answer::<u128>(hashes, answers);
        }
    }

    /// Prefetches all buckets, then looks at them.
    #[inline]
    fn answer<W: Word>(
        &self,
        hashes: impl Iterator<Item = u64> + Clone,
        answers: &mut Vec<RunMask>,
    ) {
        let mut places = [BucketPair::default(); BATCH];
        for (place, hash) in places.iter_mut().zip(hashes.clone()) {
            *place = self.geometry.place(hash);
            self.geometry.prefetch(&self.buckets, *place);
        }
        let asked = hashes.zip(places);
        answers
            .extend(asked.map(|(hash, place)| {
                self.runs_in::<W>(self.fetch(place), place.fingerprint, hash)
            }));
    }

    #[inline]
    fn fetch<W: Word>(&self, place: BucketPair) -> [W; 2] {
        place
            .buckets
            .map(|index| self.geometry.bucket(&self.buckets, index))
    }

    /// The runs that may hold a key with this hash, given its buckets.
    #[inline]
    fn runs_in<W: Word>(&self, buckets: [W; 2], fingerprint: u32, hash: u64) -> RunMask {
        let [first, second] = buckets.map(|bucket| self.numbers(bucket, fingerprint));
        let mut named = first.0 | second.0;
        if !self.whole.is_empty() {
            named |= self.whole.get(&hash).copied().unwrap_or(0);
        }
        let named = self.ring.newest_first(named);
        let before = self.ring.newest_first(first.1 | second.1).0;
        // The lowest of some bits and all above it.
        let older = RunMask(before | before.wrapping_neg());
        RunMask(named.0 | older.0 & RunMask::all(self.runs()).0)
    }

    /// The numbers of runs in the slots with this fingerprint, as a set, and the subset whose slots
    /// have the bit for older runs. There are no branches: one of the two buckets of a key holds
    /// it, and nobody could predict which.
    #[inline]
    fn numbers<W: Word>(&self, bucket: W, fingerprint: u32) -> (u64, u64) {
        let slot_bits = self.geometry.slot_bits();
        let marks = self.geometry.with_fingerprint(bucket, fingerprint);
        (0..SLOTS).fold((0, 0), |(named, before), at| {
            let slot = (bucket >> (at * slot_bits)).low() as u32;
            let mark = (marks >> ((at + 1) * slot_bits - 1)).low() & 1;
            let number = self.number(slot);
            let has_older = u64::from(self.geometry.payload(slot) >> self.ring.bits());
            (
                named | mark << number,
                before | (mark & has_older) << number,
            )
        })
    }

    /// The number of the run in a slot.
    #[inline]
    fn number(&self, slot: u32) -> u32 {
        slot & ((1 << self.ring.bits()) - 1)
    }

    /// A copy of the filter, to add runs to. Cost: a copy of its memory.
    pub(crate) fn copy(&self) -> Self {
        let mut buckets = Buffer::allocate(self.buckets.len());
        buckets.copy_from_slice(&self.buckets);
        MultiLevelCuckoo {
            buckets,
            whole: self.whole.clone(),
            ..*self
        }
    }

    /// Begins a further run, the newest: later keys are its keys.
    ///
    /// # Errors
    /// `InvalidArgument` if there are as many runs as the filter was made for.
    pub(crate) fn begin_run(&mut self) -> Result<()> {
        self.ring.push().map(drop)
    }

    /// Inserts more keys of the newest run. Set mode ends where it costs more than unique mode.
    pub(crate) fn grow(&mut self, keys: impl IntoIterator<Item = u64>) {
        let mut keys = keys.into_iter();
        loop {
            let is_done = if self.geometry.is_narrow() {
                self.insert_some::<u64>(&mut keys)
            } else {
                self.insert_some::<u128>(&mut keys)
            };
            if is_done {
                return;
            }
            self.become_unique();
        }
    }

    /// Inserts keys up to the last one. Returns false if unique mode is to take over before.
    fn insert_some<W: Word>(&mut self, keys: &mut impl Iterator<Item = u64>) -> bool {
        let number = u32::from(self.ring.newest());
        let is_set = self.mode == Mode::Set;
        let older = 1 << self.ring.bits();
        let slots = (self.geometry.capacity() as f64 * (1.0 + CAPACITY_SLACK)) as u64;
        let mut filling = CuckooBuilder::<W>::new(self.geometry, &mut self.buckets);
        let mut batch = Vec::with_capacity(BATCH);
        let (mut inserted, mut copies) = (0, 0);
        loop {
            batch.clear();
            let next = keys.by_ref().take(BATCH);
            batch.extend(next.map(|hash| (hash, filling.geometry.place(hash))));
            if batch.is_empty() {
                return true;
            }
            filling.fetch(batch.iter().map(|(_, place)| *place));
            for &(hash, place) in &batch {
                let of_class = class_entry(&filling, place);
                copies += usize::from(of_class.is_some());
                let stored = match of_class {
                    Some((bucket, at, slot)) if !is_set => {
                        if slot & (older - 1) != number {
                            let slot = filling.geometry.slot_of(place.fingerprint, older | number);
                            filling.set(bucket, at, slot);
                        }
                        InsertResult::Present
                    }
                    _ => filling.insert(place, number),
                };
                match stored {
                    InsertResult::Stored => self.entries += 1,
                    InsertResult::Present => {}
                    InsertResult::Full => *self.whole.entry(hash).or_insert(0) |= 1 << number,
                }
            }
            inserted += batch.len();
            let load = self.entries + self.whole.len() as u64;
            if is_set && (copies > inserted / COPY_SHARE + BATCH || load > slots) {
                return false;
            }
        }
    }
}

/// Whole steps for benches, fuzzers and tests. The engine takes them apart.
#[cfg(any(test, feature = "internals"))]
impl MultiLevelCuckoo {
    /// The filter with one more run, the newest: the hashes of its keys ([`hash_of`]), fastest in
    /// ascending order.
    ///
    /// # Errors
    /// `InvalidArgument` if there are as many runs as the filter was made for.
    pub(crate) fn extend(&self, keys: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut filter = self.copy();
        filter.push(keys)?;
        Ok(filter)
    }

    /// Does the same as [`MultiLevelCuckoo::extend`] in place, for a filter that nobody probes yet.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn push(&mut self, keys: impl IntoIterator<Item = u64>) -> Result<()> {
        self.begin_run()?;
        self.grow(keys);
        Ok(())
    }

    /// The runs that may hold keys with these hashes. Many keys at a time cost less each: their
    /// cache lines are prefetched together.
    pub(crate) fn candidates_of_many(&self, hashes: &[KeyHash], answers: &mut Vec<RunMask>) {
        for hashes in hashes.chunks(BATCH) {
            self.answer_batch(hashes.iter().map(|hash| hash_of(*hash)), answers);
        }
    }
}

/// An entry of a class, the only one in unique mode: its bucket, its place there, the slot.
#[inline]
fn class_entry<W: Word>(
    filling: &CuckooBuilder<'_, W>,
    place: BucketPair,
) -> Option<(u32, u32, u32)> {
    place.buckets.into_iter().find_map(|index| {
        let bucket = filling.bucket(index);
        let marks = filling.geometry.with_fingerprint(bucket, place.fingerprint);
        let at = filling.geometry.first(marks)?;
        Some((index, at, filling.geometry.slot(bucket, at)))
    })
}

/// The bits of a key's hash that a filter uses.
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
