//! The entries of a block or bucket, independent of the table's format. Verification and inspection
//! walk them.

use crate::base::entry::{SeqNo, Tag};
use crate::base::error::{Error, Result};
use crate::base::key_order::Order;
use crate::base::options::TableSpec;

use super::entry_parts::ValueHandle;
use super::{block_based, htable};

/// A stored entry.
#[derive(Debug)]
pub(super) struct Contents<'a> {
    /// The order key.
    pub(super) key: &'a [u8],
    pub(super) seqno: SeqNo,
    pub(super) tag: Tag,
    /// The value, or its place if it is out of line.
    pub(super) value: &'a [u8],
    pub(super) out_of_line: bool,
}

impl Contents<'_> {
    /// The place of the value, if it is out of line.
    pub(super) fn place(&self) -> Result<Option<ValueHandle>> {
        self.out_of_line
            .then(|| ValueHandle::decode(self.value))
            .transpose()
    }
}

/// Passes all entries of a block to `see`, in order. Checks first that the format's own search
/// finds each of them.
///
/// # Errors
/// `Corruption` if it is not a block; the errors of `see`.
pub(super) fn walk(
    table: TableSpec,
    order: &dyn Order,
    block: &[u8],
    see: &mut dyn FnMut(&Contents<'_>) -> Result<()>,
) -> Result<()> {
    match table {
        TableSpec::BlockBased => block_based::walk(block, see),
        TableSpec::HTable => htable::walk(block, order, see),
    }
}

/// The error that the search of a block misses one of its entries.
pub(super) fn not_found(key: &[u8], seqno: SeqNo) -> Error {
    Error::corruption(format!(
        "expected the search to find {key:?} at {seqno:?}, found something else"
    ))
}
