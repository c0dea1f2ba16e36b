//! Keyspaces divided into trees: the effects of the division that a user sees.

use hedgerow::io::sim::SimStorage;
use hedgerow::{Db, Design, Keyspace, Layout};

use crate::support::{Contents, builder, contents, key, open, small, value};

const KEYS: u64 = 4000;

/// A thousand keys in each of four trees.
fn by_range() -> Layout {
    Layout::sorted().range([key(1000), key(2000), key(3000)])
}

fn filled(disk: &SimStorage, layout: Layout) -> (Db, Keyspace) {
    let db = open(disk);
    let keyspace = db.keyspace_with("k", layout, small()).unwrap();
    // Not in the order of keys, so that the trees grow together.
    for i in 0..KEYS {
        keyspace.put(key(i * 2671 % KEYS), value(i)).unwrap();
    }
    (db, keyspace)
}

/// Blocks read by a scan of some keys of one tree, in a database opened for it.
fn blocks_read(layout: Layout) -> u64 {
    let disk = SimStorage::new(1);
    let (db, keyspace) = filled(&disk, layout);
    keyspace.compact::<&[u8]>(..).unwrap();
    db.close().unwrap();
    drop(keyspace);
    let db = open(&disk);
    let keyspace = db.existing_keyspace("k").unwrap();
    let prefix = &key(2500)[..key(2500).len() - 1];
    let found = keyspace.scan_prefix(prefix).unwrap();
    assert_eq!(
        found
            .map(|item| item.unwrap().0.to_vec())
            .collect::<Vec<_>>(),
        (2500..2510).map(key).collect::<Vec<_>>()
    );
    db.stats().block_reads
}

#[test]
fn a_scan_reads_only_the_ranges_that_it_is_about() {
    let [one_tree, by_range, by_hash] =
        [Layout::sorted(), by_range(), Layout::sorted().hash(4)].map(blocks_read);
    assert!(by_range <= one_tree, "{by_range} {one_tree}");
    assert!(by_hash >= 4, "each of the trees is asked: {by_hash}");
    assert!(by_hash > by_range, "{by_hash} {by_range}");
}

/// Trees on both sides of a split, in every direction, with one of them empty.
#[test]
fn a_cursor_goes_from_one_range_to_the_next() {
    let disk = SimStorage::new(2);
    let db = open(&disk);
    let layout = Layout::sorted().range(["b", "c", "d"]);
    let keyspace = db.keyspace("k", layout).unwrap();
    for key in ["a1", "a2", "b", "d", "d1"] {
        keyspace.put(key, key).unwrap();
    }
    let mut cursor = keyspace.cursor().unwrap();
    assert!(cursor.seek(b"a2").unwrap());
    let mut forward = vec![cursor.key().unwrap().to_vec()];
    while cursor.next().unwrap() {
        forward.push(cursor.key().unwrap().to_vec());
    }
    assert_eq!(forward, [&b"a2"[..], b"b", b"d", b"d1"]);
    assert!(cursor.seek_for_prev(b"c9").unwrap());
    assert_eq!(cursor.key(), Some(&b"b"[..]));
    assert!(cursor.prev().unwrap());
    assert_eq!(cursor.key(), Some(&b"a2"[..]));
    assert!(cursor.next().unwrap() && cursor.next().unwrap());
    assert_eq!(cursor.key(), Some(&b"d"[..]));
    assert!(!cursor.seek(b"e").unwrap());
    // Backwards, over ranges that are empty or the wrong way round.
    let keys = |scan: hedgerow::Scan| scan.rev().map(Result::unwrap).collect::<Vec<_>>().len();
    assert_eq!(keys(keyspace.scan("a2"..="d").unwrap()), 3);
    assert_eq!(keys(keyspace.scan("c".."d").unwrap()), 0);
    assert_eq!(keys(keyspace.scan("d".."a").unwrap()), 0);
    assert_eq!(keys(keyspace.scan("b".."c").unwrap()), 1);
}

