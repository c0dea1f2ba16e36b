//! Tables in the order of hashes with an index of them. A lookup reads one page, and a scan of a
//! prefix reads the pages that hold its keys.

use std::ops::Range;

use super::*;
use crate::base::options::PrefixRule;
use crate::base::page::PageClass;

pub(super) const INDEXES: [IndexSpec; 2] = [IndexSpec::ThreeLevel, IndexSpec::ThreeLevelArray];
pub(super) const ORDERS: [KeyOrder; 2] =
    [KeyOrder::SemiSorted(PrefixRule::Bytes(1)), KeyOrder::Hashed];
const GROUPS: KeyOrder = KeyOrder::SemiSorted(PrefixRule::Bytes(2));

/// Options without a filter: every lookup uses the index.
pub(super) fn options(index: IndexSpec, key_order: KeyOrder, block_bytes: u32) -> TableOptions {
    TableOptions {
        index,
        key_order,
        filter: None,
        ..super::options(block_bytes)
    }
}

pub(super) fn order_key(order: KeyOrder, key: &[u8]) -> Vec<u8> {
    let mut order_key = Vec::new();
    key_order::open(order, SEED).encode(key, &mut order_key);
    order_key
}

/// Returns the same entries in the order `order`.
pub(super) fn in_order(order: KeyOrder, entries: &Entries) -> Entries {
    let entries = entries.iter();
    entries
        .map(|((key, seqno), value)| ((order_key(order, key), *seqno), value.clone()))
        .collect()
}

/// Makes groups of these sizes, with values of `value_bytes` bytes.
fn groups(sizes: impl IntoIterator<Item = u32>, value_bytes: Range<u64>) -> Entries {
    let (mut entries, random) = (Entries::new(), &mut Random::new(8));
    for (group, size) in sizes.into_iter().enumerate() {
        for i in 0..size {
            let key = [&(group as u16).to_be_bytes()[..], &i.to_be_bytes()].concat();
            let bytes = value_bytes.start + random.below(value_bytes.end - value_bytes.start);
            let value = (0..bytes).map(|_| random.next() as u8).collect();
            entries.insert((order_key(GROUPS, &key), Reverse(20)), (Tag::PUT, value));
        }
    }
    entries
}

fn of_groups(index: IndexSpec) -> TableOptions {
    options(index, GROUPS, 4096)
}

/// Tables by sizes of groups and maximum of value bytes.
fn tables() -> Vec<Entries> {
    vec![
        groups([1; 9000], 0..200),
        groups([3; 3000], 0..300),
        groups([40; 300], 0..300),
        groups((1..100).map(|i| 8000 / i), 0..60),
        // Half of the values are out of line.
        groups([9; 400], 0..4000),
        groups([2000, 1, 1, 500], 0..2011),
    ]
}

/// A hit reads one page, and a miss at most one (T8), beside that of a paged index.
#[test]
fn a_lookup_reads_one_page() {
    for entries in tables() {
        for index in INDEXES {
            let (bytes, _) = write(of_groups(index), &entries);
            let (resident, pages) = open_bytes(bytes.clone(), RESIDENT).unwrap();
            let (paged, _) = open_bytes(bytes, PAGED).unwrap();
            resident.verify(&pages).unwrap();
            for ((key, _), (tag, value)) in &entries {
                pages.take_reads();
                let found = get(&*resident, &pages, key, 20).unwrap();
                assert_eq!(found, Some((20, *tag, value.clone())));
                let mut read = pages.take_reads();
                read.retain(|class| *class != PageClass::Value);
                assert_eq!(read, [PageClass::Data]);
            }
            let random = &mut Random::new(2);
            for (key, _) in entries.keys().step_by(5) {
                get(&*paged, &pages, key, 20).unwrap();
                let mut read = pages.take_reads();
                read.retain(|class| *class != PageClass::Value);
                assert_eq!(read, [PageClass::Index, PageClass::Data]);
                // Absent keys of the same prefix, and of another.
                for from in [8, 0] {
                    let mut absent = key.clone();
                    (from..16).for_each(|i| absent[i] = random.next() as u8);
                    assert_eq!(get(&*resident, &pages, &absent, 20).unwrap(), None);
                    assert!(pages.take_reads().len() <= 1);
                }
            }
        }
    }
}

/// A scan of a prefix reads the pages that hold its keys, and no other.
#[test]
fn a_scan_of_a_prefix_reads_its_pages() {
    for entries in tables() {
        for index in INDEXES {
            let (bytes, _) = write(of_groups(index), &entries);
            let reader = block_based(bytes.clone(), RESIDENT);
            let (table, _) = open_bytes(bytes.clone(), RESIDENT).unwrap();
            let mut groups: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
            for (key, _) in entries.keys() {
                groups.entry(&key[..8]).or_default().push(key);
            }
            for (prefix, keys) in groups.into_iter().step_by(3) {
                let (_, source) = open_bytes(bytes.clone(), RESIDENT).unwrap();
                let source = Arc::new(source);
                let mut iter = table.clone().iter(source.clone());
                let end = u64::from_be_bytes(prefix.try_into().unwrap()) + 1;
                iter.limit(&end.to_be_bytes());
                iter.seek(prefix, SeqNo::MAX).unwrap();
                for key in &keys {
                    assert_eq!(iter.entry().unwrap().key, *key);
                    iter.advance().unwrap();
                }
                assert!(
                    iter.entry()
                        .is_none_or(|entry| !entry.key.starts_with(prefix))
                );
                let block = |key: &&[u8]| match reader.index.locate(key, None).unwrap() {
                    Step::Done(located) => located.blocks.start,
                    Step::Read(id) => panic!("a resident index asks for no page: {id:?}"),
                };
                let (first, last) = (block(&keys[0]), block(&keys[keys.len() - 1]));
                assert_eq!(source.take_reads().len(), 1 + last - first);
            }
        }
    }
}

