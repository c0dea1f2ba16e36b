use std::collections::BTreeMap;

use super::*;
use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::page::{Buffer, TRAILER_BYTES};
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
    keys.iter().for_each(|key| builder.push(*key));
    builder.columns(TableId(table)).unwrap()
}

fn no_fetch(id: PageId) -> Result<Page> {
    panic!("resident sources need no page, not {id:?}")
}

/// A cluster in memory.
fn cluster(number: u64, sources: &[Source<'_>]) -> Cluster {
    Cluster::resident(TableId(number), sources, no_fetch).unwrap()
}

/// A cluster with pages in a file, and the bytes of the file.
fn paged(
    number: u64,
    sources: &[Source<'_>],
    fetch: impl FnMut(PageId) -> Result<Page>,
) -> (Cluster, Vec<u8>) {
    let mut bytes = Vec::new();
    let directory = assemble(sources, PageEnds::Full, fetch, |page| {
        let pages = pages_for(page.len());
        let end = bytes.len() + pages * PAGE_BYTES;
        bytes.extend(page);
        bytes.resize(end, 0);
        Ok(pages)
    });
    let directory = Arc::new(directory.unwrap());
    (Cluster::paged(TableId(number), directory), bytes)
}

/// A function that reads pages of the bytes of a file.
fn reads(bytes: &[u8]) -> impl Fn(PageId) -> Result<Page> {
    |id: PageId| {
        let from = id.handle.offset as usize;
        let to = from + id.handle.bytes as usize - TRAILER_BYTES as usize;
        let mut buffer = Buffer::allocate(to - from);
        buffer.copy_from_slice(&bytes[from..to]);
        Ok(Page::of_table(buffer, id))
    }
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
        .probe(hash, page.as_ref(), &marks, |stripe| {
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
        let (paged, bytes) = paged(100, &sources, no_fetch);
        let fetch = reads(&bytes);
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
    let (old, bytes) = paged(50, old, no_fetch);
    let new = cluster(51, new);
    let parts = [
        Source::Cluster(&old, vec![0, 1, 2, 3]),
        Source::Cluster(&new, (0..tables.len() - 4).collect()),
    ];
    let of_clusters = paged(55, &parts, reads(&bytes));
    let of_tables = paged(52, &sources, no_fetch);
    assert_eq!(of_clusters.0.directory, of_tables.0.directory);
    assert!(of_clusters.1 == of_tables.1);
    let joined = Cluster::resident(TableId(56), &parts, reads(&bytes)).unwrap();
    let at_once = cluster(57, &sources);
    assert_eq!(joined.directory, at_once.directory);
    assert!(joined.resident.as_ref().unwrap() == at_once.resident.as_ref().unwrap());

    // A stripe that is left out does not matter to the others.
    let some = paged(53, &[Source::Cluster(&at_once, vec![7, 1])], no_fetch);
    let chosen = [Source::Table(&columns[7]), Source::Table(&columns[1])];
    let chosen = paged(54, &chosen, no_fetch);
    assert_eq!(some.0.directory, chosen.0.directory);
    assert!(some.1 == chosen.1);
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
    let (paged, bytes) = paged(1, &sources, no_fetch);
    let extents: Vec<_> = paged.directory.extents().collect();
    assert!(extents.iter().all(|extent| extent.pages > 1), "{extents:?}");
    let fetch = reads(&bytes);
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

/// The search by interpolation finds what a search by halves finds.
#[test]
fn a_page_is_found_wherever_pages_begin() {
    let mut next = numbers(31);
    for pages in [0, 1, 2, 3, 10, 1000] {
        for shift in [0, 8, 31] {
            // A large shift crowds the pages at the beginning.
            let mut firsts: Vec<u32> = (0..pages)
                .map(|_| (next() as u32) >> (next() % (shift + 1)))
                .collect();
            firsts.sort_unstable();
            let directory = Directory {
                stripes: Vec::new(),
                firsts: firsts.clone(),
            };
            let near = firsts
                .iter()
                .flat_map(|it| [it.saturating_sub(1), *it, it.saturating_add(1)]);
            for position in near.chain((0..100).map(|_| next() as u32)) {
                let end = firsts.partition_point(|first| *first <= position);
                let expected = end.checked_sub(1).map(|last| firsts[last]);
                let found = directory.extent_at(position);
                assert_eq!(found.map(|it| it.start), expected.map(u64::from));
                assert_eq!(found.map(|it| it.page + it.pages), expected.map(|_| end));
            }
        }
    }
}
