//! Tables against a sorted map of the same entries.

use super::*;
use crate::base::error::ErrorKind;
use crate::base::page::PageClass;

fn random_entries(random: &mut Random, keys: u64, letters: u64, values_max: u64) -> Entries {
    let mut entries = Entries::new();
    for _ in 0..keys {
        let bytes = 1 + random.below(20);
        let key = random.bytes(bytes, letters);
        for _ in 0..1 + random.below(3) * random.below(4) {
            random.entry(&mut entries, key.clone(), values_max);
        }
    }
    entries
}

fn of_bytes() -> Vec<(&'static str, u32, Entries)> {
    let random = &mut Random::new(1);
    let one = random_entries(random, 1, 2, 10);
    let spread = random_entries(random, 3000, 256, 100);
    let dense = random_entries(random, 2000, 3, 40);
    let large = random_entries(random, 60, 256, 20_000);
    let mut hot = random_entries(random, 50, 3, 100);
    for i in 0..900 {
        random.entry(&mut hot, vec![1, 1 + i as u8 % 2], 300);
    }
    let mut extreme = Entries::new();
    for i in 0..40u8 {
        random.entry(&mut extreme, vec![i], 0);
        random.entry(&mut extreme, vec![i; 1 << 16], 1 << 16);
        random.entry(&mut extreme, [&vec![7; 65_535][..], &[i]].concat(), 3);
    }
    let prefixed = (0..2000)
        .map(|i| {
            let key = format!("tenant/0001/user/{:08}/field", i * 13).into_bytes();
            (
                (key, Reverse(i + 1)),
                (Tag::PUT, vec![b'x'; i as usize % 50]),
            )
        })
        .collect();
    vec![
        ("one key", 4096, one),
        ("spread", 4096, spread.clone()),
        ("spread in small blocks", 512, spread),
        ("dense", 1024, dense),
        ("large values", 4096, large),
        ("hot keys", 512, hot),
        ("extreme keys", 4096, extreme),
        ("shared prefixes", 512, prefixed),
    ]
}

/// The tables: with fence pointers, in the order of hashes with the other indexes, and as HTables.
fn subjects() -> Vec<(&'static str, TableOptions, Entries)> {
    let mut subjects = Vec::new();
    for (name, block_bytes, entries) in of_bytes() {
        subjects.push((name, options(block_bytes), entries.clone()));
        for (index, order) in three_level::INDEXES.into_iter().zip(three_level::ORDERS) {
            let entries = three_level::in_order(order, &entries);
            subjects.push((
                name,
                three_level::options(index, order, block_bytes),
                entries,
            ));
        }
        let entries = three_level::in_order(KeyOrder::Hashed, &entries);
        subjects.push((name, htable::options(block_bytes), entries));
    }
    subjects
}

#[test]
fn get_finds_every_version_and_nothing_else() {
    for (name, options, entries) in subjects() {
        let order = options.key_order;
        let (bytes, meta) = write(options, &entries);
        check_meta(&meta, &bytes, &entries);
        for residency in [RESIDENT, PAGED] {
            let (table, pages) = open_bytes(bytes.clone(), residency).unwrap();
            assert_eq!(*table.meta(), meta);
            let random = &mut Random::new(2);
            for (key, Reverse(seqno)) in entries.keys() {
                for seqno in [seqno - 1, *seqno, seqno + 1, SeqNo::MAX.0] {
                    check_get(name, &*table, &pages, &entries, (order, key, seqno));
                }
                let (bytes, letters) = (1 + random.below(20), 1 + random.below(256));
                let other = random.bytes(bytes, letters);
                // An HTable trusts that an order key is that of its user key.
                let other = match table.meta().format {
                    1 => other,
                    _ => three_level::order_key(order, &other),
                };
                let asked = (order, &other[..], SeqNo::MAX.0);
                check_get(name, &*table, &pages, &entries, asked);
            }
        }
    }
}

fn check_get(
    name: &str,
    table: &dyn Reader,
    pages: &FilePages,
    entries: &Entries,
    (order, key, seqno): (KeyOrder, &[u8], u64),
) {
    let expected = entries
        .range((key.to_vec(), Reverse(seqno))..)
        .next()
        .filter(|((found, _), _)| found == key)
        .map(|((_, Reverse(seqno)), (tag, value))| (*seqno, *tag, value.clone()));
    let found = get_in(order, table, pages, key, seqno).unwrap();
    assert!(found == expected, "{name}: {key:?} at {seqno}");
}

