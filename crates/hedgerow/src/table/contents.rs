//! The entries of a block or bucket, whatever the format of its table: for whoever goes over whole
//! tables to verify or to show them.

use crate::base::entry::{SeqNo, Tag};
use crate::base::error::{Error, Result};
use crate::base::key_order::Order;
use crate::base::options::TableSpec;

use super::stored::Place;
use super::{block_based, htable};

/// One entry as it is stored.
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
    /// Where the value is, if not here.
    pub(super) fn place(&self) -> Result<Option<Place>> {
        self.out_of_line
            .then(|| Place::decode(self.value))
            .transpose()
    }
}

/// Hands over all entries of a block, in order, each after a check that the format's own search finds it.
///
/// # Errors
/// `Corruption` if it is no block; what `see` returns.
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

/// The search of a block does not find what is in it.
pub(super) fn not_found(key: &[u8], seqno: SeqNo) -> Error {
    Error::corruption(format!(
        "expected the search to find {key:?} at {seqno:?}, found something else"
    ))
}
