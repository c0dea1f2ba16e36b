//! Waits that once did not end, or ended too early. Each test brings about the moment in which a
//! wake-up was lost: on one thread, or with another one that is held up there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed expectation is a failed test"
)]

use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use hedgerow_io::sim::SimStorage;
use hedgerow_io::{Background, Environment, OsClock, OsSpawn, Spawn};

use super::*;
use crate::base::mutex::lock;
use crate::base::options::Layout;
use crate::base::stats::Event;
use crate::design::merge_policy::plan::Target;
use crate::paths::write;
use crate::{Db, Keyspace};

/// A keyspace with one tree of tiny memtables and tables. Callers run the jobs.
fn simulated(disk: &SimStorage, seed: u64, policy: &str) -> (Db, Keyspace) {
    opened(Environment::simulated(disk, seed), policy)
}

/// The same, with threads that run the jobs.
fn threaded(disk: &SimStorage) -> (Db, Keyspace) {
    opened(with_threads(disk), "leveling:4")
}

fn with_threads(disk: &SimStorage) -> Environment {
    Environment {
        storage: Arc::new(disk.clone()),
        clock: Arc::new(OsClock::new()),
        spawn: Arc::new(OsSpawn),
        background: Background::Threads(2),
    }
}

fn opened(environment: Environment, policy: &str) -> (Db, Keyspace) {
    let builder = Db::builder("/db").environment(environment);
    let db = builder.memory_budget(1 << 20).open().unwrap();
    let keyspace = db.keyspace_with("k", Layout::sorted(), design(policy));
    (db, keyspace.unwrap())
}

fn design(policy: &str) -> Design {
    Design {
        policy: policy.parse().unwrap(),
        memtable_bytes: Some(4 << 10),
        table_bytes: Some(4 << 10),
        ..Design::default()
    }
}

fn tree(keyspace: &Keyspace) -> Arc<Partition> {
    keyspace.cell().state.load().partitions[0].clone()
}

fn put(keyspace: &Keyspace, i: u32) {
    keyspace.put(i.to_be_bytes(), [7; 100]).unwrap();
}

/// Runs what must come to an end, on a thread of its own.
#[track_caller]
fn ends<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = channel();
    let body = move || {
        let ran = catch_unwind(AssertUnwindSafe(run));
        drop(sender.send(ran));
    };
    let _thread = OsSpawn.spawn("waits", Box::new(body)).unwrap();
    match receiver.recv_timeout(Duration::from_secs(60)) {
        Ok(ran) => ran.unwrap_or_else(|panic| resume_unwind(panic)),
        Err(RecvTimeoutError::Timeout) => panic!("expected an end, found none in a minute"),
        Err(RecvTimeoutError::Disconnected) => panic!("the thread has gone"),
    }
}

/// A job that keeps every other one from beginning. Its thread removes it in
/// [`end_without_settling`].
fn block_merges(partition: &Partition) {
    partition.work().running.push(RunningJob {
        inputs: Vec::new(),
        top: 0,
        target: Target {
            level: 0,
            group: 0,
            run: None,
        },
        lo: Vec::new(),
        hi: Vec::new(),
        is_alone: true,
    });
}

/// Queues the end of that job. Nothing looks at the tree afterwards: so far has the thread of a job
/// come when it has removed the job and not called [`settle`] yet.
fn end_without_settling(engine: &Engine, partition: &Arc<Partition>) {
    let partition = partition.clone();
    let end = move || partition.work().running.clear();
    engine.scheduler.submit(Priority::Merge, end);
}

#[test]
fn a_wait_for_merges_does_not_end_between_two_of_them() {
    let (db, keyspace) = simulated(&SimStorage::new(1), 1, "leveling:4");
    let (engine, partition) = (db.engine(), tree(&keyspace));
    block_merges(&partition);
    for i in 0..20 {
        put(&keyspace, i % 7);
        keyspace.flush().unwrap();
    }
    end_without_settling(engine, &partition);
    wait::until_idle(engine, std::slice::from_ref(&partition)).unwrap();
    let work = partition.work();
    assert!(compaction::next(engine, &partition, &work).is_none());
}

