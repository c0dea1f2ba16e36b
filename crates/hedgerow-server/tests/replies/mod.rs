//! Replies that are too large are refused, and the connection stays. What is collected for a
//! reply, or read for it, does not take more memory than a reply may.

#[cfg(target_os = "linux")]
mod memory;

use std::io::{Read, Write};
use std::ops::Range;

use crate::Served;
use crate::client::{Client, Value, bulk, int, request};

/// More than a reply may take with the least budget, which is 64 MiB.
const VALUES: usize = 20;
const VALUE_BYTES: usize = 4 << 20;
/// The values that fit into one reply.
const FITTING: usize = 15;
/// The members of a set that is larger than a reply.
const MEMBERS: usize = 1_200;

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

/// A member of a byte counted for 7 bytes, and took 72 and its own.
#[test]
fn many_short_members_take_the_memory_of_a_reply() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for call in ["HSET h f v", "SADD s f", "ZADD z 1 f"] {
        client.call(call);
    }
    for draw in ["HRANDFIELD h", "SRANDMEMBER s", "ZRANDMEMBER z"] {
        let reply = client.call(&format!("{draw} -1000000"));
        assert!(is_refused(&reply), "{draw}: {:.100}", reply.to_string());
        let drawn = client.call(&format!("{draw} -500000"));
        assert!(matches!(drawn, Value::Array(items) if items.len() == 500_000));
    }
    // Also what a script returns, and the replies of a transaction together.
    let script = "local t = {} for i = 1, 1000000 do t[i] = 'f' end return t";
    let reply = client.call_words(&["EVAL", script, "0"]).to_string();
    assert!(reply.contains("67108864 bytes"), "{reply:.100}");
    client.call("MULTI");
    (0..3).for_each(|_| drop(client.call("SRANDMEMBER s -300000")));
    let Value::Array(replies) = client.call("EXEC") else {
        panic!("expected an array");
    };
    let refused: Vec<bool> = replies.iter().map(is_refused).collect();
    assert_eq!(refused, [false, false, true]);
    served.end();
}

fn fill(client: &mut Client) {
    let value = "v".repeat(VALUE_BYTES);
    for i in 0..VALUES {
        client.call(&format!("SET k{i} {value}"));
        client.call(&format!("HSET h f{i} {value}"));
        client.call(&format!("RPUSH l {value}"));
    }
    add_members(client, "s", 0..MEMBERS);
    client.call("ZUNIONSTORE z 1 s");
}

/// Adds members to a set. They are keys of the engine, which are short.
fn add_members(client: &mut Client, key: &str, members: Range<usize>) {
    for begin in members.clone().step_by(40) {
        let part = (begin..members.end.min(begin + 40)).map(|i| format!(" {}", member(i)));
        client.call(&format!("SADD {key}{}", part.collect::<String>()));
    }
}

fn member(i: usize) -> String {
    format!("{i}{}", "m".repeat(60_000))
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
    assert_eq!(
        counts,
        [int(VALUES as i64), int(MEMBERS as i64), int(MEMBERS as i64)]
    );
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

/// Collections that are larger than a reply: sets `s` and `t` with the same members but for one,
/// and `u`, which has one of them; sorted sets `z` and `v`; places `g`; streams `x` and `y`, of
/// which a consumer with a long name has read the second. And a short list `f`.
fn fill_more(client: &mut Client) {
    fill(client);
    add_members(client, "u", MEMBERS - 1..2 * MEMBERS);
    client.call("SUNIONSTORE t s");
    client.call(&format!("SREM t {}", member(7)));
    client.call("ZUNIONSTORE v 1 u");
    for begin in (0..MEMBERS).step_by(40) {
        let places = (begin..begin + 40).map(|i| format!(" 0 0.0{i} {}", member(i)));
        client.call(&format!("GEOADD g{}", places.collect::<String>()));
    }
    let value = "v".repeat(VALUE_BYTES);
    for i in 1..=VALUES {
        client.call(&format!("XADD x {i} f {value}"));
    }
    client.call("XGROUP CREATE x readers 0");
    (0..MEMBERS).for_each(|_| drop(client.call("XADD y * f v")));
    client.call("XGROUP CREATE y readers 0");
    for _ in (0..MEMBERS).step_by(100) {
        let call = format!(
            "XREADGROUP GROUP readers {} COUNT 100 STREAMS y >",
            member(0)
        );
        assert!(!is_refused(&client.call(&call)));
    }
    // Each names a key with a large value.
    (0..VALUES).for_each(|i| drop(client.call(&format!("RPUSH f {i}"))));
}

#[test]
fn what_is_collected_for_a_reply_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    fill_more(&mut client);
    let members = (0..MEMBERS).map(|i| format!("SET {} v", member(i)));
    members.for_each(|call| drop(client.call(&call)));
    for call in [
        "SUNION t u",
        "SINTER s s",
        "SINTER s t",
        "SDIFF s none",
        "SDIFF u t",
        "SORT l ALPHA",
        "SORT l BY none LIMIT 2 16",
        "SORT s ALPHA DESC",
        "SORT s BY none",
        "SORT z BY none DESC",
        "SORT f GET k*",
        "XRANGE x - +",
        "XREVRANGE x + - COUNT 18",
        "XREAD STREAMS x 0",
        "XREAD COUNT 10 STREAMS x x 0 0",
        "XREADGROUP GROUP readers one STREAMS x >",
        "XINFO STREAM x FULL COUNT 0",
        "GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 1000 km",
        "GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 1000 km COUNT 1199 DESC",
        "ZUNION 2 z v",
        "ZINTER 2 z t WITHSCORES",
        "ZDIFF 2 z none",
        "HSCAN h 0 COUNT 100",
        "SSCAN s 0 COUNT 1000000000",
        "HRANDFIELD h -20 WITHVALUES",
        "HRANDFIELD h 19 WITHVALUES",
        "SRANDMEMBER s -1200",
        "DUMP h",
        "DUMP l",
        "DUMP s",
        "DUMP z",
        "DUMP x",
        "DUMP y",
        "XPENDING y readers - + 1200",
        "XINFO STREAM y FULL COUNT 0",
        "KEYS *m",
        "SCAN 0 COUNT 1000000000",
    ] {
        let reply = client.call(call);
        assert!(is_refused(&reply), "{call}: {:.100}", reply.to_string());
    }
    // A refused read delivers nothing.
    let pending = client.call("XPENDING x readers");
    assert!(matches!(&pending, Value::Array(parts) if parts[0] == int(0)));
    served.end();
}

