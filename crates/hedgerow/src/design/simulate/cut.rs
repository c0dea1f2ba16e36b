//! Cuts virtual outputs into tables, by the rules of [`crate::paths::compaction::output`].

use std::ops::Range;

use crate::design::merge_policy::LevelTarget;
use crate::design::merge_policy::shape::{Facts, Shape, range_of};
use crate::design::table_ends::{self, NODE_TABLES, OVERLAP_TABLES_MAX, is_last_border};

use super::inputs::Segment;
use super::masses::{Masses, Workload};
use super::virtual_table::{Content, KEYS, VirtualTable, key, number};
use crate::base::random::Random;

/// Cuts one output.
pub(super) struct Cutter {
    table_bytes: f64,
    overlap_bytes_max: f64,
    /// Ends and sizes of the tables of the level below, in key order.
    below: Vec<(u64, f64)>,
    /// The number of them that the output has passed.
    passed: usize,
    /// True if tables end where those below end.
    aligns: bool,
    /// Tables are cut at the borders of this many ranges.
    ranges: u32,
}

impl Cutter {
    /// `table_bytes` is the size of a table, or of the tables that a virtual one stands for.
    pub(super) fn new(
        shape: &Shape<VirtualTable>,
        level: usize,
        segments: &[Segment],
        table_bytes: f64,
        targets: &[LevelTarget],
    ) -> Cutter {
        let target = &targets[level];
        let of_nodes = target.is_of_nodes();
        let ranges = target.ranges().max(shape.levels[level].ranges());
        let ends = segments.first().zip(segments.last());
        let range = ends.map(|(first, last)| first.keys.start..last.keys.end);
        let below = match (range, level) {
            // A flush ignores the level below.
            (Some(range), 1..) if !of_nodes => below(shape, level + 1, &range),
            _ => Vec::new(),
        };
        let bytes: f64 = segments.iter().map(|segment| segment.bytes).sum();
        // A table that holds data aside from the merge may have any size.
        let evenly = segments.iter().any(|segment| segment.aside);
        let count = (bytes / table_bytes).round().max(1.0);
        Cutter {
            table_bytes: match (evenly, of_nodes) {
                (true, _) => bytes / count,
                (_, true) => table_bytes * NODE_TABLES as f64,
                _ => table_bytes,
            },
            ranges,
            overlap_bytes_max: OVERLAP_TABLES_MAX as f64 * table_bytes,
            below,
            passed: 0,
            aligns: table_ends::aligns(targets, level),
        }
    }

    /// The tables of an output, in key order. Their sizes are exact. Their borders are random, as
    /// among this many keys; `unit_bytes` are the bytes of a real table.
    pub(super) fn cut(
        mut self,
        segments: &[Segment],
        workload: &Workload,
        random: &mut Random,
        unit_bytes: f64,
    ) -> Vec<Content> {
        let deviation = (workload.put_bytes / unit_bytes).min(1.0).sqrt();
        let mut tables = Vec::new();
        // A table is full with the first entry that reaches its size.
        let mut full_bytes = self.table_bytes + random.uniform() * workload.put_bytes;
        let mut wide_at = self.wide(0);
        let mut current: Option<Content> = None;
        for segment in segments {
            let mut rest = segment.keys.clone();
            let mut part_left = 1.0;
            while !rest.is_empty() {
                let begin = current.as_ref().map_or(rest.start, |it| it.keys.start);
                let held = current.as_ref().map_or(0.0, |content| content.bytes);
                let width = (rest.end - rest.start) as f64;
                let bytes_left = segment.bytes * part_left;
                let wide_part = wide_at.saturating_sub(rest.start) as f64 / width;
                let full_part = (full_bytes - held).max(0.0) / bytes_left.max(f64::MIN_POSITIVE);
                let (mut part, mut end) = (1.0, rest.end);
                let border = self.border(begin, &rest, held, bytes_left, full_bytes);
                let border = border.filter(|border| *border <= wide_at);
                if let Some(border) = border {
                    end = border;
                    part = (end - rest.start) as f64 / width;
                } else if full_part < wide_part.min(1.0) && width > 2.0 {
                    let exact = rest.start as f64 + full_part * width;
                    let off = random.normal() * deviation * (exact - begin as f64);
                    part = full_part;
                    let last = wide_at.clamp(rest.start + 1, rest.end - 1);
                    end = ((exact + off) as u64).clamp(rest.start + 1, last);
                } else if wide_part < 1.0 {
                    end = wide_at.max(rest.start + 1);
                    part = (end - rest.start) as f64 / width;
                }
                take(&mut current, segment, part * part_left, rest.start..end);
                part_left *= 1.0 - part;
                if part < 1.0 || border.is_some() {
                    tables.extend(current.take().filter(|content| content.bytes > 0.0));
                    full_bytes = self.table_bytes + random.uniform() * workload.put_bytes;
                    wide_at = self.wide(end);
                }
                rest.start = end;
            }
        }
        tables.extend(current.filter(|content| content.bytes > 0.0));
        absorb_slivers(tables, workload.put_bytes, self.ranges)
    }

