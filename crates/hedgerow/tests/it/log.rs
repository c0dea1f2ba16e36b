//! The log: what survives, in which order, and how long the log gets.

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Environment, Storage};
use hedgerow::{Db, Design, Durability, ErrorKind, Layout};

use crate::support::{
    Contents, DIR, builder, contents, files, key, kind, open, plain, plain_small, prefix_length,
    put_synced, small, value,
};

/// The number of images of a disk without power that the test examines.
const CRASHES: usize = 24;

#[test]
fn batch_over_keyspaces_and_partitions_is_all_or_nothing_across_any_crash() {
    let run = |disk: &SimStorage| -> hedgerow::Result<()> {
        let db = builder(disk).log_segment_bytes(4 << 10).open()?;
        let one = db.keyspace_with("one", Layout::sorted(), small())?;
        let many = db.keyspace_with("many", Layout::sorted().hash(4), small())?;
        for i in 0..60u64 {
            let mut batch = db.batch();
            batch.put(&one, b"round", i.to_be_bytes())?;
            for part in 0..8u64 {
                batch.put(&many, key(part), i.to_be_bytes())?;
            }
            batch.put(&one, key(i), value(i))?;
            let durability = [Durability::Buffered, Durability::Synced][usize::from(i % 7 == 0)];
            batch.commit(durability)?;
        }
        db.close()
    };
    let whole = SimStorage::new(1);
    run(&whole).unwrap();
    let mutations = whole.counters().mutations;
    for after in (5..mutations).step_by(11) {
        let disk = SimStorage::new(after);
        disk.crash_after(after);
        let _ = run(&disk);
        let db = open(&disk.crash());
        let Some(one) = db.existing_keyspace("one") else {
            continue;
        };
        let round = one.get(b"round").unwrap();
        assert_eq!(
            contents(&one).len(),
            round.as_ref().map_or(0, |r| {
                u64::from_be_bytes(r[..].try_into().unwrap()) as usize + 2
            })
        );
        let Some(many) = db.existing_keyspace("many") else {
            assert_eq!(round, None);
            continue;
        };
        for part in 0..8 {
            assert_eq!(
                many.get(key(part)).unwrap(),
                round,
                "power lost after {after}"
            );
        }
    }
}

#[test]
fn what_survives_a_crash_is_a_prefix_with_everything_synced() {
    let disk = SimStorage::new(2);
    let db = open(&disk);
    let [a, b] = ["a", "b"].map(|name| {
        let layout = Layout::sorted().hash(2);
        db.keyspace_with(name, layout, small()).unwrap()
    });
    let mut synced = 0;
    for i in 0..400 {
        let keyspace = if i % 3 == 0 { &a } else { &b };
        keyspace.put(key(i), value(i)).unwrap();
        if i % 50 == 49 {
            db.sync().unwrap();
            synced = i + 1;
        }
        if i % 40 == 0 {
            let db = open(&disk.crash());
            let [a, b] = ["a", "b"].map(|name| db.existing_keyspace(name).unwrap());
            let found = |i| {
                let keyspace = if i % 3 == 0 { &a } else { &b };
                keyspace.get(key(i)).unwrap().is_some()
            };
            let length = prefix_length(found, i + 1);
            assert!(length >= synced, "{length} of {synced} synced writes");
        }
    }
}

#[test]
fn synced_write_makes_everything_before_it_durable() {
    let disk = SimStorage::new(3);
    let db = open(&disk);
    let (a, b) = (
        plain(&db),
        db.keyspace("b", Layout::sorted().hash(3)).unwrap(),
    );
    for i in 0..100 {
        a.put(key(i), value(i)).unwrap();
    }
    put_synced(&b, 100);
    for _ in 0..CRASHES {
        let db = open(&disk.crash());
        assert_eq!(contents(&plain(&db)).len(), 100);
        assert_eq!(contents(&db.existing_keyspace("b").unwrap()).len(), 1);
    }
}

#[test]
fn empty_synced_batch_makes_everything_before_it_durable() {
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = plain(&db);
    keyspace.put(b"k", b"v").unwrap();
    db.batch().commit(Durability::Synced).unwrap();
    for _ in 0..CRASHES {
        assert!(plain(&open(&disk.crash())).get(b"k").unwrap().is_some());
    }
}

