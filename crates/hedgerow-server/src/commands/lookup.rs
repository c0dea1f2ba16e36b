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

/// The command of a name. It is likely the one with an index in the table, which is looked at
/// first.
pub(crate) fn find_again(index: usize, name: &[u8]) -> Option<&'static Command> {
    let likely = COMMANDS.get(index);
    let likely = likely.filter(|it| name.eq_ignore_ascii_case(it.name.as_bytes()));
    likely.or_else(|| find(name))
}

/// The index of a command in the table; that of its namesake for one that is not in it.
pub(crate) fn index_of(command: &Command) -> usize {
    // It is looked up for every call, and the address of nearly all of them says it.
    let bytes = std::ptr::from_ref(command).addr();
    let at = bytes.wrapping_sub(COMMANDS.as_ptr().addr()) / size_of::<Command>();
    match COMMANDS.get(at) {
        Some(found) if std::ptr::eq(found, command) => at,
        _ => indexes().get(command.name).copied().unwrap_or(0),
    }
}

/// The group of a command.
pub(super) fn group_of(name: &str) -> &'static str {
    let at = indexes().get(name).copied().unwrap_or(0);
    let begins = |first: &str| indexes().get(first).is_some_and(|first| *first <= at);
    let group = GROUPS.iter().rev().find(|(first, _)| begins(first));
    group.map_or("generic", |(_, group)| group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Keys, Run};

    #[test]
    fn the_flag_of_subcommands_says_who_has_some() {
        for command in COMMANDS {
            let has_some = !command.subcommands().is_empty();
            assert_eq!(command.has_subcommands(), has_some, "{}", command.name);
        }
    }

    #[test]
    fn a_command_has_the_index_of_its_name() {
        for (at, command) in COMMANDS.iter().enumerate() {
            assert_eq!(index_of(command), at);
        }
        let outside = Command {
            name: "del",
            arity: -1,
            flags: 0,
            keys: Keys::None,
            run: Run::Refused,
            summary: "",
        };
        let del = find(b"DEL").unwrap();
        assert_eq!(index_of(&outside), index_of(del));
        assert_eq!(del.name, "del");
        for index in [index_of(del), 0, usize::MAX] {
            assert_eq!(find_again(index, b"DEL").map(index_of), Some(index_of(del)));
            assert!(find_again(index, b"nothing").is_none());
        }
    }
}