#[test]
fn a_tree_has_its_new_shape_when_the_wait_for_it_ends() {
    let (db, keyspace) = simulated(&SimStorage::new(2), 2, "leveling:4");
    put(&keyspace, 0);
    keyspace.wait_until_merged().unwrap();
    let (engine, partition) = (db.engine(), tree(&keyspace));
    block_merges(&partition);
    partition.work().retuned_at = Some(Duration::ZERO);
    end_without_settling(engine, &partition);
    wait::until_idle(engine, std::slice::from_ref(&partition)).unwrap();
    assert_eq!(partition.work().retuned_at, None);
}

/// Fills a tree, and merges it step by step, until the sweep of a level is to begin. That is an
/// edit of the manifest only.
fn grow_until_a_sweep(engine: &Arc<Engine>, keyspace: &Keyspace, partition: &Arc<Partition>) {
    for flushes in 0..1000 {
        block_merges(partition);
        (0..40).for_each(|i| put(keyspace, flushes * 40 + i));
        keyspace.flush().unwrap();
        partition.work().running.clear();
        while let Some(merge) = compaction::begin(engine, partition) {
            if merge.running.is_none() {
                return;
            }
            carry_out_step(engine, partition, &merge).unwrap();
        }
    }
    panic!("no sweep began");
}

/// The disk has no room for the edit that begins the sweep of a level.
#[test]
fn a_wait_ends_when_an_edit_that_merges_need_fails() {
    let disk = SimStorage::new(3);
    let (db, keyspace) = simulated(&disk, 3, "leveling:4");
    let (engine, partition) = (db.engine().clone(), tree(&keyspace));
    grow_until_a_sweep(&engine, &keyspace, &partition);
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    let waited = ends(move || wait::until_idle(&engine, &[partition]));
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::NoSpace);
    disk.set_capacity_bytes(None);
    keyspace.wait_until_merged().unwrap();
}

/// A batch over many trees may leave more in active memtables than all memtables may have.
#[test]
fn no_write_waits_for_a_flush_when_nothing_is_sealed() {
    let (db, _keyspace) = threaded(&SimStorage::new(4));
    let engine = db.engine().clone();
    let all = engine.memory.plan().memtables;
    engine.memory.active.fetch_add(all, Ordering::Relaxed);
    let waited = {
        let engine = engine.clone();
        ends(move || wait::for_memory(&engine))
    };
    engine.memory.active.fetch_sub(all, Ordering::Relaxed);
    waited.unwrap();
}

/// Otherwise its bytes would count for ever: no flush of it is carried out.
#[test]
fn a_memtable_of_a_cleared_tree_is_not_sealed() {
    let (db, keyspace) = simulated(&SimStorage::new(5), 5, "leveling:4");
    put(&keyspace, 0);
    let before = tree(&keyspace);
    keyspace.clear().unwrap();
    write::seal_all(db.engine(), [&before]).unwrap();
    assert_eq!(db.engine().memory.sealed.load(Ordering::Relaxed), 0);
}

#[test]
fn writers_are_not_delayed_for_memtables_that_were_cleared() {
    let (db, keyspace) = simulated(&SimStorage::new(6), 6, "leveling:4");
    let engine = db.engine();
    let writer = engine.writer().unwrap();
    writer.whole_trees.hold_flushes(SeqNo(0));
    let mut keys = 0..;
    while !engine.throttle.holds_back() {
        put(&keyspace, keys.next().unwrap());
    }
    keyspace.clear().unwrap();
    assert!(!engine.throttle.holds_back());
    writer.whole_trees.release_flushes();
}

