//! The measurements for LSM-trie's targets, each with its target.

use serde_json::Value;

use super::{KEY_BYTES, POLICY, VALUE_BYTES};
use crate::experiments::targets::Bound;

/// The rate of the reference implementation with two threads, SHA-1, no log, and records of 8 + 100
/// bytes.
const REFERENCE_PUTS: f64 = 350_000.0;
const RIVAL: &str = "rocksdb";

/// A line for each target that has rows of a trie.
pub(in crate::experiments) fn targets(rows: &[Value]) -> Vec<String> {
    let of_paper = |row: &&Value| text(row, "title").starts_with("LSM-trie");
    let rows: Vec<&Value> = rows.iter().filter(of_paper).collect();
    let tries = { rows.iter() }.filter(|row| text(row, "design").starts_with(POLICY));
    let lines = tries.flat_map(|row| {
        let told = [
            grown(row).filter(|_| is_largest(&rows, row)),
            puts(&rows, row),
            pages(row),
            memory(row),
        ];
        let of = format!("{}, {}, {}", text(row, "title"), case(row), row["round"]);
        let told = told.into_iter().flatten().flatten();
        told.map(move |(bound, what, found)| bound.told(&format!("{of}: {what}"), found))
    });
    lines.collect()
}

/// A target and its measurement.
type Told = Vec<(Bound, String, f64)>;

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

fn number(row: &Value, path: &str) -> Option<f64> {
    row.pointer(path)?.as_f64()
}

