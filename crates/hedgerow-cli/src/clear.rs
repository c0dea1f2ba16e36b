//! `hedgerow clear NAME`: removes all entries of a keyspace.

use serde_json::json;

use crate::database::{self, DatabaseArguments};
use crate::exit::Failure;
use crate::output::Output;

const EXAMPLE: &str = "\
Example:
  hedgerow clear --db people drafts";

/// Removes all entries of a keyspace, which stays with its design; durable when the command ends.
///
/// The cost does not depend on the number of entries.
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
    database::find(&db, &arguments.name)?.clear()?;
    db.close()?;
    output.line(format_args!("cleared `{}`", arguments.name));
    output.object(&json!({ "cleared": arguments.name }));
    Ok(())
}
