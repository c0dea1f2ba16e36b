//! Replicas: copies, commits, roles, and what clients see of them.

mod failover;
mod histories;
mod kill;
mod relay;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::Served;
use crate::client::{Client, Value, bulk, int};

/// Waits until something is so. It is asked again and again, so the machine may be slow.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    const ASKED_MAX: u32 = 200_000;
    for _ in 0..ASKED_MAX {
        if is_so() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("expected {what}");
}

/// A fact of INFO; empty if it is not there.
pub(crate) fn fact(client: &mut Client, name: &str) -> String {
    let info = client.call("INFO everything").to_string();
    let mut lines = info.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().to_owned()
}

pub(crate) fn follow(replica: &mut Client, primary: SocketAddr) {
    let (host, port) = (primary.ip(), primary.port());
    let reply = replica.call(&format!("REPLICAOF {host} {port}"));
    assert!(reply.to_string().starts_with("+OK"), "{reply}");
}

/// Waits until a replica has what its primary has at this moment.
pub(crate) fn until_equal(primary: &mut Client, replica: &mut Client) {
    let offset = fact(primary, "master_repl_offset").parse::<u64>().unwrap();
    until("a replica with everything", || {
        // Offsets are of a history, and a link of the history before may still be up.
        fact(replica, "master_link_status") == "up"
            && fact(replica, "master_replid") == fact(primary, "master_replid")
            && fact(replica, "slave_repl_offset").parse::<u64>().unwrap() >= offset
    });
}

/// All keys of a database with their values and times of expiry, as text.
pub(crate) fn contents(client: &mut Client) -> BTreeMap<String, String> {
    let Value::Array(keys) = client.call("KEYS *") else {
        panic!("expected keys");
    };
    let mut contents = BTreeMap::new();
    for key in keys {
        let kind = client.call(&format!("TYPE {key}")).to_string();
        let words = match kind.as_str() {
            "+string" => format!("GET {key}"),
            "+hash" => format!("HGETALL {key}"),
            "+list" => format!("LRANGE {key} 0 -1"),
            "+set" => format!("SMEMBERS {key}"),
            "+zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            "+stream" => format!("XRANGE {key} - +"),
            // It has expired meanwhile.
            _ => continue,
        };
        let value = client.call(&words).to_string();
        let expires = client.call(&format!("PEXPIRETIME {key}"));
        contents.insert(key.to_string(), format!("{kind} {expires} {value}"));
    }
    contents
}

/// A primary and replicas, each with a client, in this process.
struct Servers {
    dir: tempfile::TempDir,
    all: Vec<Option<Served>>,
    clients: Vec<Client>,
}

impl Servers {
    /// The first one is the primary of the others, which have copies of it.
    fn begin(count: usize) -> Servers {
        let mut servers = Servers {
            dir: tempfile::tempdir().unwrap(),
            all: Vec::new(),
            clients: Vec::new(),
        };
        for _ in 0..count {
            servers.add();
        }
        for replica in 1..count {
            servers.follow(replica, 0);
            servers.until_equal(0, replica);
        }
        servers
    }

    fn add(&mut self) -> usize {
        let at = self.all.len();
        let served = Served::begin(&self.dir.path().join(at.to_string()));
        self.clients.push(served.client());
        self.all.push(Some(served));
        at
    }

    fn address(&self, at: usize) -> SocketAddr {
        self.all[at].as_ref().unwrap().address
    }

    fn follow(&mut self, replica: usize, primary: usize) {
        let address = self.address(primary);
        follow(&mut self.clients[replica], address);
    }

    fn call(&mut self, at: usize, words: &str) -> Value {
        self.clients[at].call(words)
    }

    fn fact(&mut self, at: usize, name: &str) -> String {
        fact(&mut self.clients[at], name)
    }

    fn until_equal(&mut self, primary: usize, replica: usize) {
        let [primary, replica] = self.clients.get_disjoint_mut([primary, replica]).unwrap();
        until_equal(primary, replica);
    }

