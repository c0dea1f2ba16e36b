//! The commands: one file for each family, and one table of all.
//!
//! A command of data is a function over a [`Txn`]. It checks its arguments, reads, and only then
//! writes; whatever it did is undone if it returns an error.

mod arguments;
mod bits;
mod channels;
mod cluster;
mod combine;
mod common_subsequence;
mod expiry;
mod fields;
mod geo;
mod geo_area;
mod hash_expiry;
mod hashes;
mod hyperloglog;
mod keys;
pub(crate) mod latency;
mod list_ends;
mod lists;
mod lookup;
mod lua;
mod parameters;
mod passwords;
mod scan;
mod sets;
mod sort;
mod status;
mod stream_acks;
mod stream_claims;
mod stream_group_changes;
mod stream_groups;
mod stream_info;
mod stream_reads;
mod stream_values;
mod streams;
mod strings;
mod subcommands;
mod table;
mod waiting;
mod zset_ends;
mod zset_range;
mod zset_store;
mod zsets;

pub(crate) mod administration;
pub(crate) mod client;
pub(crate) mod config;
#[cfg(test)]
mod documentation;
pub(crate) mod dump;
#[cfg(feature = "lua")]
pub(crate) mod functions;
pub(crate) mod info;
pub(crate) mod introspection;
#[cfg(test)]
mod pipelines;
#[cfg(feature = "lua")]
mod scripts;
pub(crate) mod slow_log;
mod tracking;
mod users;
#[cfg(test)]
mod world;

use crate::resp::Reply;
use crate::session::Session;
use crate::store::{Answer, Txn};

pub(crate) use cluster::redirect_waiters;
pub(crate) use hash_expiry::expire_fields_due;
pub(crate) use keys::expire_due;
pub(crate) use lookup::{find, find_again, index_of};
pub(crate) use passwords::without_passwords;
pub(crate) use status::refusal;
pub(crate) use subcommands::{
    Subcommand, check_subcommand, full_name, full_names, subcommand, wrong_subcommand,
};
pub(crate) use table::COMMANDS;
pub(crate) use waiting::seconds_to_wait;

/// The name of a command and its arguments.
pub(crate) type Args<'a> = &'a [&'a [u8]];

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Command {
    /// The name in small letters.
    pub(crate) name: &'static str,
    /// The number of arguments with the name; negative for a least number.
    pub(crate) arity: i32,
    pub(crate) flags: u16,
    pub(crate) keys: Keys,
    pub(crate) run: Run,
    /// One sentence: the effect, or the reason why it is refused.
    pub(crate) summary: &'static str,
}

/// The way in which a command is run.
#[derive(Debug)]
pub(crate) enum Run {
    /// Over the databases, alone or together with others.
    Data(fn(&mut Txn<'_>, Args<'_>) -> Answer<Reply>),
    /// Over the connection and the server.
    Session(fn(&mut Session, Args<'_>) -> Reply),
    /// By the connection's loop, which awaits something.
    Connection(Special),
    /// Not at all.
    Refused,
}

/// The commands that the loop of a connection runs itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Special {
    Multi,
    Exec,
    Discard,
    Watch,
    FlushDb,
    FlushAll,
    SwapDb,
    Save,
    Wait,
    WaitAof,
    #[cfg(feature = "lua")]
    Function,
    Shutdown,
    Debug,
    ReplicaOf,
    Failover,
    /// A replica asks for a copy and commits.
    Sync,
}

/// Changes data.
pub(crate) const WRITE: u16 = 1;
/// Reads data and changes none.
pub(crate) const READ: u16 = 1 << 1;
/// Takes constant or logarithmic time.
pub(crate) const FAST: u16 = 1 << 2;
/// For operators.
pub(crate) const ADMIN: u16 = 1 << 3;
/// Is possible before a password was given.
pub(crate) const NO_AUTH: u16 = 1 << 4;
/// May wait for other clients.
pub(crate) const BLOCKING: u16 = 1 << 5;
/// About messages to channels; also while subscribed.
pub(crate) const PUBSUB: u16 = 1 << 6;
/// Needs the state of all keys, and no other command beside it.
pub(crate) const ALL_KEYS: u16 = 1 << 7;
/// Is not allowed in a transaction.
pub(crate) const NO_MULTI: u16 = 1 << 8;
/// Takes more memory or disk.
pub(crate) const GROWS: u16 = 1 << 9;
/// Is not allowed in a script.
pub(crate) const NO_SCRIPT: u16 = 1 << 10;
/// Reads nothing but the entry of each key.
pub(crate) const READS_ENTRY: u16 = 1 << 11;
/// The first argument says what it does.
pub(crate) const HAS_SUBCOMMANDS: u16 = 1 << 12;
/// Is accepted, and changes nothing.
pub(crate) const NO_EFFECT: u16 = 1 << 13;

impl Command {
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_data(&self) -> bool {
        matches!(self.run, Run::Data(_))
    }

    pub(crate) fn takes(&self, count: usize) -> bool {
        takes(self.arity, count)
    }

    /// The first argument says what it does.
    pub(crate) fn has_subcommands(&self) -> bool {
        self.has(HAS_SUBCOMMANDS)
    }

    /// Returns true if a call reads one entry, so that it needs no snapshot.
    pub(crate) fn reads_once(&self, args: Args<'_>) -> bool {
        // EXISTS may have several keys.
        self.has(READS_ENTRY) && (self.keys == Keys::ONE || args.len() == 2)
    }

    pub(crate) fn subcommands(&self) -> &'static [Subcommand] {
        subcommands::of(self.name)
    }

    /// Returns true if scripts may call it.
    pub(crate) fn is_for_scripts(&self) -> bool {
        // As in Redis: these are allowed there, and do not wait.
        let waits =
            self.has(BLOCKING) && !["xread", "xreadgroup", "blmpop", "bzmpop"].contains(&self.name);
        match self.run {
            Run::Data(_) => !self.has(NO_SCRIPT) && !waits,
            Run::Connection(Special::FlushDb | Special::FlushAll) => true,
            _ => ["ping", "echo", "time"].contains(&self.name),
        }
    }

    /// Returns true if the keys that a call looks up and misses are told of as `keymiss`: it looks
    /// them up to read them.
    pub(crate) fn tells_misses(&self, args: Args<'_>) -> bool {
        match self.name {
            "getdel" | "getex" | "getset" | "pfcount" => true,
            // They look at a key, and not for it.
            "memory" | "object" => false,
            // Those that may store, and do not.
            _ if self.keys == Keys::AndStored => self.keys.of(args).len() == 1,
            _ => self.has(READ) && !self.has(NO_SCRIPT),
        }
    }

    /// Returns true if it is refused while the data are not there, or are too old.
    pub(crate) fn needs_data(&self) -> bool {
        let is_of_data = self.is_data() && !["publish", "select"].contains(&self.name);
        is_of_data || self.has(WRITE) || self.name == "ping"
    }

    /// The group of the documentation.
    pub(crate) fn group(&self) -> &'static str {
        lookup::group_of(self.name)
    }
}

