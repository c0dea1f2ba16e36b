//! `hedgerow inspect filter FILE`: a group filter, either multi-level cuckoo or a cluster.

use std::path::PathBuf;

use clap::ValueHint;
use hedgerow::inspect::{ClusterContents, CuckooContents, FilterContents, GroupFilter, TableId};
use serde_json::{Value, json};

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
    let filter = GroupFilter::open(&report.storage, &arguments.file).map_err(Failure::of_file)?;
    let (kind, text, mut object) = match &filter.contents {
        FilterContents::MultiLevelCuckoo(cuckoo) => {
            ("filter", cuckoo_text(cuckoo), cuckoo_object(cuckoo))
        }
        FilterContents::Cluster(cluster) => {
            ("cluster", cluster_text(cluster), cluster_object(cluster))
        }
        _ => ("filter", String::new(), json!({})),
    };
    let path = shown(filter.path.as_os_str().as_encoded_bytes());
    let text = format!(
        "{kind} {} of {}: {path}\n  keyspace {}, partition {}{text}",
        filter.number,
        bytes(filter.bytes),
        filter.keyspace.0,
        filter.partition.0,
    );
    object[kind] = json!(filter.number);
    object["path"] = json!(filter.path.to_string_lossy());
    object["bytes"] = json!(filter.bytes);
    object["keyspace"] = json!(filter.keyspace.0);
    object["partition"] = json!(filter.partition.0);
    object["hash_seed"] = json!(filter.hash_seed);
    report.tell(&text, &object);
    Ok(())
}

fn numbers(tables: &[TableId]) -> Vec<u64> {
    tables.iter().map(|table| table.0).collect()
}

fn cuckoo_text(filter: &CuckooContents) -> String {
    let mode = if filter.unique { "unique" } else { "set" };
    let mut text = format!(
        ", {mode} mode\n  {} of {} slots, fingerprints of {} bits, {}",
        count(filter.entries),
        count(4 * u64::from(filter.buckets)),
        filter.fingerprint_bits,
        counted(filter.whole_hashes as u64, "whole hash"),
    );
    for (run, tables) in &filter.runs {
        text += &format!("\n  run {}: tables {:?}", run.0, numbers(tables));
    }
    text
}

fn cuckoo_object(filter: &CuckooContents) -> Value {
    let runs = filter.runs.iter();
    let runs = runs.map(|(run, tables)| json!({ "run": run.0, "tables": numbers(tables) }));
    json!({
        "fingerprint_bits": filter.fingerprint_bits,
        "buckets": filter.buckets,
        "entries": filter.entries,
        "whole_hashes": filter.whole_hashes,
        "unique": filter.unique,
        "runs": runs.collect::<Vec<_>>(),
    })
}

fn cluster_text(cluster: &ClusterContents) -> String {
    let mut text = format!(
        "\n  {} of {}",
        counted(cluster.pages, "page"),
        counted(cluster.stripes.len() as u64, "table"),
    );
    for stripe in &cluster.stripes {
        text += &format!(
            "\n  table {}: positions {:08x} to {:08x}, columns of {} bits, {} probes",
            stripe.table.0, stripe.first, stripe.last, stripe.column_bits, stripe.probes
        );
    }
    text
}

fn cluster_object(cluster: &ClusterContents) -> Value {
    let stripes = cluster.stripes.iter().map(|stripe| {
        json!({
            "table": stripe.table.0,
            "first_position": stripe.first,
            "last_position": stripe.last,
            "column_bits": stripe.column_bits,
            "probes": stripe.probes,
        })
    });
    json!({ "pages": cluster.pages, "tables": stripes.collect::<Vec<_>>() })
}
