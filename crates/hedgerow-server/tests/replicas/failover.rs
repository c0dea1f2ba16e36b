//! FAILOVER: to a replica that has everything, and to one that lags, stands still or is not there.

use std::net::SocketAddr;

use super::relay::Relay;
use super::{Servers, contents, counts, fact, follow, is_error, until, until_equal};
use crate::Served;
use crate::client::{Client, Value, bulk, int};
use crate::kill;

/// A primary in this process with a replica that can be stopped, since it is a process of its own.
struct Pair {
    _dir: tempfile::TempDir,
    primary: Served,
    replica: kill::Served,
    client: Client,
}

impl Pair {
    fn begin() -> Pair {
        let dir = tempfile::tempdir().unwrap();
        let primary = Served::begin(&dir.path().join("0"));
        let replica = kill::Served::begin(&dir.path().join("1"));
        let mut pair = Pair {
            client: primary.client(),
            _dir: dir,
            primary,
            replica,
        };
        follow(&mut pair.at_replica(), pair.primary.address);
        pair.client.call("SET k 0");
        pair.until_equal();
        assert_eq!(pair.client.call("WAIT 1 0"), int(1));
        pair
    }

    fn at_replica(&self) -> Client {
        Client::connect(self.replica.address)
    }

    fn until_equal(&mut self) {
        let mut replica = self.at_replica();
        until_equal(&mut self.client, &mut replica);
    }

    fn state(&mut self) -> String {
        fact(&mut self.client, "master_failover_state")
    }

    /// Stops the replica, and writes what it lacks.
    fn stop_replica(&mut self) {
        self.replica.stop();
        assert_eq!(self.client.call("SET k 1"), Value::status("OK"));
    }

    /// The words of a FAILOVER to the replica.
    fn to_replica(&self, options: &str) -> String {
        let address = self.replica.address;
        format!("FAILOVER TO {} {} {options}", address.ip(), address.port())
    }

    /// The primary leads, its replica has everything, and never needed another copy.
    fn assert_unchanged(mut self) {
        assert_eq!(self.state(), "no-failover");
        assert_eq!(fact(&mut self.client, "role"), "master");
        assert_eq!(self.client.call("SET k 2"), Value::status("OK"));
        self.until_equal();
        assert_eq!(contents(&mut self.client), contents(&mut self.at_replica()));
        assert_eq!(fact(&mut self.at_replica(), "role"), "slave");
        assert_eq!(fact(&mut self.client, "sync_full"), "1");
        drop(self.replica);
        self.primary.end();
    }
}

/// A client with a write that waits for the end of a failover. Reads are answered meanwhile.
fn paused_write(address: SocketAddr) -> Client {
    let [mut writer, mut reader] = [0; 2].map(|_| Client::connect(address));
    let Value::Integer(id) = writer.call("CLIENT ID") else {
        panic!("expected a number");
    };
    writer.send("INCR paused");
    until("a write that has begun", || {
        let clients = reader.call("CLIENT LIST").to_string();
        let mut lines = clients.lines();
        let line = lines.find(|it| it.starts_with(&format!("id={id} ")));
        line.is_some_and(|it| it.contains(" cmd=incr "))
    });
    for _ in 0..50 {
        let found = reader.call("GET paused");
        if fact(&mut reader, "master_failover_state") == "no-failover" {
            break;
        }
        assert_eq!(found, Value::Null);
    }
    writer
}

#[test]
fn an_aborted_failover_lets_writes_go_on() {
    let mut pair = Pair::begin();
    pair.stop_replica();
    assert_eq!(pair.client.call("FAILOVER"), Value::status("OK"));
    assert_eq!(pair.state(), "waiting-for-sync");
    let mut writer = paused_write(pair.primary.address);
    for (words, refusal) in [
        ("FAILOVER", "ERR FAILOVER already in progress."),
        (
            "REPLICAOF NO ONE",
            "ERR REPLICAOF not allowed while failing over.",
        ),
        ("FAILOVER ABORT TIMEOUT 5", "ERR syntax error"),
    ] {
        let found = pair.client.call(words);
        assert_eq!(found, Value::Error(refusal.to_owned()), "{words}");
    }
    assert_eq!(pair.client.call("FAILOVER ABORT"), Value::status("OK"));
    assert_eq!(pair.state(), "no-failover");
    assert_eq!(writer.receive(), int(1));
    assert!(is_error(
        &pair.client.call("FAILOVER ABORT"),
        "ERR No failover"
    ));
    assert_eq!(pair.client.call("GET k"), bulk("1"));
    pair.replica.go_on();
    pair.assert_unchanged();
}

