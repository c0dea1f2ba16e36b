//! Folding at a write: an operand that meets an older version of its key in the same memtable takes
//! it up. So the chain of a key that is merged often stays short.
//!
//! The older version stays for the readers that see it only. The entry with the number of the
//! operand is its result: a put over a put or a delete, and over an operand an operand that
//! *covers* both ([`Tag::MERGE_COVERING`]). It is never longer than the operand, and never long.

use crate::base::entry::{COVERING_BYTES, Kind, SeqNo, Tag, covered};
use crate::paths::write::WriteOp;
use crate::tree::memtable::Memtable;

/// Longer results are left to flushes and merges: they would be copied again by every operand.
const FOLDED_BYTES_MAX: usize = 64;

/// Adds an operand to its memtable, with what it takes up. Everything with a smaller number must be
/// in the memtable.
pub(super) fn insert(op: &WriteOp<'_>, memtable: &Memtable, (order_key, seqno): (&[u8], SeqNo)) {
    if op.value.len() > FOLDED_BYTES_MAX {
        return memtable.insert(order_key, seqno, op.tag, op.value);
    }
    memtable.insert_over(order_key, seqno, |older| match folded(op, older) {
        Some((tag, value)) => (tag, value.into()),
        None => (op.tag, op.value.into()),
    });
}

/// The entry of an operand, if it takes up the older version of its key.
fn folded(op: &WriteOp<'_>, older: Option<(SeqNo, Tag, &[u8])>) -> Option<(Tag, Vec<u8>)> {
    let (older_at, older_tag, older) = older?;
    let operator = op.partition.keyspace.merge_operator().ok()?;
    let operand = op.value;
    let base = match older_tag.kind {
        Kind::Put if older_tag == Tag::PUT => Some(older),
        Kind::Delete | Kind::RangeDelete => None,
        Kind::Merge => {
            let (from, older) = covered(older_at, older_tag, older).ok()?;
            let both = operator.partial(op.user_key, older, operand)?;
            let fits = both.len() <= operand.len();
            let value = || [&from.0.to_le_bytes()[..], &both].concat();
            return fits.then(|| (Tag::MERGE_COVERING, value()));
        }
        _ => return None,
    };
    let value = operator.full(op.user_key, base, &[operand]).ok()??;
    let fits = value.len() <= operand.len() + COVERING_BYTES;
    fits.then_some((Tag::PUT, value))
}
