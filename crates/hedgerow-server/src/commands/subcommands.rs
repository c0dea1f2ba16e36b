//! The subcommands of the commands that have some, with the words that each takes.

use super::arguments::is;
use super::{Args, Command, refusal, takes};

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subcommand {
    /// The name in small letters.
    pub(crate) name: &'static str,
    /// The number of words with both names; negative for a least number.
    pub(crate) arity: i32,
}

const fn row(name: &'static str, arity: i32) -> Subcommand {
    Subcommand { name, arity }
}

#[rustfmt::skip]
static SUBCOMMANDS: &[(&str, &[Subcommand])] = &[
    ("acl", &[
        row("cat", -2), row("deluser", -3), row("dryrun", -4), row("genpass", -2), row("getuser", 3),
        row("help", 2), row("list", 2), row("load", 2), row("log", -2), row("save", 2),
        row("setuser", -3), row("users", 2), row("whoami", 2),
    ]),
    ("client", &[
        row("caching", 3), row("getname", 2), row("getredir", 2), row("help", 2), row("id", 2),
        row("info", 2), row("kill", -3), row("list", -2), row("no-evict", 3), row("no-touch", 3),
        row("pause", -3), row("reply", 3), row("setinfo", 4), row("setname", 3),
        row("tracking", -3), row("trackinginfo", 2), row("unblock", -3), row("unpause", 2),
    ]),
    ("cluster", &[
        row("countkeysinslot", 3), row("getkeysinslot", 4), row("help", 2), row("info", 2),
        row("keyslot", 3), row("load", 2), row("myid", 2), row("nodes", 2), row("replicas", 3),
        row("shards", 2), row("slaves", 3), row("slots", 2),
    ]),
    ("command", &[
        row("count", 2), row("docs", -2), row("getkeys", -3), row("getkeysandflags", -3),
        row("help", 2), row("info", -2), row("list", -2),
    ]),
    ("config", &[
        row("get", -3), row("help", 2), row("resetstat", 2), row("rewrite", 2), row("set", -4),
    ]),
    ("function", &[
        row("delete", 3), row("dump", 2), row("flush", -2), row("help", 2), row("kill", 2),
        row("list", -2), row("load", -3), row("restore", -3), row("stats", 2),
    ]),
    ("latency", &[
        row("doctor", 2), row("graph", 3), row("help", 2), row("histogram", -2), row("history", 3),
        row("latest", 2), row("reset", -2),
    ]),
    ("memory", &[
        row("doctor", 2), row("help", 2), row("malloc-stats", 2), row("purge", 2), row("stats", 2),
        row("usage", -3),
    ]),
    ("object", &[
        row("encoding", 3), row("freq", 3), row("help", 2), row("idletime", 3), row("refcount", 3),
    ]),
    ("pubsub", &[
        row("channels", -2), row("help", 2), row("numpat", 2), row("numsub", -2),
        row("shardchannels", -2), row("shardnumsub", -2),
    ]),
    ("script", &[
        row("exists", -3), row("flush", -2), row("help", 2), row("kill", 2), row("load", 3),
    ]),
    ("slowlog", &[
        row("get", -2), row("help", 2), row("len", 2), row("reset", 2),
    ]),
    ("xgroup", &[
        row("create", -5), row("createconsumer", 5), row("delconsumer", 5), row("destroy", 4),
        row("help", 2), row("setid", -5),
    ]),
    ("xinfo", &[
        row("consumers", 4), row("groups", 3), row("help", 2), row("stream", -3),
    ]),
];

/// The subcommands of the command of a name.
pub(super) fn of(name: &str) -> &'static [Subcommand] {
    let named = SUBCOMMANDS.iter().find(|it| it.0 == name);
    named.map_or(&[], |it| it.1)
}

fn row_of(command: &Command, args: Args<'_>) -> Option<&'static Subcommand> {
    let word = args.get(1)?;
    command.subcommands().iter().find(|it| is(word, it.name))
}

/// The subcommand that a call names, if the command has it.
pub(crate) fn subcommand(command: &Command, args: Args<'_>) -> Option<&'static str> {
    row_of(command, args).map(|it| it.name)
}

/// Checks that a call names a subcommand that is there, with a number of words that it takes. A
/// call is checked before it is queued: a transaction with a wrong one does nothing.
pub(crate) fn check_subcommand(command: &Command, args: Args<'_>) -> Result<(), String> {
    let Some(word) = args.get(1).filter(|_| command.has_subcommands()) else {
        return Ok(());
    };
    let is_right = match row_of(command, args) {
        Some(row) => takes(row.arity, args.len()),
        // It says why.
        None => refusal(command.name, word).is_some(),
    };
    match is_right {
        true => Ok(()),
        false => Err(wrong_subcommand(args)),
    }
}

/// The name of the command of a call, with its subcommand.
pub(crate) fn full_name(command: &Command, args: Args<'_>) -> String {
    match subcommand(command, args) {
        Some(word) => format!("{}|{word}", command.name),
        None => command.name.to_owned(),
    }
}

/// The name of a command, and those of its subcommands.
pub(crate) fn full_names(command: &'static Command) -> impl Iterator<Item = String> {
    let full = |it: &Subcommand| format!("{}|{}", command.name, it.name);
    std::iter::once(command.name.to_owned()).chain(command.subcommands().iter().map(full))
}

/// The error for a subcommand that is not there, or has other arguments.
pub(crate) fn wrong_subcommand(args: Args<'_>) -> String {
    let lower = |word: &[u8]| String::from_utf8_lossy(word).to_lowercase();
    let (name, word) = (lower(args[0]), lower(args[1]));
    if of(&name).iter().any(|it| it.name == word) {
        return format!("ERR wrong number of arguments for '{name}|{word}' command");
    }
    let help = name.to_uppercase();
    format!(
        "ERR unknown subcommand '{}'. Try {help} HELP.",
        String::from_utf8_lossy(args[1])
    )
}
