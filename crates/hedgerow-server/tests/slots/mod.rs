//! Servers with a map of slots.
#![allow(clippy::disallowed_methods, reason = "the map is written with std::fs")]

use std::fs;
use std::path::{Path, PathBuf};

use hedgerow_server::{Endpoint, TransferOptions, transfer};

use crate::Served;
use crate::client::{Client, Value, bulk, int};

/// The slot of `foo` is 12182, that of `bar` 5061.
const NORTH: &str = "0-8191";
const SOUTH: &str = "8192-16383";

/// Two servers, and a third one that is a replica of the first by the map only.
struct Servers {
    map: PathBuf,
    served: Vec<Served>,
}

impl Servers {
    fn begin(dir: &Path) -> Servers {
        let map = dir.join("map");
        // Ports are known when the servers run.
        fs::write(&map, "north h:1 0-16383\nsouth h:2\nspare h:3").unwrap();
        let begin = |name: &&str| {
            Served::with(&dir.join(name), |options| {
                options.cluster = Some((map.clone(), (*name).to_owned()));
            })
        };
        let served = ["north", "south", "spare"].iter().map(begin).collect();
        let servers = Servers { map, served };
        assert_eq!(servers.load(NORTH, SOUTH), Value::status("OK"));
        servers
    }

    /// Gives all servers a map. Returns the last reply.
    fn load(&self, north: &str, south: &str) -> Value {
        let [north_at, south_at, spare_at] = [0, 1, 2].map(|place| self.served[place].address);
        let text = format!(
            "north {north_at} {north}\nsouth {south_at} {south}\nspare {spare_at} replica-of north\n"
        );
        fs::write(&self.map, text).unwrap();
        let mut last = Value::Null;
        for served in &self.served {
            last = served.client().call("CLUSTER LOAD");
        }
        last
    }

    fn clients(&self) -> [Client; 3] {
        [0, 1, 2].map(|place| self.served[place].client())
    }

    fn moved(&self, slot: u16, place: usize) -> Value {
        Value::Error(format!("MOVED {slot} {}", self.served[place].address))
    }

    fn end(self) {
        self.served.into_iter().for_each(Served::end);
    }
}

fn error(text: &str) -> Value {
    Value::Error(text.to_owned())
}

#[test]
fn without_a_map_there_are_no_slots() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for call in [
        "CLUSTER SLOTS",
        "CLUSTER KEYSLOT a",
        "READONLY",
        "READWRITE",
        "ASKING",
    ] {
        let found = client.call(call);
        assert_eq!(
            found,
            error("ERR This instance has cluster support disabled")
        );
    }
    assert_eq!(client.call("SELECT 1"), Value::status("OK"));
    served.end();
}

#[test]
fn a_client_is_sent_to_the_server_of_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Servers::begin(dir.path());
    let [mut north, mut south, mut spare] = servers.clients();
    assert_eq!(north.call("SET bar 1"), Value::status("OK"));
    assert_eq!(north.call("SET foo 1"), servers.moved(12182, 1));
    assert_eq!(south.call("SET foo 2"), Value::status("OK"));
    let cross = error("CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(south.call("MGET foo bar"), cross);
    assert_eq!(
        south.call("MGET foo {foo}"),
        Value::Array(vec![bulk("2"), Value::Null])
    );
    // A pipeline has its replies in order.
    let replies = north.pipeline(&["GET bar", "GET foo", "GET bar"]);
    assert_eq!(replies, [bulk("1"), servers.moved(12182, 1), bulk("1")]);
    // At the replica, of which the map alone makes one: it has no keys.
    assert_eq!(spare.call("GET bar"), servers.moved(5061, 0));
    spare.call("READONLY");
    assert_eq!(spare.call("GET bar"), Value::Null);
    assert_eq!(spare.call("SET bar 1"), servers.moved(5061, 0));
    spare.call("READWRITE");
    assert_eq!(spare.call("GET bar"), servers.moved(5061, 0));
    // Channels of shards have slots, too; they are also at replicas.
    let here = Value::Array(vec![bulk("ssubscribe"), bulk("bar"), int(1)]);
    assert_eq!(south.call("SSUBSCRIBE bar"), servers.moved(5061, 0));
    assert_eq!(south.call("SPUBLISH bar x"), servers.moved(5061, 0));
    assert_eq!(north.call("SSUBSCRIBE bar foo"), cross);
    assert_eq!(spare.call("SSUBSCRIBE bar"), here);
    assert_eq!(north.call("SPUBLISH bar x"), int(0));
    spare.call("RESET");
    // For one command.
    north.call("ASKING");
    assert_eq!(north.call("GET foo"), Value::Null);
    assert_eq!(north.call("GET foo"), servers.moved(12182, 1));
    assert_eq!(
        north.call("SELECT 1"),
        error("ERR SELECT is not allowed in cluster mode")
    );
    servers.end();
}

