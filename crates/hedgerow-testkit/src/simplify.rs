//! Shrinks a failing script. It omits operations as long as the script still fails (delta
//! debugging, Zeller and Hildebrandt 2002), and then shortens the writes of the others.

use crate::blob::{Blob, Filler};
use crate::ops::{Op, Write};

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
            let without = |i: usize| -> Vec<Write> {
                let others = writes.iter().enumerate().filter(|(j, _)| *j != i);
                others.map(|(_, write)| write.clone()).collect()
            };
            let halves = [&writes[..writes.len() / 2], &writes[writes.len() / 2..]];
            let halves = halves.map(<[Write]>::to_vec).into_iter();
            let writes = halves.chain((0..writes.len()).map(without));
            let synced = *synced;
            writes.map(|writes| Op::Batch { writes, synced }).collect()
        }
        Op::Transaction {
            steps,
            commits,
            synced,
        } => {
            let without = |i: usize| {
                let mut steps = steps.clone();
                steps.remove(i);
                Op::Transaction {
                    steps,
                    commits: *commits,
                    synced: *synced,
                }
            };
            (0..steps.len()).map(without).collect()
        }
        Op::Load { keyspace, entries } => {
            let without = |i: usize| {
                let mut entries = entries.clone();
                entries.remove(i);
                entries
            };
            let halves = [&entries[..entries.len() / 2], &entries[entries.len() / 2..]];
            let halves = halves.map(<[_]>::to_vec).into_iter();
            let keyspace = || keyspace.clone();
            let shorter = halves.chain((0..entries.len()).map(without));
            let load = |entries| Op::Load {
                keyspace: keyspace(),
                entries,
            };
            shorter.map(load).collect()
        }
        Op::Put {
            keyspace,
            key,
            value,
            synced,
        } => {
            let shorter = |filler| {
                let mut value = value.clone();
                value.filler = filler;
                value
            };
            let values = match value.filler {
                Filler::None => vec![],
                Filler::Repeated(n) => vec![
                    shorter(Filler::None),
                    shorter(Filler::Repeated(n / 16)),
                    shorter(Filler::Repeated(n / 2)),
                ],
                Filler::Random(n) => vec![
                    shorter(Filler::None),
                    shorter(Filler::Repeated(n)),
                    shorter(Filler::Random(n / 16)),
                    shorter(Filler::Random(n / 2)),
                ],
            };
            let put = |value: Blob| Op::Put {
                keyspace: keyspace.clone(),
                key: key.clone(),
                value,
                synced: *synced,
            };
            values.into_iter().map(put).collect()
        }
        _ => vec![],
    }
}
