//! The server as those see it who run it: its parameters, its numbers, its checkpoints.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Served;
use crate::client::{Client, Value, bulk, int};
use crate::replicas::until;

/// The number in a line of INFO.
fn number_of(client: &mut Client, name: &str) -> f64 {
    text_of(client, name).parse().unwrap()
}

fn text_of(client: &mut Client, name: &str) -> String {
    let info = client.call("INFO").to_string();
    let mut lines = info.lines();
    let found = lines.find_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
    found
        .unwrap_or_else(|| panic!("expected {name} in {info}"))
        .to_owned()
}

fn page(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = b"GET /status.json HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn passwords_are_shown_to_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let metrics = free.local_addr().unwrap();
    drop(free);
    let served = Served::with(dir.path(), |options| {
        options.password = "secret".to_owned();
        options.metrics = Some(metrics);
    });
    let (mut client, mut monitor) = (served.client(), served.client());
    client.call("AUTH secret");
    monitor.call("AUTH secret");
    monitor.call("MONITOR");
    client.call("CONFIG SET slowlog-log-slower-than 0");
    let calls = [
        "AUTH secret",
        "auth default secret",
        "AUTH default secret-wrong",
        "HELLO 2 AUTH default secret SETNAME kept",
        "CONFIG SET maxclients 9999 requirepass secret",
        "config set masterauth secret",
        "ACL SETUSER bob on >secret ~*",
        "MIGRATE 127.0.0.1 1 kept 0 1 AUTH secret",
        "MIGRATE 127.0.0.1 1 kept 0 1 AUTH2 bob secret",
    ];
    calls.iter().for_each(|it| drop(client.call(it)));
    client.call("PING last");
    let mut monitored = String::new();
    while !monitored.contains("last") {
        monitored += &monitor.receive().to_string();
    }
    let slow = client.call("SLOWLOG GET -1").to_string();
    for (place, text) in [
        ("MONITOR", monitored),
        ("SLOWLOG", slow),
        ("the page", page(metrics)),
    ] {
        assert!(!text.contains("secret"), "{place}: {text}");
        for kept in ["(redacted)", "kept"] {
            assert!(text.contains(kept), "{place}: {text}");
        }
    }
    served.client_of("secret").shut_down();
    served.join();
}

/// Whatever moment the power fails at, a checkpoint is there.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "another thread looks while the server saves"
)]
fn a_checkpoint_is_there_while_another_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    let place = |ending: &str| dir.path().join(format!("db.save{ending}/MANIFEST"));
    let served = Served::begin(&db);
    let mut client = served.client();
    client.call("SET k v");
    assert_eq!(client.call("SAVE"), Value::status("OK"));
    let ends = AtomicBool::new(false);
    let looks = || {
        let mut looks = 0;
        while !ends.load(Ordering::Relaxed) {
            // It has another name for a moment. Then the new one has its own.
            let found = ["", ".old", ""].iter().any(|it| place(it).exists());
            assert!(found, "no checkpoint at look {looks}");
            looks += 1;
        }
    };
    std::thread::scope(|scope| {
        let looking = scope.spawn(looks);
        for _ in 0..50 {
            client.call("SAVE");
        }
        ends.store(true, Ordering::Relaxed);
        looking.join().unwrap();
    });
    assert!(!place(".old").exists());
    served.end();
    // As if the power had failed between the two renames.
    let (save, old) = (dir.path().join("db.save"), dir.path().join("db.save.old"));
    std::fs::rename(&save, &old).unwrap();
    Served::begin(&db).end();
    assert!(!old.exists());
    let served = Served::begin(&save);
    assert_eq!(served.client().call("GET k"), bulk("v"));
    served.end();
}

#[test]
fn a_failed_save_is_told() {
    let dir = tempfile::tempdir().unwrap();
    // A name that is too long with `.save.new` behind it.
    let served = Served::begin(&dir.path().join("d".repeat(250)));
    let mut client = served.client();
    assert_eq!(text_of(&mut client, "rdb_last_bgsave_status"), "ok");
    assert!(matches!(client.call("SAVE"), Value::Error(_)));
    assert_eq!(text_of(&mut client, "rdb_last_bgsave_status"), "err");
    served.end();
}

/// The timers of the server's side of its connections, as Linux tells them: 2 is that of keepalive.
#[cfg(target_os = "linux")]
#[allow(clippy::disallowed_methods, reason = "a file of the system")]
fn timers(port: u16) -> Vec<String> {
    let (local, open) = (format!("0100007F:{port:04X}"), "01");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|it| it.split_whitespace().collect());
    let of_server = rows.filter(|it: &Vec<&str>| it[1] == local && it[3] == open);
    let timer = |it: Vec<&str>| it[5].split(':').next().unwrap().to_owned();
    let mut timers: Vec<String> = of_server.map(timer).collect();
    timers.sort();
    timers
}

