//! `hedgerow inspect filter FILE`: a filter over several runs.

use std::path::PathBuf;

use hedgerow::inspect::GroupFilter;
use serde_json::json;

use super::Report;
use crate::exit::Failure;
use crate::output::{bytes, count, counted, shown};

const EXAMPLE: &str = "\
Example:
  hedgerow inspect filter people/filters/0000000012.filter";

/// Shows a filter over several runs: what it was made of, and which tables it may be asked for.
///
/// Such a file is a cache: one that is damaged is made again when the database is opened.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// A file of a database's directory `filters`.
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<(), Failure> {
    let filter = GroupFilter::open(&report.storage, &arguments.file)?;
    let path = shown(filter.path.as_os_str().as_encoded_bytes());
    let mode = if filter.unique { "unique" } else { "set" };
    let tables = |tables: &[hedgerow::inspect::TableId]| -> Vec<u64> {
        tables.iter().map(|table| table.0).collect()
    };
    let mut text = format!(
        "filter {} of {}: {path}\n  keyspace {}, partition {}, {mode} mode\n  {} of {} slots, \
         fingerprints of {} bits, {}",
        filter.number,
        bytes(filter.bytes),
        filter.keyspace.0,
        filter.partition.0,
        count(filter.entries),
        count(4 * u64::from(filter.buckets)),
        filter.fingerprint_bits,
        counted(filter.whole_hashes as u64, "whole hash"),
    );
    for (run, ids) in &filter.runs {
        text += &format!("\n  run {}: tables {:?}", run.0, tables(ids));
    }
    let runs = filter.runs.iter();
    let runs = runs.map(|(run, ids)| json!({ "run": run.0, "tables": tables(ids) }));
    report.tell(
        &text,
        &json!({
            "filter": filter.number,
            "path": filter.path.to_string_lossy(),
            "bytes": filter.bytes,
            "keyspace": filter.keyspace.0,
            "partition": filter.partition.0,
            "hash_seed": filter.hash_seed,
            "fingerprint_bits": filter.fingerprint_bits,
            "buckets": filter.buckets,
            "entries": filter.entries,
            "whole_hashes": filter.whole_hashes,
            "unique": filter.unique,
            "runs": runs.collect::<Vec<_>>(),
        }),
    );
    Ok(())
}
