//! Finding a command in the table.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::Command;
use super::table::COMMANDS;

/// The groups of the table, each with its first command.
const GROUPS: &[(&str, &str)] = &[
    ("get", "string"),
    ("getbit", "bitmap"),
    ("del", "generic"),
    ("hset", "hash"),
    ("lpush", "list"),
    ("sadd", "set"),
    ("zadd", "sorted-set"),
    ("multi", "transactions"),
    ("subscribe", "pubsub"),
    ("ping", "connection"),
    ("info", "server"),
    ("eval", "scripting"),
    ("pfadd", "hyperloglog"),
    ("xadd", "stream"),
    ("geoadd", "geo"),
    ("cluster", "cluster"),
];

fn indexes() -> &'static HashMap<&'static str, usize> {
    static INDEXES: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    INDEXES.get_or_init(|| {
        COMMANDS
            .iter()
            .enumerate()
            .map(|(at, it)| (it.name, at))
            .collect()
    })
}

/// The command of a name, in small or capital letters.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let mut small = [0; 24];
    let small = small.get_mut(..name.len())?;
    small.copy_from_slice(name);
    small.make_ascii_lowercase();
    let name = std::str::from_utf8(small).ok()?;
    indexes().get(name).map(|at| &COMMANDS[*at])
}

/// The index of a command of the table.
pub(crate) fn index_of(command: &'static Command) -> usize {
    // It is looked up for every call, so the address says it.
    let bytes = std::ptr::from_ref(command).addr() - COMMANDS.as_ptr().addr();
    bytes / size_of::<Command>()
}

/// The group of a command.
pub(super) fn group_of(name: &str) -> &'static str {
    let at = indexes().get(name).copied().unwrap_or(0);
    let begins = |first: &str| indexes().get(first).is_some_and(|first| *first <= at);
    let group = GROUPS.iter().rev().find(|(first, _)| begins(first));
    group.map_or("generic", |(_, group)| group)
}
