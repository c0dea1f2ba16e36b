//! A model of what a client writes: one key of each type, in an order of calls that a number tells.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{Client, Value};

/// The contents of the keys of one client after its first calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    string: Option<u64>,
    pub(super) number: u64,
    hash: BTreeMap<String, String>,
    list: Vec<String>,
    scores: BTreeMap<String, u64>,
    set: BTreeSet<String>,
}

/// The call with this number, and its effect.
pub(super) fn call(client: usize, at: u64, model: &mut Model) -> String {
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
pub(super) fn found(connection: &mut Client, client: usize) -> Model {
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

/// Random numbers that a seed repeats.
pub(super) fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}
