//! Answers that clients and people compare with those of Redis.

use crate::Served;
use crate::client::{Client, Value, bulk, int};

fn parts(value: &Value) -> &[Value] {
    match value {
        Value::Array(parts) => parts,
        other => panic!("expected an array, found {other}"),
    }
}

/// The facts of COMMAND INFO about one command.
fn facts(client: &mut Client, name: &str) -> Vec<Value> {
    let reply = client.call(&format!("COMMAND INFO {name}"));
    parts(&parts(&reply)[0]).to_vec()
}

fn flags(client: &mut Client, name: &str) -> Vec<String> {
    let facts = facts(client, name);
    let flags = parts(&facts[2]).iter().map(Value::to_string);
    flags
        .map(|it| it.trim_start_matches('+').to_owned())
        .collect()
}

#[test]
fn command_tells_of_commands_and_subcommands() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let get = facts(&mut client, "GET");
    assert_eq!(get[..2], [bulk("get"), int(2)]);
    assert_eq!(get[3..6], [int(1), int(1), int(1)]);
    let list = facts(&mut client, "client|LIST");
    assert_eq!(list[..2], [bulk("client|list"), int(-2)]);
    let all = facts(&mut client, "client");
    let names: Vec<String> = parts(&all[9])
        .iter()
        .map(|it| parts(it)[0].to_string())
        .collect();
    assert!(names.contains(&"client|setinfo".to_owned()), "{names:?}");
    let unknown = client.call("COMMAND INFO none client|none get|key config|get|key");
    assert_eq!(unknown, Value::Array(vec![Value::Null; 4]));
    // A subcommand has a key if the others have one, but for those about the command.
    let first_key = |client: &mut Client, name| facts(client, name)[3].clone();
    assert_eq!(first_key(&mut client, "object|encoding"), int(2));
    assert_eq!(first_key(&mut client, "object|help"), int(0));
    for (name, has, has_not) in [
        (
            "get",
            "readonly fast",
            "noscript loading stale movablekeys admin",
        ),
        (
            "eval",
            "noscript movablekeys no_mandatory_keys",
            "loading stale",
        ),
        (
            "zunion",
            "readonly movablekeys",
            "no_mandatory_keys noscript",
        ),
        ("blpop", "write blocking noscript", "loading"),
        ("xread", "readonly blocking movablekeys", "noscript"),
        ("ping", "fast", "noscript loading stale"),
        ("publish", "loading stale fast", "noscript"),
        ("config|get", "admin noscript loading stale", "write"),
        ("client|kill", "admin", "write"),
        ("client|id", "noscript", "admin"),
        ("acl|whoami", "noscript", "admin"),
    ] {
        let found = flags(&mut client, name);
        let is_there = |flag: &str| found.iter().any(|it| it == flag);
        assert!(has.split(' ').all(is_there), "{name}: {found:?}");
        assert!(!has_not.split(' ').any(is_there), "{name}: {found:?}");
    }
    served.end();
}

#[test]
fn command_lists_counts_and_documents() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let Value::Integer(count) = client.call("COMMAND COUNT") else {
        panic!("expected a number");
    };
    assert_eq!(parts(&client.call("COMMAND")).len(), count as usize);
    let names = client.call("COMMAND LIST");
    let names: Vec<String> = parts(&names).iter().map(Value::to_string).collect();
    assert_eq!(
        names.iter().filter(|it| !it.contains('|')).count(),
        count as usize
    );
    for (filter, expected) in [
        ("PATTERN client|l*", &["client|list"][..]),
        ("MODULE any", &[]),
        ("ACLCAT scripting", &["eval", "fcall", "script|load"]),
    ] {
        let found = client.call(&format!("COMMAND LIST FILTERBY {filter}"));
        let has = |name: &&str| parts(&found).contains(&bulk(name));
        assert!(expected.iter().all(has), "{filter}: {found}");
    }
    let documents = client.call("COMMAND DOCS client|list none get");
    let documents = parts(&documents);
    assert_eq!(
        [&documents[0], &documents[2]],
        [&bulk("client|list"), &bulk("get")]
    );
    let get = parts(&documents[3]);
    assert_eq!(
        [&get[0], &get[2], &get[3]],
        [&bulk("summary"), &bulk("group"), &bulk("string")]
    );
    let documents = client.call("COMMAND DOCS latency");
    let latency = parts(&parts(&documents)[1]).to_vec();
    assert_eq!(latency[4], bulk("subcommands"));
    assert_eq!(parts(&latency[5])[0], bulk("latency|doctor"));
    for (call, expected) in [
        ("MSET a 1 b 2", &["a", "b"][..]),
        ("EVAL text 2 a b c", &["a", "b"]),
        ("XREAD COUNT 1 STREAMS s t 0 0", &["s", "t"]),
        ("SORT l BY w_* STORE d", &["l", "d"]),
        ("OBJECT ENCODING k", &["k"]),
        ("ZUNIONSTORE d 2 a b", &["d", "a", "b"]),
    ] {
        let found = client.call(&format!("COMMAND GETKEYS {call}"));
        assert_eq!(found, Value::bulks(expected.iter().copied()), "{call}");
    }
    for (call, expected) in [
        ("PING", "no key arguments"),
        ("GET", "Invalid number of arguments"),
        ("NONE k", "Invalid command"),
    ] {
        let found = client.call(&format!("COMMAND GETKEYS {call}")).to_string();
        assert!(found.contains(expected), "{call}: {found}");
    }
    served.end();
}

