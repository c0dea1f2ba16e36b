use std::sync::atomic::AtomicI64;

use hedgerow_io::Environment;
use hedgerow_io::sim::{Fault, OpClass, SimStorage};

use super::*;
use crate::commands::config::Fsync;
use crate::commands::find;
use crate::commands::info::persistence;
use crate::execute::{Call, Caller, Outcome};
use crate::server::Server;
use crate::store::Effects;
use crate::testing::{run, threaded};

fn server_on(disk: &SimStorage) -> Server {
    crate::testing::server_on(Environment::simulated(disk, 1), Fsync::Always).unwrap()
}

/// A client that waits with a command.
fn wait(server: &Server, words: &str) -> (Arc<Waiter>, oneshot::Receiver<Reply>) {
    let user = server.acl.first().0;
    let (here, there) = ("here".to_owned(), "there".to_owned());
    let client = server.clients.add(&server.buffers, user, here, there);
    let args: Vec<_> = words.split(' ').map(|it| it.as_bytes().to_vec()).collect();
    let command = find(&args[0]).unwrap();
    let (waiter, receiver) = Waiter::new(client, (command, args), (0, false));
    server.waiters.add(&waiter);
    (waiter, receiver)
}

/// Runs a command, and tells of its changes.
async fn call(server: &Server, words: &str) {
    let args: Vec<_> = words.split(' ').map(str::as_bytes).collect();
    let command = find(args[0]).unwrap();
    let call = Call {
        command,
        args: &args,
    };
    let outcome = server.run(Caller::default(), &[call]).await;
    assert!(!outcome.replies[0].is_error(), "{words}");
    server.announce(outcome.effects).await;
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(4).enable_all().build().unwrap()
}

fn threaded_server(runtime: &tokio::runtime::Runtime, seed: u64) -> Arc<Server> {
    let _entered = runtime.enter();
    let environment = threaded(&SimStorage::new(seed));
    Arc::new(crate::testing::server_on(environment, Fsync::Never).unwrap())
}

async fn push(server: &Server, element: &[u8]) -> Outcome {
    let command = find(b"rpush").unwrap();
    let args: [&[u8]; 3] = [b"rpush", b"queue", element];
    let call = Call {
        command,
        args: &args,
    };
    server.run(Caller::default(), &[call]).await
}

/// With `appendfsync always` also a client that waits gets no element that a loss of power takes.
#[test]
fn who_waits_gets_what_is_durable() {
    let disk = SimStorage::new(1);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(async {
        let server = server_on(&disk);
        let client = server.clients.add(
            &server.buffers,
            server.acl.first().0,
            "here".to_owned(),
            "there".to_owned(),
        );
        let args = ["blpop", "queue", "0"].map(|it| it.as_bytes().to_vec());
        let command = (find(b"blpop").unwrap(), args.to_vec());
        for fails in [false, true] {
            let (waiter, mut receiver) = Waiter::new(client.clone(), command.clone(), (0, false));
            server.waiters.add(&waiter);
            let outcome = push(&server, b"element").await;
            let syncs = server.db().stats().log_syncs;
            if fails {
                disk.fail_after(OpClass::Sync, 0, Fault::Io);
            }
            server.announce(outcome.effects).await;
            let reply = receiver.try_recv().unwrap();
            assert_eq!(reply.is_error(), fails, "{reply:?}");
            assert!(server.db().stats().log_syncs > syncs);
            server.waiters.remove(&waiter);
        }
        let told = persistence(&server);
        assert!(told.contains("aof_last_write_status:err"), "{told}");
        let refused = push(&server, b"another").await.replies;
        assert!(refused[0].is_error(), "{refused:?}");
    });
}

/// An LPUSH ran the commands of all who wait for the key.
#[test]
fn one_element_runs_the_command_of_whom_it_is_for_and_one_more() {
    runtime().block_on(async {
        let server = Arc::new(server_on(&SimStorage::new(2)));
        let mut waiting: Vec<_> = (0..30).map(|_| wait(&server, "blpop queue 0")).collect();
        // Somebody else runs them: whoever ran one of them, too, would wait for ever.
        let behind: Vec<_> = waiting[3..].iter().map(|it| it.0.clone()).collect();
        let mut turns = Vec::new();
        for waiter in &behind {
            turns.push(waiter.turn().await.unwrap());
        }
        // One has left, and hands nothing on.
        assert!(waiting[0].0.leave().await.is_some());
        call(&server, "rpush queue element").await;
        assert!(waiting[1].1.try_recv().is_ok());
        assert!(waiting[2].1.try_recv().is_err());
        drop(turns);
        // The others still wait for what comes.
        server.waiters.remove(&waiting[1].0);
        call(&server, "rpush queue one two three").await;
        for (_, receiver) in &mut waiting[2..5] {
            assert!(receiver.try_recv().is_ok());
        }
        assert!(waiting[5].1.try_recv().is_err());
        // One that runs elsewhere may have looked before the element came: it looks again, and
        // nobody behind it has the element meanwhile.
        let turn = behind[2].turn().await.unwrap();
        let pushing = tokio::spawn({
            let server = server.clone();
            async move { call(&server, "rpush queue last").await }
        });
        while run(&server, &[b"llen", b"queue"]).await != ":1\r\n" {
            tokio::task::yield_now().await;
        }
        drop(turn);
        pushing.await.unwrap();
        assert!(waiting[5].1.try_recv().is_ok());
        assert!(waiting[6].1.try_recv().is_err());
    });
}

