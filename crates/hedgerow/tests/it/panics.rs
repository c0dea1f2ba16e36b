//! A job that panics, which would be a bug, is a failure like any other: whoever waits for it gets
//! an error, and the tree is as able to work as before.
//!
//! The jobs run on real threads over a simulated disk that panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Background, Clock, Environment, OsClock, OsSpawn, Spawn, Storage};
use hedgerow::{Compression, Db, Design, Durability, ErrorKind, Event, Keyspace, Layout};

use crate::support::{Contents, DIR, contents, key, kind, small, value};
use crate::watched::{Watched, Watcher};

/// A call of the disk: `create`, `open`, `segment` or `sync`, and a part of the path.
type Call = (&'static str, &'static str);

/// Panics at the calls that it is armed for.
#[derive(Default)]
struct Panics {
    /// The calls that panic.
    armed: Mutex<Option<Call>>,
    /// The threads that have asked for log segments.
    preparing: Mutex<Vec<ThreadId>>,
}

type Panicking = Watched<Panics>;

impl Watcher for Panics {
    fn before(&self, call: &str, path: &Path) {
        let armed = *self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        let path = path.to_str().unwrap();
        if armed.is_some_and(|(armed, part)| armed == call && path.contains(part)) {
            panic!("on purpose: {call} {path}");
        }
        if call == "segment" {
            let thread = std::thread::current().id();
            self.preparing.lock().unwrap().push(thread);
        }
    }
}

impl Panicking {
    fn new(disk: SimStorage) -> Arc<Panicking> {
        let watcher = Arc::new(Panics::default());
        Arc::new(Watched { disk, watcher })
    }

    fn arm(&self, call: Option<Call>) {
        *self.watcher.armed.lock().unwrap() = call;
    }

    fn builder(self: &Arc<Self>) -> hedgerow::Builder {
        let environment = Environment {
            storage: self.clone(),
            clock: Arc::new(OsClock::new()),
            spawn: Arc::new(OsSpawn),
            background: Background::Threads(3),
        };
        Db::builder(DIR)
            .environment(environment)
            .log_segment_bytes(16 << 10)
    }
}

fn fill(keyspace: &Keyspace, keys: impl IntoIterator<Item = u64>, expected: &mut Contents) {
    for i in keys {
        keyspace.put(key(i), value(i)).unwrap();
        expected.insert(key(i), value(i));
    }
}

/// Looks again until something is so that a job must make so.
#[track_caller]
fn until(mut is_so: impl FnMut() -> bool) {
    let clock = OsClock::new();
    let began = clock.now().as_secs();
    while !is_so() {
        assert!(clock.now().as_secs() < began + 60);
        std::thread::yield_now();
    }
}

/// Several runs under one filter.
fn tiering(runs_max: u64) -> Design {
    Design {
        policy: format!("tiering:{runs_max}").parse().unwrap(),
        filter: "mlcf:12".parse().unwrap(),
        ..small()
    }
}

#[test]
fn a_flush_that_panics_is_tried_again() {
    let disk = Panicking::new(SimStorage::new(1));
    let db = disk.builder().open().unwrap();
    let keyspace = db.keyspace_with("k", Layout::sorted(), small()).unwrap();
    let mut expected = Contents::new();
    fill(&keyspace, 0..50, &mut expected);
    disk.arm(Some(("create", "/tables/")));
    for _ in 0..3 {
        assert_eq!(kind(keyspace.flush()), ErrorKind::Io);
    }
    disk.arm(None);
    keyspace.flush().unwrap();
    until(|| db.stats().panics >= 3);
    assert_eq!(keyspace.stats().memtable_entries, 0);
    assert_eq!(contents(&keyspace), expected);
}

/// `compact` carries merges out on the thread that calls it.
#[test]
fn a_merge_that_panics_inside_of_compact_is_tried_again() {
    let disk = Panicking::new(SimStorage::new(12));
    let db = disk.builder().open().unwrap();
    let keyspace = db.keyspace_with("k", Layout::sorted(), tiering(8)).unwrap();
    let mut expected = Contents::new();
    for part in [0..200, 100..300] {
        fill(&keyspace, part, &mut expected);
        keyspace.flush().unwrap();
    }
    disk.arm(Some(("create", "/tables/")));
    for _ in 0..3 {
        assert_eq!(kind(keyspace.compact::<&[u8]>(..)), ErrorKind::Io);
    }
    disk.arm(None);
    assert!(db.stats().panics >= 3);
    keyspace.compact::<&[u8]>(..).unwrap();
    assert_eq!(contents(&keyspace), expected);
}

#[test]
fn a_merge_that_panics_is_tried_again() {
    let disk = Panicking::new(SimStorage::new(2));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let told = heard.clone();
    let listener = move |event: &Event| {
        if let Event::BackgroundError { doing, .. } = event {
            told.lock().unwrap().push(*doing);
        }
    };
    let db = disk.builder().listener(listener).open().unwrap();
    let keyspace = db.keyspace_with("k", Layout::sorted(), tiering(8)).unwrap();
    let mut expected = Contents::new();
    fill(&keyspace, (0..2000).map(|i| i * 7 % 2000), &mut expected);
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    // Opens the inputs, so that the first table that a merge opens is one that it wrote.
    assert_eq!(contents(&keyspace), expected);
    disk.arm(Some(("open", "/tables/")));
    keyspace.retune(tiering(2)).unwrap();
    assert_eq!(kind(keyspace.wait_until_merged()), ErrorKind::Io);
    disk.arm(None);
    keyspace.wait_until_merged().unwrap();
    until(|| db.stats().panics >= 1);
    assert!(!keyspace.stats().retuning);
    assert_eq!(contents(&keyspace), expected);
    db.close().unwrap();
    assert!(heard.lock().unwrap().contains(&"merge tables"));
}

