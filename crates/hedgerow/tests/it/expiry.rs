//! Expiry: who sees an expired value, what keeps its time, and what it costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Clock, Environment};
use hedgerow::{
    Builder, Db, Durability, ErrorKind, Expiry, Follower, Keyspace, Layout, MemoryAnswer,
    PolicySpec,
};

use crate::support::{builder, contents, key, kind, small};

/// A clock of hours that a test sets: the monotonic one, and that of the system.
#[derive(Debug, Default)]
pub(crate) struct Hours {
    mono: AtomicU64,
    wall: AtomicU64,
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

impl Hours {
    pub(crate) fn new() -> Arc<Hours> {
        let clock = Hours::default();
        clock.wall.store(500_000, Ordering::Relaxed);
        Arc::new(clock)
    }

    pub(crate) fn pass(&self, hours: u64) {
        self.mono.fetch_add(hours, Ordering::Relaxed);
        self.wall.fetch_add(hours, Ordering::Relaxed);
    }
}

impl Clock for Hours {
    fn now(&self) -> Duration {
        HOUR * self.mono.load(Ordering::Relaxed) as u32
    }

    fn unix_millis(&self) -> u64 {
        self.wall.load(Ordering::Relaxed) * 3_600_000
    }

    fn sleep(&self, _duration: Duration) {}
}

pub(crate) fn timed(disk: &SimStorage, clock: &Arc<Hours>) -> Builder {
    builder(disk).environment(Environment {
        clock: clock.clone(),
        ..Environment::simulated(disk, 7)
    })
}

fn hours(hours: u32) -> Expiry {
    Expiry::In(HOUR * hours)
}

fn sessions(db: &Db) -> Keyspace {
    db.keyspace_with("sessions", Layout::sorted(), small())
        .unwrap()
}

#[test]
fn an_expired_value_is_absent_for_every_read_wherever_it_is() {
    for state in 0..4 {
        let (disk, clock) = (SimStorage::new(1), Hours::new());
        let db = timed(&disk, &clock).open().unwrap();
        let sessions = sessions(&db);
        sessions.put("a", "old").unwrap();
        sessions.put("c", "stays").unwrap();
        // One of them is out of line.
        for (name, bytes) in [("a", 10), ("b", 5000)] {
            sessions
                .put_expiring(name, "x".repeat(bytes), hours(2))
                .unwrap();
        }
        match state {
            0 => {}
            1 => sessions.flush().unwrap(),
            2 => sessions.compact::<&str>(..).unwrap(),
            _ => {
                sessions.flush().unwrap();
                sessions.compact::<&str>(.."b").unwrap();
            }
        }
        let before = db.snapshot().unwrap();
        clock.pass(1);
        assert_eq!(contents(&sessions).len(), 3);
        assert_eq!(sessions.get("b").unwrap().unwrap().len(), 5000);
        clock.pass(1);
        for name in ["a", "b"] {
            assert_eq!(sessions.get(name).unwrap(), None, "{state}");
            assert!(!sessions.contains_key(name).unwrap());
            assert_eq!(sessions.get_if_cached(name).unwrap().value(), None);
            assert_eq!(sessions.expiry(name).unwrap(), None);
            assert_eq!(sessions.get_async(name).wait().unwrap(), None);
        }
        assert_eq!(
            sessions.multi_get(&["a", "b", "c"]).unwrap()[..2],
            [None, None]
        );
        assert_eq!(contents(&sessions).into_keys().collect::<Vec<_>>(), [b"c"]);
        assert_eq!(sessions.first().unwrap().unwrap().0, "c");
        // The snapshot sees by its own time, whatever merges do.
        sessions.compact::<&str>(..).unwrap();
        assert_eq!(before.get(&sessions, "a").unwrap().unwrap(), "x".repeat(10));
        assert_eq!(
            before.multi_get(&sessions, &["b"]).unwrap()[0]
                .as_ref()
                .unwrap()
                .len(),
            5000
        );
        assert_eq!(before.scan_all(&sessions).unwrap().rev().count(), 3);
        drop(before);
        sessions.compact::<&str>(..).unwrap();
        assert_eq!(
            sessions
                .stats()
                .levels
                .iter()
                .map(|it| it.entries)
                .sum::<u64>(),
            1
        );
        assert_eq!(sessions.pop_first().unwrap().unwrap().0, "c");
        assert_eq!(sessions.pop_first().unwrap(), None);
    }
}

#[test]
fn a_follower_does_not_see_again_what_has_expired() {
    let (disk, clock) = (SimStorage::new(1), Hours::new());
    let db = timed(&disk, &clock).open().unwrap();
    let sessions = sessions(&db);
    sessions.put_expiring("a", "1", hours(2)).unwrap();
    let mut follower = timed(&disk, &clock).open_follower().unwrap();
    let sees = |follower: &Follower| {
        let sessions = follower.db().existing_keyspace("sessions").unwrap();
        sessions.contains_key("a").unwrap()
    };
    assert!(sees(&follower));
    clock.pass(2);
    assert!(!sees(&follower));
    // The clock of the system is set back.
    clock.wall.fetch_sub(2, Ordering::Relaxed);
    sessions.put("b", "1").unwrap();
    assert!(follower.catch_up().unwrap());
    assert!(!sees(&follower));
    assert!(!follower.catch_up().unwrap());
}

#[test]
fn the_expiry_of_a_value_is_read_changed_and_kept() {
    let (disk, clock) = (SimStorage::new(1), Hours::new());
    let db = timed(&disk, &clock).open().unwrap();
    let sessions = sessions(&db);
    let at = SystemTime::UNIX_EPOCH + HOUR * 500_003;
    sessions.put_expiring("a", "1", Expiry::At(at)).unwrap();
    sessions.put("b", "1").unwrap();
    assert_eq!(sessions.expiry("a").unwrap(), Some(Expiry::At(at)));
    assert_eq!(sessions.expiry("b").unwrap(), Some(Expiry::Never));
    assert_eq!(sessions.expiry("c").unwrap(), None);
    // An update keeps it, and writes nothing if nothing changes.
    sessions
        .update("a", |old| Some([old.unwrap(), b"2"].concat()))
        .unwrap();
    let puts = sessions.stats().operations.puts;
    sessions.update("a", |old| old.map(<[u8]>::to_vec)).unwrap();
    assert!(!sessions.set_expiry("c", hours(1)).unwrap());
    assert_eq!(sessions.stats().operations.puts, puts);
    assert_eq!(sessions.get("a").unwrap().unwrap(), "12");
    assert_eq!(sessions.expiry("a").unwrap(), Some(Expiry::At(at)));
    let mut cursor = sessions.cursor().unwrap();
    assert!(cursor.seek_first().unwrap());
    assert_eq!(
        (cursor.key(), cursor.expiry()),
        (Some(&b"a"[..]), Some(Expiry::At(at)))
    );
    assert_eq!(cursor.value().unwrap(), Some(&b"12"[..]));
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.expiry(), Some(Expiry::Never));
    // Told so, it changes.
    assert!(sessions.set_expiry("a", Expiry::Never).unwrap());
    assert!(sessions.set_expiry("b", hours(1)).unwrap());
    sessions
        .update_expiring(
            "c",
            |old| old.is_none().then(|| (b"new".to_vec(), hours(1))),
            Durability::Buffered,
        )
        .unwrap();
    clock.pass(1);
    assert_eq!(
        sessions
            .multi_get(&["a", "b", "c"])
            .unwrap()
            .iter()
            .flatten()
            .count(),
        1
    );
    // An expired value is no value to an update.
    sessions
        .update("b", |old| {
            assert_eq!(old, None);
            Some(b"again".to_vec())
        })
        .unwrap();
    assert_eq!(sessions.expiry("b").unwrap(), Some(Expiry::Never));
    // A moment before 1970 has passed.
    sessions
        .put_expiring("d", "1", Expiry::At(SystemTime::UNIX_EPOCH - HOUR))
        .unwrap();
    assert_eq!(sessions.get_if_cached("d").unwrap(), MemoryAnswer::Absent);
}

