//! `hedgerow rename FROM TO`: gives a keyspace another name.

use serde_json::json;

use crate::database::{self, DatabaseArguments};
use crate::exit::Failure;
use crate::output::Output;

const EXAMPLE: &str = "\
Example:
  hedgerow rename --db people drafts letters";

/// Gives a keyspace another name; durable when the command ends.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,

    /// The keyspace.
    from: String,

    /// Its new name, which no other keyspace may have.
    to: String,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let (from, to) = (&arguments.from, &arguments.to);
    let db = arguments.database.open_to_write()?;
    database::find(&db, from)?;
    db.rename_keyspace(from, to)?;
    db.close()?;
    output.line(format_args!("renamed `{from}` to `{to}`"));
    output.object(&json!({ "from": from, "to": to }));
    Ok(())
}