#[test]
fn a_transaction_and_a_script_have_keys_of_one_slot() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Servers::begin(dir.path());
    let [mut north, ..] = servers.clients();
    north.pipeline(&["MULTI", "SET bar 1", "SET {bar}2 2"]);
    let done = Value::Array(vec![Value::status("OK"), Value::status("OK")]);
    assert_eq!(north.call("EXEC"), done);
    // The slot of `a` is 15495, that of `b` 3300.
    north.pipeline(&["MULTI", "SET bar 3", "SET b 3"]);
    let cross = error("CROSSSLOT Keys in request don't hash to the same slot");
    assert_eq!(north.call("EXEC"), cross);
    assert_eq!(north.call("GET bar"), bulk("1"));
    let replies = north.pipeline(&["MULTI", "SET foo 3"]);
    assert_eq!(replies, [Value::status("OK"), servers.moved(12182, 1)]);
    let aborted = "EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(north.call("EXEC"), error(aborted));
    #[cfg(feature = "lua")]
    {
        let call = |key: &str| format!("return redis.call('INCR', '{key}')");
        assert_eq!(
            north.call_words(&["EVAL", &call("bar"), "1", "bar"]),
            int(2)
        );
        let Value::Error(text) = north.call_words(&["EVAL", &call("foo"), "0"]) else {
            panic!("expected an error");
        };
        assert!(
            text.contains("access a non local key in a cluster node"),
            "{text}"
        );
    }
    servers.end();
}

#[test]
fn the_map_is_told_as_redis_tells_it() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Servers::begin(dir.path());
    let [mut north, mut south, _] = servers.clients();
    let Value::Bulk(id) = north.call("CLUSTER MYID") else {
        panic!("expected an id");
    };
    assert_eq!(id.len(), 40);
    let Value::Array(slots) = south.call("CLUSTER SLOTS") else {
        panic!("expected slots");
    };
    let Value::Array(first) = &slots[0] else {
        panic!("expected a range");
    };
    assert_eq!(first[..2], [int(0), int(8191)]);
    let port = |place: usize| int(i64::from(servers.served[place].address.port()));
    let node = Value::Array(vec![
        bulk("127.0.0.1"),
        port(0),
        Value::Bulk(id.clone()),
        Value::Array(Vec::new()),
    ]);
    assert_eq!(first[2], node);
    assert_eq!((slots.len(), first.len()), (2, 4));
    let nodes = south.call("CLUSTER NODES").to_string();
    let lines: Vec<&str> = nodes.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with(&format!("{id} 127.0.0.1:")), "{nodes}");
    assert!(
        lines[0].ends_with(" master - 0 0 1 connected 0-8191"),
        "{nodes}"
    );
    assert!(lines[1].contains(" myself,master - "), "{nodes}");
    assert!(
        lines[2].ends_with(&format!(" slave {id} 0 0 1 connected")),
        "{nodes}"
    );
    let info = north.call("CLUSTER INFO").to_string();
    for line in [
        "cluster_state:ok",
        "cluster_slots_assigned:16384",
        "cluster_size:2",
    ] {
        assert!(info.contains(line), "{info}");
    }
    let Value::Array(shards) = north.call("CLUSTER SHARDS") else {
        panic!("expected shards");
    };
    assert_eq!(shards.len(), 2);
    assert_eq!(north.call("CLUSTER KEYSLOT foo"), int(12182));
    let Value::Array(replicas) = north.call(&format!("CLUSTER REPLICAS {id}")) else {
        panic!("expected replicas");
    };
    assert_eq!(replicas, [bulk(lines[2])]);
    assert!(
        matches!(north.call("CLUSTER MEET h 1"), Value::Error(text) if text.contains("is a file"))
    );
    servers.end();
}

