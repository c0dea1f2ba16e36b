//! Scripts and functions among other clients.

use crate::Served;
use crate::client::{Value, bulk, int};

/// The script names no key, so nothing says beforehand what it has to hold.
const ADD: &str = "for i = 1, 10 do redis.call('incrby', 'k' .. i % 3, 1) end";

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
    ] {
        is_killed(&served, &format!("redis.call('set', KEYS[1], 1) {endless}"));
    }
    served.end();
}

fn is_killed(served: &Served, script: &str) {
    let (mut looping, mut client) = (served.client(), served.client());
    looping.send_words(&["EVAL", script, "1", "key"]);
    // Others are served meanwhile.
    while client.call("SCRIPT KILL") != Value::status("OK") {
        assert_eq!(client.call("SET other 1"), Value::status("OK"));
    }
    let reply = looping.receive().to_string();
    assert!(reply.contains("killed by user"), "{reply}");
    assert_eq!(client.call("EXISTS key"), int(0));
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