    /// Waits, and compares the contents of the databases 0 and 1.
    fn assert_equal(&mut self, primary: usize, replica: usize) {
        self.until_equal(primary, replica);
        for db in 0..2 {
            let found = [primary, replica].map(|at| {
                self.call(at, &format!("SELECT {db}"));
                let found = (contents(&mut self.clients[at]), self.call(at, "DBSIZE"));
                self.call(at, "SELECT 0");
                found
            });
            assert_eq!(found[0], found[1], "database {db}");
        }
    }

    /// Whole copies, and replicas that went on where they were, as a primary counts them.
    fn syncs(&mut self, at: usize) -> (String, String) {
        (self.fact(at, "sync_full"), self.fact(at, "sync_partial_ok"))
    }

    fn end_one(&mut self, at: usize) {
        self.all[at].take().unwrap().end();
    }

    fn begin_again(&mut self, at: usize) {
        let served = Served::begin(&self.dir.path().join(at.to_string()));
        self.clients[at] = served.client();
        self.all[at] = Some(served);
    }

    fn end(mut self) {
        self.all.drain(..).flatten().for_each(Served::end);
    }
}

fn counts(copies: u64, partial: u64) -> (String, String) {
    (copies.to_string(), partial.to_string())
}

fn is_error(value: &Value, begin: &str) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(begin))
}

#[test]
fn a_replica_gets_a_copy_and_then_every_change() {
    let mut servers = Servers::begin(1);
    for words in [
        "SET before 1",
        "HSET hash a 1 b 2",
        "RPUSH list a b c",
        "SELECT 1",
        "SET other x",
        "SELECT 0",
    ] {
        servers.call(0, words);
    }
    let replica = servers.add();
    // It has data of its own, which the copy replaces.
    servers.call(replica, "SET own 1");
    servers.follow(replica, 0);
    servers.assert_equal(0, replica);
    assert_eq!(servers.call(replica, "EXISTS own"), int(0));
    for words in [
        "SET after 2 EX 1000",
        "ZADD zset 1 a 2 b",
        "XADD stream 1-1 f v",
        "SADD set x y",
        "LPOP list",
        "HDEL hash a",
        "SELECT 1",
        "FLUSHDB",
        "SET again y",
        "SWAPDB 0 1",
        "SELECT 0",
        "RENAME again moved",
        "COPY moved copied DB 1",
    ] {
        let reply = servers.call(0, words);
        assert!(!matches!(reply, Value::Error(_)), "{words}: {reply}");
    }
    servers.assert_equal(0, replica);
    assert_eq!(servers.call(replica, "GET moved"), bulk("y"));
    assert_eq!(servers.syncs(0), counts(1, 0));
    servers.call(0, "FLUSHALL");
    servers.assert_equal(0, replica);
    assert_eq!(servers.call(replica, "DBSIZE"), int(0));
    servers.end();
}

/// A copy ends far behind the beginning of a segment of the log. The first commit behind it was
/// lost.
#[test]
fn the_first_change_after_a_large_copy_reaches_the_replica() {
    let mut servers = Servers::begin(1);
    let value = "x".repeat(64 << 10);
    for at in 0..104 {
        servers.call(0, &format!("SET large{at} {value}"));
    }
    servers.add();
    servers.follow(1, 0);
    servers.until_equal(0, 1);
    servers.call(0, "SET first 1");
    assert_eq!(servers.call(0, "WAIT 1 0"), int(1));
    assert_eq!(servers.call(1, "GET first"), bulk("1"));
    // The same when it continues where it was.
    servers.end_one(1);
    servers.call(0, "SET away 1");
    servers.begin_again(1);
    servers.assert_equal(0, 1);
    assert_eq!(servers.syncs(0), counts(1, 1));
    servers.end();
}

