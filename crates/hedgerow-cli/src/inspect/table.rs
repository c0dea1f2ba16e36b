//! `hedgerow inspect table FILE`: the properties and the pages of a table.

use std::path::PathBuf;

use clap::ValueHint;
use hedgerow::TableSpec;
use hedgerow::inspect::{
    FilterDescription, Part, StoredEntry, StoredValue, Table, TableFacts, TablePage,
};
use serde_json::{Value, json};

use super::{Report, name};
use crate::encoding::{Encoding, EncodingArguments};
use crate::exit::Failure;
use crate::output::{bytes, count, counted, shown};

const EXAMPLE: &str = "\
Example:
  hedgerow inspect table people/tables/0000000007.table
  hedgerow inspect table --entries --json people/tables/0000000007.table";

/// Shows the footer and the properties of a table, and its pages in file order.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    encoding: EncodingArguments,

    /// Also shows the entries of each block.
    #[arg(long)]
    entries: bool,

    /// A file in the directory `tables` of a database.
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

pub(super) fn run(arguments: &Arguments, report: &mut Report<'_>) -> Result<(), Failure> {
    let encoding = arguments.encoding.choice();
    let table = Table::open(&report.storage, &arguments.file).map_err(Failure::of_file)?;
    print_properties(&table, encoding, report);
    for page in table.pages() {
        if report.is_unread() {
            break;
        }
        match page {
            Ok(page) => print_page(&page, arguments.entries, encoding, report),
            Err(error) => report.damage(&error),
        }
    }
    Ok(())
}

fn print_properties(table: &Table, encoding: Encoding, report: &mut Report<'_>) {
    let footer = table.footer();
    let index = match footer.table {
        TableSpec::HTable => "hash marks".to_owned(),
        _ => footer.index.to_string(),
    };
    let mut object = json!({
        "table": footer.id.0,
        "path": table.path().to_string_lossy(),
        "bytes": table.bytes(),
        "blocks": table.blocks().ok(),
        "format": footer.table.to_string(),
        "index": index,
        "filter": footer.filter.as_ref().map(filter_object),
        "key_order": footer.key_order.to_string(),
        "hash_seed": footer.hash_seed,
    });
    let path = shown(table.path().as_os_str().as_encoded_bytes());
    let mut text = format!("table {} of {}: {path}", footer.id.0, bytes(table.bytes()));
    text += &format!("\n  format {}, index {index}", footer.table);
    if let Some(filter) = &footer.filter {
        text += &filter_text(filter);
    }
    // A page that cannot be read is reported among the pages.
    if let Ok(facts) = table.facts() {
        let keys = [&facts.smallest_key, &facts.largest_key].map(|key| footer.user_key(key));
        text += &format!(
            "\n  written for keyspace {}, partition {}, level {}\n  {}, {}, {} before compression\n  \
             keys in the order {}, `{}` to `{}`\n  sequence numbers {} to {}",
            facts.keyspace,
            facts.partition,
            facts.level,
            counted(facts.entries, "entry"),
            counted(facts.tombstones, "tombstone"),
            bytes(facts.raw_bytes),
            footer.key_order,
            encoding.encode(keys[0]),
            encoding.encode(keys[1]),
            count(facts.smallest_seqno.0),
            count(facts.largest_seqno.0),
        );
        text += &rare_entries(&facts);
        object["properties"] = facts_object(&facts, keys, encoding);
    }
    report.tell(&text, &object);
}

fn filter_object(filter: &FilterDescription) -> Value {
    let mut object = match filter {
        FilterDescription::Bloom(bloom) => {
            json!({ "kind": "bloom", "lines": bloom.lines, "probes": bloom.probes })
        }
        FilterDescription::Cuckoo(cuckoo) => json!({
            "kind": "cuckoo",
            "buckets": cuckoo.buckets,
            "fingerprint_bits": cuckoo.fingerprint_bits,
        }),
        FilterDescription::Hashes(_) => json!({ "kind": "hashes" }),
        FilterDescription::Buckets(filters) => json!({
            "kind": "buckets",
            "pages": filters.pages,
            "buckets_per_page": filters.buckets_per_page,
            "probes": filters.probes,
        }),
    };
    object["offset"] = filter.offset().into();
    object["bytes"] = filter.file_bytes().into();
    object
}

