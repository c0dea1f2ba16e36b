//! `hedgerow explain get KEY`: the steps of a lookup; `hedgerow explain design`: the effects of a
//! design.

pub(crate) mod design;

use std::ffi::OsString;

use hedgerow::explain::{
    Explanation, FilterAnswer, FoundEntry, GroupFilterProbe, PageRequest, RunProbe, TableProbe,
};
use serde_json::{Value, json};

use crate::database::EntryArguments;
use crate::encoding::{self, Encoding};
use crate::exit::Failure;
use crate::keyspaces::design_text;
use crate::output::{Output, bytes, count, counted};

const EXAMPLE: &str = "\
Example:
  hedgerow explain get --db people ada
  hedgerow explain get --db people --warm --json ada
  hedgerow explain design --db people --keyspace default";

/// Explains a lookup step by step, or a design with its predicted and measured costs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Get(GetArguments),
    Design(design::Arguments),
}

/// Looks up a key and shows which memtables, runs, filters and pages the lookup used.
///
/// The database is opened for reading only, with an empty page cache. A page that is not cached
/// here may be in the cache of another process that has the database open.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
struct GetArguments {
    #[command(flatten)]
    entries: EntryArguments,

    /// Looks up the key twice, so that its pages are cached the second time.
    #[arg(long)]
    warm: bool,

    /// The key.
    key: OsString,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    match &arguments.what {
        What::Get(arguments) => get(arguments, output),
        What::Design(arguments) => design::run(arguments, output),
    }
}

fn get(arguments: &GetArguments, output: &mut Output) -> Result<(), Failure> {
    let encoding = arguments.entries.encoding.choice();
    let key = encoding.argument(&arguments.key)?;
    let (_db, keyspace) = arguments.entries.keyspace.open_to_read()?;
    if arguments.warm {
        keyspace.get(&key)?;
    }
    let explanation = keyspace.explain(&key)?;
    let design = design_text(&keyspace.design());
    output.line(format_args!("design {design}"));
    print(&explanation, encoding, output);
    let mut object = object(&explanation, encoding);
    object["keyspace"] = json!(keyspace.name());
    object["design"] = json!(design);
    object["key"] = encoding.encode_json(&key);
    output.object(&object);
    Ok(())
}

// ---- for people ----

fn print(explanation: &Explanation, encoding: Encoding, output: &mut Output) {
    output.line(format_args!(
        "partition {} of {}",
        explanation.partition, explanation.partitions
    ));
    for memtable in &explanation.memtables {
        let kind = if memtable.sealed { "sealed" } else { "active" };
        output.line(format_args!(
            "  {kind} memtable of {}: {}",
            counted(memtable.entries as u64, "entry"),
            found_text(memtable.found)
        ));
    }
    let mut filters = explanation.group_filters.iter().peekable();
    for run in &explanation.runs {
        while let Some(filter) = filters.next_if(|filter| filter.level <= run.level) {
            print_group_filter(filter, output);
        }
        print_run(run, encoding, output);
    }
    filters.for_each(|filter| print_group_filter(filter, output));
    output.line(format_args!("{}", answer_text(explanation)));
    output.line(format_args!("{}", cost_text(explanation)));
}

fn print_group_filter(filter: &GroupFilterProbe, output: &mut Output) {
    let left = counted(filter.runs_left as u64, "run");
    output.line(format_args!(
        "  level {}: the group filter leaves {left}",
        filter.level
    ));
    if let Some(page) = &filter.page {
        output.line(format_args!("    {}", page_text(page)));
    }
}

fn print_run(run: &RunProbe, encoding: Encoding, output: &mut Output) {
    let place = format!("  level {} run {}", run.level, run.run);
    let Some(table) = &run.table else {
        output.line(format_args!("{place}: no table whose bounds hold the key"));
        return;
    };
    let filter = match table.filter {
        FilterAnswer::No => ": its filter says no",
        FilterAnswer::Maybe => ": its filter says maybe",
        _ => ": it has no filter",
    };
    let (smallest, largest) = &table.bounds;
    output.line(format_args!(
        "{place}: table {} of `{}` to `{}`{filter}",
        table.number,
        encoding.encode(smallest),
        encoding.encode(largest),
    ));
    if let Some(dir) = table.path.parent() {
        output.line(format_args!("    in {}", dir.display()));
    }
    if table.opened {
        output.line(format_args!("    table opened: its footer was read first"));
    }
    for page in &table.pages {
        output.line(format_args!("    {}", page_text(page)));
    }
    if table.filter != FilterAnswer::No {
        output.line(format_args!("    {}", found_text(table.found)));
    }
}

