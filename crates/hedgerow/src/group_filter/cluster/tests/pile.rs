//! The costs of a cluster for a growing stack of runs.

use super::*;

/// Space and reads of a stack of runs as in LSM-trie's last level: 2 bytes per key, and some for
/// lengths, uneven columns and the ends of pages. Every page is one read.
#[test]
fn a_pile_takes_little_more_than_its_bits() {
    for runs in [1, 4, 8, 16, 20, 32, 48] {
        let mut next = numbers(runs);
        let range = (5 << 60, 6 << 60);
        let tables: Vec<_> = (0..runs)
            .map(|_| {
                let count = 9_000 + (next() % 2_000) as usize;
                keys(&mut next, count, range)
            })
            .collect();
        let columns: Vec<_> = (0..)
            .zip(&tables)
            .map(|(i, keys)| columns(i, keys, 16.0))
            .collect();
        let sources: Vec<_> = columns.iter().map(Source::Table).collect();
        let (cluster, _) = paged(1, &sources, no_fetch);
        let keys: usize = tables.iter().map(Vec::len).sum();
        let share = cluster.pages_bytes() as f64 / (2 * keys) as f64;
        println!("{runs} runs: {share:.3} of the bits");
        assert!(share < 1.15, "{runs} runs: {share:.3}");
        assert!(cluster.directory.extents().all(|extent| extent.pages == 1));
    }
}

/// In memory, a stack of runs takes little more than its bits, also beside a table that is far
/// smaller than the others and has wide columns. A stretch has a few cache lines.
#[test]
fn a_stack_in_memory_takes_little_more_than_its_bits() {
    for runs in [1, 2, 5, 8, 20] {
        for small in [0, 1, 40, 700] {
            let mut next = numbers(runs);
            let range = (5 << 60, 6 << 60);
            let mut counts = vec![10_000; runs as usize];
            counts.extend((small > 0).then_some(small));
            let columns: Vec<_> = (0..)
                .zip(&counts)
                .map(|(i, count)| columns(i, &keys(&mut next, *count, range), 16.0))
                .collect();
            let sources: Vec<_> = columns.iter().map(Source::Table).collect();
            let cluster = cluster(1, &sources);
            let stretches = cluster.extents().count() as u64;
            let mean = cluster.pages_bytes() / stretches;
            let share = cluster.memory_bytes() as f64 / (2 * counts.iter().sum::<usize>()) as f64;
            println!("{runs} runs and {small} keys: {share:.3} of the bits, {mean} bytes each");
            assert!(share < 1.08, "{runs} runs and {small} keys: {share:.3}");
            let most = if small > 0 { 4096 } else { 192 } + 100 * runs;
            assert!(
                (150..most).contains(&mean),
                "{runs} runs and {small} keys: {mean}"
            );
        }
    }
}

/// A directory may claim columns that no page has. Then the gap between two tables makes no more
/// stretches than the bytes that are there would fill.
#[test]
fn columns_that_are_only_claimed_make_no_stretches() {
    let stripe = |table, first, last| Stripe {
        table: TableId(table),
        first,
        last,
        column_bits: 32,
        probes: 11,
    };
    let stripes = [stripe(1, 0, 1), stripe(2, 1 << 31, u32::MAX)];
    let (shift, first) = stretches::width(&stripes, 10_000);
    assert_eq!(first, 0);
    assert!((1_u64 << 32 >> shift) < 1000, "{shift}");
}
