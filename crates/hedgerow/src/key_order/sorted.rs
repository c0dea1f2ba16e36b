//! The order of the keys' bytes: the order key is the user key.

use super::{Order, ScanSupport};

/// Keys in the order of their bytes; every range can be scanned.
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

    fn scans(&self) -> ScanSupport {
        ScanSupport::Range
    }
}