fn check_meta(meta: &TableMeta, bytes: &[u8], entries: &Entries) {
    assert_eq!(meta.file_bytes, bytes.len() as u64);
    assert_eq!(meta.entries, entries.len() as u64);
    let raw = entries.iter().map(|((k, _), (_, v))| k.len() + v.len());
    assert_eq!(meta.raw_bytes, raw.sum::<usize>() as u64);
    let tombstones = entries.values().filter(|(tag, _)| *tag == Tag::DELETE);
    assert_eq!(meta.tombstones, tombstones.count() as u64);
    let seqnos = || entries.keys().map(|(_, Reverse(seqno))| SeqNo(*seqno));
    assert_eq!(Some(meta.smallest_seqno), seqnos().min());
    assert_eq!(Some(meta.largest_seqno), seqnos().max());
    assert_eq!(
        Some(&meta.smallest_key),
        entries.keys().next().map(|k| &k.0)
    );
    assert_eq!(Some(&meta.largest_key), entries.keys().last().map(|k| &k.0));
    let file = MemoryRead(bytes.to_vec());
    assert_eq!(read_meta(&file, Path::new("table")).unwrap().0, *meta);
}

#[test]
fn iterators_go_anywhere_in_both_directions() {
    for (name, options, entries) in subjects() {
        let (bytes, _) = write(options, &entries);
        let list: Vec<_> = entries
            .iter()
            .map(|((key, Reverse(seqno)), (tag, value))| (key.clone(), *seqno, *tag, value.clone()))
            .collect();
        for residency in [RESIDENT, PAGED] {
            let (table, pages) = open_bytes(bytes.clone(), residency).unwrap();
            let (_, source) = open_bytes(bytes.clone(), residency).unwrap();
            let mut iter = table.iter(Arc::new(source));
            assert!(iter.entry().is_none());
            iter.seek_first().unwrap();
            for expected in &list {
                assert!(
                    owned(iter.entry(), &pages).as_ref() == Some(expected),
                    "{name}"
                );
                iter.advance().unwrap();
            }
            assert!(iter.entry().is_none());
            iter.seek_last().unwrap();
            for expected in list.iter().rev() {
                assert!(
                    owned(iter.entry(), &pages).as_ref() == Some(expected),
                    "{name}"
                );
                iter.retreat().unwrap();
            }
            assert!(iter.entry().is_none());
            let random = &mut Random::new(3);
            for _ in 0..600 {
                check_seek(name, &mut *iter, &pages, &list, random);
            }
            for _ in 0..60 {
                check_limit(name, &mut *iter, &list, random);
            }
        }
    }
}

/// Seeks to a random position and walks from there.
fn check_seek(
    name: &str,
    iter: &mut dyn InternalIter,
    pages: &FilePages,
    list: &[(Vec<u8>, u64, Tag, Vec<u8>)],
    random: &mut Random,
) {
    let (mut key, mut seqno, ..) = list[random.below(list.len() as u64) as usize].clone();
    match random.below(4) {
        0 => key.push(0),
        1 => {
            key.pop();
        }
        2 => seqno = seqno - 1 + random.below(3),
        _ => seqno = SeqNo::MAX.0 * random.below(2),
    }
    let lower = list.partition_point(|(k, s, ..)| (k, Reverse(s)) < (&key, Reverse(&seqno)));
    let mut at = if random.below(2) == 0 {
        iter.seek(&key, SeqNo(seqno)).unwrap();
        Some(lower).filter(|&at| at < list.len())
    } else {
        iter.seek_before(&key, SeqNo(seqno)).unwrap();
        lower.checked_sub(1)
    };
    for _ in 0..random.below(50) {
        let found = owned(iter.entry(), pages);
        assert!(found.as_ref() == at.map(|at| &list[at]), "{name}: {key:?}");
        let Some(here) = at else { return };
        at = if random.below(100) < 45 {
            iter.advance().unwrap();
            Some(here + 1).filter(|&at| at < list.len())
        } else {
            iter.retreat().unwrap();
            here.checked_sub(1)
        };
    }
}

#[test]
fn verify_accepts_what_was_written() {
    for (name, options, entries) in subjects() {
        for filter in [
            None,
            Some(table_filter::Spec::Bloom(10.0)),
            Some(table_filter::Spec::Cuckoo(11)),
            Some(table_filter::Spec::Hashes),
        ] {
            for compression in [Compression::None, Compression::Lz4] {
                let options = TableOptions {
                    filter,
                    compression,
                    ..options.clone()
                };
                let (bytes, _) = write(options, &entries);
                for residency in [RESIDENT, PAGED] {
                    let (table, pages) = open_bytes(bytes.clone(), residency).unwrap();
                    let result = table.verify(&pages);
                    assert!(result.is_ok(), "{name}: {result:?}");
                }
            }
        }
    }
}

