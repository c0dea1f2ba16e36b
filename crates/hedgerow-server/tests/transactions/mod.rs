//! Transactions with commands that are not about data: each runs where it stands.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::Served;
use crate::client::{Client, Value, bulk, int};

fn exec(client: &mut Client, calls: &[&[&str]]) -> Value {
    client.call("MULTI");
    for words in calls {
        assert_eq!(client.call_words(words), Value::status("QUEUED"));
    }
    client.call("EXEC")
}

/// FLUSHDB ran behind the commit, and what was acknowledged was gone.
#[test]
fn commands_of_a_transaction_run_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let ok = Value::status("OK");
    let flushed = exec(&mut client, &[&["FLUSHDB"], &["SET", "x", "1"]]);
    assert_eq!(flushed, Value::Array(vec![ok.clone(), ok.clone()]));
    assert_eq!(client.call("GET x"), bulk("1"));
    let calls: &[&[&str]] = &[
        &["SET", "a", "1"],
        &["FLUSHALL"],
        &["EXISTS", "a"],
        &["SELECT", "1"],
        &["SET", "b", "2"],
        &["SWAPDB", "0", "1"],
        &["GET", "b"],
        &["SELECT", "0"],
        &["GET", "b"],
        &["PING"],
    ];
    let expected = [
        ok.clone(),
        ok.clone(),
        int(0),
        ok.clone(),
        ok.clone(),
        ok.clone(),
        Value::Null,
        ok,
        bulk("2"),
        Value::status("PONG"),
    ];
    assert_eq!(exec(&mut client, calls), Value::Array(expected.into()));
    let script = "return redis.call('incr', KEYS[1])";
    let digest = client.call_words(&["SCRIPT", "LOAD", script]).to_string();
    client.call("SCRIPT FLUSH");
    let calls: &[&[&str]] = &[
        &["SCRIPT", "LOAD", script],
        &["EVALSHA", &digest, "1", "counter"],
    ];
    let loaded = exec(&mut client, calls);
    assert_eq!(loaded, Value::Array(vec![bulk(&digest), int(1)]));
    served.end();
}

#[test]
fn a_transaction_that_flushes_depends_on_what_it_watches() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut one, mut other) = (served.client(), served.client());
    one.call("SET kept 1");
    one.call("WATCH k");
    other.call("SET k theirs");
    let refused = exec(&mut one, &[&["FLUSHDB"], &["SET", "k", "mine"]]);
    assert_eq!(refused, Value::Null);
    assert_eq!(one.call("MGET kept k"), Value::bulks(["1", "theirs"]));
    // Its own writes do not refuse the parts that follow.
    one.call("WATCH k");
    let calls: &[&[&str]] = &[&["SET", "k", "1"], &["FLUSHDB"], &["SET", "k", "2"]];
    let ok = Value::status("OK");
    assert_eq!(exec(&mut one, calls), Value::Array(vec![ok; 3]));
    assert_eq!(one.call("GET k"), bulk("2"));
    served.end();
}

#[test]
fn who_waits_is_served_behind_a_transaction_that_flushes() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut waiting) = (served.client(), served.client());
    waiting.waits_at_most(60);
    client.waits_at_most(60);
    waiting.send("BLPOP queue 0");
    let info = |client: &mut Client| client.call("INFO clients").to_string();
    while !info(&mut client).contains("blocked_clients:1\r") {}
    let calls: &[&[&str]] = &[&["RPUSH", "queue", "gone"], &["FLUSHDB"]];
    exec(&mut client, calls);
    exec(&mut client, &[&["FLUSHDB"], &["RPUSH", "queue", "there"]]);
    assert_eq!(waiting.receive(), Value::bulks(["queue", "there"]));
    served.end();
}

/// Redis says why, and that nothing was done.
#[test]
fn a_transaction_that_the_role_refuses_is_discarded() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut one, mut other) = (served.client(), served.client());
    one.call("MULTI");
    one.call("SET k 1");
    other.call("CONFIG SET min-replicas-to-write 1");
    assert_eq!(
        one.call("EXEC").to_string(),
        "-EXECABORT Transaction discarded because of: NOREPLICAS Not enough good replicas to write."
    );
    other.call("CONFIG SET min-replicas-to-write 0");
    assert_eq!(one.call("EXEC").to_string(), "-ERR EXEC without MULTI");
    assert_eq!(one.call("EXISTS k"), int(0));
    served.end();
}

/// Each was compared with all before it, and had a state of its own.
#[test]
fn many_keys_are_watched() {
    const KEYS: usize = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut one, mut other) = (served.client(), served.client());
    let keys: Vec<String> = (0..KEYS).map(|it| format!("k{it}")).collect();
    let watch = format!("WATCH {}", keys.join(" "));
    other.call(&format!("MSET {}", keys.join(" 1 ") + " 1"));
    other.call("PEXPIRE k7 1");
    while other.call("EXISTS k7") == int(1) {}
    other.call("SET k9 1 PX 60000");
    let ok = Value::status("OK");
    for (change, refuses) in [
        ("SET k19999 2", true),
        ("DEL k0", true),
        ("SET k7 1", true),
        ("SET another 1", false),
        ("PEXPIRE k9 100000", true),
    ] {
        // Those that are watched already change nothing.
        assert_eq!(one.call(&watch), ok);
        assert_eq!(one.call("WATCH k1 k1 more"), ok);
        other.call(change);
        one.call("MULTI");
        one.call("PING");
        let expected = match refuses {
            true => Value::Null,
            false => Value::Array(vec![Value::status("PONG")]),
        };
        assert_eq!(one.call("EXEC"), expected, "{change}");
    }
    // A time of expiry is that of its key.
    other.call("SET k9 1 PX 2000");
    one.call("WATCH k8 k9 k10");
    while other.call("EXISTS k9") == int(1) {}
    one.call("MULTI");
    one.call("PING");
    assert_eq!(one.call("EXEC"), Value::Null);
    served.end();
}