/// An element passed a client whose command somebody else ran in that moment.
#[test]
fn who_came_first_is_served_first() {
    const CLIENTS: usize = 6;
    let first = std::env::var("HEDGEROW_SEED").map_or(0, |it| it.parse().unwrap());
    let runtime = runtime();
    for seed in first..first + 100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let server = threaded_server(&runtime, seed);
        runtime.block_on(async {
            let mut waiting = Vec::new();
            for _ in 0..CLIENTS {
                waiting.push(wait(&server, "blpop queue 0"));
            }
            // Some tell of changes of the key that leave nothing in it.
            let looks = (0..3).map(|_| {
                let (server, looks) = (server.clone(), random.u8(1..30));
                tokio::spawn(async move {
                    for _ in 0..looks {
                        let effects = Effects {
                            ready: vec![(0, b"queue".to_vec())],
                            ..Effects::default()
                        };
                        server.announce(effects).await;
                        tokio::task::yield_now().await;
                    }
                })
            });
            let looks: Vec<_> = looks.collect();
            for number in 0..CLIENTS {
                for _ in 0..random.u8(0..4) {
                    tokio::task::yield_now().await;
                }
                call(&server, &format!("rpush queue {number}")).await;
            }
            for look in looks {
                look.await.unwrap();
            }
            for (number, (_, receiver)) in waiting.iter_mut().enumerate() {
                let wanted = format!("*2\r\n$5\r\nqueue\r\n$1\r\n{number}\r\n");
                let mut reply = Vec::new();
                receiver.try_recv().unwrap().write(&mut reply, false);
                let reply = String::from_utf8(reply).unwrap();
                assert_eq!(reply, wanted, "HEDGEROW_SEED={seed}");
            }
        });
    }
}

/// A line in front that finds nothing keeps nobody else from what there is.
#[test]
fn who_waits_for_another_thing_is_in_another_line() {
    runtime().block_on(async {
        let server = server_on(&SimStorage::new(3));
        let mut lists = [
            wait(&server, "blmove none k LEFT RIGHT 0"),
            wait(&server, "blpop k 0"),
        ];
        let mut sets = [
            wait(&server, "bzpopmin k 0"),
            wait(&server, "bzmpop 0 2 none k MAX"),
        ];
        let mut streams = ["1-1", "0-1", "0-1"].map(|id| {
            let words = format!("xread BLOCK 0 STREAMS k {id}");
            wait(&server, &words)
        });
        call(&server, "zadd k 1 one").await;
        assert!(sets[0].1.try_recv().is_ok());
        call(&server, "zadd k 1 two").await;
        assert!(sets[1].1.try_recv().is_ok());
        call(&server, "lpush k element").await;
        assert!(lists[1].1.try_recv().is_ok());
        call(&server, "xadd k 0-2 f v").await;
        let has_reply = streams.each_mut().map(|it| it.1.try_recv().is_ok());
        assert_eq!(has_reply, [false, true, true]);
        // An element that is moved is for those who wait where it comes.
        call(&server, "del k").await;
        let mut last = wait(&server, "blpop k 0");
        call(&server, "lpush none element").await;
        assert!(lists[0].1.try_recv().is_ok() && last.1.try_recv().is_ok());
    });
}

/// Clients that come, leave and add elements on several threads.
#[test]
fn nobody_waits_beside_an_element() {
    const WAITERS: usize = 40;
    let first = std::env::var("HEDGEROW_SEED").map_or(0, |it| it.parse().unwrap());
    let runtime = runtime();
    for seed in first..first + 30 {
        let server = threaded_server(&runtime, seed);
        let pushed = Arc::<AtomicI64>::default();
        let tasks = (0..8).map(|task| {
            let (server, pushed) = (server.clone(), pushed.clone());
            let mut random = fastrand::Rng::with_seed(seed * 8 + task);
            runtime.spawn(async move {
                let mut waiting = Vec::new();
                for _ in 0..WAITERS / 8 {
                    let number = random.u8(0..2);
                    waiting.push(wait(&server, &format!("blpop q{number} q{} 0", 1 - number)));
                    // Whoever begins to wait looks once by itself.
                    if let Some((waiter, _)) = waiting.last() {
                        let served = server.serve(waiter).await;
                        if let crate::execute::Served::Replied(effects) = served {
                            server.announce(*effects).await;
                        }
                    }
                    if random.bool() {
                        pushed.fetch_add(1, Ordering::SeqCst);
                        call(&server, &format!("rpush q{} v", random.u8(0..2))).await;
                    }
                    if random.u8(0..4) == 0 && waiting[0].0.leave().await.is_some() {
                        server.waiters.remove(&waiting[0].0);
                    }
                    tokio::task::yield_now().await;
                }
                waiting
            })
        });
        let tasks: Vec<_> = tasks.collect();
        runtime.block_on(async {
            let mut waiting = Vec::new();
            for task in tasks {
                waiting.append(&mut task.await.unwrap());
            }
            let has_left = |it: &Waiter| it.reply.try_lock().unwrap().is_none();
            let (mut served, mut left) = (0, 0);
            for (waiter, receiver) in &mut waiting {
                match receiver.try_recv() {
                    Ok(_) => served += 1,
                    Err(_) => left += usize::from(!has_left(waiter)),
                }
            }
            let lengths = [
                run(&server, &[b"llen", b"q0"]).await,
                run(&server, &[b"llen", b"q1"]).await,
            ];
            let number =
                |text: &String| text.trim_matches([':', '\r', '\n']).parse::<i64>().unwrap();
            let length: i64 = lengths.iter().map(number).sum();
            assert_eq!(
                served + length,
                pushed.load(Ordering::SeqCst),
                "HEDGEROW_SEED={seed}"
            );
            assert!(
                left == 0 || length == 0,
                "HEDGEROW_SEED={seed}: {left} wait beside {length} elements"
            );
        });
    }
}
