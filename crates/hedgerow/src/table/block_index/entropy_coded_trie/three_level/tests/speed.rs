//! Measurements, not run by default:
//! `cargo test --release -p hedgerow --lib -- --ignored --nocapture --test-threads 1 three_level`.

use std::hint::black_box;
use std::time::Instant;

use super::*;

#[allow(clippy::disallowed_methods, reason = "this measures real time")]
fn now() -> Instant {
    Instant::now()
}

/// Bits per key and lookups per second of one table as in tables 3 and 4 of the paper.
#[test]
#[ignore = "a measurement"]
fn speed() {
    let smoke = std::env::var_os("HEDGEROW_SMOKE").is_some();
    for kind in ["16", "32", "64", "zipf"] {
        for form in [Form::Tail, Form::Array] {
            let table = paper_table(kind, 17, form);
            let random = &mut Random::new(9);
            let all: Vec<Hashes> = table.blocks.iter().flatten().copied().collect();
            let asked: Vec<[u8; 16]> = (0..if smoke { 1000 } else { 1_000_000 })
                .map(|_| order_key(all[random.below(all.len() as u64) as usize]))
                .map(|key| key.try_into().unwrap())
                .collect();
            let mut best = f64::MAX;
            for _ in 0..if smoke { 1 } else { 5 } {
                let start = now();
                for key in &asked {
                    black_box(done(table.index.locate(black_box(key), None)));
                }
                best = best.min(start.elapsed().as_secs_f64() / asked.len() as f64);
            }
            println!(
                "groups {kind:>4}, {form:?}: {:.3} bits per key, {:.0} ns, {:.2} million per second",
                table.bits_per_key(),
                best * 1e9,
                1e-6 / best
            );
        }
    }
}
