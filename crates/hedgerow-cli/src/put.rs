//! `hedgerow put KEY VALUE`: puts one key.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

use hedgerow::VALUE_BYTES_MAX;
use serde_json::json;

use crate::creation::CreationArguments;
use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::standard_input::Input;

const EXAMPLE: &str = "\
Example:
  hedgerow put --db people ada 1815
  hedgerow put --db people --hex 00ff 0a
  hedgerow put --db people portrait - < ada.jpg";

/// Puts a key with a value, which is durable when the command ends.
///
/// Creates the database and the keyspace if they are missing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[command(flatten)]
    creation: CreationArguments,

    /// The key.
    key: OsString,

    /// The value; `-` takes the bytes of standard input.
    value: OsString,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let encoding = arguments.entries.encoding.choice();
    let key = encoding.argument(&arguments.key)?;
    let value = match &arguments.value {
        dash if dash == OsStr::new("-") => standard_input()?,
        value => encoding.argument(value)?,
    };
    let (db, keyspace) = arguments
        .entries
        .keyspace
        .open_or_create(&arguments.creation)?;
    keyspace.put(key, value)?;
    db.close()?;
    output.object(&json!({ "keyspace": arguments.entries.keyspace.name, "put": 1 }));
    Ok(())
}

/// Reads standard input, at most one byte more than a value may have.
fn standard_input() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut input = Input::standard()?;
    let read = (&mut input)
        .take(VALUE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes);
    if input.is_interrupted() {
        return Err(Interrupt::failure());
    }
    read.map_err(|e| Failure::io("read", Path::new("standard input"), &e))?;
    Ok(bytes)
}
