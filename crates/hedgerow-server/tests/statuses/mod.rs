//! The page of commands says what is accepted without effect, and what is refused: so it is.

use crate::Served;
use crate::client::{Client, Value};

/// The calls of rows that are no call themselves.
const CALLS: &[(&str, &str)] = &[
    ("TOUCH", "TOUCH k"),
    ("OBJECT IDLETIME", "OBJECT IDLETIME k"),
    ("OBJECT REFCOUNT", "OBJECT REFCOUNT k"),
    ("OBJECT FREQ", "OBJECT FREQ k"),
    ("CLIENT NO-EVICT", "CLIENT NO-EVICT ON"),
    ("CLIENT NO-TOUCH", "CLIENT NO-TOUCH ON"),
    ("MEMORY USAGE … SAMPLES", "MEMORY USAGE k SAMPLES 5"),
    ("XADD … ~", "XADD s MAXLEN ~ 10 * f v"),
    ("XTRIM … ~", "XTRIM s MAXLEN ~ 10"),
    ("PSYNC", "PSYNC ? -1"),
];

/// The names of the rows of a status, with what is said of them.
fn rows(status: &str) -> Vec<(String, String)> {
    let page = include_str!("../../../../docs/server-commands.md");
    let rows = page.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let text = rest.strip_prefix(status)?.strip_prefix(" | ")?;
        let text = text.trim_end_matches([' ', '|', '.']);
        Some((name.to_owned(), text.to_owned()))
    });
    rows.collect()
}

fn call(client: &mut Client, name: &str) -> Option<Value> {
    let known = CALLS.iter().find(|it| it.0 == name);
    client.try_call(known.map_or(name, |it| it.1))
}

#[test]
fn commands_without_effect_are_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    let rows = rows("without effect");
    assert!(rows.len() > 15, "{rows:?}");
    for (name, _) in rows {
        client.call("SET k v");
        // These end the server, or have bytes that are no text.
        if name.starts_with("SHUTDOWN") || name.starts_with("RESTORE") {
            continue;
        }
        let reply = call(&mut client, &name);
        let is_accepted = reply
            .as_ref()
            .is_some_and(|it| !matches!(it, Value::Error(_)));
        assert!(is_accepted, "{name}: {reply:?}");
    }
    served.end();
}

#[test]
fn refused_commands_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::begin(dir.path());
    let mut client = served.client();
    client.call("SET k v");
    let rows = rows("refused");
    assert!(rows.len() > 15, "{rows:?}");
    for (name, reason) in rows {
        let reply = call(&mut client, &name).map_or(String::new(), |it| it.to_string());
        // Without a map of slots, all of CLUSTER is refused.
        let reason = match name.starts_with("CLUSTER") {
            true => "cluster support disabled",
            false => &reason,
        };
        assert!(
            reply.starts_with('-') && reply.contains(reason),
            "{name}: {reply}"
        );
    }
    served.end();
}
