//! The status of each command: real, accepted without effect, or refused. A command is real unless
//! its row in the table says otherwise. Here are the subcommands and options that are another thing
//! than their command. Those who run a subcommand look it up here.

use Status::{Refused, WithoutEffect};

use super::arguments::is;
use crate::resp::{Reply, error};

/// The status of what is not real.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Accepted, since clients expect that, and nothing depends on it.
    WithoutEffect,
    /// An error that says why.
    Refused,
}

/// Calls of a command whose status is another one than that of the command.
#[derive(Debug)]
pub(crate) struct Exception {
    pub(crate) command: &'static str,
    /// The subcommands, or options with the words before them.
    pub(crate) words: &'static [&'static str],
    pub(crate) status: Status,
    pub(crate) reason: &'static str,
}

const fn row(
    status: Status,
    command: &'static str,
    words: &'static [&'static str],
    reason: &'static str,
) -> Exception {
    Exception {
        command,
        words,
        status,
        reason,
    }
}

/// The exceptions, by the order of the table of commands.
#[rustfmt::skip]
pub(crate) static EXCEPTIONS: &[Exception] = &[
    row(Refused, "object", &["FREQ"],
        "An LFU maxmemory policy is not selected, access frequency not tracked."),
    row(WithoutEffect, "object", &["IDLETIME"], "Answers 0: keys have no time of use."),
    row(WithoutEffect, "object", &["REFCOUNT"], "Answers 1: no value is shared."),
    row(WithoutEffect, "restore", &["… IDLETIME", "… FREQ"], "Keys have no time of use."),
    row(WithoutEffect, "client", &["NO-EVICT"],
        "Who takes more memory than there is for clients is cut off, whoever it is."),
    row(WithoutEffect, "client", &["NO-TOUCH"], "Keys have no time of use."),
    row(Refused, "config", &["REWRITE"], "The server is running without a config file"),
    row(WithoutEffect, "memory", &["PURGE"], "Memory that was freed goes back by itself."),
    row(WithoutEffect, "memory", &["USAGE … SAMPLES"], "The number of elements is known."),
    row(WithoutEffect, "flushdb", &["ASYNC", "SYNC"], "One write removes all keys either way."),
    row(WithoutEffect, "flushall", &["ASYNC", "SYNC"], "One write removes all keys either way."),
    row(WithoutEffect, "shutdown", &["NOSAVE", "SAVE", "NOW", "FORCE"],
        "Everything is durable at the end, and nobody is waited for."),
    row(WithoutEffect, "script", &["FLUSH ASYNC", "FLUSH SYNC"], "All scripts are forgotten at once either way."),
    row(WithoutEffect, "function", &["FLUSH ASYNC", "FLUSH SYNC"],
        "One write removes all libraries either way."),
    row(WithoutEffect, "xadd", &["… ~"], "Trims as exactly as `=`."),
    row(WithoutEffect, "xtrim", &["… ~"], "Trims as exactly as `=`."),
    row(Refused, "cluster",
        &["ADDSLOTS", "ADDSLOTSRANGE", "BUMPEPOCH", "DELSLOTS", "DELSLOTSRANGE", "FAILOVER", "FLUSHSLOTS",
          "FORGET", "MEET", "REPLICATE", "RESET", "SAVECONFIG", "SET-CONFIG-EPOCH", "SETSLOT"],
        "The map of slots is a file: change it, and call CLUSTER LOAD or send SIGHUP."),
];

/// The exception that a word of a command is in.
fn exception(command: &str, word: &[u8], status: Status) -> Option<&'static Exception> {
    let of_command = |it: &&Exception| it.command == command && it.status == status;
    let mut exceptions = EXCEPTIONS.iter().filter(of_command);
    exceptions.find(|it| it.words.iter().any(|known| is(word, known)))
}

/// Returns true if a subcommand is accepted without effect.
pub(super) fn is_without_effect(command: &str, word: &[u8]) -> bool {
    exception(command, word, WithoutEffect).is_some()
}

/// The error for a subcommand, if it is refused.
pub(crate) fn refusal(command: &str, word: &[u8]) -> Option<Reply> {
    let refused = exception(command, word, Refused)?;
    Some(error(format!("ERR {}", refused.reason)))
}