#[test]
fn compaction_of_a_range_leaves_the_other_trees_alone() {
    let disk = SimStorage::new(3);
    let (db, keyspace) = filled(&disk, by_range());
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let of_all = keyspace.stats().table_bytes();
    let mut total = 0;
    let range = key(1000)..key(1500);
    keyspace
        .compact_with(range, |progress| {
            total = progress.total_bytes;
            true
        })
        .unwrap();
    assert!(total > 0 && total < of_all / 3, "{total} of {of_all} bytes");
    db.verify().unwrap();
}

#[test]
fn repair_tells_from_tables_and_log_how_a_keyspace_was_divided() {
    for layout in [Layout::sorted().hash(4), by_range()] {
        let disk = SimStorage::new(4);
        let (db, keyspace) = filled(&disk, layout.clone());
        keyspace.flush().unwrap();
        // Also what is in the log alone, at the edges of a range.
        for i in [999, 1000, 3000] {
            keyspace
                .put([key(i), b"+".to_vec()].concat(), value(i))
                .unwrap();
        }
        let expected: Contents = contents(&keyspace);
        db.sync().unwrap();
        drop((keyspace, db));
        disk.set_contents("/db/MANIFEST", b"").unwrap();
        hedgerow::repair_with(builder(&disk)).unwrap();
        let db = open(&disk);
        let keyspace = db.existing_keyspace(&db.keyspaces()[0]).unwrap();
        assert_eq!(contents(&keyspace), expected, "{layout}");
        assert_eq!(keyspace.layout(), layout);
    }
}

/// Wherever the power goes in a batch over the trees of two keyspaces, all of it is there or none.
#[test]
fn a_batch_over_partitions_is_whole_after_every_crash() {
    for layout in [Layout::sorted(), Layout::sorted().hash(8), by_range()] {
        let mut outcomes = [0, 0];
        for after in 0.. {
            let disk = SimStorage::new(after);
            let db = open(&disk);
            let open_both = |db: &Db| {
                ["a", "b"].map(|name| db.keyspace_with(name, layout.clone(), small()).unwrap())
            };
            let keyspaces = open_both(&db);
            let write = |number: u64| {
                let mut batch = db.batch();
                for keyspace in &keyspaces {
                    for i in 0..40 {
                        batch.put(keyspace, key(i * 100), value(number))?;
                    }
                }
                batch.commit(hedgerow::Durability::Synced)
            };
            write(1).unwrap();
            disk.crash_after(after);
            // The next calls flush some trees, and not others.
            let written = write(2);
            let flushed = keyspaces[0].flush().and_then(|()| keyspaces[1].flush());
            let whole = flushed.is_ok() && !disk.power_lost();
            let db = open(&disk.crash());
            let found = open_both(&db).map(|keyspace| contents(&keyspace));
            let expected = |number| (0..40).map(|i| (key(i * 100), value(number))).collect();
            let number = if found[0] == expected(2) { 2 } else { 1 };
            let expected: Contents = expected(number);
            assert_eq!(found, [expected.clone(), expected], "{layout} {after}");
            assert!(number == 2 || written.is_err(), "{layout} {after}");
            outcomes[number as usize - 1] += 1;
            if whole {
                break;
            }
        }
        assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
    }
}

/// The memory of active memtables goes to the trees that are written. A single written tree flushes
/// as often as if it were alone.
#[test]
fn a_busy_partition_has_the_memory_of_all() {
    let flushes = |layout: Layout| {
        let db = open(&SimStorage::new(71));
        let design = Design {
            memtable_bytes: Some(32 << 10),
            ..small()
        };
        let keyspace = db.keyspace_with("plain", layout, design).unwrap();
        for i in 0..4000 {
            keyspace.put(key(i), [7; 100]).unwrap();
        }
        keyspace.wait_until_merged().unwrap();
        db.stats().flushes
    };
    let alone = flushes(Layout::sorted());
    let splits: Vec<Vec<u8>> = (1..8).map(|i| key(1_000_000 + i)).collect();
    assert!(alone >= 10, "{alone}");
    assert_eq!(flushes(Layout::sorted().range(splits)), alone);
}
