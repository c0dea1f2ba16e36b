//! Workloads over any key-value store, measured the same way.
//!
//! An engine under test is a [`Store`]; [`HedgerowStore`] is ours, those of
//! others live in a workspace of their own.
#![forbid(unsafe_code)]

mod hedgerow_store;
mod store;

pub use hedgerow_store::HedgerowStore;
pub use store::{Counters, Description, Error, OpenOptions, Result, Store};
