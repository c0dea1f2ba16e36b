//! Bounds, handles, scans, statistics: what a caller relies on from call to call.

use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow::io::sim::{Fault, OpClass, SimStorage};
use hedgerow::{
    Db, Design, Durability, ErrorKind, Event, Expiry, FilterSpec, Layout, PolicySpec, PrefixRule,
    Residency,
};

use crate::support::{
    Contents, builder, contents, key, kind, open, plain, plain_small, put_synced, small, value,
};

#[test]
fn keys_have_up_to_64_kib() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    let keyspace = plain(&db);
    let longest = vec![7; 64 << 10];
    keyspace.put(&longest, b"v").unwrap();
    keyspace.put([], b"v").unwrap();
    for refused in [vec![7; (64 << 10) + 1]] {
        let mut batch = db.batch();
        let snapshot = db.snapshot().unwrap();
        for error in [
            keyspace.put(&refused, b"v").unwrap_err(),
            keyspace.delete(&refused).unwrap_err(),
            keyspace.get(&refused).unwrap_err(),
            keyspace.contains_key(&refused).unwrap_err(),
            keyspace
                .multi_get(&[b"k".to_vec(), refused.clone()])
                .unwrap_err(),
            keyspace.update(&refused, |_| None).unwrap_err(),
            batch.put(&keyspace, &refused, b"v").unwrap_err(),
            batch.delete(&keyspace, &refused).unwrap_err(),
            snapshot.get(&keyspace, &refused).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains("65536"), "{error}");
        }
        assert!(batch.is_empty());
    }
    // Below 64 KiB of key, a flush and a merge keep it.
    keyspace.flush().unwrap();
    keyspace.compact::<&[u8]>(..).unwrap();
    assert_eq!(contents(&keyspace).len(), 2);
    assert_eq!(keyspace.scan(longest.as_slice()..).unwrap().count(), 1);
}

