//! Runs a test for its seeds on several threads, and prints how to replay a failure.
//!
//! `HEDGEROW_SEEDS=n` runs `n` seeds instead of the usual number, `HEDGEROW_SEED=s` only the seed
//! `s`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use crate::run::panic_text;

/// The time after which a seed hangs, in seconds. The slowest seeds take a few.
const SEED_SECONDS_MAX: u64 = 300;

/// Runs `test` for `usual` seeds, or as the environment says, on two threads. Panics at the first
/// failure, which may be a panic of the test, and if a seed does not end.
pub fn for_seeds(name: &str, usual: u64, test: impl Fn(u64) -> Result<(), String> + Send + Sync) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let one: Option<u64> = number("HEDGEROW_SEED");
    let count = number("HEDGEROW_SEEDS").unwrap_or(usual);
    let (first, end) = one.map_or((0, count), |seed| (seed, seed + 1));
    let next = AtomicU64::new(first);
    let (results, ends) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (results, next, test) = (results.clone(), &next, &test);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        break;
                    }
                    let result = catch_unwind(AssertUnwindSafe(|| test(seed)));
                    let result = result.unwrap_or_else(|panic| Err(panic_text(&*panic)));
                    if results.send((seed, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(results);
        let mut left: Vec<u64> = (first..end).collect();
        while !left.is_empty() {
            match ends.recv_timeout(Duration::from_secs(SEED_SECONDS_MAX)) {
                Ok((seed, Ok(()))) => left.retain(|&s| s != seed),
                Ok((seed, Err(failure))) => {
                    next.store(end, Ordering::Relaxed);
                    drop(ends);
                    panic!("{}\n{failure}\n", replay(name, seed));
                }
                Err(_) => {
                    // A hanging thread cannot be ended, so the process is.
                    eprintln!("{}\nit does not end", replay(name, left[0]));
                    std::process::abort();
                }
            }
        }
    });
}

fn replay(name: &str, seed: u64) -> String {
    let binary = std::env::args().next().unwrap_or_default();
    let binary = std::path::Path::new(&binary);
    let stem = binary.file_stem().unwrap_or_default().to_string_lossy();
    let target = stem.split('-').next().unwrap_or_default();
    format!("HEDGEROW_SEED={seed} cargo test -p hedgerow-testkit --test {target} {name}")
}
