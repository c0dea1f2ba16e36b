//! `hedgerow checkpoint DEST`: a copy of a database, made of links.

use std::path::PathBuf;

use clap::ValueHint;
use serde_json::json;

use crate::database::DatabaseArguments;
use crate::exit::Failure;
use crate::output::{Output, waiting};

const EXAMPLE: &str = "\
Example:
  hedgerow checkpoint --db people people.2024-06-01";

/// Copies a database into a new directory; the copy opens like any other database.
///
/// Tables are linked, not copied, if both directories are on one file system.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,

    /// The directory for the copy, new or empty.
    #[arg(value_name = "DEST", value_hint = ValueHint::DirPath)]
    destination: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let database = &arguments.database;
    database.refuse_inside(&arguments.destination, "a checkpoint")?;
    let db = database.open_to_write()?;
    let wheel = waiting("copying");
    db.checkpoint(&arguments.destination)?;
    wheel.finish_and_clear();
    db.close()?;
    let destination = arguments.destination.display();
    output.line(format_args!("made {destination}"));
    output.object(&json!({ "checkpoint": destination.to_string() }));
    Ok(())
}
