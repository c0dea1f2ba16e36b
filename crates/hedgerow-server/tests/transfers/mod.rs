//! Copies of all keys between servers and databases.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use hedgerow::{Db, ErrorKind};
use hedgerow_server::{Endpoint, TransferOptions, Transferred, transfer};

use crate::Served;
use crate::client::{Client, Value, bulk, int};

/// Keys enough for several chunks.
const KEYS: usize = 10_000;

fn fill(client: &mut Client) {
    let calls: Vec<String> = (0..KEYS)
        .map(|place| match place % 5 {
            0 => format!("SET string{place} {place} PX 100000000"),
            1 => format!("RPUSH list{place} a b {place} a"),
            2 => format!("SADD set{place} a b {place}"),
            3 => format!("ZADD zset{place} 1.5 a -inf {place}"),
            _ => format!("HSET hash{place} a 1 b {place}"),
        })
        .collect();
    for chunk in calls.chunks(1_000) {
        let calls: Vec<&str> = chunk.iter().map(String::as_str).collect();
        client.pipeline(&calls);
    }
    client.call("SELECT 7");
    for number in 1..300 {
        client.call(&format!(
            "XADD stream {number}-1 name value number {number}"
        ));
    }
    client.call("XDEL stream 5-1 299-1");
    client.call("XGROUP CREATE stream group 0");
    client.call("XREADGROUP GROUP group one COUNT 7 STREAMS stream >");
    client.call("XREADGROUP GROUP group two COUNT 2 STREAMS stream >");
    client.call("XACK stream group 2-1");
    client.call("XREADGROUP GROUP group idle COUNT 1 STREAMS stream >");
    client.call("XACK stream group 11-1");
    client.call("XADD empty 1-1 a b");
    client.call("XDEL empty 1-1");
    client.call("SELECT 0");
}

/// Everything that a client can see, with the times of expiry in hours.
fn content(client: &mut Client) -> BTreeMap<(i64, String), String> {
    let mut found = BTreeMap::new();
    for db in [0, 7] {
        client.call(&format!("SELECT {db}"));
        let Value::Array(keys) = client.call("KEYS *") else {
            panic!("expected keys");
        };
        for key in keys {
            let read = match &key.to_string()[..2] {
                "st" if db == 7 => "XINFO STREAM {} FULL COUNT 0",
                "em" => "XINFO STREAM {}",
                "st" => "GET {}",
                "li" => "LRANGE {} 0 -1",
                "se" => "SORT {} ALPHA",
                "zs" => "ZRANGE {} 0 -1 WITHSCORES",
                _ => "HMGET {} a b",
            };
            let value = client.call(&read.replace("{}", &key.to_string()));
            let Value::Integer(ttl) = client.call(&format!("TTL {key}")) else {
                panic!("expected a time");
            };
            let hours = (ttl + 1_800) / 3_600;
            found.insert((db, key.to_string()), format!("{value} {hours}"));
        }
    }
    client.call("SELECT 0");
    found
}

/// Fails with the first difference.
fn same(found: &BTreeMap<(i64, String), String>, expected: &BTreeMap<(i64, String), String>) {
    for (key, value) in expected {
        assert_eq!(found.get(key), Some(value), "{key:?}");
    }
    assert_eq!(found.len(), expected.len());
}

fn server(address: SocketAddr) -> Endpoint {
    Endpoint::Server(format!("redis://{address}").parse().unwrap())
}

fn directory(dir: &Path) -> Endpoint {
    Endpoint::Directory(Box::new(Db::builder(dir).memory_budget(64 << 20)))
}

/// Copies again and again, each time to the end of a chunk.
fn in_pieces(source: impl Fn() -> Endpoint, target: impl Fn() -> Endpoint) -> Transferred {
    let mut runs = 0;
    loop {
        runs += 1;
        match transfer(source(), target(), &TransferOptions::default(), &mut |_| {
            false
        }) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
            Ok(done) if runs > 2 => return done,
            Ok(done) => panic!("expected several runs, found {runs}: {done:?}"),
        }
    }
}

#[test]
fn keys_come_from_a_server_into_a_directory_and_back() {
    let place = tempfile::tempdir().unwrap();
    let (first, copy, last) = (
        place.path().join("first"),
        place.path().join("copy"),
        place.path().join("last"),
    );
    let served = Served::begin(&first);
    let mut client = served.client();
    fill(&mut client);
    let expected = content(&mut client);
    assert_eq!(expected.len(), KEYS + 2);
    let done = in_pieces(|| server(served.address), || directory(&copy));
    assert!(done.keys >= KEYS as u64 + 2, "{done:?}");
    served.end();

    let served = Served::begin(&last);
    let mut client = served.client();
    // Whatever is there under a name of the source is replaced.
    client.call("SET list1 x");
    client.call("SET other x");
    in_pieces(|| directory(&copy), || server(served.address));
    assert_eq!(client.call("DEL other"), int(1));
    same(&content(&mut client), &expected);
    // The position was of a copy into this server: it is not there any more.
    client.call("FLUSHALL");
    let done = transfer(
        directory(&copy),
        server(served.address),
        &TransferOptions::default(),
        &mut |_| true,
    );
    assert_eq!(done.unwrap().keys_before, 0);
    same(&content(&mut client), &expected);
    served.end();
}

#[test]
fn a_server_is_copied_into_another_one() {
    let place = tempfile::tempdir().unwrap();
    let from = Served::with(&place.path().join("from"), |options| {
        options.password = "secret".to_owned();
    });
    let to = Served::begin(&place.path().join("to"));
    let mut client = from.client();
    client.call("AUTH secret");
    client.call("SET a 1");
    client.call("SELECT 3");
    client.call("SET b 2");
    let source = |text: String| Endpoint::Server(text.parse().unwrap());
    let with_password = format!("redis://:secret@{}", from.address);
    let copy = |text: &str| {
        transfer(
            source(text.to_owned()),
            server(to.address),
            &TransferOptions::default(),
            &mut |_| true,
        )
    };
    let refused = copy(&format!("redis://:wrong@{}", from.address)).unwrap_err();
    assert!(refused.to_string().contains("refused AUTH"), "{refused}");
    assert_eq!(copy(&format!("{with_password}/3")).unwrap().keys, 1);
    let mut client = to.client();
    assert_eq!(client.call("GET a"), Value::Null);
    assert_eq!(copy(&with_password).unwrap().keys, 2);
    assert_eq!(client.call("GET a"), bulk("1"));
    client.call("SELECT 3");
    assert_eq!(client.call("GET b"), bulk("2"));
    let mut client = from.client();
    client.call("AUTH secret");
    client.shut_down();
    from.join();
    to.end();
}

#[cfg(feature = "lua")]
#[test]
fn libraries_of_functions_are_copied() {
    let place = tempfile::tempdir().unwrap();
    let (copy, last) = (place.path().join("copy"), place.path().join("last"));
    let served = Served::begin(&place.path().join("first"));
    let library = "#!lua name=lib\nredis.register_function('f', function() return 5 end)";
    let loaded = served.client().call_words(&["FUNCTION", "LOAD", library]);
    assert_eq!(loaded, bulk("lib"));
    let done = transfer(
        server(served.address),
        directory(&copy),
        &TransferOptions::default(),
        &mut |_| true,
    );
    assert_eq!(done.unwrap().libraries, 1);
    served.end();
    let served = Served::begin(&last);
    transfer(
        directory(&copy),
        server(served.address),
        &TransferOptions::default(),
        &mut |_| true,
    )
    .unwrap();
    assert_eq!(served.client().call("FCALL f 0"), int(5));
    served.end();
}
