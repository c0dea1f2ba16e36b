//! LATENCY: the durations of commands, from the counters that there are. Other events have no
//! samples, so what is about these answers as a Redis does that has none.

use std::sync::atomic::Ordering;

use super::arguments::is;
use super::{Args, COMMANDS, index_of};
use crate::counters::{Counters, DURATION_MICROS};
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::session::Session;

/// Redis goes on with how to begin, which is not possible here.
const NOTHING_OBSERVED: &str = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled \
                                in this Redis instance. LATENCY HISTOGRAM and SLOWLOG have the \
                                durations of commands.\n";

pub(super) fn latency(session: &mut Session, args: Args<'_>) -> Reply {
    match (args[1], args.len()) {
        (it, _) if is(it, "HISTOGRAM") => histogram(&session.server, &args[2..]),
        (it, _) if is(it, "RESET") => Reply::Integer(0),
        (it, 2) if is(it, "LATEST") => Reply::Array(Vec::new()),
        (it, 3) if is(it, "HISTORY") => Reply::Array(Vec::new()),
        (it, 3) if is(it, "GRAPH") => {
            let event = args[2].escape_ascii();
            error(format!("ERR No samples available for event '{event}'"))
        }
        (it, 2) if is(it, "DOCTOR") => Reply::Text(NOTHING_OBSERVED.to_owned()),
        (it, 2) if is(it, "HELP") => Reply::bulks([
            "LATENCY <subcommand>. Subcommands are:",
            "HISTOGRAM [command ...]: how many calls took how many microseconds at most.",
            "LATEST, HISTORY <event>, GRAPH <event>, DOCTOR, RESET [event ...]: about other events,",
            "which have no samples.",
        ]),
        _ => error(super::wrong_subcommand(args)),
    }
}

/// The histograms of these commands, or of all, that were called.
fn histogram(server: &Server, names: Args<'_>) -> Reply {
    let totals = server.counters.totals();
    let of_command = |command| (command, &totals[index_of(command)]);
    let commands = COMMANDS.iter();
    let chosen =
        commands.filter(|it| names.is_empty() || names.iter().any(|name| is(name, it.name)));
    let called = chosen.map(of_command).filter(|(_, it)| it.calls() > 0);
    Reply::Map(
        called
            .map(|(command, counters)| (Reply::bulk(command.name), of_counters(counters)))
            .collect(),
    )
}

/// The calls up to each bound that has some of its own. Those beyond the last bound, a second,
/// count there, as in Redis.
fn of_counters(counters: &Counters) -> Reply {
    let mut counts: Vec<u64> = counters
        .durations
        .iter()
        .map(|it| it.load(Ordering::Relaxed))
        .collect();
    let beyond = counts.pop().unwrap_or(0);
    if let Some(last) = counts.last_mut() {
        *last += beyond;
    }
    let (mut calls, mut bounds) = (0, Vec::new());
    for (micros, count) in DURATION_MICROS.iter().zip(counts) {
        if count > 0 {
            calls += count;
            bounds.push((Reply::Integer(*micros as i64), Reply::Integer(calls as i64)));
        }
    }
    Reply::Map(vec![
        (Reply::bulk("calls"), Reply::Integer(calls as i64)),
        (Reply::bulk("histogram_usec"), Reply::Map(bounds)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_up_to_its_bounds() {
        let counters = Counters::default();
        for micros in [1, 10, 11, 900, 1_000_000, 5_000_000] {
            counters.note(micros, false);
        }
        let mut bytes = Vec::new();
        of_counters(&counters).write(&mut bytes, false);
        let text = String::from_utf8(bytes).unwrap();
        let numbers: Vec<&str> = text.lines().filter_map(|it| it.strip_prefix(':')).collect();
        let expected = ["6", "10", "2", "20", "3", "1000", "4", "1000000", "6"];
        assert_eq!(numbers, expected);
    }
}
