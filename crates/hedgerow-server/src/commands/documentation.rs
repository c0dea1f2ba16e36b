//! The pages of commands and parameters, made from their tables.

use std::fmt::Write;

use super::config::{Config, Fsync};
use super::parameters::{FIXED, ONLY, SHARED, WITHOUT_EFFECT};
use crate::commands::status::{EXCEPTIONS, Status};
use crate::commands::{COMMANDS, Command, NO_EFFECT, Run};
use crate::replication::{SETTINGS, old_name};

/// The parameters that CONFIG SET changes, with what they change.
const IN_EFFECT: &[(&str, &str)] = &[
    (
        "acl-pubsub-default",
        "The channels of new users: `allchannels` or `resetchannels`.",
    ),
    ("acllog-max-len", "The entries of ACL LOG."),
    (
        "appendfsync",
        "When a write is durable: `always`, `everysec` or `no`.",
    ),
    (
        "client-query-buffer-limit",
        "The bytes of requests that are not whole, of one client.",
    ),
    ("masterauth", "The password for the primary."),
    (
        "masteruser",
        "The user for the primary; empty for `default`.",
    ),
    (
        "latency-monitor-threshold",
        "The milliseconds from which LATENCY has samples of an event; 0 for none.",
    ),
    ("maxclients", "The most clients at once."),
    (
        "min-replicas-max-lag",
        "The seconds of silence after which a replica does not count.",
    ),
    (
        "min-replicas-to-write",
        "The replicas without which no write is accepted.",
    ),
    (
        "notify-keyspace-events",
        "The events of keys that are told.",
    ),
    (
        "proto-max-bulk-len",
        "The bytes of an argument, 64 MiB at most.",
    ),
    (
        "repl-backlog-size",
        "The bytes of log that are kept for replicas that are away.",
    ),
    (
        "repl-backlog-ttl",
        "The seconds without any replica after which no log is kept.",
    ),
    (
        "repl-timeout",
        "The seconds of silence after which a link to a replica or primary ends.",
    ),
    (
        "replica-announce-ip",
        "The address that the primary is told; empty for the real one.",
    ),
    (
        "replica-announce-port",
        "The port that the primary is told; 0 for the real one.",
    ),
    (
        "replica-priority",
        "The order in which Sentinel promotes replicas.",
    ),
    ("replica-read-only", "`yes`, and nothing else is possible."),
    (
        "replica-serve-stale-data",
        "`no` refuses commands about data while the link is down.",
    ),
    ("requirepass", "The password of the user `default`."),
    (
        "slowlog-log-slower-than",
        "The microseconds above which SLOWLOG has a command.",
    ),
    ("slowlog-max-len", "The entries of SLOWLOG."),
    (
        "tcp-keepalive",
        "The seconds of silence after which the system asks for a new client.",
    ),
    (
        "timeout",
        "The seconds of silence after which a client is cut off that does not listen; 0 for none.",
    ),
    (
        "tracking-table-max-keys",
        "The keys that are remembered for CLIENT TRACKING.",
    ),
];

/// The kinds of parameters, in the order of the page.
const KINDS: &[(&str, &str)] = &[
    ("In effect", "CONFIG SET changes them."),
    ("With one value", "CONFIG SET refuses others, and says why."),
    (
        "Read only",
        "CONFIG SET refuses others than the present one.",
    ),
    (
        "Without effect",
        "CONFIG SET takes any text, and CONFIG GET shows it, since clients and tools expect\n\
         that. Nothing depends on it.",
    ),
];

/// The kind of a parameter, as an index, and what is said of it.
fn kind_of(name: &str) -> Option<(usize, String)> {
    if let Some((_, effect)) = IN_EFFECT.iter().find(|it| it.0 == name) {
        return Some((0, (*effect).to_owned()));
    }
    if let Some((_, _, reason)) = ONLY.iter().find(|it| it.0 == name) {
        return Some((1, (*reason).to_owned()));
    }
    if name == "maxmemory-clients" {
        return Some((1, SHARED.to_owned()));
    }
    if let Some((_, _, fact)) = FIXED.iter().find(|it| it.0 == name) {
        return Some((2, (*fact).to_owned()));
    }
    let is_known = WITHOUT_EFFECT.iter().any(|it| it.0 == name);
    is_known.then(|| (3, String::new()))
}

