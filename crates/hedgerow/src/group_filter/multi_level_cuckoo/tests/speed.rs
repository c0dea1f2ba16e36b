//! Measurements, not run by default:
//! `cargo test --release -p hedgerow --lib -- --ignored --nocapture cuckoo::tests::speed`.

use super::*;
use crate::table::filter::run_hashes;
use std::time::Instant;

#[allow(clippy::disallowed_methods, reason = "this measures real time")]
fn now() -> Instant {
    Instant::now()
}

fn per_second(start: Instant, count: u64) -> f64 {
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// Fewer keys if the run only checks that the measurement works.
fn scaled(keys: u64) -> u64 {
    match std::env::var_os("HEDGEROW_SMOKE") {
        Some(_) => keys / 1000,
        None => keys,
    }
}

fn hashes_of_run(run: u64, keys: u64) -> Vec<u64> {
    let of_run = run * keys..(run + 1) * keys;
    let mut hashes: Vec<_> = of_run.map(|i| hash_of(hash(i))).collect();
    hashes.sort_unstable();
    hashes
}

/// Opening with 8 runs of 6.25 million keys: the filter from its own bytes, or from stored hashes.
#[test]
#[ignore = "a measurement"]
fn opening() {
    let keys_per_run = scaled(6_250_000);
    let sizing = sizing(12, 8, 8 * keys_per_run, Mode::Set);
    let stored = (0..8).map(|run| {
        let mut bytes = Vec::new();
        run_hashes::encode(&hashes_of_run(run, keys_per_run), &mut bytes);
        bytes
    });
    let stored: Vec<_> = stored.collect();
    let start = now();
    let mut filter = MultiLevelCuckoo::new(sizing).unwrap();
    for bytes in &stored {
        filter.push(run_hashes::decode(bytes).unwrap()).unwrap();
    }
    let took = start.elapsed().as_millis();
    let bytes: usize = stored.iter().map(Vec::len).sum();
    println!("built of {bytes} bytes of hashes in {took} ms");

    let names: Vec<_> = (0..8).collect();
    let mut bytes = Vec::new();
    let start = now();
    let write = |part: &[u8]| {
        bytes.extend_from_slice(part);
        Ok(())
    };
    filter.encode(1, &names, write).unwrap();
    println!(
        "written as {} bytes in {} ms",
        bytes.len(),
        start.elapsed().as_millis()
    );
    let start = now();
    let mut buffer = Buffer::allocate(bytes.len());
    buffer.copy_from_slice(&bytes);
    let read = MultiLevelCuckoo::decode(buffer, 1, &names).unwrap();
    println!(
        "read from them, copied once, in {} ms",
        start.elapsed().as_millis()
    );
    assert_eq!((read.entries, read.runs()), (filter.entries, 8));
}

/// Table 6 of SlimDB without duplicates: 8 runs of 10 million keys.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let keys_per_run = scaled(10_000_000);
    let keys = 8 * keys_per_run;
    let mut filter = MultiLevelCuckoo::new(sizing(12, 8, keys, Mode::Set)).unwrap();
    for run in 0..8 {
        let hashes = hashes_of_run(run, keys_per_run);
        let start = now();
        filter = filter.extend(hashes).unwrap();
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
        // Keys are looked up in no order.
        let stride = (2_654_435_761 % keys) | 1;
        let hashes: Vec<_> = (0..keys / 8)
            .map(|i| hash(asked + i * stride % keys))
            .collect();
        for (how, batch, touched) in [
            ("one", 1, false),
            ("16", 16, false),
            ("64", 64, false),
            ("64 touched, then one", 64, true),
        ] {
            let (mut found, mut answers) = (0, Vec::new());
            let start = now();
            for hashes in hashes.chunks(batch) {
                answers.clear();
                match (batch, touched) {
                    (1, _) => answers.push(asked_alone(&filter, hashes[0])),
                    (_, false) => filter.candidates_of_many(hashes, &mut answers),
                    (_, true) => {
                        hashes.iter().for_each(|&hash| filter.touch(hash));
                        answers.extend(hashes.iter().map(|&hash| asked_alone(&filter, hash)));
                    }
                }
                found += answers.iter().filter(|runs| !runs.is_empty()).count();
            }
            let rate = per_second(start, hashes.len() as u64);
            let share = found as f64 / hashes.len() as f64;
            println!(
                "{what}, {how} at a time: {rate:.1} million lookups per second, {share:.5} found"
            );
        }
    }
}

fn asked_alone(filter: &MultiLevelCuckoo, hash: KeyHash) -> RunMask {
    match filter.candidates(hash, None) {
        Ok(Step::Done(runs)) => runs,
        other => panic!("{other:?}"),
    }
}
