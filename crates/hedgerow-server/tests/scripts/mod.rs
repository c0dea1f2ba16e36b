//! Scripts and functions among other clients.

use crate::Served;
use crate::client::{Client, Value, bulk, int};

/// The script names no key, so nothing says beforehand what it has to hold.
const ADD: &str = "for i = 1, 10 do redis.call('incrby', 'k' .. i % 3, 1) end";

#[test]
fn the_calls_of_a_script_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut watcher, mut client) = (served.client(), served.client());
    watcher.call("MONITOR");
    let script =
        "redis.call('SELECT', '3') redis.pcall('INCR', 'k', 'x') return redis.call('GET', 'k')";
    assert_eq!(client.call_words(&["EVAL", script, "0"]), Value::Null);
    client.call("PING");
    for expected in [
        "] \"EVAL\" ",
        "[0 lua] \"SELECT\" \"3\"",
        "[3 lua] \"GET\" \"k\"",
        "] \"PING\"",
    ] {
        let found = watcher.receive().to_string();
        assert!(found.contains(expected), "{found}");
    }
    served.end();
}

#[test]
fn scripts_that_name_no_keys_lose_no_update() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    std::thread::scope(|scope| {
        for client in 0..4 {
            let mut connection = served.client();
            scope.spawn(move || {
                for _ in 0..50 {
                    match client % 2 {
                        0 => assert_eq!(connection.call_words(&["EVAL", ADD, "0"]), Value::Null),
                        _ => drop(connection.call("INCRBY k1 10")),
                    }
                }
            });
        }
    });
    let mut client = served.client();
    let number = |value: Value| value.to_string().parse::<i64>().unwrap();
    let [zero, one, two] = ["k0", "k1", "k2"].map(|key| number(client.call(&format!("GET {key}"))));
    assert_eq!((zero, one, two), (300, 400 + 1_000, 300));
    served.end();
}

#[test]
fn a_script_without_end_is_killed_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    for endless in [
        "while true do pcall(redis.call, 'ping') end",
        "pcall(function() while true do end end)",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(pcall, function() while true do end end) end",
        "local function loop() while true do end end while true do xpcall(loop, loop) end",
    ] {
        is_killed(&served, &format!("redis.call('set', KEYS[1], 1) {endless}"));
    }
    served.end();
}

fn is_killed(served: &Served, script: &str) {
    let (mut looping, mut client) = (served.client(), served.client());
    looping.waits_at_most(60);
    looping.send_words(&["EVAL", script, "1", "key"]);
    // Others are served meanwhile.
    while client.call("SCRIPT KILL") != Value::status("OK") {
        assert_eq!(client.call("SET other 1"), Value::status("OK"));
    }
    let reply = looping.receive().to_string();
    assert!(reply.contains("killed by user"), "{reply}");
    assert_eq!(client.call("EXISTS key"), int(0));
}

/// Each took a thread and its memory, up to 512 of them.
#[test]
#[cfg(target_os = "linux")]
fn long_scripts_take_turns_and_others_are_served() {
    use std::sync::atomic::{AtomicBool, Ordering};

    use crate::client::Client;

    const SCRIPTS: usize = 80;
    const AT_ONCE: usize = 32;
    /// The threads that serve others, and those of the engine.
    const MORE: usize = 8;
    let dir = tempfile::tempdir().unwrap();
    let served = crate::kill::Served::begin(dir.path());
    let mut client = Client::connect(served.address);
    client.call("RPUSH queue a b c");
    let running = || served.states().filter(|it| *it == Some('R')).count();
    let looping = (0..SCRIPTS).map(|_| {
        let mut connection = Client::connect(served.address);
        connection.waits_at_most(120);
        // It holds no keys, which others wait for.
        connection.send_words(&["EVAL_RO", "while true do end", "0"]);
        connection
    });
    let mut looping: Vec<Client> = looping.collect();
    crate::replicas::until("scripts at once", || running() >= AT_ONCE);
    // They wait for a thread, and no thread waits for them.
    for _ in 0..100 {
        assert_eq!(client.call("PING"), Value::status("PONG"));
        let popped = client.call("BLPOP queue 0.001");
        assert!(!matches!(popped, Value::Error(_)), "{popped}");
    }
    // Other threads run for a moment.
    let least = (0..50).map(|_| running()).min().unwrap();
    assert!(least <= AT_ONCE + MORE, "{least} threads run");
    let (mut killing, ended) = (Client::connect(served.address), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                killing.call("SCRIPT KILL");
            }
        });
        let replies = looping.iter_mut().map(|it| it.try_receive());
        let replies: Vec<_> = replies.collect();
        ended.store(true, Ordering::Relaxed);
        for reply in replies {
            let is_killed =
                matches!(&reply, Some(Value::Error(text)) if text.contains("killed by"));
            assert!(is_killed, "{reply:?}");
        }
    });
    assert_eq!(client.call("LLEN queue"), int(0));
    served.kill();
}

