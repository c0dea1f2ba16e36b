//! Asynchronous calls: how each of them ends, and in which order.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use hedgerow::io::sim::SimStorage;
use hedgerow::io::{Clock, Environment, OsClock};
use hedgerow::{Builder, Db, Durability, ErrorKind, Keyspace, Layout, Pending, PrefixRule, Result};

use crate::concurrency::threaded;
use crate::support::{Contents, builder, contents, key, kind, open, small, value};

/// The same with 0 to 3 workers, on threads and in a simulation.
fn builders(disk: &SimStorage) -> impl Iterator<Item = (String, Builder)> {
    (0..4).flat_map(move |workers| {
        let with_threads = threaded(disk).workers(workers);
        let simulated = builder(disk).workers(workers);
        [
            (format!("{workers} workers"), with_threads),
            (format!("{workers} workers, simulated"), simulated),
        ]
    })
}

fn layouts() -> [Layout; 3] {
    [
        Layout::sorted(),
        Layout::sorted().hash(5),
        Layout::sorted().range([key(5), key(10)]),
    ]
}

/// A worker that is busy until the test releases it.
struct Busy {
    go_on: Sender<()>,
    update: Pending<Option<hedgerow::Slice>>,
}

impl Busy {
    fn new(keyspace: &Keyspace) -> Busy {
        let (go_on, wait): (_, Receiver<()>) = channel();
        let (begun, is_busy) = channel();
        let update = keyspace.update_async(key(0), move |old| {
            begun.send(()).unwrap();
            // Also when the test has failed and is gone.
            let _ = wait.recv();
            old.map(<[u8]>::to_vec)
        });
        is_busy.recv().unwrap();
        Busy { go_on, update }
    }

    fn go_on(self) {
        self.go_on.send(()).unwrap();
        self.update.wait().unwrap();
    }
}

/// One worker on a thread, whose queue has room for two calls.
fn one_worker(disk: &SimStorage) -> (Db, Keyspace) {
    let db = threaded(disk).workers(1).worker_queue(2).open().unwrap();
    let keyspace = db.keyspace_with("k", Layout::sorted(), small()).unwrap();
    (db, keyspace)
}

pub(crate) fn steps(mut state: u64) -> impl FnMut(u64) -> u64 {
    move |bound| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % bound
    }
}

/// Whatever one client calls without waiting is answered as if each call had ended before the next.
#[test]
fn calls_of_one_client_take_effect_in_their_order() {
    for layout in layouts() {
        let disk = SimStorage::new(1);
        for (case, builder) in builders(&disk) {
            let db = builder.worker_queue(3).open().unwrap();
            let keyspace = db.keyspace_with("k", layout.clone(), small()).unwrap();
            keyspace.clear().unwrap();
            let mut random = steps(case.len() as u64);
            let mut model = Contents::new();
            for _ in 0..40 {
                let (mut writes, mut reads, mut many, mut updates) =
                    (Vec::new(), Vec::new(), Vec::new(), Vec::new());
                for i in 0..random(40) {
                    let key = key(random(15));
                    match random(8) {
                        0..3 => {
                            writes.push(keyspace.put_async(&key, value(i)));
                            model.insert(key, value(i));
                        }
                        3 => {
                            writes.push(keyspace.delete_async(&key));
                            model.remove(&key);
                        }
                        4 => {
                            keyspace.put_later(&key, value(i)).unwrap();
                            model.insert(key, value(i));
                        }
                        5 => {
                            let longer =
                                |old: Option<&[u8]>| Some([old.unwrap_or(b"new"), b"+"].concat());
                            updates.push((
                                keyspace.update_async(&key, longer),
                                longer(model.get(&key).map(Vec::as_slice)),
                            ));
                            model.insert(
                                key.clone(),
                                longer(model.get(&key).map(Vec::as_slice)).unwrap(),
                            );
                        }
                        6 => {
                            let keys: Vec<_> = (0..4).map(|_| self::key(random(15))).collect();
                            let expected: Vec<_> =
                                keys.iter().map(|k| model.get(k).cloned()).collect();
                            many.push((keyspace.multi_get_async(&keys), expected));
                        }
                        _ => reads.push((keyspace.get_async(&key), model.get(&key).cloned())),
                    }
                }
                writes.into_iter().for_each(|write| write.wait().unwrap());
                for (read, expected) in reads.into_iter().chain(updates) {
                    assert_eq!(
                        read.wait().unwrap().as_deref(),
                        expected.as_deref(),
                        "{case}"
                    );
                }
                for (read, expected) in many {
                    let found: Vec<_> = read.wait().unwrap();
                    let found: Vec<_> = found
                        .iter()
                        .map(|v| v.as_ref().map(|v| v.to_vec()))
                        .collect();
                    assert_eq!(found, expected, "{case}");
                }
                // A page sees what was put into queues before.
                keyspace.put_later(key(99), value(1)).unwrap();
                let page = keyspace.scan_page_async(key(3).., 6).wait().unwrap();
                model.insert(key(99), value(1));
                let expected = model.range(key(3)..).take(6);
                assert!(
                    page.iter()
                        .map(|(k, v)| (&**k, &**v))
                        .eq(expected.map(|(k, v)| (&**k, &**v))),
                    "{case}"
                );
            }
            db.barrier().wait().unwrap();
            assert_eq!(contents(&keyspace), model, "{case}");
            drop(keyspace);
            db.close().unwrap();
        }
    }
}

