//! Shapes and plans as text, for tests, the simulator and `stats`. A state seen in production can
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

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use crate::base::entry::{PartitionId, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};

use super::plan::{Input, Plan, Target};
use super::shape::{Facts, Group, LEVELS_MAX, Shape};
use crate::base::entry::RunId;

/// Reads a shape.
///
/// # Errors
/// `InvalidArgument` for text that is no shape, `Corruption` for a shape that breaks an invariant.
pub(crate) fn parse_shape(text: &str) -> Result<Shape<Arc<TableMeta>>> {
    let mut ranges: Vec<u32> = Vec::new();
    let mut edit = TreeEdit::new(PartitionId(0));
    let mut drained_to: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (head, body) = line.split_once(':').ok_or_else(|| wrong("a level", line))?;
        if head == "nominal" {
            edit.nominal_depth = Some(number(body.trim())? as u8);
            continue;
        }
        if head == "depth" {
            grow(&mut ranges, number(body.trim())? as usize)?;
            continue;
        }
        let mut words = head.split_whitespace();
        let (level, group, groups) = parse_place(words.next().unwrap_or(""))?;
        grow(&mut ranges, level + 1)?;
        ranges[level] = groups;
        match (words.next(), words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some("draining"), Some(through), to, key) => {
                let through = RunId(number(through)?);
                edit.draining.push((level as u8, Some(through)));
                if let (Some("to"), Some(key)) = (to, key) {
                    drained_to.insert(level, parse_key(key)?);
                }
            }
            _ => return Err(wrong("`draining NUMBER to KEY`", head)),
        }
        parse_runs(level, group, body, &mut edit.added)?;
    }
    let mut shape = Shape::with_ranges(if ranges.is_empty() { &[1] } else { &ranges });
    shape.apply(&edit, |meta| Arc::new(meta.clone()))?;
    for (level, key) in drained_to {
        shape.levels[level].drained_to = Some(key);
    }
    Ok(shape)
}

fn grow(ranges: &mut Vec<u32>, depth: usize) -> Result<()> {
    if depth > LEVELS_MAX {
        return Err(wrong("at most 64 levels", &depth.to_string()));
    }
    ranges.resize(ranges.len().max(depth), 1);
    Ok(())
}

/// Reads `L3` or `L3/1of4`.
fn parse_place(text: &str) -> Result<(usize, usize, u32)> {
    let wrong = || wrong("a level such as `L3` or `L3/1of4`", text);
    let rest = text.strip_prefix('L').ok_or_else(wrong)?;
    let Some((level, group)) = rest.split_once('/') else {
        return Ok((number(rest)? as usize, 0, 1));
    };
    let (group, groups) = group.split_once("of").ok_or_else(wrong)?;
    let (group, groups) = (number(group)?, number(groups)?);
    if group >= groups || groups > 1 << 20 {
        return Err(wrong());
    }
    Ok((number(level)? as usize, group as usize, groups as u32))
}

fn parse_runs(
    level: usize,
    group: usize,
    body: &str,
    added: &mut Vec<(Placement, TableMeta)>,
) -> Result<()> {
    // Runs as written, newest first: the number, if there is one, and the tables.
    let mut runs: Vec<(Option<u64>, Vec<TableMeta>)> = Vec::new();
    let mut open = false;
    let mut bare = false;
    for word in body.split_whitespace() {
        let inner = word.strip_prefix('(').unwrap_or(word);
        if inner.len() < word.len() {
            runs.push((None, Vec::new()));
            (open, bare) = (true, false);
        }
        let item = inner.strip_suffix(')').unwrap_or(inner);
        if !open && (level == 0 || !bare) {
            runs.push((None, Vec::new()));
            bare = true;
        }
        let (id, tables) = runs.last_mut().ok_or_else(|| wrong("a run", word))?;
        if let Some(run) = item.strip_prefix('r') {
            *id = Some(number(run)?);
        } else if !item.is_empty() {
            tables.push(parse_table(item)?);
        }
        open &= item.len() == inner.len();
    }
    let count = runs.len() as u64;
    for (index, (id, tables)) in runs.into_iter().enumerate() {
        let newest = tables.iter().map(|table| table.id.0).max();
        let by_place = count - 1 - index as u64;
        let by_level = if level == 0 { newest } else { Some(by_place) };
        let to = Placement {
            level: level as u8,
            group: group as u32,
            run: RunId(id.or(by_level).unwrap_or(0)),
        };
        added.extend(tables.into_iter().map(|table| (to, table)));
    }
    Ok(())
}

