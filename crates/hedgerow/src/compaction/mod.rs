//! Compaction: merging tables into deeper levels.
//!
//! What decides is pure: [`planner`] says which tables to merge, [`retain`] which of their entries
//! to keep.

pub(crate) mod planner;
pub(crate) mod retain;
#[cfg(test)]
mod simulate;
