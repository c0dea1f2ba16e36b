//! The categories of commands that rules of users name.

use crate::commands::{ADMIN, BLOCKING, Command, FAST, PUBSUB, READ, WRITE};

/// All categories.
pub(crate) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The categories that neither the group nor the flags of a command tell.
const MORE: &[(&str, &[&str])] = &[
    ("asking", &["connection"]),
    ("bgrewriteaof", &["admin", "dangerous"]),
    ("command", &["connection"]),
    ("dbsize", &["keyspace"]),
    ("flushall", &["keyspace", "dangerous"]),
    ("flushdb", &["keyspace", "dangerous"]),
    ("info", &["dangerous"]),
    ("keys", &["dangerous"]),
    ("lastsave", &["admin", "dangerous"]),
    ("migrate", &["dangerous"]),
    ("psync", &["admin", "dangerous"]),
    ("readonly", &["connection"]),
    ("readwrite", &["connection"]),
    ("replconf", &["admin", "dangerous"]),
    ("replicaof", &["admin", "dangerous"]),
    ("restore", &["dangerous"]),
    ("role", &["admin", "dangerous"]),
    ("sort", &["set", "sortedset", "list", "dangerous"]),
    ("sort_ro", &["set", "sortedset", "list", "dangerous"]),
    ("swapdb", &["keyspace", "dangerous"]),
    ("sync", &["admin", "dangerous"]),
    ("wait", &["connection"]),
    ("waitaof", &["connection"]),
];

/// The subcommands for operators of a command that is for all.
const FOR_OPERATORS: &[(&str, &[&str])] = &[
    ("client", &["kill", "list", "no-evict", "unblock"]),
    ("cluster", &["load"]),
];

/// The subcommands for all of a command that is for operators.
const FOR_ALL: &[(&str, &[&str])] = &[("acl", &["cat", "genpass", "help", "whoami"])];

/// Returns true if a command, or this subcommand of it, is of a category.
pub(crate) fn is_of(command: &Command, subcommand: Option<&[u8]>, category: &str) -> bool {
    let named = |list: &[(&str, &[&str])]| {
        list.iter().any(|(name, words)| {
            let is = |word: &&str| subcommand.is_some_and(|it| word.as_bytes() == it);
            *name == command.name && words.iter().any(is)
        })
    };
    let group = command.group();
    let more = MORE.iter().find(|it| it.0 == command.name);
    let more = more.is_some_and(|(_, categories)| categories.contains(&category));
    let is_admin = command.has(ADMIN) && !named(FOR_ALL) || named(FOR_OPERATORS);
    let is_script = group == "scripting";
    // It writes what it has counted, and nothing that anybody sees.
    let counts = command.name == "pfcount";
    more || match category {
        "read" => (command.has(READ) || counts) && !is_script,
        "write" => command.has(WRITE) && !counts && !is_script,
        "admin" | "dangerous" => is_admin,
        "fast" => command.has(FAST),
        "slow" => !command.has(FAST),
        "blocking" => command.has(BLOCKING),
        "pubsub" => command.has(PUBSUB) || group == "pubsub",
        "sortedset" => group == "sorted-set",
        "transaction" => group == "transactions",
        "keyspace" => {
            let is_other = ["sort", "sort_ro", "wait", "waitaof"].contains(&command.name);
            group == "generic" && !is_other
        }
        category => group == category,
    }
}