#[test]
fn a_failover_is_over_when_no_replica_has_everything_in_time() {
    let mut pair = Pair::begin();
    pair.stop_replica();
    for words in ["FAILOVER TIMEOUT 300", &pair.to_replica("TIMEOUT 300")] {
        assert_eq!(pair.client.call(words), Value::status("OK"));
        let mut writer = paused_write(pair.primary.address);
        // It is answered when the time is over, as nothing else ends the failover.
        assert_eq!(writer.receive(), int(1));
        until("the end", || pair.state() == "no-failover");
        assert_eq!(pair.client.call("DEL paused"), int(1));
    }
    pair.replica.go_on();
    pair.assert_unchanged();
}

#[test]
fn a_replica_that_goes_on_in_time_takes_over() {
    let mut pair = Pair::begin();
    pair.stop_replica();
    let words = pair.to_replica("TIMEOUT 600000");
    assert_eq!(pair.client.call(&words), Value::status("OK"));
    let mut writer = paused_write(pair.primary.address);
    pair.replica.go_on();
    until("the new role", || fact(&mut pair.client, "role") == "slave");
    assert!(is_error(&writer.receive(), "READONLY"));
    let mut leader = pair.at_replica();
    until_equal(&mut leader, &mut pair.client);
    assert_eq!(leader.call("GET k"), bulk("1"));
    assert_eq!(fact(&mut leader, "sync_full"), "0");
    drop(pair.replica);
    pair.primary.end();
}

/// The replica never learns of it: it stands still until the failover is aborted.
#[test]
fn a_forced_failover_to_a_stopped_replica_can_be_aborted() {
    let mut pair = Pair::begin();
    pair.stop_replica();
    let words = pair.to_replica("FORCE TIMEOUT 300");
    assert_eq!(pair.client.call(&words), Value::status("OK"));
    let mut writer = paused_write(pair.primary.address);
    until("the second phase", || {
        pair.state() == "failover-in-progress"
    });
    until("the new role", || fact(&mut pair.client, "role") == "slave");
    assert!(is_error(&pair.client.call("SET k 2"), "READONLY"));
    assert_eq!(pair.client.call("GET k"), bulk("1"));
    assert_eq!(pair.client.call("FAILOVER ABORT"), Value::status("OK"));
    assert_eq!(writer.receive(), int(1));
    pair.replica.go_on();
    pair.assert_unchanged();
}

#[test]
fn a_forced_failover_loses_what_wait_did_not_acknowledge() {
    const WRITES: usize = 40;
    let mut servers = Servers::begin(1);
    let replica = servers.add();
    let relay = Relay::begin(servers.address(0));
    follow(&mut servers.clients[replica], relay.address);
    servers.until_equal(0, replica);
    let mut acknowledged = Vec::new();
    for at in 0..WRITES {
        if at == WRITES / 2 {
            relay.hold();
        }
        servers.call(0, &format!("SET key{at} {at}"));
        let time = if at < WRITES / 2 { 0 } else { 1 };
        if servers.call(0, &format!("WAIT 1 {time}")) == int(1) {
            acknowledged.push(at);
        }
    }
    let expected: Vec<usize> = (0..WRITES / 2).collect();
    assert_eq!(acknowledged, expected);
    let (primary, target) = (servers.address(0), servers.address(replica));
    let to_target = format!("FAILOVER TO {} {}", target.ip(), target.port());
    let words = format!("{to_target} FORCE TIMEOUT 300");
    assert_eq!(servers.call(0, &words), Value::status("OK"));
    let mut writer = paused_write(primary);
    until("the new role", || servers.fact(0, "role") == "slave");
    assert!(is_error(&writer.receive(), "READONLY"));
    until("the end", || {
        servers.fact(0, "master_failover_state") == "no-failover"
    });
    assert_eq!(servers.fact(replica, "role"), "master");
    let link = servers.fact(0, "master_port");
    assert_eq!(link, target.port().to_string());
    // The old primary has a copy of what is left.
    servers.assert_equal(replica, 0);
    assert_eq!(servers.syncs(replica), counts(1, 0));
    let found: Vec<usize> = (0..WRITES)
        .filter(|at| servers.call(replica, &format!("EXISTS key{at}")) == int(1))
        .collect();
    assert_eq!(found, acknowledged);
    assert_eq!(servers.call(replica, "EXISTS paused"), int(0));
    // The role was stored.
    servers.end_one(0);
    servers.begin_again(0);
    assert_eq!(servers.fact(0, "role"), "slave");
    servers.call(replica, "SET after 1");
    servers.assert_equal(replica, 0);
    drop(relay);
    servers.end();
}

