//! COMMAND: the table of commands, for clients.

use super::arguments::is;
use super::{
    ADMIN, Args, BLOCKING, COMMANDS, Command, FAST, GROWS, Keys, NO_AUTH, NO_MULTI, NO_SCRIPT,
    PUBSUB, READ, WRITE, find, full_names, subcommand,
};
use crate::acl::{CATEGORIES, is_of};
use crate::glob;
use crate::resp::{Reply, error};
use crate::session::Session;

const FLAGS: &[(u16, &str)] = &[
    (WRITE, "write"),
    (READ, "readonly"),
    (GROWS, "denyoom"),
    (ADMIN, "admin"),
    (PUBSUB, "pubsub"),
    (BLOCKING, "blocking"),
    (NO_MULTI, "no_multi"),
    (NO_AUTH, "no_auth"),
    (FAST, "fast"),
];

/// The subcommands without keys of commands whose others have one.
const WITHOUT_KEYS: &[&str] = &["doctor", "help", "malloc-stats", "purge", "stats"];

/// A command, or a subcommand of it.
#[derive(Clone, Copy)]
struct Named {
    command: &'static Command,
    subcommand: Option<&'static str>,
}

impl Named {
    fn whole(command: &'static Command) -> Named {
        Named {
            command,
            subcommand: None,
        }
    }

    /// Finds `client`, or `client|list`.
    fn find(name: &[u8]) -> Option<Named> {
        let mut words = name.splitn(2, |byte| *byte == b'|');
        let command = find(words.next()?)?;
        let Some(word) = words.next() else {
            return Some(Named::whole(command));
        };
        let subcommand = Some(subcommand(command, &[name, word])?);
        Some(Named {
            command,
            subcommand,
        })
    }

    fn name(self) -> String {
        match self.subcommand {
            None => self.command.name.to_owned(),
            Some(word) => format!("{}|{word}", self.command.name),
        }
    }

    /// Its subcommands; a subcommand has none.
    fn parts(self) -> impl Iterator<Item = Named> {
        let words = match self.subcommand {
            None => self.command.subcommands(),
            Some(_) => &[],
        };
        words.iter().map(move |row| Named {
            subcommand: Some(row.name),
            ..self
        })
    }

    /// The number of words.
    fn arity(self) -> i32 {
        let mut rows = self.command.subcommands().iter();
        let row = rows.find(|it| self.subcommand == Some(it.name));
        row.map_or(self.command.arity, |it| it.arity)
    }

    fn keys(self) -> Keys {
        match self.subcommand.is_some_and(|it| WITHOUT_KEYS.contains(&it)) {
            true => Keys::None,
            false => self.command.keys,
        }
    }

    fn is_of(self, category: &str) -> bool {
        is_of(self.command, self.subcommand.map(str::as_bytes), category)
    }

    fn flags(self) -> impl Iterator<Item = &'static str> {
        let command = self.command;
        let has = move |flag: u16| match (flag, self.subcommand) {
            (ADMIN, Some(_)) => self.is_of("admin"),
            _ => command.has(flag),
        };
        let keys = self.keys();
        let counted = matches!(keys, Keys::Counted(..));
        let moves = counted || matches!(keys, Keys::AndStored | Keys::Streams);
        let more = [
            (moves, "movablekeys"),
            (counted && command.has(NO_SCRIPT), "no_mandatory_keys"),
            (!command.is_for_scripts(), "noscript"),
            (!command.needs_data(), "loading"),
            (!command.needs_data(), "stale"),
        ];
        let flags = FLAGS.iter().map(move |(flag, name)| (has(*flag), *name));
        flags.chain(more).filter(|it| it.0).map(|it| it.1)
    }
}

