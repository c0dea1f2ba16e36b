use std::collections::BTreeMap;

use super::*;
use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::page::Buffer;
use crate::base::random::Random;

mod damage;
mod format;
mod pile;

/// Numbers that are the same in every run.
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut random = Random::new(seed);
    move || random.next()
}

/// A hash with its place in the order, and the half that filters.
fn hash(order: u64, low: u64) -> KeyHash {
    KeyHash((u128::from(order.rotate_right(16)) << 64) | u128::from(low))
}

/// The keys of a table, in order, of all hashes from `lo` to `hi`.
fn keys(next: &mut impl FnMut() -> u64, count: usize, (lo, hi): (u64, u64)) -> Vec<KeyHash> {
    let mut orders: Vec<u64> = (0..count)
        .map(|_| lo + ((u128::from(next()) * u128::from(hi - lo)) >> 64) as u64)
        .collect();
    orders.sort_unstable();
    orders
        .into_iter()
        .map(|order| hash(order, next()))
        .collect()
}

fn columns(table: u64, keys: &[KeyHash], bits: f32) -> Columns {
    let mut builder = Builder::new(bits);
    keys.iter().for_each(|key| builder.add(*key));
    builder.finish(TableId(table)).unwrap()
}

fn no_fetch(id: PageId) -> Result<Page> {
    panic!("resident sources need no page, not {id:?}")
}

