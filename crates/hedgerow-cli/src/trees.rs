//! Trees and memory: drawings for people, objects for programs.

use hedgerow::{KeyspaceStats, MemoryStats, PartitionStats};
use serde_json::{Map, Value, json};

use crate::output::{bytes, count, counted};

/// A memtable or a level.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) runs: usize,
    pub(crate) tables: usize,
    pub(crate) bytes: u64,
    /// The target in bytes. The last level has none; level 0 has a number of runs instead.
    pub(crate) target_bytes: Option<u64>,
    /// The most runs that it may have.
    pub(crate) target_runs: usize,
    pub(crate) hits: Option<u64>,
    /// Filter bits per key: of the existing tables, and of tables that are written now.
    pub(crate) filter_bits: Option<(f64, f64)>,
}

/// The memtables and the levels of a keyspace, from the newest data to the oldest.
pub(crate) fn rows(stats: &KeyspaceStats, memtable_bytes: Option<u64>) -> Vec<Row> {
    let memtable = Row {
        name: "memtable".to_owned(),
        entries: stats.memtable_entries,
        tombstones: 0,
        runs: 0,
        tables: 0,
        bytes: stats.memtable_bytes,
        target_bytes: memtable_bytes,
        target_runs: 0,
        hits: None,
        filter_bits: None,
    };
    let levels = stats.levels.iter().map(|level| Row {
        name: format!("level {}", level.level),
        entries: level.entries,
        tombstones: level.tombstones,
        runs: level.runs,
        tables: level.tables,
        bytes: level.bytes,
        target_bytes: level.target_bytes,
        target_runs: level.target_runs,
        hits: Some(level.hits),
        filter_bits: Some((level.filter_bits_per_key, level.filter_bits_allotted)),
    });
    std::iter::once(memtable).chain(levels).collect()
}

const BAR_CELLS: usize = 22;

/// The legend of the bars.
pub(crate) fn legend(blocks: bool) -> &'static str {
    if blocks {
        "(█ size, ░ target)"
    } else {
        "(# size, . target)"
    }
}

/// Draws a heading, and one line per row: name, bar and numbers.
pub(crate) fn draw(title: &str, rows: &[Row], blocks: bool) -> Vec<String> {
    let sizes = rows
        .iter()
        .map(|row| row.bytes.max(row.target_bytes.unwrap_or(0)));
    let longest = sizes.max().unwrap_or(0);
    let heading = format!(
        "  {title:<32} {:>10} {:>10} {:>5} {:>7} {:>10} {:>11} {:>11}",
        "size", "target", "runs", "tables", "entries", "tombstones", "filter bits"
    );
    let some = |n: u64| if n == 0 { String::new() } else { count(n) };
    let runs = |row: &Row| match row.target_runs {
        0 | 1 => some(row.runs as u64),
        target => format!("{}/{target}", row.runs),
    };
    let line = |row: &Row| {
        let line = format!(
            "  {:<9} {} {:>10} {:>10} {:>5} {:>7} {:>10} {:>11} {:>11}",
            row.name,
            bar(row.bytes, row.target_bytes, longest, BAR_CELLS, blocks),
            bytes(row.bytes),
            row.target_bytes.map(bytes).unwrap_or_default(),
            runs(row),
            some(row.tables as u64),
            count(row.entries),
            some(row.tombstones),
            row.filter_bits
                .map_or_else(String::new, |bits| format!("{:.1}", bits.0)),
        );
        line.trim_end().to_owned()
    };
    std::iter::once(heading)
        .chain(rows.iter().map(line))
        .collect()
}

/// Draws a bar of `filled` in proportion to `longest`, with a shade up to `target`.
pub(crate) fn bar(
    filled: u64,
    target: Option<u64>,
    longest: u64,
    cells: usize,
    blocks: bool,
) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = |n: u64| -> usize {
        let exact = n as f64 / longest.max(1) as f64 * (cells * 8) as f64;
        // Any size above 0 is visible.
        (exact.round() as usize).clamp(usize::from(n > 0), cells * 8)
    };
    let filled = eighths(filled);
    let target = target.map_or(0, eighths);
    let cell = |i: usize| {
        let here = filled.saturating_sub(i * 8).min(8);
        let shaded = target > i * 8;
        match (blocks, here) {
            (true, 8) => '█',
            (true, 1..) => EIGHTHS[here],
            (true, 0) if shaded => '░',
            (false, 4..) => '#',
            (false, 1..) if i == 0 => '#',
            (false, _) if shaded => '.',
            _ => ' ',
        }
    };
    (0..cells).map(cell).collect()
}

/// The rows for programs.
pub(crate) fn object(stats: &KeyspaceStats, rows: &[Row]) -> Value {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "runs": row.runs,
                "tables": row.tables,
                "entries": row.entries,
                "tombstones": row.tombstones,
                "bytes": row.bytes,
                "target_bytes": row.target_bytes,
                "target_runs": row.target_runs,
                "hits": row.hits,
                "filter_bits_per_key": row.filter_bits.map(|bits| bits.0),
                "filter_bits_allotted": row.filter_bits.map(|bits| bits.1),
            })
        })
        .collect();
    json!({
        "partitions": stats.partitions.iter().map(partition_object).collect::<Vec<_>>(),
        "raw_bytes": stats.raw_bytes,
        "debt_bytes": stats.debt_bytes,
        "rows": rows,
    })
}

fn partition_object(partition: &PartitionStats) -> Value {
    json!({
        "runs": partition.runs,
        "tables": partition.tables,
        "entries": partition.entries,
        "bytes": partition.bytes,
        "memtable_entries": partition.memtable_entries,
        "memtable_bytes": partition.memtable_bytes,
        "debt_bytes": partition.debt_bytes,
    })
}

/// One line per partition, if there are several.
pub(crate) fn partition_lines(stats: &KeyspaceStats) -> Vec<String> {
    if stats.partitions.len() < 2 {
        return Vec::new();
    }
    let line = |(i, partition): (usize, &PartitionStats)| {
        format!(
            "  partition {i}: {} in {} of {}, memtable {}, merge debt {}",
            bytes(partition.bytes),
            counted(partition.tables as u64, "table"),
            counted(partition.runs as u64, "run"),
            bytes(partition.memtable_bytes),
            bytes(partition.debt_bytes),
        )
    };
    stats.partitions.iter().enumerate().map(line).collect()
}

/// The memory, by purpose.
pub(crate) fn memory_parts(memory: &MemoryStats) -> [(&'static str, u64); 7] {
    [
        ("memtables", memory.memtables),
        ("page cache", memory.page_cache),
        ("indexes", memory.indexes),
        ("filters", memory.filters),
        ("pinned", memory.pinned),
        ("merges", memory.merges),
        ("tables", memory.tables),
    ]
}

pub(crate) fn memory_object(memory: &MemoryStats) -> Value {
    let mut object = Map::new();
    object.insert("total".to_owned(), json!(memory.total()));
    for (name, part) in memory_parts(memory) {
        object.insert(name.replace(' ', "_"), json!(part));
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_show_what_is_there_and_what_may_be() {
        assert_eq!(bar(4, Some(8), 8, 8, false), "####....");
        assert_eq!(bar(4, Some(8), 8, 8, true), "████░░░░");
        assert_eq!(bar(9, None, 16, 8, true), "████▌   ");
        assert_eq!(bar(0, None, 0, 4, true), "    ");
        assert_eq!(bar(1, None, 1 << 40, 4, true), "▏   ");
        assert_eq!(bar(1, None, 1 << 40, 4, false), "#   ");
        assert_eq!(bar(8, Some(2), 8, 4, true), "████");
    }
}
