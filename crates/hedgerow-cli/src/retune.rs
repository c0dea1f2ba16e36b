//! `hedgerow retune`: changes the design of a keyspace.

use std::time::Duration;

use hedgerow::io::{Clock, OsClock};
use hedgerow::{
    Compression, Design, FilterSpec, IndexSpec, Keyspace, PolicySpec, Residency, TableSpec,
};
use serde_json::json;

use crate::arguments;
use crate::bench::table_format;
use crate::database::KeyspaceArguments;
use crate::exit::Failure;
use crate::keyspaces::{design_object, design_text};
use crate::output::{Output, bytes, seconds};

const EXAMPLE: &str = "\
Example:
  hedgerow retune --db people --policy leveling:4 --filter bloom:12
  hedgerow retune --db people --table-size auto --no-wait
  hedgerow retune --db people --auto on

Ctrl-C loses nothing: the design is in force at once, and merging resumes when the database is opened \
for writing.";

/// Changes the design of a keyspace, and merges until its trees have the new shape.
///
/// Parts that are not given stay unchanged. Tables that need no merge keep their filter, index and
/// compression until `compact`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    keyspace: KeyspaceArguments,

    #[command(flatten)]
    change: Change,

    /// Ends as soon as the design is in force; merging resumes when the database is opened for
    /// writing.
    #[arg(long)]
    no_wait: bool,
}

/// The parts of the design to change.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Change {
    /// The merge policy, such as leveling:10
    #[arg(long, value_name = "POLICY")]
    policy: Option<PolicySpec>,
    /// The table format: block, block:BYTES, htable, htable:BYTES; the last two need hashed keys
    #[arg(long, value_name = "FORMAT", value_parser = table_format)]
    table: Option<(TableSpec, u32)>,
    /// The index of tables: fence, three-level, three-level:array; the last two need semi-sorted or
    /// hashed keys
    #[arg(long, value_name = "INDEX")]
    index: Option<IndexSpec>,
    /// The filter of tables: monkey, monkey:BITS, bloom:BITS, cuckoo:BITS, mlcf:BITS,
    /// mlcf:BITS,unique, cluster:BITS, none
    #[arg(long, value_name = "FILTER")]
    filter: Option<FilterSpec>,
    /// The residency of indexes and filters: auto, resident, paged
    #[arg(long, value_name = "WHERE")]
    residency: Option<Residency>,
    /// The compression of pages: none, lz4, zstd (in a program built with the feature zstd)
    #[arg(long, value_name = "CODEC")]
    compression: Option<Compression>,
    /// The size at which memtables are flushed; with auto it follows from the budget
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memtable_size: Option<Size>,
    /// The size of tables; with auto it follows from the budget
    #[arg(long, value_name = "SIZE", value_parser = size)]
    table_size: Option<Size>,
    /// Turns self-tuning on or off: the keyspace adopts the design that `advise --db` recommends,
    /// once the savings pay for rewriting the data
    #[arg(long, value_name = "on|off", value_parser = switch)]
    auto: Option<bool>,
}

/// A size in bytes; `None` if it follows from the budget.
#[derive(Debug, Clone, Copy)]
struct Size(Option<u64>);

fn size(text: &str) -> Result<Size, String> {
    match text {
        "auto" => Ok(Size(None)),
        _ => arguments::bytes(text).map(|bytes| Size(Some(bytes))),
    }
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("expected on or off, found `{text}`")),
    }
}

impl Change {
    fn of(&self, design: Design) -> Design {
        let (table, block_bytes) = self.table.unwrap_or((design.table, design.block_bytes));
        Design {
            policy: self.policy.clone().unwrap_or(design.policy),
            compression: self.compression.unwrap_or(design.compression),
            index: self.index.unwrap_or(design.index),
            filter: self.filter.unwrap_or(design.filter),
            residency: self.residency.unwrap_or(design.residency),
            table,
            block_bytes,
            table_bytes: self.table_size.map_or(design.table_bytes, |size| size.0),
            memtable_bytes: self
                .memtable_size
                .map_or(design.memtable_bytes, |size| size.0),
        }
    }
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let (db, keyspace) = arguments.keyspace.open_to_write()?;
    let before = keyspace.design();
    let retuned = retune(arguments, &keyspace);
    let (after, stats, written) = (
        keyspace.design(),
        keyspace.stats(),
        db.stats().merge_write_bytes,
    );
    db.close()?;
    let took = retuned?;
    output.line(format_args!(
        "from {} to {}",
        design_text(&before),
        design_text(&after)
    ));
    output.line(format_args!(
        "merged {} in {}, {} left to merge",
        bytes(written),
        seconds(took),
        bytes(stats.debt_bytes)
    ));
    output.object(&json!({
        "keyspace": arguments.keyspace.name,
        "design_before": design_object(&before),
        "design": design_object(&after),
        "self_tuning": stats.tunes_itself,
        "retuning": stats.retuning,
        "misplaced_bytes": stats.misplaced_bytes,
        "debt_bytes": stats.debt_bytes,
        "merge_write_bytes": written,
        "seconds": took.as_secs_f64(),
    }));
    Ok(())
}

fn retune(arguments: &Arguments, keyspace: &Keyspace) -> hedgerow::Result<Duration> {
    let clock = OsClock::new();
    let began = clock.now();
    if let Some(on) = arguments.change.auto {
        keyspace.set_self_tuning(on)?;
    }
    keyspace.retune(arguments.change.of(keyspace.design()))?;
    if !arguments.no_wait {
        keyspace.wait_until_merged()?;
    }
    Ok(clock.now() - began)
}
