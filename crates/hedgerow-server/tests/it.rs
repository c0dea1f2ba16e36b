//! The server as clients see it, over a socket.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod channels;
mod client;
mod events;
mod fields;
mod kill;
mod linearizable;
mod lists;
mod names;
mod noise;
mod operations;
mod parts;
mod pause;
mod replicas;
mod replies;
mod scripts;
mod slots;
mod statuses;
#[cfg(feature = "tls")]
mod tls;
mod tracking;
mod transactions;
mod transfers;
mod users;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use client::{Client, Value, bulk, int};
use hedgerow_server::{Options, serve};

/// A server in this process, which ends with SHUTDOWN.
struct Served {
    address: SocketAddr,
    thread: JoinHandle<hedgerow::Result<()>>,
}

impl Served {
    fn begin(dir: &Path) -> Served {
        Served::with(dir, |_| {})
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the server runs on a thread of its own"
    )]
    fn with(dir: &Path, change: impl FnOnce(&mut Options)) -> Served {
        let mut options = Options::new(dir);
        options.port = 0;
        options.memory_budget = 64 << 20;
        options.threads = 2;
        change(&mut options);
        let (sender, receiver) = mpsc::channel();
        let thread =
            std::thread::spawn(move || serve(options, |address| sender.send(address).unwrap()));
        Served {
            address: receiver.recv().unwrap(),
            thread,
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.address)
    }

    fn client_of(&self, password: &str) -> Client {
        let mut client = self.client();
        assert_eq!(
            client.call(&format!("AUTH {password}")),
            Value::status("OK")
        );
        client
    }

    fn end(self) {
        self.client().shut_down();
        self.join();
    }

    fn join(self) {
        self.thread.join().unwrap().unwrap();
    }
}

#[test]
fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("SET greeting hello");
    client.call("HSET h a 1 b 2");
    client.call("RPUSH l a b c");
    client.call("ZADD z 2 two 1 one");
    client.call("SADD s x y");
    client.call("SET brief x PX 100000000");
    client.call("SELECT 3");
    client.call("SET other 1");
    served.end();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    assert_eq!(client.call("GET greeting"), bulk("hello"));
    assert_eq!(client.call("HGET h b"), bulk("2"));
    assert_eq!(client.call("LRANGE l 0 -1"), Value::bulks(["a", "b", "c"]));
    assert_eq!(client.call("ZRANGE z 0 -1"), Value::bulks(["one", "two"]));
    assert_eq!(client.call("SCARD s"), int(2));
    assert_eq!(client.call("DBSIZE"), int(6));
    assert!(matches!(client.call("PTTL brief"), Value::Integer(1..)));
    client.call("SELECT 3");
    assert_eq!(client.call("DBSIZE"), int(1));
    served.end();
}

/// SHUTDOWN has no reply: whoever sees the end of the connection can open the database.
#[test]
fn the_database_is_closed_before_the_last_connection() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for wrong in [
        "SHUTDOWN SAVE NOSAVE",
        "SHUTDOWN SOON",
        "SHUTDOWN ABORT NOW",
    ] {
        assert_eq!(client.call(wrong).to_string(), "-ERR syntax error");
    }
    let aborted = client.call("SHUTDOWN ABORT").to_string();
    assert_eq!(aborted, "-ERR No shutdown in progress.");
    let calls = ["SET k v", "SHUTDOWN NOSAVE NOW", "SET k behind"];
    calls.iter().for_each(|words| client.send(words));
    assert_eq!(client.receive(), Value::status("OK"));
    assert_eq!(client.try_receive(), None);
    hedgerow::Db::open(dir.path()).unwrap().close().unwrap();
    served.join();
    let served = Served::begin(dir.path());
    assert_eq!(served.client().call("GET k"), bulk("v"));
    served.end();
}

#[test]
fn a_deleted_collection_leaves_nothing_to_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for round in 0..3 {
        client.call(&format!("HSET k field{round} v"));
        assert_eq!(
            client.call("HKEYS k"),
            Value::bulks([format!("field{round}")])
        );
        client.call(if round == 0 { "DEL k" } else { "SET k string" });
        client.call("DEL k");
        assert_eq!(client.call("DBSIZE"), int(0));
    }
    client.call("ZADD z 1 a");
    client.call("RENAME z y");
    assert_eq!(client.call("ZSCORE y a"), bulk("1"));
    client.call("SADD z a");
    client.call("DEL y");
    assert_eq!(client.call("SMEMBERS z"), Value::bulks(["a"]));
    served.end();
}

