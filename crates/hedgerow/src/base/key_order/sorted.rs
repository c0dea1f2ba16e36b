//! The order of the keys' bytes: the order key is the user key.

use super::Order;
use crate::base::entry::check_key;
use crate::base::error::Result;

/// Keys in the order of their bytes. Every range can be scanned.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sorted;

impl Order for Sorted {
    fn encode(&self, user_key: &[u8], order_key: &mut Vec<u8>) {
        order_key.extend_from_slice(user_key);
    }

    fn borrow<'a>(&self, user_key: &'a [u8], _scratch: &'a mut Vec<u8>) -> &'a [u8] {
        user_key
    }

    fn decode<'a>(&self, order_key: &'a [u8]) -> &'a [u8] {
        order_key
    }

    fn added_bytes(&self) -> usize {
        0
    }

    /// Every beginning of a key is a prefix, also the empty one.
    fn group(&self, prefix: &[u8]) -> Result<Vec<u8>> {
        check_key(prefix)?;
        Ok(prefix.to_vec())
    }

    fn has_prefix(&self, user_key: &[u8], prefix: &[u8]) -> bool {
        user_key.starts_with(prefix)
    }

    fn check_ranges(&self) -> Result<()> {
        Ok(())
    }
}