/// Runs a future as a runtime does: polls it when it was woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    struct Woken(Mutex<Sender<()>>);
    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            let _ = self.0.lock().unwrap().send(());
        }
    }
    let (sender, woken) = channel();
    let waker = Waker::from(Arc::new(Woken(Mutex::new(sender))));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => woken.recv_timeout(Duration::from_secs(60)).unwrap(),
        }
    }
}

#[test]
fn a_future_needs_no_runtime_of_its_own() {
    let disk = SimStorage::new(2);
    for (case, builder) in builders(&disk) {
        let db = builder.open().unwrap();
        let keyspace = db.keyspace("k", Layout::sorted().hash(4)).unwrap();
        block_on(keyspace.put_async_with(key(1), "1", Durability::Synced)).unwrap();
        let value = block_on(keyspace.get_async(key(1))).unwrap();
        assert_eq!(value.as_deref(), Some(&b"1"[..]), "{case}");
        assert_eq!(
            kind(block_on(keyspace.get_async(vec![7; (64 << 10) + 1]))),
            ErrorKind::InvalidArgument
        );
        block_on(db.drop_keyspace_async("k")).unwrap();
        drop(keyspace);
        db.close().unwrap();
    }
}

#[test]
fn calls_are_refused_by_the_order_of_their_keyspace() {
    let disk = SimStorage::new(11);
    for (case, builder) in builders(&disk) {
        let db = builder.open().unwrap();
        let layout = Layout::semi_sorted(PrefixRule::Bytes(4)).hash(3);
        let keyspace = db.keyspace("k", layout).unwrap();
        keyspace.put_async("beech", "1").wait().unwrap();
        let values = keyspace.multi_get_async(&["beech", "elms"]).wait().unwrap();
        assert_eq!(values[0].as_deref(), Some(&b"1"[..]), "{case}");
        assert_eq!(values[1], None, "{case}");
        let refused = [
            keyspace.put_async("elm", "2").wait().err(),
            keyspace.get_async("elm").wait().err(),
            keyspace.multi_get_async(&["beech", "elm"]).wait().err(),
            keyspace.update_async("elm", |_| None).wait().err(),
            keyspace.scan_page_async("beech".., 1).wait().err(),
        ];
        let kinds = refused.map(|error| error.map(|e| e.kind()));
        assert_eq!(kinds, [Some(ErrorKind::InvalidArgument); 5], "{case}");
        db.drop_keyspace("k").unwrap();
        let none: [&str; 0] = [];
        let closed = keyspace.multi_get_async(&none).wait();
        assert_eq!(kind(closed), ErrorKind::Closed, "{case}");
        drop(keyspace);
        db.close().unwrap();
    }
}

