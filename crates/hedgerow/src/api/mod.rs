//! The handles that a program holds. Each method checks its arguments and calls one path.

// First: the documentation shows the methods of a type in the order of the modules.
pub(crate) mod db;
pub(crate) mod keyspace;

pub(crate) mod asynchronous;
pub(crate) mod batch;
pub(crate) mod follower;
pub mod inspect;
pub(crate) mod repair;
pub(crate) mod snapshot;
pub(crate) mod transaction;

#[cfg(any(test, feature = "internals"))]
pub mod internals;