fn filter_text(filter: &FilterDescription) -> String {
    let per_key = match filter {
        FilterDescription::Bloom(bloom) => counted(u64::from(bloom.probes), "probe"),
        FilterDescription::Cuckoo(cuckoo) => {
            format!("a fingerprint of {} bits", cuckoo.fingerprint_bits)
        }
        FilterDescription::Hashes(_) => "stored hashes for the group filter".to_owned(),
        FilterDescription::Buckets(filters) => {
            let probes = counted(u64::from(filters.probes), "probe");
            format!("one per bucket, {probes}")
        }
    };
    let filter_bytes = bytes(filter.file_bytes());
    format!("\n  filter of {filter_bytes}, {per_key} per key")
}

fn facts_object(facts: &TableFacts, keys: [&[u8]; 2], encoding: Encoding) -> Value {
    json!({
        "format": facts.format,
        "keyspace": facts.keyspace,
        "partition": facts.partition,
        "level": facts.level,
        "run": facts.run,
        "entries": facts.entries,
        "tombstones": facts.tombstones,
        "operands": facts.operands,
        "range_tombstones": facts.range_tombstones,
        "raw_bytes": facts.raw_bytes,
        "smallest_key": encoding.encode_json(keys[0]),
        "largest_key": encoding.encode_json(keys[1]),
        "smallest_sequence_number": facts.smallest_seqno.0,
        "largest_sequence_number": facts.largest_seqno.0,
        "sequence_number_override": facts.seqno_override.map(|seqno| seqno.0),
    })
}

/// The entries that most tables do not have.
fn rare_entries(facts: &TableFacts) -> String {
    let mut text = String::new();
    let rare = [
        (facts.operands, "operand"),
        (facts.range_tombstones, "range tombstone"),
    ];
    for (number, what) in rare.into_iter().filter(|(number, _)| *number > 0) {
        text += &format!("\n  {}", counted(number, what));
    }
    text
}

fn print_page(page: &TablePage, entries: bool, encoding: Encoding, report: &mut Report<'_>) {
    let part = part_name(page.part);
    let mut text = format!(
        "  offset {:>12}  {:>10}  {part}",
        count(page.handle.offset),
        bytes(u64::from(page.handle.bytes))
    );
    let mut object = json!({
        "part": part,
        "offset": page.handle.offset,
        "bytes": page.handle.bytes,
        "raw_bytes": page.raw_bytes,
    });
    if let Some(first) = page.entries.first() {
        let n = page.entries.len() as u64;
        text += &format!(
            ", {} from `{}`",
            counted(n, "entry"),
            encoding.encode(&first.key)
        );
        object["entries"] = json!(n);
        object["first_key"] = encoding.encode_json(&first.key);
    }
    if entries && !page.entries.is_empty() {
        for entry in &page.entries {
            text += &format!("\n    {}", entry_text(entry, encoding));
        }
        let entries = page
            .entries
            .iter()
            .map(|entry| entry_object(entry, encoding));
        object["entries"] = entries.collect();
    }
    report.tell(&text, &object);
}

fn part_name(part: Part) -> String {
    match part {
        Part::IndexTop => "index top".to_owned(),
        Part::RangeTombstones => "range tombstones".to_owned(),
        part => name(part),
    }
}

fn entry_text(entry: &StoredEntry, encoding: Encoding) -> String {
    let value = match &entry.value {
        StoredValue::Inline(value) => encoding.encode(value),
        StoredValue::OutOfLine { page, bytes: size } => {
            format!(
                "({} at offset {})",
                bytes(u64::from(*size)),
                count(page.offset)
            )
        }
        _ => String::new(),
    };
    format!(
        "{:>12}  {}  {}  {value}",
        count(entry.seqno.0),
        name(entry.kind),
        encoding.encode(&entry.key)
    )
}

fn entry_object(entry: &StoredEntry, encoding: Encoding) -> Value {
    let mut object = json!({
        "key": encoding.encode_json(&entry.key),
        "sequence_number": entry.seqno.0,
        "kind": name(entry.kind),
    });
    match &entry.value {
        StoredValue::Inline(value) => object["value"] = encoding.encode_json(value),
        StoredValue::OutOfLine { page, bytes } => {
            object["value_page"] =
                json!({ "offset": page.offset, "bytes": page.bytes, "value_bytes": bytes });
        }
        _ => {}
    }
    object
}