/// A cluster in memory.
fn cluster(number: u64, sources: &[Source<'_>]) -> Cluster {
    let mut pages = Vec::new();
    let directory = assemble(sources, no_fetch, |page| {
        pages.extend(page);
        Ok(())
    });
    Cluster::resident(TableId(number), directory.unwrap(), pages)
}

/// The same cluster with pages in a file, and a function that reads them.
fn paged(resident: &Cluster) -> (Cluster, impl Fn(PageId) -> Result<Page> + '_) {
    let cluster = Cluster::paged(resident.number, resident.directory.clone());
    let fetch = |id: PageId| {
        let bytes = id.handle.bytes as usize - TRAILER_BYTES as usize;
        let stored = resident.pages[id.handle.offset as usize..].iter();
        let mut buffer = Buffer::allocate(bytes);
        buffer
            .iter_mut()
            .zip(stored)
            .for_each(|(to, from)| *to = *from);
        Ok(Page::of_table(buffer, id))
    };
    (cluster, fetch)
}

/// The tables that may hold a key, by their numbers, and how many pages that took.
fn candidates(
    cluster: &Cluster,
    hash: KeyHash,
    fetch: &impl Fn(PageId) -> Result<Page>,
) -> (Vec<u64>, usize) {
    let mut left: BTreeMap<usize, u64> = cluster
        .stripes()
        .iter()
        .map(|stripe| stripe.table.0)
        .enumerate()
        .collect();
    let marks: Vec<_> = left.keys().copied().map(Some).collect();
    let (mut page, mut pages) = (None, 0);
    while let Step::Read(id) = cluster
        .ask(hash, page.as_ref(), &marks, |stripe| {
            left.remove(&stripe);
        })
        .unwrap()
    {
        page = Some(fetch(id).unwrap());
        pages += 1;
    }
    (left.into_values().collect(), pages)
}

/// Tables of many sizes over ranges of many widths: alone in the whole range, side by side, tiny.
fn tables(seed: u64) -> Vec<Vec<KeyHash>> {
    let mut next = numbers(seed);
    let all = (0, u64::MAX);
    let shapes = [
        (20_000, all),
        (9000, all),
        (12_000, (0, u64::MAX / 2)),
        (12_500, (u64::MAX / 2, u64::MAX)),
        (1, all),
        (2, (77 << 40, 78 << 40)),
        (40, (1 << 63, (1 << 63) + (1 << 33))),
        (300, (1 << 62, 1 << 63)),
        (5000, (3 << 60, 4 << 60)),
    ];
    shapes
        .into_iter()
        .map(|(count, range)| keys(&mut next, count, range))
        .collect()
}

/// I7 of LSM-trie: no filter says no for a member, whatever tables are together. I8: a probe reads
/// one page.
#[test]
fn every_key_is_found_in_its_table() {
    for bits in [1.0, 8.0, 16.0, 32.0] {
        let tables = tables(3);
        let columns: Vec<_> = (0..)
            .zip(&tables)
            .map(|(i, keys)| columns(i, keys, bits))
            .collect();
        let sources: Vec<_> = columns.iter().map(Source::Table).collect();
        let resident = cluster(100, &sources);
        let (paged, fetch) = paged(&resident);
        for (table, keys) in tables.iter().enumerate() {
            for key in keys {
                let (found, pages) = candidates(&paged, *key, &fetch);
                assert!(found.contains(&(table as u64)), "{bits} {table} {key:?}");
                assert!(pages <= 1);
                assert_eq!(candidates(&resident, *key, &no_fetch), (found, 0));
            }
        }
    }
}

/// Filters are copied, not made again: a cluster of clusters is the cluster of their tables.
#[test]
fn a_cluster_of_clusters_is_that_of_their_tables() {
    let tables = tables(5);
    let columns: Vec<_> = (0..)
        .zip(&tables)
        .map(|(i, keys)| columns(i, keys, 16.0))
        .collect();
    let sources: Vec<_> = columns.iter().map(Source::Table).collect();
    let (old, new) = sources.split_at(4);
    let (old, new) = (cluster(50, old), cluster(51, new));
    let (old_paged, fetch) = paged(&old);
    let sources = [
        Source::Cluster(&old_paged, vec![0, 1, 2, 3]),
        Source::Cluster(&new, (0..tables.len() - 4).collect()),
    ];
    let mut pages = Vec::new();
    let directory = assemble(&sources, fetch, |page| {
        pages.extend(page);
        Ok(())
    })
    .unwrap();
    let of_clusters = Cluster::resident(TableId(55), directory, pages);
    let at_once: Vec<_> = columns.iter().map(Source::Table).collect();
    let at_once = cluster(52, &at_once);
    assert_eq!(of_clusters.directory, at_once.directory);
    assert!(of_clusters.pages == at_once.pages);

    // A stripe that is left out does not matter to the others.
    let some = cluster(53, &[Source::Cluster(&at_once, vec![7, 1])]);
    let chosen = cluster(
        54,
        &[Source::Table(&columns[7]), Source::Table(&columns[1])],
    );
    assert_eq!(some.directory, chosen.directory);
    assert!(some.pages == chosen.pages);
}

/// A column that does not fit a page takes several, which are read at once.
#[test]
fn pages_that_overflow_continue() {
    let mut next = numbers(9);
    let tables: Vec<_> = (0..64)
        .map(|_| keys(&mut next, 1500, (0, u64::MAX)))
        .collect();
    let columns: Vec<_> = (0..)
        .zip(&tables)
        .map(|(i, keys)| columns(i, keys, 32.0))
        .collect();
    let sources: Vec<_> = columns.iter().map(Source::Table).collect();
    let cluster = cluster(1, &sources);
    let extents: Vec<_> = cluster.directory.extents().collect();
    assert!(extents.iter().all(|extent| extent.pages > 1), "{extents:?}");
    let (paged, fetch) = paged(&cluster);
    for (table, keys) in tables.iter().enumerate() {
        for key in keys {
            let (found, pages) = candidates(&paged, *key, &fetch);
            assert!(found.contains(&(table as u64)));
            assert!(pages <= 1);
        }
    }
}

/// A cluster says nothing about hashes outside of a table's own, where other tables of the run may
/// be.
#[test]
fn a_cluster_says_nothing_of_what_it_does_not_cover() {
    let mut next = numbers(11);
    let range = (1 << 62, 1 << 63);
    let table = keys(&mut next, 1000, range);
    let cluster = cluster(1, &[Source::Table(&columns(7, &table, 16.0))]);
    let first = table[0].order();
    let last = table[table.len() - 1].order();
    for order in [0, first - 1, first, last, last + 1, u64::MAX] {
        let (found, _) = candidates(&cluster, hash(order, next()), &no_fetch);
        assert_eq!(found, [7], "{order:#x}");
    }
    let within = (first >> 1) + (last >> 1);
    let passed = (0..1000).filter(|_| {
        let absent = hash(within, next());
        !candidates(&cluster, absent, &no_fetch).0.is_empty()
    });
    assert!(passed.count() < 30);
}