#[test]
fn a_replica_goes_on_where_it_was_after_a_break() {
    let mut servers = Servers::begin(2);
    for round in 0..5 {
        servers.call(0, &format!("SET round {round}"));
        assert_eq!(servers.call(0, "CLIENT KILL TYPE replica"), int(1));
        servers.call(0, &format!("LPUSH list {round}"));
        until("another synchronisation", || {
            servers.syncs(0) == counts(1, round + 1)
        });
        servers.assert_equal(0, 1);
    }
    // The same after a restart of either.
    servers.end_one(1);
    servers.call(0, "SET while away");
    servers.begin_again(1);
    let role = servers.fact(1, "role");
    assert_eq!(role, "slave");
    servers.assert_equal(0, 1);
    assert_eq!(servers.syncs(0), counts(1, 6));
    servers.end_one(0);
    until("a link that is down", || {
        servers.fact(1, "master_link_status") == "down"
    });
    servers.begin_again(0);
    servers.call(0, "SET restarted 1");
    // It has another port now.
    servers.follow(1, 0);
    servers.assert_equal(0, 1);
    assert_eq!(servers.syncs(0), counts(0, 1));
    servers.end();
}

#[test]
fn a_replica_that_was_away_too_long_gets_a_copy() {
    let mut servers = Servers::begin(1);
    servers.call(0, "CONFIG SET repl-backlog-size 1mb");
    servers.add();
    servers.follow(1, 0);
    servers.until_equal(0, 1);
    servers.end_one(1);
    let value = "x".repeat(1 << 20);
    for round in 0..128 {
        servers.call(0, &format!("SET key{} {value}", round % 8));
    }
    servers.begin_again(1);
    servers.assert_equal(0, 1);
    assert_eq!(servers.syncs(0), counts(2, 0));
    // Its own history at first, then a place that is not kept any more.
    assert_eq!(servers.fact(0, "sync_partial_err"), "2");
    servers.end();
}

/// A flush made segments of the log superfluous that were to be sent, and the copy began again.
#[test]
fn a_copy_is_whole_while_its_primary_is_written() {
    let mut servers = Servers::begin(1);
    let value = "x".repeat(1 << 20);
    let write = |servers: &mut Servers, round: u32| {
        servers.call(0, &format!("SET key{} {value}", round % 8));
    };
    (0..32).for_each(|round| write(&mut servers, round));
    servers.add();
    servers.follow(1, 0);
    let mut round = 0;
    until("a copy", || {
        round += 1;
        write(&mut servers, round);
        servers.fact(1, "master_link_status") == "up"
    });
    servers.assert_equal(0, 1);
    assert_eq!(servers.syncs(0), counts(1, 0));
    let sending = servers.dir.path().join("0/sending");
    assert_eq!(sending.read_dir().unwrap().count(), 0);
    servers.end();
}