/// Blocks are pages of one size at multiples of it, so one extent has all their places.
#[test]
fn pages_have_one_size_and_take_no_place_in_the_index() {
    // About as many as in a table of the paper: 17 in a block.
    let entries = groups([16; 8000], 205..206);
    for (index, bits_max) in [
        (IndexSpec::ThreeLevel, 0.92),
        (IndexSpec::ThreeLevelArray, 1.2),
    ] {
        let (bytes, meta) = write(of_groups(index), &entries);
        let table = block_based(bytes, RESIDENT);
        for block in 0..table.index.blocks() {
            let Step::Done(handle) = table.index.handle(block, None).unwrap() else {
                panic!("a resident index needs no page");
            };
            assert_eq!((handle.offset, handle.bytes), (block as u64 * 4096, 4032));
        }
        let per_block = meta.entries as f64 / table.index.blocks() as f64;
        assert!((16.9..=17.1).contains(&per_block), "{per_block} in a block");
        let bits = meta.index_bytes as f64 * 8.0 / meta.entries as f64;
        assert!(bits <= bits_max, "{bits} bits per key");
    }
}

/// Makes entries that hashes cannot distinguish: versions of a key, or of three different ones.
fn twins(alike: u64) -> Entries {
    let (mut entries, random) = (Entries::new(), &mut Random::new(6));
    for i in 0..3000u64 {
        let hashes = order_key(GROUPS, &(i / alike).to_be_bytes());
        let key = match alike {
            1 => hashes,
            _ => [&hashes[..16], &random.bytes(4, 256)].concat(),
        };
        let copies = match i % 400 {
            0 => 400,
            1 => 20,
            _ => 1 + random.below(4),
        };
        let out_of_line = i % 7 == 0;
        for version in 0..copies {
            let bytes = match out_of_line && version == 0 {
                true => 2500,
                false => random.below(90),
            };
            let value = random.bytes(bytes, 256);
            entries.insert((key.clone(), Reverse(1 + version)), (Tag::PUT, value));
        }
    }
    entries
}

/// One page has all twins, or a unit that no other lookup reads has them.
#[test]
fn twins_stay_together() {
    for (alike, index) in [
        (1, INDEXES[0]),
        (1, INDEXES[1]),
        (3, INDEXES[0]),
        (3, INDEXES[1]),
    ] {
        let entries = twins(alike);
        let (bytes, _) = write(of_groups(index), &entries);
        let (table, pages) = open_bytes(bytes, RESIDENT).unwrap();
        // Keys with really equal hashes are not available, and `verify` would notice that.
        let verified = table.verify(&pages);
        assert_eq!(verified.is_ok(), alike == 1, "{verified:?}");
        let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
        for (key, _) in entries.keys() {
            *counts.entry(&key[..16]).or_default() += 1;
        }
        let mut more = 0;
        for ((key, Reverse(number)), (tag, value)) in &entries {
            pages.take_reads();
            let found = get(&*table, &pages, key, *number).unwrap();
            assert_eq!(found, Some((*number, *tag, value.clone())));
            let reads = pages.take_reads();
            let data = reads
                .iter()
                .filter(|class| **class == PageClass::Data)
                .count();
            let twins = counts[&key[..16]];
            assert!(data == 1 || twins >= 400, "{data} pages for one of {twins}");
            more += data - 1;
        }
        assert!(more > 0, "some twins fill more than the largest page");
        let mut iter = table.iter(Arc::new(pages));
        iter.seek_first().unwrap();
        for (key, Reverse(number)) in entries.keys() {
            let found = iter.entry().map(|entry| (entry.key, entry.seqno.0));
            assert_eq!(found, Some((&key[..], *number)));
            iter.advance().unwrap();
        }
        assert!(iter.entry().is_none());
    }
}

/// A key may be larger than a page.
#[test]
fn a_larger_entry_has_a_larger_page() {
    let mut entries = groups([5; 200], 0..300);
    for bytes in [1000, 3900, 4000, 5000, 9000, 65_000] {
        let key = order_key(GROUPS, &vec![bytes as u8; bytes]);
        entries.insert((key, Reverse(9)), (Tag::PUT, vec![7; 30]));
    }
    for index in INDEXES {
        let (bytes, _) = write(of_groups(index), &entries);
        for residency in [RESIDENT, PAGED] {
            let (table, pages) = open_bytes(bytes.clone(), residency).unwrap();
            table.verify(&pages).unwrap();
            for ((key, Reverse(number)), (tag, value)) in &entries {
                pages.take_reads();
                let found = get(&*table, &pages, key, *number).unwrap();
                assert_eq!(found, Some((*number, *tag, value.clone())));
                let mut read = pages.take_reads();
                read.retain(|class| *class == PageClass::Data);
                assert_eq!(read.len(), 1);
            }
        }
    }
}

#[test]
fn split_keys_cut_between_groups_or_the_only_one() {
    for sizes in [vec![9000], vec![3; 3000], vec![90; 100]] {
        let entries = groups(sizes, 0..80);
        for index in INDEXES {
            let (bytes, _) = write(of_groups(index), &entries);
            let (table, _) = open_bytes(bytes, RESIDENT).unwrap();
            let keys = table.split_keys(3);
            assert_eq!(keys.len(), 2);
            for (piece, key) in keys.iter().enumerate() {
                let before = entries.range(..(key.clone(), Reverse(u64::MAX))).count();
                let wanted = entries.len() * (piece + 1) / 3;
                assert!(
                    before.abs_diff(wanted) < 300,
                    "{before} of {}",
                    entries.len()
                );
            }
        }
    }
}
