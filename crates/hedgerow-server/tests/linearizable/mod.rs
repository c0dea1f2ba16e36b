//! Short histories of several clients, recorded with the times of calls and replies, and the
//! search of a serial order that explains all replies.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Served;
use super::client::Value;

/// A call with its reply, and the moments when it was sent and when the reply was there.
struct Recorded {
    words: Vec<String>,
    reply: String,
    sent: u64,
    answered: u64,
}

/// The contents of the keys in the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Model {
    strings: BTreeMap<String, i64>,
    sets: BTreeMap<String, BTreeSet<String>>,
    lists: BTreeMap<String, Vec<String>>,
}

impl Model {
    /// The reply that the server would give.
    fn call(&mut self, words: &[String]) -> String {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["INCR", key] => {
                let number = self.strings.entry(key.to_owned()).or_default();
                *number += 1;
                format!(":{number}")
            }
            ["GET", key] => match self.strings.get(key) {
                Some(number) => number.to_string(),
                None => "null".to_owned(),
            },
            ["DEL", key] => format!(":{}", u8::from(self.strings.remove(key).is_some())),
            ["MSET", one, a, other, b] => {
                self.strings.insert(one.to_owned(), a.parse().unwrap());
                self.strings.insert(other.to_owned(), b.parse().unwrap());
                "+OK".to_owned()
            }
            ["MGET", one, other] => {
                let value = |key| self.strings.get(key).map(|it| Value::Bulk(it.to_string()));
                let values = [one, other].map(|key| value(key).unwrap_or(Value::Null));
                Value::Array(values.to_vec()).to_string()
            }
            ["SADD", key, member] => {
                let added = self
                    .sets
                    .entry(key.to_owned())
                    .or_default()
                    .insert(member.to_owned());
                format!(":{}", u8::from(added))
            }
            ["SMOVE", from, to, member] => {
                let moved = self.sets.entry(from.to_owned()).or_default().remove(member);
                if moved {
                    self.sets
                        .entry(to.to_owned())
                        .or_default()
                        .insert(member.to_owned());
                }
                format!(":{}", u8::from(moved))
            }
            ["SCARD", key] => format!(":{}", self.sets.get(key).map_or(0, BTreeSet::len)),
            ["RPUSH", key, value] => {
                let list = self.lists.entry(key.to_owned()).or_default();
                list.push(value.to_owned());
                format!(":{}", list.len())
            }
            ["LPOP", key] => match self.lists.get_mut(key) {
                Some(list) if !list.is_empty() => list.remove(0),
                _ => "null".to_owned(),
            },
            _ => panic!("expected a call that the model knows, found {words:?}"),
        }
    }
}

/// Searches an order of the calls in which each comes after those that were answered before it was
/// sent, and each gets its reply.
fn has_order(
    calls: &[Recorded],
    done: u64,
    model: &Model,
    refuted: &mut HashSet<(u64, Model)>,
) -> bool {
    let open = |at: &usize| done >> at & 1 == 0;
    let left: Vec<usize> = (0..calls.len()).filter(open).collect();
    let Some(first_answer) = left.iter().map(|at| calls[*at].answered).min() else {
        return true;
    };
    if !refuted.insert((done, model.clone())) {
        return false;
    }
    left.iter()
        .filter(|at| calls[**at].sent < first_answer)
        .any(|at| {
            let mut next = model.clone();
            next.call(&calls[*at].words) == calls[*at].reply
                && has_order(calls, done | 1 << at, &next, refuted)
        })
}

fn draw(random: &mut fastrand::Rng) -> String {
    let (one, other) = (random.u8(0..2), random.u8(0..2));
    match random.u8(0..10) {
        0 | 1 => format!("INCR n{one}"),
        2 => format!("GET n{one}"),
        3 => format!("DEL n{one}"),
        4 => format!("MSET n0 {} n1 {}", random.u8(..), random.u8(..)),
        5 => "MGET n0 n1".to_owned(),
        6 => format!("SADD s{one} m{other}"),
        7 => format!("SMOVE s{one} s{} m{other}", 1 - one),
        8 => format!("RPUSH l {}", random.u8(..)),
        _ => ["LPOP l", "SCARD s0", "SCARD s1"][random.usize(0..3)].to_owned(),
    }
}

#[test]
fn histories_have_a_serial_order() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    for seed in 0..150 {
        served.client().call("FLUSHALL");
        let calls = record(&served, seed);
        let mut refuted = HashSet::new();
        if !has_order(&calls, 0, &Model::default(), &mut refuted) {
            for it in &calls {
                eprintln!("{}..{} {:?} {}", it.sent, it.answered, it.words, it.reply);
            }
            panic!("expected a serial order of the history with seed {seed}, found none");
        }
    }
    served.end();
}

/// Four clients with six calls each.
fn record(served: &Served, seed: u64) -> Vec<Recorded> {
    let (clock, begin) = (AtomicU64::new(0), Barrier::new(4));
    std::thread::scope(|scope| {
        let clients = (0..4).map(|client| {
            let (clock, begin) = (&clock, &begin);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed * 4 + client);
                let mut connection = served.client();
                begin.wait();
                let calls = (0..6).map(|_| {
                    let words = draw(&mut random);
                    let sent = clock.fetch_add(1, Ordering::SeqCst);
                    let reply = connection.call(&words).to_string();
                    let answered = clock.fetch_add(1, Ordering::SeqCst);
                    let words = words.split(' ').map(str::to_owned).collect();
                    Recorded {
                        words,
                        reply,
                        sent,
                        answered,
                    }
                });
                calls.collect::<Vec<_>>()
            })
        });
        let clients: Vec<_> = clients.collect();
        clients
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    })
}

/// The search finds that there is no order when there is none.
#[test]
fn a_lost_update_has_no_order() {
    let call = |words: &str, reply: &str, sent, answered| Recorded {
        words: words.split(' ').map(str::to_owned).collect(),
        reply: reply.to_owned(),
        sent,
        answered,
    };
    let lost = [
        call("INCR n0", ":1", 0, 3),
        call("INCR n0", ":1", 1, 4),
        call("GET n0", "1", 5, 6),
    ];
    assert!(!has_order(&lost, 0, &Model::default(), &mut HashSet::new()));
    let stale = [call("INCR n0", ":1", 0, 1), call("GET n0", "null", 2, 3)];
    assert!(!has_order(
        &stale,
        0,
        &Model::default(),
        &mut HashSet::new()
    ));
    let overlapping = [call("INCR n0", ":1", 0, 3), call("GET n0", "null", 1, 2)];
    assert!(has_order(
        &overlapping,
        0,
        &Model::default(),
        &mut HashSet::new()
    ));
}
