//! A range delete: which trees it concerns, and the operation of each.
//!
//! One commit has one operation for each tree that the range covers. All of them are in one record
//! of the log, so they become visible and durable together. From there on each is a write like any
//! other ([`crate::paths::write`]). Cost: constant for each tree, whatever the range holds.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::base::entry::{KeyHash, Tag};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key_order::end_of_group;
use crate::base::options::{Durability, KeyOrder};
use crate::base::range_tombstones::successor;
use crate::paths::scan::range_bounds;
use crate::paths::write;
use crate::paths::write::{Condition, Outcome, WriteOp};
use crate::tree::engine::{Engine, KeyspaceCell};
use crate::tree::partition::KeyspaceFacts;
use crate::tree::wal::payload::Payload;

/// The operation of a range delete in one tree, as the log has it.
pub(crate) struct Part {
    /// The index of the tree.
    pub(crate) partition: usize,
    /// The first deleted key, or the prefix if keys are semi-sorted.
    pub(crate) key: Vec<u8>,
    /// The first key behind the range; empty if it has no end.
    pub(crate) value: Vec<u8>,
}

/// The operations that delete a range; none for a range that holds no key.
///
/// # Errors
/// `Unsupported` if keys are not sorted, `InvalidArgument` for a bound that no key can have.
pub(crate) fn of_range<K: AsRef<[u8]>>(
    facts: &KeyspaceFacts,
    range: &impl RangeBounds<K>,
) -> Result<Vec<Part>> {
    if facts.key_order != KeyOrder::Sorted {
        return Err(unsupported(facts));
    }
    let (lower, upper) = range_bounds(&*facts.order, range)?;
    let start = match lower {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key,
        Bound::Excluded(key) => successor(&key),
    };
    let end = match upper {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(successor(&key)),
        Bound::Excluded(key) => Some(key),
    };
    Ok(parts(facts, start, end))
}

/// The operations that delete the keys with a prefix.
///
/// # Errors
/// `Unsupported` if keys are hashed, `InvalidArgument` for bytes that can be no prefix.
pub(crate) fn of_prefix(facts: &KeyspaceFacts, prefix: &[u8]) -> Result<Vec<Part>> {
    if facts.key_order == KeyOrder::Hashed {
        return Err(unsupported(facts));
    }
    let group = facts.order.group(prefix)?;
    let end = end_of_group(&group);
    if facts.key_order == KeyOrder::Sorted {
        return Ok(parts(facts, group, end));
    }
    facts.order.check(&facts.order.key_of_prefix(prefix))?;
    let of_hash = |part| Part {
        key: prefix.to_vec(),
        value: Vec::new(),
        ..part
    };
    Ok(parts(facts, group, end).into_iter().map(of_hash).collect())
}

/// The range, cut at the borders of trees.
fn parts(facts: &KeyspaceFacts, start: Vec<u8>, end: Option<Vec<u8>>) -> Vec<Part> {
    if end.as_ref().is_some_and(|end| start >= *end) {
        return Vec::new();
    }
    let upper = end.clone().map_or(Bound::Unbounded, Bound::Excluded);
    let covering = facts
        .router
        .covering(&(Bound::Included(start.clone()), upper));
    let splits = covering.splits.as_deref().unwrap_or_default();
    let part = |partition: usize| {
        let lower = partition
            .checked_sub(1)
            .and_then(|before| splits.get(before));
        let behind = splits.get(partition);
        let ends = [behind, end.as_ref()].into_iter().flatten().min();
        Part {
            partition,
            key: lower.map_or(&start, |lower| lower.max(&start)).clone(),
            value: ends.cloned().unwrap_or_default(),
        }
    };
    covering.partitions.map(part).collect()
}

/// Commits these parts, alone.
///
/// # Errors
/// As [`write::commit`]; `Closed` if the keyspace was dropped.
pub(crate) fn commit(
    engine: &Arc<Engine>,
    cell: &KeyspaceCell,
    parts: &[Part],
    durability: Durability,
) -> Result<()> {
    engine.writer()?;
    while !parts.is_empty() {
        let condition = Condition {
            routing_epoch: engine.routing_epoch(),
            unchanged: None,
            at_once: false,
        };
        cell.check_not_dropped()?;
        let state = cell.state.load();
        let mut payload = Payload::new();
        let ops = parts.iter().map(|part| {
            let partition = &state.partitions[part.partition];
            payload.push(partition.id, Tag::RANGE_DELETE, &part.key, &part.value);
            WriteOp {
                partition,
                hash: KeyHash(0),
                tag: Tag::RANGE_DELETE,
                user_key: &part.key,
                value: &part.value,
            }
        });
        let ops: Vec<_> = ops.collect();
        if write::commit(engine, &ops, &payload, condition, durability)? == Outcome::Committed {
            break;
        }
    }
    Ok(())
}

fn unsupported(facts: &KeyspaceFacts) -> Error {
    let instead = match facts.key_order {
        KeyOrder::Hashed => "use `clear` for all keys, or delete single keys",
        _ => "use `delete_prefix` for the keys of a prefix, or `clear` for all keys",
    };
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "a keyspace of `{}` keys has no ranges to delete: {instead}",
            facts.key_order
        ),
    )
}