/// The commands of a pipeline see those before them, and only theirs fail.
/// By the nearest hash alone, one of three came 28 times in 300 draws.
#[test]
fn each_member_is_as_likely_as_any_other() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for round in 0..20 {
        client.call(&format!("SADD s{round} a b c"));
        let draws: Vec<Value> = (0..300)
            .map(|_| client.call(&format!("SRANDMEMBER s{round}")))
            .collect();
        for member in ["a", "b", "c"] {
            let wanted = bulk(member);
            let drawn = draws.iter().filter(|it| **it == wanted).count();
            // 100 are expected, and the standard deviation is 8.
            assert!((50..=150).contains(&drawn), "{member}: {drawn} of 300");
        }
    }
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let replies = client.pipeline(&[
        "SET a 1",
        "INCR a",
        "LPUSH a x",
        "GET a",
        "DEL a",
        "LPUSH a x",
        "LLEN a",
        "NONE",
        "PING",
        "SELECT 1",
        "EXISTS a",
        "SELECT 0",
        "EXISTS a",
        "DBSIZE",
    ]);
    let texts: Vec<String> = replies.iter().map(|it| it.to_string()).collect();
    let expected = [
        "+OK",
        ":2",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
        "2",
        ":1",
        ":1",
        ":1",
        "-ERR unknown command 'NONE', with args beginning with:",
        "+PONG",
        "+OK",
        ":0",
        "+OK",
        ":1",
        ":1",
    ];
    assert_eq!(texts, expected);
    served.end();
}

#[test]
fn a_transaction_is_refused_after_a_change_of_a_watched_key() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut one, mut other) = (served.client(), served.client());
    for change in ["SET k 2", "DEL k", "FLUSHALL", "EXPIRE k 100"] {
        one.call("SET k 1");
        one.call("WATCH k");
        other.call(change);
        one.call("MULTI");
        one.call("SET k mine");
        assert_eq!(one.call("EXEC"), Value::Null, "{change}");
    }
    one.call("SET k 1");
    one.call("WATCH k");
    other.call("SET another 2");
    one.call("MULTI");
    assert_eq!(one.call("INCR k"), Value::status("QUEUED"));
    assert_eq!(one.call("EXEC"), Value::Array(vec![int(2)]));
    served.end();
}

#[test]
fn who_waits_is_served_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut waiting: Vec<Client> = (0..3).map(|_| served.client()).collect();
    let mut client = served.client();
    for (place, it) in waiting.iter_mut().enumerate() {
        it.send("BLPOP queue 0");
        while client
            .call("INFO clients")
            .to_string()
            .contains(&format!("blocked_clients:{place}\r"))
        {}
    }
    client.call("RPUSH queue a b c d");
    for (it, value) in waiting.iter_mut().zip(["a", "b", "c"]) {
        assert_eq!(it.receive(), Value::bulks(["queue", value]));
    }
    assert_eq!(client.call("LRANGE queue 0 -1"), Value::bulks(["d"]));
    assert_eq!(client.call("BRPOP none 0.01"), Value::Null);
    served.end();
}

/// A client that is cut off while messages wait for it takes no element any more.
#[test]
fn who_is_cut_off_waits_no_longer() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut slow, mut client) = (served.client(), served.client());
    slow.call("HELLO 3");
    slow.call("SUBSCRIBE c");
    let Value::Integer(id) = slow.call("CLIENT ID") else {
        panic!("expected a number");
    };
    slow.send("BLPOP queue 0");
    let clients = |client: &mut Client| client.call("INFO clients").to_string();
    while !clients(&mut client).contains("blocked_clients:1\r") {}
    // More than the sockets hold, so that the server waits for the client to read.
    let message = format!("PUBLISH c {}", "m".repeat(1 << 20));
    (0..16).for_each(|_| drop(client.call(&message)));
    assert_eq!(client.call(&format!("CLIENT KILL ID {id}")), int(1));
    client.call("RPUSH queue a");
    assert_eq!(client.call("LRANGE queue 0 -1"), Value::bulks(["a"]));
    served.end();
}

#[test]
fn expired_keys_go_and_are_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut listener) = (served.client(), served.client());
    client.call("CONFIG SET notify-keyspace-events Ex");
    listener.call("SUBSCRIBE __keyevent@0__:expired");
    client.call("HSET h a 1");
    client.call("PEXPIRE h 1");
    // The key is removed though nobody reads it.
    assert_eq!(
        listener.receive(),
        Value::bulks(["message", "__keyevent@0__:expired", "h"])
    );
    assert_eq!(client.call("DBSIZE"), int(0));
    served.end();
}

/// A walk meets every key that is there all the time, whatever happens to others.
#[test]
fn scan_meets_every_key_that_stays() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for i in 0..1_000 {
        client.call(&format!("SET stays:{i} x"));
    }
    let (mut cursor, mut met) = ("0".to_owned(), std::collections::BTreeSet::new());
    for round in 0.. {
        client.call(&format!("SET goes:{round} x"));
        client.call(&format!("DEL goes:{}", round / 2));
        let Value::Array(parts) = client.call(&format!("SCAN {cursor} COUNT 7 MATCH stays:*"))
        else {
            panic!("expected an array");
        };
        let Value::Array(keys) = &parts[1] else {
            panic!("expected an array of keys");
        };
        met.extend(keys.iter().map(Value::to_string));
        cursor = parts[0].to_string();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(met.len(), 1_000);
    served.end();
}

