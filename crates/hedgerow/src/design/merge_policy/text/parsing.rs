//! Reads the text of shapes, and prints plans, for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{UNITS, usual_entries};
use crate::base::entry::{PartitionId, RunId, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::plan::{Input, Plan, Target};
use crate::design::merge_policy::shape::{LEVELS_MAX, Shape};
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};

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
            edit.policy_note = Some(number(body.trim())? as u8);
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
        Plan::Discard { inputs } => format!("discard {}", print_inputs(inputs)),
        Plan::Drain { level, through } => format!("drain L{level} through r{}", through.0),
        Plan::SetRanges { level, ranges } => format!("cut L{level} into {ranges} groups"),
        Plan::Shift(depth) => format!("shift to depth {depth}"),
        Plan::SetDepth { depth, policy_note } => format!("set depth {depth} nominal {policy_note}"),
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

/// Reads a key as it is printed.
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
