//! SLOWLOG: the last commands that took long.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use super::Args;
use super::arguments::is;
use super::config::Config;
use super::passwords::without_passwords;
use crate::client::{Client, lock};
use crate::clock;
use crate::number;
use crate::resp::{Reply, error};
use crate::session::Session;

const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES_MAX: usize = 128;

#[derive(Clone)]
pub(crate) struct Slow {
    pub(crate) id: i64,
    pub(crate) unix_seconds: i64,
    pub(crate) micros: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) address: String,
    /// The name that the client had given itself.
    pub(crate) name: String,
}

#[derive(Default)]
struct Entries {
    next: i64,
    last: VecDeque<Slow>,
}

pub(crate) struct SlowLog {
    micros: Arc<AtomicI64>,
    entries_max: Arc<AtomicUsize>,
    entries: Mutex<Entries>,
}

impl SlowLog {
    pub(crate) fn new(config: &Config) -> SlowLog {
        SlowLog {
            micros: config.slow_micros.clone(),
            entries_max: config.slow_entries.clone(),
            entries: Mutex::default(),
        }
    }

    /// The last slow commands, newest first.
    pub(crate) fn last(&self, count: usize) -> Vec<Slow> {
        let entries = lock(&self.entries);
        entries.last.iter().take(count).cloned().collect()
    }

    /// Remembers a command if it was slow. Long arguments are cut, passwords hidden.
    pub(crate) fn note(&self, micros: u64, args: Args<'_>, client: &Client) {
        let least = self.micros.load(Ordering::Relaxed);
        if least < 0 || micros < least as u64 {
            return;
        }
        let shown = if args.len() > ARGUMENTS_MAX {
            ARGUMENTS_MAX - 1
        } else {
            args.len()
        };
        let words = without_passwords(&args[..shown]).into_iter();
        let mut kept: Vec<Vec<u8>> = words.map(cut).collect();
        if shown < args.len() {
            kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
        }
        let name = lock(&client.names).name.clone();
        let mut entries = lock(&self.entries);
        let id = entries.next;
        entries.next += 1;
        entries.last.push_front(Slow {
            id,
            unix_seconds: clock::unix_millis() as i64 / 1_000,
            micros,
            args: kept,
            address: client.address.clone(),
            name,
        });
        let max = self.entries_max.load(Ordering::Relaxed);
        entries.last.truncate(max);
    }
}

fn cut(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= ARGUMENT_BYTES_MAX {
        return argument.to_vec();
    }
    let more = argument.len() - ARGUMENT_BYTES_MAX;
    let mut kept = argument[..ARGUMENT_BYTES_MAX].to_vec();
    kept.extend_from_slice(format!("... ({more} more bytes)").as_bytes());
    kept
}

pub(super) fn slow_log(session: &mut Session, args: Args<'_>) -> Reply {
    let mut entries = lock(&session.server.slow_log.entries);
    match (args[1], args.get(2)) {
        (it, None) if is(it, "LEN") => Reply::count(entries.last.len()),
        (it, None) if is(it, "RESET") => {
            entries.last.clear();
            Reply::OK
        }
        (it, count) if is(it, "GET") && args.len() <= 3 => {
            let count = count.map_or(Some(10), |it| number::integer(it));
            let Some(count @ -1..) = count else {
                return error("ERR count should be greater than or equal to -1");
            };
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            let shown = entries.last.iter().take(count).map(|slow| {
                Reply::Array(vec![
                    Reply::Integer(slow.id),
                    Reply::Integer(slow.unix_seconds),
                    Reply::Integer(slow.micros as i64),
                    Reply::bulks(&slow.args),
                    Reply::bulk(&slow.address),
                    Reply::bulk(&slow.name),
                ])
            });
            Reply::Array(shown.collect())
        }
        (it, None) if is(it, "HELP") => {
            Reply::bulks(["SLOWLOG GET [count]|LEN|RESET. The last commands that took long."])
        }
        _ => error(super::wrong_subcommand(args)),
    }
}
