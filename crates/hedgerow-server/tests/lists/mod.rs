//! Random calls on a list, beside the same in memory, alone and in transactions, which read what
//! they have written. A list is long enough for deletions of ranges and for moves to both ends.

use std::collections::VecDeque;

use fastrand::Rng;

use crate::Served;
use crate::client::{Client, Value, int};

const SEEDS: [u64; 4] = [1, 2, 3, 4];
const ROUNDS: usize = 150;
/// The elements, so that each comes several times.
const ELEMENTS: u8 = 26;
/// The length of a list that is begun anew.
const LENGTH: usize = 600;

fn element(random: &mut Rng) -> String {
    char::from(b'a' + random.u8(..ELEMENTS)).to_string()
}

/// A random call, and the reply that the list in memory gives.
fn step(list: &mut VecDeque<String>, random: &mut Rng) -> (String, Value) {
    let (one, other) = (element(random), element(random));
    let count: i64 = *random.choice(&[-40, -2, -1, 0, 1, 2, 40]).unwrap_or(&0);
    let length = list.len();
    match random.u8(..5) {
        0 => {
            let behind = random.bool();
            let pivot = list.iter().position(|it| *it == one);
            if let Some(pivot) = pivot {
                list.insert(pivot + usize::from(behind), other.clone());
            }
            let side = if behind { "AFTER" } else { "BEFORE" };
            let length = pivot.map_or(-1, |_| list.len() as i64);
            (format!("LINSERT l {side} {one} {other}"), int(length))
        }
        1 | 2 => {
            let mut places = places_of(list, &one, count < 0);
            if count != 0 {
                places.truncate(count.unsigned_abs() as usize);
            }
            places.sort_unstable();
            for place in places.iter().rev() {
                list.remove(*place);
            }
            (format!("LREM l {count} {one}"), int(places.len() as i64))
        }
        3 => {
            let (rank, most) = (random.i64(1..4), random.usize(..3));
            let (sign, compared) = (
                if random.bool() { 1 } else { -1 },
                random.usize(1..=length + 1),
            );
            let mut places = places_of(list, &one, sign < 0);
            let is_near = |it: &usize| match sign {
                1 => *it < compared,
                _ => length - it <= compared,
            };
            places.retain(is_near);
            let found = places.into_iter().skip(rank as usize - 1);
            let found = found.take(if most == 0 { usize::MAX } else { most });
            let found = found.map(|it| int(it as i64)).collect();
            let call = format!(
                "LPOS l {one} RANK {} COUNT {most} MAXLEN {compared}",
                rank * sign
            );
            (call, Value::Array(found))
        }
        _ => {
            let (left, right) = (random.usize(..=length / 3), random.usize(..=length / 3));
            list.truncate(length - right);
            list.drain(..left);
            let call = format!("LTRIM l {left} {}", length as i64 - right as i64 - 1);
            (call, Value::status("OK"))
        }
    }
}

/// The places of an element, from the right if wished.
fn places_of(list: &VecDeque<String>, element: &str, from_right: bool) -> Vec<usize> {
    let places = (0..list.len()).filter(|it| list[*it] == element);
    match from_right {
        false => places.collect(),
        true => places.rev().collect(),
    }
}

/// Fills a list that has become short. Returns the call.
fn fill(list: &mut VecDeque<String>, random: &mut Rng) -> Option<(String, Value)> {
    if list.len() >= LENGTH / 10 {
        return None;
    }
    let new: Vec<String> = (0..LENGTH).map(|_| element(random)).collect();
    let call = format!("RPUSH l {}", new.join(" "));
    list.extend(new);
    Some((call, int(list.len() as i64)))
}

/// The calls of one transaction, each with its reply.
fn calls(list: &mut VecDeque<String>, random: &mut Rng) -> Vec<(String, Value)> {
    let mut calls = Vec::new();
    for _ in 0..random.usize(1..5) {
        calls.extend(fill(list, random));
        calls.push(step(list, random));
        calls.push(("LRANGE l 0 -1".to_owned(), Value::bulks(&*list)));
    }
    calls
}

fn replies(client: &mut Client, calls: &[(String, Value)], in_transaction: bool) -> Vec<Value> {
    if !in_transaction {
        return calls.iter().map(|it| client.call(&it.0)).collect();
    }
    client.call("MULTI");
    calls.iter().for_each(|it| drop(client.call(&it.0)));
    match client.call("EXEC") {
        Value::Array(replies) => replies,
        other => panic!("expected replies, found {other}"),
    }
}

#[test]
fn lists_are_what_they_are_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    for seed in SEEDS {
        let (mut list, mut random) = (VecDeque::new(), Rng::with_seed(seed));
        client.call("DEL l");
        for _ in 0..ROUNDS {
            let calls = calls(&mut list, &mut random);
            let replies = replies(&mut client, &calls, random.bool());
            for ((call, expected), reply) in calls.iter().zip(replies) {
                assert!(reply == *expected, "seed {seed}, {call}: {reply}");
            }
        }
    }
    served.end();
}
