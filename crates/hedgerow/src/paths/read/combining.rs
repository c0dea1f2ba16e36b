//! The value of a key that has operands: reads them one after another, the newest first, down to a
//! put or a delete, and has the merge operator combine them.
//!
//! Cost: a lookup for each operand, and one for the value.

use std::sync::Arc;

use hedgerow_mem::Publisher;

use super::{FoundEntry, Observer, in_tables};
use crate::base::entry::{SeqNo, Tag};
use crate::base::error::Result;
use crate::base::operand_chain::OperandChain;
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
    let (tree, published) = present(&engine.publisher, partition);
    let mut query = Query {
        seqno: query.seqno.min(published),
        is_alone: true,
        ..*query
    };
    let (mut chain, mut in_tables) = (OperandChain::new(), 0);
    while let Some(version) = version(engine, &tree, &query, observer)? {
        let now = || time.unwrap_or_else(|| engine.time());
        if !chain.add((version.seqno, version.tag), || Ok(version.stored), now)? {
            break;
        }
        in_tables += usize::from(version.is_in_table);
        query.seqno = chain.below()?;
    }
    if let Some(at) = chain.expires() {
        observer.expires(at);
    }
    let facts = &partition.keyspace;
    let value = chain.value(facts.order.decode(query.key), || facts.merge_operator())?;
    Ok((value.map(|value| Slice::copy_from(&value)), in_tables))
}

/// A version of a key.
struct Version {
    seqno: SeqNo,
    tag: Tag,
    stored: Slice,
    is_in_table: bool,
}

/// The tree at a moment, and the number of this moment: it holds everything up to that (I3). The
/// tree in which the operand was found may lack a bulk load with a smaller number.
fn present(publisher: &Publisher, partition: &Partition) -> (Arc<SuperVersion>, SeqNo) {
    loop {
        let tree = partition.tree_owned();
        let published = SeqNo(publisher.published());
        if Arc::ptr_eq(&partition.tree(), &tree) {
            return (tree, published);
        }
    }
}

/// The newest version of a key.
fn version(
    engine: &Engine,
    tree: &SuperVersion,
    query: &Query<'_>,
    observer: &mut impl Observer,
) -> Result<Option<Version>> {
    for memtable in tree.memtables() {
        let found = memtable.get(query.key, query.seqno);
        observer.memtable(memtable, found.map(|(seqno, tag, _)| (seqno, tag)));
        if let Some((seqno, tag, value)) = found {
            return Ok(Some(Version {
                seqno,
                tag,
                stored: Slice::copy_from(value),
                is_in_table: false,
            }));
        }
    }
    let Some(answer) = in_tables(&engine.stats, &tree.version, *query, observer)? else {
        return Ok(None);
    };
    let FoundEntry { seqno, tag, .. } = answer.entry;
    let page = match answer.entry.value {
        FoundValue::OutOfLine { page, .. } => {
            observer.page(answer.table, page);
            Some(answer.table.pages().page(page)?)
        }
        _ => None,
    };
    Ok(Some(Version {
        seqno,
        tag,
        stored: answer.stored(&engine.memory, page)?,
        is_in_table: true,
    }))
}
