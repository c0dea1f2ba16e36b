//! `hedgerow drop NAME`: removes a keyspace.

use serde_json::json;

use crate::database::NamedKeyspaceArguments;
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
    keyspace: NamedKeyspaceArguments,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let (db, _) = arguments.keyspace.open_to_write()?;
    let name = &arguments.keyspace.name;
    db.drop_keyspace(name)?;
    db.close()?;
    output.line(format_args!("dropped `{name}`"));
    output.object(&json!({ "dropped": name }));
    Ok(())
}
