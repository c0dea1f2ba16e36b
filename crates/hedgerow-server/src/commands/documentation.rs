//! The page of commands, made from the table.

use std::fmt::Write;

use crate::commands::{COMMANDS, NO_EFFECT, Run};

fn page() -> String {
    let mut page = String::from(
        "# Commands of the server\n\n\
         Made from the table of commands by `HEDGEROW_BLESS=1 cargo test -p hedgerow-server documentation`.\n\n\
         *real*: as in Redis, but for what [the server's page](server.md) names. *no effect*: accepted,\n\
         since clients send it. *refused*: an error that says why.\n",
    );
    let mut group = "";
    for command in COMMANDS {
        if command.group() != group {
            group = command.group();
            let _ = write!(page, "\n## {group}\n\n| command | | |\n|---|---|---|\n");
        }
        let status = match command.run {
            Run::Refused => "refused",
            _ if command.has(NO_EFFECT) => "no effect",
            _ => "real",
        };
        let name = command.name.to_uppercase();
        let _ = writeln!(page, "| `{name}` | {status} | {} |", command.summary);
    }
    page
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "reads and writes a page of the documents"
)]
fn the_page_of_commands_is_that_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/server-commands.md");
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page());
}

#[test]
fn names_are_there_once() {
    let mut names: Vec<_> = COMMANDS.iter().map(|it| it.name).collect();
    names.sort_unstable();
    assert!(names.windows(2).all(|it| it[0] != it[1]));
}