#[test]
fn a_wrong_map_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Servers::begin(dir.path());
    let [mut north, ..] = servers.clients();
    let found = servers.load("0-8192", SOUTH);
    assert!(
        matches!(&found, Value::Error(text) if text.contains("line 2")),
        "{found}"
    );
    for call in ["CLUSTER MEET 127.0.0.1 1", "CLUSTER setslot 1 NODE x"] {
        let refused = north.call(call).to_string();
        assert!(
            refused.starts_with("-ERR The map of slots is a file"),
            "{refused}"
        );
    }
    assert_eq!(north.call("SET bar 1"), Value::status("OK"));
    assert!(
        north
            .call("CLUSTER INFO")
            .to_string()
            .contains("cluster_map_failure:")
    );
    servers.load(NORTH, SOUTH);
    assert!(
        !north
            .call("CLUSTER INFO")
            .to_string()
            .contains("cluster_map_failure:")
    );
    servers.end();
}

/// The way of the documents: nobody serves the slots, their keys are copied, then the other one
/// serves them.
#[test]
fn slots_move_to_another_server_with_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    let servers = Servers::begin(dir.path());
    let [mut north, mut south, _] = servers.clients();
    for number in 0..500 {
        north.call(&format!("RPUSH {{bar}}{number} {number}"));
    }
    north.call("SET a{bar} x PX 100000000");
    north.call("SET other 1");
    assert_eq!(north.call("CLUSTER COUNTKEYSINSLOT 5061"), int(501));
    let Value::Array(some) = north.call("CLUSTER GETKEYSINSLOT 5061 7") else {
        panic!("expected keys");
    };
    assert_eq!(some.len(), 7);
    let mut waiting = servers.served[0].client();
    waiting.send("BLPOP {bar}none 0");
    while !north
        .call("INFO clients")
        .to_string()
        .contains("blocked_clients:1")
    {}

    let mut listener = servers.served[0].client();
    listener.call("SSUBSCRIBE {bar}channel");
    servers.load("0-5000 5100-8191", SOUTH);
    assert_eq!(waiting.receive(), error("CLUSTERDOWN Hash slot not served"));
    assert_eq!(listener.try_receive(), None);
    assert_eq!(
        north.call("GET a{bar}"),
        error("CLUSTERDOWN Hash slot not served")
    );
    let server = |place: usize| {
        let url = format!("redis://{}", servers.served[place].address);
        Endpoint::Server(url.parse().unwrap())
    };
    let options = TransferOptions {
        slots: Some(5001..=5099),
        ..TransferOptions::default()
    };
    let done = transfer(server(0), server(1), &options, &mut |_| true).unwrap();
    assert_eq!(done.keys, 501);
    servers.load("0-5000 5100-8191", "5001-5099 8192-16383");
    assert_eq!(south.call("GET a{bar}"), bulk("x"));
    assert_eq!(south.call("LRANGE {bar}499 0 -1"), Value::bulks(["499"]));
    assert_eq!(south.call("CLUSTER COUNTKEYSINSLOT 5061"), int(501));
    assert_eq!(north.call("GET a{bar}"), servers.moved(5061, 1));
    assert_eq!(south.call("DBSIZE"), int(501));
    servers.end();
}