/// Nobody sees a part of such a transaction, and nothing comes between its parts.
#[test]
fn a_transaction_that_flushes_is_one_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("SET b 1");
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for call in ["INCR c", "EXISTS a b", "EVAL redis.call('incr','c') 0"] {
            let (mut connection, ends) = (served.client(), &ends);
            scope.spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let reply = connection.call(call);
                    assert!(!call.starts_with("EXISTS") || reply == int(1), "{reply}");
                }
            });
        }
        let calls: &[&[&str]] = &[
            &["SET", "a", "1"],
            &["FLUSHDB"],
            &["INCR", "c"],
            &["SCRIPT", "FLUSH"],
            &["INCR", "c"],
            &["SET", "b", "1"],
        ];
        for _ in 0..200 {
            let Value::Array(replies) = exec(&mut client, calls) else {
                panic!("expected an array");
            };
            assert_eq!((&replies[2], &replies[4]), (&int(1), &int(2)));
        }
        ends.store(true, Ordering::Relaxed);
    });
    served.end();
}

/// A call that cannot be right discards the transaction when it is queued: nothing of it is done.
#[test]
fn a_wrong_subcommand_is_not_queued() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let few = |name: &str| format!("-ERR wrong number of arguments for '{name}' command");
    let unknown =
        |word: &str, name: &str| format!("-ERR unknown subcommand '{word}'. Try {name} HELP.");
    for (call, text) in [
        ("XGROUP NOSUCH", unknown("NOSUCH", "XGROUP")),
        ("XGROUP DESTROY x1", few("xgroup|destroy")),
        ("CLIENT nosuch", unknown("nosuch", "CLIENT")),
        ("CONFIG GET", few("config|get")),
        ("OBJECT ENCODING", few("object|encoding")),
        ("CLUSTER nosuch", unknown("nosuch", "CLUSTER")),
        ("ACL HELP me", few("acl|help")),
    ] {
        assert_eq!(client.call(call).to_string(), text);
        client.call("MULTI");
        assert_eq!(client.call(call).to_string(), text);
        assert_eq!(client.call("SET a 1"), Value::status("QUEUED"));
        assert_eq!(
            client.call("EXEC").to_string(),
            "-EXECABORT Transaction discarded because of previous errors."
        );
        assert_eq!(client.call("EXISTS a"), int(0), "{call}");
    }
    // A subcommand that is refused with a reason is known.
    client.call("MULTI");
    assert_eq!(client.call("CONFIG REWRITE"), Value::status("QUEUED"));
    assert_eq!(client.call("CLUSTER MEET"), Value::status("QUEUED"));
    served.end();
}

/// Redis ends the transaction, whatever is wrong with EXEC itself.
#[test]
fn a_refused_exec_discards_the_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let text = "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' \
                command";
    assert_eq!(client.call("EXEC b").to_string(), text);
    client.call("MULTI");
    client.call("SET k 1");
    assert_eq!(client.call("EXEC b").to_string(), text);
    assert_eq!(client.call("EXEC").to_string(), "-ERR EXEC without MULTI");
    assert_eq!(client.call("EXISTS k"), int(0));
    served.end();
}

/// A key that had expired when it was watched is not changed when it is removed.
#[test]
fn the_removal_of_an_expired_key_refuses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut one, mut other) = (served.client(), served.client());
    let pong = Value::Array(vec![Value::status("PONG")]);
    for (change, expected) in [("DEL k", &pong), ("SET k 1", &Value::Null)] {
        // Else the key is removed before it is watched.
        other.call("SET k v PX 200");
        other.call("CLIENT PAUSE 60000 WRITE");
        while one.call("EXISTS k") == int(1) {}
        one.call("WATCH k");
        other.call("CLIENT UNPAUSE");
        other.call(change);
        one.call("MULTI");
        one.call("PING");
        assert_eq!(&one.call("EXEC"), expected, "{change}");
    }
    // Its time is over while it is watched.
    other.call("SET k v PX 2000");
    one.call("WATCH k");
    while other.call("EXISTS k") == int(1) {}
    one.call("MULTI");
    one.call("PING");
    assert_eq!(one.call("EXEC"), Value::Null);
    served.end();
}

#[test]
fn facts_about_a_stream_are_no_change_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut one, mut other) = (served.client(), served.client());
    other.call("XADD x 1-1 a b");
    let pong = Value::Array(vec![Value::status("PONG")]);
    for (change, expected) in [
        ("XGROUP CREATE x g $", &pong),
        ("XSETID x 5-5", &pong),
        ("XGROUP SETID x g 0", &pong),
        ("XGROUP DESTROY x g", &pong),
        ("XADD x 6-6 a b", &Value::Null),
        ("XGROUP CREATE new g $ MKSTREAM", &Value::Null),
    ] {
        one.call("WATCH x new");
        other.call(change);
        one.call("MULTI");
        one.call("PING");
        assert_eq!(&one.call("EXEC"), expected, "{change}");
    }
    assert_eq!(
        other.call("XADD x 5-6 a b").to_string(),
        "-ERR The ID specified in XADD is equal or smaller than the target stream top item"
    );
    served.end();
}
