//! Trees and memory: drawings for people, objects for programs.

use hedgerow::{KeyspaceStats, MemoryStats, PartitionStats};
use serde_json::{Map, Value, json};

use crate::output::{Output, bytes, count, counted};

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

/// The columns of the name.
const NAME: usize = 9;

/// The legend of the bars.
pub(crate) fn legend(blocks: bool) -> &'static str {
    if blocks {
        "(█ size, ░ target)"
    } else {
        "(# size, . target)"
    }
}

/// A column of numbers: its heading, its width, a text for each row.
struct Column {
    heading: &'static str,
    width: usize,
    texts: Vec<String>,
}

/// Draws a heading, and one line per row: name, bar and numbers. The legend is the title if there
/// is none; it is left out where it has no room. A terminal is not filled with empty columns.
pub(crate) fn draw(title: Option<&str>, rows: &[Row], output: &Output) -> Vec<String> {
    let blocks = output.drawing;
    let mut columns = columns(rows);
    columns.retain(|it| !blocks || it.texts.iter().any(|text| !text.is_empty()));
    let others: usize = columns.iter().map(|it| it.width + 1).sum();
    let cells = output.bar_cells(2 + NAME + 1 + others);
    let sizes = rows
        .iter()
        .map(|row| row.bytes.max(row.target_bytes.unwrap_or(0)));
    let longest = sizes.max().unwrap_or(0);
    let title_columns = NAME + 1 + cells;
    let legend = Some(legend(blocks)).filter(|it| it.chars().count() <= title_columns);
    let title = title.or(legend).unwrap_or_default();
    let heading = columns.iter().map(|it| (it.heading, it.width));
    let heading = numbers(format!("  {title:<title_columns$}"), heading);
    let line = |(i, row): (usize, &Row)| {
        let drawn = bar(row.bytes, row.target_bytes, longest, cells, blocks);
        let texts = columns.iter().map(|it| (&*it.texts[i], it.width));
        numbers(format!("  {:<NAME$} {drawn}", row.name), texts)
    };
    std::iter::once(heading)
        .chain(rows.iter().enumerate().map(line))
        .collect()
}

/// Appends texts, each on the right of its width.
fn numbers<'a>(mut line: String, texts: impl Iterator<Item = (&'a str, usize)>) -> String {
    for (text, width) in texts {
        line += &format!(" {text:>width$}");
    }
    line.truncate(line.trim_end().len());
    line
}

fn columns(rows: &[Row]) -> Vec<Column> {
    let column = |heading: &'static str, width: usize, text: &dyn Fn(&Row) -> String| Column {
        heading,
        width,
        texts: rows.iter().map(text).collect(),
    };
    let some = |n: u64| if n == 0 { String::new() } else { count(n) };
    let runs = |row: &Row| match row.target_runs {
        0 | 1 => some(row.runs as u64),
        target => format!("{}/{target}", row.runs),
    };
    let filter_bits = |row: &Row| row.filter_bits.map(|bits| format!("{:.1}", bits.0));
    vec![
        column("size", 10, &|row| bytes(row.bytes)),
        column("target", 10, &|row| {
            row.target_bytes.map(bytes).unwrap_or_default()
        }),
        column("runs", 5, &runs),
        column("tables", 7, &|row| some(row.tables as u64)),
        column("entries", 10, &|row| count(row.entries)),
        column("tombstones", 11, &|row| some(row.tombstones)),
        column("filter bits", 11, &|row| {
            filter_bits(row).unwrap_or_default()
        }),
    ]
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
    if cells == 0 {
        return String::new();
    }
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
        assert_eq!(bar(8, Some(2), 8, 0, true), "");
    }
}
