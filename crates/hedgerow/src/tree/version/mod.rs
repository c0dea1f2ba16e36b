//! The parts of a partition's tree: immutable versions, the edits that lead from one to the next,
//! and the manifest that keeps the edits.

pub(crate) mod edit;
pub(crate) mod edit_encoding;
pub(crate) mod feed;
pub(crate) mod manifest;
pub(crate) mod options_encoding;
pub(crate) mod places;
mod set;
pub(crate) mod state;
mod super_version;

pub(crate) use set::VersionSet;
pub(crate) use super_version::SuperVersion;

use std::sync::Arc;

use crate::design::merge_policy::shape::Shape;
use crate::table::Table;

/// The tables of one tree at one moment; never changed, only replaced.
pub(crate) type Version = Shape<Arc<Table>>;
