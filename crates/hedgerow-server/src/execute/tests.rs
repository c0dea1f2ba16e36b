use std::sync::Arc;
use std::sync::mpsc::channel;
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
fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

async fn set(server: Arc<Server>, i: u32) {
    let key = format!("{i}");
    let reply = run(&server, &[b"set", key.as_bytes(), &[b'v'; 4000]]).await;
    assert_eq!(reply, "+OK\r\n");
}

#[test]
fn a_commit_that_waits_for_a_flush_leaves_the_thread_to_others() {
    let disk = SimStorage::new(1);
    let runtime = runtime();
    let server = {
        let _entered = runtime.enter();
        server_on(&disk)
    };
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
            let mut outcome = Outcome {
                replies: Vec::new(),
                effects: Effects::default(),
                db: 0,
                wrote: false,
                refused: false,
                took: Vec::new(),
            };
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
    let runtime = runtime();
    runtime.block_on(runtime.spawn(work)).unwrap();
}
