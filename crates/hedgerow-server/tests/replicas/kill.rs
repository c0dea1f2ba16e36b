//! A primary and its replica are killed, cut off and handed over under clients. What WAIT has
//! acknowledged is there afterwards, on whichever of both leads.
//!
//! `HEDGEROW_REPLICA_SECONDS` is the duration, 15 by default.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{contents, fact, follow, until, until_equal};
use crate::client::{Client, Value};
use crate::kill::Served;
use crate::kill::model::{Model, calls};

const CLIENTS: usize = 4;
/// A client waits for the replica after this number of units.
const WAITS_EACH: u64 = 7;
const SEED: u64 = 23;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    PrimaryKilled,
    ReplicaKilled,
    ConnectionCut,
    HandedOver,
}

/// The units of calls of a client: deterministic, so their number tells the state.
#[derive(Debug, Clone, Copy, Default)]
struct Units {
    /// The next one.
    next: u64,
    /// Those that WAIT has acknowledged.
    acknowledged: u64,
    /// The largest number of units that any server may have.
    most: u64,
}

/// The error in a reply, or in one of its parts.
fn refusal(reply: &Value) -> Option<&str> {
    match reply {
        Value::Error(text) => Some(text),
        Value::Array(parts) => parts.iter().find_map(refusal),
        _ => None,
    }
}

/// Calls until the server is gone, or is no primary any more.
fn work(address: SocketAddr, client: usize, mut units: Units, made: &AtomicU64) -> Units {
    let mut connection = Client::connect(address);
    loop {
        units.most = units.most.max(units.next + 1);
        for words in calls(client, units.next) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let Some(reply) = connection.try_call_words(&words) else {
                return units;
            };
            match refusal(&reply) {
                Some(text) if text.starts_with("READONLY") => return units,
                Some(text) => panic!("{words:?}: {text}"),
                None => {}
            }
        }
        units.next += 1;
        made.fetch_add(1, Ordering::Relaxed);
        if units.next.is_multiple_of(WAITS_EACH)
            && let Some(Value::Integer(1..)) = connection.try_call("WAIT 1 100")
        {
            units.acknowledged = units.next;
        }
    }
}

/// The number of units that a server has of a client: what was acknowledged, and perhaps more.
fn reached(connection: &mut Client, client: usize, units: Units) -> u64 {
    let found = Model::found(connection, client);
    let mut model = Model::default();
    for at in 0..=units.most {
        if at >= units.acknowledged && model.number == found.number && model == found {
            return at;
        }
        model.apply(at);
    }
    panic!("client {client}: expected the state after {units:?}, found {found:?}");
}

struct Pair {
    dirs: [PathBuf; 2],
    served: [Option<Served>; 2],
    primary: usize,
    units: [Units; CLIENTS],
    /// The whole copies that each process has made.
    copies: BTreeMap<String, u64>,
}

impl Pair {
    fn address(&self, at: usize) -> SocketAddr {
        self.served[at].as_ref().unwrap().address
    }

    fn client(&self, at: usize) -> Client {
        Client::connect(self.address(at))
    }

    fn begin(&mut self, at: usize) {
        self.served[at] = Some(Served::begin(&self.dirs[at]));
    }

    fn kill(&mut self, at: usize) {
        self.served[at].take().unwrap().kill();
    }

