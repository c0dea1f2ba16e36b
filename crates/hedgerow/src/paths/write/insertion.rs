//! Copies the operations of a commit into their memtables.

use hedgerow_mem::{Approach, Publisher};

use crate::base::entry::{Kind, PartitionId, SeqNo};
use crate::base::error::Result;
use crate::tree::memtable::{Memtable, RANGES_MAX};

use super::{CommitPlace, WriteOp, covering};

/// The number of operations of a batch that search for their places at the same time: memory has a
/// queue, too.
const PIECE: usize = 16;

/// Writes the record of a commit by `log`, and copies its operations into their memtables.
/// `crowded` gets the partitions whose memtables have many range tombstones.
#[inline(always)]
pub(super) fn write_and_apply<T>(
    publisher: &Publisher,
    ops: &[WriteOp<'_>],
    reserved: &CommitPlace,
    crowded: &mut Vec<PartitionId>,
    log: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if let [op] = ops
        && matches!(op.tag.kind, Kind::Put | Kind::Delete)
        && reserved.memtables.get(0).is_far()
    {
        return write_and_insert(op, reserved, log);
    }
    let written = log()?;
    apply(publisher, ops, reserved, crowded);
    Ok(written)
}

/// Does the same for one entry of a large memtable. The memory of its place comes while the record
/// is copied.
#[inline(never)]
fn write_and_insert<T>(
    op: &WriteOp<'_>,
    reserved: &CommitPlace,
    log: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let mut scratch = Vec::new();
    let memtable = reserved.memtables.get(0);
    let mut place = memtable.approach(op.order_key(&mut scratch), reserved.first);
    place.step_to_end();
    let written = log()?;
    place.insert(op.tag.to_bits(), op.value);
    Ok(written)
}

/// Copies the operations into their memtables.
fn apply(
    publisher: &Publisher,
    ops: &[WriteOp<'_>],
    reserved: &CommitPlace,
    crowded: &mut Vec<PartitionId>,
) {
    let seqno = |i: usize| SeqNo(reserved.first.0 + i as u64);
    let mut insert = |i: usize, op: &WriteOp<'_>, key: &[u8]| {
        let memtable = reserved.memtables.get(i);
        match op.tag.kind {
            Kind::RangeDelete => delete_range(op, memtable, seqno(i), crowded),
            Kind::Merge if publisher.published() >= reserved.first.0 - 1 => {
                covering::insert(op, memtable, (key, seqno(i)));
            }
            _ => memtable.insert(key, seqno(i), op.tag, op.value),
        }
    };
    if let [op] = ops {
        let mut scratch = Vec::new();
        return insert(0, op, op.order_key(&mut scratch));
    }
    let mut scratch: [Vec<u8>; PIECE] = Default::default();
    for (piece, first) in ops.chunks(PIECE).zip((0..).step_by(PIECE)) {
        let mut keys = [&b""[..]; PIECE];
        let mut places = [None; PIECE];
        for (i, (op, scratch)) in piece.iter().zip(&mut scratch).enumerate() {
            keys[i] = op.order_key(scratch);
            let memtable = reserved.memtables.get(first + i);
            if memtable.is_far() {
                places[i] = Some(memtable.approach(keys[i], seqno(first + i)));
            }
        }
        let step = |on, place: &mut Approach<'_>| place.step() | on;
        while places.iter_mut().flatten().fold(false, step) {}
        for (i, op) in piece.iter().enumerate() {
            match (op.tag.kind, places[i]) {
                (Kind::Put | Kind::Delete, Some(place)) => {
                    place.insert(op.tag.to_bits(), op.value);
                }
                _ => insert(first + i, op, keys[i]),
            }
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
