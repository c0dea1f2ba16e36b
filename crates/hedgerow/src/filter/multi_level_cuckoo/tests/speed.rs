//! Measurements, not run by default:
//! `cargo test --release -p hedgerow --lib -- --ignored --nocapture cuckoo::tests::speed`.

use super::*;
use std::time::Instant;

#[allow(clippy::disallowed_methods, reason = "this measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn per_second(start: Instant, count: u64) -> f64 {
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Table 6 of SlimDB without duplicates: 8 runs of 10 million keys.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let smoke = std::env::var_os("HEDGEROW_SMOKE").is_some();
    let keys_per_run: u64 = if smoke { 10_000 } else { 10_000_000 };
    let keys = 8 * keys_per_run;
    let mut filter = MultiLevelCuckoo::new(Sizing {
        fingerprint_bits: 12,
        runs_max: 8,
        entries: keys,
        mode: Mode::Set,
    })
    .unwrap();
    for run in 0..8 {
        let mut hashes: Vec<_> = (run * keys_per_run..(run + 1) * keys_per_run)
            .map(|i| hash_of(hash(i)))
            .collect();
        hashes.sort_unstable();
        let start = now();
        filter = filter
            .extend(hashes.into_iter().map(|hash| (hash, Prior::Unknown)))
            .unwrap();
        let rate = per_second(start, keys_per_run);
        println!("run {run}: {rate:.2} million inserts per second, the copy included");
    }
    let bits = filter.memory_bytes() as f64 * 8.0 / keys as f64;
    println!(
        "{bits:.2} bits per key, {} kept whole, {} entries",
        filter.whole_hashes(),
        filter.entries
    );
    for (what, asked) in [("present", 0), ("absent", keys)] {
        // In no order, as keys are looked up.
        let stride = (2_654_435_761 % keys) | 1;
        let hashes: Vec<_> = (0..keys / 8)
            .map(|i| hash(asked + i * stride % keys))
            .collect();
        for batch in [1, 16, 64, 1] {
            let (mut found, mut answers) = (0, Vec::new());
            let start = now();
            if batch == 1 {
                for &hash in &hashes {
                    match filter.candidates(hash, None) {
                        Ok(Step::Done(runs)) => found += usize::from(!runs.is_empty()),
                        other => panic!("{other:?}"),
                    }
                }
            }
            for hashes in hashes.chunks(batch).filter(|_| batch > 1) {
                answers.clear();
                filter.candidates_of_many(hashes, &mut answers);
                found += answers.iter().filter(|runs| !runs.is_empty()).count();
            }
            let rate = per_second(start, hashes.len() as u64);
            let share = found as f64 / hashes.len() as f64;
            println!(
                "{what}, {batch} at a time: {rate:.1} million lookups per second, {share:.5} found"
            );
        }
    }
}
