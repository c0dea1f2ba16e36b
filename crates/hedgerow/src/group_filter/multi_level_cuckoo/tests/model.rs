//! Random histories against sets of keys, and all short ones over few keys.

use super::format::through_bytes;
use super::*;

/// The real content of the runs, newest first.
#[derive(Clone)]
struct Model {
    filter: MultiLevelCuckoo,
    runs: Vec<BTreeSet<u64>>,
}

impl Clone for MultiLevelCuckoo {
    fn clone(&self) -> Self {
        self.copy()
    }
}

impl Model {
    fn new(sizing: CuckooSize) -> Model {
        Model {
            filter: MultiLevelCuckoo::new(sizing).unwrap(),
            runs: Vec::new(),
        }
    }

    fn add(&mut self, keys: BTreeSet<u64>) {
        self.filter = self.filter.extend(keys.iter().copied()).unwrap();
        self.runs.insert(0, keys);
    }

    fn drop_oldest(&mut self, runs: usize) {
        self.filter = self.filter.without_oldest(runs);
        self.runs.truncate(self.runs.len().saturating_sub(runs));
    }

    /// All runs that hold a key are found.
    fn check(&self, keys: impl IntoIterator<Item = u64>) {
        assert_eq!(self.filter.runs(), self.runs.len());
        for key in keys {
            let holding = self.runs.iter().enumerate();
            let holding = holding.filter(|(_, run)| run.contains(&key));
            let wanted = holding.fold(0u64, |mask, (run, _)| mask | 1 << run);
            let found = runs_of(&self.filter, key).0;
            assert_eq!(
                found & wanted,
                wanted,
                "{found:b}, not {wanted:b}, of {key:#x}"
            );
            assert_eq!(found & !RunMask::all(self.runs.len()).0, 0);
        }
    }
}

#[test]
fn random_histories_find_every_key() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut random = Random(seed << 32);
        let mode = [Mode::Set, Mode::Unique][random.below(2) as usize];
        let runs_max = [1, 2, 5, 8, 16, 64][random.below(6) as usize];
        let bits = 4 + random.below(21) as u8;
        let per_run = 1 + random.below(300);
        // The room goes from none to plenty, and the duplicates from none to nine of ten.
        let entries = per_run * runs_max as u64 * random.below(4) / 2;
        let universe = per_run * 2 + random.below(10 * per_run);
        let key = |random: &mut Random| match random.below(20) {
            0 => alike(random.below(20)),
            _ => hash_of(hash(random.below(universe))),
        };
        let mut model = Model::new(sizing(bits, runs_max, entries, mode));
        for _ in 0..3 * runs_max.min(16) {
            if model.runs.len() == runs_max || random.below(10) == 0 {
                model.drop_oldest(1 + random.below(runs_max as u64) as usize);
            }
            let keys: BTreeSet<_> = (0..per_run).map(|_| key(&mut random)).collect();
            model.add(keys);
            if random.below(4) == 0 {
                model.filter = through_bytes(&model.filter);
            }
            model.check(
                (0..universe)
                    .map(|i| hash_of(hash(i)))
                    .chain((0..20).map(alike)),
            );
        }
    }
}

/// Shares of keys written again as in table 5 of SlimDB.
#[test]
fn duplicates_are_found_in_all_their_runs() {
    for percent in [0, 10, 50, 90] {
        for mode in [Mode::Set, Mode::Unique] {
            let mut random = Random(percent);
            let mut model = Model::new(sizing(12, 8, 8000, mode));
            let mut next = 0;
            for _ in 0..8 {
                let mut keys = BTreeSet::new();
                while keys.len() < 1000 {
                    let again = next > 1000 && random.below(100) < percent;
                    let key = if again { random.below(next) } else { next };
                    next += u64::from(!again);
                    keys.insert(hash_of(hash(key)));
                }
                model.add(keys);
            }
            model.check((0..next + 1000).map(|i| hash_of(hash(i))));
            let kept = model.filter.whole_hashes();
            println!(
                "{percent} %, {mode:?}: {kept} kept whole, {} entries",
                model.filter.entries
            );
        }
    }
}

/// All histories of up to three runs over keys of which most are of one class, in filters of one or
/// two buckets.
#[test]
fn all_short_histories_over_few_keys() {
    let keys = [
        alike(0),
        alike(1),
        alike(2),
        hash_of(hash(1)),
        hash_of(hash(2)),
    ];
    let chosen = |set: u32| {
        let chosen = keys.iter().enumerate();
        let chosen = chosen.filter(move |(i, _)| set >> i & 1 == 1);
        chosen.map(|(_, &key)| key).collect::<BTreeSet<_>>()
    };
    for mode in [Mode::Set, Mode::Unique] {
        for entries in [1, 5] {
            let empty = Model::new(sizing(12, 4, entries, mode));
            for first in 0..1 << keys.len() {
                let mut one = empty.clone();
                one.add(chosen(first));
                one.check(keys);
                for second in 0..1 << keys.len() {
                    let mut two = one.clone();
                    two.add(chosen(second));
                    two.check(keys);
                    let mut three = two.clone();
                    three.add(chosen(first ^ second));
                    three.check(keys);
                    two.drop_oldest(1);
                    two.check(keys);
                }
            }
        }
    }
}