/// Returns true if an arity allows a number of arguments.
fn takes(arity: i32, count: usize) -> bool {
    let least = arity.unsigned_abs() as usize;
    if arity < 0 {
        count >= least
    } else {
        count == least
    }
}

/// The places of the keys in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    None,
    /// From the first to the last place, every `n`-th; a negative last counts from the end.
    Range(i32, i32, i32),
    /// Behind a number of keys at this place. With `true` the first argument is a key, too.
    Counted(usize, bool),
    /// The first half of what is behind `STREAMS`.
    Streams,
    /// The first argument, and the one behind the last `STORE` or `STOREDIST`.
    AndStored,
    /// There are none, but channels of shards, which have slots: from the first argument to this
    /// place.
    Channels(i32),
}

impl Keys {
    pub(crate) const ONE: Keys = Keys::Range(1, 1, 1);

    /// The arguments that have slots: the keys, or channels.
    pub(crate) fn with_slots<'a>(self, args: Args<'a>) -> Vec<&'a [u8]> {
        match self {
            Keys::Channels(last) => Keys::Range(1, last, 1).of(args),
            keys => keys.of(args),
        }
    }

    /// The keys among these arguments; those that are there, if the arguments are wrong.
    pub(crate) fn of<'a>(self, args: Args<'a>) -> Vec<&'a [u8]> {
        let mut keys = Vec::new();
        self.each(args, |key| keys.push(key));
        keys
    }

    /// Calls a function for each of these keys. Allocates nothing if their places are fixed.
    pub(crate) fn each<'a>(self, args: Args<'a>, call: impl FnMut(&'a [u8])) {
        match self {
            Keys::Range(first, last, step) => {
                let last = match last {
                    ..0 => args.len() as i32 + last,
                    _ => last,
                };
                let places = (first..=last).step_by(step.max(1) as usize);
                places
                    .filter_map(|place| args.get(place as usize).copied())
                    .for_each(call);
            }
            other => other.searched(args).into_iter().for_each(call),
        }
    }

    /// The keys whose places the other arguments say.
    fn searched<'a>(self, args: Args<'a>) -> Vec<&'a [u8]> {
        match self {
            Keys::None | Keys::Channels(_) | Keys::Range(..) => Vec::new(),
            Keys::Counted(at, first) => {
                let number = args.get(at).and_then(|count| crate::number::integer(count));
                let count = number
                    .and_then(|count| usize::try_from(count).ok())
                    .unwrap_or(0);
                let counted = args.iter().skip(at + 1).take(count);
                let destination = args.get(1).filter(|_| first);
                destination.into_iter().chain(counted).copied().collect()
            }
            Keys::Streams => {
                // The names of a group and a consumer may be anything.
                let is_group = args.get(1).is_some_and(|it| arguments::is(it, "GROUP"));
                let skipped = if is_group { 4 } else { 1 };
                let mut rest = args.iter().skip(skipped).copied();
                rest.find(|it| arguments::is(it, "STREAMS"));
                let rest: Vec<&[u8]> = rest.collect();
                rest[..rest.len() / 2].to_vec()
            }
            Keys::AndStored => {
                let is = arguments::is;
                let is_store = |word: &&[u8]| is(word, "STORE") || is(word, "STOREDIST");
                let store = args.iter().rposition(is_store);
                let target = store.and_then(|place| args.get(place + 1));
                args.get(1).into_iter().chain(target).copied().collect()
            }
        }
    }
}