fn page_text(page: &PageRequest) -> String {
    let class = class_name(page);
    let how = if page.cached { "cached" } else { "read" };
    let (offset, size) = (count(page.offset), bytes(u64::from(page.bytes)));
    format!("{class} page at offset {offset}, {size}: {how}")
}

fn class_name(page: &PageRequest) -> String {
    format!("{:?}", page.class).to_lowercase()
}

fn found_text(found: Option<FoundEntry>) -> String {
    match found {
        Some(found) => format!(
            "found a {} numbered {}",
            kind_name(found),
            count(found.seqno)
        ),
        None => "not found".to_owned(),
    }
}

fn kind_name(found: FoundEntry) -> String {
    format!("{:?}", found.kind).to_lowercase()
}

fn answer_text(explanation: &Explanation) -> String {
    match (&explanation.value, explanation.found()) {
        (Some(value), _) => format!("a value of {}", bytes(value.len() as u64)),
        (None, Some(_)) => "no value: the key is deleted".to_owned(),
        (None, None) => "no value: the key was not found".to_owned(),
    }
}

fn cost_text(explanation: &Explanation) -> String {
    format!(
        "{}, {} of them read; {} probed, {}",
        counted(explanation.pages().count() as u64, "page"),
        count(explanation.reads() as u64),
        counted(explanation.filter_probes() as u64, "filter"),
        counted(
            explanation.filter_false_positives() as u64,
            "false positive"
        ),
    )
}

// ---- for programs ----

fn object(explanation: &Explanation, encoding: Encoding) -> Value {
    let memtables = explanation.memtables.iter().map(|memtable| {
        json!({
            "sealed": memtable.sealed,
            "entries": memtable.entries,
            "found": found_object(memtable.found),
        })
    });
    let group_filters = explanation.group_filters.iter().map(|filter| {
        json!({
            "level": filter.level,
            "group": filter.group,
            "runs_left": filter.runs_left,
            "page": filter.page.as_ref().map(page_object),
        })
    });
    let runs = explanation.runs.iter().map(|run| {
        json!({
            "level": run.level,
            "group": run.group,
            "run": run.run,
            "table": run.table.as_ref().map(|table| table_object(table, encoding)),
        })
    });
    json!({
        "partition": explanation.partition,
        "partitions": explanation.partitions,
        "memtables": memtables.collect::<Vec<_>>(),
        "group_filters": group_filters.collect::<Vec<_>>(),
        "runs": runs.collect::<Vec<_>>(),
        "found": found_object(explanation.found()),
        "value_bytes": explanation.value.as_ref().map(|value| value.len()),
        "pages": explanation.pages().count(),
        "reads": explanation.reads(),
        "filters": explanation.filter_probes(),
        "filter_false_positives": explanation.filter_false_positives(),
    })
}

fn table_object(table: &TableProbe, encoding: Encoding) -> Value {
    let pages = table.pages.iter().map(page_object);
    json!({
        "number": table.number,
        "path": table.path.to_string_lossy(),
        "smallest_key": encoding.encode_json(&table.bounds.0),
        "largest_key": encoding.encode_json(&table.bounds.1),
        "opened": table.opened,
        "filter": match table.filter {
            FilterAnswer::No => json!("no"),
            FilterAnswer::Maybe => json!("maybe"),
            _ => Value::Null,
        },
        "pages": pages.collect::<Vec<_>>(),
        "found": found_object(table.found),
    })
}

fn page_object(page: &PageRequest) -> Value {
    json!({
        "class": class_name(page),
        "offset": page.offset,
        "bytes": page.bytes,
        "cached": page.cached,
    })
}

fn found_object(found: Option<FoundEntry>) -> Value {
    found.map_or(
        Value::Null,
        |found| json!({ "sequence_number": found.seqno, "kind": kind_name(found) }),
    )
}
