//! LATENCY: the durations of commands from their counters, and samples of what took long.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::arguments::is;
use super::config::Config;
use super::{Args, COMMANDS, index_of};
use crate::client::lock;
use crate::clock;
use crate::counters::{Counters, DURATION_MICROS};
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::session::Session;

/// The samples of an event that are kept.
const SAMPLES_MAX: usize = 160;
/// The samples that a graph shows, and its lines.
const COLUMNS: usize = 60;
const LINES: u64 = 4;

/// The longest duration of an event in one second.
#[derive(Clone, Copy)]
struct Sample {
    unix_seconds: i64,
    millis: u64,
}

#[derive(Default)]
struct Event {
    /// Oldest first. Never empty.
    samples: VecDeque<Sample>,
    /// The longest duration of all, also of those that are not kept.
    longest_millis: u64,
}

/// Samples of events that took long, by the names of the events.
pub(crate) struct Latencies {
    /// The least duration that is kept; 0 if none is.
    millis_min: Arc<AtomicU64>,
    events: Mutex<BTreeMap<&'static str, Event>>,
}

impl Latencies {
    pub(crate) fn new(config: &Config) -> Latencies {
        Latencies {
            millis_min: config.sampled_millis.clone(),
            events: Mutex::default(),
        }
    }

    /// Takes a sample of an event if it took long enough.
    #[inline]
    pub(crate) fn note(&self, event: &'static str, took: Duration) {
        let least = self.millis_min.load(Ordering::Relaxed);
        if least > 0 && took.as_millis() >= u128::from(least) {
            self.add(event, took, clock::unix_millis() as i64 / 1_000);
        }
    }