    /// Lets clients work, and something happen.
    fn run(&mut self, event: Event, until_made: u64) {
        let made = AtomicU64::new(0);
        let (address, before) = (self.address(self.primary), self.units);
        std::thread::scope(|scope| {
            let made = &made;
            let clients: Vec<_> = before
                .into_iter()
                .enumerate()
                .map(|(client, units)| scope.spawn(move || work(address, client, units, made)))
                .collect();
            let works = |count: u64| {
                while made.load(Ordering::Relaxed) < count {
                    assert!(
                        !clients.iter().any(|it| it.is_finished()),
                        "a client has ended"
                    );
                    std::thread::yield_now();
                }
            };
            works(until_made);
            let (primary, replica) = (self.primary, 1 - self.primary);
            match event {
                Event::PrimaryKilled => self.kill(primary),
                Event::ReplicaKilled => {
                    self.kill(replica);
                    works(until_made + until_made / 4);
                    // It knows whom it follows.
                    self.begin(replica);
                    works(2 * until_made);
                    self.kill(primary);
                }
                Event::ConnectionCut => {
                    self.client(primary).call("CLIENT KILL TYPE replica");
                    works(2 * until_made);
                    self.kill(primary);
                }
                Event::HandedOver => self.hand_over(),
            }
            let ended = clients.into_iter().map(|it| it.join().unwrap());
            for (units, ended) in self.units.iter_mut().zip(ended) {
                *units = ended;
            }
        });
    }

    /// FAILOVER, until the replica is there and takes over.
    fn hand_over(&mut self) {
        let mut client = self.client(self.primary);
        until("a failover", || {
            client.call("FAILOVER TIMEOUT 1000");
            until("its end", || {
                fact(&mut client, "master_failover_state") == "no-failover"
            });
            fact(&mut client, "role") == "slave"
        });
    }

    /// The other server leads now. Everything that was acknowledged is there.
    fn change(&mut self) {
        let replica = 1 - self.primary;
        let mut connection = self.client(replica);
        let reply = connection.call("REPLICAOF NO ONE");
        assert_eq!(reply, Value::status("OK"));
        for client in 0..CLIENTS {
            self.units[client].next = reached(&mut connection, client, self.units[client]);
        }
        let old = std::mem::replace(&mut self.primary, replica);
        if self.served[old].is_none() {
            self.begin(old);
        }
        let address = self.address(self.primary);
        follow(&mut self.client(old), address);
    }

    fn count_copies(&mut self) {
        let mut primary = self.client(self.primary);
        let copies = fact(&mut primary, "sync_full").parse().unwrap();
        self.copies.insert(fact(&mut primary, "run_id"), copies);
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the duration is an option")]
fn what_wait_acknowledged_survives_kills_and_promotions() {
    let seconds = std::env::var("HEDGEROW_REPLICA_SECONDS").map_or(15, |it| it.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut pair = Pair {
        dirs: ["0", "1"].map(|it| dir.path().join(it)),
        served: [None, None],
        primary: 0,
        units: [Units::default(); CLIENTS],
        copies: BTreeMap::new(),
    };
    pair.begin(0);
    pair.begin(1);
    let primary = pair.address(0);
    follow(&mut pair.client(1), primary);
    let mut random = fastrand::Rng::with_seed(SEED);
    let (began, mut events) = (Instant::now(), [0; 4]);
    while began.elapsed() < Duration::from_secs(seconds) {
        let all = [
            Event::PrimaryKilled,
            Event::ReplicaKilled,
            Event::ConnectionCut,
            Event::HandedOver,
        ];
        let event = all[random.usize(..all.len())];
        events[event as usize] += 1;
        // Also before the replica is there.
        if random.u8(..4) > 0 {
            let [mut primary, mut replica] =
                [pair.primary, 1 - pair.primary].map(|at| pair.client(at));
            until_equal(&mut primary, &mut replica);
        }
        pair.count_copies();
        pair.run(event, random.u64(50..1_550));
        pair.change();
    }
    let [mut primary, mut replica] = [pair.primary, 1 - pair.primary].map(|at| pair.client(at));
    until_equal(&mut primary, &mut replica);
    assert_eq!(contents(&mut primary), contents(&mut replica));
    let sum = |of: fn(&Units) -> u64| pair.units.iter().map(of).sum::<u64>();
    println!(
        "seed {SEED}: {events:?} of killed primaries, killed replicas, cuts and failovers; {} units \
         of calls, {} of them acknowledged; {} whole copies",
        sum(|it| it.next),
        sum(|it| it.acknowledged),
        pair.copies.values().sum::<u64>(),
    );
    assert!(sum(|it| it.acknowledged) > 0);
}
