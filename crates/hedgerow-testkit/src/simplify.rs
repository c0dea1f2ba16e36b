//! Shrinks a failing script. It omits operations as long as the script still fails (delta
//! debugging, Zeller and Hildebrandt 2002), and then shortens the writes of the others.

use crate::blob::{Blob, Filler};
use crate::ops::Op;

/// Returns a shorter script for which `fails` is true, as it is for `script`. Calls `fails` at most
/// `runs` times.
pub fn simplify(script: &[Op], runs: usize, mut fails: impl FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut runs = runs;
    let mut fails = |script: &[Op]| {
        runs = runs.saturating_sub(1);
        runs > 0 && fails(script)
    };
    let mut script = script.to_vec();
    let mut part = script.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        let mut left_out = false;
        while at < script.len() {
            let mut shorter = script.clone();
            shorter.drain(at..(at + part).min(script.len()));
            if fails(&shorter) {
                script = shorter;
                left_out = true;
            } else {
                at += part;
            }
        }
        if !left_out || part > script.len() {
            part /= 2;
        }
    }
    for at in 0..script.len() {
        for plainer in plainer(&script[at]) {
            let mut changed = script.clone();
            changed[at] = plainer;
            if fails(&changed) {
                script = changed;
                break;
            }
        }
    }
    script
}

/// Smaller versions of an operation, the smallest first.
fn plainer(op: &Op) -> Vec<Op> {
    match op {
        Op::Batch { writes, synced } => {
            let batch = |writes| Op::Batch {
                writes,
                synced: *synced,
            };
            halves(writes)
                .chain(without_one(writes))
                .map(batch)
                .collect()
        }
        Op::Transaction {
            steps,
            commits,
            synced,
        } => {
            let transaction = |steps| Op::Transaction {
                steps,
                commits: *commits,
                synced: *synced,
            };
            without_one(steps).map(transaction).collect()
        }
        Op::Load { keyspace, entries } => {
            let load = |entries| Op::Load {
                keyspace: keyspace.clone(),
                entries,
            };
            halves(entries)
                .chain(without_one(entries))
                .map(load)
                .collect()
        }
        Op::Put {
            keyspace,
            key,
            value,
            synced,
        } => {
            let put = |value: Blob| Op::Put {
                keyspace: keyspace.clone(),
                key: key.clone(),
                value,
                synced: *synced,
            };
            shorter(value).into_iter().map(put).collect()
        }
        _ => vec![],
    }
}

fn halves<T: Clone>(all: &[T]) -> impl Iterator<Item = Vec<T>> {
    let (front, back) = all.split_at(all.len() / 2);
    [front, back].map(<[T]>::to_vec).into_iter()
}

fn without_one<T: Clone>(all: &[T]) -> impl Iterator<Item = Vec<T>> {
    (0..all.len()).map(|i| [&all[..i], &all[i + 1..]].concat())
}

/// Shorter versions of a value, the shortest first.
fn shorter(value: &Blob) -> Vec<Blob> {
    let with = |filler| {
        let mut value = value.clone();
        value.filler = filler;
        value
    };
    match value.filler {
        Filler::None => vec![],
        Filler::Repeated(n) => vec![
            with(Filler::None),
            with(Filler::Repeated(n / 16)),
            with(Filler::Repeated(n / 2)),
        ],
        Filler::Random(n) => vec![
            with(Filler::None),
            with(Filler::Repeated(n)),
            with(Filler::Random(n / 16)),
            with(Filler::Random(n / 2)),
        ],
    }
}
