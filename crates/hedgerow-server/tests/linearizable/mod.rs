//! Short histories of several clients, recorded with the times of calls and replies, and the
//! search of a serial order that explains all replies.
//!
//! A history is drawn from its seed: single calls, pipelines, and transactions over two keys. In
//! some, two clients wait for the elements that two others add: each element is for one of them,
//! and there are as many as are waited for, so a wake-up that is lost leaves a client without a
//! reply. `HEDGEROW_HISTORIES` is the number of histories, `HEDGEROW_SEED` the first one.

mod model;
mod record;

use std::collections::HashSet;

use super::Served;
use super::client::{Client, Value, bulk, int};
use model::Model;
use record::{CLIENTS, Call, Recorded, record};

/// Searches an order of the calls in which each comes behind those of its client that were sent
/// before and those that were answered before it was sent, and each gets its reply.
fn has_order(history: &[Vec<Recorded>], model: &Model) -> bool {
    let done = vec![0; history.len()];
    continues(history, &done, model, &mut HashSet::new())
}

/// Searches the rest of an order; `done` is the number of calls of each client that are in it.
fn continues(
    history: &[Vec<Recorded>],
    done: &[usize],
    model: &Model,
    refuted: &mut HashSet<(Vec<usize>, Model)>,
) -> bool {
    let next = |client: usize| history[client].get(done[client]);
    let left = (0..history.len()).filter_map(next);
    let Some(first_answer) = left.map(|it| it.answered).min() else {
        return true;
    };
    if !refuted.insert((done.to_vec(), model.clone())) {
        return false;
    }
    (0..history.len()).any(|client| {
        let Some(it) = next(client).filter(|it| it.sent < first_answer) else {
            return false;
        };
        let (mut model, mut done) = (model.clone(), done.to_vec());
        done[client] += 1;
        model.call(&it.call).as_ref() == Some(&it.reply)
            && continues(history, &done, &model, refuted)
    })
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |it| it.parse().unwrap())
}

/// The seeds of the histories; `otherwise` is their number.
fn seeds(otherwise: u64) -> std::ops::Range<u64> {
    let first = number("HEDGEROW_SEED", 0);
    let is_replay = std::env::var_os("HEDGEROW_SEED").is_some();
    let count = if is_replay { 1 } else { otherwise };
    first..first + number("HEDGEROW_HISTORIES", count)
}

/// Records a history over keys with this prefix, and searches its order.
fn check(served: &Served, seed: u64, prefix: &str, model: &Model) {
    let history = record(served, seed, prefix);
    if has_order(&history, model) {
        return;
    }
    for (client, calls) in history.iter().enumerate() {
        for it in calls {
            let (sent, answered) = (it.sent, it.answered);
            eprintln!("{client} {sent}..{answered} {:?} {}", it.call, it.reply);
        }
    }
    panic!("expected a serial order of the history, found none: HEDGEROW_SEED={seed}");
}

#[test]
fn histories_have_a_serial_order() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    for seed in seeds(200) {
        served.client().call("FLUSHALL");
        check(&served, seed, "", &Model::default());
    }
    served.end();
}

/// The reads of files, as the server counts them.
fn device_reads(client: &mut Client) -> u64 {
    let info = client.call("INFO").to_string();
    let line = info
        .lines()
        .find_map(|it| it.strip_prefix("hedgerow_device_reads:"));
    line.unwrap().parse().unwrap()
}

/// Sets the keys of a history. Its model has the same.
fn fill(client: &mut Client, prefix: &str) -> Model {
    let mut model = Model::default();
    for words in [
        "MSET n0 10 n1 20",
        "RPUSH l 1 2",
        "SADD s0 m0",
        "SADD s1 m1",
        "LPUSH q0 1",
        "LPUSH q1 2",
    ] {
        let call = Call::Single(words.split(' ').map(str::to_owned).collect());
        let reply = client.call(&call.texts(prefix)[0].join(" "));
        assert_eq!(model.call(&call), Some(reply));
    }
    model
}

