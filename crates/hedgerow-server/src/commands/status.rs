//! The status of each command: real, accepted without effect, or refused. A command is real unless
//! its row in the table says otherwise. Here are the subcommands and options that are another thing
//! than their command. Those who run a subcommand look it up here.

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

const fn without_effect(
    command: &'static str,
    words: &'static [&'static str],
    reason: &'static str,
) -> Exception {
    Exception {
        command,
        words,
        status: Status::WithoutEffect,
        reason,
    }
}

const fn refused(
    command: &'static str,
    words: &'static [&'static str],
    reason: &'static str,
) -> Exception {
    Exception {
        command,
        words,
        status: Status::Refused,
        reason,
    }
}

/// The exceptions, by the order of the table of commands.
#[rustfmt::skip]
pub(crate) static EXCEPTIONS: &[Exception] = &[
    refused("object", &["FREQ"],
        "An LFU maxmemory policy is not selected, access frequency not tracked."),
    without_effect("object", &["IDLETIME"], "Answers 0: keys have no time of use."),
    without_effect("object", &["REFCOUNT"], "Answers 1: no value is shared."),
    without_effect("restore", &["… IDLETIME", "… FREQ"], "Keys have no time of use."),
    without_effect("client", &["NO-EVICT"],
        "Who takes more memory than there is for clients is cut off, whoever it is."),
    without_effect("client", &["NO-TOUCH"], "Keys have no time of use."),
    refused("config", &["REWRITE"], "The server is running without a config file"),
    without_effect("memory", &["PURGE"], "Memory that was freed goes back by itself."),
    without_effect("memory", &["USAGE … SAMPLES"], "The number of elements is known."),
    without_effect("flushdb", &["ASYNC", "SYNC"], "One write removes all keys either way."),
    without_effect("flushall", &["ASYNC", "SYNC"], "One write removes all keys either way."),
    without_effect("shutdown", &["NOSAVE", "SAVE", "NOW", "FORCE"],
        "Everything is durable at the end, and nobody is waited for."),
    without_effect("script", &["FLUSH ASYNC", "FLUSH SYNC"], "All scripts are forgotten at once either way."),
    without_effect("function", &["FLUSH ASYNC", "FLUSH SYNC"],
        "One write removes all libraries either way."),
    without_effect("xadd", &["… ~"], "Trims as exactly as `=`."),
    without_effect("xtrim", &["… ~"], "Trims as exactly as `=`."),
    refused("cluster",
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
    exception(command, word, Status::WithoutEffect).is_some()
}

/// The error for a subcommand, if it is refused.
pub(crate) fn refusal(command: &str, word: &[u8]) -> Option<Reply> {
    let refused = exception(command, word, Status::Refused)?;
    Some(error(format!("ERR {}", refused.reason)))
}
