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
