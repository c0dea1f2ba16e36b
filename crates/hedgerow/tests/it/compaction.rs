//! Merging: to the targets, without being asked, within limits; and when files go.

use hedgerow::io::sim::{SimStorage, SplitMix64};
use hedgerow::io::{Background, Clock, Environment, OsClock, OsSpawn};
use hedgerow::{Compression, Db, Design, ErrorKind, Event, Keyspace, Layout};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::faults::check_no_leftovers;
use crate::support::{
    DIR, builder, contents, files, key, kind, open, plain, plain_small, small, value,
};
use crate::watched::{Watched, Watcher};

fn filled(db: &Db, count: u64) -> Keyspace {
    let keyspace = plain_small(db);
    for i in 0..count {
        keyspace.put(key(i * 7919 % count), value(i)).unwrap();
    }
    keyspace
}

#[test]
fn merging_goes_on_when_the_database_is_idle() {
    let disk = SimStorage::new(1);
    let environment = Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(OsClock::new()),
        spawn: Arc::new(OsSpawn),
        background: Background::Threads(2),
    };
    let db = builder(&disk).environment(environment).open().unwrap();
    let keyspace = filled(&db, 6000);
    // No call from here on but to look.
    let clock = OsClock::new();
    let began = clock.now();
    loop {
        let stats = keyspace.stats();
        if stats.debt_bytes == 0 && stats.memtable_entries < 200 {
            break;
        }
        assert!(clock.now() - began < Duration::from_secs(30), "{stats:?}");
        clock.sleep(Duration::from_millis(5));
    }
    let stats = keyspace.stats();
    for level in &stats.levels {
        let target = level.target_bytes.unwrap_or(u64::MAX);
        assert!(level.level == 0 || level.bytes <= target, "{level:?}");
    }
    assert_eq!(contents(&keyspace).len(), 6000);
}

