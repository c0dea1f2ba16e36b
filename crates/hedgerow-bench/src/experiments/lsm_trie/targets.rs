//! What was found of what LSM-trie is to reach, with the target of each number behind it.

use serde_json::Value;

use super::{KEY_BYTES, POLICY, VALUE_BYTES};

/// Of the reference implementation with two threads, SHA-1 and no log, records of 8 + 100 bytes.
const REFERENCE_PUTS: f64 = 350_000.0;
const RIVAL: &str = "rocksdb";

/// A line for each store of a trie that rows have something to say of.
pub(in crate::experiments) fn targets(rows: &[Value]) -> Vec<String> {
    let of_paper = |row: &&Value| text(row, "title").starts_with("LSM-trie");
    let rows: Vec<&Value> = rows.iter().filter(of_paper).collect();
    let tries = { rows.iter() }.filter(|row| text(row, "design").starts_with(POLICY));
    let lines = tries.flat_map(|row| {
        let lines = [
            grown(row).filter(|_| is_largest(&rows, row)),
            puts(&rows, row),
            pages(row),
            memory(row),
        ];
        let store = format!("{}, {}, {}", text(row, "title"), case(row), row["round"]);
        lines
            .into_iter()
            .flatten()
            .map(move |line| format!("{store}: {line}"))
    });
    lines.collect()
}

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

/// Whether two rows are of the same store, or of the same part of different ones.
fn alike(a: &Value, b: &Value, fields: &[&str]) -> bool {
    fields.iter().all(|field| a[*field] == b[*field])
}

fn is_largest(rows: &[&Value], row: &Value) -> bool {
    let store = ["title", "case", "design", "round"];
    let entries = |row: &Value| number(row, "/grown/entries");
    let of_store = rows.iter().filter(|other| alike(other, row, &store));
    of_store.filter_map(|row| entries(row)).fold(0.0, f64::max) == entries(row).unwrap_or(-1.0)
}

/// How often and how large entries have been written.
fn grown(row: &Value) -> Option<String> {
    let writes = number(row, "/grown/entry_writes")?;
    let bytes = number(row, "/grown/write_amplification")?;
    let filters = number(row, "/grown/filter_write_amplification")?;
    let gigabytes = number(row, "/grown/user_bytes")? / 1e9;
    let levels = row["level_bytes"].as_array()?;
    let depth = levels
        .iter()
        .rposition(|bytes| bytes.as_f64() > Some(0.0))?;
    Some(format!(
        "{gigabytes:.2} GB: {writes:.3} entry writes at depth {depth} (at most {}), {:.3} bytes of tables per byte and \
         write (1.15), {:.3} of clusters (0.2)",
        depth + 1,
        (bytes - filters) / writes,
        filters / writes,
    ))
}

/// Puts per second, merges included.
fn put_rate(row: &Value) -> Option<f64> {
    let seconds = number(row, "/seconds")? + number(row, "/settle_seconds")?;
    Some(number(row, "/ops")? / seconds)
}

/// Beside the peer's at the largest size that both have reached.
fn puts(rows: &[&Value], row: &Value) -> Option<String> {
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
    Some(format!(
        "{:.0} thousand puts per second with their merges, {:.2} times those of {RIVAL} (4), {:.2} times the \
         reference's (1)",
        ours / 1e3,
        ours / theirs,
        ours / REFERENCE_PUTS,
    ))
}

/// Of a get.
fn pages(row: &Value) -> Option<String> {
    let pages = number(row, "/block_reads")? / number(row, "/ops")?;
    let resident = text(row, "case").starts_with("all");
    let target = match (text(row, "workload"), resident) {
        ("readrandom", true) => 1.02,
        ("readrandom", false) => 2.05,
        ("readmissing", false) => 1.06,
        _ => return None,
    };
    Some(format!("{pages:.4} pages per get ({target})"))
}

/// Where tables have been read.
fn memory(row: &Value) -> Option<String> {
    let marks = number(row, "/memory_per_terabyte/indexes").filter(|bytes| *bytes > 0.0)?;
    let filters = number(row, "/memory_per_terabyte/filters")?;
    let tables = number(row, "/memory_per_terabyte/tables")?;
    Some(format!(
        "for a terabyte of {KEY_BYTES} + {VALUE_BYTES} bytes {:.0} MB of marks (400), {:.0} MB of filters, {:.0} MB of \
         descriptions of tables",
        marks / 1e6,
        filters / 1e6,
        tables / 1e6,
    ))
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
        assert_eq!(told.len(), 2, "{told:?}");
        let first = "0.23 GB: 1.500 entry writes at depth 1 (at most 2), 1.100 bytes of tables per byte and write (1.15), 0.100";
        assert!(told[0].contains(first), "{told:?}");
        let second =
            "500 thousand puts per second with their merges, 4.00 times those of rocksdb (4), 1.43";
        assert!(told[1].contains(second), "{told:?}");

        let get = json!({
            "title": "LSM-trie 4. Gets", "case": "the small levels' filters in memory", "design": "trie cluster:16",
            "round": 0, "workload": "readrandom", "ops": 100, "block_reads": 198,
            "memory_per_terabyte": { "indexes": 3.8e8, "filters": 1e9, "tables": 1e7 },
        });
        let told = targets(&[get]);
        assert!(told[0].contains("1.9800 pages per get (2.05)"), "{told:?}");
        assert!(told[1].contains("380 MB of marks (400)"), "{told:?}");
    }
}