#[test]
fn buffered_write_survives_the_end_of_the_process() {
    let disk = SimStorage::new(5);
    let db = open(&disk);
    let keyspace = plain_small(&db);
    for i in 0..300 {
        keyspace.put(key(i), value(i)).unwrap();
        if i % 37 == 0 {
            assert_eq!(contents(&plain(&open(&disk.kill()))).len() as u64, i + 1);
        }
    }
}

#[test]
fn old_records_of_a_recycled_segment_never_replay() {
    let disk = SimStorage::new(6);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let keyspace = plain_small(&db);
    let mut expected = Contents::new();
    for round in 0..30u64 {
        // Records of one size, so that old ones lie where new ones would.
        for i in 0..40 {
            keyspace.put(key(i), round.to_be_bytes()).unwrap();
            expected.insert(key(i), round.to_be_bytes().to_vec());
        }
        keyspace.delete(key(round)).unwrap();
        expected.remove(&key(round));
        if round % 3 == 0 {
            keyspace.flush().unwrap();
        }
        assert_eq!(contents(&plain(&open(&disk.kill()))), expected);
        db.sync().unwrap();
        assert_eq!(contents(&plain(&open(&disk.crash()))), expected);
    }
    // Files were indeed used again: far fewer are there than were begun.
    assert!(db.stats().log_bytes > 10 * (4 << 10));
    assert!(files(&disk, "log").len() < 12, "{:?}", files(&disk, "log"));
}

#[test]
fn log_stays_bounded_when_one_partition_is_idle_with_old_data() {
    const LIMIT: u64 = 64 << 10;
    let disk = SimStorage::new(8);
    let open_bounded = |disk: &SimStorage| {
        let builder = builder(disk).log_segment_bytes(8 << 10);
        builder.log_bytes_max(LIMIT).open().unwrap()
    };
    let db = open_bounded(&disk);
    let idle = db.keyspace("idle", Layout::sorted().hash(4)).unwrap();
    let busy = db.keyspace_with("busy", Layout::sorted(), small()).unwrap();
    let mut longest = 0;
    for i in 0..4000 {
        if i % 1500 == 0 {
            idle.put(key(i), b"old").unwrap();
        }
        busy.put(key(i % 100), [7; 200]).unwrap();
        longest = longest.max(db.stats().log_live_bytes);
    }
    assert!(longest <= 2 * LIMIT, "{longest}");
    let db = open_bounded(&disk.kill());
    assert_eq!(contents(&db.existing_keyspace("idle").unwrap()).len(), 3);
}

#[test]
fn unflushed_writes_of_a_dropped_or_cleared_keyspace_never_come_back() {
    let disk = SimStorage::new(9);
    let db = open(&disk);
    let other = db.keyspace("other", Layout::sorted()).unwrap();
    for round in 0..5u64 {
        let keyspace = plain(&db);
        assert!(contents(&keyspace).is_empty(), "round {round}");
        keyspace.put(b"old", round.to_be_bytes()).unwrap();
        put_synced(&other, round);
        if round % 2 == 0 {
            keyspace.clear().unwrap();
            assert!(contents(&keyspace).is_empty());
            keyspace.put(b"new", b"v").unwrap();
            let found = contents(&plain(&open(&disk.kill())));
            assert_eq!(found.keys().collect::<Vec<_>>(), [b"new"]);
        }
        db.drop_keyspace("plain").unwrap();
        for image in [disk.kill(), disk.crash()] {
            let db = open(&image);
            assert_eq!(db.keyspaces(), ["other"]);
            assert!(contents(&plain(&db)).is_empty(), "round {round}");
        }
    }
}

#[test]
fn tables_are_installed_only_when_the_log_is_durable_up_to_them() {
    // One of two partitions is flushed, and the log is not synced. A crash that kept the tables but
    // lost an earlier write of the other partition would leave a hole.
    for seed in 0..CRASHES as u64 {
        let disk = SimStorage::new(seed);
        let db = open(&disk);
        let [a, b] = ["a", "b"].map(|name| db.keyspace(name, Layout::sorted()).unwrap());
        for i in 0..20 {
            [&a, &b][i as usize % 2].put(key(i), value(i)).unwrap();
        }
        b.flush().unwrap();
        a.put(key(20), value(20)).unwrap();
        let db = open(&disk.crash());
        let [a, b] = ["a", "b"].map(|name| db.existing_keyspace(name).unwrap());
        let found = |i| [&a, &b][i as usize % 2].get(key(i)).unwrap().is_some();
        assert!(prefix_length(found, 21) >= 20);
    }
}

