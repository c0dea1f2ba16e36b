//! Key order as an encoding: a user key becomes an *order key* whose bytes sort by `memcmp`, so
//! that nothing below this module knows which order a keyspace has.

#[cfg(test)]
mod conformance;
#[cfg_attr(not(test), expect(dead_code, reason = "no layout has this order yet"))]
mod semi_sorted;
mod sorted;

pub(crate) use sorted::Sorted;

use std::fmt::Debug;

/// Which scans an order can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(
    dead_code,
    reason = "the semi-sorted and hashed orders construct the other two"
)]
pub(crate) enum ScanSupport {
    /// Any range of user keys.
    Range,
    /// The keys of one prefix.
    Prefix,
    /// Everything, in no order that means anything to the user.
    Unordered,
}

/// The encoding of one key order. `decode(encode(k)) == k`, and encodings of different keys differ.
pub(crate) trait Order: Debug + Send + Sync {
    /// Appends the order key of a user key.
    fn encode(&self, user_key: &[u8], order_key: &mut Vec<u8>);
    /// The order key of a user key, in `scratch` unless the user key serves as it is.
    fn borrow<'a>(&self, user_key: &'a [u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
        scratch.clear();
        self.encode(user_key, scratch);
        scratch
    }
    /// The part of an order key that is the user key.
    fn decode<'a>(&self, order_key: &'a [u8]) -> &'a [u8];
    /// Which scans make sense.
    fn scans(&self) -> ScanSupport;
}
