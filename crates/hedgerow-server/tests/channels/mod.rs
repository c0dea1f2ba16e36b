//! Channels of shards, beside those that everybody has.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::Served;
use crate::client::{Client, Value, bulk, int};

fn told<const N: usize>(words: [&str; N], count: i64) -> Value {
    let words = words.into_iter().map(bulk);
    Value::Array(words.chain([int(count)]).collect())
}

#[test]
fn a_channel_of_a_shard_is_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut listener, mut client) = (served.client(), served.client());
    listener.call("HELLO 3");
    assert_eq!(listener.call("SUBSCRIBE c"), told(["subscribe", "c"], 1));
    listener.call("PSUBSCRIBE *");
    // The count is that of channels of shards alone.
    listener.send("SSUBSCRIBE c d");
    assert_eq!(listener.receive(), told(["ssubscribe", "c"], 1));
    assert_eq!(listener.receive(), told(["ssubscribe", "d"], 2));
    assert_eq!(client.call("PUBLISH c one"), int(2));
    assert_eq!(client.call("SPUBLISH c two"), int(1));
    assert_eq!(client.call("SPUBLISH none two"), int(0));
    for message in [
        &["message", "c", "one"][..],
        &["pmessage", "*", "c", "one"],
        &["smessage", "c", "two"],
    ] {
        assert_eq!(listener.receive(), Value::bulks(message.to_vec()));
    }
    assert_eq!(client.call("PUBSUB SHARDCHANNELS d*"), Value::bulks(["d"]));
    assert_eq!(client.call("PUBSUB CHANNELS"), Value::bulks(["c"]));
    let counts = Value::Array(vec![bulk("c"), int(1), bulk("x"), int(0)]);
    assert_eq!(client.call("PUBSUB SHARDNUMSUB c x"), counts);
    let list = client.call("CLIENT LIST TYPE pubsub").to_string();
    assert!(list.contains(" sub=1 psub=1 ssub=2 "), "{list}");
    // In a transaction, and by a script.
    client.call("MULTI");
    client.call("SPUBLISH d three");
    assert_eq!(client.call("EXEC"), Value::Array(vec![int(1)]));
    let d_three = Value::bulks(["smessage", "d", "three"]);
    assert_eq!(listener.receive(), d_three);
    if cfg!(feature = "lua") {
        client.call("EVAL return{redis.call('spublish','d','three')} 0");
        assert_eq!(listener.receive(), d_three);
    }
    listener.send("SUNSUBSCRIBE");
    assert_eq!(listener.receive(), told(["sunsubscribe", "c"], 1));
    assert_eq!(listener.receive(), told(["sunsubscribe", "d"], 0));
    let none = Value::Array(vec![bulk("sunsubscribe"), Value::Null, int(0)]);
    assert_eq!(listener.call("SUNSUBSCRIBE"), none);
    assert_eq!(client.call("SPUBLISH c two"), int(0));
    served.end();
}

/// Messages that came before were told behind the reply, and a client took them for replies to what
/// it asked next.
#[test]
fn no_message_comes_behind_the_end_of_a_subscription() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let address = served.address;
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut publisher = Client::connect(address);
            let calls = vec!["PUBLISH news text"; 50];
            while !ends.load(Ordering::Relaxed) {
                publisher.send_together(&calls);
                calls.iter().for_each(|_| drop(publisher.receive()));
            }
        });
        let ended = told(["unsubscribe", "news"], 0);
        for round in 0..30 {
            let mut listener = served.client();
            listener.call("SUBSCRIBE news");
            listener.receive();
            // Messages come while the server is busy with these.
            let calls = [vec!["PING"; 1_000], vec!["UNSUBSCRIBE news", "PING"]].concat();
            listener.send_together(&calls);
            while listener.receive() != ended {}
            for _ in 0..2 {
                let reply = listener.receive();
                if reply != Value::status("PONG") {
                    ends.store(true, Ordering::Relaxed);
                    panic!("round {round}: {reply}");
                }
                listener.send("PING");
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    served.end();
}

#[test]
fn a_monitor_that_was_ended_by_another_client_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut other = served.client();
    for round in 0..2 {
        let mut monitor = served.client();
        let Value::Integer(id) = monitor.call("CLIENT ID") else {
            panic!("expected a number");
        };
        assert_eq!(monitor.call("MONITOR"), Value::status("OK"));
        other.call(&format!("SET round {round}"));
        let shown = monitor.receive().to_string();
        assert!(shown.contains("\"SET\" \"round\""), "{shown}");
        assert_eq!(other.call(&format!("CLIENT KILL ID {id}")), int(1));
        while monitor.try_receive().is_some() {}
    }
    served.end();
}