/// A script continues behind an error of its own, and not behind the bound of its memory.
#[test]
fn a_script_that_needs_too_much_memory_ends() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let own = "return {pcall(error, 'mine'), select(2, xpcall(error, function() return 'x' end))}";
    assert_eq!(
        client.call_words(&["EVAL", own, "0"]),
        Value::Array(vec![Value::Null, bulk("x")])
    );
    let grows = "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(100000) .. i end";
    let script = format!("pcall(function() {grows} end) return 'went on'");
    let reply = client.call_words(&["EVAL", &script, "0"]).to_string();
    assert!(reply.contains("not enough memory"), "{reply}");
    served.end();
}

/// Messages and what libraries write count, too.
#[test]
fn a_script_sends_no_more_than_a_commit_may_have() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let script =
        "local text = ('x'):rep(10000000) for i = 1, 40 do redis.call('publish', 'c', text) end";
    let reply = client.call_words(&["EVAL", script, "0"]).to_string();
    assert!(reply.contains("268435456 bytes"), "{reply}");
    let fill = "local t, text = {}, ('x'):rep(1000000) for i = 1, 400 do t[i] = text end";
    let reply = client.call_words(&["EVAL", &format!("{fill} return t"), "0"]);
    assert!(reply.to_string().contains("67108864 bytes"), "{reply:.100}");
    for encode in ["cjson.encode", "cmsgpack.pack"] {
        let script = format!("{fill} return #{encode}(t)");
        let reply = client.call_words(&["EVAL", &script, "0"]).to_string();
        assert!(reply.contains("not enough memory"), "{encode}: {reply}");
    }
    served.end();
}

#[test]
fn a_script_takes_many_arguments() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let words = |count: usize| (0..count).map(|it| it.to_string()).collect::<Vec<_>>();
    let (keys, args) = (words(9_000), words(20_000));
    let mut call = vec![
        "EVAL",
        "return {#KEYS, #ARGV, KEYS[9000], ARGV[20000]}",
        "9000",
    ];
    call.extend(keys.iter().chain(&args).map(String::as_str));
    let expected = vec![int(9_000), int(20_000), bulk("8999"), bulk("19999")];
    assert_eq!(client.call_words(&call), Value::Array(expected));
    let script =
        "local t = {} for i = 1, 7000 do t[i] = i end return redis.call('rpush', 'l', unpack(t))";
    assert_eq!(client.call_words(&["EVAL", script, "0"]), int(7_000));
    let reply = client.call_words(&["EVAL", "return cmsgpack.unpack_one()", "0"]);
    assert!(!reply.to_string().contains("traceback"), "{reply}");
    served.end();
}

#[test]
fn what_a_script_did_before_an_error_stays() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let script = "redis.call('set', KEYS[1], 1) redis.call('lpush', KEYS[1], 1)";
    let reply = client.call_words(&["EVAL", script, "1", "key"]).to_string();
    assert!(reply.starts_with("-WRONGTYPE"), "{reply}");
    assert_eq!(client.call("GET key"), bulk("1"));
    served.end();
}

#[test]
fn functions_outlive_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let library = "#!lua name=lib\nredis.register_function('add', function(keys, args)\n\
                   return redis.call('incrby', keys[1], args[1])\nend)";
    let mut client = served.client();
    assert_eq!(
        client.call_words(&["FUNCTION", "LOAD", library]),
        bulk("lib")
    );
    assert_eq!(client.call("FCALL add 1 sum 3"), int(3));
    served.end();
    let served = Served::begin(dir.path());
    assert_eq!(served.client().call("FCALL add 1 sum 4"), int(7));
    served.end();
}

