//! The wire format of Redis, RESP: requests in, replies out. The code here does no I/O.

mod parts;
mod reply;
mod request;
#[cfg(test)]
mod tests;

pub use parts::is_parsed_alike;
pub(crate) use reply::{ELEMENT_BYTES, Reply, element_bytes, error};
pub use request::{Limits, Parser, ProtocolError, Request};
