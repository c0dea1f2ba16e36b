//! The engine.
#![forbid(unsafe_code)]
#![allow(dead_code, unused_imports, reason = "under construction")]

mod block_index;
mod codec;
mod compaction;
mod entry;
mod error;
mod filter;
mod iter;
mod key_order;
mod merge_policy;
mod options;
mod page;
mod table;
mod version;
mod wal;

pub use error::{Error, ErrorKind, Result};
