//! The events of keys: their names and their order, as Redis has them.

use crate::Served;
use crate::client::{Client, Value, int};

/// The events of a call, each with its key. A mark behind it says where they end.
fn events(client: &mut Client, listener: &mut Client, call: &str) -> Vec<String> {
    client.call(call);
    client.call("PUBLISH __keyevent@0__:end mark");
    let mut events = Vec::new();
    loop {
        let Value::Array(parts) = listener.receive() else {
            panic!("expected a message");
        };
        let name = parts[2].to_string();
        let (_, name) = name.split_once(':').unwrap();
        if name == "end" {
            return events;
        }
        events.push(format!("{name} {}", parts[3]));
    }
}

fn check(classes: &str, cases: &[(&str, &[&str])]) {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut listener) = (served.client(), served.client());
    client.call(&format!("CONFIG SET notify-keyspace-events {classes}"));
    listener.call("PSUBSCRIBE __keyevent@*");
    for (call, expected) in cases {
        let found = events(&mut client, &mut listener, call);
        assert_eq!(found, *expected, "{call}");
    }
    served.end();
}

#[test]
fn events_have_the_names_and_the_order_of_redis() {
    check(
        "AEn",
        &[
            ("SET k v EX 100", &["new k", "set k", "expire k"]),
            ("SET k v2 KEEPTTL", &["set k"]),
            ("SET a 1", &["new a", "set a"]),
            ("GETEX a EX 100", &["expire a"]),
            ("GETEX a EXAT 9000000000", &["expire a"]),
            ("GETEX a EXAT 9000000000", &["expire a"]),
            ("GETEX a PERSIST", &["persist a"]),
            ("GETEX a PERSIST", &[]),
            ("RPUSH l 1 2", &["new l", "rpush l"]),
            ("LMOVE l l2 LEFT LEFT", &["new l2", "lpush l2", "lpop l"]),
            ("RPOPLPUSH l l2", &["lpush l2", "rpop l", "del l"]),
            ("LMOVE l2 l2 LEFT RIGHT", &["rpush l2", "lpop l2"]),
            ("RENAME a c", &["new c", "rename_from a", "rename_to c"]),
            ("SET b 1", &["new b", "set b"]),
            ("RENAME b c", &["new c", "rename_from b", "rename_to c"]),
            ("SET b 1", &["new b", "set b"]),
            ("COPY b c REPLACE", &["new c", "copy_to c"]),
            ("COPY b d", &["new d", "copy_to d"]),
            ("MOVE d 1", &["new d", "move_from d", "move_to d"]),
        ],
    );
}

/// Nothing removes the key before the second SET does.
#[test]
fn a_key_that_replaces_an_expired_one_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut listener) = (served.client(), served.client());
    client.call("CONFIG SET notify-keyspace-events AEn");
    listener.call("PSUBSCRIBE __keyevent@*");
    events(&mut client, &mut listener, "SET k v PX 200");
    client.call("CLIENT PAUSE 60000 WRITE");
    while client.call("EXISTS k") == int(1) {}
    client.call("CLIENT UNPAUSE");
    let found = events(&mut client, &mut listener, "SET k v");
    assert_eq!(found, ["expired k", "new k", "set k"]);
    served.end();
}

#[test]
fn a_stored_search_is_told_of_by_its_command() {
    let stored: &[&str] = &["geosearchstore d"];
    let radius: &[&str] = &["georadiusstore d"];
    check(
        "zE",
        &[
            ("GEOADD g 1 1 x 2 2 y", &["zadd g"]),
            ("GEOSEARCHSTORE d g FROMMEMBER x BYRADIUS 900 km", stored),
            ("GEOSEARCHSTORE d g FROMLONLAT 1 1 BYRADIUS 900 km", stored),
            ("GEORADIUSBYMEMBER g x 900 km STORE d", radius),
            ("GEORADIUS g 1 1 900 km STORE d", radius),
        ],
    );
}

#[test]
fn reads_of_missing_keys_are_told_of_if_that_is_wanted() {
    let missed: &[&str] = &["keymiss n"];
    check(
        "mE",
        &[
            ("GET n", missed),
            ("MGET n o", &["keymiss n", "keymiss o"]),
            ("EXISTS n", missed),
            ("TTL n", missed),
            ("HGET n f", missed),
            ("GETEX n", missed),
            ("PFCOUNT n", missed),
            ("SORT n", missed),
            ("SINTER n o", &["keymiss n", "keymiss o"]),
            ("XINFO STREAM n", missed),
            ("SET there 1", &[]),
            ("GET there", &[]),
            ("DEL n", &[]),
            ("OBJECT ENCODING n", &[]),
            ("MEMORY USAGE n", &[]),
        ],
    );
    check("AE", &[("GET n", &[])]);
}

#[cfg(feature = "lua")]
#[test]
fn a_script_that_misses_a_key_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut listener) = (served.client(), served.client());
    client.call("CONFIG SET notify-keyspace-events mE");
    listener.call("PSUBSCRIBE __keyevent@*");
    let script = "EVAL redis.call('get',KEYS[1]) 1 n";
    let found = events(&mut client, &mut listener, script);
    assert_eq!(found, ["keymiss n"]);
    served.end();
}

#[test]
fn the_classes_of_events_read_as_in_redis() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for (classes, read) in [("AKEmn", "AKEm"), ("KEg$lshzxetd", "AKE"), ("Kn", "nK")] {
        client.call(&format!("CONFIG SET notify-keyspace-events {classes}"));
        let found = client.call("CONFIG GET notify-keyspace-events");
        assert_eq!(found, Value::bulks(["notify-keyspace-events", read]));
    }
    served.end();
}