#[test]
fn a_small_result_of_large_collections_is_no_large_reply() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    fill_more(&mut client);
    let (seventh, last) = (member(7), member(MEMBERS - 1));
    let (all, most) = (MEMBERS as i64, MEMBERS as i64 - 1);
    for (call, expected) in [
        ("SINTER s u", Value::bulks([&last])),
        ("SINTER s t u", Value::bulks([&last])),
        ("SINTER s none", Value::Array(Vec::new())),
        ("SDIFF s t", Value::bulks([&seventh])),
        ("SDIFF s t s", Value::Array(Vec::new())),
        ("SINTERCARD 2 s t", int(most)),
        ("SINTERCARD 2 s t LIMIT 1000", int(1_000)),
        ("SUNIONSTORE d s t", int(all)),
        ("SDIFFSTORE d s u", int(most)),
        ("SINTERSTORE s t s", int(most)),
        ("SUNIONSTORE s s none", int(most)),
        ("SCARD s", int(most)),
        ("SINTERSTORE d s none", int(0)),
        ("EXISTS d", int(0)),
        ("ZINTER 2 z v", Value::bulks([&last])),
        (
            "ZDIFF 2 z t WITHSCORES",
            Value::bulks([seventh.as_str(), "1"]),
        ),
        ("ZINTERCARD 2 z t", int(most)),
        ("ZINTERCARD 2 z t LIMIT 5", int(5)),
        ("ZUNIONSTORE d 2 z t WEIGHTS 2 3", int(all)),
        ("ZCOUNT d 5 5", int(most)),
        ("ZREMRANGEBYSCORE d 2 2", int(1)),
        ("ZCARD d", int(most)),
        (
            "GEOSEARCH g FROMLONLAT 0 0 BYRADIUS 1000 km COUNT 1",
            Value::bulks([&member(0)]),
        ),
        (
            "GEOSEARCHSTORE d g FROMLONLAT 0 0 BYRADIUS 1000 km",
            int(all),
        ),
        ("SORT s BY none LIMIT 5 0", Value::Array(Vec::new())),
        ("SORT s ALPHA DESC LIMIT 1 1", Value::bulks([&member(99)])),
        ("SORT z ALPHA LIMIT 1 1", Value::bulks([&member(1_000)])),
        ("SORT l BY none STORE d", int(VALUES as i64)),
        ("XTRIM x MAXLEN 1", int(VALUES as i64 - 1)),
        ("XPENDING y readers + - 5", Value::Array(Vec::new())),
    ] {
        let reply = client.call(call);
        assert!(reply == expected, "{call}: {:.100}", reply.to_string());
    }
    let pending = client.call("XPENDING y readers");
    assert!(matches!(&pending, Value::Array(parts) if parts[0] == int(all)));
    let value = "v".repeat(VALUE_BYTES);
    for call in ["SORT l ALPHA LIMIT 3 1", "SORT l BY none LIMIT 18 1"] {
        assert!(client.call(call) == Value::bulks([&value]), "{call}");
    }
    // The large ones fill the room before the small ones come.
    (0..3).for_each(|_| drop(client.call(&format!("RPUSH sorted z{}", "z".repeat(30 << 20)))));
    client.call("RPUSH sorted a b c");
    assert!(client.call("SORT sorted ALPHA LIMIT 0 3") == Value::bulks(["a", "b", "c"]));
    assert!(is_refused(&client.call("SORT sorted ALPHA LIMIT 0 6")));
    // The first entry is in the reply once.
    for id in ["1-0", "2-0"] {
        client.call(&format!("XADD two {id} f {}", "v".repeat(30 << 20)));
    }
    let about = client.call("XINFO STREAM two FULL");
    assert!(!is_refused(&about), "{:.100}", about.to_string());
    let item = |id: &str| Value::Array(vec![bulk(id), Value::bulks(["f", &value])]);
    let of_stream = Value::Array(vec![item("20-0")]);
    assert!(client.call("XREVRANGE x + - COUNT 1") == of_stream);
    let expected = Value::Array(vec![Value::Array(vec![bulk("x"), of_stream])]);
    for call in ["XREAD COUNT 1 STREAMS x 0", "XREAD COUNT 2 STREAMS x 19"] {
        assert!(client.call(call) == expected, "{call}");
    }
    served.end();
}