/// FORCE is for when the time is over. Before, the replica has to have everything.
#[test]
fn a_forced_failover_in_time_loses_nothing() {
    let mut servers = Servers::begin(2);
    servers.call(0, "SET k 1");
    let target = servers.address(1);
    let address = format!("TO {} {}", target.ip(), target.port());
    let words = format!("FAILOVER FORCE TIMEOUT 600000 {address}");
    assert_eq!(servers.call(0, &words), Value::status("OK"));
    until("the new role", || servers.fact(0, "role") == "slave");
    servers.assert_equal(1, 0);
    assert_eq!(servers.call(1, "GET k"), bulk("1"));
    assert_eq!(servers.syncs(1), counts(0, 1));
    servers.end();
}

#[test]
fn a_failover_to_another_server_than_a_replica_is_refused() {
    const VALUE_BYTES: usize = 1 << 20;
    let mut servers = Servers::begin(2);
    let target = servers.address(1);
    let other = target.port() ^ 1;
    let not_a_replica = "ERR FAILOVER target HOST and PORT is not a replica.";
    for (words, refusal) in [
        (format!("TO 127.0.0.2 {}", target.port()), not_a_replica),
        (format!("TO 127.0.0.1 {other}"), not_a_replica),
        (
            format!("TO 127.0.0.1 {other} FORCE TIMEOUT 5"),
            not_a_replica,
        ),
        ("TO 127.0.0.1 70000".to_owned(), not_a_replica),
        (
            "TO 127.0.0.1 x".to_owned(),
            "ERR value is not an integer or out of range",
        ),
        (
            "FORCE TIMEOUT 5".to_owned(),
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ),
    ] {
        let found = servers.call(0, &format!("FAILOVER {words}"));
        assert_eq!(found, Value::Error(refusal.to_owned()), "{words}");
        assert_eq!(servers.fact(0, "master_failover_state"), "no-failover");
        assert!(matches!(servers.call(0, "INCR n"), Value::Integer(_)));
    }
    // A replica that has no copy yet: it does not read, and the buffers of a connection are less.
    let mut random = fastrand::Rng::with_seed(3);
    for at in 0..16 {
        let value: String = std::iter::repeat_with(|| random.alphanumeric())
            .take(VALUE_BYTES)
            .collect();
        servers.call(0, &format!("SET large{at} {value}"));
    }
    let mut copying = Client::connect(servers.address(0));
    copying.send("HEDGEROW.SYNC 1 ? 0 IP elsewhere PORT 7");
    until("a replica that copies", || {
        servers.fact(0, "slave1").contains("state=send_bulk")
    });
    assert_eq!(
        servers.call(0, "FAILOVER TO elsewhere 7"),
        Value::Error("ERR FAILOVER target replica is not online.".to_owned())
    );
    assert_eq!(servers.fact(0, "role"), "master");
    drop(copying);
    servers.assert_equal(0, 1);
    servers.end();
}