/// Flushes wait for a merge that makes room in level 0, and writers wait for flushes.
#[test]
fn writers_get_the_error_of_the_merge_that_was_to_make_room() {
    let disk = Panicking::new(SimStorage::new(6));
    let db = disk.builder().memory_budget(1 << 20).open().unwrap();
    let keyspace = db.keyspace_with("k", Layout::sorted(), small()).unwrap();
    let mut expected = Contents::new();
    disk.arm(Some(("open", "/tables/")));
    let mut writes = (0..1_000_000).map(|i| (i * 7 % 500, i));
    let error = writes.find_map(|(at, i)| {
        let put = keyspace.put(key(at), value(i));
        if put.is_ok() {
            expected.insert(key(at), value(i));
        }
        put.err()
    });
    assert_eq!(error.unwrap().kind(), ErrorKind::Io);
    disk.arm(None);
    // A merge that began before may still panic.
    until(|| keyspace.flush().is_ok());
    fill(&keyspace, 1000..2000, &mut expected);
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    assert_eq!(contents(&keyspace), expected);
}

#[test]
fn a_filter_whose_building_panics_is_built_later() {
    let disk = SimStorage::new(3);
    let mut expected = Contents::new();
    {
        let db = Panicking::new(disk.clone()).builder().open().unwrap();
        let keyspace = db.keyspace_with("k", Layout::sorted(), tiering(8)).unwrap();
        fill(&keyspace, (0..2000).map(|i| i * 7 % 2000), &mut expected);
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        db.close().unwrap();
    }
    let filters: Vec<_> = { disk.paths().into_iter() }
        .filter(|path| path.extension().is_some_and(|it| it == "filter"))
        .collect();
    assert!(!filters.is_empty());
    filters.iter().for_each(|path| disk.remove(path).unwrap());
    let disk = Panicking::new(disk);
    disk.arm(Some(("open", "/tables/")));
    let db = disk.builder().open().unwrap();
    let keyspace = db.existing_keyspace("k").unwrap();
    assert_eq!(kind(keyspace.wait_until_merged()), ErrorKind::Io);
    disk.arm(None);
    until(|| db.stats().panics >= 1);
    let filters_asked = |i| keyspace.explain(key(i)).unwrap().group_filters.len();
    assert_eq!((0..20).map(filters_asked).sum::<usize>(), 0);
    keyspace.wait_until_merged().unwrap();
    assert!((0..20).map(filters_asked).sum::<usize>() > 0);
    assert_eq!(contents(&keyspace), expected);
}

#[test]
fn a_warming_that_panics_is_followed_by_another_one() {
    let disk = Panicking::new(SimStorage::new(4));
    let db = disk.builder().memory_budget(64 << 20).open().unwrap();
    let design = Design {
        compression: Compression::None,
        ..Design::default()
    };
    let keyspace = db.keyspace_with("k", Layout::sorted(), design).unwrap();
    disk.arm(Some(("open", "/tables/")));
    let empty = db.stats().memory.page_cache;
    let mut expected = Contents::new();
    fill(&keyspace, 0..2000, &mut expected);
    keyspace.flush().unwrap();
    until(|| db.stats().panics >= 1);
    disk.arm(None);
    fill(&keyspace, 2000..4000, &mut expected);
    keyspace.flush().unwrap();
    let stored = keyspace.stats().table_bytes();
    until(|| db.stats().memory.page_cache >= empty + stored / 10 * 9);
    assert_eq!(contents(&keyspace), expected);
}

#[test]
fn log_segments_are_prepared_ahead_after_a_panic_of_that() {
    let disk = Panicking::new(SimStorage::new(5));
    let db = disk.builder().open().unwrap();
    let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
    let this = std::thread::current().id();
    let is_prepared_ahead = || {
        let preparing = disk.watcher.preparing.lock().unwrap();
        preparing.iter().any(|thread| *thread != this)
    };
    let mut i = 0;
    // A writer prepares a segment itself when there is none, and panics likewise.
    let mut put = || {
        i += 1;
        let put = AssertUnwindSafe(|| keyspace.put(key(i), [0; 1000]).unwrap());
        catch_unwind(put).is_ok()
    };
    until(|| put() && is_prepared_ahead());
    disk.arm(Some(("segment", "/log/")));
    until(|| {
        put();
        db.stats().panics >= 1
    });
    disk.arm(None);
    disk.watcher.preparing.lock().unwrap().clear();
    until(|| put() && is_prepared_ahead());
}

/// Those who wait for the sync of another writer would wait for ever.
#[test]
fn a_sync_of_the_log_that_panics_is_tried_again() {
    let disk = Panicking::new(SimStorage::new(7));
    let db = disk.builder().open().unwrap();
    let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
    disk.arm(Some(("sync", "/log/")));
    let put = || keyspace.put_with(key(0), value(0), Durability::Synced);
    assert!(catch_unwind(AssertUnwindSafe(put)).is_err());
    disk.arm(None);
    let done = Arc::new(AtomicBool::new(false));
    let (other, ends) = (keyspace.clone(), done.clone());
    let put = move || {
        let put = other.put_with(key(1), value(1), Durability::Synced);
        put.unwrap();
        ends.store(true, Ordering::SeqCst);
    };
    drop(OsSpawn.spawn("put", Box::new(put)).unwrap());
    until(|| done.load(Ordering::SeqCst));
    assert_eq!(contents(&keyspace).len(), 2);
}