#[test]
fn recovery_replays_what_is_not_flushed_and_keeps_few_entries_in_memory() {
    let disk = SimStorage::new(10);
    {
        let db = open(&disk);
        let keyspace = plain(&db);
        for i in 0..200 {
            keyspace.put(key(i), value(i)).unwrap();
        }
        keyspace.flush().unwrap();
        for i in 200..230 {
            keyspace.put(key(i), value(i)).unwrap();
        }
        db.close().unwrap();
    }
    let operations = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(u64::MAX));
    let heard = operations.clone();
    let db = builder(&disk)
        .listener(move |event| {
            if let hedgerow::Event::Recovered { operations, .. } = event {
                heard.store(*operations, std::sync::atomic::Ordering::Relaxed);
            }
        })
        .open()
        .unwrap();
    assert_eq!(operations.load(std::sync::atomic::Ordering::Relaxed), 30);
    assert_eq!(db.stats().keyspaces[0].memtable_entries, 30);
    assert_eq!(contents(&plain(&db)).len(), 230);
    // They are in the new log, durably: however often it is opened, and then in tables.
    drop(db);
    let disk = disk.crash();
    drop(open(&disk));
    let disk = disk.crash();
    let db = open(&disk);
    assert_eq!(contents(&plain(&db)).len(), 230);
    db.flush().unwrap();
    drop(db);
    let db = open(&disk.crash());
    assert_eq!(db.stats().keyspaces[0].memtable_entries, 0);
    assert_eq!(contents(&plain(&db)).len(), 230);
}

/// Ten keyspaces with a few values each, of which the log alone has some.
fn few_of_many(disk: &SimStorage, compresses: bool) -> Vec<String> {
    let names: Vec<String> = (0..10).map(|i| format!("k{i}")).collect();
    let builder = builder(disk).log_segment_bytes(4 << 10);
    let db = builder.compress_log(compresses).open().unwrap();
    let create = |name: &String| db.keyspace(name, Layout::sorted()).unwrap();
    let keyspaces: Vec<_> = names.iter().map(create).collect();
    for i in 0..20 {
        // The second operation of a half of the batches is flushed soon.
        let mut batch = db.batch();
        for keyspace in [&keyspaces[i % 9], &keyspaces[9]] {
            batch.put(keyspace, key(i as u64), [i as u8; 900]).unwrap();
        }
        batch.commit(Durability::Buffered).unwrap();
        if i == 10 {
            keyspaces[9].flush().unwrap();
        }
    }
    db.sync().unwrap();
    names
}

fn check_few_of_many(db: &Db, names: &[String]) {
    for i in 0..20 {
        for name in [&names[i % 9], &names[9]] {
            let keyspace = db.existing_keyspace(name).unwrap();
            let found = keyspace.get(key(i as u64)).unwrap();
            assert_eq!(found.as_deref(), Some(&[i as u8; 900][..]), "{name} {i}");
        }
    }
}

#[test]
fn copies_in_the_new_log_roll_over_segments_compressed_or_not() {
    for compresses in [false, true] {
        let disk = SimStorage::new(15);
        let names = few_of_many(&disk, compresses);
        let mut disk = disk.crash();
        for again in [compresses, !compresses, compresses] {
            let builder = builder(&disk).log_segment_bytes(4 << 10);
            let db = builder.compress_log(again).open().unwrap();
            assert_eq!(
                db.verify().unwrap().tables,
                1,
                "only what was flushed before"
            );
            check_few_of_many(&db, &names);
            disk = disk.crash();
        }
        // A slot that is made afterwards begins behind the copies.
        let db = open(&disk);
        db.create_slot("after", 1 << 20).unwrap();
        let keyspace = db.existing_keyspace("k0").unwrap();
        keyspace.put("new", "1").unwrap();
        db.sync().unwrap();
        let db = open(&disk.crash());
        check_few_of_many(&db, &names);
    }
}

#[test]
fn a_repair_without_the_manifest_finds_what_recovery_has_copied() {
    let disk = SimStorage::new(16);
    let names = few_of_many(&disk, false);
    let disk = disk.crash();
    drop(builder(&disk).log_segment_bytes(4 << 10).open().unwrap());
    let disk = disk.kill();
    disk.remove(std::path::Path::new(DIR).join("MANIFEST").as_path())
        .unwrap();
    let report = hedgerow::repair_with(builder(&disk)).unwrap();
    assert!(report.missing.is_empty(), "{report:?}");
    let db = open(&disk);
    let found: u64 = db
        .stats()
        .keyspaces
        .iter()
        .map(hedgerow::KeyspaceStats::entries)
        .sum();
    assert_eq!(found, 40, "{names:?}");
}

