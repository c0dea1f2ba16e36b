//! A scan of all keys in stored order, which can be interrupted and resumed.

use std::sync::Arc;

use crate::base::codec::checksum;
use crate::base::error::{Error, Result};
use crate::base::key_order;
use crate::base::slice::Slice;
use crate::tree::partition::KeyspaceFacts;
use crate::tree::partition::ends::End;

use super::both_ends::Pair;
use super::{Cursor, Extent, Scan, View};

/// The position at which an unordered scan left off: bytes that may be kept and used later, by any
/// process, for the same keyspace. The default is the beginning.
///
/// ```text
/// token   check of the keyspace, u32   the last key visited, whose place follows from it
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ScanToken(Vec<u8>);

impl ScanToken {
    /// The bytes, empty at the beginning.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn after(user_key: &[u8], facts: &KeyspaceFacts) -> ScanToken {
        let mut bytes = check_of(facts).to_le_bytes().to_vec();
        bytes.extend_from_slice(user_key);
        ScanToken(bytes)
    }

    /// The order key of the last key visited; `None` at the beginning.
    fn order_key(&self, facts: &KeyspaceFacts) -> Result<Option<Vec<u8>>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let parts = self.0.split_first_chunk();
        let parts = parts.filter(|(check, _)| u32::from_le_bytes(**check) == check_of(facts));
        let (_, user_key) = parts.ok_or_else(|| {
            Error::invalid(format!(
                "expected a token of a scan of the keyspace `{}`, found another one",
                facts.name().escape_default()
            ))
        })?;
        facts.order.check(user_key)?;
        let mut order_key = Vec::new();
        facts.order.encode(user_key, &mut order_key);
        Ok(Some(order_key))
    }
}

/// A check value of the keyspace; it differs between keyspaces because their seeds differ.
fn check_of(facts: &KeyspaceFacts) -> u32 {
    let (order, parameter) = key_order::code(facts.key_order);
    checksum::seeded(facts.seed ^ u64::from(parameter), &[order])
}

impl From<Vec<u8>> for ScanToken {
    /// A token from the bytes of [`ScanToken::as_bytes`].
    fn from(bytes: Vec<u8>) -> ScanToken {
        ScanToken(bytes)
    }
}

/// All keys with their values, in the order in which they are stored. Made by `scan_unordered`.
///
/// An error ends the scan. Every further call returns the error again; the token is that of the key
/// before it.
pub struct UnorderedScan {
    pub(super) scan: Scan,
    view: Arc<View>,
    /// The last key visited; `None` before the first.
    last: Option<Vec<u8>>,
    begin: ScanToken,
}

impl UnorderedScan {
    pub(crate) fn new(view: Arc<View>, begin: &ScanToken) -> Result<UnorderedScan> {
        let order_key = begin.order_key(&view.state.facts)?;
        Ok(UnorderedScan {
            scan: Scan::new(view.clone(), Extent::behind(order_key)),
            view,
            last: None,
            begin: begin.clone(),
        })
    }

    /// Takes one step. `item` is what the caller wants of the entry there, `key` the key of that.
    pub(super) fn advance<T>(
        &mut self,
        item: impl Fn(&Cursor) -> Result<Option<T>>,
        key: impl Fn(&T) -> &Slice,
    ) -> Option<Result<T>> {
        let item = self.scan.advance(End::First, item)?;
        if let Ok(item) = &item {
            let last = self.last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key(item));
        }
        Some(item)
    }

    /// The position of this scan: a scan resumed there visits the keys behind the last one
    /// returned.
    pub fn token(&self) -> ScanToken {
        match &self.last {
            Some(key) => ScanToken::after(key, &self.view.state.facts),
            None => self.begin.clone(),
        }
    }
}

impl std::fmt::Debug for UnorderedScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UnorderedScan")
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}

impl Iterator for UnorderedScan {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(Cursor::pair, |(key, _)| key)
    }
}