#[test]
fn a_replica_refuses_to_write() {
    let mut servers = Servers::begin(2);
    servers.call(0, "SET k 1");
    servers.call(0, "PFADD log a b");
    servers.until_equal(0, 1);
    let readonly = "READONLY You can't write against a read only replica.";
    for words in [
        "SET k 2",
        "DEL k",
        "BLPOP list 0",
        "GETEX k PERSIST",
        "FLUSHALL",
        "SORT list",
        "SWAPDB 0 1",
    ] {
        assert_eq!(
            servers.call(1, words),
            Value::Error(readonly.to_owned()),
            "{words}"
        );
    }
    let eval = ["EVAL", "return redis.call('SET', KEYS[1], 'x')", "1", "k"];
    let refused = servers.clients[1].call_words(&eval);
    assert!(is_error(&refused, "READONLY"), "{refused}");
    let eval = ["EVAL", "return redis.call('GET', KEYS[1])", "1", "k"];
    assert_eq!(servers.clients[1].call_words(&eval), bulk("1"));
    let library = "#!lua name=l\nredis.register_function('w', function() return 2 end)\n\
                   redis.register_function{function_name='f', callback=function() return 1 end, \
                   flags={'no-writes'}}";
    let load = ["FUNCTION", "LOAD", library];
    let refused = servers.clients[1].call_words(&load);
    assert!(is_error(&refused, "READONLY"), "{refused}");
    servers.clients[0].call_words(&load);
    servers.until_equal(0, 1);
    until("a function", || servers.call(1, "FCALL f 0") == int(1));
    assert!(is_error(&servers.call(1, "FCALL w 0"), "READONLY"));
    servers.call(1, "MULTI");
    assert!(is_error(&servers.call(1, "SET k 2"), "READONLY"));
    assert!(is_error(&servers.call(1, "EXEC"), "EXECABORT"));
    assert_eq!(servers.call(1, "PFCOUNT log"), int(2));
    let eval = ["EVAL", "return redis.call('PFCOUNT', KEYS[1])", "1", "log"];
    assert_eq!(servers.clients[1].call_words(&eval), int(2));
    assert_eq!(servers.call(1, "GET k"), bulk("1"));
    assert!(is_error(
        &servers.call(1, "CONFIG SET replica-read-only no"),
        "ERR CONFIG SET"
    ));
    assert!(is_error(&servers.call(1, "WAIT 0 0"), "ERR WAIT cannot"));

    servers.call(1, "CONFIG SET replica-serve-stale-data no");
    assert_eq!(servers.call(1, "GET k"), bulk("1"));
    servers.end_one(0);
    until("stale data", || {
        is_error(&servers.call(1, "GET k"), "MASTERDOWN")
    });
    assert!(!is_error(&servers.call(1, "INFO"), ""));
    servers.call(1, "CONFIG SET replica-serve-stale-data yes");
    assert_eq!(servers.call(1, "GET k"), bulk("1"));
    assert_eq!(servers.call(1, "REPLICAOF NO ONE"), Value::status("OK"));
    assert_eq!(servers.call(1, "SET k 2"), Value::status("OK"));
    assert_eq!(servers.call(1, "HSET new a 1"), int(1));
    servers.end();
}

#[test]
fn expired_keys_are_hidden_by_a_replica_and_removed_by_the_primary() {
    let mut servers = Servers::begin(2);
    servers.call(0, "SET brief 1 PX 300");
    servers.call(0, "SET stays 1");
    servers.until_equal(0, 1);
    until("a hidden key", || {
        servers.call(1, "GET brief") == Value::Null
    });
    until("a removed key", || servers.call(1, "DBSIZE") == int(1));
    servers.assert_equal(0, 1);
    servers.end();
}

#[test]
fn wait_counts_the_replicas_that_have_what_was_written() {
    let mut servers = Servers::begin(1);
    servers.call(0, "SET k 0");
    assert_eq!(servers.call(0, "WAIT 0 0"), int(0));
    assert_eq!(servers.call(0, "WAIT 1 20"), int(0));
    assert_eq!(
        servers.call(0, "CONFIG SET min-replicas-to-write 1"),
        Value::status("OK")
    );
    assert!(is_error(&servers.call(0, "SET k 1"), "NOREPLICAS"));
    assert_eq!(servers.call(0, "GET k"), bulk("0"));
    for replica in 1..=2 {
        servers.add();
        servers.follow(replica, 0);
        servers.until_equal(0, replica);
    }
    until("good replicas", || {
        servers.call(0, "SET k 1") == Value::status("OK")
    });
    for round in 0..20 {
        servers.call(0, &format!("SET k {round}"));
        assert_eq!(servers.call(0, "WAIT 2 0"), int(2));
        for replica in 1..=2 {
            assert_eq!(servers.call(replica, "GET k"), bulk(&round.to_string()));
        }
    }
    servers.call(0, "SET k durable");
    let found = servers.call(0, "WAITAOF 1 2 0");
    assert_eq!(found, Value::Array(vec![int(1), int(2)]));
    // Nobody waits in a transaction.
    for words in ["MULTI", "SET k 1", "WAIT 3 0"] {
        servers.call(0, words);
    }
    let Value::Array(replies) = servers.call(0, "EXEC") else {
        panic!("expected replies");
    };
    assert_eq!(replies[0], Value::status("OK"));
    assert!(matches!(replies[1], Value::Integer(0..=2)));
    // A client that waits can be asked to end, and counts the replicas that there are.
    let mut waiting = servers.all[0].as_ref().unwrap().client();
    waiting.call("SET k 2");
    assert_eq!(waiting.call("WAIT 2 0"), int(2));
    let Value::Integer(id) = waiting.call("CLIENT ID") else {
        panic!("expected a number");
    };
    waiting.send("WAIT 3 0");
    until("an end", || {
        servers.call(0, &format!("CLIENT UNBLOCK {id}")) == int(1)
    });
    assert_eq!(waiting.receive(), int(2));
    servers.end_one(2);
    until("one replica less", || {
        servers.fact(0, "connected_slaves") == "1"
    });
    servers.call(0, "SET k 3");
    assert_eq!(servers.call(0, "WAIT 2 50"), int(1));
    servers.end();
}