#[test]
fn recovery_of_a_log_much_longer_than_memtables_stays_within_the_budget() {
    let disk = SimStorage::new(11);
    {
        // A log that may get long, written with memory for it.
        let db = builder(&disk)
            .memory_budget(64 << 20)
            .log_segment_bytes(256 << 10)
            .log_bytes_max(64 << 20)
            .open()
            .unwrap();
        let keyspace = db.keyspace("plain", Layout::sorted()).unwrap();
        for i in 0..20_000 {
            keyspace.put(key(i), [i as u8; 150]).unwrap();
        }
        assert_eq!(db.stats().flushes, 0);
        db.close().unwrap();
    }
    let most = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let db = open(&disk);
    let stats = db.stats();
    most.fetch_max(stats.memory.memtables, std::sync::atomic::Ordering::Relaxed);
    assert!(stats.memory.total() <= 1 << 20, "{:?}", stats.memory);
    // One table per memtable full, not one for everything.
    let level0: u64 = stats.keyspaces[0]
        .levels
        .iter()
        .map(|l| l.tables as u64)
        .sum();
    assert!(level0 >= 3_400_000 / (200 << 10), "{level0} tables");
    assert_eq!(contents(&plain(&db)).len(), 20_000);
}

#[test]
fn crash_during_recovery_loses_nothing() {
    let disk = SimStorage::new(12);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let design = Design {
        memtable_bytes: Some(64 << 10),
        ..small()
    };
    let keyspace = db
        .keyspace_with("plain", Layout::sorted().hash(3), design)
        .unwrap();
    for i in 0..300 {
        keyspace.put(key(i % 150), value(i)).unwrap();
    }
    db.sync().unwrap();
    let expected = contents(&keyspace);
    let image = disk.crash();
    let again = image.kill();
    drop(open(&again));
    let mutations = again.counters().mutations;
    for after in 0..mutations {
        let again = image.kill();
        again.crash_after(after);
        let _ = builder(&again).open();
        // And once more in the recovery of the crashed recovery.
        let twice = again.crash();
        twice.crash_after(mutations.saturating_sub(after));
        let _ = builder(&twice).open();
        let db = open(&twice.crash());
        let keyspace = db.existing_keyspace("plain").unwrap();
        assert_eq!(contents(&keyspace), expected, "power lost after {after}");
    }
}

#[test]
fn torn_tail_is_the_end_of_the_log() {
    let disk = SimStorage::new(13);
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..10 {
        put_synced(&keyspace, i);
    }
    for i in 10..14 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    let log = newest_segment(&disk);
    let clean = disk.contents(&log).unwrap();
    let end = used_bytes(&clean);
    // Nothing behind the durable part was acknowledged as synced: any of it may be torn.
    for cut in (end - 100)..end {
        let image = disk.kill();
        let mut bytes = clean.clone();
        bytes[cut..].fill(0);
        image.set_contents(&log, &bytes).unwrap();
        let db = open(&image);
        let keyspace = plain(&db);
        let found = |i| keyspace.get(key(i)).unwrap().is_some();
        assert!(prefix_length(found, 14) >= 10);
    }
}

#[test]
fn damage_below_the_known_durable_position_is_corruption_with_file_and_offset() {
    let disk = SimStorage::new(14);
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..10 {
        put_synced(&keyspace, i);
    }
    let log = newest_segment(&disk);
    let end = used_bytes(&disk.contents(&log).unwrap());
    // Each record says that what came before it is durable, so all but the last are protected.
    let last = last_record(&disk.contents(&log).unwrap());
    assert!(last < end);
    for byte in 64..last {
        let image = disk.kill();
        image
            .flip_bit(&log, byte as u64 * 8 + byte as u64 % 8)
            .unwrap();
        let error = builder(&image).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        let offset = error.offset().unwrap() as usize;
        assert!(offset <= byte && byte < offset + 200, "{error} for {byte}");
        assert!(error.to_string().contains(".log"), "{error}");
    }
}

