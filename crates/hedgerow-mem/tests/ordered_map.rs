//! The map against a model: `BTreeMap` keyed by (key, inverted sequence number).

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use common::{Random, seeds};
use hedgerow_mem::{ChunkPool, Cursor, EntryRef, OrderedMap};

type Place = (Vec<u8>, u64);
type Stored = (u16, Vec<u8>);
type Model = BTreeMap<Place, Stored>;

fn map_of(chunk_bytes: usize) -> Arc<OrderedMap> {
    Arc::new(OrderedMap::new(ChunkPool::new(chunk_bytes, 0)))
}

fn model_entry<'a>(found: Option<(&'a Place, &'a Stored)>) -> Option<EntryRef<'a>> {
    let ((key, inverted), (tag, value)) = found?;
    Some(EntryRef {
        key,
        seqno: !inverted,
        tag: *tag,
        value,
    })
}

/// Checks that every walk through the map agrees with the model.
fn check_all(map: &Arc<OrderedMap>, model: &Model) {
    let mut cursor = map.cursor();
    assert_eq!(cursor.entry(), None, "a new cursor stands nowhere");
    cursor.seek_first();
    for expected in model {
        assert_eq!(cursor.entry(), model_entry(Some(expected)));
        cursor.advance();
    }
    assert_eq!(cursor.entry(), None);
    cursor.advance();
    assert_eq!(cursor.entry(), None, "an invalid cursor stays invalid");
    cursor.seek_last();
    for expected in model.iter().rev() {
        assert_eq!(cursor.entry(), model_entry(Some(expected)));
        cursor.retreat();
    }
    assert_eq!(cursor.entry(), None);
    cursor.retreat();
    assert_eq!(cursor.entry(), None, "an invalid cursor stays invalid");
}

/// Checks that every search for a position agrees with the model.
fn check_at(map: &OrderedMap, cursor: &mut Cursor, model: &Model, key: &[u8], seqno_max: u64) {
    let place = (key.to_vec(), !seqno_max);
    let behind = || model.range(&place..);
    let before = || model.range(..&place);
    let expected = model_entry(behind().next()).filter(|entry| entry.key == key);
    assert_eq!(map.get(key, seqno_max), expected, "get {key:?} {seqno_max}");
    cursor.seek(key, seqno_max);
    for expected in behind().take(20) {
        assert_eq!(
            cursor.entry(),
            model_entry(Some(expected)),
            "seek {key:?} {seqno_max}"
        );
        cursor.advance();
    }
    cursor.seek_before(key, seqno_max);
    for expected in before().rev().take(20) {
        assert_eq!(
            cursor.entry(),
            model_entry(Some(expected)),
            "before {key:?} {seqno_max}"
        );
        cursor.retreat();
    }
    cursor.seek(key, seqno_max);
    cursor.retreat();
    if behind().next().is_some() {
        assert_eq!(
            cursor.entry(),
            model_entry(before().next_back()),
            "there and back"
        );
    }
    cursor.seek_before(key, seqno_max);
    cursor.advance();
    if before().next().is_some() {
        assert_eq!(
            cursor.entry(),
            model_entry(behind().next()),
            "back and there"
        );
    }
}

/// Draws a key. Prefixes, ends and whole keys coincide often.
fn draw_key(random: &mut Random, style: u64) -> Vec<u8> {
    match style {
        // Short keys over two bytes, zeros among them. They are prefixes of each other.
        0 => (0..random.range(1, 12))
            .map(|_| random.below(2) as u8)
            .collect(),
        // Decimal numbers with equal first eight bytes.
        1 => format!("{:016}", random.below(100_000)).into_bytes(),
        // A long shared prefix, then a tail of any length.
        2 => {
            let mut key = vec![b'p'; random.range(0, 40) as usize];
            key.extend((0..random.range(1, 4)).map(|_| random.below(3) as u8));
            key
        }
        // Few keys, many versions.
        3 => vec![random.below(5) as u8],
        _ => random.next().to_be_bytes().to_vec(),
    }
}

#[test]
fn agrees_with_the_model() {
    for seed in seeds(60) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let style = random.below(6);
        let map = map_of(4096 << random.below(4));
        let mut cursor = map.cursor();
        let mut model = Model::new();
        let ops = random.range(1, 3000);
        for op in 1..=ops {
            let style = if style == 5 { random.below(5) } else { style };
            let key = draw_key(&mut random, style);
            if random.below(4) > 0 {
                let seqno = if random.below(2) == 0 {
                    op
                } else {
                    random.next()
                };
                let tag = random.next() as u16;
                let value = vec![op as u8; random.below(40) as usize];
                if let std::collections::btree_map::Entry::Vacant(vacant) =
                    model.entry((key.clone(), !seqno))
                {
                    vacant.insert((tag, value.clone()));
                    if seqno == 0 || random.below(2) == 0 {
                        map.insert(&key, seqno, tag, &value);
                        continue;
                    }
                    let older = model.range((key.clone(), !seqno + 1)..).next();
                    let older = model_entry(older).filter(|it| it.key == key);
                    map.insert_over(&key, seqno, |found| {
                        assert_eq!(found, older);
                        (tag, value.into())
                    });
                }
            } else {
                let seqno_max = match random.below(4) {
                    0 => u64::MAX,
                    1 => 0,
                    2 => random.next(),
                    _ => random.below(op + 1),
                };
                check_at(&map, &mut cursor, &model, &key, seqno_max);
            }
        }
        check_all(&map, &model);
    }
}