/// Reads one table.
pub(crate) fn parse_table(text: &str) -> Result<TableMeta> {
    let wrong = || wrong("a table such as `#7[a-z]@8M`", text);
    let rest = text.strip_prefix('#').ok_or_else(wrong)?;
    let (id, rest) = rest.split_once('[').ok_or_else(wrong)?;
    let (keys, rest) = rest.split_once("]@").ok_or_else(wrong)?;
    let (smallest, largest) = keys.split_once('-').ok_or_else(wrong)?;
    let (bytes, details) = match rest.split_once('{') {
        None => (rest, ""),
        Some((bytes, details)) => (bytes, details.strip_suffix('}').ok_or_else(wrong)?),
    };
    let (id, bytes) = (number(id)?, parse_bytes(bytes)?);
    let keys = (parse_key(smallest)?, parse_key(largest)?);
    let mut meta = TableMeta::modelled(id, keys, bytes, usual_entries(bytes));
    for detail in details.split(',').filter(|detail| !detail.is_empty()) {
        match detail.split_once('=').ok_or_else(wrong)? {
            ("entries", count) => meta.entries = number(count)?,
            ("tombstones", count) => meta.tombstones = number(count)?,
            ("seqnos", range) => {
                let (from, to) = range.split_once('-').ok_or_else(wrong)?;
                meta.smallest_seqno = SeqNo(number(from)?);
                meta.largest_seqno = SeqNo(number(to)?);
            }
            _ => return Err(wrong()),
        }
    }
    Ok(meta)
}

fn usual_entries(bytes: u64) -> u64 {
    (bytes / 128).max(1)
}

/// Writes a shape that [`parse_shape`] reads as the same. Empty levels are left out.
pub(crate) fn print_shape<T: Facts>(shape: &Shape<T>) -> String {
    let mut text = String::new();
    if shape.levels.last().is_none_or(|level| level.is_empty()) {
        let _ = writeln!(text, "depth: {}", shape.depth());
    }
    if shape.nominal_depth > 0 {
        let _ = writeln!(text, "nominal: {}", shape.nominal_depth);
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

/// Writes a plan in one line.
pub(crate) fn print_plan(plan: &Plan) -> String {
    let print_inputs = |inputs: &[Input]| {
        let inputs: Vec<String> = inputs.iter().map(print_input).collect();
        inputs.join(" | ")
    };
    match plan {
        Plan::Merge {
            inputs,
            target,
            reason,
        } => format!(
            "merge {} -> {} ({reason:?})",
            print_inputs(inputs),
            print_target(target)
        ),
        Plan::Move {
            inputs,
            target,
            reason,
        } => format!(
            "move {} -> {} ({reason:?})",
            print_inputs(inputs),
            print_target(target)
        ),
        Plan::Drain { level, through } => format!("drain L{level} through r{}", through.0),
        Plan::SetRanges { level, ranges } => format!("cut L{level} into {ranges} groups"),
        Plan::Shift(depth) => format!("shift to depth {depth}"),
        Plan::SetDepth {
            depth,
            nominal_depth,
        } => format!("set depth {depth} nominal {nominal_depth}"),
    }
}

fn print_input(input: &Input) -> String {
    let ids: Vec<String> = input.tables.iter().map(|id| format!("#{}", id.0)).collect();
    format!("L{} {}", input.level, ids.join(","))
}

fn print_target(target: &Target) -> String {
    let group = match target.group {
        0 => String::new(),
        group => format!("/{group}"),
    };
    match target.run {
        Some(run) => format!("L{}{group} r{}", target.level, run.0),
        None => format!("L{}{group} new run", target.level),
    }
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

/// Reads a size such as `8M`.
pub(crate) fn parse_bytes(text: &str) -> Result<u64> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(*unit));
    let (digits, shift) = match unit {
        Some((unit, shift)) => (text.trim_end_matches(*unit), *shift),
        None => (text, 0),
    };
    number(digits)?
        .checked_mul(1 << shift)
        .ok_or_else(|| wrong("a size below 16E", text))
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

/// Reads a key as [`print_shape`] writes it.
pub(crate) fn parse_key(text: &str) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            key.push(*byte);
            continue;
        }
        let digits = rest.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        key.push(byte.ok_or_else(|| wrong("two hexadecimal digits after `%`", text))?);
        rest = &rest[2..];
    }
    Ok(key)
}

fn number(text: &str) -> Result<u64> {
    text.parse().map_err(|_| wrong("a number", text))
}

fn wrong(expected: &str, found: &str) -> Error {
    Error::invalid(format!("expected {expected}, found `{found}`"))
}
