//! Drawing the calls of clients, and recording what the server replies.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

use super::super::Served;
use super::super::client::{Client, Value, request};

pub(super) const CLIENTS: u64 = 4;
/// The calls of a client, at least.
const CALLS: usize = 6;
/// The elements that a client adds for those who wait, or waits for.
const ELEMENTS: usize = 4;
/// The seconds after which a client has no reply.
const SECONDS: u64 = 100;

/// A command or a transaction, which others see as a whole.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Single(Vec<String>),
    Transaction(Vec<Vec<String>>),
}

/// A call with its reply, and the moments when it was sent and when the reply was there.
pub(super) struct Recorded {
    pub(super) call: Call,
    pub(super) reply: Value,
    pub(super) sent: u64,
    pub(super) answered: u64,
}

impl Call {
    /// Its commands, without those around a transaction.
    pub(super) fn singles(&self) -> &[Vec<String>] {
        match self {
            Call::Single(words) => std::slice::from_ref(words),
            Call::Transaction(calls) => calls,
        }
    }

    /// The same with a prefix before each key.
    pub(super) fn texts(&self, prefix: &str) -> Vec<Vec<String>> {
        let is_key = |word: &str| {
            let is_named = word.starts_with(['n', 's', 'q']) && word.len() == 2;
            is_named || word == "l"
        };
        let with_prefix = |word: &String| match is_key(word) {
            true => format!("{prefix}{word}"),
            false => word.clone(),
        };
        let of_call = |words: &Vec<String>| words.iter().map(with_prefix).collect();
        self.singles().iter().map(of_call).collect()
    }
}

/// The calls of a client, by the pipelines in which they are sent.
pub(super) fn plan(seed: u64, client: u64) -> Vec<Vec<Call>> {
    // Two of three histories have nobody who waits.
    let waits = seed % 3 == 2;
    let mut random = Rng::with_seed(seed * CLIENTS + client);
    let mut calls = match (waits, client % 2) {
        (false, _) => (0..CALLS).map(|_| draw(&mut random)).collect(),
        (true, 0) => adding(&mut random, client),
        (true, _) => waiting(&mut random),
    };
    let mut pipelines = Vec::new();
    while !calls.is_empty() {
        let count = random.usize(1..=3).min(calls.len());
        pipelines.push(calls.drain(..count).collect());
    }
    pipelines
}

fn draw(random: &mut Rng) -> Call {
    match random.u8(0..4) {
        0 => Call::Transaction((0..2).map(|_| single(random)).collect()),
        1 => {
            let (one, other) = (random.u8(0..2), random.u8(..));
            let calls = [
                vec![format!("INCR n{one}"), format!("INCR n{}", 1 - one)],
                vec![
                    "MGET n0 n1".to_owned(),
                    format!("MSET n0 {other} n1 {other}"),
                ],
                vec!["LPOP l".to_owned(), format!("INCR n{one}")],
            ];
            let calls = &calls[random.usize(..calls.len())];
            Call::Transaction(calls.iter().map(|it| words(it)).collect())
        }
        _ => Call::Single(single(random)),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn single(random: &mut Rng) -> Vec<String> {
    let (one, other) = (random.u8(0..2), random.u8(0..2));
    words(&match random.u8(0..10) {
        0 | 1 => format!("INCR n{one}"),
        2 => format!("GET n{one}"),
        3 => format!("DEL n{one}"),
        4 => format!("MSET n0 {} n1 {}", random.u8(..), random.u8(..)),
        5 => "MGET n0 n1".to_owned(),
        6 => format!("SADD s{one} m{other}"),
        7 => format!("SMOVE s{one} s{} m{other}", 1 - one),
        8 => format!("RPUSH l {}", random.u8(..)),
        _ => ["LPOP l", "SCARD s0", "SCARD s1"][random.usize(0..3)].to_owned(),
    })
}

/// The calls of a client that adds elements, each another one.
fn adding(random: &mut Rng, client: u64) -> Vec<Call> {
    let (mut calls, mut count) = (Vec::new(), 0);
    while count < ELEMENTS {
        let list = random.u8(0..2);
        let mut push = |list: u8| {
            count += 1;
            words(&format!("LPUSH q{list} {}", 100 * client as usize + count))
        };
        calls.push(match random.u8(0..4) {
            0 => Call::Transaction(vec![push(list), push(1 - list)]),
            1 => Call::Transaction(vec![push(list), words(&format!("INCR n{list}"))]),
            2 => Call::Single(words(&format!("LLEN q{list}"))),
            _ => Call::Single(push(list)),
        });
    }
    calls
}

/// The calls of a client that waits for elements of either list.
fn waiting(random: &mut Rng) -> Vec<Call> {
    let mut calls = Vec::new();
    for _ in 0..ELEMENTS {
        let first = random.u8(0..2);
        let call = format!("BLPOP q{first} q{} 0", 1 - first);
        calls.push(Call::Single(words(&call)));
        if random.bool() {
            let call = ["GET n0", "LLEN q0", "LLEN q1"][random.usize(..3)];
            calls.push(Call::Single(words(call)));
        }
    }
    calls
}

/// The calls of each client with what the server has replied.
pub(super) fn record(served: &Served, seed: u64, prefix: &str) -> Vec<Vec<Recorded>> {
    let (clock, begin) = (AtomicU64::new(0), Barrier::new(CLIENTS as usize));
    std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|client| {
            let (clock, begin) = (&clock, &begin);
            scope.spawn(move || {
                let plan = plan(seed, client);
                let mut connection = served.client();
                connection.waits_at_most(SECONDS);
                begin.wait();
                let mut recorded = Vec::new();
                for pipeline in plan {
                    let bytes: Vec<u8> = pipeline.iter().flat_map(|it| bytes(it, prefix)).collect();
                    let sent = clock.fetch_add(1, Ordering::SeqCst);
                    connection.send_bytes(&bytes);
                    for call in pipeline {
                        let Some(reply) = receive(&mut connection, &call) else {
                            panic!("expected a reply to {call:?}, found none: HEDGEROW_SEED={seed}")
                        };
                        let answered = clock.fetch_add(1, Ordering::SeqCst);
                        recorded.push(Recorded {
                            call,
                            reply: without_prefix(reply, prefix),
                            sent,
                            answered,
                        });
                    }
                }
                recorded
            })
        });
        let clients: Vec<_> = clients.collect();
        let recorded = clients.into_iter().map(|it| it.join().unwrap());
        recorded.collect()
    })
}

/// The requests of a call.
fn bytes(call: &Call, prefix: &str) -> Vec<u8> {
    let texts = call.texts(prefix);
    let texts = texts.iter().map(|it| request(&it.join(" ")));
    match call {
        Call::Single(_) => texts.flatten().collect(),
        Call::Transaction(_) => {
            let mut bytes = request("MULTI");
            texts.for_each(|it| bytes.extend(it));
            bytes.extend(request("EXEC"));
            bytes
        }
    }
}

/// The reply to a call; to a transaction, that to its end.
fn receive(connection: &mut Client, call: &Call) -> Option<Value> {
    if let Call::Transaction(calls) = call {
        for _ in 0..=calls.len() {
            connection.try_receive()?;
        }
    }
    connection.try_receive()
}

/// A reply with the names of keys as in the model.
fn without_prefix(reply: Value, prefix: &str) -> Value {
    match reply {
        Value::Bulk(text) => Value::Bulk(text.strip_prefix(prefix).unwrap_or(&text).to_owned()),
        Value::Array(items) => {
            let items = items.into_iter().map(|it| without_prefix(it, prefix));
            Value::Array(items.collect())
        }
        other => other,
    }
}
