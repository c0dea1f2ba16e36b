//! The insertion as the paper prints it (SlimDB, algorithm 2), which loses keys, and the same
//! histories with ours, which loses none: section 3.2 of the specification.

use std::collections::HashMap;

use super::*;

/// Both insertions over one history, with the real content of the runs.
struct Histories {
    ours: MultiLevelCuckoo,
    /// Primary and secondary table of the printed one, whose secondary table has whole keys.
    printed: MultiLevelCuckoo,
    secondary: HashMap<u64, u32>,
    /// Newest first.
    runs: Vec<BTreeSet<u64>>,
}

impl Histories {
    fn new(fingerprint_bits: u8, entries: u64) -> Histories {
        let sizing = sizing(fingerprint_bits, 8, entries, Mode::Unique);
        Histories {
            ours: MultiLevelCuckoo::new(sizing).unwrap(),
            printed: MultiLevelCuckoo::new(sizing).unwrap(),
            secondary: HashMap::new(),
            runs: Vec::new(),
        }
    }

    fn add(&mut self, keys: &[u64]) {
        self.ours = self.ours.extend(keys.iter().copied()).unwrap();
        self.printed = self.printed.extend([]).unwrap();
        self.runs.insert(0, BTreeSet::new());
        for &key in keys {
            self.insert_printed(key);
            self.runs[0].insert(key);
        }
    }

    fn insert_printed(&mut self, key: u64) {
        let number = self.printed.ring.number(0);
        let geometry = self.printed.geometry;
        let mut filling = CuckooBuilder::<u128>::new(geometry, &mut self.printed.buckets);
        let place = geometry.place(key);
        let Some((bucket, at, slot)) = class_entry(&filling, place) else {
            filling.insert(place, number);
            return;
        };
        let of_number = |run: &usize| self.printed.ring.number(*run) == geometry.payload(slot);
        let run = (0..self.runs.len()).find(of_number);
        if run.is_some_and(|run| self.runs[run].contains(&key)) {
            filling.set(bucket, at, geometry.slot_of(place.fingerprint, number));
        } else {
            self.secondary.insert(key, number);
        }
    }

    /// The number of keys that each of the two leads past their newest run, ours first.
    fn wrong(&self) -> [usize; 2] {
        let keys: BTreeSet<u64> = self.runs.iter().flatten().copied().collect();
        let mut wrong = [0, 0];
        for key in keys {
            let holding = (0..self.runs.len()).filter(|&run| self.runs[run].contains(&key));
            let newest = holding.min().unwrap();
            let [ours, printed] = [&self.ours, &self.printed].map(|filter| runs_of(filter, key).0);
            wrong[0] += usize::from(ours >> newest & 1 == 0);
            let of_secondary = |&number: &u32| self.printed.ring.newest_first(1 << number).0;
            let printed = self.secondary.get(&key).map_or(printed, of_secondary);
            wrong[1] += usize::from(printed != 1 << newest);
        }
        wrong
    }
}

/// The occupant of the class is in a run that also holds an old version of the other key.
#[test]
fn the_occupant_of_a_class_is_not_overwritten() {
    let (x, z) = (alike(1), alike(2));
    let mut histories = Histories::new(12, 1000);
    histories.add(&[z, x]);
    assert_eq!(histories.wrong(), [0, 0]);
    histories.add(&[x]);
    // The printed one lost z and answers an old x.
    assert_eq!(histories.wrong(), [0, 2]);
}

/// `oracle_run` of the reference simulation: 1900 writes of 1800 keys in 8 runs.
#[test]
fn random_writes_lose_no_key() {
    let mut printed_wrong = 0;
    for (seed, bits) in [(1, 8), (2, 8), (3, 10), (4, 10), (5, 12)] {
        println!("seed {seed}, {bits} bits");
        let mut random = Random(seed << 32);
        let mut histories = Histories::new(bits, 1900);
        for _ in 0..8 {
            let keys: BTreeSet<_> = (0..237).map(|_| random.below(1800)).collect();
            let mut keys: Vec<_> = keys.into_iter().map(|i| hash_of(hash(i))).collect();
            keys.sort_unstable();
            histories.add(&keys);
            let [ours, printed] = histories.wrong();
            assert_eq!(ours, 0);
            printed_wrong += printed;
        }
    }
    assert!(printed_wrong > 0, "the simulation no longer shows the loss");
}