    /// The end of a table below at which a table is cut that begins at `begin` and already holds
    /// some bytes.
    fn border(
        &self,
        begin: u64,
        rest: &Range<u64>,
        held: f64,
        bytes: f64,
        full_bytes: f64,
    ) -> Option<u64> {
        if !self.aligns {
            return None;
        }
        let ends = self.below[self.passed..].iter().map(|(end, _)| *end);
        let ends = (1..).zip(ends.skip_while(|end| *end <= begin));
        let ends = ends.skip_while(|(_, end)| *end <= rest.start);
        let width = (rest.end - rest.start) as f64;
        let held_at = |end: u64| held + bytes * (end - rest.start) as f64 / width;
        let mut ends = ends.take_while(|&(_, end)| end <= rest.end && held_at(end) < full_bytes);
        let is_last = |&(borders, end): &(u64, u64)| {
            is_last_border(borders, held_at(end) as u64, self.table_bytes as u64)
        };
        ends.find(is_last).map(|(_, end)| end)
    }

    /// The key at which a table that begins at `from` leaves its group or overlaps too much below.
    fn wide(&mut self, from: u64) -> u64 {
        let next = range_of(&key(from), self.ranges) + 1;
        let border = (u128::from(next) * u128::from(KEYS)).div_ceil(u128::from(self.ranges)) as u64;
        let ahead = &self.below[self.passed..];
        self.passed += ahead.partition_point(|(end, _)| *end <= from);
        let mut overlap_bytes = 0.0;
        for (end, bytes) in &self.below[self.passed..] {
            overlap_bytes += bytes;
            if overlap_bytes > self.overlap_bytes_max {
                return border.min(*end);
            }
        }
        border
    }
}

fn below(shape: &Shape<VirtualTable>, level: usize, range: &Range<u64>) -> Vec<(u64, f64)> {
    let (lo, hi) = (key(range.start), key(range.end - 1));
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

/// Adds a part of a segment to a table, and sets the table's keys to these.
fn take(current: &mut Option<Content>, segment: &Segment, part: f64, keys: Range<u64>) {
    let content = current.get_or_insert_with(|| Content {
        keys: keys.start..keys.start,
        bytes: 0.0,
        mass: Masses::of(segment.mass.len()),
        ages: segment.ages.clone(),
        pieces: Vec::new(),
    });
    content.ages.start = content.ages.start.min(segment.ages.start);
    content.ages.end = content.ages.end.max(segment.ages.end);
    content.keys.end = keys.end;
    content.bytes += segment.bytes * part;
    content.pieces.push((keys.end, content.bytes));
    content.mass.add_scaled(&segment.mass, part);
}

/// A table of less than an entry joins the table before it, if both lie in one group.
fn absorb_slivers(tables: Vec<Content>, entry_bytes: f64, ranges: u32) -> Vec<Content> {
    let group = |table: &Content| range_of(&key(table.keys.start), ranges);
    let mut kept: Vec<Content> = Vec::with_capacity(tables.len());
    for table in tables {
        let before = kept.last_mut().filter(|it| group(it) == group(&table));
        match before {
            Some(last) if table.bytes < entry_bytes => {
                last.keys.end = table.keys.end;
                last.bytes += table.bytes;
                last.pieces.push((last.keys.end, last.bytes));
                last.mass.add_scaled(&table.mass, 1.0);
            }
            None if table.bytes < entry_bytes / 2.0 => {}
            _ => kept.push(table),
        }
    }
    kept
}
