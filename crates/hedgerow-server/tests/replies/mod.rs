//! Replies that are too large are refused, and the connection goes on.

use crate::Served;
use crate::client::{Client, Value, bulk, int};

/// More than a reply may take with the least budget, which is 64 MiB.
const VALUES: usize = 20;
const VALUE_BYTES: usize = 4 << 20;
/// The values that fit into one reply.
const FITTING: usize = 15;

fn is_refused(reply: &Value) -> bool {
    matches!(reply, Value::Error(text) if text.contains("67108864 bytes") && text.contains("HSCAN"))
}

/// A draw of a million million elements asked for memory, and the process ended.
#[test]
fn a_draw_of_too_many_elements_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for call in ["HSET h f v", "HSET brief f v", "SADD s f", "ZADD z 1 f"] {
        client.call(call);
    }
    client.call("HPEXPIRE brief 10000000 FIELDS 1 f");
    for draw in [
        "HRANDFIELD h",
        "HRANDFIELD brief",
        "SRANDMEMBER s",
        "ZRANDMEMBER z",
    ] {
        for count in ["-4611686018427387903", "-1000000000000", "-2000000"] {
            let reply = client.call(&format!("{draw} {count}"));
            assert!(is_refused(&reply), "{draw} {count}: {reply}");
        }
        let drawn = client.call(&format!("{draw} -3"));
        assert_eq!(drawn, Value::bulks(["f"; 3]), "{draw}");
    }
    let script = "return redis.call('srandmember', 's', '-1000000000000')";
    let reply = client.call_words(&["EVAL", script, "1", "s"]);
    assert!(reply.to_string().contains("67108864 bytes"), "{reply}");
    served.end();
}

fn fill(client: &mut Client) {
    let value = "v".repeat(VALUE_BYTES);
    for i in 0..VALUES {
        client.call(&format!("SET k{i} {value}"));
        client.call(&format!("HSET h f{i} {value}"));
        client.call(&format!("RPUSH l {value}"));
    }
    // Members of sets are keys of the engine, which are short.
    for begin in (0..1_200).step_by(40) {
        let names = (begin..begin + 40).map(|i| format!("{i}{}", "m".repeat(60_000)));
        client.call(&format!("SADD s {}", names.collect::<Vec<_>>().join(" ")));
    }
    client.call("ZUNIONSTORE z 1 s");
}

#[test]
fn a_reply_that_is_too_large_is_refused_and_the_client_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    fill(&mut client);
    let keys = (0..VALUES).map(|i| format!("k{i}")).collect::<Vec<_>>();
    let fields = (0..VALUES).map(|i| format!("f{i}")).collect::<Vec<_>>();
    let (mget, hmget) = (
        format!("MGET {}", keys.join(" ")),
        format!("HMGET h {}", fields.join(" ")),
    );
    for call in [
        "HGETALL h",
        "HVALS h",
        "HRANDFIELD h 20 WITHVALUES",
        &hmget,
        &mget,
        "LRANGE l 0 -1",
        "SORT l BY none",
        "SMEMBERS s",
        "SRANDMEMBER s 1200",
        "SUNION s none",
        "ZRANGE z 0 -1",
        "ZRANGE z 0 -1 REV WITHSCORES",
    ] {
        let reply = client.call(call);
        assert!(is_refused(&reply), "{:.40}", call);
    }
    // Elements that would be removed stay.
    for call in ["LPOP l 20", "SPOP s 2000", "ZPOPMIN z 2000"] {
        assert!(is_refused(&client.call(call)), "{call}");
    }
    let counts = ["LLEN l", "SCARD s", "ZCARD z"].map(|it| client.call(it));
    assert_eq!(counts, [int(VALUES as i64), int(1_200), int(1_200)]);
    let part = client.call("LRANGE l 0 14");
    assert!(matches!(part, Value::Array(items) if items.len() == FITTING));
    // The longest string is a reply.
    client.call("SETRANGE long 67108799 x");
    assert!(matches!(client.call("GET long"), Value::Bulk(text) if text.len() == 67_108_800));
    served.end();
}

/// A transaction has one reply: what is above the bound is refused in its place.
#[test]
fn a_transaction_with_a_reply_that_is_too_large_does_what_fits() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    fill(&mut client);
    client.call("MULTI");
    client.call("SET before 1");
    (0..VALUES).for_each(|i| drop(client.call(&format!("GET k{i}"))));
    client.call("GETDEL k0");
    client.call("SET behind 1");
    let Value::Array(replies) = client.call("EXEC") else {
        panic!("expected an array");
    };
    let is_value = |it: &&Value| matches!(it, Value::Bulk(text) if text.len() == VALUE_BYTES);
    assert_eq!(replies.iter().filter(is_value).count(), FITTING);
    let refused = replies.iter().filter(|it| is_refused(it)).count();
    assert_eq!(refused, VALUES - FITTING + 1);
    assert_eq!(client.call("MGET before behind"), Value::bulks(["1", "1"]));
    assert_eq!(client.call("STRLEN k0"), int(VALUE_BYTES as i64));
    assert_eq!(client.call("PING"), Value::status("PONG"));
    assert_eq!(client.call("ECHO hello"), bulk("hello"));
    served.end();
}