/// The first call of each key waits for a file, beside those of others.
#[test]
fn histories_over_files_have_a_serial_order() {
    const PADDING: usize = 400;
    let dir = tempfile::tempdir().unwrap();
    let begin = || Served::with(dir.path(), |it| it.memory_budget = 2 << 20);
    let served = begin();
    let mut client = served.client();
    let histories = seeds(100).map(|seed| {
        let prefix = format!("{seed}:");
        let model = fill(&mut client, &prefix);
        (seed, prefix, model)
    });
    let histories: Vec<_> = histories.collect();
    // Keys lie in the order of their hashes, so these are between those of the histories.
    let padding = "v".repeat(PADDING);
    for i in 0..200 {
        let pairs: Vec<_> = (0..50).map(|j| format!("more{i}.{j} {padding}")).collect();
        client.call(&format!("MSET {}", pairs.join(" ")));
    }
    served.end();
    let served = begin();
    let mut client = served.client();
    let (mut cold, count) = (0, histories.len());
    for (seed, prefix, model) in histories {
        let before = device_reads(&mut client);
        check(&served, seed, &prefix, &model);
        cold += usize::from(device_reads(&mut client) > before);
    }
    assert!(
        2 * cold > count,
        "{cold} of {count} histories have waited for files"
    );
    served.end();
}

fn recorded(words: &str, reply: Value, (sent, answered): (u64, u64)) -> Recorded {
    let mut calls = words.split("; ").map(|it| {
        let words = it.split(' ').map(str::to_owned);
        words.collect::<Vec<_>>()
    });
    let call = match words.contains("; ") {
        true => Call::Transaction(calls.collect()),
        false => Call::Single(calls.next().unwrap()),
    };
    Recorded {
        call,
        reply,
        sent,
        answered,
    }
}

/// The search finds that there is no order when there is none.
#[test]
fn a_lost_update_has_no_order() {
    let has_order = |history: &[Vec<Recorded>]| has_order(history, &Model::default());
    let incr = |times| vec![recorded("INCR n0", int(1), times)];
    let get = |reply, times| vec![recorded("GET n0", reply, times)];
    assert!(!has_order(&[
        incr((0, 3)),
        incr((1, 4)),
        get(bulk("1"), (5, 6))
    ]));
    assert!(!has_order(&[incr((0, 1)), get(Value::Null, (2, 3))]));
    assert!(has_order(&[incr((0, 3)), get(Value::Null, (1, 2))]));
}

#[test]
fn half_a_transaction_has_no_order() {
    let both = Value::Array(vec![int(1), int(1)]);
    let both = || vec![recorded("INCR n0; INCR n1", both.clone(), (0, 5))];
    let seen = |one: Value, other: Value| {
        let reply = Value::Array(vec![one, other]);
        vec![recorded("MGET n0 n1", reply, (1, 2))]
    };
    let has_order = |history: &[Vec<Recorded>]| has_order(history, &Model::default());
    assert!(!has_order(&[both(), seen(bulk("1"), Value::Null)]));
    assert!(has_order(&[both(), seen(bulk("1"), bulk("1"))]));
    assert!(has_order(&[both(), seen(Value::Null, Value::Null)]));
}

/// Both calls of a pipeline are sent together, and the first one comes first.
#[test]
fn a_pipeline_out_of_order_has_no_order() {
    let pipeline = |first: Value, second: Value| {
        vec![vec![
            recorded("INCR n0", first, (0, 1)),
            recorded("INCR n0", second, (0, 2)),
        ]]
    };
    assert!(!has_order(&pipeline(int(2), int(1)), &Model::default()));
    assert!(has_order(&pipeline(int(1), int(2)), &Model::default()));
}

#[test]
fn an_element_that_two_clients_get_has_no_order() {
    let push = || vec![recorded("LPUSH q1 7", int(1), (2, 5))];
    let pop = |times| {
        let reply = Value::bulks(["q1", "7"]);
        vec![recorded("BLPOP q0 q1 0", reply, times)]
    };
    let has_order = |history: &[Vec<Recorded>]| has_order(history, &Model::default());
    assert!(!has_order(&[push(), pop((0, 4)), pop((1, 6))]));
    // There was nothing to get yet.
    assert!(!has_order(&[push(), pop((0, 1))]));
    assert!(has_order(&[push(), pop((0, 4))]));
}

/// Each history has all elements that are waited for.
#[test]
fn no_client_waits_for_ever() {
    for seed in 0..1_000 {
        let plans: Vec<_> = (0..CLIENTS)
            .map(|client| record::plan(seed, client))
            .collect();
        let count = |name: &str| {
            let calls = plans.iter().flatten().flatten().flat_map(Call::singles);
            calls.filter(|words| words[0] == name).count()
        };
        assert!(count("BLPOP") <= count("LPUSH"), "seed {seed}");
    }
}
