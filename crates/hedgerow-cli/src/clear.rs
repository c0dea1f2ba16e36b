//! `hedgerow clear NAME`: removes all entries of a keyspace.

use serde_json::json;

use crate::database::NamedKeyspaceArguments;
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
    keyspace: NamedKeyspaceArguments,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let (db, keyspace) = arguments.keyspace.open_to_write()?;
    keyspace.clear()?;
    db.close()?;
    let name = &arguments.keyspace.name;
    output.line(format_args!("cleared `{name}`"));
    output.object(&json!({ "cleared": name }));
    Ok(())
}