#[test]
fn a_full_queue_pushes_back() {
    let disk = SimStorage::new(3);
    let (db, keyspace) = one_worker(&disk);
    let busy = Busy::new(&keyspace);
    keyspace.try_put_later(key(1), "queued").unwrap();
    keyspace.try_delete_later(key(2)).unwrap();
    assert_eq!(
        kind(keyspace.try_put_later(key(3), "")),
        ErrorKind::WouldBlock
    );
    assert_eq!(
        kind(keyspace.try_delete_later(key(3))),
        ErrorKind::WouldBlock
    );
    // These keep their places in line; one of them gives it up.
    let in_line = keyspace.put_async(key(4), "in line");
    let given_up = keyspace.put_async(key(5), "given up");
    let behind = keyspace.get_async(key(4));
    assert!(!in_line.is_ready() && !behind.is_ready());
    let worker = &db.stats().workers[0];
    assert_eq!((worker.queued, worker.in_line), (2, 3));
    drop(given_up);
    assert_eq!(db.stats().workers[0].in_line, 2);
    thread::scope(|scope| {
        // Waits for room.
        let later = scope.spawn(|| keyspace.put_later(key(6), "later"));
        busy.go_on();
        later.join().unwrap().unwrap();
    });
    in_line.wait().unwrap();
    assert_eq!(behind.wait().unwrap().as_deref(), Some(&b"in line"[..]));
    db.barrier().wait().unwrap();
    let found: Vec<_> = contents(&keyspace).into_keys().collect();
    assert_eq!(found, [key(1), key(4), key(6)]);
    let worker = &db.stats().workers[0];
    assert_eq!((worker.queued, worker.in_line), (0, 0));
    assert!(worker.waited >= worker.waited_max && worker.waited_max > Duration::ZERO);
}

#[test]
fn a_dropped_future_does_not_take_a_queued_write_back() {
    let disk = SimStorage::new(4);
    let (db, keyspace) = one_worker(&disk);
    let busy = Busy::new(&keyspace);
    let gets = db.stats().gets;
    drop(keyspace.put_async(key(1), "1"));
    drop(keyspace.get_async(key(1)));
    busy.go_on();
    db.barrier().wait().unwrap();
    assert_eq!(keyspace.get(key(1)).unwrap().as_deref(), Some(&b"1"[..]));
    // This one: nobody wanted the other.
    assert_eq!(db.stats().gets, gets + 1);
}

#[test]
fn what_waited_in_a_queue_is_one_commit() {
    let disk = SimStorage::new(5);
    let db = threaded(&disk).workers(1).open().unwrap();
    let keyspace = db.keyspace("k", Layout::sorted().hash(8)).unwrap();
    let busy = Busy::new(&keyspace);
    let puts: Vec<_> = (1..=200)
        .map(|i| keyspace.put_async(key(i), value(i)))
        .collect();
    busy.go_on();
    puts.into_iter().for_each(|put| put.wait().unwrap());
    db.sync().unwrap();
    assert_eq!(db.verify().unwrap().log_records, 1);
    assert_eq!(contents(&keyspace).len(), 200);
    // The worker counts a batch after its answers.
    while db.stats().workers[0].done < 201 {
        thread::yield_now();
    }
    let worker = &db.stats().workers[0];
    assert_eq!((worker.done, worker.batches), (201, 2));
    assert_eq!(worker.partitions, 8);
}

