//! The target shape of a tree and its cost, decided over plain data, without I/O.

pub mod advisor;
pub(crate) mod allocation;
pub(crate) mod cluster_plan;
pub(crate) mod in_force;
pub(crate) mod merge_policy;
pub(crate) mod planner;
pub(crate) mod simulate;
pub(crate) mod table_ends;