#[test]
fn a_time_to_live_is_for_every_way_to_put_and_outlives_the_process() {
    let (disk, clock) = (SimStorage::new(1), Hours::new());
    let db = timed(&disk, &clock).open().unwrap();
    assert_eq!(
        kind(sessions(&db).set_time_to_live(Some(Duration::ZERO))),
        ErrorKind::InvalidArgument
    );
    sessions(&db).set_time_to_live(Some(2 * HOUR)).unwrap();
    db.close().unwrap();
    let db = timed(&disk, &clock).open().unwrap();
    let sessions = sessions(&db);
    assert_eq!(sessions.time_to_live(), Some(2 * HOUR));
    let hashed = db.keyspace("hashed", Layout::hashed()).unwrap();
    hashed.set_time_to_live(Some(2 * HOUR)).unwrap();
    sessions.put("a", "1").unwrap();
    let mut batch = db.batch();
    batch.put(&sessions, "b", "1").unwrap();
    batch.put_expiring(&sessions, "own", "1", hours(3)).unwrap();
    batch
        .put_expiring(&sessions, "never", "1", Expiry::Never)
        .unwrap();
    let ops = batch
        .iter()
        .filter(|op| matches!(op, hedgerow::BatchOp::Put { value: b"1", .. }));
    assert_eq!(ops.count(), 3);
    batch.commit(Durability::Buffered).unwrap();
    sessions.put_async("c", "1").wait().unwrap();
    sessions.update("d", |_| Some(b"1".to_vec())).unwrap();
    let entries = ["e", "f"].map(|name| Ok::<_, hedgerow::Error>((name, "1")));
    sessions.bulk_load(entries.clone()).unwrap();
    hashed.bulk_load(entries).unwrap();
    assert_eq!(contents(&sessions).len(), 8);
    clock.pass(1);
    assert_eq!(contents(&sessions).len(), 8);
    clock.pass(1);
    assert_eq!(
        contents(&sessions).into_keys().collect::<Vec<_>>(),
        [&b"never"[..], b"own"]
    );
    assert_eq!(hashed.scan_unordered().unwrap().count(), 0);
    sessions.set_time_to_live(None).unwrap();
    sessions.put("g", "1").unwrap();
    clock.pass(100);
    assert_eq!(
        contents(&sessions).into_keys().collect::<Vec<_>>(),
        [&b"g"[..], b"never"]
    );
}