#[test]
fn gets_that_waited_in_a_queue_are_read_together() {
    let disk = SimStorage::new(14);
    let db = threaded(&disk).workers(1).open().unwrap();
    let keyspace = db
        .keyspace_with("k", Layout::sorted().hash(4), small())
        .unwrap();
    let keys = 20_000;
    for i in 1..keys {
        keyspace.put(key(i), value(i)).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    let chosen: Vec<_> = (1..=64).map(|i| i * 301).collect();
    let longest = { chosen.iter() }
        .map(|&i| keyspace.explain(key(i)).unwrap().pages().count())
        .max();
    // Others take their places in the cache.
    assert_eq!(contents(&keyspace).len() as u64, keys - 1);
    (1..keys)
        .step_by(3)
        .for_each(|i| drop(keyspace.get(key(i)).unwrap()));
    let busy = Busy::new(&keyspace);
    let before = disk.counters();
    let gets: Vec<_> = chosen.iter().map(|&i| keyspace.get_async(key(i))).collect();
    busy.go_on();
    for (get, i) in gets.into_iter().zip(chosen) {
        assert_eq!(get.wait().unwrap().as_deref(), Some(&value(i)[..]));
    }
    let after = disk.counters();
    let reads = after.reads_in_batches - before.reads_in_batches;
    let batches = (after.read_batches - before.read_batches) as usize;
    assert!(
        reads >= 16 && batches <= longest.unwrap(),
        "{reads} in {batches}"
    );
}

#[test]
fn one_bad_call_fails_alone() {
    let disk = SimStorage::new(6);
    let db = threaded(&disk).workers(1).open().unwrap();
    let [good, bad] = ["good", "bad"].map(|name| db.keyspace(name, Layout::sorted()).unwrap());
    let busy = Busy::new(&good);
    let puts = [
        good.put_async(key(1), "1"),
        bad.put_async(key(1), "1"),
        good.put_async(key(2), "2"),
    ];
    let gets = [bad.get_async(key(3)), good.get_async(key(3))];
    bad.put_later(key(2), "2").unwrap();
    db.drop_keyspace("bad").unwrap();
    busy.go_on();
    let ended = puts.map(|put| put.wait().map_err(|e| e.kind()));
    assert_eq!(ended, [Ok(()), Err(ErrorKind::Closed), Ok(())]);
    let ended = gets.map(|get| get.wait().map_err(|e| e.kind()));
    assert_eq!(ended, [Err(ErrorKind::Closed), Ok(None)]);
    // The barrier reports, once, the error of a call that nobody waited for.
    assert_eq!(kind(db.barrier().wait()), ErrorKind::Closed);
    db.barrier().wait().unwrap();
    assert_eq!(contents(&good).len(), 2);
}

#[test]
fn a_panic_of_a_callback_is_its_own_result() {
    let disk = SimStorage::new(7);
    for (case, builder) in builders(&disk) {
        let db = builder.open().unwrap();
        let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
        keyspace.put(key(1), "1").unwrap();
        let update = keyspace.update_async(key(1), |_| panic!("a bug of the caller"));
        let after = keyspace.put_async(key(2), "2");
        let error = update.wait().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{case}");
        assert!(error.to_string().contains("a bug of the caller"), "{error}");
        after.wait().unwrap();
        assert_eq!(keyspace.get(key(1)).unwrap().as_deref(), Some(&b"1"[..]));
        drop(keyspace);
        db.close().unwrap();
    }
}

#[test]
fn a_callback_that_waits_for_its_worker_is_refused() {
    let disk = SimStorage::new(8);
    for (case, builder) in builders(&disk) {
        let db = builder.workers(1).open().unwrap();
        let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
        let (inner, (sender, ended)) = (keyspace.clone(), channel());
        let update = keyspace.update_async(key(1), move |_| {
            sender.send(inner.put_async(key(2), "2").wait()).unwrap();
            // A synchronous call may be made.
            inner.put(key(3), "3").unwrap();
            None
        });
        update.wait().unwrap();
        assert_eq!(
            kind(ended.recv().unwrap()),
            ErrorKind::InvalidArgument,
            "{case}"
        );
        db.barrier().wait().unwrap();
        assert_eq!(contents(&keyspace).len(), 2, "the call itself was made");
        drop(keyspace);
        db.close().unwrap();
    }
}

/// Everything that was in a queue is done before the database is closed, and nothing hangs.
#[test]
fn closing_ends_every_call() {
    let disk = SimStorage::new(9);
    for (case, builder) in builders(&disk) {
        for by_drop in [false, true] {
            let db = builder.clone().worker_queue(4).open().unwrap();
            let keyspace = db.keyspace("k", Layout::sorted().hash(4)).unwrap();
            keyspace.clear().unwrap();
            let puts: Vec<_> = (0..100)
                .map(|i| keyspace.put_async(key(i), value(i)))
                .collect();
            let gets: Vec<_> = (0..100).map(|i| keyspace.get_async(key(i))).collect();
            let kept = if by_drop {
                None
            } else {
                Some(keyspace.clone())
            };
            drop(keyspace);
            if by_drop {
                drop(db);
            } else {
                db.close().unwrap();
            }
            puts.into_iter().for_each(|put| put.wait().unwrap());
            for (i, get) in (0..).zip(gets) {
                assert_eq!(
                    get.wait().unwrap().as_deref(),
                    Some(&value(i)[..]),
                    "{case}"
                );
            }
            if let Some(closed) = kept {
                assert_eq!(kind(closed.put_async(key(1), "").wait()), ErrorKind::Closed);
                assert_eq!(kind(closed.get_async(key(1)).wait()), ErrorKind::Closed);
                assert_eq!(kind(closed.put_later(key(1), "")), ErrorKind::Closed);
                assert_eq!(
                    kind(closed.multi_get_async(&[key(1)]).wait()),
                    ErrorKind::Closed
                );
                assert_eq!(
                    kind(closed.scan_page_async(key(1).., 1).wait()),
                    ErrorKind::Closed
                );
            }
            let db = open(&disk);
            let keyspace = db.existing_keyspace("k").unwrap();
            assert_eq!(contents(&keyspace).len(), 100, "{case}");
            drop(keyspace);
            db.close().unwrap();
        }
    }
}

/// Calls continue while another thread closes the database. Each ends as done or as `Closed`, and
/// every write that is done is there.
#[test]
fn closing_beside_callers_drains_or_refuses() {
    for round in 0..6 {
        let disk = SimStorage::new(round);
        let db = threaded(&disk)
            .workers(round as usize % 4)
            .worker_queue(8)
            .open()
            .unwrap();
        let keyspace = db.keyspace("k", Layout::sorted().hash(3)).unwrap();
        let done = thread::scope(|scope| {
            let callers: Vec<_> = (0..4)
                .map(|caller| {
                    let keyspace = &keyspace;
                    scope.spawn(move || {
                        let calls = (0..2000)
                            .map(|i| (i, keyspace.put_async(key(caller * 10_000 + i), value(i))));
                        let ended = calls.map(|(i, put)| (caller * 10_000 + i, put.wait()));
                        let of_kind = |result: Result<()>| result.map_err(|e| e.kind());
                        ended
                            .map(|(i, result)| (i, of_kind(result)))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            thread::yield_now();
            while db.stats().puts < 500 {
                thread::yield_now();
            }
            db.clone().close().unwrap();
            callers
                .into_iter()
                .flat_map(|c| c.join().unwrap())
                .collect::<Vec<_>>()
        });
        drop((keyspace, db));
        let db = open(&disk);
        let keyspace = db.existing_keyspace("k").unwrap();
        let there = contents(&keyspace);
        for (i, result) in done {
            match result {
                Ok(()) => assert!(there.contains_key(&key(i)), "{i} was lost"),
                Err(error) => assert_eq!(error, ErrorKind::Closed),
            }
        }
    }
}

/// The worker's own thread drops the last handle, inside of a call.
#[test]
fn a_callback_may_hold_the_last_handle() {
    for workers in 0..3 {
        let disk = SimStorage::new(10);
        let db = threaded(&disk).workers(workers).open().unwrap();
        let keyspace = db.keyspace("k", Layout::sorted().hash(3)).unwrap();
        let (go_on, wait) = channel::<()>();
        let inner = keyspace.clone();
        let update = keyspace.update_async(key(1), move |_| {
            wait.recv().unwrap();
            let _last = &inner;
            Some(b"1".to_vec())
        });
        let others: Vec<_> = (2..50)
            .map(|i| keyspace.put_async(key(i), value(i)))
            .collect();
        drop((keyspace, db));
        go_on.send(()).unwrap();
        update.wait().unwrap();
        for other in others {
            if let Err(error) = other.wait() {
                assert_eq!(error.kind(), ErrorKind::Closed);
            }
        }
        // It is closed when the worker's thread is through with it.
        let db = loop {
            match builder(&disk).open() {
                Ok(db) => break db,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Locked),
            }
            thread::yield_now();
        };
        let keyspace = db.existing_keyspace("k").unwrap();
        assert_eq!(keyspace.get(key(1)).unwrap().as_deref(), Some(&b"1"[..]));
    }
}

/// A keyspace is dropped behind the calls made before, and closed to those made after.
#[test]
fn dropping_a_keyspace_comes_in_order() {
    let disk = SimStorage::new(11);
    for (case, builder) in builders(&disk) {
        let db = builder.open().unwrap();
        let keyspace = db.keyspace("k", Layout::sorted().hash(6)).unwrap();
        let before: Vec<_> = (0..50)
            .map(|i| keyspace.put_async(key(i), value(i)))
            .collect();
        let dropped = db.drop_keyspace_async("k");
        let after = [
            keyspace.put_async(key(1), "after"),
            keyspace.delete_async(key(2)),
        ];
        before.into_iter().for_each(|put| put.wait().unwrap());
        for put in after {
            assert_eq!(kind(put.wait()), ErrorKind::Closed, "{case}");
        }
        dropped.wait().unwrap();
        assert!(db.existing_keyspace("k").is_none());
        assert_eq!(
            kind(db.drop_keyspace_async("k").wait()),
            ErrorKind::InvalidArgument
        );
        let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
        keyspace.put_async(key(1), "again").wait().unwrap();
        assert_eq!(contents(&keyspace).len(), 1, "{case}");
        db.drop_keyspace_async("k").wait().unwrap();
        drop(keyspace);
        db.close().unwrap();
    }
}

#[test]
fn a_get_from_memory_is_answered_on_the_spot() {
    let disk = SimStorage::new(12);
    let db = threaded(&disk).workers(1).open().unwrap();
    let keyspace = db.keyspace_with("k", Layout::sorted(), small()).unwrap();
    for i in 0..300 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    assert!(keyspace.get_async(key(299)).is_ready());
    keyspace.flush().unwrap();
    keyspace.wait_until_merged().unwrap();
    // The worker answers before it counts the task as done: ask until it has.
    let on_the_spot = (0..10_000).any(|_| {
        let get = keyspace.get_async(key(3));
        let ready = get.is_ready();
        assert_eq!(get.wait().unwrap().as_deref(), Some(&value(3)[..]));
        OsClock::new().sleep(Duration::from_millis(u64::from(!ready)));
        ready
    });
    assert!(on_the_spot, "its block is in the cache");
    assert_eq!(keyspace.worker(key(3)), Some(0));
    // Not past a write that is in the queue.
    let busy = Busy::new(&keyspace);
    let put = keyspace.put_async(key(299), "new");
    let get = keyspace.get_async(key(299));
    assert!(!get.is_ready());
    busy.go_on();
    put.wait().unwrap();
    assert_eq!(get.wait().unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn stats_and_explanations_tell_of_partitions_and_queues() {
    let disk = SimStorage::new(11);
    let db = threaded(&disk).workers(2).open().unwrap();
    let keyspace = db
        .keyspace("k", Layout::sorted().range([key(100)]))
        .unwrap();
    for i in 0..150 {
        keyspace.put(key(i), value(i)).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.put(key(120), value(1)).unwrap();
    let partitions = keyspace.stats().partitions;
    let entries: Vec<_> = { partitions.iter() }
        .map(|p| (p.worker, p.entries, p.memtable_entries, p.tables, p.runs))
        .collect();
    assert_eq!(entries, [(0, 100, 0, 1, 1), (1, 50, 1, 1, 1)]);
    assert_eq!(
        partitions.iter().map(|p| p.bytes).sum::<u64>(),
        keyspace.stats().table_bytes()
    );

    // The first key is of the first worker, which is kept busy.
    let busy = Busy::new(&keyspace);
    let puts: Vec<_> = (0..5).map(|i| keyspace.put_async(key(i), "new")).collect();
    let explained = [1, 120].map(|i| keyspace.explain(key(i)).unwrap());
    let told = explained.map(|explanation| {
        let worker = explanation.worker.unwrap();
        let place = (explanation.partition, explanation.partitions);
        (place, worker.index, worker.partitions, worker.queued)
    });
    assert_eq!(told, [((0, 2), 0, 1, 5), ((1, 2), 1, 1, 0)]);
    busy.go_on();
    puts.into_iter().for_each(|put| put.wait().unwrap());
    db.barrier().wait().unwrap();
    let worker = db.stats().workers[0].clone();
    assert!(worker.waited_mean() <= worker.waited_max);
    assert!(worker.waited_max <= worker.waited);
}

#[test]
fn batches_scans_and_calls_of_the_database_see_every_call_before() {
    let disk = SimStorage::new(3);
    for (case, builder) in builders(&disk) {
        let db = builder.open().unwrap();
        let keyspace = db.keyspace("k", Layout::sorted().hash(4)).unwrap();
        let before = keyspace.put_async(key(2), "before");
        let mut batch = db.batch();
        for i in 0..600 {
            batch.put(&keyspace, key(i), value(i)).unwrap();
        }
        let commit = batch.commit_async(Durability::Buffered);
        block_on(commit).unwrap();
        before.wait().unwrap();
        assert_eq!(
            keyspace.get(key(2)).unwrap().as_deref(),
            Some(&value(2)[..])
        );
        keyspace.put_later(key(0), "later").unwrap();
        let deleted = keyspace.delete_async(key(1));
        let mut scan = keyspace.scan_async(key(0)..);
        let all = block_on(async {
            let mut all = Vec::new();
            while let Some(item) = scan.next().await {
                all.push(item?);
            }
            Ok::<_, hedgerow::Error>(all)
        });
        let all = all.unwrap();
        assert_eq!(all.len(), 599, "{case}");
        assert_eq!((&*all[0].0, &*all[0].1), (&key(0)[..], &b"later"[..]));
        assert!(all.is_sorted_by(|a, b| a.0 < b.0));
        deleted.wait().unwrap();
        assert_eq!(
            block_on(keyspace.scan_async("x".."a").next()).map(|it| it.is_err()),
            None
        );
        let syncs = db.stats().log_syncs;
        block_on(db.sync_async()).unwrap();
        assert!(db.stats().log_syncs > syncs, "{case}");
        let copy = format!("/copy of {case}");
        block_on(db.checkpoint_async(&copy)).unwrap();
        let copied = Db::builder(&copy).environment(Environment::simulated(&disk, 1));
        let copied = copied.open().unwrap();
        let entries = copied.existing_keyspace("k").unwrap().scan_all().unwrap();
        assert_eq!(entries.count(), 599, "{case}");
        let empty = db.batch().commit_async(Durability::Buffered);
        empty.wait().unwrap();
        db.drop_keyspace("k").unwrap();
        assert_eq!(
            kind(block_on(keyspace.scan_async(key(0)..).next()).unwrap()),
            ErrorKind::Closed
        );
        drop(keyspace);
        block_on(db.close_async()).unwrap();
    }
}

/// A database with threads is closed on a thread of its own, and can be opened again at once.
#[test]
fn a_database_is_closed_beside_its_caller() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..3 {
        let db = Db::builder(dir.path()).workers(1).open().unwrap();
        let keyspace = db.keyspace("k", Layout::sorted()).unwrap();
        let put = keyspace.put_async(key(i), value(i));
        block_on(db.close_async()).unwrap();
        put.wait().unwrap();
        assert_eq!(kind(keyspace.get(key(i))), ErrorKind::Closed);
    }
    let db = Db::open(dir.path()).unwrap();
    assert_eq!(contents(&db.existing_keyspace("k").unwrap()).len(), 3);
}