/// No replica acknowledges anything afterwards, which would wake it, too.
#[test]
fn who_waits_for_replicas_is_told_of_another_primary() {
    let mut servers = Servers::begin(1);
    let other = servers.add();
    let mut waiting = Client::connect(servers.address(0));
    waiting.send("WAIT 1 0");
    until("a client that waits", || {
        servers.fact(0, "blocked_clients") == "1"
    });
    servers.follow(0, other);
    until("its answer", || servers.fact(0, "blocked_clients") == "0");
    assert!(is_error(&waiting.receive(), "UNBLOCKED"));
    servers.end();
}

#[test]
fn the_role_is_told_to_clients() {
    let mut servers = Servers::begin(2);
    let [primary, replica] = [0, 1].map(|at| servers.address(at).port());
    let role = servers.call(0, "ROLE").to_string();
    assert!(role.starts_with("[Bulk(\"master\")"), "{role}");
    assert!(role.contains(&replica.to_string()), "{role}");
    let role = servers.call(1, "ROLE").to_string();
    assert!(
        role.starts_with("[Bulk(\"slave\"), Bulk(\"127.0.0.1\")"),
        "{role}"
    );
    assert!(
        role.contains(&format!("Integer({primary}), Bulk(\"connected\")")),
        "{role}"
    );
    let slave = servers.fact(0, "slave0");
    assert!(
        slave.starts_with(&format!("ip=127.0.0.1,port={replica},state=online")),
        "{slave}"
    );
    assert_eq!(
        servers.fact(0, "master_replid"),
        servers.fact(1, "master_replid")
    );
    assert_eq!(servers.fact(1, "slave_read_only"), "1");
    let lines = servers.call(0, "CLIENT LIST TYPE replica").to_string();
    assert!(lines.contains("flags=S"), "{lines}");
    let lines = servers.call(1, "CLIENT LIST TYPE master").to_string();
    assert!(lines.contains("flags=M"), "{lines}");
    assert!(servers.call(1, "HELLO 2").to_string().contains("replica"));
    let found = servers.call(1, "CONFIG GET replicaof");
    assert_eq!(
        found,
        Value::bulks(["replicaof".to_owned(), format!("127.0.0.1 {primary}")])
    );
    servers.end();
}