#[test]
fn nothing_comes_back_when_the_clock_goes_back() {
    for ends in ["is closed", "is killed"] {
        let (mut disk, clock) = (SimStorage::new(1), Hours::new());
        let db = timed(&disk, &clock).open().unwrap();
        let s = sessions(&db);
        s.put("a", "old").unwrap();
        s.put_expiring("a", "1", hours(2)).unwrap();
        clock.pass(2);
        assert_eq!(s.get("a").unwrap(), None);
        clock.wall.fetch_sub(10, Ordering::Relaxed);
        assert_eq!(s.get("a").unwrap(), None, "while it is open");
        if ends == "is killed" {
            // The time that a flush has stored is kept.
            s.flush().unwrap();
            disk = disk.kill();
            drop((s, db));
        } else {
            drop(s);
            db.close().unwrap();
        }
        clock.mono.store(0, Ordering::Relaxed);
        let db = timed(&disk, &clock).open().unwrap();
        assert_eq!(
            sessions(&db).get("a").unwrap(),
            None,
            "when the database {ends}"
        );
    }
}

#[test]
fn operands_outlive_the_value_under_them() {
    let (disk, clock) = (SimStorage::new(1), Hours::new());
    let db = timed(&disk, &clock).open().unwrap();
    let layout = Layout::sorted().merge_operator("append");
    let words = db.keyspace_with("words", layout, small()).unwrap();
    words.put_expiring("k", "a", hours(2)).unwrap();
    words.merge("k", "b").unwrap();
    for _ in 0..2 {
        assert_eq!(words.get("k").unwrap().unwrap(), "ab");
        assert!(matches!(words.expiry("k").unwrap(), Some(Expiry::At(_))));
        words.compact::<&str>(..).unwrap();
    }
    clock.pass(2);
    for _ in 0..2 {
        assert_eq!(words.get("k").unwrap().unwrap(), "b");
        assert_eq!(contents(&words)[&b"k"[..]], b"b");
        words.compact::<&str>(..).unwrap();
    }
}

