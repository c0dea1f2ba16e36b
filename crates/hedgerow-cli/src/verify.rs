//! `hedgerow verify`: reads and checks everything.

use serde_json::json;

use crate::database::DatabaseArguments;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::output::{Output, bytes, counted, progress_bytes};

const EXAMPLE: &str = "\
Example:
  hedgerow verify --db people";

/// Reads everything and checks every checksum and invariant; exit code 4 names the first damage.
///
/// Works beside a writer, on the data that was written before the command began.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let db = arguments.database.open_to_read()?;
    let bar = progress_bytes("verifying", 0);
    let report = db.verify_with(|progress| {
        bar.set_length(progress.total_bytes);
        bar.set_position(progress.done_bytes);
        !interrupt.came()
    })?;
    bar.finish_and_clear();
    output.line(format_args!(
        "no damage: {} in {}, {}; {}; {} only in the log",
        counted(report.entries, "entry"),
        counted(report.tables, "table"),
        bytes(report.bytes),
        counted(report.filters, "group filter"),
        counted(report.log_entries, "entry"),
    ));
    output.object(&json!({
        "damaged": false,
        "tables": report.tables,
        "entries": report.entries,
        "table_bytes": report.bytes,
        "filters": report.filters,
        "log_entries": report.log_entries,
    }));
    Ok(())
}