#[test]
fn messages_changes_and_waits_reach_the_clients_of_a_replica() {
    let mut servers = Servers::begin(2);
    let mut listener = servers.all[1].as_ref().unwrap().client();
    listener.call("SUBSCRIBE news");
    servers.call(0, "PUBLISH news hello");
    assert_eq!(
        listener.receive(),
        Value::bulks(["message", "news", "hello"])
    );
    let mut reader = servers.all[1].as_ref().unwrap().client();
    reader.send("XREAD BLOCK 0 STREAMS stream $");
    until("a reader that waits", || {
        servers.fact(1, "blocked_clients") == "1"
    });
    servers.call(0, "XADD stream 5-1 f v");
    assert!(reader.receive().to_string().contains("5-1"));
    servers.call(0, "SET k 1");
    servers.until_equal(0, 1);
    servers.call(1, "WATCH k");
    servers.call(0, "SET k 2");
    servers.until_equal(0, 1);
    servers.call(1, "MULTI");
    servers.call(1, "GET k");
    assert_eq!(servers.call(1, "EXEC"), Value::Null);
    let mut tracker = servers.all[1].as_ref().unwrap().client();
    tracker.waits_at_most(60);
    tracker.call("HELLO 3");
    tracker.call("CLIENT TRACKING ON");
    let told = |keys| Value::Array(vec![bulk("invalidate"), keys]);
    assert_eq!(tracker.call("GET k"), bulk("2"));
    servers.call(0, "SET k 3");
    assert_eq!(tracker.receive(), told(Value::bulks(["k"])));
    // These change elements, and the number of them stays.
    for (make, read, change) in [
        ("HSET hash f 1", "HGET hash f", "HSET hash f 2"),
        ("RPUSH list a", "LRANGE list 0 -1", "LSET list 0 b"),
    ] {
        servers.call(0, make);
        servers.until_equal(0, 1);
        tracker.call(read);
        servers.call(0, change);
        let key = make.split(' ').nth(1).unwrap();
        assert_eq!(tracker.receive(), told(Value::bulks([key])), "{change}");
    }
    servers.call(1, "WATCH hash");
    servers.call(0, "MULTI");
    servers.call(0, "HSET hash f 3");
    servers.call(0, "EXEC");
    servers.until_equal(0, 1);
    servers.call(1, "MULTI");
    assert_eq!(servers.call(1, "EXEC"), Value::Null);
    servers.call(0, "FLUSHALL");
    assert_eq!(tracker.receive(), told(Value::Null));
    if cfg!(feature = "lua") {
        // The database is a new one.
        servers.call(0, "MSET k 4 other 1");
        assert_eq!(tracker.receive(), told(Value::Null));
        servers.until_equal(0, 1);
        assert_eq!(tracker.call("GET k"), bulk("4"));
        servers.call(0, "EVAL redis.call('flushdb') 0");
        assert_eq!(tracker.receive(), told(Value::Null));
        servers.until_equal(0, 1);
        assert_eq!(servers.call(1, "DBSIZE"), int(0));
    }
    servers.end();
}

#[test]
fn a_promotion_lets_the_others_go_on() {
    let mut servers = Servers::begin(3);
    servers.call(0, "SET k 1");
    servers.until_equal(0, 1);
    servers.until_equal(0, 2);
    servers.call(1, "REPLICAOF NO ONE");
    servers.call(1, "RPUSH list a");
    servers.follow(2, 1);
    servers.assert_equal(1, 2);
    assert_eq!(servers.syncs(1), counts(0, 1));
    // The old primary has nothing that the new one lacks.
    servers.follow(0, 1);
    servers.assert_equal(1, 0);
    assert_eq!(servers.syncs(1), counts(0, 2));
    // Collections of the new primary have versions of their own.
    servers.call(1, "DEL list");
    servers.call(1, "RPUSH list b");
    servers.assert_equal(1, 0);
    // Back again, by way of another promotion.
    servers.call(0, "REPLICAOF NO ONE");
    servers.call(0, "SET k 2");
    servers.follow(1, 0);
    servers.assert_equal(0, 1);
    assert_eq!(servers.fact(0, "sync_full"), "2");
    // Two histories are remembered, so the third server has to come along before the next one.
    servers.assert_equal(1, 2);
    // One that wrote what the new primary does not have gets a copy.
    servers.call(1, "REPLICAOF NO ONE");
    servers.call(0, "SET lost 1");
    servers.call(1, "SET kept 1");
    servers.follow(0, 1);
    servers.assert_equal(1, 0);
    servers.assert_equal(1, 2);
    assert_eq!(servers.call(0, "EXISTS lost kept"), int(1));
    assert_eq!(servers.fact(1, "sync_full"), "1");
    servers.end();
}

