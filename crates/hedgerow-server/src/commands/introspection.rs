//! COMMAND: the table of commands, for clients.

use super::arguments::is;
use super::{
    ADMIN, Args, BLOCKING, COMMANDS, Command, FAST, GROWS, Keys, NO_AUTH, NO_MULTI, PUBSUB, READ,
    WRITE, find, full_names,
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

pub(super) fn command(_session: &mut Session, args: Args<'_>) -> Reply {
    let Some(word) = args.get(1) else {
        return Reply::Array(COMMANDS.iter().map(facts).collect());
    };
    match *word {
        it if is(it, "COUNT") && args.len() == 2 => Reply::count(COMMANDS.len()),
        it if is(it, "INFO") => match &args[2..] {
            [] => Reply::Array(COMMANDS.iter().map(facts).collect()),
            names => {
                let found = names
                    .iter()
                    .map(|name| find(name).map_or(Reply::NullArray, facts));
                Reply::Array(found.collect())
            }
        },
        it if is(it, "DOCS") => {
            let chosen: Vec<_> = match &args[2..] {
                [] => COMMANDS.iter().collect(),
                names => names.iter().filter_map(|name| find(name)).collect(),
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

fn facts(command: &Command) -> Reply {
    let (first, last, step) = match command.keys {
        Keys::Range(first, last, step) => (first, last, step),
        Keys::Channels(last) => (1, last, 1),
        Keys::AndStored | Keys::Counted(_, true) => (1, 1, 1),
        Keys::None | Keys::Streams | Keys::Counted(_, false) => (0, 0, 0),
    };
    let moves = matches!(
        command.keys,
        Keys::Counted(..) | Keys::AndStored | Keys::Streams
    );
    let flags = FLAGS
        .iter()
        .filter(|(flag, _)| command.has(*flag))
        .map(|it| it.1);
    let flags = flags.chain(moves.then_some("movablekeys"));
    let categories = CATEGORIES.into_iter().filter(|it| is_of(command, None, it));
    Reply::Array(vec![
        Reply::bulk(command.name),
        Reply::Integer(i64::from(command.arity)),
        Reply::Set(flags.map(|it| Reply::Line(it.to_owned())).collect()),
        Reply::Integer(i64::from(first)),
        Reply::Integer(i64::from(last)),
        Reply::Integer(i64::from(step)),
        Reply::Set(categories.map(|it| Reply::Line(format!("@{it}"))).collect()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
    ])
}

fn documentation(command: &'static Command) -> (Reply, Reply) {
    let fact = |name: &str, value: &str| (Reply::bulk(name), Reply::bulk(value));
    let facts = vec![
        fact("summary", command.summary),
        fact("group", command.group()),
    ];
    (Reply::bulk(command.name), Reply::Map(facts))
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