#[test]
fn another_address_than_the_loopback_needs_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::new(dir.path());
    options.bind = "0.0.0.0".parse().unwrap();
    let error = serve(options, |_| {}).unwrap_err();
    assert_eq!(error.kind(), hedgerow::ErrorKind::InvalidArgument);
    let served = Served::with(dir.path(), |options| options.password = "secret".to_owned());
    let mut client = served.client();
    assert_eq!(
        client.call("GET a").to_string(),
        "-NOAUTH Authentication required."
    );
    assert!(
        client
            .call("AUTH wrong")
            .to_string()
            .starts_with("-WRONGPASS")
    );
    assert_eq!(client.call("AUTH secret"), Value::status("OK"));
    assert_eq!(client.call("GET a"), Value::Null);
    client.shut_down();
    served.thread.join().unwrap().unwrap();
}

/// More data than memory: reads that miss, from several clients, with writes between them.
#[test]
fn data_may_be_larger_than_memory() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::with(dir.path(), |options| options.memory_budget = 16 << 20);
    let mut client = served.client();
    let value = |i: usize| format!("{i}:{}", "x".repeat(4_000 + i % 7));
    for begin in (0..10_000).step_by(100) {
        let calls: Vec<String> = (begin..begin + 100)
            .map(|i| format!("SET k{i} {}", value(i)))
            .collect();
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        assert!(
            client
                .pipeline(&calls)
                .iter()
                .all(|it| *it == Value::status("OK"))
        );
    }
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..50 {
        let picked: Vec<usize> = (0..20).map(|_| random.usize(..10_000)).collect();
        let calls: Vec<String> = picked.iter().map(|i| format!("GET k{i}")).collect();
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        for (i, reply) in picked.iter().zip(client.pipeline(&calls)) {
            assert_eq!(reply, bulk(&value(*i)));
        }
    }
    assert_eq!(client.call("DBSIZE"), int(10_000));
    served.end();
}

/// Replies to the first commands of a pipeline are sent before the last ones are made: together
/// they are more than what may wait for clients.
#[test]
fn a_pipeline_may_ask_for_more_than_memory() {
    const VALUE_BYTES: usize = 4 << 20;
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let value = bulk(&"v".repeat(VALUE_BYTES));
    client.call(&format!("SET k {value}"));
    let replies = client.pipeline(&["GET k"; 40]);
    assert!(replies.iter().all(|it| *it == value));
    served.end();
}

/// The bytes that wait for clients or because of them.
fn waiting_bytes(client: &mut Client) -> usize {
    let info = client.call("INFO memory").to_string();
    let (_, rest) = info.split_once("used_memory_clients:").unwrap();
    rest.lines().next().unwrap().parse().unwrap()
}

/// A large reply that is made, and waits for small ones before it that its client does not read,
/// counts with them.
#[test]
fn replies_that_wait_for_others_count() {
    const SMALL_BYTES: usize = 120 << 10;
    const LARGE_BYTES: usize = 16 << 20;
    // As many as are made together with the large one.
    const SMALL_COUNT: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call(&format!("SET small {}", "s".repeat(SMALL_BYTES)));
    client.call(&format!("SET large {}", "l".repeat(LARGE_BYTES)));
    let mut slow = Client::connect_with_small_buffers(served.address);
    slow.send_together(&[&["GET small"; SMALL_COUNT][..], &["GET large"]].concat());
    replicas::until("both kinds wait", || {
        waiting_bytes(&mut client) >= LARGE_BYTES + SMALL_COUNT * SMALL_BYTES
    });
    for _ in 0..SMALL_COUNT {
        assert!(matches!(slow.receive(), Value::Bulk(text) if text.len() == SMALL_BYTES));
    }
    assert!(matches!(slow.receive(), Value::Bulk(text) if text.len() == LARGE_BYTES));
    assert_eq!(slow.call("PING"), Value::status("PONG"));
    assert!(waiting_bytes(&mut client) < SMALL_BYTES);
    served.end();
}

/// Clients that ask for much and read nothing are cut off, and others are served.
#[test]
fn slow_readers_do_not_take_the_memory() {
    const VALUE_BYTES: usize = 4 << 20;
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let value = "v".repeat(VALUE_BYTES);
    client.call(&format!("SET k {value}"));
    let mut slow: Vec<Client> = (0..40).map(|_| served.client()).collect();
    for it in &mut slow {
        (0..4).for_each(|_| it.send("GET k"));
    }
    for _ in 0..100 {
        // The bound, and what one client had when it was refused.
        assert!(waiting_bytes(&mut client) < (64 << 20) + 5 * VALUE_BYTES);
    }
    let gets_all = |it: &mut Client| (0..4).all(|_| it.try_receive().is_some());
    assert!(!slow.iter_mut().all(gets_all));
    drop(slow);
    assert_eq!(client.call("PING"), Value::status("PONG"));
    served.end();
}