/// The promise of the design: a hit makes one read if index and filter are in memory, and three if
/// they are not. A miss makes none or one.
#[test]
fn lookups_read_no_more_pages_than_promised() {
    let entries: Entries = (0..20_000u64)
        .map(|i| {
            let key = KeyHash::of(&i.to_le_bytes(), 0).0.to_be_bytes().to_vec();
            ((key, Reverse(i + 1)), (Tag::PUT, vec![b'v'; 100]))
        })
        .collect();
    let (bytes, _) = write(options(4096), &entries);
    let (resident, pages) = open_bytes(bytes.clone(), RESIDENT).unwrap();
    let (paged, _) = open_bytes(bytes, PAGED).unwrap();
    let mut wrong = 0;
    for ((key, _), _) in entries.iter().step_by(7) {
        get(&*resident, &pages, key, SeqNo::MAX.0).unwrap();
        assert_eq!(pages.take_reads(), [PageClass::Data]);
        get(&*paged, &pages, key, SeqNo::MAX.0).unwrap();
        let three = [PageClass::Filter, PageClass::Index, PageClass::Data];
        assert_eq!(pages.take_reads(), three);
        let absent = [&key[..], b"!"].concat();
        get(&*resident, &pages, &absent, SeqNo::MAX.0).unwrap();
        wrong += pages.take_reads().len();
    }
    assert!(wrong < 20_000 / 7 / 40, "{wrong} false positives");
    let (index, filter) = resident.memory_bytes();
    assert!(index < 8000 && filter < 27_000, "{index} and {filter}");
    assert!(paged.memory_bytes().0 + paged.memory_bytes().1 < 1000);
}

#[test]
fn skipping_a_large_value_does_not_read_it() {
    let entries: Entries = (0..50u8)
        .map(|i| ((vec![i], Reverse(1)), (Tag::PUT, vec![i; 5000])))
        .collect();
    let (bytes, _) = write(options(4096), &entries);
    let (table, _) = open_bytes(bytes.clone(), RESIDENT).unwrap();
    let source = Arc::new(FilePages::new(Arc::new(MemoryRead(bytes))));
    let mut iter = table.iter(source.clone());
    iter.seek_first().unwrap();
    while let Some(entry) = iter.entry() {
        assert_eq!(entry.value.bytes(), 5000);
        iter.advance().unwrap();
    }
    assert_eq!(source.take_reads(), [PageClass::Data]);
}

#[test]
fn another_table_of_the_same_bytes_is_refused() {
    let entries: Entries = [((vec![1], Reverse(1)), (Tag::PUT, vec![]))].into();
    let (bytes, _) = write(options(4096), &entries);
    let file = Arc::new(MemoryRead(bytes));
    let error = match open(file, Path::new("elsewhere"), TableId(5), None, RESIDENT) {
        Ok(_) => panic!("a table of another number must not open"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.path(), Some(Path::new("elsewhere")));
}

#[test]
fn split_keys_cut_a_table_into_similar_pieces() {
    let entries: Entries = (0..9000u64)
        .map(|i| {
            let key = i.to_be_bytes().to_vec();
            ((key, Reverse(i + 1)), (Tag::PUT, vec![i as u8; 40]))
        })
        .collect();
    let (bytes, _) = write(options(1024), &entries);
    let (table, _) = open_bytes(bytes, RESIDENT).unwrap();
    let keys = table.split_keys(3);
    assert_eq!(keys.len(), 2);
    let sizes = keys.iter().map(|key| {
        let below = entries.range(..(key.clone(), Reverse(u64::MAX)));
        below.count()
    });
    let sizes: Vec<_> = sizes.collect();
    assert!((2800..3200).contains(&sizes[0]), "{sizes:?}");
    assert!((5800..6200).contains(&sizes[1]), "{sizes:?}");
}

/// Walks forward to a limit. All entries before it are there. Then the position is nowhere, or at
/// an entry behind the limit.
fn check_limit(
    name: &str,
    iter: &mut dyn InternalIter,
    list: &[(Vec<u8>, u64, Tag, Vec<u8>)],
    random: &mut Random,
) {
    let any = |random: &mut Random| list[random.below(list.len() as u64) as usize].0.clone();
    let (begin, mut end) = (any(random), any(random));
    end.truncate(1 + random.below(end.len() as u64) as usize);
    iter.limit(&end);
    iter.seek(&begin, SeqNo::MAX).unwrap();
    let expected = list
        .iter()
        .filter(|(key, ..)| (&begin..&end).contains(&key));
    for (key, seqno, ..) in expected {
        let found = iter.entry().map(|entry| (entry.key, entry.seqno.0));
        assert_eq!(found, Some((&key[..], *seqno)), "{name}: to {end:?}");
        iter.advance().unwrap();
    }
    assert!(
        iter.entry().is_none_or(|entry| *entry.key >= end[..]),
        "{name}"
    );
    let before = list.partition_point(|(key, ..)| *key < begin);
    iter.seek_before(&begin, SeqNo::MAX).unwrap();
    let found = iter
        .entry()
        .map(|entry| (entry.key.to_vec(), entry.seqno.0));
    let expected = before
        .checked_sub(1)
        .map(|at| (list[at].0.clone(), list[at].1));
    assert_eq!(found, expected, "{name}: before {begin:?}");
}
