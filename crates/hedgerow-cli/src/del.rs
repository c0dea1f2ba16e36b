//! `hedgerow del KEY…`: deletes keys.

use std::ffi::OsString;

use hedgerow::Durability;
use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::Failure;
use crate::output::Output;

const EXAMPLE: &str = "\
Example:
  hedgerow del --db people ada grace";

/// Deletes keys, all of them or none; durable when the command ends.
///
/// The keys need not exist.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[arg(value_name = "KEY", required = true)]
    keys: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let encoding = arguments.entries.encoding.choice();
    let (db, keyspace) = arguments.entries.keyspace.open_to_write()?;
    let mut batch = db.batch();
    for key in &arguments.keys {
        batch.delete(&keyspace, encoding.argument(key)?)?;
    }
    batch.commit(Durability::Synced)?;
    db.close()?;
    let name = &arguments.entries.keyspace.name;
    output.object(&json!({ "keyspace": name, "deleted": arguments.keys.len() }));
    Ok(())
}