/// A flush finds its tree by the catalog when it is tried again. So nobody is routed to trees that
/// the catalog does not have yet.
#[test]
fn the_new_trees_of_a_keyspace_come_with_the_catalog_that_has_them() {
    let (db, keyspace) = threaded(&SimStorage::new(7));
    put(&keyspace, 0);
    let engine = db.engine();
    let writer = engine.writer().unwrap();
    let before = tree(&keyspace).id;
    let clears = keyspace.clone();
    let (sender, cleared) = channel();
    let is_agreed = || {
        let catalog = engine.catalog.load();
        catalog.partitions.contains_key(&tree(&keyspace).id)
    };
    // The clear is held up where it has logged its edit, and replaces the trees next.
    engine.snapshots.while_none_is_taken(|| {
        let clear = Box::new(move || drop(sender.send(clears.clear())));
        drop(OsSpawn.spawn("clears", clear).unwrap());
        while writer.manifest.try_lock().is_ok() {
            std::thread::yield_now();
        }
        for _ in 0..100_000 {
            assert!(is_agreed());
            std::thread::yield_now();
        }
    });
    cleared.recv().unwrap().unwrap();
    assert!(is_agreed());
    assert_ne!(tree(&keyspace).id, before);
}

/// While a merge filled the disk, flushes failed beside it, and writes were refused.
#[test]
fn a_merge_leaves_the_room_that_flushes_need() {
    let disk = SimStorage::new(8);
    let (db, keyspace) = simulated(&disk, 8, "leveling:4");
    let (engine, partition) = (db.engine(), tree(&keyspace));
    block_merges(&partition);
    for _ in 0..6 {
        put(&keyspace, 0);
        keyspace.flush().unwrap();
    }
    partition.work().running.clear();
    let writer = engine.writer().unwrap();
    writer.whole_trees.hold_flushes(SeqNo(0));
    keyspace.put("large", [7; 300_000]).unwrap();
    let merge = || compaction::begin(engine, &partition).unwrap();
    disk.set_capacity_bytes(Some(disk.used_bytes() + 200_000));
    let refused = carry_out(engine, &partition, &merge()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    assert!(refused.to_string().contains("of memtables"), "{refused}");
    disk.set_capacity_bytes(Some(disk.used_bytes() + 500_000));
    carry_out(engine, &partition, &merge()).unwrap();
    writer.whole_trees.release_flushes();
    keyspace.flush().unwrap();
}

/// The first writes after there was room again were refused: they got the failure from before.
#[test]
fn a_write_that_needs_memory_has_a_failed_flush_tried_again() {
    let disk = SimStorage::new(9);
    let (db, keyspace) = simulated(&disk, 9, "leveling:4");
    let engine = db.engine();
    put(&keyspace, 0);
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    keyspace.flush().unwrap_err();
    let all = engine.memory.plan().memtables;
    engine.memory.active.fetch_add(all, Ordering::Relaxed);
    let refused = wait::for_memory(engine).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoSpace);
    // The write that waits may be to another keyspace.
    assert_eq!(refused.keyspace(), Some("k"));
    disk.set_capacity_bytes(None);
    wait::for_memory(engine).unwrap();
    engine.memory.active.fetch_sub(all, Ordering::Relaxed);
}

/// Nobody waits for such a job, so that nobody else could tell of it.
#[test]
fn the_panic_of_a_job_that_keeps_up_is_told() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    let listener = move |event: &Event| {
        if let Event::BackgroundError { doing, error } = event {
            lock(&heard).push((*doing, error.to_string()));
        }
    };
    let builder = Db::builder("/db").environment(with_threads(&SimStorage::new(10)));
    let db = builder.listener(listener).open().unwrap();
    spawn_upkeep(db.engine(), Priority::Log, Job::PrepareMemory, |_| {
        panic!("on purpose");
    });
    let scheduler = &db.engine().scheduler;
    assert!(scheduler.wait_until(|| scheduler.panics() > 0));
    db.close().unwrap();
    let failed = (
        "prepare memory",
        "input/output error: panicked: prepare memory".to_owned(),
    );
    assert_eq!(*lock(&told), [failed]);
}
