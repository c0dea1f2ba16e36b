//! Key order as an encoding. A user key becomes an *order key* whose bytes sort by `memcmp`, so
//! that no code below this module knows the order of a keyspace. `docs/format/key_order.md`
//! describes the bytes of order keys, and the codes of orders in tables and the manifest.

#[cfg(test)]
mod conformance;
mod hashed;
mod semi_sorted;
mod sorted;

use std::fmt::Debug;

use crate::base::entry::check_key;
use crate::base::error::{Error, Result};
use crate::base::options::{KeyOrder, PrefixRule};
pub(crate) use semi_sorted::{PREFIX_HASH_BYTES, SemiSorted, prefix_of};

/// The encoding of one key order. `decode(encode(k)) == k`, and encodings of different keys differ,
/// for every key that [`Order::check`] accepts.
pub(crate) trait Order: Debug + Send + Sync {
    /// Refuses a key that this order cannot have.
    ///
    /// # Errors
    /// `InvalidArgument`.
    fn check(&self, user_key: &[u8]) -> Result<()> {
        check_key(user_key)
    }
    /// Appends the order key of a user key.
    fn encode(&self, user_key: &[u8], order_key: &mut Vec<u8>);
    /// The order key of a user key: the user key itself if that serves, otherwise in `scratch`.
    fn borrow<'a>(&self, user_key: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        scratch.clear();
        scratch.reserve(self.added_bytes() + user_key.len());
        self.encode(user_key, scratch);
        scratch
    }
    /// The part of an order key that is the user key.
    fn decode<'a>(&self, order_key: &'a [u8]) -> &'a [u8];
    /// The number of bytes that an order key has beyond its user key.
    fn added_bytes(&self) -> usize;
    /// The common beginning of the order keys of all keys with a prefix. Keys without the prefix
    /// may share it; [`Order::has_prefix`] decides.
    ///
    /// # Errors
    /// `InvalidArgument` if these bytes cannot be a prefix, or if the order has no prefixes.
    fn group(&self, prefix: &[u8]) -> Result<Vec<u8>>;
    fn has_prefix(&self, user_key: &[u8], prefix: &[u8]) -> bool;
    /// A key with this prefix.
    fn key_of_prefix(&self, prefix: &[u8]) -> Vec<u8> {
        prefix.to_vec()
    }
    /// Succeeds if the order is that of the keys' bytes, so that ranges of keys are ranges of order
    /// keys.
    ///
    /// # Errors
    /// `InvalidArgument` otherwise; the message names the scans that are possible.
    fn check_ranges(&self) -> Result<()>;
}

/// The first order key behind all that begin with `group`; `None` if nothing is behind them.
pub(crate) fn end_of_group(group: &[u8]) -> Option<Vec<u8>> {
    let mut end = group.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xFF {
            *last += 1;
            return Some(end);
        }
        end.pop();
    }
    None
}

/// The encoding of an order, with the seed of the keyspace.
pub(crate) fn open(order: KeyOrder, seed: u64) -> Box<dyn Order> {
    match order {
        KeyOrder::Sorted => Box::new(sorted::Sorted),
        KeyOrder::SemiSorted(rule) => Box::new(SemiSorted { rule, seed }),
        KeyOrder::Hashed => Box::new(hashed::Hashed { seed }),
    }
}

/// The code of an order in manifest and tables, and its parameter, 0 if it has none.
pub(crate) fn code(order: KeyOrder) -> (u8, u32) {
    match order {
        KeyOrder::Sorted => (0, 0),
        KeyOrder::SemiSorted(PrefixRule::Bytes(bytes)) => (1, bytes),
        KeyOrder::SemiSorted(PrefixRule::Delimiter(byte)) => (2, u32::from(byte)),
        KeyOrder::SemiSorted(PrefixRule::LengthPrefixed) => (3, 0),
        KeyOrder::Hashed => (4, 0),
    }
}

/// True if the code has a parameter; otherwise the parameter is 0.
pub(crate) fn has_parameter(code: u8) -> bool {
    matches!(code, 1 | 2)
}

/// The order of a code and its parameter; `None` for a code of a later version.
///
/// # Errors
/// `Corruption` for a parameter that the code cannot have.
pub(crate) fn of_code(code: u8, parameter: u32) -> Result<Option<KeyOrder>> {
    let impossible =
        || Error::corruption(format!("a key order {code} has the parameter {parameter}"));
    let order = match code {
        0 => KeyOrder::Sorted,
        1 => KeyOrder::SemiSorted(PrefixRule::Bytes(parameter)),
        2 => {
            let byte = u8::try_from(parameter).map_err(|_| impossible())?;
            KeyOrder::SemiSorted(PrefixRule::Delimiter(byte))
        }
        3 => KeyOrder::SemiSorted(PrefixRule::LengthPrefixed),
        4 => KeyOrder::Hashed,
        _ => return Ok(None),
    };
    order.check().map_err(|_| impossible())?;
    if self::code(order) != (code, parameter) {
        return Err(impossible());
    }
    Ok(Some(order))
}

/// The order that a table names.
///
/// # Errors
/// `Corruption`, also for an unknown code.
pub(crate) fn of_table(code: u8, parameter: u32) -> Result<KeyOrder> {
    of_code(code, parameter)?
        .ok_or_else(|| Error::corruption(format!("expected a key order of 0 to 4, found {code}")))
}

/// The error for a range scan of an order without ranges.
fn no_ranges(order: KeyOrder, scans: &str) -> Error {
    Error::invalid(format!(
        "a keyspace of `{order}` keys has no range scans and no seeks: use {scans}, \
         or keep the keys that need an order in a second keyspace of order `sorted`, written in the same batches"
    ))
}
