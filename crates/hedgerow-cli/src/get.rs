//! `hedgerow get KEY`: shows the value of a key.

use std::ffi::OsString;
use std::io::{self, Write};

use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLE: &str = "\
Example:
  hedgerow get --db people ada
  hedgerow get --db people --raw portrait > ada.jpg";

/// Shows the value of a key; exit code 3 if it has none.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    /// Writes the bytes of the value and nothing else.
    #[arg(long, conflicts_with = "json")]
    raw: bool,

    /// The key.
    key: OsString,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let encoding = arguments.entries.encoding.choice();
    let key = encoding.argument(&arguments.key)?;
    let (_db, keyspace) = arguments.entries.keyspace.open_to_read()?;
    let Some(value) = keyspace.get(&key)? else {
        let message = format!(
            "expected a value of `{}`, found none",
            encoding.encode(&key)
        );
        return Err(Failure::new(Exit::NotFound, message));
    };
    if arguments.raw {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&value).and_then(|()| stdout.flush());
        return written.map_err(|e| Failure::output(&e));
    }
    output.line(format_args!("{}", encoding.encode(&value)));
    output.object(
        &json!({ "key": encoding.encode_json(&key), "value": encoding.encode_json(&value) }),
    );
    Ok(())
}
