use std::collections::BTreeSet;

use super::*;

mod format;
mod model;
mod printed;
mod speed;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        KeyHash::of(&self.0.to_le_bytes(), 0xC0C0).low()
    }
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn hash(i: u64) -> KeyHash {
    KeyHash::of(&i.to_le_bytes(), 5)
}

/// Key `i` of those that have one fingerprint of at most 16 bits and one bucket.
fn alike(i: u64) -> u64 {
    assert!(i < 256);
    0x0012_3456_789A_BC00 | i
}

impl MultiLevelCuckoo {
    /// Builds the filter of several runs, oldest first. Cost: that of inserting them, without
    /// copies.
    pub(crate) fn build<R>(sizing: CuckooSize, runs: impl IntoIterator<Item = R>) -> Result<Self>
    where
        R: IntoIterator<Item = u64>,
    {
        let mut filter = MultiLevelCuckoo::new(sizing)?;
        runs.into_iter().try_for_each(|run| filter.push(run))?;
        Ok(filter)
    }

    /// The filter without its `runs` oldest runs, whose numbers can be used again.
    fn without_oldest(&self, runs: usize) -> Self {
        let mut filter = self.copy();
        let gone = filter.ring.drop_oldest(runs);
        let mut filling = CuckooBuilder::<u128>::new(filter.geometry, &mut filter.buckets);
        for index in 0..self.geometry.buckets() {
            let bucket = filling.bucket(index);
            for at in 0..SLOTS {
                let slot = self.geometry.slot(bucket, at);
                if slot != 0 && gone >> self.number(slot) & 1 == 1 {
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
}

fn sizing(fingerprint_bits: u8, runs_max: usize, entries: u64, mode: Mode) -> CuckooSize {
    CuckooSize {
        fingerprint_bits,
        runs_max,
        entries,
        mode,
    }
}

fn runs_of(filter: &MultiLevelCuckoo, hash: u64) -> RunMask {
    let whole = KeyHash(u128::from(hash) << 8);
    let mut answers = vec![RunMask::all(3)];
    filter.candidates_of_many(&[whole, whole], &mut answers);
    match filter.candidates(whole, None).unwrap() {
        Step::Done(runs) => {
            assert_eq!(answers, [RunMask::all(3), runs, runs]);
            runs
        }
        Step::Read(_) => panic!("a filter in memory asks for no page"),
    }
}

#[test]
fn who_asks_for_the_size_of_a_filter_hears_whether_it_can_be() {
    for (bits, runs, entries, can_be) in [
        (12, 8, 1000, true),
        (12, 64, 0, true),
        (12, 65, 1000, false),
        (25, 8, 1000, false),
        (12, 8, 1_200_000_000, false),
        (12, 8, u64::MAX, false),
    ] {
        let sizing = sizing(bits, runs, entries, Mode::Set);
        assert_eq!(sizing.memory_bytes().is_some(), can_be, "{sizing:?}");
        let filter = MultiLevelCuckoo::new(sizing);
        assert_eq!(filter.is_ok(), can_be, "{sizing:?}");
    }
}

/// Table of section 3.7 of the specification: 8 runs, filled to 95 %.
#[test]
fn false_positives_and_sizes_are_those_of_the_specification() {
    const KEYS: u64 = 124_512;
    const ASKED: u64 = 400_000;
    for (bits, of_set) in [(11, 15.0), (12, 16.0), (13, 17.0), (14, 18.0), (16, 20.05)] {
        for (mode, bits_per_key) in [(Mode::Set, of_set), (Mode::Unique, of_set + 1.06)] {
            let runs =
                (0..8).map(|run| (run * KEYS / 8..(run + 1) * KEYS / 8).map(|i| hash_of(hash(i))));
            let filter = MultiLevelCuckoo::build(sizing(bits, 8, KEYS, mode), runs).unwrap();
            assert_eq!(filter.mode(), mode);
            let wrong = (KEYS..KEYS + ASKED)
                .filter(|&i| runs_of(&filter, hash_of(hash(i))) != RunMask::NONE)
                .count() as f64;
            let expected = 8.0 * 0.95 / f64::from(1u32 << bits);
            let deviation = (expected * ASKED as f64).sqrt();
            let taken = filter.memory_bytes() as f64 * 8.0 / KEYS as f64;
            let share = filter.whole_hashes() as f64 / KEYS as f64;
            println!(
                "{bits} bits, {mode:?}: {:.5} false positives ({expected:.5}), {taken:.2} bits per \
                 key, {share:.5} kept whole",
                wrong / ASKED as f64
            );
            assert!(
                (wrong - expected * ASKED as f64).abs() < 5.0 * deviation,
                "{wrong} of {ASKED}"
            );
            assert!(taken < bits_per_key, "{taken} bits per key");
            assert_eq!(share, 0.0);
        }
    }
}

/// The bounds for a full level of eight runs: at most 16.0 bits per key and 0.002.
#[test]
fn a_level_of_eight_runs_takes_sixteen_bits_per_key() {
    const KEYS: u64 = 800_000;
    let runs = (0..8).map(|run| {
        let mut hashes: Vec<_> = (run * KEYS / 8..(run + 1) * KEYS / 8)
            .map(|i| hash_of(hash(i)))
            .collect();
        hashes.sort_unstable();
        hashes
    });
    let filter = MultiLevelCuckoo::build(sizing(12, 8, KEYS, Mode::Set), runs).unwrap();
    assert!(filter.memory_bytes() as u64 * 8 <= 16 * KEYS);
    assert_eq!((filter.whole_hashes(), filter.mode()), (0, Mode::Set));
    assert!(!filter.has_slots_for(KEYS / 40));
    let right = (0..KEYS).filter(|&i| {
        let run = 7 - i / (KEYS / 8);
        runs_of(&filter, hash_of(hash(i))).0 >> run & 1 == 1
    });
    assert_eq!(right.count() as u64, KEYS);
    let wrong = (KEYS..2 * KEYS).filter(|&i| !runs_of(&filter, hash_of(hash(i))).is_empty());
    let wrong = wrong.count() as f64 / KEYS as f64;
    println!("{wrong} false positives");
    assert!(wrong <= 0.002, "{wrong}");
}

/// Sixteen runs with the same keys, twice as many as two buckets have slots: each key takes one.
#[test]
fn a_key_takes_one_slot_however_often_it_is_written() {
    let keys: Vec<_> = (0..500).map(|i| hash_of(hash(i))).collect();
    let runs = (0..16).map(|_| keys.iter().copied());
    let filter = MultiLevelCuckoo::build(sizing(12, 16, 500, Mode::Set), runs).unwrap();
    assert_eq!((filter.mode(), filter.whole_hashes()), (Mode::Unique, 0));
    assert!(filter.entries <= 500);
    for &key in &keys {
        assert_eq!(runs_of(&filter, key), RunMask::all(16));
    }
}

/// Figure 9 of SlimDB: at most 18 bits per distinct key with 0 to 90 % duplicates, and each key has
/// a slot.
#[test]
fn keys_that_are_written_again_take_no_more_than_others() {
    const RUN_KEYS: u64 = 30_000;
    for percent in [0, 3, 5, 10, 30, 50, 70, 90] {
        for mode in [Mode::Set, Mode::Unique] {
            let mut random = Random(percent);
            let mut distinct = 0;
            let runs = (0..8).map(|_| {
                let (mut keys, before) = (BTreeSet::new(), distinct);
                for _ in 0..RUN_KEYS {
                    let again = before > 0 && random.below(100) < percent;
                    keys.insert(if again {
                        random.below(before)
                    } else {
                        distinct
                    });
                    distinct += u64::from(!again);
                }
                let mut hashes: Vec<_> = keys.iter().map(|i| hash_of(hash(*i))).collect();
                hashes.sort_unstable();
                hashes
            });
            let runs: Vec<_> = runs.collect();
            let all: u64 = runs.iter().map(|run| run.len() as u64).sum();
            let filter = MultiLevelCuckoo::build(sizing(12, 8, distinct, mode), runs.clone());
            let filter = filter.unwrap();
            let bits = filter.memory_bytes() as f64 * 8.0 / distinct as f64;
            let absent = 100_000;
            let wasted: u32 = (distinct..distinct + absent)
                .map(|i| runs_of(&filter, hash_of(hash(i))).0.count_ones())
                .sum();
            let wasted = f64::from(wasted) / absent as f64;
            println!(
                "{percent} %, {mode:?}: {bits:.2} bits for each of {distinct} keys of {all}, \
                 {} kept whole, {wasted:.4} runs named for an absent key",
                filter.whole_hashes()
            );
            assert!(bits <= 18.0, "{bits} bits");
            assert_eq!(filter.whole_hashes(), 0);
            assert_eq!(
                filter.mode() == Mode::Set,
                mode == Mode::Set && percent == 0
            );
            assert!(wasted < 0.012, "{wasted}");
            for (run, hashes) in runs.iter().rev().enumerate() {
                let named = |hash: &&u64| runs_of(&filter, **hash).contains(run);
                assert_eq!(hashes.iter().filter(named).count(), hashes.len());
            }
        }
    }
}

#[test]
fn a_filter_that_is_too_small_answers_right() {
    let mut filter = MultiLevelCuckoo::new(sizing(12, 4, 1000, Mode::Set)).unwrap();
    for run in 0..4 {
        assert_eq!(filter.has_slots_for(1000), run == 0);
        let hashes = (run * 1000..(run + 1) * 1000).map(|i| hash_of(hash(i)));
        filter = filter.extend(hashes).unwrap();
    }
    for i in 0..4000 {
        let run = 3 - i / 1000;
        assert!(runs_of(&filter, hash_of(hash(i))).0 >> run & 1 == 1);
    }
    assert!(filter.whole_hashes() > 2900);
    assert!(filter.is_full_of_runs() && filter.extend([]).is_err());
}

#[test]
fn a_version_keeps_its_filter() {
    let empty = MultiLevelCuckoo::new(sizing(14, 8, 100, Mode::Set)).unwrap();
    let one = empty.extend([alike(1)]).unwrap();
    let two = one.extend([alike(1), alike(2)]).unwrap();
    let none = two.without_oldest(2);
    assert_eq!(runs_of(&empty, alike(1)), RunMask::NONE);
    assert_eq!(runs_of(&one, alike(1)), RunMask(1));
    assert_eq!(runs_of(&two, alike(1)), RunMask(0b11));
    assert_eq!(runs_of(&none, alike(1)), RunMask::NONE);
    assert_eq!((none.runs(), none.entries), (0, 0));
    assert!(two.memory_bytes() > 100 * (14 + 3) / 8);
}

#[test]
fn sizes_out_of_range_are_refused() {
    let refused = [
        sizing(3, 8, 10, Mode::Set),
        sizing(25, 8, 10, Mode::Set),
        sizing(12, 0, 10, Mode::Set),
        sizing(12, 65, 10, Mode::Set),
        sizing(12, usize::MAX, 10, Mode::Set),
        sizing(12, 8, 2_000_000_000, Mode::Set),
        sizing(12, 8, u64::MAX, Mode::Set),
    ];
    for sizing in refused {
        let error = MultiLevelCuckoo::new(sizing).expect_err("refused");
        assert_eq!(error.kind(), crate::base::error::ErrorKind::InvalidArgument);
    }
}