pub(super) fn command(_session: &mut Session, args: Args<'_>) -> Reply {
    let Some(word) = args.get(1) else {
        return Reply::Array(COMMANDS.iter().map(Named::whole).map(facts).collect());
    };
    match *word {
        it if is(it, "COUNT") && args.len() == 2 => Reply::count(COMMANDS.len()),
        it if is(it, "INFO") => match &args[2..] {
            [] => Reply::Array(COMMANDS.iter().map(Named::whole).map(facts).collect()),
            names => {
                let found = names.iter().map(|name| Named::find(name));
                Reply::Array(found.map(|it| it.map_or(Reply::Null, facts)).collect())
            }
        },
        it if is(it, "DOCS") => {
            let chosen: Vec<_> = match &args[2..] {
                [] => COMMANDS.iter().map(Named::whole).collect(),
                names => names.iter().filter_map(|it| Named::find(it)).collect(),
            };
            Reply::Map(chosen.into_iter().map(documentation).collect())
        }
        it if is(it, "LIST") => list(&args[2..]),
        it if is(it, "GETKEYS") && args.len() >= 3 => keys_of(&args[2..], false),
        it if is(it, "GETKEYSANDFLAGS") && args.len() >= 3 => keys_of(&args[2..], true),
        it if is(it, "HELP") => Reply::bulks([
            "COMMAND [COUNT|INFO|DOCS|LIST|GETKEYS|GETKEYSANDFLAGS]. The table of commands.",
        ]),
        _ => error(super::wrong_subcommand(args)),
    }
}

fn facts(named: Named) -> Reply {
    let (first, last, step) = match named.keys() {
        Keys::Range(first, last, step) => (first, last, step),
        Keys::Channels(last) => (1, last, 1),
        Keys::AndStored | Keys::Counted(_, true) => (1, 1, 1),
        Keys::None | Keys::Streams | Keys::Counted(_, false) => (0, 0, 0),
    };
    let flags = named.flags().map(Reply::Status);
    let categories = CATEGORIES.into_iter().filter(|it| named.is_of(it));
    Reply::Array(vec![
        Reply::bulk(named.name()),
        Reply::Integer(i64::from(named.arity())),
        Reply::Set(flags.collect()),
        Reply::Integer(i64::from(first)),
        Reply::Integer(i64::from(last)),
        Reply::Integer(i64::from(step)),
        Reply::Set(categories.map(|it| Reply::Line(format!("@{it}"))).collect()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(named.parts().map(facts).collect()),
    ])
}

fn documentation(named: Named) -> (Reply, Reply) {
    let fact = |name: &str, value: &str| (Reply::bulk(name), Reply::bulk(value));
    let mut facts = vec![
        fact("summary", named.command.summary),
        fact("group", named.command.group()),
    ];
    let parts: Vec<_> = named.parts().map(documentation).collect();
    if !parts.is_empty() {
        facts.push((Reply::bulk("subcommands"), Reply::Map(parts)));
    }
    (Reply::bulk(named.name()), Reply::Map(facts))
}

fn list(rest: Args<'_>) -> Reply {
    let all = COMMANDS.iter().flat_map(full_names);
    match rest {
        [] => Reply::bulks(all),
        [filter, kind, value] if is(filter, "FILTERBY") => match *kind {
            it if is(it, "PATTERN") => {
                Reply::bulks(all.filter(|name| glob::matches(value, name.as_bytes(), true)))
            }
            it if is(it, "ACLCAT") => {
                let category = String::from_utf8_lossy(value).to_lowercase();
                Reply::bulks(super::users::of_category(&category))
            }
            it if is(it, "MODULE") => Reply::Array(Vec::new()),
            _ => error("ERR syntax error"),
        },
        _ => error("ERR syntax error"),
    }
}

fn keys_of(args: Args<'_>, with_flags: bool) -> Reply {
    let Some(command) = find(args[0]) else {
        return error("ERR Invalid command specified");
    };
    if matches!(command.keys, Keys::None | Keys::Channels(_)) {
        return error("ERR The command has no key arguments");
    }
    if !command.takes(args.len()) {
        return error("ERR Invalid number of arguments specified for command");
    }
    let keys = command.keys.of(args);
    // A script may have no keys.
    let may_have_none =
        matches!(command.keys, Keys::Counted(..)) && args.get(2) == Some(&&b"0"[..]);
    if keys.is_empty() && !may_have_none {
        return error("ERR Invalid arguments specified for command");
    }
    if !with_flags {
        return Reply::bulks(keys);
    }
    let access = if command.has(WRITE) {
        ["RW", "access", "update"]
    } else {
        ["RO", "access", ""]
    };
    let flags = access.iter().filter(|it| !it.is_empty());
    let flags = Reply::Set(flags.map(|it| Reply::Line((*it).to_owned())).collect());
    Reply::Array(
        keys.into_iter()
            .map(|key| Reply::Array(vec![Reply::bulk(key), flags.clone()]))
            .collect(),
    )
}