/// Else a client whose machine is gone would wait for ever, and take an element that comes.
#[test]
#[cfg(target_os = "linux")]
fn vanished_clients_are_looked_for() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("PING");
    // A timer is 1 until the other side has what was sent. The table is read in parts, so a
    // connection may be in it twice while others begin and end.
    let port = served.address.port();
    until("a timer of keepalive", || timers(port) == ["02"]);
    client.call("CONFIG SET tcp-keepalive 0");
    let mut without = served.client();
    without.call("PING");
    until("a connection without a timer", || {
        timers(port) == ["00", "02"]
    });
    assert_eq!(
        client.call("CONFIG GET tcp-keepalive"),
        Value::bulks(["tcp-keepalive", "0"])
    );
    let refused = client.call("CONFIG SET tcp-keepalive often");
    assert!(matches!(refused, Value::Error(_)));
    served.end();
}

#[test]
fn config_refuses_what_the_server_cannot_do() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for (name, is, cannot) in [
        ("maxmemory-policy", "noeviction", "allkeys-lru"),
        ("maxmemory", "0", "100mb"),
        ("appendonly", "yes", "no"),
        ("save", "", "60 1"),
        ("protected-mode", "yes", "no"),
        ("stop-writes-on-bgsave-error", "no", "yes"),
        ("maxmemory-clients", "67108864", "0"),
        ("proto-max-bulk-len", "67108864", "512mb"),
        (
            "client-output-buffer-limit",
            "normal 0 0 0 slave 0 0 0 pubsub 33554432 0 0",
            "pubsub 32mb 8mb 60",
        ),
    ] {
        let set = |client: &mut Client, value| client.call_words(&["CONFIG", "SET", name, value]);
        assert_eq!(set(&mut client, is), Value::status("OK"), "{name}");
        let refused = set(&mut client, cannot).to_string();
        let begin = format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - ");
        assert!(refused.starts_with(&begin), "{refused}");
        let found = client.call(&format!("CONFIG GET {name}"));
        assert_eq!(found, Value::bulks([name, is]));
    }
    assert_eq!(
        client.call("CONFIG SET maxmemory 0mb"),
        Value::status("OK"),
        "another text of the same number"
    );
    // Some of the limits, in other words.
    for limits in ["normal 0 0 0", "replica 0 0 0 pubsub 32mb 0 0"] {
        let words = ["CONFIG", "SET", "client-output-buffer-limit", limits];
        assert_eq!(client.call_words(&words), Value::status("OK"), "{limits}");
    }
    let limits = client
        .call("CONFIG GET client-output-buffer-limit")
        .to_string();
    assert!(limits.contains("slave 0 0 0"), "{limits}");
    let twice = client.call("CONFIG SET maxmemory 1 maxmemory 2");
    assert!(twice.to_string().contains("duplicate"), "{twice}");
    served.end();
}

#[test]
fn info_has_the_numbers_that_are_charted() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("SET there v");
    client.call("HSET hash f v");
    for call in ["GET there", "HGET hash none", "MGET there none", "TTL none"] {
        client.call(call);
    }
    // A command that writes does not count.
    client.call("INCR none");
    client.call("BLPOP empty 0.001");
    assert_eq!(number_of(&mut client, "keyspace_hits"), 3.0);
    assert_eq!(number_of(&mut client, "keyspace_misses"), 2.0);
    let resident = number_of(&mut client, "used_memory_rss");
    let peak = number_of(&mut client, "used_memory_peak");
    assert!(resident > 1e6 && peak >= resident, "{resident} {peak}");
    for name in ["used_memory", "used_memory_rss", "used_memory_peak"] {
        let human = text_of(&mut client, &format!("{name}_human"));
        assert!(human.ends_with(['B', 'K', 'M', 'G']), "{name}: {human}");
    }
    while number_of(&mut client, "instantaneous_ops_per_sec") == 0.0 {}
    assert_eq!(client.call("CONFIG RESETSTAT"), Value::status("OK"));
    assert_eq!(number_of(&mut client, "keyspace_hits"), 0.0);
    served.end();
}

#[test]
fn more_clients_than_allowed_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::with(dir.path(), |options| options.clients_max = 2);
    let (mut first, mut second) = (served.client(), served.client());
    first.call("PING");
    second.call("PING");
    let mut third = served.client();
    assert_eq!(
        third.try_receive(),
        Some(Value::Error("ERR max number of clients reached".to_owned()))
    );
    assert_eq!(third.try_receive(), None);
    assert_eq!(number_of(&mut first, "rejected_connections"), 1.0);
    assert_eq!(number_of(&mut first, "connected_clients"), 2.0);
    drop(second);
    while number_of(&mut first, "connected_clients") == 2.0 {}
    assert_eq!(served.client().call("PING"), Value::status("PONG"));
    assert_eq!(first.call("CONFIG SET maxclients 3"), Value::status("OK"));
    let mut more = [served.client(), served.client()];
    for it in &mut more {
        assert_eq!(it.call("PING"), Value::status("PONG"));
    }
    assert_eq!(first.call("EXISTS k"), int(0));
    first.shut_down();
    served.join();
}
