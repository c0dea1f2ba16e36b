//! The shape of a tree: how it is made visible at a small size, and drawn.

use hedgerow::KeyspaceStats;

use super::store::Store;
use crate::exit::Failure;
use crate::output::{bytes, count, counted};

/// What an entry takes in a memtable, roughly: key, attributes, and what the memtable adds.
const ENTRY_BYTES: u64 = 150;
/// Memtables per tree. With leveling:4 and 4 runs in level 0, levels are in use down from
/// `MEMTABLES / 2` (tables are compressed) to 4 memtables: two of them, and often three.
const MEMTABLES: u64 = 96;
/// The smallest memtable that the engine takes, per partition.
const MEMTABLE_BYTES_MIN: u64 = 4 << 10;
/// The engine seals when all active memtables together pass 3/32 of the budget; two keyspaces share
/// that.
const BUDGET_PARTS: u64 = 24;

/// A memtable size at which so many entries span a memtable, level 0 and several levels below.
pub(crate) fn memtable_bytes(entries: u64, memory_budget: u64, partitions: u16) -> u64 {
    let wanted = entries * ENTRY_BYTES / MEMTABLES;
    let largest = memory_budget / BUDGET_PARTS;
    let smallest = MEMTABLE_BYTES_MIN * u64::from(partitions);
    wanted.min(largest).max(smallest)
}

/// Keeps level 0 in use when loading ends, for the drawing.
///
/// Level 0 is emptied each time it has 4 runs, so one tree in four would be drawn without. Near the
/// end of loading, at 97, 98 and 99 % of the entries, merges are waited for and the memtable is
/// flushed where level 0 has no run, or three (which empties it, so that the next stop can give it
/// one). A memtable holds about 1 % of the entries, so at most one more run comes after.
pub(crate) struct Spread {
    expected: u64,
    next_percent: u64,
}

impl Spread {
    pub(crate) fn new(expected: u64) -> Spread {
        Spread {
            expected,
            next_percent: 97,
        }
    }

    pub(crate) fn keep(&mut self, store: &Store, loaded: u64) -> Result<(), Failure> {
        if self.next_percent > 99 || loaded < self.expected * self.next_percent / 100 {
            return Ok(());
        }
        for keyspace in [&store.entries, &store.inodes] {
            keyspace.wait_until_merged()?;
            let levels = keyspace.stats().levels;
            let runs = levels.first().map_or(0, |level0| level0.runs);
            if runs == 0 || runs == 3 && self.next_percent < 99 {
                keyspace.flush()?;
            }
        }
        self.next_percent += 1;
        Ok(())
    }
}

/// A memtable or a level.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) runs: usize,
    pub(crate) tables: usize,
    pub(crate) bytes: u64,
    /// What it may hold; the last level holds what there is, level 0 a number of runs.
    pub(crate) target_bytes: Option<u64>,
    pub(crate) hits: Option<u64>,
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
        hits: None,
    };
    let levels = stats.levels.iter().map(|level| Row {
        name: format!("level {}", level.level),
        entries: level.entries,
        tombstones: level.tombstones,
        runs: level.runs,
        tables: level.tables,
        bytes: level.bytes,
        target_bytes: level.target_bytes,
        hits: Some(level.hits),
    });
    std::iter::once(memtable).chain(levels).collect()
}

/// How many of the levels below level 0 hold something.
pub(crate) fn deep_levels(stats: &KeyspaceStats) -> usize {
    let deep = |level: &&hedgerow::LevelStats| level.level > 0 && level.tables > 0;
    stats.levels.iter().filter(deep).count()
}

const BAR_CELLS: usize = 28;

/// One line per row: name, bar, and the numbers.
pub(crate) fn draw(rows: &[Row], blocks: bool) -> Vec<String> {
    let longest = rows
        .iter()
        .map(|row| row.bytes.max(row.target_bytes.unwrap_or(0)))
        .max()
        .unwrap_or(0);
    rows.iter()
        .map(|row| {
            let bar = bar(row.bytes, row.target_bytes, longest, BAR_CELLS, blocks);
            let layout = match (row.runs, row.tables) {
                (0, 0) => String::new(),
                (runs, tables) => format!(
                    "{}, {}",
                    counted(runs as u64, "run"),
                    counted(tables as u64, "table")
                ),
            };
            let target = match row.target_bytes {
                Some(target) => format!("of {}", bytes(target)),
                None => String::new(),
            };
            let tombstones = match row.tombstones {
                0 => String::new(),
                n => format!(", {}", counted(n, "tombstone")),
            };
            let line = format!(
                "  {:<9} {bar} {:>10} {target:<13} {layout:<18} {:>9} entries{tombstones}",
                row.name,
                bytes(row.bytes),
                count(row.entries),
            );
            line.trim_end().to_owned()
        })
        .collect()
}

/// A bar of `filled` in proportion to `longest`, with a shade up to `target`.
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
        // Whatever is there is visible.
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
