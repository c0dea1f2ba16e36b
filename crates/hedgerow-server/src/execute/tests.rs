use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hedgerow_io::sim::SimStorage;
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::commands::config::Fsync;
use crate::commands::find;
use crate::testing::{run, threaded};

/// A value that does not get shorter by compression.
const STOPS: &[u8] = b"the flush stops: 5801";

fn server_on(disk: &SimStorage) -> Arc<Server> {
    let server = crate::testing::server_on(threaded(disk), Fsync::Never);
    Arc::new(server.unwrap())
}

/// A runtime with one thread.
fn runtime(threads: usize) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(threads).enable_all();
    builder.build().unwrap()
}

fn begin(disk: &SimStorage, threads: usize) -> (Runtime, Arc<Server>) {
    let runtime = runtime(threads);
    let server = {
        let _entered = runtime.enter();
        server_on(disk)
    };
    (runtime, server)
}

async fn set(server: Arc<Server>, i: u32) {
    let key = format!("{i}");
    let reply = run(&server, &[b"set", key.as_bytes(), &[b'v'; 4000]]).await;
    assert_eq!(reply, "+OK\r\n");
}

#[test]
fn a_commit_that_waits_for_a_flush_leaves_the_thread_to_others() {
    let disk = SimStorage::new(1);
    let (runtime, server) = begin(&disk, 1);
    let on_thread = |i: u32| runtime.spawn(set(server.clone(), i));
    let first = server.clone();
    let first = async move { run(&first, &[b"set", b"k", STOPS]).await };
    assert_eq!(runtime.block_on(runtime.spawn(first)).unwrap(), "+OK\r\n");
    let stall = disk.stall_write(STOPS);
    let mut written = 0;
    while !server.db().writes_wait() {
        runtime.block_on(on_thread(written)).unwrap();
        written += 1;
    }
    let waiting: Vec<_> = (0..10).map(|i| on_thread(written + i)).collect();
    // Behind them in the line of the thread.
    let (sender, receiver) = channel();
    let reader = server.clone();
    runtime.spawn(async move {
        for _ in 0..100 {
            let reply = run(&reader, &[b"get", b"k"]).await;
            sender.send(reply).unwrap();
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..100 {
        let reply = receiver.recv_timeout(Duration::from_secs(60));
        assert!(reply.expect("the thread continues").contains("the flush"));
    }
    assert!(waiting.iter().all(|it| !it.is_finished()));
    drop(stall);
    for set in waiting {
        runtime.block_on(set).unwrap();
    }
    let size = runtime.block_on(runtime.spawn(async move { run(&server, &[b"dbsize"]).await }));
    assert_eq!(size.unwrap(), format!(":{}\r\n", written + 11));
}

/// Memory has the entry of the hash, and not its fields.
#[test]
fn a_walk_in_memory_mode_reads_no_file() {
    let disk = SimStorage::new(2);
    let at_once = disk.clone();
    let work = async move {
        {
            let server = server_on(&at_once);
            for i in 0..30 {
                let field = format!("field{i}");
                run(&server, &[b"hset", b"hash", field.as_bytes(), &[b'v'; 500]]).await;
            }
            server.db().flush().unwrap();
            server.db().close().unwrap();
        }
        let server = server_on(&at_once);
        assert_eq!(run(&server, &[b"hlen", b"hash"]).await, ":30\r\n");
        let args: &[&[u8]] = &[b"hkeys", b"hash"];
        let command = find(args[0]).unwrap();
        let attempt = || {
            let mut outcome = Outcome::begin(0, 1);
            let manner = Manner {
                pins: true,
                ..Manner::first()
            };
            let call = Call { command, args };
            let reads = at_once.counters().reads;
            let next = server.attempt(Caller::default(), &[call], manner, &mut outcome);
            assert_eq!(at_once.counters().reads, reads, "a read of a file");
            assert_eq!(outcome.replies.len(), outcome.took.len());
            (next, outcome.replies.len())
        };
        assert!(matches!(attempt(), (Next::Device, 0)));
        let keys = run(&server, args).await;
        assert!(keys.starts_with("*30\r\n"), "{keys}");
        assert!(matches!(attempt(), (Next::Done, 1)));
    };
    let runtime = runtime(1);
    runtime.block_on(runtime.spawn(work)).unwrap();
}

/// Sets the keys of a pipeline, all in one attempt.
async fn pipeline(server: &Server, random: &mut fastrand::Rng) {
    let keys: Vec<Vec<u8>> = (0..16)
        .map(|_| random.u64(..).to_le_bytes().into())
        .collect();
    let args: Vec<[&[u8]; 3]> = keys.iter().map(|key| [&b"set"[..], key, b"v"]).collect();
    let command = find(b"set").unwrap();
    let calls: Vec<_> = args.iter().map(|args| Call { command, args }).collect();
    let outcome = server.run(Caller::default(), &calls).await;
    assert_eq!(outcome.replies.len(), calls.len());
}

/// A command that takes all stripes.
async fn walk_in_transaction(server: &Server) {
    let caller = Caller {
        atomic: Some(&|| true),
        ..Caller::default()
    };
    let call = Call {
        command: find(b"dbsize").unwrap(),
        args: &[b"dbsize"],
    };
    let outcome = server.run(caller, &[call]).await;
    assert_eq!(outcome.replies.len(), 1);
}

/// Each of them may be in an attempt when the gate is closed, and begins no other one.
#[test]
fn one_attempt_of_each_client_passes_one_that_takes_all_keys() {
    const CLIENTS: usize = 8;
    let disk = SimStorage::new(3);
    let (runtime, server) = begin(&disk, 4);
    let (ended, attempts) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
    let clients = (0..CLIENTS).map(|i| {
        let (server, ended, attempts) = (server.clone(), ended.clone(), attempts.clone());
        runtime.spawn(async move {
            let mut random = fastrand::Rng::with_seed(i as u64);
            while !ended.load(Ordering::SeqCst) {
                pipeline(&server, &mut random).await;
                attempts.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    runtime.block_on(async {
        for _ in 0..50 {
            // Between two that close the gate, the others have their turn.
            let behind = attempts.load(Ordering::SeqCst) + 1;
            while attempts.load(Ordering::SeqCst) < behind {
                tokio::task::yield_now().await;
            }
            let turn = server.stripes.gate.close().await;
            let before = attempts.load(Ordering::SeqCst);
            while server.stripes.try_hold_all().is_none() {
                tokio::task::yield_now().await;
            }
            let passed = attempts.load(Ordering::SeqCst) - before;
            drop(turn);
            assert!(passed <= CLIENTS, "{passed} attempts have passed");
        }
        ended.store(true, Ordering::SeqCst);
        for client in clients {
            client.await.unwrap();
        }
    });
}

/// A script may hold its key for minutes.
#[test]
fn a_stripe_that_is_held_for_long_keeps_others_out_of_no_other_one() {
    let disk = SimStorage::new(5);
    let (runtime, server) = begin(&disk, 1);
    runtime.block_on(async {
        let of_key = Stripes::of(server.databases().hash(b"k"));
        let held = server.stripes.try_hold(&mut vec![of_key ^ 1]).unwrap();
        let walker = server.clone();
        let walk = runtime.spawn(async move { walk_in_transaction(&walker).await });
        for i in 0..3 {
            while !server.stripes.gate.is_closed() {
                tokio::task::yield_now().await;
            }
            // It waits behind the gate until that is opened.
            let reply = run(&server, &[b"set", b"k", b"v"]).await;
            assert_eq!(reply, "+OK\r\n", "{i}");
            assert!(!walk.is_finished());
        }
        drop(held);
        walk.await.unwrap();
    });
}

/// The key of the newcomers is free.
#[test]
fn newcomers_come_behind_those_that_take_all_keys() {
    let disk = SimStorage::new(4);
    let (runtime, server) = begin(&disk, 1);
    let served = Arc::<Mutex<Vec<&str>>>::default();
    runtime.block_on(async {
        let of_key = Stripes::of(server.databases().hash(b"k"));
        let held = server.stripes.try_hold(&mut vec![of_key ^ 1]).unwrap();
        let spawn = |name: &'static str| {
            let (server, served) = (server.clone(), served.clone());
            let begun = Arc::<AtomicBool>::default();
            let has_begun = begun.clone();
            let task = runtime.spawn(async move {
                has_begun.store(true, Ordering::SeqCst);
                match name {
                    "set" => drop(run(&server, &[b"set", b"k", b"v"]).await),
                    _ => walk_in_transaction(&server).await,
                }
                lock(&served).push(name);
            });
            (task, begun)
        };
        let mut tasks = Vec::new();
        for name in ["first", "second", "set", "set"] {
            let (task, begun) = spawn(name);
            tasks.push(task);
            while !begun.load(Ordering::SeqCst) || !server.stripes.gate.is_closed() {
                tokio::task::yield_now().await;
            }
        }
        // The thread has one line: this one is behind the attempts of all before.
        runtime.spawn(async {}).await.unwrap();
        assert!(lock(&served).is_empty(), "{:?}", lock(&served));
        drop(held);
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*lock(&served), ["first", "second", "set", "set"]);
}
