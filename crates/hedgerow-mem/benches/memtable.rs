//! Measures fills and reads of the candidate structures for a memtable.
//!
//! `cargo bench -p hedgerow-mem` prints a table and one line of JSON per measurement (medians of
//! repeats). `cargo test` runs it in a small size that only shows that it works. Argument: a part
//! of a structure's name, to run that structure alone.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "includes parts of the library to build upon"
)]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program that prints or stops"
)]

#[path = "../src/arena.rs"]
mod arena;
#[path = "../src/entry.rs"]
mod entry;
#[path = "../src/pool.rs"]
mod pool;
#[path = "../src/prefetch.rs"]
mod prefetch;
mod structures;
#[path = "../src/sync.rs"]
mod sync;
#[path = "../src/tree/mod.rs"]
mod tree;

use std::thread;
use std::time::Instant;

use structures::{BLinkTree, BinaryTree, Crossbeam, Pieces, Pools, SkipList, Structure};

const KEY_BYTES: usize = 16;
const VALUE_BYTES: usize = 100;
const SCAN_ENTRIES: usize = 10;

/// SplitMix64 of a counter. It is a bijection, so keys of different numbers differ.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[derive(Clone, Copy, PartialEq)]
enum Keys {
    /// Sixteen random bytes.
    Random,
    /// Sixteen decimal digits of a random number below the count of keys. Most begin with zeros.
    Decimal,
    /// Sixteen decimal digits, counting up.
    Ascending,
}

impl Keys {
    fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Decimal => "decimal",
            Self::Ascending => "ascending",
        }
    }

    /// Returns key `number` of `count`. Keys with numbers from `count` on are not inserted.
    fn key(self, number: u64, count: u64) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        let decimal = match self {
            Self::Random => {
                key[..8].copy_from_slice(&mixed(number).to_be_bytes());
                key[8..].copy_from_slice(&mixed(!number).to_be_bytes());
                return key;
            }
            // An odd multiplier permutes the numbers below a power of two; odd ones are absent.
            Self::Decimal => {
                let range = count.next_power_of_two();
                let place = (number % count).wrapping_mul(0x9e37_79b9_7f4a_7c15) & (range - 1);
                2 * place + u64::from(number >= count)
            }
            Self::Ascending => 2 * (number % count) + u64::from(number >= count),
        };
        let mut rest = decimal;
        for digit in key.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        key
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

struct Bench {
    map_bytes: u64,
    repeats: usize,
    reads: u64,
    pools: Pools,
}

impl Bench {
    fn count(&self) -> u64 {
        self.map_bytes / (KEY_BYTES + VALUE_BYTES) as u64
    }

    fn fill<S: Structure>(&self, structure: &S, keys: Keys, threads: u64) {
        let count = self.count();
        let value = [7; VALUE_BYTES];
        thread::scope(|scope| {
            for thread in 0..threads {
                let work = move || {
                    for number in (thread..count).step_by(threads as usize) {
                        structure.insert(&keys.key(number, count), number, &value);
                    }
                };
                if thread + 1 < threads {
                    scope.spawn(work);
                } else {
                    work();
                }
            }
        });
    }

    fn report(&self, name: &str, keys: Keys, work: &str, ops: u64, mut times: Vec<f64>) {
        times.sort_by(f64::total_cmp);
        let nanos = times[times.len() / 2] * 1e9 / ops as f64;
        let (mib, keys) = (self.map_bytes as f64 / f64::from(1 << 20), keys.name());
        println!(
            "{name:<20} {mib:>5} MiB {keys:<10} {work:<16} {nanos:>9.1} ns {:>8.2} M/s",
            1e3 / nanos
        );
        println!(
            "{{\"structure\":\"{name}\",\"mib\":{mib},\"keys\":\"{keys}\",\"work\":\"{work}\",\
             \"ops\":{ops},\"ns_per_op\":{nanos:.1},\"repeats\":{}}}",
            times.len()
        );
    }

    fn run<S: Structure>(&self, filter: &str) {
        if !S::NAME.contains(filter) {
            return;
        }
        for keys in [Keys::Random, Keys::Decimal, Keys::Ascending] {
            if S::DEGENERATES && keys == Keys::Ascending {
                continue;
            }
            self.run_keys::<S>(keys);
        }
    }

    fn run_keys<S: Structure>(&self, keys: Keys) {
        let count = self.count();
        let mut filled = S::new(&self.pools);
        for threads in [2, 1] {
            let times = (0..self.repeats).map(|_| {
                filled = S::new(&self.pools);
                seconds(|| self.fill(&filled, keys, threads))
            });
            let times = times.collect();
            self.report(
                S::NAME,
                keys,
                &format!("fill, {threads} threads"),
                count,
                times,
            );
        }
        let repeat = |work: &str, ops: u64, one: &dyn Fn(u64) -> usize, expected: usize| {
            let times = (0..self.repeats).map(|repeat| {
                let mut sum = 0;
                let time = seconds(|| {
                    for op in 0..ops {
                        sum += one(mixed(op + repeat as u64 * ops) % count);
                    }
                });
                assert!(
                    expected == usize::MAX || sum == expected,
                    "{} {work}",
                    S::NAME
                );
                time
            });
            self.report(S::NAME, keys, work, ops, times.collect());
        };
        let hit = |number| {
            filled
                .get(&keys.key(number, count))
                .expect("every key is there")
        };
        repeat(
            "get hit",
            self.reads,
            &hit,
            self.reads as usize * VALUE_BYTES,
        );
        let miss = |number| filled.get(&keys.key(count + number, count)).unwrap_or(0);
        repeat("get miss", self.reads, &miss, 0);
        let scan = |number| filled.scan(&keys.key(number, count), SCAN_ENTRIES);
        repeat("seek + 10 next", self.reads / 4, &scan, usize::MAX);
        let all = count as usize * VALUE_BYTES;
        let times = (0..self.repeats).map(|_| {
            seconds(|| assert_eq!(filled.scan(b"", usize::MAX), all, "every entry is seen"))
        });
        self.report(S::NAME, keys, "iterate", count, times.collect());
        let per_entry = filled.memory_bytes() as f64 / count as f64;
        if per_entry > 0.0 {
            println!(
                "{:<20} {per_entry:.0} bytes per entry of {}",
                S::NAME,
                KEY_BYTES + VALUE_BYTES
            );
        }
    }
}

fn main() {
    let measure = std::env::args().any(|arg| arg == "--bench");
    let filter = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with('-'))
        .unwrap_or_default();
    let sizes: &[u64] = if measure {
        &[8 << 20, 64 << 20]
    } else {
        &[256 << 10]
    };
    for &map_bytes in sizes {
        let bench = Bench {
            map_bytes,
            repeats: if measure { 3 } else { 1 },
            reads: if measure { 300_000 } else { 1000 },
            pools: Pools {
                of_library: hedgerow_mem::ChunkPool::new(2 << 20, 256 << 20),
                of_bench: pool::ChunkPool::new(2 << 20, 256 << 20),
                of_pieces: pool::ChunkPool::new(64 << 10, 256 << 20),
            },
        };
        bench.run::<BLinkTree>(&filter);
        bench.run::<SkipList>(&filter);
        bench.run::<Pieces>(&filter);
        bench.run::<BinaryTree>(&filter);
        bench.run::<Crossbeam>(&filter);
    }
}