#[test]
fn latency_tells_how_long_commands_take() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    (0..3).for_each(|_| drop(client.call("SET k v")));
    let found = client.call("LATENCY HISTOGRAM get SET nothing");
    let [name, facts] = parts(&found) else {
        panic!("expected one command, found {found}");
    };
    assert_eq!(*name, bulk("set"));
    let facts = parts(facts);
    assert_eq!(facts[..3], [bulk("calls"), int(3), bulk("histogram_usec")]);
    assert_eq!(parts(&facts[3]).last(), Some(&int(3)));
    let all = client.call("LATENCY HISTOGRAM").to_string();
    assert!(all.contains("latency") && all.contains("set"), "{all}");
    assert_eq!(client.call("LATENCY RESET"), int(0));
    assert_eq!(client.call("LATENCY RESET command"), int(0));
    for empty in ["LATENCY LATEST", "LATENCY HISTORY command"] {
        assert_eq!(client.call(empty), Value::Array(Vec::new()), "{empty}");
    }
    for (call, expected) in [
        (
            "GRAPH command",
            "-ERR No samples available for event 'command'",
        ),
        ("DOCTOR", "CONFIG SET latency-monitor-threshold"),
        ("HELP", "HISTOGRAM"),
        ("GRAPH", "wrong number of arguments for 'latency|graph'"),
        ("NONE", "unknown subcommand 'NONE'"),
    ] {
        let found = client.call(&format!("LATENCY {call}")).to_string();
        assert!(found.contains(expected), "{call}: {found}");
    }
    // Three million steps take a millisecond at least.
    client.call("CONFIG SET latency-monitor-threshold 1");
    client.call_words(&["EVAL", "for i = 1, 3000000 do end", "0"]);
    let latest = client.call("LATENCY LATEST");
    let is_command = |it: &&Value| parts(it)[0] == bulk("command");
    let event = parts(&latest).iter().find(is_command);
    assert!(event.is_some(), "{latest}");
    assert!(!parts(&client.call("LATENCY HISTORY command")).is_empty());
    assert_eq!(client.call("LATENCY RESET command"), int(1));
    served.end();
}

#[test]
fn a_slow_command_has_the_name_of_its_client() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("CONFIG SET slowlog-log-slower-than 0");
    client.call("SET before 1");
    client.call("CLIENT SETNAME me");
    client.call("SET behind 1");
    client.call("ECHO behind");
    client.call("CONFIG SET slowlog-log-slower-than -1");
    let slow = client.call("SLOWLOG GET -1");
    let name_of = |words: &[&str]| {
        let mut entries = parts(&slow).iter().map(parts);
        let entry = entries.find(|it| it[3] == Value::bulks(words.iter().copied()));
        entry.map(|it| it[5].to_string())
    };
    assert_eq!(name_of(&["SET", "before", "1"]).as_deref(), Some(""));
    for words in [&["SET", "behind", "1"][..], &["ECHO", "behind"]] {
        assert_eq!(name_of(words).as_deref(), Some("me"), "{words:?}");
    }
    served.end();
}

/// CLIENT LIST shows the names of all clients.
#[test]
fn names_that_are_too_long_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let (longest, long) = ("n".repeat(65_536), "n".repeat(65_537));
    for call in [
        "CLIENT SETNAME",
        "CLIENT SETINFO LIB-NAME",
        "CLIENT SETINFO LIB-VER",
    ] {
        assert_eq!(
            client.call(&format!("{call} {longest}")),
            Value::status("OK"),
            "{call}"
        );
    }
    for call in [
        "CLIENT SETNAME",
        "CLIENT SETINFO LIB-NAME",
        "CLIENT SETINFO LIB-VER",
        "HELLO 2 SETNAME",
    ] {
        let refused = client.call(&format!("{call} {long}")).to_string();
        assert!(
            refused.contains("at most 65536 bytes"),
            "{call}: {refused:.100}"
        );
    }
    assert_eq!(client.call("CLIENT GETNAME"), bulk(&longest));
    served.end();
}