#[test]
fn damage_in_a_segment_whose_successor_was_begun_later_is_corruption() {
    // The end of a segment is known durable by what was written into the next one.
    let disk = SimStorage::new(15);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let keyspace = plain(&db);
    for i in 0..120 {
        put_synced(&keyspace, i);
    }
    let segments = files(&disk, "log");
    assert!(segments.len() >= 3, "{segments:?}");
    let log = format!("{DIR}/log/{}", segments[0]);
    for byte in (64..used_bytes(&disk.contents(&log).unwrap())).step_by(7) {
        let image = disk.kill();
        image.flip_bit(&log, byte as u64 * 8).unwrap();
        assert_eq!(
            kind(builder(&image).open()),
            ErrorKind::Corruption,
            "byte {byte}"
        );
    }
}

/// A power loss takes the records of the next segment. Its header is left, which was synced when
/// the segment was prepared.
#[test]
fn damage_in_a_segment_is_corruption_if_only_a_header_says_that_it_was_durable() {
    let mut cases = 0;
    for seed in 0..20 {
        let disk = SimStorage::new(seed);
        let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
        let keyspace = plain(&db);
        for i in 0..40 {
            put_synced(&keyspace, i);
        }
        let full = newest_segment(&disk);
        // It does not fit, and begins the next segment.
        keyspace.put(b"large", [b'x'; 3500]).unwrap();
        let next = newest_segment(&disk);
        assert!(full < next);
        let last = last_record(&disk.contents(&full).unwrap()[..4000]) as u64;
        let image = disk.crash();
        let reader = builder(&image).read_only(true).open().unwrap();
        if plain(&reader).get(b"large").unwrap().is_some() {
            continue;
        }
        image.flip_bit(&full, last * 8 + 300).unwrap();
        assert_eq!(
            kind(builder(&image).open()),
            ErrorKind::Corruption,
            "seed {seed}"
        );
        cases += 1;
    }
    assert!(cases > 2, "{cases}");
}

#[test]
fn damage_anywhere_in_the_log_after_a_clean_close_is_corruption() {
    let disk = SimStorage::new(16);
    let db = open(&disk);
    let keyspace = plain(&db);
    for i in 0..20 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    db.close().unwrap();
    let log = newest_segment(&disk);
    for byte in 0..used_bytes(&disk.contents(&log).unwrap()) {
        let image = disk.kill();
        image.flip_bit(&log, byte as u64 * 8 + 3).unwrap();
        assert_eq!(
            kind(builder(&image).open()),
            ErrorKind::Corruption,
            "byte {byte}"
        );
        let read_only = builder(&image).read_only(true).open();
        assert_eq!(kind(read_only), ErrorKind::Corruption, "byte {byte}");
    }
    // A segment that is gone, or cut, is damage, too.
    let image = disk.kill();
    image.set_contents(&log, b"").unwrap();
    assert_eq!(kind(builder(&image).open()), ErrorKind::Corruption);
}

#[test]
fn record_larger_than_a_segment_survives() {
    let disk = SimStorage::new(17);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let keyspace = plain(&db);
    for i in 0..12u64 {
        keyspace.put(key(i), vec![i as u8; 1 << (i + 6)]).unwrap();
    }
    let expected = contents(&keyspace);
    assert_eq!(contents(&plain(&open(&disk.kill()))), expected);
    db.sync().unwrap();
    assert_eq!(contents(&plain(&open(&disk.crash()))), expected);
}

/// The segment that is written last.
fn newest_segment(disk: &SimStorage) -> String {
    let mut segments: Vec<_> = files(disk, "log")
        .into_iter()
        .map(|name| format!("{DIR}/log/{name}"))
        .collect();
    segments.retain(|path| used_bytes(&disk.contents(path).unwrap()) > 64);
    segments.pop().unwrap()
}

/// Up to the last byte that is not zero.
fn used_bytes(segment: &[u8]) -> usize {
    segment
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |at| at + 1)
}

/// The offset of the last record of a segment. docs/format says that its header has 32 bytes, with
/// the payload's size at offset 4.
fn last_record(segment: &[u8]) -> usize {
    let (mut at, mut last) = (64, 64);
    while let Some(header) = segment.get(at..at + 32) {
        let payload = u32::from_le_bytes(header[4..8].try_into().unwrap()) as usize;
        if payload == 0 {
            break;
        }
        last = at;
        at += (32 + payload).next_multiple_of(8);
    }
    last
}

