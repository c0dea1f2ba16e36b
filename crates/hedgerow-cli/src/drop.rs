//! `hedgerow drop NAME`: removes a keyspace.

use serde_json::json;

use crate::database::{self, DatabaseArguments};
use crate::exit::Failure;
use crate::output::Output;

const EXAMPLE: &str = "\
Example:
  hedgerow drop --db people drafts";

/// Removes a keyspace with all its entries; durable when the command ends.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,

    /// The keyspace.
    name: String,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let db = arguments.database.open_to_write()?;
    database::find(&db, &arguments.name)?;
    db.drop_keyspace(&arguments.name)?;
    db.close()?;
    output.line(format_args!("dropped `{}`", arguments.name));
    output.object(&json!({ "dropped": arguments.name }));
    Ok(())
}