/// They were cut off as if they had forgotten to end.
#[test]
fn who_listens_may_be_silent() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut listener, mut monitor) =
        (served.client(), served.client(), served.client());
    client.call("CONFIG SET timeout 1");
    listener.call("SUBSCRIBE c");
    monitor.call("MONITOR");
    let mut silent = served.client();
    silent.call("PING");
    // It is the last one that has said something.
    assert_eq!(silent.try_receive(), None);
    assert_eq!(served.client().call("PUBLISH c hello"), int(1));
    assert_eq!(listener.receive(), Value::bulks(["message", "c", "hello"]));
    let shown: Vec<String> = (0..2).map(|_| monitor.receive().to_string()).collect();
    assert!(
        shown[1].contains("\"PUBLISH\" \"c\" \"hello\""),
        "{shown:?}"
    );
    // A client that no longer listens is as others are.
    listener.call("UNSUBSCRIBE c");
    assert_eq!(listener.try_receive(), None);
    served.end();
}

#[test]
fn monitor_quotes_as_redis_does() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut monitor) = (served.client(), served.client());
    monitor.call("MONITOR");
    client.call_words(&["SET", "it's", "a\"b\\\r\n\u{7}\u{7f}"]);
    let shown = monitor.receive().to_string();
    let expected = r#""SET" "it's" "a\"b\\\r\n\a\x7f""#;
    assert!(shown.ends_with(expected), "{shown}");
    served.end();
}

/// The options are looked at before the key, and a time behind it.
#[test]
fn getex_looks_at_the_time_behind_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("SET k v");
    client.call("RPUSH l a");
    for (call, expected) in [
        ("none EX 0", "null"),
        ("none PX often", "null"),
        ("none EX", "-ERR syntax error"),
        ("none EX 1 PERSIST", "-ERR syntax error"),
        (
            "l EX 0",
            "-WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        ("k EX 0", "-ERR invalid expire time in 'getex' command"),
        ("k EX often", "-ERR value is not an integer or out of range"),
        ("k EX 100", "v"),
    ] {
        assert_eq!(
            client.call(&format!("GETEX {call}")).to_string(),
            expected,
            "{call}"
        );
    }
    assert!(matches!(client.call("TTL k"), Value::Integer(99..=100)));
    client.call("GETEX k PERSIST");
    assert_eq!(client.call("TTL k"), int(-1));
    served.end();
}

#[test]
fn small_answers_are_those_of_redis() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for call in ["SET b a", "SET text x PXAT 4102444800600"] {
        assert_eq!(client.call(call), Value::status("OK"));
    }
    for (call, expected) in [
        ("SMOVE none b member", ":0"),
        ("BITPOS b 1 -2 -10", ":1"),
        ("BITCOUNT b -2 -10", ":0"),
        ("EXPIRETIME text", ":4102444801"),
        ("XRANGE none - + COUNT 0", "[]"),
        (
            "XGROUP CREATE new group - MKSTREAM",
            "-ERR Invalid stream ID",
        ),
        ("EXISTS new", ":0"),
        ("MEMORY USAGE b OTHER", "-ERR syntax error"),
    ] {
        let found = client.call(call).to_string();
        assert!(found.starts_with(expected), "{call}: {found}");
    }
    assert!(matches!(
        client.call("MEMORY USAGE b SAMPLES 5"),
        Value::Integer(1..)
    ));
    served.end();
}

/// Whoever reads a stream as a member of a group learns that one of them is gone.
#[test]
fn a_reader_of_a_group_does_not_wait_for_what_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let (mut client, mut other) = (served.client(), served.client());
    client.waits_at_most(60);
    for (change, expected) in [
        (
            "XGROUP DESTROY stream group",
            "-NOGROUP the consumer group this client was blocked on no longer exists",
        ),
        (
            "RENAME stream renamed",
            "-UNBLOCKED the stream key no longer exists",
        ),
    ] {
        other.call("XGROUP CREATE stream group $ MKSTREAM");
        client.send("XREADGROUP GROUP group reader BLOCK 0 STREAMS stream >");
        while !other
            .call("INFO clients")
            .to_string()
            .contains("blocked_clients:1\r\n")
        {}
        other.call(change);
        assert_eq!(client.receive().to_string(), expected);
    }
    served.end();
}

/// A directory that ends with a slash has its checkpoint beside it, too.
#[test]
fn a_checkpoint_lies_beside_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("data");
    let served = Served::begin(&place.join(""));
    let mut client = served.client();
    client.call("SET key value");
    assert_eq!(client.call("SAVE"), Value::status("OK"));
    served.end();
    assert!(dir.path().join("data.save").is_dir());
    assert!(!place.join(".save").exists());
}