fn case(row: &Value) -> String {
    let parts = ["design", "case", "workload"].map(|field| text(row, field));
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// True if two rows are from one store, or from the same part of different stores.
fn alike(a: &Value, b: &Value, fields: &[&str]) -> bool {
    fields.iter().all(|field| a[*field] == b[*field])
}

fn is_largest(rows: &[&Value], row: &Value) -> bool {
    let store = ["title", "case", "design", "round"];
    let entries = |row: &Value| number(row, "/grown/entries");
    let of_store = rows.iter().filter(|other| alike(other, row, &store));
    of_store.filter_map(|row| entries(row)).fold(0.0, f64::max) == entries(row).unwrap_or(-1.0)
}

/// The number and the bytes of the writes of entries.
fn grown(row: &Value) -> Option<Told> {
    let writes = number(row, "/grown/entry_writes")?;
    let bytes = number(row, "/grown/write_amplification")?;
    let filters = number(row, "/grown/filter_write_amplification")?;
    let gigabytes = number(row, "/grown/user_bytes")? / 1e9;
    let levels = row["level_bytes"].as_array()?;
    let depth = levels
        .iter()
        .rposition(|bytes| bytes.as_f64() > Some(0.0))?;
    let most = depth as f64 + 1.0;
    let of = |what: &str| format!("{what} at {gigabytes:.2} GB");
    Some(vec![
        (Bound::Most(most), of("entry writes"), writes),
        (
            Bound::Most(1.15),
            of("bytes of tables per byte and write"),
            (bytes - filters) / writes,
        ),
        (
            Bound::Most(0.2),
            of("bytes of clusters per byte and write"),
            filters / writes,
        ),
    ])
}

/// Puts per second, merges included.
fn put_rate(row: &Value) -> Option<f64> {
    let seconds = number(row, "/seconds")? + number(row, "/settle_seconds")?;
    Some(number(row, "/ops")? / seconds)
}

/// The rate over the peer's at the largest size that both have reached.
fn puts(rows: &[&Value], row: &Value) -> Option<Told> {
    let part = ["title", "case", "workload", "round"];
    let rivals = rows.iter().filter(|other| text(other, "design") == RIVAL);
    let rivals: Vec<&&Value> = rivals
        .filter(|other| other["grown"].is_object() && alike(other, row, &part[..2]))
        .collect();
    let largest = rivals.iter().max_by(|a, b| {
        let entries = |row: &Value| number(row, "/grown/entries").unwrap_or(0.0);
        entries(a).total_cmp(&entries(b))
    })?;
    let rival = rivals.iter().find(|other| alike(other, row, &part))?;
    if rival["workload"] != largest["workload"] {
        return None;
    }
    let (ours, theirs) = (put_rate(row)?, put_rate(rival)?);
    let puts = |over| format!("puts per second with their merges over {over}");
    Some(vec![
        (Bound::Least(4.0), puts(RIVAL), ours / theirs),
        (
            Bound::Least(1.0),
            puts("the reference implementation's"),
            ours / REFERENCE_PUTS,
        ),
    ])
}

/// The pages of a get.
fn pages(row: &Value) -> Option<Told> {
    let pages = number(row, "/block_reads")? / number(row, "/ops")?;
    let resident = text(row, "case").starts_with("all");
    let target = match (text(row, "workload"), resident) {
        ("readrandom", true) => 1.02,
        ("readrandom", false) => 2.05,
        ("readmissing", false) => 1.06,
        _ => return None,
    };
    Some(vec![(
        Bound::Most(target),
        "pages per get".to_owned(),
        pages,
    )])
}

/// The marks in memory, if tables have been read.
fn memory(row: &Value) -> Option<Told> {
    let marks = number(row, "/memory_per_terabyte/indexes").filter(|bytes| *bytes > 0.0)?;
    let what = format!("MB of marks for a terabyte of {KEY_BYTES} + {VALUE_BYTES} bytes");
    Some(vec![(Bound::Most(400.0), what, marks / 1e6)])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_stand_before_their_targets() {
        let part = |design: &str, part: u64, seconds: f64| {
            json!({
                "title": "LSM-trie 1. Growing", "case": "", "design": design, "round": 0,
                "workload": format!("fillrandom to {part}/2"),
                "ops": 1_000_000, "seconds": seconds, "settle_seconds": 0.5,
                "level_bytes": [1, 2, 0],
                "grown": {
                    "entries": 1e6 * part as f64, "user_bytes": 1.16e8 * part as f64, "entry_writes": 1.5,
                    "write_amplification": 1.8, "filter_write_amplification": 0.15,
                },
            })
        };
        let rows = [
            part("trie cluster:16", 1, 1.0),
            part("trie cluster:16", 2, 1.5),
            part("rocksdb", 1, 3.0),
            part("rocksdb", 2, 7.5),
        ];
        let told = targets(&rows);
        let of = "LSM-trie 1. Growing, trie cluster:16, fillrandom to 2/2, 0";
        let expected = [
            "target reached: {of}: entry writes at 0.23 GB: 1.500, at most 2",
            "target reached: {of}: bytes of tables per byte and write at 0.23 GB: 1.100, at most 1.15",
            "target reached: {of}: bytes of clusters per byte and write at 0.23 GB: 0.100, at most 0.2",
            "target reached: {of}: puts per second with their merges over rocksdb: 4.000, at least 4",
            "target reached: {of}: puts per second with their merges over the reference implementation's: \
             1.429, at least 1",
        ];
        assert_eq!(told, expected.map(|line| line.replace("{of}", of)));

        let get = json!({
            "title": "LSM-trie 4. Gets", "case": "the small levels' filters in memory", "design": "trie cluster:16",
            "round": 0, "workload": "readrandom", "ops": 100, "block_reads": 198,
            "memory_per_terabyte": { "indexes": 3.8e8, "filters": 1e9, "tables": 1e7 },
        });
        let told = targets(&[get]);
        let expected = [
            "pages per get: 1.980, at most 2.05",
            "16 + 100 bytes: 380.000, at most 400",
        ];
        for (line, end) in told.iter().zip(expected) {
            assert!(
                line.starts_with("target reached") && line.ends_with(end),
                "{told:?}"
            );
        }
        assert_eq!(told.len(), 2);
    }
}