/// Entries of tables that have been read by merges, and of tables on disk.
fn measured(db: &Db, series: &Keyspace) -> (u64, u64) {
    series.wait_until_merged().unwrap();
    let entries = series.stats().levels.iter().map(|it| it.entries).sum();
    (db.stats().merge_read_bytes, entries)
}

#[test]
fn tables_that_have_expired_whole_are_dropped_unread() {
    let (disk, clock) = (SimStorage::new(1), Hours::new());
    let db = timed(&disk, &clock).open().unwrap();
    let series = sessions(&db);
    series.set_time_to_live(Some(2 * HOUR)).unwrap();
    for i in 0..2000 {
        series.put(key(i), "x".repeat(40)).unwrap();
    }
    series.compact::<&str>(..).unwrap();
    let snapshot = db.snapshot().unwrap();
    let (read, entries) = measured(&db, &series);
    assert_eq!(entries, 2000);
    clock.pass(2);
    assert_eq!(
        measured(&db, &series),
        (read, 2000),
        "the snapshot sees them"
    );
    drop(snapshot);
    assert_eq!(measured(&db, &series), (read, 0));
    // A table with an older version under it stays until that is merged with it.
    series
        .put_expiring(key(7), "for ever", Expiry::Never)
        .unwrap();
    series.compact::<&str>(..).unwrap();
    series.put(key(7), "for two hours").unwrap();
    series.flush().unwrap();
    clock.pass(2);
    series.wait_until_merged().unwrap();
    assert_eq!(series.get(key(7)).unwrap(), None);
    series.compact::<&str>(..).unwrap();
    assert_eq!(measured(&db, &series).1, 0);
}

/// The time of the load is known when the database is opened again, though neither a flush nor a
/// close has stored it, and no time to live tells that entries expire.
#[test]
fn tables_of_a_load_are_dropped_after_a_kill() {
    let (disk, clock) = (SimStorage::new(1), Hours::new());
    let db = timed(&disk, &clock).open().unwrap();
    let series = sessions(&db);
    series.set_time_to_live(Some(2 * HOUR)).unwrap();
    let entries = (0..2000).map(|i| Ok::<_, hedgerow::Error>((key(i), [7; 40])));
    series.bulk_load(entries).unwrap();
    series.set_time_to_live(None).unwrap();
    let disk = disk.kill();
    drop((series, db));
    let db = timed(&disk, &clock).open().unwrap();
    let series = sessions(&db);
    let (read, entries) = measured(&db, &series);
    assert_eq!(entries, 2000);
    clock.pass(2);
    assert_eq!(measured(&db, &series), (read, 0));
}

/// A time series with a retention of an hour, written for ten hours: 200 entries a second on a
/// database of a hundredth of the usual size, which flushes as often as one of 20,000 a second.
#[test]
fn a_series_takes_the_space_of_its_retention() {
    for policy in ["leveling:8", "tiering:4", "garnering:4,0.8"] {
        let run = |expires: bool| {
            let (disk, clock) = (SimStorage::new(1), Hours::new());
            let db = timed(&disk, &clock).open().unwrap();
            let design = hedgerow::Design {
                policy: policy.parse::<PolicySpec>().unwrap(),
                table_bytes: Some(16 << 10),
                memtable_bytes: Some(16 << 10),
                ..small()
            };
            let series = db
                .keyspace_with("series", Layout::sorted(), design)
                .unwrap();
            if expires {
                series.set_time_to_live(Some(10 * HOUR)).unwrap();
            }
            let mut most = 0.0_f64;
            // An hour of the clock stands for six minutes.
            for hour in 0..100_u64 {
                for i in 0..1000 {
                    series
                        .put((hour * 1000 + i).to_be_bytes(), [hour as u8; 40])
                        .unwrap();
                }
                clock.pass(1);
                db.flush().unwrap();
                let (_, entries) = measured(&db, &series);
                if hour >= 20 {
                    most = most.max(entries as f64 / 10_000.0);
                }
            }
            let stats = db.stats();
            (most, stats.flush_entries + stats.merge_entries)
        };
        let ((space, written), (_, without)) = (run(true), run(false));
        println!("{policy}: space {space:.2}, {written} entries written, {without} without expiry");
        assert!(space <= 1.3, "{policy}");
        assert!(written <= without, "{policy}");
    }
}
