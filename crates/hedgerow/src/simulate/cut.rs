//! Where virtual outputs are cut into tables: by the rules of [`crate::compaction::output`].

use std::ops::Range;

use crate::compaction::output::OVERLAP_TABLES_MAX;
use crate::merge_policy::shape::{Facts, Shape};

use super::merge::Segment;
use super::random::Random;
use super::table::{Content, Table, number, share};
use super::workload::{Mass, Workload};

/// Cuts one output.
pub(super) struct Cutter {
    table_bytes: f64,
    overlap_bytes_max: f64,
    /// Ends and sizes of the tables of the level below, in key order.
    below: Vec<(u64, f64)>,
}

impl Cutter {
    /// `table_bytes` is the size of a table, or of what a virtual one stands for.
    pub(super) fn new(
        shape: &Shape<Table>,
        level: usize,
        segments: &[Segment],
        table_bytes: f64,
    ) -> Cutter {
        let ends = segments.first().zip(segments.last());
        let range = ends.map(|(first, last)| first.keys.start..last.keys.end);
        let below = match (range, level) {
            // A flush takes no heed of what is below.
            (Some(range), 1..) => below(shape, level + 1, &range),
            _ => Vec::new(),
        };
        let bytes: f64 = segments.iter().map(|segment| segment.bytes).sum();
        // With what a merge does not take a table is as good as one of any size.
        let evenly = segments.iter().any(|segment| segment.aside);
        let count = (bytes / table_bytes).round().max(1.0);
        Cutter {
            table_bytes: if evenly { bytes / count } else { table_bytes },
            overlap_bytes_max: OVERLAP_TABLES_MAX as f64 * table_bytes,
            below,
        }
    }

    /// The tables of an output, in key order. Sizes vary by chance as those of so many entries do:
    /// `unit_bytes` are the bytes of a real table.
    pub(super) fn cut(
        &self,
        segments: &[Segment],
        workload: &Workload,
        random: &mut Random,
        unit_bytes: f64,
    ) -> Vec<Content> {
        let entries = (unit_bytes / workload.put_bytes).max(1.0);
        let mut draw = || (1.0 + random.normal() / entries.sqrt()).max(0.5);
        let mut tables = Vec::new();
        let mut below = self.below.as_slice();
        let mut full = self.table_bytes * draw();
        let mut wide = self.wide(&mut below, 0);
        let mut current: Option<Content> = None;
        for segment in segments {
            let mut from = segment.keys.start;
            while from < segment.keys.end {
                let density = segment.bytes / (segment.keys.end - segment.keys.start) as f64;
                let held = current.as_ref().map_or(0.0, |content| content.bytes);
                let room = (full - held) / density.max(f64::MIN_POSITIVE);
                let full_at = from.saturating_add(room.max(1.0) as u64);
                let wide_at = wide.max(from + 1);
                let to = full_at.min(wide_at).min(segment.keys.end);
                take(&mut current, segment, from..to);
                if to == full_at || to == wide_at {
                    tables.extend(current.take().filter(|content| content.bytes > 0.0));
                    full = self.table_bytes * draw();
                    wide = self.wide(&mut below, to);
                }
                from = to;
            }
        }
        tables.extend(current.filter(|content| content.bytes > 0.0));
        absorb_slivers(tables, workload.put_bytes)
    }

    /// Where a table that begins at a key overlaps too much below.
    fn wide(&self, below: &mut &[(u64, f64)], from: u64) -> u64 {
        let passed = below.partition_point(|(end, _)| *end <= from);
        *below = &below[passed..];
        let mut overlap_bytes = 0.0;
        for (end, bytes) in *below {
            overlap_bytes += bytes;
            if overlap_bytes > self.overlap_bytes_max {
                return *end;
            }
        }
        u64::MAX
    }
}

fn below(shape: &Shape<Table>, level: usize, range: &Range<u64>) -> Vec<(u64, f64)> {
    let (lo, hi) = (range.start.to_be_bytes(), (range.end - 1).to_be_bytes());
    let Some(level) = shape.levels.get(level) else {
        return Vec::new();
    };
    let runs = level.runs().flat_map(|(_, run)| run.overlapping(&lo, &hi));
    let mut below: Vec<(u64, f64)> = runs
        .map(|table| {
            (
                number(&table.meta().largest_key) + 1,
                table.meta().file_bytes as f64,
            )
        })
        .collect();
    below.sort_unstable_by_key(|(end, _)| *end);
    below
}

/// Adds part of a segment to a table.
fn take(current: &mut Option<Content>, segment: &Segment, keys: Range<u64>) {
    let part = share(&keys, &segment.keys);
    let content = current.get_or_insert_with(|| Content {
        keys: keys.start..keys.start,
        bytes: 0.0,
        mass: vec![Mass::default(); segment.mass.len()],
    });
    content.keys.end = keys.end;
    content.bytes += segment.bytes * part;
    for (sum, mass) in content.mass.iter_mut().zip(&segment.mass) {
        sum.add(mass.scaled(part));
    }
}

/// What is less than an entry goes with the table before it.
fn absorb_slivers(tables: Vec<Content>, entry_bytes: f64) -> Vec<Content> {
    let mut kept: Vec<Content> = Vec::with_capacity(tables.len());
    for table in tables {
        match kept.last_mut() {
            Some(last) if table.bytes < entry_bytes => {
                last.keys.end = table.keys.end;
                last.bytes += table.bytes;
                for (sum, mass) in last.mass.iter_mut().zip(table.mass) {
                    sum.add(mass);
                }
            }
            None if table.bytes < entry_bytes / 2.0 => {}
            _ => kept.push(table),
        }
    }
    kept
}