/// All parameters with their first values, but for old names.
fn parameters() -> Vec<(String, String)> {
    let config = Config::new(Fsync::EverySecond, "", 10_000);
    let mut texts = config.matching(&[b"*"]);
    let told = FIXED.iter().filter(|it| it.1.is_none()).map(|it| it.0);
    for name in told.chain(["maxmemory-clients"]) {
        texts.insert(name.to_owned(), String::new());
    }
    texts.retain(|name, _| {
        let is_old = |it: &(&str, &str)| old_name(it.0).is_some_and(|old| old == *name);
        !SETTINGS.iter().any(is_old)
    });
    texts.into_iter().collect()
}

fn page_of_parameters() -> String {
    let mut page = String::from(
        "# Parameters of the server\n\n\
         Made from the tables of parameters by `HEDGEROW_BLESS=1 cargo test -p hedgerow-server documentation`.\n\n\
         The names are those of Redis' CONFIG. Those that begin with `replica-` have their old names,\n\
         too. Other names are unknown. Changes last until the end of the process.\n",
    );
    for (kind, (title, text)) in KINDS.iter().enumerate() {
        let _ = write!(
            page,
            "\n## {title}\n\n{text}\n\n<!-- figures: without rows: settings -->\n\
             | parameter | first value | |\n|---|---|---|\n"
        );
        for (name, value) in parameters() {
            let value = if value.is_empty() {
                value
            } else {
                format!("`{value}`")
            };
            match kind_of(&name) {
                Some((found, text)) if found == kind => {
                    let _ = writeln!(page, "| `{name}` | {value} | {text} |");
                }
                Some(_) => {}
                None => panic!("expected {name} in one of the tables"),
            }
        }
    }
    page
}

/// The status of a command, but for its exceptions; `None` if it is real.
fn status_of(command: &Command) -> Option<Status> {
    match command.run {
        Run::Refused => Some(Status::Refused),
        _ if command.has(NO_EFFECT) => Some(Status::WithoutEffect),
        _ => None,
    }
}

fn add_row(page: &mut String, name: &str, (status, text): (Option<Status>, &str)) {
    let status = match status {
        None => "real",
        Some(Status::WithoutEffect) => "without effect",
        Some(Status::Refused) => "refused",
    };
    let text = text.trim_end_matches('.');
    let _ = writeln!(page, "| `{name}` | {status} | {text}. |");
}

fn page() -> String {
    let mut page = String::from(
        "# Commands of the server\n\n\
         Made from the table of commands by `HEDGEROW_BLESS=1 cargo test -p hedgerow-server documentation`.\n\n\
         *real*: as in Redis, but for what [the server's page](server.md) names. *without effect*:\n\
         accepted, since clients expect that, and nothing depends on it. *refused*: an error that says\n\
         why. Subcommands and options have a row if they are another thing than their command.\n\
         CONFIG SET has [a page of its own](server-parameters.md).\n",
    );
    let mut group = "";
    for command in COMMANDS {
        if command.group() != group {
            group = command.group();
            let _ = write!(page, "\n## {group}\n\n| command | | |\n|---|---|---|\n");
        }
        let name = command.name.to_uppercase();
        let row = (status_of(command), command.summary);
        add_row(&mut page, &name, row);
        for exception in EXCEPTIONS.iter().filter(|it| it.command == command.name) {
            for word in exception.words {
                let row = (Some(exception.status), exception.reason);
                add_row(&mut page, &format!("{name} {word}"), row);
            }
        }
    }
    page
}

#[allow(
    clippy::disallowed_methods,
    reason = "reads and writes a page of the documents"
)]
fn check_page(name: &str, page: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        std::fs::write(&path, page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page);
}

#[test]
fn the_page_of_commands_is_that_of_the_table() {
    check_page("server-commands.md", &page());
}

#[test]
fn the_page_of_parameters_is_that_of_the_tables() {
    check_page("server-parameters.md", &page_of_parameters());
}

#[test]
fn a_parameter_is_in_one_table() {
    let tables = [
        IN_EFFECT.iter().map(|it| it.0).collect::<Vec<_>>(),
        ONLY.iter().map(|it| it.0).collect(),
        FIXED.iter().map(|it| it.0).collect(),
        WITHOUT_EFFECT.iter().map(|it| it.0).collect(),
    ];
    let mut names = tables.concat();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    // Each is there.
    let known = parameters();
    for name in names {
        assert!(known.iter().any(|it| it.0 == name), "{name}");
    }
}

#[test]
fn exceptions_are_of_commands_that_are_there() {
    for exception in EXCEPTIONS {
        let command = COMMANDS.iter().find(|it| it.name == exception.command);
        let is_other = command.is_some_and(|it| status_of(it) != Some(exception.status));
        assert!(is_other, "{exception:?}");
    }
}

#[test]
fn names_are_there_once() {
    let mut names: Vec<_> = COMMANDS.iter().map(|it| it.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|it| it[0] != it[1]));
}