#[test]
fn a_failover_hands_over_and_loses_nothing() {
    let mut servers = Servers::begin(3);
    assert!(is_error(
        &servers.call(1, "FAILOVER"),
        "ERR FAILOVER is not valid"
    ));
    assert!(is_error(
        &servers.call(0, "FAILOVER TO nowhere 1"),
        "ERR FAILOVER target"
    ));
    assert!(is_error(
        &servers.call(0, "FAILOVER ABORT"),
        "ERR No failover"
    ));
    let addresses: Vec<SocketAddr> = (0..3).map(|at| servers.address(at)).collect();
    let mut waiting = Client::connect(addresses[0]);
    waiting.send("BLPOP none 0");
    let mut waiting_for_replicas = Client::connect(addresses[0]);
    waiting_for_replicas.send("WAIT 3 0");
    until("clients that wait", || {
        servers.fact(0, "blocked_clients") == "2"
    });
    let mut written = [0; 3];
    std::thread::scope(|scope| {
        let address = addresses[0];
        let writers: Vec<_> =
            (0..3)
                .map(|writer| {
                    scope.spawn(move || {
                    let mut client = Client::connect(address);
                    let words = |at: u64| match writer {
                        0 => vec!["INCR".to_owned(), "counter0".to_owned()],
                        1 => ["EVAL", "return redis.call('INCR', KEYS[1])", "1", "counter1"]
                            .map(str::to_owned)
                            .to_vec(),
                        _ => {
                            let library = format!(
                                "#!lua name=l{at}\nredis.register_function('f{at}', function() end)"
                            );
                            ["FUNCTION".to_owned(), "LOAD".to_owned(), library].to_vec()
                        }
                    };
                    for at in 0.. {
                        let words = words(at);
                        let words: Vec<&str> = words.iter().map(String::as_str).collect();
                        match client.call_words(&words) {
                            Value::Error(text) => {
                                assert!(text.starts_with("READONLY"), "{text}");
                                return at;
                            }
                            _ if at > 5_000 => panic!("the failover did not come"),
                            _ => {}
                        }
                    }
                    unreachable!("a number of calls")
                })
                })
                .collect();
        until("some writes", || {
            servers.call(0, "EXISTS counter0 counter1") == int(2)
        });
        let target = addresses[1];
        let words = format!(
            "FAILOVER TO {} {} TIMEOUT 60000",
            target.ip(),
            target.port()
        );
        assert_eq!(servers.call(0, &words), Value::status("OK"));
        for (writer, written) in writers.into_iter().zip(&mut written) {
            *written = writer.join().unwrap();
        }
    });
    until("the new role", || servers.fact(0, "role") == "slave");
    assert!(is_error(&waiting.receive(), "UNBLOCKED"));
    assert!(is_error(&waiting_for_replicas.receive(), "UNBLOCKED"));
    assert_eq!(servers.fact(1, "role"), "master");
    assert_eq!(servers.fact(0, "master_failover_state"), "no-failover");
    servers.assert_equal(1, 0);
    assert_eq!(
        servers.call(1, "GET counter0"),
        bulk(&written[0].to_string())
    );
    assert_eq!(
        servers.call(1, "GET counter1"),
        bulk(&written[1].to_string())
    );
    let Value::Array(libraries) = servers.call(1, "FUNCTION LIST") else {
        panic!("expected libraries");
    };
    assert_eq!(libraries.len() as u64, written[2]);
    // The other replica finds its place with the new primary, too.
    servers.follow(2, 1);
    servers.call(1, "SET after failover");
    servers.assert_equal(1, 2);
    assert_eq!(servers.syncs(1), counts(0, 2));
    servers.end();
}

#[test]
fn a_failover_without_a_replica_that_has_all_changes_nothing() {
    let mut servers = Servers::begin(2);
    let address = servers.address(1);
    servers.end_one(1);
    until("no replica", || servers.fact(0, "connected_slaves") == "0");
    assert!(is_error(
        &servers.call(0, "FAILOVER"),
        "ERR FAILOVER requires"
    ));
    let words = format!(
        "FAILOVER TO {} {} FORCE TIMEOUT 10",
        address.ip(),
        address.port()
    );
    assert!(is_error(&servers.call(0, &words), "ERR FAILOVER requires"));
    assert_eq!(servers.call(0, "SET k 1"), Value::status("OK"));
    servers.end();
}