#[test]
fn in_order_and_in_reverse_order() {
    for reversed in [false, true] {
        let map = map_of(1 << 20);
        let mut model = Model::new();
        for i in 0..20_000u64 {
            let number = if reversed { 20_000 - i } else { i };
            let key = format!("a prefix that all keys share {number:010}").into_bytes();
            map.insert(&key, i, 1, b"");
            model.insert((key, !i), (1, Vec::new()));
        }
        check_all(&map, &model);
        let mut cursor = map.cursor();
        for number in (0..20_000u64).step_by(37) {
            let key = format!("a prefix that all keys share {number:010}").into_bytes();
            check_at(&map, &mut cursor, &model, &key, u64::MAX);
        }
        for stranger in [
            &b""[..],
            b"a",
            b"a prefix",
            b"a prefix that all keys share",
            b"b",
            b"\xff",
        ] {
            check_at(&map, &mut cursor, &model, stranger, 7);
        }
    }
}

#[test]
fn keys_and_values_of_every_size() {
    let map = map_of(64 << 10);
    let mut model = Model::new();
    let mut sizes: Vec<usize> = (0..17).map(|bit| 1 << bit).collect();
    sizes.extend([3, 7, 9, 15, 17, 65_535, 65_552]);
    for (seqno, &bytes) in sizes.iter().enumerate() {
        for last in [0, 1, 255] {
            let mut key = vec![b'k'; bytes];
            key[bytes - 1] = last;
            let value = vec![last; (bytes * 7) % 100_001];
            map.insert(&key, seqno as u64, last.into(), &value);
            model.insert((key, !(seqno as u64)), (last.into(), value));
        }
    }
    check_all(&map, &model);
    let keys: Vec<_> = model.keys().cloned().collect();
    let mut cursor = map.cursor();
    for (key, inverted) in keys {
        check_at(&map, &mut cursor, &model, &key, !inverted);
        check_at(&map, &mut cursor, &model, &key[..key.len() - 1], u64::MAX);
    }
}

#[test]
fn huge_values_get_an_allocation_of_their_own() {
    let pool = ChunkPool::new(1 << 20, 8 << 20);
    let map = Arc::new(OrderedMap::new(Arc::clone(&pool)));
    let value = vec![7; (64 << 20) + 64];
    map.insert(b"huge", 1, 0, &value);
    map.insert(b"small", 2, 0, b"v");
    assert_eq!(map.get(b"huge", u64::MAX).unwrap().value, value);
    assert!(map.memory_bytes() > 64 << 20);
    assert!(map.memory_bytes() < 65 << 20);
    drop(map);
    assert!(
        pool.retained_bytes() < 1 << 20,
        "allocations of their own are not kept"
    );
}

#[test]
fn sequence_numbers_at_both_ends() {
    let map = map_of(4096);
    map.insert(b"k", 0, 1, b"oldest");
    map.insert(b"k", u64::MAX, 2, b"newest");
    map.insert(b"k\0", u64::MAX, 3, b"neighbour");
    assert_eq!(map.get(b"k", 0).unwrap().value, b"oldest");
    assert_eq!(map.get(b"k", u64::MAX - 1).unwrap().value, b"oldest");
    assert_eq!(map.get(b"k", u64::MAX).unwrap().value, b"newest");
    let mut cursor = map.cursor();
    cursor.seek_first();
    let mut seen = Vec::new();
    while let Some(entry) = cursor.entry() {
        seen.push(entry.value.to_vec());
        cursor.advance();
    }
    assert_eq!(seen, [&b"newest"[..], b"oldest", b"neighbour"]);
}

#[test]
fn a_cursor_keeps_the_map_alive() {
    let map = map_of(4096);
    map.insert(b"key", 1, 0, b"value");
    let mut cursor = map.cursor();
    drop(map);
    cursor.seek_first();
    assert_eq!(cursor.entry().unwrap().value, b"value");
}

