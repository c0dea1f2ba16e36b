//! `hedgerow compact`: merges a range into the deepest level.

use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Output, bytes, progress_bytes};
use crate::range::RangeArguments;

const EXAMPLE: &str = "\
Example:
  hedgerow compact --db people
  hedgerow compact --db people --from a --to c

Ctrl-C ends it after the current step; finished merges stay.";

/// Merges a whole keyspace, or a range of it, into the deepest level.
///
/// This removes deleted and replaced entries, so that a read looks at one run only.
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
    let interrupt = Interrupt::listen()?;
    let (db, keyspace) = arguments.entries.keyspace.open_to_write()?;
    let before = keyspace.stats();
    let bar = progress_bytes("compacting", 0);
    let compacted = keyspace.compact_with::<&[u8]>(range.bounds(), |progress| {
        bar.set_length(progress.total_bytes.max(progress.done_bytes));
        bar.set_position(progress.done_bytes);
        !interrupt.came()
    });
    bar.finish_and_clear();
    let after = keyspace.stats();
    db.close()?;
    compacted?;
    output.line(format_args!(
        "{} of tables, {} before",
        bytes(after.table_bytes()),
        bytes(before.table_bytes()),
    ));
    output.object(&json!({
        "keyspace": arguments.entries.keyspace.name,
        "entries_before": before.entries(),
        "entries": after.entries(),
        "table_bytes_before": before.table_bytes(),
        "table_bytes": after.table_bytes(),
    }));
    Ok(())
}
