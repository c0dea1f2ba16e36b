//! Asynchronous calls of many clients: each key behaves like one register for all of them.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failure of the engine fails the test; histories are made of real moments"
)]

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use hedgerow::{Db, ErrorKind, Keyspace, Layout};
use hedgerow_testkit::random::Random;
use hedgerow_testkit::setup::Setup;

/// A call of a history, between two moments of a counting clock.
#[derive(Debug, Clone)]
struct Call {
    began: u64,
    ended: u64,
    /// The value written, or found by a get; 0 is no value.
    value: u64,
    is_write: bool,
}

/// Returns true if some order of the calls explains every get. A call that ended before another
/// began comes first (Wing and Gong, "Testing and verifying concurrent objects", 1993).
fn is_linearizable(calls: &[Call]) -> bool {
    let mut tried = HashSet::new();
    let mut open = vec![(vec![false; calls.len()], 0_u64)];
    while let Some((done, value)) = open.pop() {
        if done.iter().all(|&done| done) {
            return true;
        }
        let left = || calls.iter().zip(&done).filter(|(_, done)| !**done);
        let first_end = left().map(|(call, _)| call.ended).min().unwrap_or(u64::MAX);
        for (i, call) in calls.iter().enumerate() {
            let may_be_next = !done[i] && call.began <= first_end;
            if !may_be_next || (!call.is_write && call.value != value) {
                continue;
            }
            let mut done = done.clone();
            done[i] = true;
            let value = if call.is_write { call.value } else { value };
            if tried.insert((done.clone(), value)) {
                open.push((done, value));
            }
        }
    }
    false
}

#[test]
fn the_check_tells_histories_apart() {
    let call = |began, ended, value, is_write| Call {
        began,
        ended,
        value,
        is_write,
    };
    let write = call(1, 4, 7, true);
    assert!(is_linearizable(&[write.clone(), call(2, 3, 0, false)]));
    assert!(is_linearizable(&[write.clone(), call(2, 3, 7, false)]));
    assert!(!is_linearizable(&[write.clone(), call(5, 6, 0, false)]));
    let new_then_old = [write, call(2, 3, 7, false), call(5, 6, 0, false)];
    assert!(!is_linearizable(&new_then_old));
}

fn open(dir: &std::path::Path, workers: usize) -> Db {
    let builder = Db::builder(dir)
        .memory_budget(4 << 20)
        .log_segment_bytes(64 << 10);
    builder.workers(workers).worker_queue(16).open().unwrap()
}

/// Clients put, get and delete a few keys, several at once. Some of their calls are asynchronous.
#[test]
fn keys_are_linearizable() {
    const CLIENTS: u64 = 4;
    const KEYS: u64 = 3;
    for workers in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), workers);
        let layout = Layout::sorted().hash(2);
        let keyspace = db
            .keyspace_with("k", layout, Setup::tiny(0).design)
            .unwrap();
        for round in 0..60 {
            keyspace.clear().unwrap();
            let clock = AtomicU64::new(0);
            let history: Vec<(u64, Call)> = thread::scope(|scope| {
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|client| {
                        let (keyspace, clock) = (&keyspace, &clock);
                        scope.spawn(move || one_client(keyspace, clock, round, client, KEYS))
                    })
                    .collect();
                clients
                    .into_iter()
                    .flat_map(|c| c.join().unwrap())
                    .collect()
            });
            for key in 0..KEYS {
                let of_key = history.iter().filter(|(k, _)| *k == key);
                let calls: Vec<_> = of_key.map(|(_, call)| call.clone()).collect();
                assert!(
                    is_linearizable(&calls),
                    "{workers} workers, round {round}: {calls:#?}"
                );
            }
        }
    }
}