#[test]
fn values_have_0_bytes_to_64_mib() {
    let disk = SimStorage::new(2);
    let db = builder(&disk).memory_budget(256 << 20).open().unwrap();
    let keyspace = plain(&db);
    let longest = vec![3; 64 << 20];
    keyspace.put(b"longest", &longest).unwrap();
    keyspace.put(b"empty", b"").unwrap();
    let error = keyspace.put(b"k", vec![3; (64 << 20) + 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("67108864"), "{error}");
    keyspace.flush().unwrap();
    assert!(keyspace.get(b"longest").unwrap().unwrap()[..] == longest);
    assert_eq!(keyspace.get(b"empty").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(keyspace.get(b"k").unwrap(), None);
}

#[test]
fn value_far_larger_than_the_memory_for_it_is_kept() {
    let disk = SimStorage::new(3);
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..3 {
        keyspace.put(key(i), vec![i as u8; 2 << 20]).unwrap();
    }
    for i in 0..3 {
        assert_eq!(
            keyspace.get(key(i)).unwrap().unwrap()[..],
            vec![i as u8; 2 << 20]
        );
    }
    let keyspace = plain(&open(&disk.kill()));
    assert_eq!(keyspace.scan::<&[u8]>(..).unwrap().count(), 3);
}

#[test]
fn bad_arguments_are_refused_with_their_bounds() {
    let disk = SimStorage::new(4);
    let opened = builder(&disk).memory_budget((1 << 20) - 1).open();
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("1048576"), "{error}");
    let db = open(&disk);
    for layout in [
        Layout::sorted().hash(0),
        Layout::sorted().hash(257),
        Layout::sorted().range(["b", "a"]),
        Layout::sorted().range(["a", ""]),
        Layout::sorted().range((0..256).map(key)),
        Layout::hashed().range(["a"]),
        Layout::semi_sorted(PrefixRule::Bytes(4)).range(["a"]),
    ] {
        assert_eq!(kind(db.keyspace("k", layout)), ErrorKind::InvalidArgument);
    }
    let error = db.keyspace("k", Layout::hashed().range(["a"])).unwrap_err();
    let expected = "expected `single` or `hash:N` for keys of the order `hashed`, found `range:a`";
    assert!(error.to_string().contains(expected), "{error}");
    for name in [String::new(), "x".repeat(256)] {
        assert_eq!(
            kind(db.keyspace(&name, Layout::sorted())),
            ErrorKind::InvalidArgument
        );
    }
    for design in [
        Design {
            block_bytes: 511,
            ..Design::default()
        },
        Design {
            policy: PolicySpec::leveling(1.0),
            ..Design::default()
        },
        Design {
            table_bytes: Some(1),
            ..Design::default()
        },
        Design {
            memtable_bytes: Some(1),
            ..Design::default()
        },
        Design {
            filter: FilterSpec::Bloom {
                bits_per_key: f32::NAN,
            },
            ..Design::default()
        },
        Design {
            filter: FilterSpec::Bloom { bits_per_key: 0.5 },
            ..Design::default()
        },
        Design {
            filter: FilterSpec::Monkey {
                bits_per_key: Some(21.0),
            },
            ..Design::default()
        },
    ] {
        let refused = db.keyspace_with("k", Layout::sorted(), design.clone());
        assert_eq!(kind(refused), ErrorKind::InvalidArgument, "{design:?}");
    }
    assert!(db.keyspaces().is_empty());
    assert_eq!(kind(db.drop_keyspace("k")), ErrorKind::InvalidArgument);
    plain(&db);
    for db in [db, open(&disk.kill())] {
        let other = db.keyspace("plain", Layout::sorted().hash(2));
        assert_eq!(kind(other), ErrorKind::InvalidArgument);
    }
}

#[test]
fn keyspace_of_another_database_is_refused() {
    let (one, two) = (open(&SimStorage::new(5)), open(&SimStorage::new(6)));
    let foreign = plain(&two);
    plain(&one);
    assert_eq!(
        kind(one.batch().put(&foreign, b"k", b"v")),
        ErrorKind::InvalidArgument
    );
    let snapshot = one.snapshot().unwrap();
    assert_eq!(
        kind(snapshot.get(&foreign, b"k")),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn handles_of_a_dropped_keyspace_are_closed() {
    let disk = SimStorage::new(7);
    let db = open(&disk);
    let keyspace = plain(&db);
    put_synced(&keyspace, 0);
    let snapshot = db.snapshot().unwrap();
    let mut batch = db.batch();
    batch.put(&keyspace, b"k", b"v").unwrap();
    db.drop_keyspace("plain").unwrap();
    assert_eq!(kind(batch.commit(Durability::Buffered)), ErrorKind::Closed);
    assert_eq!(kind(keyspace.put(b"k", b"v")), ErrorKind::Closed);
    assert_eq!(kind(keyspace.get(b"k")), ErrorKind::Closed);
    assert_eq!(kind(keyspace.multi_get(&[b"k"])), ErrorKind::Closed);
    assert_eq!(kind(keyspace.update(b"k", |_| None)), ErrorKind::Closed);
    assert_eq!(kind(keyspace.scan::<&[u8]>(..)), ErrorKind::Closed);
    assert_eq!(kind(keyspace.cursor()), ErrorKind::Closed);
    assert_eq!(kind(keyspace.flush()), ErrorKind::Closed);
    assert_eq!(kind(keyspace.clear()), ErrorKind::Closed);
    assert_eq!(kind(keyspace.compact::<&[u8]>(..)), ErrorKind::Closed);
    assert_eq!(
        kind(db.batch().put(&keyspace, b"k", b"v")),
        ErrorKind::Closed
    );
    // The snapshot still sees it, and a new one of its name is another.
    assert!(snapshot.get(&keyspace, key(0)).unwrap().is_some());
    let again = plain(&db);
    assert!(contents(&again).is_empty());
    assert_eq!(kind(keyspace.put(b"k", b"v")), ErrorKind::Closed);
}

#[test]
fn everything_is_closed_after_close() {
    let disk = SimStorage::new(8);
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..50 {
        put_synced(&keyspace, i);
    }
    let snapshot = db.snapshot().unwrap();
    let mut scan = keyspace.scan::<&[u8]>(..).unwrap();
    let mut cursor = keyspace.cursor().unwrap();
    assert!(cursor.seek_first().unwrap());
    let other = db.clone();
    let mut batch = db.batch();
    batch.put(&keyspace, b"k", b"v").unwrap();
    db.close().unwrap();
    assert_eq!(kind(keyspace.put(b"k", b"v")), ErrorKind::Closed);
    assert_eq!(kind(keyspace.delete(b"k")), ErrorKind::Closed);
    assert_eq!(kind(keyspace.get(b"k")), ErrorKind::Closed);
    assert_eq!(kind(keyspace.contains_key(b"k")), ErrorKind::Closed);
    assert_eq!(kind(keyspace.multi_get(&[b"k"])), ErrorKind::Closed);
    assert_eq!(kind(keyspace.scan::<&[u8]>(..)), ErrorKind::Closed);
    assert_eq!(kind(keyspace.cursor()), ErrorKind::Closed);
    assert_eq!(kind(keyspace.flush()), ErrorKind::Closed);
    assert_eq!(kind(keyspace.clear()), ErrorKind::Closed);
    assert_eq!(kind(keyspace.compact::<&[u8]>(..)), ErrorKind::Closed);
    assert_eq!(kind(keyspace.wait_until_merged()), ErrorKind::Closed);
    assert_eq!(kind(snapshot.get(&keyspace, b"k")), ErrorKind::Closed);
    assert_eq!(
        kind(snapshot.scan::<&[u8]>(&keyspace, ..)),
        ErrorKind::Closed
    );
    assert_eq!(kind(batch.commit(Durability::Buffered)), ErrorKind::Closed);
    assert_eq!(kind(scan.next().unwrap()), ErrorKind::Closed);
    assert_eq!(kind(cursor.next()), ErrorKind::Closed);
    assert_eq!(kind(cursor.seek(b"k")), ErrorKind::Closed);
    assert_eq!(
        kind(other.keyspace("plain", Layout::sorted())),
        ErrorKind::Closed
    );
    assert_eq!(kind(other.drop_keyspace("plain")), ErrorKind::Closed);
    assert_eq!(kind(other.snapshot()), ErrorKind::Closed);
    assert_eq!(kind(other.sync()), ErrorKind::Closed);
    assert_eq!(kind(other.flush()), ErrorKind::Closed);
    assert_eq!(kind(other.checkpoint("/copy")), ErrorKind::Closed);
    assert_eq!(kind(other.verify()), ErrorKind::Closed);
    other.close().unwrap();
    assert_eq!(contents(&plain(&open(&disk))).len(), 50);
}

#[test]
fn database_is_closed_when_the_last_handle_goes() {
    let disk = SimStorage::new(9);
    let db = open(&disk);
    let keyspace = plain(&db);
    keyspace.put(b"k", b"v").unwrap();
    let scan = keyspace.scan::<&[u8]>(..).unwrap();
    let snapshot = db.snapshot().unwrap();
    drop((db, keyspace));
    assert_eq!(kind(builder(&disk).open()), ErrorKind::Locked);
    drop(snapshot);
    assert_eq!(scan.count(), 1);
    // Cleanly: what was buffered is durable.
    let db = open(&disk.crash());
    assert_eq!(contents(&plain(&db)).len(), 1);
}

#[test]
fn scan_gives_each_key_of_the_range_once_from_whatever_end() {
    let disk = SimStorage::new(10);
    let db = open(&disk);
    let by_range = [key(3), key(28), key(100), key(199)];
    for layout in [
        Layout::sorted(),
        Layout::sorted().hash(3),
        Layout::sorted().range(by_range),
    ] {
        let name = format!("{layout:?}");
        let keyspace = db.keyspace_with(&name, layout, small()).unwrap();
        let mut all = Contents::new();
        for i in (0..400).rev() {
            keyspace.put(key(i / 2), value(i)).unwrap();
            all.insert(key(i / 2), value(i));
            if i % 9 == 0 {
                keyspace.delete(key(i / 2)).unwrap();
                all.remove(&key(i / 2));
            }
        }
        let bounds = |i: u64| {
            let key = key(i);
            [
                Bound::Unbounded,
                Bound::Included(key.clone()),
                Bound::Excluded(key),
            ]
        };
        for (low, high) in [
            (3, 170),
            (27, 28),
            (50, 50),
            (90, 20),
            (0, 1000),
            (199, 200),
        ] {
            for lower in bounds(low) {
                for upper in bounds(high) {
                    let range = (lower.clone(), upper.clone());
                    let inside: Vec<_> = all
                        .iter()
                        .filter(|(k, _)| std::ops::RangeBounds::contains(&range, *k))
                        .collect();
                    for pattern in [0b0u32, 0b1, 0b10, 0b1101, 0b1_1110] {
                        let mut scan = keyspace.scan(range.clone()).unwrap();
                        let (mut front, mut back) = (Vec::new(), Vec::new());
                        for step in 0.. {
                            let backward = pattern >> (step % 5) & 1 == 1;
                            let item = if backward {
                                scan.next_back()
                            } else {
                                scan.next()
                            };
                            let Some(item) = item else { break };
                            let (k, v) = item.unwrap();
                            [&mut front, &mut back][usize::from(backward)].push((k, v));
                        }
                        front.extend(back.into_iter().rev());
                        let found = front.iter().map(|(k, v)| (&k[..], &v[..]));
                        let right = inside.iter().map(|(k, v)| (&k[..], &v[..]));
                        assert!(found.eq(right), "{range:?} {pattern:b}");
                        assert!(scan.next().is_none() && scan.next_back().is_none());
                    }
                }
            }
        }
        let by_prefix = keyspace.scan_prefix(b"key-00001").unwrap().count();
        assert_eq!(by_prefix, all.range(key(10)..key(20)).count());
        keyspace.put([0xFF, 0xFF, 1], b"v").unwrap();
        assert_eq!(keyspace.scan_prefix([0xFF, 0xFF]).unwrap().count(), 1);
        assert_eq!(keyspace.scan_prefix(b"").unwrap().count(), all.len() + 1);
    }
}

#[test]
fn multi_get_keeps_order_and_duplicates() {
    let disk = SimStorage::new(11);
    let db = open(&disk);
    let keyspace = db
        .keyspace_with("k", Layout::sorted().hash(2), small())
        .unwrap();
    for i in 0..300 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    keyspace.delete(key(5)).unwrap();
    let wanted: Vec<u64> = (0..200)
        .map(|i| i * 37 % 400)
        .chain([5, 7, 7, 5, 399, 7])
        .collect();
    let keys: Vec<_> = wanted.iter().map(|&i| key(i)).collect();
    let found = keyspace.multi_get(&keys).unwrap();
    assert_eq!(found.len(), wanted.len());
    for (i, found) in wanted.iter().zip(found) {
        let right = (*i < 300 && *i != 5).then(|| value(*i));
        assert_eq!(found.as_deref(), right.as_deref(), "{i}");
    }
    assert!(keyspace.multi_get::<&[u8]>(&[]).unwrap().is_empty());
}

/// The keys come in several orders. The trees have several levels, with deletes, range deletes,
/// values that expire, values in pages of their own, and older versions for a snapshot.
#[test]
fn visited_values_are_those_of_gets() {
    let in_a_day = Expiry::In(Duration::from_secs(86_400));
    let layouts = [Layout::sorted(), Layout::sorted().hash(2), Layout::hashed()];
    for layout in layouts {
        let disk = SimStorage::new(13);
        let db = open(&disk);
        let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
        let write = |round: u64| {
            for i in (round..2000).step_by(round as usize + 1) {
                let (key, value) = (key(i), value(i + round));
                match i % 11 {
                    3 => keyspace.delete(key).unwrap(),
                    5 => keyspace.put_expiring(key, value, in_a_day).unwrap(),
                    7 if i % 7 == 0 => keyspace.put(key, vec![round as u8; 9000]).unwrap(),
                    _ => keyspace.put(key, value).unwrap(),
                }
            }
        };
        write(0);
        write(1);
        let before = db.snapshot().unwrap();
        if layout != Layout::hashed() {
            keyspace.delete_range(key(700)..key(750)).unwrap();
        }
        write(2);
        write(3);
        let levels = keyspace.stats().levels;
        let filled = levels.iter().filter(|level| level.tables > 0).count();
        assert!(filled > 1, "{filled}");

        let ascending: Vec<_> = (0..2100).map(key).collect();
        let sparse: Vec<_> = (0..2100).step_by(61).map(key).collect();
        let descending: Vec<_> = ascending.iter().rev().cloned().collect();
        let mixed: Vec<_> = (0..4200).map(|i| key(i * 37 % 2100)).collect();
        let check = || {
            for keys in [&ascending, &sparse, &descending, &mixed] {
                let mut now = vec![None; keys.len()];
                let see = |at: usize, value: &[u8]| {
                    assert_eq!(now[at].replace(value.to_vec()), None);
                };
                keyspace.visit_values(keys, see).unwrap();
                let mut then = vec![None; keys.len()];
                let see = |at: usize, value: &[u8]| {
                    assert_eq!(then[at].replace(value.to_vec()), None);
                };
                before.visit_values(&keyspace, keys, see).unwrap();
                for (key, now) in keys.iter().zip(&now) {
                    let mut seen = None;
                    let see = |value: &[u8]| seen = Some(value.to_vec());
                    assert_eq!(keyspace.visit_value(key, see).unwrap(), now.is_some());
                    assert_eq!(seen, *now, "{layout:?} {key:?}");
                }
                for ((key, now), then) in keys.iter().zip(&now).zip(&then) {
                    let found = keyspace.get(key).unwrap();
                    assert_eq!(found.as_deref(), now.as_deref(), "{layout:?} {key:?}");
                    let found = before.get(&keyspace, key).unwrap();
                    assert_eq!(found.as_deref(), then.as_deref(), "{layout:?} {key:?}");
                }
            }
        };
        check();
        keyspace.compact::<&[u8]>(..).unwrap();
        check();
        // A block that has several keys is found by one look at filter and index.
        let probes = db.stats().filter_probes;
        keyspace.visit_values(&ascending, |_, _| {}).unwrap();
        let probes = db.stats().filter_probes - probes;
        if layout == Layout::sorted() {
            assert!(probes < 1000, "{probes}");
        }
    }
}

#[test]
fn a_value_stays_while_its_visitor_changes_the_database() {
    let db = open(&SimStorage::new(14));
    let keyspace = db.keyspace_with("k", Layout::sorted(), small()).unwrap();
    for is_in_table in [false, true] {
        keyspace.put(key(1), value(1)).unwrap();
        if is_in_table {
            keyspace.flush().unwrap();
        }
        let change = |seen: &[u8]| {
            keyspace.put(key(1), value(2)).unwrap();
            keyspace.flush().unwrap();
            keyspace.compact::<&[u8]>(..).unwrap();
            let found = keyspace.get(key(1)).unwrap();
            assert_eq!(found.as_deref(), Some(&value(2)[..]));
            assert_eq!(seen, value(1));
        };
        assert!(keyspace.visit_value(key(1), change).unwrap());
    }
}

/// Values in pages of their own are read at the same time, too.
#[test]
fn multi_get_overlaps_the_reads_of_large_values() {
    let disk = SimStorage::new(12);
    let large = |i: u64| vec![i as u8; 100_000];
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..20 {
        keyspace.put(key(i), large(i)).unwrap();
    }
    keyspace.flush().unwrap();
    drop((keyspace, db));
    let db = open(&disk);
    let keyspace = plain(&db);
    // Opens the table.
    assert_eq!(
        keyspace.get(key(0)).unwrap().as_deref(),
        Some(&large(0)[..])
    );
    let before = disk.counters();
    let keys: Vec<_> = (1..20).map(key).collect();
    let found = keyspace.multi_get(&keys).unwrap();
    for (i, found) in (1..20).zip(found) {
        assert_eq!(found.as_deref(), Some(&large(i)[..]), "{i}");
    }
    let after = disk.counters();
    assert!(after.reads_in_batches - before.reads_in_batches >= 19);
    // Blocks, then values.
    assert!(after.read_batches - before.read_batches <= 2);
}

/// One batch reads the blocks of all runs that a seek looks into. If indexes are paged, a batch
/// before it reads their pages.
#[test]
fn a_seek_reads_its_runs_together() {
    const RUNS: u64 = 5;
    for (residency, rounds) in [(Residency::Resident, 1), (Residency::Paged, 2)] {
        let disk = SimStorage::new(12);
        let opened = || builder(&disk).memory_budget(16 << 20).open().unwrap();
        let design = Design {
            policy: "tiering:8".parse().unwrap(),
            residency,
            memtable_bytes: Some(2 << 20),
            table_bytes: None,
            ..small()
        };
        let db = opened();
        let keyspace = db.keyspace_with("k", Layout::sorted(), design).unwrap();
        for run in 0..RUNS {
            for i in 0..10_000 {
                keyspace.put(key(RUNS * i + run), value(i)).unwrap();
            }
            keyspace.flush().unwrap();
        }
        assert_eq!(keyspace.stats().levels[0].runs as u64, RUNS);
        drop((keyspace, db));

        for (i, forward) in [(12_345, true), (23_456, true), (45_678, false)] {
            let db = opened();
            let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
            let mut cursor = keyspace.cursor().unwrap();
            let mut seek = || match forward {
                true => cursor.seek(&key(i)).unwrap(),
                false => cursor.seek_for_prev(&key(i)).unwrap(),
            };
            // Tables are opened one by one.
            let before = disk.counters();
            assert!(seek());
            let after = disk.counters();
            let together = after.reads_in_batches - before.reads_in_batches;
            assert_eq!(together, rounds * RUNS);
            assert_eq!(after.read_batches - before.read_batches, rounds);
            assert!(seek());
            assert_eq!(disk.counters().reads, after.reads, "cached by now");
            assert_eq!(cursor.key(), Some(&key(i)[..]));
        }
    }
}

/// One batch reads the blocks of a short scan. A long scan begins with one block, because some
/// callers want its first entry only.
#[test]
fn a_short_scan_reads_its_blocks_together() {
    let disk = SimStorage::new(13);
    let db = builder(&disk).memory_budget(16 << 20).open().unwrap();
    let design = Design {
        memtable_bytes: Some(2 << 20),
        table_bytes: None,
        ..small()
    };
    let keyspace = db.keyspace_with("k", Layout::sorted(), design).unwrap();
    for i in 0..10_000 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    keyspace.flush().unwrap();
    drop((keyspace, db));

    let db = builder(&disk).memory_budget(16 << 20).open().unwrap();
    let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
    // Opens the table.
    assert!(keyspace.contains_key(key(0)).unwrap());
    for (length, few) in [(20, true), (2000, false)] {
        let before = disk.counters();
        let from = 5000 + length;
        let mut scan = keyspace.scan(key(from)..key(from + length)).unwrap();
        assert!(scan.next().unwrap().is_ok());
        let first = disk.counters();
        let together = first.reads_in_batches - before.reads_in_batches;
        assert_eq!(scan.count() as u64, length - 1);
        let rest = disk.counters().reads - first.reads;
        if few {
            assert!((2..=5).contains(&together), "{together}");
            assert_eq!((first.read_batches - before.read_batches, rest), (1, 0));
        } else {
            assert_eq!(together, 0);
            assert!((4..20).contains(&rest), "{rest}");
        }
    }
}

#[test]
fn last_write_of_a_key_in_a_batch_wins() {
    let disk = SimStorage::new(12);
    let db = open(&disk);
    let keyspace = plain(&db);
    let mut batch = db.batch();
    batch
        .put(&keyspace, b"a", b"1")
        .unwrap()
        .delete(&keyspace, b"a")
        .unwrap();
    batch
        .put(&keyspace, b"b", b"1")
        .unwrap()
        .put(&keyspace, b"b", b"2")
        .unwrap();
    batch
        .delete(&keyspace, b"c")
        .unwrap()
        .put(&keyspace, b"c", b"3")
        .unwrap();
    batch.commit(Durability::Buffered).unwrap();
    for db in [db, open(&disk.kill())] {
        let found = contents(&plain(&db));
        assert_eq!(found.into_values().collect::<Vec<_>>(), [b"2", b"3"]);
    }
}

#[test]
fn update_sees_the_old_value_and_may_delete() {
    let disk = SimStorage::new(13);
    let keyspace = plain(&open(&disk));
    assert_eq!(
        keyspace
            .update(b"k", |old| {
                assert_eq!(old, None);
                None
            })
            .unwrap(),
        None
    );
    let new = keyspace.update(b"k", |_| Some(b"1".to_vec())).unwrap();
    assert_eq!(new.as_deref(), Some(&b"1"[..]));
    assert_eq!(
        keyspace
            .update(b"k", |old| {
                assert_eq!(old, Some(&b"1"[..]));
                None
            })
            .unwrap(),
        None
    );
    assert_eq!(keyspace.get(b"k").unwrap(), None);
}

#[test]
fn snapshot_and_cursor_see_the_past_across_clear_drop_and_compaction() {
    let disk = SimStorage::new(14);
    let db = open(&disk);
    let [a, b] = ["a", "b"].map(|name| db.keyspace_with(name, Layout::sorted(), small()).unwrap());
    for i in 0..300 {
        a.put(key(i), value(i)).unwrap();
        b.put(key(i), value(i)).unwrap();
    }
    let expected = contents(&a);
    let snapshot = db.snapshot().unwrap();
    let scan = a.scan::<&[u8]>(..).unwrap();
    for i in 0..300 {
        a.put(key(i), b"new").unwrap();
        a.delete(key(i)).unwrap();
    }
    a.compact::<&[u8]>(..).unwrap();
    assert!(contents(&a).is_empty());
    a.clear().unwrap();
    db.drop_keyspace("b").unwrap();
    db.keyspace("b", Layout::sorted())
        .unwrap()
        .put(b"other", b"v")
        .unwrap();
    for keyspace in [&a, &b] {
        let seen = snapshot.scan::<&[u8]>(keyspace, ..).unwrap().map(|item| {
            let (key, value) = item.unwrap();
            assert_eq!(
                snapshot.get(keyspace, &key).unwrap().as_deref(),
                Some(&value[..])
            );
            (key.to_vec(), value.to_vec())
        });
        assert_eq!(seen.collect::<Contents>(), expected);
    }
    let seen = scan.map(|item| item.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap());
    assert_eq!(seen.collect::<Contents>(), expected);
    assert_eq!(db.stats().snapshots, 1);
    drop(snapshot);
    assert_eq!(db.stats().snapshots, 0);
}

#[test]
fn events_tell_of_flushes_merges_failures_and_recovery() {
    let disk = SimStorage::new(15);
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = events.clone();
    let listener = move |event: &Event| {
        let name = format!("{event:?}");
        heard
            .lock()
            .unwrap()
            .push(name.split(' ').next().unwrap().to_owned());
    };
    let db: Db = builder(&disk).listener(listener).open().unwrap();
    let keyspace = plain_small(&db);
    for i in 0..500 {
        keyspace.put(key(i * 7 % 500), value(i)).unwrap();
    }
    keyspace.compact::<&[u8]>(..).unwrap();
    disk.fail_path_after(OpClass::Create, "/tables", 0, Fault::Io);
    keyspace.put(b"k", b"v").unwrap();
    keyspace.flush().unwrap_err();
    disk.fail_path_after(OpClass::Sync, "MANIFEST", 0, Fault::Io);
    keyspace.flush().unwrap_err();
    let events = events.lock().unwrap();
    let count = |name| events.iter().filter(|event| **event == name).count() as u64;
    let stats = db.stats();
    assert_eq!(count("Recovered"), 1);
    assert_eq!(count("Flushed"), stats.flushes);
    assert_eq!(count("Merged"), stats.merges);
    assert_eq!(count("Moved"), stats.moves);
    assert!(count("BackgroundError") >= 1);
    assert_eq!(count("Poisoned"), 1);
}
