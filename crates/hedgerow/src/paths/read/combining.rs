//! The value of a key that has operands: reads them one after another, the newest first, down to a
//! put or a delete, and has the merge operator combine them.
//!
//! Cost: a lookup for each operand, and one for the value.

use std::sync::Arc;

use super::{Answer, Observer, in_tables, of_later_version};
use crate::base::entry::{Flags, Kind, SeqNo, Tag, covered};
use crate::base::error::{Error, Result};
use crate::base::slice::Slice;
use crate::table::{FoundValue, Query};
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;
use crate::tree::version::SuperVersion;

/// A get that meets more operands in tables has them merged down.
pub(super) const AT_REST_MAX: usize = 16;

/// The value of a key whose newest version is an operand, and the number of operands in tables.
#[cold]
pub(super) fn combined(
    engine: &Engine,
    partition: &Partition,
    (query, time): (&Query<'_>, Option<u64>),
    observer: &mut impl Observer,
) -> Result<(Option<Slice>, usize)> {
    let operator = partition.keyspace.merge_operator()?;
    let (tree, published) = present(engine, partition);
    let mut query = Query {
        seqno: query.seqno.min(published),
        ..*query
    };
    let (mut base, mut operands, mut in_tables) = (None, Vec::new(), 0);
    while let Some((seqno, tag, value, is_in_table)) = version(engine, &tree, &query, observer)? {
        let from = match tag.kind {
            Kind::Merge => {
                let (from, operand) = covered(seqno, tag, &value)?;
                operands.push(Slice::copy_from(operand));
                in_tables += usize::from(is_in_table);
                from
            }
            Kind::Put if tag.flags.has(Flags::EXPIRES) => {
                if let Some((at, value)) = engine.unexpired(value, time)? {
                    observer.expires(at);
                    base = Some(value);
                }
                break;
            }
            Kind::Put => {
                base = Some(value);
                break;
            }
            Kind::Delete | Kind::RangeDelete => break,
            Kind::ValueRef => return Err(of_later_version(tag)),
        };
        let older = from.0.checked_sub(1);
        query.seqno = SeqNo(older.ok_or_else(|| {
            Error::corruption("expected an operand numbered from 1 on, found number 0")
        })?);
    }
    operands.reverse();
    let key = partition.keyspace.order.decode(query.key);
    let value = operator.full(key, base.as_deref(), &operands)?;
    Ok((value.map(|value| Slice::copy_from(&value)), in_tables))
}

/// The tree at a moment, and the number of this moment: it holds everything up to that (I3). The
/// tree in which the operand was found may lack a bulk load with a smaller number.
fn present(engine: &Engine, partition: &Partition) -> (Arc<SuperVersion>, SeqNo) {
    loop {
        let tree = partition.tree_owned();
        let published = SeqNo(engine.publisher.published());
        if Arc::ptr_eq(&partition.tree(), &tree) {
            return (tree, published);
        }
    }
}

/// The newest version of a key, as it is stored; true if it is in a table.
fn version(
    engine: &Engine,
    tree: &SuperVersion,
    query: &Query<'_>,
    observer: &mut impl Observer,
) -> Result<Option<(SeqNo, Tag, Slice, bool)>> {
    for memtable in tree.memtables() {
        let found = memtable.get(query.key, query.seqno);
        observer.memtable(memtable, found.map(|(seqno, tag, _)| (seqno, tag)));
        if let Some((seqno, tag, value)) = found {
            return Ok(Some((seqno, tag, Slice::copy_from(value), false)));
        }
    }
    let Some(answer) = in_tables(engine, &tree.version, *query, observer)? else {
        return Ok(None);
    };
    let Answer { seqno, tag, .. } = answer;
    let page = match answer.value {
        FoundValue::OutOfLine { page, .. } => {
            observer.page(&answer.table, page);
            Some(answer.table.pages().page(page)?)
        }
        _ => None,
    };
    Ok(Some((seqno, tag, answer.stored(engine, page)?, true)))
}