    #[cold]
    fn add(&self, event: &'static str, took: Duration, unix_seconds: i64) {
        let millis = took.as_millis() as u64;
        let mut events = lock(&self.events);
        let event = events.entry(event).or_default();
        event.longest_millis = event.longest_millis.max(millis);
        match event.samples.back_mut() {
            Some(last) if last.unix_seconds == unix_seconds => {
                last.millis = last.millis.max(millis);
            }
            _ => event.samples.push_back(Sample {
                unix_seconds,
                millis,
            }),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    /// The last sample of each event, and its longest one.
    fn latest(&self) -> Reply {
        let events = lock(&self.events);
        let latest = events.iter().filter_map(|(name, event)| {
            let last = event.samples.back()?;
            Some(Reply::Array(vec![
                Reply::bulk(*name),
                Reply::Integer(last.unix_seconds),
                Reply::Integer(last.millis as i64),
                Reply::Integer(event.longest_millis as i64),
            ]))
        });
        Reply::Array(latest.collect())
    }

    fn history(&self, name: &[u8]) -> Reply {
        let of_sample = |it: &Sample| {
            let pair = [it.unix_seconds, it.millis as i64];
            Reply::Array(pair.map(Reply::Integer).into())
        };
        let events = lock(&self.events);
        let event = events.iter().find(|(it, _)| is(name, it));
        let samples = event.map(|(_, event)| event.samples.iter().map(of_sample).collect());
        Reply::Array(samples.unwrap_or_default())
    }

    /// Forgets these events, or all. Returns the number of those that had samples.
    fn reset(&self, names: Args<'_>) -> Reply {
        let mut events = lock(&self.events);
        let before = events.len();
        let is_named = |event: &str| names.is_empty() || names.iter().any(|name| is(name, event));
        events.retain(|event, _| !is_named(event));
        Reply::count(before - events.len())
    }

    fn graph(&self, name: &[u8]) -> Reply {
        let events = lock(&self.events);
        match events.iter().find(|(it, _)| is(name, it)) {
            Some((name, event)) => {
                Reply::Text(drawn(name, event, clock::unix_millis() as i64 / 1_000))
            }
            None => {
                let event = name.escape_ascii();
                error(format!("ERR No samples available for event '{event}'"))
            }
        }
    }

    /// A sentence for each event, and how to learn more.
    fn report(&self) -> Reply {
        let least = self.millis_min.load(Ordering::Relaxed);
        let events = lock(&self.events);
        let mut text = String::new();
        if least == 0 {
            text += "Nothing is sampled. CONFIG SET latency-monitor-threshold N samples what takes N \
                     ms or longer.\n";
        } else if events.is_empty() {
            let _ = writeln!(text, "Nothing took {least} ms or longer.");
        }
        for (name, event) in &*events {
            let (count, sum) = (event.samples.len() as u64, sum_millis(event));
            let _ = writeln!(
                text,
                "{name}: {count} seconds with a sample, {} ms on average, {} ms at most.",
                sum / count.max(1),
                event.longest_millis
            );
        }
        text += "SLOWLOG GET has the slowest commands, LATENCY HISTOGRAM the durations of all.\n";
        Reply::Text(text)
    }
}

fn sum_millis(event: &Event) -> u64 {
    event.samples.iter().map(|it| it.millis).sum()
}

/// A column for each of the last samples, as high as it took long.
fn drawn(name: &str, event: &Event, now: i64) -> String {
    let skipped = event.samples.len().saturating_sub(COLUMNS);
    let shown: Vec<Sample> = event.samples.iter().skip(skipped).copied().collect();
    let millis = || shown.iter().map(|it| it.millis);
    let (low, high) = (millis().min().unwrap_or(0), millis().max().unwrap_or(0));
    let mut text = format!(
        "{name}: {low} to {high} ms, {} ms at most since the last reset\n",
        event.longest_millis
    );
    for line in (1..=LINES).rev() {
        // The longest sample has all lines, the shortest one.
        let height = |millis: u64| 1 + (millis - low) * (LINES - 1) / (high - low).max(1);
        let columns = shown.iter().map(|it| match height(it.millis) >= line {
            true => '#',
            false => ' ',
        });
        let columns: String = columns.collect();
        text += columns.trim_end();
        text.push('\n');
    }
    let ago = |it: Option<&Sample>| now - it.map_or(now, |it| it.unix_seconds);
    let (first, last) = (ago(shown.first()), ago(shown.last()));
    let _ = writeln!(text, "from {first} to {last} seconds ago");
    text
}

pub(super) fn latency(session: &mut Session, args: Args<'_>) -> Reply {
    let latencies = &session.server.latencies;
    match (args[1], args.len()) {
        (it, _) if is(it, "HISTOGRAM") => histogram(&session.server, &args[2..]),
        (it, _) if is(it, "RESET") => latencies.reset(&args[2..]),
        (it, 2) if is(it, "LATEST") => latencies.latest(),
        (it, 3) if is(it, "HISTORY") => latencies.history(args[2]),
        (it, 3) if is(it, "GRAPH") => latencies.graph(args[2]),
        (it, 2) if is(it, "DOCTOR") => latencies.report(),
        (it, 2) if is(it, "HELP") => Reply::bulks([
            "LATENCY <subcommand>. Subcommands are:",
            "HISTOGRAM [command ...]: how many calls took how many microseconds at most.",
            "LATEST, HISTORY <event>, GRAPH <event>, DOCTOR, RESET [event ...]: events that took at",
            "least `latency-monitor-threshold` milliseconds: command, fast-command,",
            "aof-fsync-always, expire-cycle.",
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

    fn text_of(reply: &Reply) -> String {
        let mut bytes = Vec::new();
        reply.write(&mut bytes, false);
        String::from_utf8(bytes).unwrap()
    }

    fn integers(reply: &Reply) -> Vec<i64> {
        let text = text_of(reply);
        let lines = text.lines().filter_map(|it| it.strip_prefix(':'));
        lines.map(|it| it.parse().unwrap()).collect()
    }

    #[test]
    fn a_second_of_an_event_has_its_longest_sample() {
        let millis_min = Arc::new(AtomicU64::new(0));
        let latencies = Latencies {
            millis_min: millis_min.clone(),
            events: Mutex::default(),
        };
        let millis = Duration::from_millis;
        latencies.note("command", millis(500));
        assert_eq!(text_of(&latencies.latest()), "*0\r\n", "nothing is sampled");
        millis_min.store(10, Ordering::Relaxed);
        latencies.note("command", Duration::from_micros(9_999));
        assert_eq!(text_of(&latencies.latest()), "*0\r\n", "too short");
        latencies.note("other", millis(10));
        assert_eq!(integers(&latencies.latest())[1..], [10, 10]);
        for (second, took) in [(1, 30), (1, 90), (1, 40), (2, 20), (4, 60)] {
            latencies.add("command", millis(took), second);
        }
        assert_eq!(
            integers(&latencies.history(b"COMMAND")),
            [1, 90, 2, 20, 4, 60]
        );
        assert_eq!(integers(&latencies.latest())[..3], [4, 60, 90]);
        let graph = drawn("command", &lock(&latencies.events)["command"], 10);
        let lines: Vec<&str> = graph.lines().collect();
        assert_eq!(
            lines[1..],
            ["#", "#", "# #", "###", "from 9 to 6 seconds ago"]
        );
        for second in 0..200 {
            latencies.add("command", millis(11), second + 10);
        }
        let history = integers(&latencies.history(b"command"));
        assert_eq!((history.len(), history[0]), (2 * SAMPLES_MAX, 50));
        assert_eq!(integers(&latencies.latest())[..3], [209, 11, 90]);
        let report = text_of(&latencies.report());
        assert!(report.contains("command: 160 seconds with a sample, 11 ms on average, 90 ms"));
        assert_eq!(text_of(&latencies.reset(&[b"Command", b"none"])), ":1\r\n");
        assert_eq!(text_of(&latencies.history(b"command")), "*0\r\n");
        assert_eq!(text_of(&latencies.reset(&[])), ":1\r\n");
        assert!(latencies.graph(b"command").is_error());
    }

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
