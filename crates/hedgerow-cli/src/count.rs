//! `hedgerow count`: counts the keys of a range.

use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::Failure;
use crate::output::{Output, wheel};
use crate::range::{RangeArguments, Walk};

const EXAMPLE: &str = "\
Example:
  hedgerow count --db people --prefix a";

/// Counts the keys of a range by reading them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[command(flatten)]
    range: RangeArguments,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let range = arguments.range.range(arguments.entries.encoding.choice())?;
    let (_db, keyspace) = arguments.entries.keyspace.open_to_read()?;
    let mut walk = Walk::new(&keyspace, range, false)?;
    let wheel = wheel("counting");
    let mut count: u64 = 0;
    while walk.next()?.is_some() {
        count += 1;
        wheel.set_position(count);
    }
    wheel.finish_and_clear();
    output.line(format_args!("{count}"));
    output.object(&json!({ "keyspace": arguments.entries.keyspace.name, "count": count }));
    Ok(())
}
