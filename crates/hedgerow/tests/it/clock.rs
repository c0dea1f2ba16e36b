//! A clock that jumps: on, as that of a machine which was asleep, and back, as none should.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Clock, Environment};
use hedgerow::{Durability, Layout};

use crate::support::{Contents, builder, contents, key, small, value};

/// Jumps whenever it is asked, drawn from a seed, and counts how long anybody slept.
#[derive(Debug)]
struct Jumping {
    seed: AtomicU64,
    now_ns: AtomicU64,
    slept_ns: AtomicU64,
}

const YEAR_NS: u64 = 365 * 86_400 * 1_000_000_000;

impl Clock for Jumping {
    fn now(&self) -> Duration {
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        let drawn = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let now = self.now_ns.load(Ordering::Relaxed);
        let jumped = match drawn % 16 {
            0 => now.saturating_add(100 * YEAR_NS),
            1 => now.saturating_add(3_600_000_000_000),
            2 => now.saturating_sub(3_600_000_000_000),
            3 => 0,
            4 => u64::MAX,
            _ => now.saturating_add(drawn),
        };
        self.now_ns.store(jumped, Ordering::Relaxed);
        Duration::from_nanos(jumped)
    }

    fn unix_millis(&self) -> u64 {
        self.now().as_millis() as u64
    }

    fn sleep(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap();
        self.slept_ns.fetch_add(ns, Ordering::Relaxed);
        let now = self.now_ns.load(Ordering::Relaxed);
        self.now_ns.store(now.saturating_add(ns), Ordering::Relaxed);
    }
}

#[test]
fn a_clock_that_jumps_neither_stalls_nor_ends_anything() {
    const RATE: u64 = 1 << 20;
    for seed in 0..20 {
        let clock = Arc::new(Jumping {
            seed: AtomicU64::new(seed << 32),
            now_ns: AtomicU64::new(0),
            slept_ns: AtomicU64::new(0),
        });
        let disk = SimStorage::new(seed);
        let open = |disk: &SimStorage| {
            let environment = Environment {
                clock: clock.clone(),
                ..Environment::simulated(disk, seed)
            };
            let builder = builder(disk).environment(environment);
            builder.io_bytes_per_second(RATE).open().unwrap()
        };
        let db = open(&disk);
        let layout = Layout::sorted().hash(2);
        let keyspace = db.keyspace_with("k", layout, small()).unwrap();
        keyspace.set_self_tuning(true).unwrap();
        let mut expected = Contents::new();
        let mut calls = Vec::new();
        for i in 0..1500 {
            expected.insert(key(i % 400), value(i));
            match i % 8 {
                0 => keyspace
                    .put_with(key(i % 400), value(i), Durability::Synced)
                    .unwrap(),
                1 => calls.push(keyspace.put_async(key(i % 400), value(i))),
                _ => keyspace.put(key(i % 400), value(i)).unwrap(),
            }
            if i % 8 == 1 {
                db.barrier().wait().unwrap();
            }
            let snapshot = db.snapshot().unwrap();
            let _ages = (snapshot.age(), db.stats());
        }
        for call in calls {
            call.wait().unwrap();
        }
        db.flush().unwrap();
        keyspace.retune(small()).unwrap();
        keyspace.wait_until_merged().unwrap();
        assert_eq!(contents(&keyspace), expected);
        let stats = db.stats();
        let written = stats.flush_bytes + stats.merge_write_bytes;
        let slept = Duration::from_nanos(clock.slept_ns.load(Ordering::Relaxed));
        let at_the_rate = Duration::from_secs_f64(written as f64 / RATE as f64);
        println!("seed {seed}: slept {slept:?} for {written} bytes, which take {at_the_rate:?}");
        let writes = Duration::from_millis(20) * 1500;
        assert!(slept <= at_the_rate + writes, "slept {slept:?}");
        db.close().unwrap();
        drop(keyspace);
        let keyspace = open(&disk).existing_keyspace("k").unwrap();
        assert_eq!(contents(&keyspace), expected);
    }
}