/// Places in a segment are 32 bits: a larger one would wrap, and lose what is written behind that.
#[test]
fn a_log_segment_that_is_too_large_is_refused() {
    for bytes in [(4 << 30) - (4 << 10) + 1, 5 << 30, u64::MAX] {
        let disk = SimStorage::new(1);
        let error = builder(&disk).log_segment_bytes(bytes).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(
            text.contains("`log_segment_bytes` of 4096 to 4294963200"),
            "{text}"
        );
        assert!(text.contains(&bytes.to_string()), "{text}");
    }
}

/// A database with the default budget on this disk.
fn unbounded(disk: &SimStorage) -> Db {
    let builder = Db::builder(DIR).environment(Environment::simulated(disk, 7));
    builder.open().unwrap()
}

#[test]
fn the_log_of_a_small_database_is_small_and_grows_with_use() {
    let disk = SimStorage::new(1);
    for opened in 0..3 {
        let db = unbounded(&disk);
        put_synced(&plain(&db), opened);
        assert!(disk.used_bytes() < 1 << 20, "{} bytes", disk.used_bytes());
        db.close().unwrap();
    }
    let db = unbounded(&disk);
    let keyspace = plain(&db);
    let prepared = disk.counters().mutations;
    let largest = || {
        let log = files(&disk, "log").into_iter();
        let sizes = log.map(|name| disk.contents(format!("{DIR}/log/{name}")).unwrap().len());
        sizes.max().unwrap()
    };
    for i in 0..3000 {
        keyspace.put(key(i), [7; 10_000]).unwrap();
        assert!(i > 50 || largest() <= 2 << 20, "{} bytes", largest());
    }
    assert!(largest() >= 8 << 20, "{} bytes", largest());
    // Each segment takes a fixed number of operations on the disk, a put none of its own but that
    // of its record.
    let operations = disk.counters().mutations - prepared;
    assert!(operations < 3000 * 4, "{operations} operations");
}

#[test]
fn a_nearly_full_disk_is_filled_by_small_segments() {
    let disk = SimStorage::new(1);
    disk.set_capacity_bytes(Some(8 << 20));
    let db = unbounded(&disk);
    let keyspace = plain(&db);
    let count = (0..).find(|&i| match keyspace.put(key(i), [7; 10_000]) {
        Ok(()) => false,
        Err(error) => error.kind() == ErrorKind::NoSpace,
    });
    assert!(count > Some(500), "{count:?} puts of 10 kB on 8 MiB");
    disk.set_capacity_bytes(None);
    keyspace.put("k", "v").unwrap();
    assert_eq!(contents(&keyspace).len() as u64, count.unwrap() + 1);
}

#[test]
fn a_compressed_log_is_shorter_and_loses_nothing() {
    let run = |compress: bool| {
        let disk = SimStorage::new(13);
        let with = |disk: &SimStorage, compress| {
            let builder = builder(disk).log_segment_bytes(4 << 10);
            builder.compress_log(compress).open().unwrap()
        };
        let db = with(&disk, compress);
        let keyspace = plain(&db);
        let begin = db.create_slot("all", 64 << 20).unwrap();
        for i in 0..300 {
            keyspace.put(key(i % 150), [i as u8; 200]).unwrap();
            let mut batch = db.batch();
            batch.put(&keyspace, key(i + 1000), value(i)).unwrap();
            batch.delete(&keyspace, key(i % 7)).unwrap();
            batch.commit(Durability::Buffered).unwrap();
        }
        let logged = db.stats().log_bytes;
        db.sync().unwrap();
        let expected = contents(&keyspace);
        let fed = db.changes_since(begin).unwrap().map(Result::unwrap).count();
        for disk in [disk.kill(), disk.crash()] {
            // The option is only for new records: recovery reads both kinds.
            let db = with(&disk, !compress);
            assert_eq!(contents(&plain(&db)), expected);
            plain(&db).put(b"later", [1; 200]).unwrap();
            drop(db);
            let db = with(&disk.kill(), compress);
            assert_eq!(contents(&plain(&db)).len(), expected.len() + 1);
        }
        (logged, fed)
    };
    let (raw, compressed) = (run(false), run(true));
    assert_eq!(compressed.1, raw.1, "changes");
    assert!(compressed.0 < raw.0 * 6 / 10, "{compressed:?} and {raw:?}");
}
