//! The calls of a client of servers that are killed, and what its keys hold after the first ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{Client, Value};

/// Adds to a number and to a list, as one.
const SCRIPT: &str =
    "redis.call('incrby', KEYS[1], 2) return redis.call('rpush', KEYS[2], ARGV[1])";
/// The time of expiry of what is not to expire during the test.
const LATER: &str = "1000000";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Model {
    /// The value, and whether it has a time of expiry.
    string: Option<(u64, bool)>,
    /// It grows with three of twenty calls, so it tells most states apart.
    pub(crate) number: u64,
    /// Each field's value, and whether it has a time of expiry.
    hash: BTreeMap<String, (u64, bool)>,
    list: Vec<u64>,
    scores: BTreeMap<String, u64>,
    set: BTreeSet<u64>,
    stream: BTreeSet<u64>,
    /// The ids that the group's consumer has not acknowledged.
    pending: BTreeSet<u64>,
    last_delivered: u64,
    has_group: bool,
    bits: BTreeSet<u64>,
    has_bits: bool,
}

/// The key of a kind; all keys of a client begin with its number.
fn key(client: usize, kind: &str) -> String {
    format!("{client}:{kind}")
}

fn words(text: String) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// The calls with this number: one, or a transaction.
pub(crate) fn calls(client: usize, at: u64) -> Vec<Vec<String>> {
    let key = |kind| key(client, kind);
    let (string, number, hash, list) = (key("string"), key("number"), key("hash"), key("list"));
    let (scores, set, stream, bits) = (key("scores"), key("set"), key("stream"), key("bits"));
    let one = |text: String| vec![words(text)];
    let n = at / 20;
    match at % 20 {
        0 if at == 0 => one(format!("XGROUP CREATE {stream} group 0 MKSTREAM")),
        0 => one(format!("SET {string} {at}")),
        1 => one(format!("INCR {number}")),
        2 => one(format!("HSET {hash} f{} {at}", n % 70)),
        3 => one(format!("HSET {hash} f{} {at}", n % 31)),
        4 => one(format!("RPUSH {list} {at}")),
        5 => one(format!("LPOP {list}")),
        6 => one(format!("ZADD {scores} {at} m{}", n % 50)),
        7 => one(format!("SADD {set} {}", n % 200)),
        8 => one(format!("SREM {set} {}", n % 130)),
        9 if n % 25 == 9 => one(format!("DEL {hash}")),
        9 => one(format!("EXPIRE {string} {LATER}")),
        10 => one(format!("XADD {stream} {at}-1 n {at}")),
        11 => one(format!(
            "XREADGROUP GROUP group me COUNT 1 STREAMS {stream} >"
        )),
        12 if n % 3 == 2 => one(format!("XTRIM {stream} MAXLEN 300")),
        12 => one(format!("XACK {stream} group {}-1", acknowledged(n))),
        13 => {
            let [begin, end] = ["MULTI", "EXEC"].map(|it| vec![it.to_owned()]);
            let first = words(format!("SET {string} {at} EX {LATER}"));
            let second = words(format!("RPUSH {list} {at}"));
            vec![
                begin,
                first,
                second,
                words(format!("INCRBY {number} 3")),
                end,
            ]
        }
        14 => {
            let mut call = words(format!("EVAL script 2 {number} {list} {at}"));
            call[1] = SCRIPT.to_owned();
            vec![call]
        }
        15 => one(format!(
            "HEXPIRE {hash} {LATER} FIELDS 2 f{} f{}",
            n % 70,
            n % 7
        )),
        16 if n % 4 == 3 => one(format!("LTRIM {list} -300 -1")),
        16 => one(format!("HDEL {hash} f{}", n % 53)),
        17 => one(format!("SETBIT {bits} {} {}", n * 7 % 900, n / 3 % 2)),
        18 => one(format!("SET {} {at} PX 1", key("brief"))),
        _ if n % 3 == 1 => one(format!("DEL {string}")),
        _ => one(format!("ZINCRBY {scores} 5 m{}", n % 37)),
    }
}

/// The id that is acknowledged: that of an entry which was added before.
fn acknowledged(n: u64) -> u64 {
    n / 2 * 20 + 10
}

impl Model {
    /// The effect of the calls with this number.
    pub(crate) fn apply(&mut self, at: u64) {
        let n = at / 20;
        let field = |number: u64| format!("f{number}");
        match at % 20 {
            0 if at == 0 => self.has_group = true,
            0 => self.string = Some((at, false)),
            1 => self.number += 1,
            2 => drop(self.hash.insert(field(n % 70), (at, false))),
            3 => drop(self.hash.insert(field(n % 31), (at, false))),
            4 => self.list.push(at),
            5 if self.list.is_empty() => {}
            5 => drop(self.list.remove(0)),
            6 => drop(self.scores.insert(format!("m{}", n % 50), at)),
            7 => drop(self.set.insert(n % 200)),
            8 => drop(self.set.remove(&(n % 130))),
            9 if n % 25 == 9 => self.hash.clear(),
            9 => self.string = self.string.map(|it| (it.0, true)),
            10 => drop(self.stream.insert(at)),
            11 => {
                let next = self.stream.range(self.last_delivered + 1..).next();
                if let Some(id) = next {
                    self.last_delivered = *id;
                    self.pending.insert(*id);
                }
            }
            12 if n % 3 == 2 => {
                while self.stream.len() > 300 {
                    self.stream.pop_first();
                }
            }
            12 => drop(self.pending.remove(&acknowledged(n))),
            13 => {
                self.string = Some((at, true));
                self.list.push(at);
                self.number += 3;
            }
            14 => {
                self.number += 2;
                self.list.push(at);
            }
            15 => {
                for name in [field(n % 70), field(n % 7)] {
                    self.hash.entry(name).and_modify(|it| it.1 = true);
                }
            }
            16 if n % 4 == 3 => drop(self.list.drain(..self.list.len().saturating_sub(300))),
            16 => drop(self.hash.remove(&field(n % 53))),
            17 => {
                self.has_bits = true;
                match n / 3 % 2 {
                    0 => self.bits.remove(&(n * 7 % 900)),
                    _ => self.bits.insert(n * 7 % 900),
                };
            }
            // It has expired when anybody looks.
            18 => {}
            _ if n % 3 == 1 => self.string = None,
            _ => *self.scores.entry(format!("m{}", n % 37)).or_insert(0) += 5,
        }
    }

