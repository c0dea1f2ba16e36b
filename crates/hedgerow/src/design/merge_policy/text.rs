//! Shapes as text, for `stats` and tests. Tests read them again. A state seen in production can
//! be pasted into a test.
//!
//! ```text
//! depth: 4                                          only if the last level is empty
//! nominal: 3                                        what the policy counts, if it does
//! L0: #7[a-z]@8M #6[a-z]@8M                         newest first; here every table is a run
//! L1: (r9 #5[a-m]@4M #6[n-z]@4M) (r8 #4[a-z]@8M)    runs of several tables, newest first
//! L2 draining 3 to f: #1[a-m]@30M #3[n-z]@34M       one run, number 0; its sweep has come to f
//! L3/1of2: #2[%c0-%d1]@1G{entries=9,tombstones=5,seqnos=3-8}      the second of two groups
//! ```
//! A table is `#number[smallest key-largest key]@bytes`. Sizes use powers of 1024. In keys, bytes
//! other than letters, digits, `_`, `.` and `/` are `%` and two hexadecimal digits. Without `{}` a
//! table has an entry per 128 bytes, no tombstones, and its own number as its only sequence number.

#[cfg(test)]
mod parsing;

use std::fmt::Write;

use crate::base::entry::RunId;
use crate::base::table_meta::TableMeta;

use super::shape::{Facts, Group, Shape};
#[cfg(test)]
pub(crate) use parsing::{parse_bytes, parse_key, parse_shape, parse_table, print_plan};

fn usual_entries(bytes: u64) -> u64 {
    (bytes / 128).max(1)
}

/// Writes a shape that tests read as the same. Empty levels are left out.
pub(crate) fn print_shape<T: Facts>(shape: &Shape<T>) -> String {
    let mut text = String::new();
    if shape.levels.last().is_none_or(|level| level.is_empty()) {
        let _ = writeln!(text, "depth: {}", shape.depth());
    }
    if shape.policy_note > 0 {
        let _ = writeln!(text, "nominal: {}", shape.policy_note);
    }
    for (index, level) in shape.levels.iter().enumerate() {
        for (group, data) in level.groups.iter().enumerate() {
            if data.runs.is_empty() {
                continue;
            }
            let _ = write!(text, "L{index}");
            if level.groups.len() > 1 {
                let _ = write!(text, "/{group}of{}", level.groups.len());
            }
            if let Some(through) = level.draining {
                let _ = write!(text, " draining {}", through.0);
            }
            if let Some(key) = &level.drained_to {
                let _ = write!(text, " to {}", print_key(key));
            }
            text.push(':');
            print_runs(&mut text, index, data);
            text.push('\n');
        }
    }
    text
}

fn print_runs<T: Facts>(text: &mut String, level: usize, group: &Group<T>) {
    for run in &group.runs {
        let tables: Vec<String> = run.tables.iter().map(|it| print_table(it.meta())).collect();
        let is_usual = match (level, &*run.tables) {
            (0, [table]) => table.meta().id.0 == run.id.0,
            (0, _) => false,
            _ => group.runs.len() == 1 && run.id == RunId(0),
        };
        let tables = tables.join(" ");
        let _ = match is_usual {
            true => write!(text, " {tables}"),
            false => write!(text, " (r{} {tables})", run.id.0),
        };
    }
}

/// Writes one table.
pub(crate) fn print_table(meta: &TableMeta) -> String {
    let mut details = Vec::new();
    if meta.entries != usual_entries(meta.file_bytes) {
        details.push(format!("entries={}", meta.entries));
    }
    if meta.tombstones > 0 {
        details.push(format!("tombstones={}", meta.tombstones));
    }
    let (from, to) = (meta.smallest_seqno.0, meta.largest_seqno.0);
    if (from, to) != (meta.id.0, meta.id.0) {
        details.push(format!("seqnos={from}-{to}"));
    }
    let details = match details.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", details.join(",")),
    };
    format!(
        "#{}[{}-{}]@{}{details}",
        meta.id.0,
        print_key(&meta.smallest_key),
        print_key(&meta.largest_key),
        print_bytes(meta.file_bytes),
    )
}

const UNITS: [(char, u32); 6] = [
    ('E', 60),
    ('P', 50),
    ('T', 40),
    ('G', 30),
    ('M', 20),
    ('K', 10),
];

/// Writes a size exactly, in the largest unit that divides it.
pub(crate) fn print_bytes(bytes: u64) -> String {
    let unit = UNITS
        .iter()
        .find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    match unit {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

fn print_key(key: &[u8]) -> String {
    let mut text = String::new();
    for byte in key {
        let _ = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'/' => {
                write!(text, "{}", char::from(*byte))
            }
            _ => write!(text, "%{byte:02x}"),
        };
    }
    text
}
