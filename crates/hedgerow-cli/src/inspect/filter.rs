//! `hedgerow inspect filter FILE`: a group filter, either multi-level cuckoo or a cluster.

use std::path::PathBuf;

use clap::ValueHint;
use hedgerow::inspect::{Cluster, GroupFilter};
use serde_json::json;

use super::Report;
use crate::exit::Failure;
use crate::output::{bytes, count, counted, shown};

const EXAMPLE: &str = "\
Example:
  hedgerow inspect filter people/filters/0000000012.filter";

/// Shows a multi-level cuckoo filter or a cluster of Bloom filters: its parameters and its tables.
///
/// Such a file is a cache: opening the database rebuilds a damaged one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// A file in the directory `filters` of a database.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<(), Failure> {
    if arguments.file.extension().is_some_and(|it| it == "cluster") {
        return show_cluster(arguments, report);
    }
    let filter = GroupFilter::open(&report.storage, &arguments.file).map_err(Failure::of_file)?;
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

fn show_cluster(arguments: &Arguments, report: &mut Report<'_>) -> Result<(), Failure> {
    let cluster = Cluster::open(&report.storage, &arguments.file).map_err(Failure::of_file)?;
    let path = shown(cluster.path.as_os_str().as_encoded_bytes());
    let mut text = format!(
        "cluster {} of {}: {path}\n  keyspace {}, partition {}\n  {} of {}",
        cluster.number,
        bytes(cluster.bytes),
        cluster.keyspace.0,
        cluster.partition.0,
        counted(cluster.pages, "page"),
        counted(cluster.stripes.len() as u64, "table"),
    );
    for stripe in &cluster.stripes {
        text += &format!(
            "\n  table {}: positions {:08x} to {:08x}, columns of {} bits, {} probes",
            stripe.table.0,
            stripe.positions.0,
            stripe.positions.1,
            stripe.column_bits,
            stripe.probes
        );
    }
    let stripes = cluster.stripes.iter().map(|stripe| {
        json!({
            "table": stripe.table.0,
            "first_position": stripe.positions.0,
            "last_position": stripe.positions.1,
            "column_bits": stripe.column_bits,
            "probes": stripe.probes,
        })
    });
    report.tell(
        &text,
        &json!({
            "cluster": cluster.number,
            "path": cluster.path.to_string_lossy(),
            "bytes": cluster.bytes,
            "keyspace": cluster.keyspace.0,
            "partition": cluster.partition.0,
            "hash_seed": cluster.hash_seed,
            "pages": cluster.pages,
            "tables": stripes.collect::<Vec<_>>(),
        }),
    );
    Ok(())
}