/// 18 MiB below a run of level 0: 1,024 pages of it that seeks have read are 16 MiB of a merge.
#[test]
fn seeks_pay_for_a_merge_of_a_level_0_that_is_not_due() {
    let disk = SimStorage::new(3);
    let db = builder(&disk).memory_budget(4 << 20).open().unwrap();
    let design = Design {
        compression: Compression::None,
        table_bytes: Some(2 << 20),
        memtable_bytes: Some(1 << 20),
        ..Design::default()
    };
    let keyspace = db.keyspace_with("plain", Layout::sorted(), design).unwrap();
    (0..18 << 8).for_each(|i| keyspace.put(key(i), [i as u8; 4000]).unwrap());
    keyspace.compact::<&[u8]>(..).unwrap();
    let runs = || keyspace.stats().levels[0].runs;
    let run = || {
        for i in [0, 2000, 4600] {
            keyspace.put(key(i), b"again").unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        assert_eq!(runs(), 1);
    };
    let seeks = |count: u64| {
        let mut cursor = keyspace.cursor().unwrap();
        for i in 0..count {
            assert!(cursor.seek(&key(i)).unwrap());
        }
        drop(cursor);
        keyspace.wait_until_merged().unwrap();
    };
    run();
    // Seen first, then paid in part.
    seeks(2 << 10);
    assert_eq!(runs(), 1);
    seeks(1 << 10);
    assert_eq!(runs(), 0);
    assert_eq!(
        keyspace.get(key(2000)).unwrap().as_deref(),
        Some(&b"again"[..])
    );

    // Gets pay nothing: the cache has no room for the tree.
    run();
    for i in 0..10_000 {
        keyspace.get(key(i % 4000)).unwrap();
    }
    keyspace.wait_until_merged().unwrap();
    assert_eq!(runs(), 1);

    // A flush begins the count again.
    seeks(2 << 10);
    keyspace.put(key(1), b"again").unwrap();
    keyspace.flush().unwrap();
    seeks(1 << 10);
    assert_eq!(runs(), 2);
    // Two pages for each seek.
    seeks(1 << 10);
    assert_eq!(runs(), 0);
}

/// 1 MiB below a run of level 0: a merge that 8,192 gets pay.
#[test]
fn gets_pay_for_a_merge_if_the_cache_holds_the_tree() {
    let disk = SimStorage::new(4);
    let db = builder(&disk).memory_budget(64 << 20).open().unwrap();
    let design = Design {
        compression: Compression::None,
        ..Design::default()
    };
    let keyspace = db.keyspace_with("plain", Layout::sorted(), design).unwrap();
    (0..1 << 8).for_each(|i| keyspace.put(key(i), [i as u8; 4000]).unwrap());
    keyspace.compact::<&[u8]>(..).unwrap();
    for i in [0, 100, 200] {
        keyspace.put(key(i), b"again").unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let runs = || keyspace.stats().levels[0].runs;
    let gets = |count: u64| {
        for i in 0..count {
            assert!(keyspace.get(key(i % 256)).unwrap().is_some());
        }
        keyspace.wait_until_merged().unwrap();
    };
    gets(8 << 10);
    assert_eq!(runs(), 1, "the first look begins the count");
    gets(2 << 10);
    assert_eq!(runs(), 0);
    assert_eq!(
        keyspace.get(key(100)).unwrap().as_deref(),
        Some(&b"again"[..])
    );
}

/// A disk that removes files late: 20 ms after it was told to.
struct LateRemovals(Mutex<mpsc::Receiver<()>>);

impl Watcher for LateRemovals {
    fn before(&self, call: &str, _: &Path) {
        if call == "remove" {
            let never = self.0.lock().unwrap();
            assert!(never.recv_timeout(Duration::from_millis(20)).is_err());
        }
    }
}

/// The thread of the last merge removes its inputs after the merge has ended.
#[test]
fn a_merged_tree_has_no_other_files() {
    let (_sender, never) = mpsc::channel();
    let disk = Arc::new(Watched {
        disk: SimStorage::new(1),
        watcher: Arc::new(LateRemovals(Mutex::new(never))),
    });
    let environment = Environment {
        storage: disk.clone(),
        clock: Arc::new(OsClock::new()),
        spawn: Arc::new(OsSpawn),
        background: Background::Threads(2),
    };
    let db = Db::builder(DIR).environment(environment).open().unwrap();
    let keyspace = db
        .keyspace_with("plain", Layout::sorted(), small())
        .unwrap();
    for round in 0..4 {
        (0..300).for_each(|i| keyspace.put(key(i), value(i + round)).unwrap());
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        let stats = keyspace.stats();
        let tables = stats.levels.iter().map(|level| level.tables).sum();
        let files = files(&disk.disk, "tables");
        assert_eq!(files.len(), tables, "round {round}: {files:?}");
    }
}

#[test]
fn deleted_data_is_gone_after_compact_and_its_space_is_free() {
    let disk = SimStorage::new(2);
    let db = open(&disk);
    let keyspace = filled(&db, 2000);
    keyspace.compact::<&[u8]>(..).unwrap();
    for i in 0..2000 {
        keyspace.delete(key(i)).unwrap();
    }
    keyspace.compact::<&[u8]>(..).unwrap();
    assert_eq!(keyspace.stats().table_bytes(), 0);
    assert_eq!(keyspace.stats().entries(), 0);
    assert!(files(&disk, "tables").is_empty());
    assert!(contents(&keyspace).is_empty());
}

#[test]
fn compact_reports_progress_and_can_be_cancelled() {
    let disk = SimStorage::new(3);
    let db = open(&disk);
    let keyspace = filled(&db, 4000);
    let expected = contents(&keyspace);
    for steps in 0..2i32 {
        let mut left = steps;
        let ended = keyspace.compact_with::<&[u8]>(.., |progress| {
            assert!(left < steps || progress.done_bytes == 0);
            left -= 1;
            left >= 0
        });
        assert_eq!(kind(ended), ErrorKind::Cancelled);
        assert_eq!(contents(&keyspace), expected);
    }
    for i in 0..4000 {
        keyspace.put(key(i), value(i * 7919 % 4000)).unwrap();
    }
    let expected = contents(&keyspace);
    let mut before = 0;
    keyspace
        .compact_with::<&[u8]>(.., |progress| {
            assert!(progress.done_bytes >= before);
            before = progress.done_bytes;
            true
        })
        .unwrap();
    assert!(before > 0);
    let deep = keyspace
        .stats()
        .levels
        .iter()
        .filter(|l| l.tables > 0)
        .count();
    assert_eq!(deep, 1);
    assert_eq!(contents(&keyspace), expected);
    check_no_leftovers(&disk, &db);
}

#[test]
fn files_go_only_when_nobody_reads_them() {
    let disk = SimStorage::new(4);
    let db = open(&disk);
    let keyspace = filled(&db, 1000);
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let expected = contents(&keyspace);
    let old = files(&disk, "tables");
    let scan = keyspace.scan::<&[u8]>(..).unwrap();
    let mut cursor = keyspace.cursor().unwrap();
    for i in 0..1000 {
        keyspace.delete(key(i)).unwrap();
    }
    keyspace.compact::<&[u8]>(..).unwrap();
    keyspace.clear().unwrap();
    let now = files(&disk, "tables");
    assert!(old.iter().all(|file| now.contains(file)));
    let seen = scan.map(|item| item.unwrap().0.to_vec());
    assert!(seen.eq(expected.keys().cloned()));
    assert!(cursor.seek_last().unwrap());
    drop(cursor);
    // With the last reader they go at the next occasion.
    keyspace.put(b"k", b"v").unwrap();
    keyspace.flush().unwrap();
    keyspace.compact::<&[u8]>(..).unwrap();
    check_no_leftovers(&disk, &db);
}

#[test]
fn files_go_only_when_the_edit_is_durable() {
    // At any loss of power during a merge, the tables of one of the two manifests are all there.
    let disk = SimStorage::new(5);
    let db = open(&disk);
    let keyspace = filled(&db, 600);
    keyspace.flush().unwrap();
    let expected = contents(&keyspace);
    db.close().unwrap();
    let compact = |image: &SimStorage| {
        let before = image.counters().mutations;
        let _ = builder(image)
            .open()
            .map(|db| plain(&db).compact::<&[u8]>(..));
        image.counters().mutations - before
    };
    let mutations = compact(&disk.kill());
    for after in (0..mutations).step_by(3) {
        let image = disk.kill();
        image.crash_after(after);
        compact(&image);
        let image = image.crash();
        let db = open(&image);
        assert_eq!(contents(&plain(&db)), expected, "power lost after {after}");
        db.verify().unwrap();
        check_no_leftovers(&image, &db);
    }
}

#[test]
fn rate_limit_of_background_writes_is_kept_by_the_clock() {
    const RATE: u64 = 200_000;
    let disk = SimStorage::new(6);
    let environment = Environment::simulated(&disk, 6);
    let clock = environment.clock.clone();
    let db = builder(&disk)
        .environment(environment)
        .io_bytes_per_second(RATE)
        .open()
        .unwrap();
    // Tables large enough to be paced while they are written.
    let design = Design {
        table_bytes: Some(1 << 20),
        memtable_bytes: Some(80 << 10),
        compression: Compression::None,
        ..Default::default()
    };
    let keyspace = db.keyspace_with("plain", Layout::sorted(), design).unwrap();
    for i in 0..10_000 {
        keyspace.put(key(i * 7919 % 10_000), [1; 200]).unwrap();
    }
    keyspace.flush().unwrap();
    let (began, before) = (clock.now(), db.stats());
    keyspace.compact::<&[u8]>(..).unwrap();
    let written = db.stats().merge_write_bytes - before.merge_write_bytes;
    let took = (clock.now() - began).as_secs_f64();
    assert!(written > 1_000_000, "{written}");
    let rate = written as f64 / took;
    assert!(rate < 1.3 * RATE as f64, "{rate} bytes per second");
    assert!(rate > 0.5 * RATE as f64, "{rate} bytes per second");
}

#[test]
fn design_changes_at_open_and_live_and_keeps_the_data() {
    let disk = SimStorage::new(7);
    let db = open(&disk);
    let keyspace = filled(&db, 1500);
    let expected = contents(&keyspace);
    let other = Design {
        policy: "leveling:3,whole-level".parse().unwrap(),
        filter: hedgerow::FilterSpec::None,
        block_bytes: 1024,
        ..small()
    };
    let keyspace = db
        .keyspace_with("plain", Layout::sorted(), other.clone())
        .unwrap();
    assert_eq!(keyspace.design(), other);
    assert_eq!(contents(&keyspace), expected);
    keyspace.compact::<&[u8]>(..).unwrap();
    assert_eq!(contents(&keyspace), expected);
    let db = open(&disk.kill());
    assert_eq!(plain(&db).design(), other);
    assert_eq!(contents(&plain(&db)), expected);
}

#[test]
fn a_listener_that_panics_keeps_no_tree_busy() {
    let disk = SimStorage::new(31);
    let (panics, reshaped) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicBool::new(false)),
    );
    let (armed, told) = (panics.clone(), reshaped.clone());
    let listener = move |event: &Event| match event {
        Event::Merged { .. } if armed.swap(false, Ordering::Relaxed) => {
            panic!("a bug of the listener's")
        }
        Event::Reshaped { .. } => told.store(true, Ordering::Relaxed),
        _ => {}
    };
    let db = builder(&disk).listener(listener).open().unwrap();
    let keyspace = filled(&db, 500);
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    keyspace.put(key(250), "newest").unwrap();
    panics.store(true, Ordering::Relaxed);
    let design = Design {
        policy: "leveling:4".parse().unwrap(),
        ..small()
    };
    // The events of the first call are delivered by the end of the second.
    let compact_and_retune = || {
        keyspace.compact::<&[u8]>(..)?;
        keyspace.retune(design.clone())
    };
    std::panic::catch_unwind(AssertUnwindSafe(compact_and_retune)).unwrap_err();
    // The event of its end is reported when no merge runs in the tree.
    keyspace.retune(design).unwrap();
    let mut steps = 0;
    let compacted = keyspace.compact_with::<&[u8]>(.., |_| {
        steps += 1;
        steps < 1000
    });
    compacted.unwrap();
    db.verify().unwrap();
    db.close().unwrap();
    assert!(reshaped.load(Ordering::Relaxed));
}