/// The expected bytes are those of a program in C on a little-endian machine.
#[test]
fn values_are_packed_as_structs() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let hex = "(s:gsub('.', function(c) return string.format('%02x', string.byte(c)) end))";
    for (arguments, expected) in [
        ("'<bhi', -1, 258, -2", "ff0201feffffff"),
        ("'>HI3', 258, 1", "0102000001"),
        ("'!4bi', 1, 2", "0100000002000000"),
        ("'<d', 1.5", "000000000000f83f"),
        ("'sc2x', 'ab', 'cde'", "616200636400"),
        ("'Bc0', 3, 'abc'", "03616263"),
        ("'<l', -1", "ffffffffffffffff"),
    ] {
        let script = format!("local s = struct.pack({arguments}) return {hex}");
        let found = client.call_words(&["EVAL", &script, "0"]);
        assert_eq!(found, bulk(expected), "{arguments}");
    }
    let script =
        "return {struct.unpack('>hBc0f', '\\255\\254\\2ab\\63\\128\\0\\0'), struct.size('!4bi')}";
    let found = client.call_words(&["EVAL", script, "0"]);
    // The first of several results alone, as it is not the last in the list.
    assert_eq!(found, Value::Array(vec![int(-2), int(8)]));
    let script = "return {struct.unpack('>hBc0f', '\\255\\254\\2ab\\63\\128\\0\\0')}";
    let found = client.call_words(&["EVAL", script, "0"]);
    assert_eq!(
        found,
        Value::Array(vec![int(-2), bulk("ab"), int(1), int(10)])
    );
    for wrong in [
        "pack('i33', 1)",
        "pack('z')",
        "pack('c4', 'abc')",
        "unpack('i', 'abc')",
        "unpack('c0', 'abc')",
        "unpack('s', 'abc')",
        "size('s')",
        "unpack('i', 'abcd', 1e300)",
    ] {
        let found = client.call_words(&["EVAL", &format!("return struct.{wrong}"), "0"]);
        assert!(matches!(found, Value::Error(_)), "{wrong}: {found}");
    }
    served.end();
}

/// As in Redis, these two are allowed where nobody waits, and the older ones are not.
#[test]
fn a_script_takes_from_several_keys_and_does_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("RPUSH l a");
    let take = "return redis.call('blmpop', 0, 2, 'none', 'l', 'LEFT')";
    let taken = Value::Array(vec![bulk("l"), Value::bulks(["a"])]);
    assert_eq!(client.call_words(&["EVAL", take, "0"]), taken);
    assert_eq!(client.call_words(&["EVAL", take, "0"]), Value::Null);
    let named = "return redis.call('blmpop', 0, 1, 'block', 'LEFT')";
    assert_eq!(client.call_words(&["EVAL", named, "0"]), Value::Null);
    let pop = "return redis.call('bzmpop', 0, 1, 'none', 'MIN')";
    assert_eq!(client.call_words(&["EVAL", pop, "0"]), Value::Null);
    let wait = "return redis.call('blpop', 'none', 0)";
    let refused = client.call_words(&["EVAL", wait, "0"]).to_string();
    assert!(
        refused.contains("not allowed from script"),
        "found {refused}"
    );
    served.end();
}

/// A flush is a part of the script's commit: what is written behind it stays, and a script that is
/// refused has flushed nothing.
#[test]
fn a_script_flushes() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut other) = (served.client(), served.client());
    client.call("MSET a 1 b 2");
    client.call("RPUSH l a b");
    client.call("SET brief 1 EX 1000");
    client.call("SELECT 1");
    client.call("SET elsewhere 1");
    client.call("SELECT 0");
    other.call("WATCH a");
    let script = "redis.call('rpush', 'l', 'c') redis.call('flushdb') \
                  redis.call('rpush', 'l', 'new') redis.call('set', 'a', redis.call('dbsize')) \
                  return {redis.call('get', 'b'), redis.call('lrange', 'l', 0, -1)}";
    let list = Value::bulks(["new"]);
    let found = client.call_words(&["EVAL", script, "1", "a"]);
    assert_eq!(found, Value::Array(vec![Value::Null, list.clone()]));
    other.call("MULTI");
    other.call("PING");
    assert_eq!(other.call("EXEC"), Value::Null);
    let check = |client: &mut Client| {
        assert_eq!(client.call("DBSIZE"), int(2));
        assert_eq!(client.call("LRANGE l 0 -1"), list);
        assert_eq!(client.call("MGET a brief"), {
            Value::Array(vec![bulk("1"), Value::Null])
        });
        let Value::Array(scanned) = client.call("SCAN 0") else {
            panic!("expected an array");
        };
        assert!(matches!(&scanned[1], Value::Array(keys) if keys.len() == 2));
        client.call("SELECT 1");
        assert_eq!(client.call("GET elsewhere"), bulk("1"));
        client.call("SELECT 0");
    };
    check(&mut client);
    let read_only = client.call_words(&["EVAL_RO", "redis.call('flushall')", "0"]);
    assert!(matches!(read_only, Value::Error(_)), "{read_only}");
    let wrong = "return redis.call('flushall', 'NOW')";
    let wrong = client.call_words(&["EVAL", wrong, "0"]).to_string();
    assert!(wrong.starts_with("-ERR syntax error"), "{wrong}");
    served.end();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    check(&mut client);
    let ok = Value::status("OK");
    let all = "return redis.call('flushall', 'ASYNC')";
    assert_eq!(client.call_words(&["EVAL", all, "0"]), ok);
    assert_eq!(client.call("EXISTS a l"), int(0));
    client.call("SELECT 1");
    assert_eq!(client.call("DBSIZE"), int(0));
    served.end();
}