fn one_client(
    keyspace: &Keyspace,
    clock: &AtomicU64,
    round: u64,
    client: u64,
    keys: u64,
) -> Vec<(u64, Call)> {
    let now = || clock.fetch_add(1, Ordering::SeqCst);
    let number = |value: Option<hedgerow::Slice>| {
        value.map_or(0, |v| u64::from_le_bytes(v[..].try_into().unwrap()))
    };
    let mut random = Random::new(round * 100 + client);
    let mut history = Vec::new();
    for n in 0..4 {
        // Calls for one key run in order, so two calls at once are for two keys.
        let (first, second) = (random.below(keys), random.below(keys));
        let value = (client + 1) * 1000 + n;
        let began = now();
        if first != second {
            let (put, get) = (
                keyspace.put_async(first.to_be_bytes(), value.to_le_bytes()),
                keyspace.get_async(second.to_be_bytes()),
            );
            let found = number(get.wait().unwrap());
            put.wait().unwrap();
            let ended = now();
            history.push((
                first,
                Call {
                    began,
                    ended,
                    value,
                    is_write: true,
                },
            ));
            history.push((
                second,
                Call {
                    began,
                    ended,
                    value: found,
                    is_write: false,
                },
            ));
        } else if random.one_in(3) {
            keyspace.delete_async(first.to_be_bytes()).wait().unwrap();
            history.push((
                first,
                Call {
                    began,
                    ended: now(),
                    value: 0,
                    is_write: true,
                },
            ));
        } else if random.one_in(2) {
            keyspace
                .put(first.to_be_bytes(), value.to_le_bytes())
                .unwrap();
            history.push((
                first,
                Call {
                    began,
                    ended: now(),
                    value,
                    is_write: true,
                },
            ));
        } else {
            let value = number(keyspace.get(first.to_be_bytes()).unwrap());
            history.push((
                first,
                Call {
                    began,
                    ended: now(),
                    value,
                    is_write: false,
                },
            ));
        }
    }
    history
}

/// Sixty-four threads use keyspaces that come and go. Then the database is closed among them.
#[test]
fn threads_open_drop_and_close_beside_each_other() {
    const THREADS: u64 = 64;
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), 2);
    let design = Setup::tiny(0).design;
    let stays = db
        .keyspace_with("stays", Layout::sorted().hash(4), design.clone())
        .unwrap();
    let is_closing = AtomicBool::new(false);
    let written = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                let (db, stays, design, is_closing) = (&db, &stays, &design, &is_closing);
                scope.spawn(move || {
                    let mut random = Random::new(t);
                    let mut written = BTreeMap::new();
                    for n in 0.. {
                        let name = format!("goes-{}", random.below(4));
                        let layout = Layout::sorted().hash(3);
                        // Another thread may drop the keyspace at any moment.
                        if let Ok(goes) = db.keyspace_with(&name, layout, design.clone()) {
                            let puts = [goes.put_async("k", "v"), goes.put_async("l", "w")];
                            let get = goes.get_async("k");
                            for error in puts.into_iter().filter_map(|put| put.wait().err()) {
                                assert_eq!(error.kind(), ErrorKind::Closed);
                            }
                            if let Ok(Some(value)) = get.wait() {
                                assert_eq!(&*value, b"v");
                            }
                        }
                        if random.one_in(16) {
                            let _ = db.drop_keyspace_async(&name).wait();
                        }
                        let key = (t * 1_000_000 + n).to_be_bytes();
                        match stays.put_async(key, n.to_le_bytes()).wait() {
                            Ok(()) => drop(written.insert(key, n)),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Closed);
                                assert!(is_closing.load(Ordering::SeqCst));
                                break;
                            }
                        }
                        if t == 0 && n == 30 {
                            is_closing.store(true, Ordering::SeqCst);
                            db.clone().close().unwrap();
                        }
                    }
                    written
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect::<Vec<_>>()
    });
    drop((stays, db));
    let db = open(dir.path(), 0);
    db.verify().unwrap();
    let stays = db.existing_keyspace("stays").unwrap();
    for (key, n) in written {
        assert_eq!(
            stays.get(key).unwrap().as_deref(),
            Some(&n.to_le_bytes()[..])
        );
    }
}
