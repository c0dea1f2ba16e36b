//! The entries of a block or bucket, independent of the table's format. Verification and inspection
//! walk them.

use crate::base::entry::{SeqNo, Tag};
use crate::base::error::{Error, Result};

use super::entry_parts::ValueHandle;

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

/// The error that the search of a block misses one of its entries.
pub(super) fn not_found(key: &[u8], seqno: SeqNo) -> Error {
    Error::corruption(format!(
        "expected the search to find {key:?} at {seqno:?}, found something else"
    ))
}