/// The bytes that merges write for each byte that flushes have written, with entries of 1 KiB.
/// In each entry `zeros` bytes are zeros.
fn merged_per_flushed(zeros: usize) -> f64 {
    let disk = SimStorage::new(9);
    let db = builder(&disk).memory_budget(8 << 20).open().unwrap();
    let design = Design {
        policy: "leveling:4".parse().unwrap(),
        memtable_bytes: Some(64 << 10),
        table_bytes: Some(64 << 10),
        ..Design::default()
    };
    let keyspace = db.keyspace_with("k", Layout::sorted(), design).unwrap();
    let mut random = SplitMix64::new(1);
    for i in 0..20_000 {
        let mut value = vec![0; zeros];
        value.extend((zeros..1024).map(|_| random.next() as u8));
        keyspace.put(key(i * 7919 % 20_000), value).unwrap();
    }
    keyspace.wait_until_merged().unwrap();
    let stats = db.stats();
    stats.merge_write_bytes as f64 / stats.flush_bytes as f64
}

/// A level 0 of runs that have shrunk was merged into a first level of the size of memtables, each
/// time into the whole of it.
#[test]
fn values_that_compress_are_not_merged_more_often() {
    let (plain, compressed) = (merged_per_flushed(0), merged_per_flushed(1000));
    println!("{plain:.1} writes of each byte, {compressed:.1} of those that compress");
    assert!(
        compressed <= 1.5 * plain,
        "{compressed:.1} beside {plain:.1}"
    );
}
