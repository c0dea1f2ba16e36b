//! Copies the operations of a commit into their memtables.

use hedgerow_mem::{Approach, Publisher};

use crate::base::entry::{Kind, PartitionId, SeqNo};
use crate::tree::memtable::{Memtable, RANGES_MAX};

use super::{CommitPlace, WriteOp, covering};

/// The number of operations of a batch that search for their places at the same time: memory has a
/// queue, too.
const PIECE: usize = 16;

/// Copies the operations into their memtables. `crowded` gets the partitions whose memtables have
/// many range tombstones.
pub(super) fn apply(
    publisher: &Publisher,
    ops: &[WriteOp<'_>],
    reserved: &CommitPlace,
    crowded: &mut Vec<PartitionId>,
) {
    let mut insert = |i: usize, op: &WriteOp<'_>, key: &[u8]| {
        let seqno = SeqNo(reserved.first.0 + i as u64);
        let memtable = reserved.memtables.get(i);
        match op.tag.kind {
            Kind::RangeDelete => delete_range(op, memtable, seqno, crowded),
            Kind::Merge if publisher.published() >= reserved.first.0 - 1 => {
                covering::insert(op, memtable, (key, seqno));
            }
            _ => memtable.insert(key, seqno, op.tag, op.value),
        }
    };
    if let [op] = ops {
        let mut scratch = Vec::new();
        return insert(0, op, op.order_key(&mut scratch));
    }
    let mut scratch: [Vec<u8>; PIECE] = Default::default();
    for (piece, first) in ops.chunks(PIECE).zip((0..).step_by(PIECE)) {
        let mut keys = [&b""[..]; PIECE];
        let mut ways = [None; PIECE];
        for (i, (op, scratch)) in piece.iter().zip(&mut scratch).enumerate() {
            keys[i] = op.order_key(scratch);
            ways[i] = reserved.memtables.get(first + i).approach(keys[i]);
        }
        let step = |on, way: &mut Approach<'_>| way.step() | on;
        while ways.iter_mut().flatten().fold(false, step) {}
        for (i, op) in piece.iter().enumerate() {
            insert(first + i, op, keys[i]);
        }
    }
}

/// Adds a range delete to its memtable.
#[cold]
fn delete_range(
    op: &WriteOp<'_>,
    memtable: &Memtable,
    seqno: SeqNo,
    crowded: &mut Vec<PartitionId>,
) {
    let keyspace = &op.partition.keyspace;
    let delete = keyspace.range_tombstone(op.user_key, op.value, seqno);
    let delete = delete.expect("a range is checked before it is committed");
    if memtable.delete_range(delete) >= RANGES_MAX {
        crowded.push(op.partition.id);
    }
}