#[test]
fn a_replica_may_have_replicas() {
    let mut servers = Servers::begin(2);
    servers.call(0, "SET before 1");
    servers.add();
    servers.follow(2, 1);
    servers.until_equal(1, 2);
    servers.call(0, "HSET hash a 1");
    servers.call(0, "SELECT 1");
    servers.call(0, "SET new x");
    servers.call(0, "SELECT 0");
    servers.until_equal(0, 1);
    servers.assert_equal(1, 2);
    assert_eq!(
        servers.fact(0, "master_repl_offset"),
        servers.fact(2, "slave_repl_offset")
    );
    assert_eq!(servers.call(1, "CLIENT KILL TYPE replica"), int(1));
    servers.call(0, "SET after 1");
    servers.until_equal(0, 1);
    servers.assert_equal(1, 2);
    assert_eq!(servers.syncs(1), counts(1, 1));
    // The primary is gone; the one in the middle leads.
    servers.end_one(0);
    servers.call(1, "REPLICAOF NO ONE");
    servers.call(1, "SET led 1");
    servers.assert_equal(1, 2);
    assert_eq!(servers.syncs(1), counts(1, 2));
    servers.end();
}

#[test]
fn a_replica_logs_in() {
    let dir = tempfile::tempdir().unwrap();
    let primary = Served::with(&dir.path().join("0"), |it| {
        it.password = "secret".to_owned()
    });
    let mut client = primary.client();
    client.call("AUTH secret");
    client.call("SET k 1");
    let address = primary.address.to_string();
    let replica = Served::with(&dir.path().join("1"), |options| {
        options.replica_of = Some(address.clone());
    });
    let mut reader = replica.client();
    until("a refusal", || {
        fact(&mut reader, "hedgerow_master_link_error").contains("NOAUTH")
    });
    reader.call("CONFIG SET masterauth secret");
    until_equal(&mut client, &mut reader);
    assert_eq!(reader.call("GET k"), bulk("1"));
    // The stored role holds against options that are the same as before.
    reader.call("REPLICAOF NO ONE");
    replica.end();
    let login = (String::new(), "secret".to_owned());
    let replica = Served::with(&dir.path().join("1"), |options| {
        options.replica_of = Some(address.clone());
        options.primary_login = login.clone();
    });
    let mut reader = replica.client();
    assert_eq!(fact(&mut reader, "role"), "master");
    // A server does not follow itself.
    reader.call("CONFIG SET masterauth ");
    follow(&mut reader, replica.address);
    until("a refusal", || {
        fact(&mut reader, "hedgerow_master_link_error").contains("itself")
    });
    replica.end();
    client.shut_down();
    primary.join();
}

/// Clients of the replica stay connected while a copy takes the place of the database.
#[test]
fn a_copy_is_exchanged_under_clients() {
    let mut servers = Servers::begin(2);
    for at in 0..2_000 {
        servers.call(0, &format!("SET key{at} {at}"));
    }
    servers.until_equal(0, 1);
    let address = servers.address(1);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_over = &is_over;
        for reader in 0..2 {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for at in 0.. {
                    if is_over.load(std::sync::atomic::Ordering::Acquire) {
                        return;
                    }
                    let key = (at * 7 + reader) % 2_000;
                    let found = client.call(&format!("GET key{key}"));
                    let is_loading = is_error(&found, "LOADING");
                    assert!(is_loading || found == bulk(&key.to_string()), "{found}");
                }
            });
        }
        for round in 0..5 {
            // Each has something that the other one lacks, which makes a copy necessary.
            servers.call(1, "REPLICAOF NO ONE");
            servers.call(1, &format!("SET own{round} 1"));
            servers.call(0, &format!("SET round {round}"));
            servers.follow(1, 0);
            servers.until_equal(0, 1);
        }
        is_over.store(true, std::sync::atomic::Ordering::Release);
    });
    servers.assert_equal(0, 1);
    assert_eq!(servers.fact(1, "hedgerow_copies_received"), "6");
    servers.end();
}