#[test]
fn memory_is_counted_and_recycled() {
    let pool = ChunkPool::new(256 << 10, 1 << 20);
    let fill = |entries: u64| {
        let map = OrderedMap::new(Arc::clone(&pool));
        for i in 0..entries {
            map.insert(&i.to_be_bytes(), i, 0, &[0; 100]);
        }
        map
    };
    let small = fill(8);
    assert!(
        small.memory_bytes() <= 8 << 10,
        "a small map is cheap: {}",
        small.memory_bytes()
    );
    assert_eq!(pool.retained_bytes(), 0);
    let map = fill(20_000);
    let bytes = map.memory_bytes();
    assert!(bytes >= 20_000 * 108, "everything is counted: {bytes}");
    assert!(bytes < 20_000 * 108 * 2, "little is wasted: {bytes}");
    drop(map);
    let retained = pool.retained_bytes();
    assert!(retained > 512 << 10, "chunks are kept: {retained}");
    assert!(retained <= 1 << 20, "but not more than allowed: {retained}");
    let again = fill(2_000);
    assert!(pool.retained_bytes() < retained, "the next map takes them");
    assert!(again.get(&7u64.to_be_bytes(), u64::MAX).is_some());
    pool.release_retained();
    assert_eq!(pool.retained_bytes(), 0);
}

#[test]
fn a_pool_tells_once_that_it_is_short_of_chunks_and_prepares_some() {
    let pool = ChunkPool::new(64 << 10, 1 << 20);
    let map = OrderedMap::new(Arc::clone(&pool));
    map.insert(b"small", 1, 0, b"v");
    assert!(
        !pool.take_shortage(),
        "a small map takes none of the largest"
    );
    let fill = |from: u64, entries: u64| {
        for i in from..from + entries {
            map.insert(&i.to_be_bytes(), i, 0, &[0; 1000]);
        }
    };
    fill(2, 400);
    assert!(pool.take_shortage());
    assert!(!pool.take_shortage(), "it was told");
    pool.prepare();
    assert_eq!(pool.retained_bytes(), 4 * (64 << 10));
    pool.prepare();
    assert_eq!(pool.retained_bytes(), 4 * (64 << 10), "there are enough");
    fill(402, 100);
    assert!(
        pool.retained_bytes() <= 3 * (64 << 10),
        "the map takes them"
    );
    assert!(pool.take_shortage());

    // A chunk that may not be retained is not prepared.
    let pool = ChunkPool::new(64 << 10, 100 << 10);
    let map = OrderedMap::new(Arc::clone(&pool));
    for i in 0..400_u64 {
        map.insert(&i.to_be_bytes(), i + 1, 0, &[0; 1000]);
    }
    pool.prepare();
    assert_eq!(pool.retained_bytes(), 64 << 10);
}

/// Writers fill the map. Readers and cursors check order, values and completeness of the earlier
/// entries.
#[test]
fn writers_readers_and_cursors_at_once() {
    const WRITERS: u64 = 3;
    const ENTRIES: u64 = 6_000;
    for seed in seeds(4) {
        println!("seed {seed}");
        let map = map_of(64 << 10);
        let key = |writer: u64, i: u64| {
            let mut random = Random::new((seed << 40) | (writer << 32) | (i / 2));
            let mut key = draw_key(&mut random, seed % 5);
            key.extend_from_slice(&[writer as u8, (i >> 8) as u8, i as u8]);
            key
        };
        let written: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (map, written) = (&map, &written);
                scope.spawn(move || {
                    for i in 0..ENTRIES {
                        let key = key(writer, i);
                        map.insert(&key, i, writer as u16, &key);
                        written[writer as usize].store(i + 1, Ordering::Release);
                    }
                });
            }
            for backward in [false, true] {
                let (map, written) = (&map, &written);
                scope.spawn(move || {
                    let mut random = Random::new(seed ^ u64::from(backward));
                    loop {
                        let before: Vec<u64> = written
                            .iter()
                            .map(|count| count.load(Ordering::Acquire))
                            .collect();
                        for (writer, &count) in before.iter().enumerate().filter(|(_, n)| **n > 0) {
                            let i = random.below(count);
                            let key = key(writer as u64, i);
                            let entry =
                                map.get(&key, u64::MAX).expect("what was inserted is there");
                            assert_eq!((entry.seqno, entry.value), (i, &key[..]));
                        }
                        check_walk(map, &before, backward);
                        if before.iter().all(|count| *count == ENTRIES) {
                            break;
                        }
                    }
                });
            }
        });
        check_walk(&map, &[ENTRIES; WRITERS as usize], false);
    }
}

/// Walks through the whole map. The entries are strictly ordered, and no writer's earlier entries
/// are missing.
fn check_walk(map: &Arc<OrderedMap>, before: &[u64], backward: bool) {
    let mut seen = vec![0; before.len()];
    let mut cursor = map.cursor();
    if backward {
        cursor.seek_last()
    } else {
        cursor.seek_first()
    }
    let mut last: Option<(Vec<u8>, u64)> = None;
    while let Some(entry) = cursor.entry() {
        assert_eq!(entry.key, entry.value);
        let place = (entry.key.to_vec(), !entry.seqno);
        if let Some(last) = last {
            assert!(
                if backward { place < last } else { place > last },
                "in order"
            );
        }
        last = Some(place);
        // Entries written after the count may be there or not.
        if entry.seqno < before[usize::from(entry.tag)] {
            seen[usize::from(entry.tag)] += 1;
        }
        if backward {
            cursor.retreat()
        } else {
            cursor.advance()
        }
    }
    assert_eq!(seen, before, "everything written before is seen");
}
