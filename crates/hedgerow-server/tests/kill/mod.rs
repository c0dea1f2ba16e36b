//! A server is killed under clients, and has everything that it acknowledged. The server is the
//! example `serve`, which cargo builds with the tests.
//!
//! `HEDGEROW_SERVER_KILLS` is the number of kills, 4 by default.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::{Client, Value};

const CLIENTS: usize = 4;

pub(crate) struct Served {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Served {
    pub(crate) fn begin(dir: &Path) -> Served {
        let test = std::env::current_exe().unwrap();
        let built = test.parent().and_then(Path::parent).unwrap();
        let mut process = Command::new(built.join("examples/serve"))
            .arg(dir)
            .arg("0")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = process.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("ready on ");
        let address = address.unwrap_or_else(|| panic!("expected an address, found `{line}`"));
        Served {
            process,
            address: address.parse().unwrap(),
        }
    }

    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The contents of the keys of one client after its first calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    string: Option<u64>,
    pub(crate) number: u64,
    hash: BTreeMap<String, String>,
    list: Vec<String>,
    scores: BTreeMap<String, u64>,
    set: BTreeSet<String>,
}

/// The call with this number, and its effect.
pub(crate) fn call(client: usize, at: u64, model: &mut Model) -> String {
    let name = |kind: &str| format!("{kind}{client}");
    match at % 10 {
        0 => {
            model.string = Some(at);
            format!("SET {} {at}", name("string"))
        }
        1 => {
            model.number += 1;
            format!("INCR {}", name("number"))
        }
        2 | 3 => {
            model.hash.insert(format!("f{}", at % 70), at.to_string());
            format!("HSET {} f{} {at}", name("hash"), at % 70)
        }
        4 => {
            model.list.push(at.to_string());
            format!("RPUSH {} {at}", name("list"))
        }
        5 if at % 30 == 5 => {
            if !model.list.is_empty() {
                model.list.remove(0);
            }
            format!("LPOP {}", name("list"))
        }
        5 | 6 => {
            model.scores.insert(format!("m{}", at % 50), at);
            format!("ZADD {} {at} m{}", name("scores"), at % 50)
        }
        7 => {
            model.set.insert((at % 200).to_string());
            format!("SADD {} {}", name("set"), at % 200)
        }
        8 if at % 500 == 8 => {
            model.hash.clear();
            format!("DEL {}", name("hash"))
        }
        8 => {
            model.set.remove(&(at % 130).to_string());
            format!("SREM {} {}", name("set"), at % 130)
        }
        _ => {
            model.string = None;
            format!("DEL {}", name("string"))
        }
    }
}

fn texts(value: Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(Value::to_string).collect(),
        other => panic!("expected an array, found {other}"),
    }
}

fn pairs(texts: &[String]) -> impl Iterator<Item = (String, String)> {
    texts
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
}

/// Everything that the server has of a client.
pub(crate) fn found(connection: &mut Client, client: usize) -> Model {
    let number = |value: Value| value.to_string().parse().ok();
    let scores = texts(connection.call(&format!("ZRANGE scores{client} 0 -1 WITHSCORES")));
    let model = Model {
        string: number(connection.call(&format!("GET string{client}"))),
        number: number(connection.call(&format!("GET number{client}"))).unwrap_or(0),
        hash: pairs(&texts(connection.call(&format!("HGETALL hash{client}")))).collect(),
        list: texts(connection.call(&format!("LRANGE list{client} 0 -1"))),
        scores: pairs(&scores)
            .map(|(name, score)| (name, score.parse().unwrap()))
            .collect(),
        set: texts(connection.call(&format!("SMEMBERS set{client}")))
            .into_iter()
            .collect(),
    };
    let count = |connection: &mut Client, words: String| match connection.call(&words) {
        Value::Integer(count) => count as usize,
        other => panic!("expected a number, found {other}"),
    };
    assert_eq!(
        count(connection, format!("HLEN hash{client}")),
        model.hash.len()
    );
    assert_eq!(
        count(connection, format!("ZCARD scores{client}")),
        model.scores.len()
    );
    assert_eq!(
        count(connection, format!("SCARD set{client}")),
        model.set.len()
    );
    model
}

/// Calls until the server is gone. Returns the number of acknowledged calls.
fn work(address: SocketAddr, client: usize, done: u64, acknowledged: &AtomicU64) -> u64 {
    let mut connection = Client::connect(address);
    for at in done.. {
        let words = call(client, at, &mut Model::default());
        match connection.try_call(&words) {
            Some(Value::Error(text)) => panic!("{words}: {text}"),
            Some(_) => acknowledged.fetch_add(1, Ordering::Relaxed),
            None => return at,
        };
    }
    unreachable!("the server is killed")
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let kills = std::env::var("HEDGEROW_SERVER_KILLS").map_or(4, |it| it.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let mut random = numbers(11);
    let mut done = [0; CLIENTS];
    for kill in 0..kills {
        let served = Served::begin(dir.path());
        let address = served.address;
        let acknowledged = AtomicU64::new(0);
        let until = random() % 8_000 + 200;
        let reached: Vec<u64> = std::thread::scope(|scope| {
            let acknowledged = &acknowledged;
            let clients = done.iter().enumerate();
            let clients: Vec<_> = clients
                .map(|(client, done)| {
                    let done = *done;
                    scope.spawn(move || work(address, client, done, acknowledged))
                })
                .collect();
            while acknowledged.load(Ordering::Relaxed) < until {
                std::thread::yield_now();
            }
            served.kill();
            clients.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let served = Served::begin(dir.path());
        let mut connection = Client::connect(served.address);
        for (client, reached) in reached.into_iter().enumerate() {
            let found = found(&mut connection, client);
            let mut model = Model::default();
            for at in 0..reached {
                call(client, at, &mut model);
            }
            // The call without a reply may have had its effect.
            done[client] = reached;
            if found != model {
                call(client, reached, &mut model);
                done[client] += 1;
            }
            assert_eq!(
                found, model,
                "client {client}, kill {kill}, after {reached} calls"
            );
        }
        served.kill();
    }
}

/// Random numbers that a seed repeats.
pub(crate) fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}
