//! `hedgerow repair`: rebuilds a database from its tables and its log.

use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use hedgerow::{Builder, MissingEntries, RepairReport};
use serde_json::{Value, json};

use crate::database::DatabaseArguments;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::{Output, counted, waiting};

const EXAMPLE: &str = "\
Example:
  hedgerow repair --db people

Damaged files are not deleted but moved to the directory `lost` of the database, tables as \
NUMBER.table.damaged. If you have a whole copy of one, put it there as NUMBER.table and repair again. \
Keys of the copy that were deleted since may come back.

Exit code 4 says that entries are missing; the output says how many, and between which keys.";

/// The time after which Ctrl-C is noticed.
const PATIENCE: Duration = Duration::from_millis(100);

/// Rebuilds a database with a damaged manifest, log or tables from the parts that are whole.
///
/// Reads every table twice, writes it once, and needs as much free space as the tables take. If it
/// is stopped, start it again: nothing else opens the database before it has ended.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: DatabaseArguments,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let report = repair(arguments.database.existing()?, output)?;
    // The report is of more use than this number, and comes once.
    let log_entries = log_entries(&arguments.database).ok();
    let in_log = log_entries.map(|n| format!(", {} only in the log", counted(n, "entry")));
    output.line(format_args!(
        "recovered {} from {}{}; {} with {}, {} only from tables",
        counted(report.entries, "entry"),
        counted((report.tables + report.salvaged) as u64, "table"),
        in_log.unwrap_or_default(),
        counted(report.keyspaces_known as u64, "keyspace"),
        match report.keyspaces_known {
            1 => "its name",
            _ => "their names",
        },
        report.keyspaces_guessed,
    ));
    for (path, reason) in &report.lost {
        output.line(format_args!("damaged {}: {reason}", path.display()));
    }
    for missing in &report.missing {
        for line in lines(missing) {
            output.line(format_args!("{line}"));
        }
    }
    let lost = report.lost.iter();
    let lost: Vec<Value> = lost
        .map(|(path, reason)| json!({ "path": path.to_string_lossy(), "reason": reason }))
        .collect();
    output.object(&json!({
        "tables": report.tables,
        "salvaged": report.salvaged,
        "entries": report.entries,
        "log_entries": log_entries,
        "keyspaces_known": report.keyspaces_known,
        "keyspaces_guessed": report.keyspaces_guessed,
        "lost": lost,
        "missing": report.missing.iter().map(object).collect::<Vec<_>>(),
    }));
    if report.missing.is_empty() {
        return Ok(());
    }
    let known = report.missing.iter().filter_map(|missing| missing.entries);
    let message = format!(
        "corruption: {} of {} could not be read",
        match report
            .missing
            .iter()
            .all(|missing| missing.entries.is_some())
        {
            true => counted(known.sum(), "entry"),
            false => format!("at least {}", counted(known.sum(), "entry")),
        },
        counted(report.missing.len() as u64, "file"),
    );
    Err(Failure::new(Exit::Corruption, message))
}

/// The number of entries that only the log of a repaired database has.
fn log_entries(database: &DatabaseArguments) -> Result<u64, Failure> {
    let keyspaces = database.open_to_read()?.stats().keyspaces;
    Ok(keyspaces.iter().map(|it| it.memtable_entries).sum())
}

/// Repairs. Ctrl-C ends the process at once, which a repair allows at any moment.
fn repair(builder: Builder, output: &Output) -> Result<RepairReport, Failure> {
    let (interrupt, wheel) = (Interrupt::listen()?, waiting("repairing"));
    let (done, end) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || done.send(hedgerow::repair_with(builder)));
        loop {
            match end.recv_timeout(PATIENCE) {
                Ok(report) => {
                    wheel.finish_and_clear();
                    return Ok(report?);
                }
                Err(RecvTimeoutError::Timeout) if interrupt.came() => {
                    wheel.finish_and_clear();
                    let said = "; every file is kept: start `hedgerow repair` again, nothing else opens \
                                the database before it has ended";
                    let _ = Interrupt::failure().adding(said).report(output.is_json());
                    process::exit(Exit::Interrupted as i32);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the repair has panicked"),
            }
        }
    })
}

/// The lines about one file, for people.
fn lines(missing: &MissingEntries) -> Vec<String> {
    let entries = match missing.entries {
        Some(entries) => counted(entries, "entry"),
        None => "an unknown number of entries".to_owned(),
    };
    let keyspace = missing.keyspace.as_deref().unwrap_or("(not known)");
    let path = missing.path.display();
    let mut lines = vec![format!(
        "missing {entries} of {path}, keyspace {keyspace}, between these keys:"
    )];
    let ranges = missing.ranges.iter();
    lines.extend(ranges.map(|range| {
        let (start, end) = (range.start().escape_ascii(), range.end().escape_ascii());
        format!("  {start} to {end}")
    }));
    if missing.ranges.is_empty() {
        lines.push("  (not known)".to_owned());
    }
    lines
}

fn object(missing: &MissingEntries) -> Value {
    let text = |key: &[u8]| key.escape_ascii().to_string();
    let ranges = missing.ranges.iter();
    let ranges: Vec<Value> = ranges
        .map(|range| json!({ "from": text(range.start()), "to": text(range.end()) }))
        .collect();
    json!({
        "path": missing.path.to_string_lossy(),
        "keyspace": missing.keyspace,
        "entries": missing.entries,
        "ranges": ranges,
    })
}