    /// The number of keys. A string of bits stays when all are cleared.
    pub(crate) fn keys(&self) -> usize {
        let is_there = [
            self.string.is_some(),
            self.number > 0,
            !self.hash.is_empty(),
            !self.list.is_empty(),
            !self.scores.is_empty(),
            !self.set.is_empty(),
            self.has_group,
            self.has_bits,
        ];
        is_there.iter().filter(|it| **it).count()
    }

    /// Everything that the server has of a client.
    pub(crate) fn found(connection: &mut Client, client: usize) -> Model {
        let mut call = |words: &str| connection.call(words);
        let key = |kind| key(client, kind);
        let is_late = |ttl: Value| matches!(ttl, Value::Integer(900_000..));
        let string = number(&call(&format!("GET {}", key("string"))));
        let expires = is_late(call(&format!("TTL {}", key("string"))));
        let hash = texts(call(&format!("HGETALL {}", key("hash"))));
        let hash = pairs(&hash).map(|(name, value)| {
            let time = call(&format!("HTTL {} FIELDS 1 {name}", key("hash")));
            let Value::Array(times) = time else {
                panic!("expected an array, found {time}");
            };
            (name, (value.parse().unwrap(), is_late(times[0].clone())))
        });
        let hash = hash.collect();
        let scores = texts(call(&format!("ZRANGE {} 0 -1 WITHSCORES", key("scores"))));
        let ids = |entries: Value| match entries {
            Value::Array(entries) => entries.into_iter().map(|it| id(&it)).collect(),
            other => panic!("expected entries, found {other}"),
        };
        let stream: BTreeSet<u64> = ids(call(&format!("XRANGE {} - +", key("stream"))));
        let (mut pending, mut last_delivered, mut has_group) = (BTreeSet::new(), 0, false);
        if call(&format!("EXISTS {}", key("stream"))) == Value::Integer(1) {
            has_group = true;
            pending = ids(call(&format!(
                "XPENDING {} group - + 10000000",
                key("stream")
            )));
            let groups = call(&format!("XINFO GROUPS {}", key("stream"))).to_string();
            last_delivered = delivered(&groups);
        }
        let model = Model {
            string: string.map(|it| (it, expires)),
            number: number(&call(&format!("GET {}", key("number")))).unwrap_or(0),
            hash,
            list: numbers(call(&format!("LRANGE {} 0 -1", key("list")))).collect(),
            scores: pairs(&scores)
                .map(|(name, score)| (name, score.parse().unwrap()))
                .collect(),
            set: numbers(call(&format!("SMEMBERS {}", key("set")))).collect(),
            stream,
            pending,
            last_delivered,
            has_group,
            has_bits: call(&format!("EXISTS {}", key("bits"))) == Value::Integer(1),
            bits: (0..900)
                .filter(|bit| call(&format!("GETBIT {} {bit}", key("bits"))) == Value::Integer(1))
                .collect(),
        };
        assert_eq!(call(&format!("GET {}", key("brief"))), Value::Null);
        for (command, kind, count) in [
            ("HLEN", "hash", model.hash.len()),
            ("ZCARD", "scores", model.scores.len()),
            ("SCARD", "set", model.set.len()),
            ("LLEN", "list", model.list.len()),
            ("XLEN", "stream", model.stream.len()),
        ] {
            let found = call(&format!("{command} {}", key(kind)));
            assert_eq!(found, Value::Integer(count as i64), "{command}");
        }
        model
    }
}

fn texts(value: Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(Value::to_string).collect(),
        other => panic!("expected an array, found {other}"),
    }
}

fn number(value: &Value) -> Option<u64> {
    value.to_string().parse().ok()
}

fn numbers(value: Value) -> impl Iterator<Item = u64> {
    texts(value).into_iter().map(|it| it.parse().unwrap())
}

fn pairs(texts: &[String]) -> impl Iterator<Item = (String, String)> {
    texts
        .chunks(2)
        .map(|pair| (pair[0].clone(), pair[1].clone()))
}

/// The time in the id of an entry, which stands first.
fn id(entry: &Value) -> u64 {
    let Value::Array(parts) = entry else {
        panic!("expected an entry, found {entry}");
    };
    let id = parts[0].to_string();
    id.strip_suffix("-1").unwrap().parse().unwrap()
}

/// The time in the last delivered id of the only group.
fn delivered(groups: &str) -> u64 {
    let (_, behind) = groups.split_once("last-delivered-id").unwrap();
    let digits = behind.trim_start_matches(|it: char| !it.is_ascii_digit());
    let (id, _) = digits.split_once('-').unwrap();
    id.parse().unwrap()
}