/// The bytes of the reply to calls, which are as long as what is expected.
fn raw(served: &Served, requests: &[u8], expected: &str) {
    let mut stream = std::net::TcpStream::connect(served.address).unwrap();
    stream.write_all(requests).unwrap();
    let mut found = vec![0; expected.len()];
    stream.read_exact(&mut found).unwrap();
    assert_eq!(String::from_utf8_lossy(&found), expected);
}

/// There are two kinds of null in the second version of the protocol.
#[test]
fn nulls_are_of_the_kind_that_redis_sends() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    for (call, expected) in [
        ("BLMOVE a b LEFT LEFT 0.01", "*-1\r\n"),
        ("BRPOPLPUSH a b 0.01", "*-1\r\n"),
        ("BLPOP a 0.01", "*-1\r\n"),
        ("LMOVE a b LEFT LEFT", "$-1\r\n"),
        ("COMMAND INFO nosuch", "*1\r\n$-1\r\n"),
    ] {
        raw(&served, &request(call), expected);
    }
    for (call, expected) in [
        ("BLMOVE a b LEFT LEFT 0", "$-1\r\n"),
        ("BRPOPLPUSH a b 0", "$-1\r\n"),
        ("BLPOP a 0", "*-1\r\n"),
        ("XREAD BLOCK 0 STREAMS a 0", "*-1\r\n"),
    ] {
        let calls = [request("MULTI"), request(call), request("EXEC")].concat();
        let expected = format!("+OK\r\n+QUEUED\r\n*1\r\n{expected}");
        raw(&served, &calls, &expected);
    }
    served.end();
}

/// The cases were tried with Redis 7.0.
#[test]
fn options_that_come_again_are_taken_where_redis_takes_them() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let xgroup = |word: &str| {
        format!(
            "-ERR unknown subcommand or wrong number of arguments for '{word}'. Try XGROUP HELP."
        )
    };
    let (ok, syntax) = ("+OK", "-ERR syntax error");
    let (create, setid) = (xgroup("CREATE"), xgroup("SETID"));
    for (call, expected) in [
        ("SET s v EX 100 EX 200", ok),
        ("SET s v KEEPTTL KEEPTTL", ok),
        ("SET s v EX 10 KEEPTTL", syntax),
        ("SET s v KEEPTTL EX 10", syntax),
        ("SET s v EX 10 PX 10000", syntax),
        ("SET s v XX XX", ok),
        ("TTL s", ":-1"),
        ("GETEX s EX 100 EX 200", "v"),
        ("TTL s", ":200"),
        ("GETEX s EX 100 PX 1000", syntax),
        ("GETEX s PERSIST EX 10", syntax),
        ("GETEX s PERSIST PERSIST", "v"),
        ("TTL s", ":-1"),
        ("XADD x 1-1 a b", "1-1"),
        ("XGROUP CREATE x g $ MKSTREAM MKSTREAM", ok),
        ("XGROUP CREATE x g2 $ MKSTREAM ENTRIESREAD 1", ok),
        ("XGROUP CREATE x g3 $ ENTRIESREAD 1 ENTRIESREAD 1", &create),
        ("XGROUP CREATE x g3 $ ENTRIESREAD", &create),
        ("XGROUP SETID x g $ ENTRIESREAD 1 ENTRIESREAD 1", &setid),
        ("XGROUP SETID x g $ ENTRIESREAD 1", ok),
        ("RESTORE k 0 v FREQ 1 IDLETIME 1", syntax),
        ("RESTORE k 0 v IDLETIME 1 FREQ 1", syntax),
        (
            "RESTORE k 0 v FREQ 1 FREQ 1",
            "-ERR DUMP payload version or checksum are wrong",
        ),
        ("SELECT abc", "-ERR value is not an integer or out of range"),
        ("SELECT 99", "-ERR DB index is out of range"),
    ] {
        assert_eq!(client.call(call).to_string(), expected, "{call}");
    }
    served.end();
}
