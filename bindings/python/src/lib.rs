//! The native part of the Python package `hedgerow`: the engine's handles as classes.
//!
//! The classes that users see are in `python/hedgerow`; they inherit from these, so that a `get`
//! runs no Python code of ours. Every call of the engine lets other threads of Python run
//! meanwhile. A call that may take long runs on a thread of its own (`waiting`). In the child of a
//! fork every call is an error (`fork`).

mod arrays;
mod asynchronous;
mod batch;
mod bytes;
mod copies;
mod cursor;
mod db;
mod errors;
mod feed;
mod fork;
mod keyspace;
mod packed;
mod scan;
mod shared;
mod snapshot;
mod transaction;
mod waiting;
mod walk;

use pyo3::prelude::*;

/// The module `hedgerow._native`.
#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::arrays::{BytesArray, Rows};
    #[pymodule_export]
    use super::asynchronous::{Call, Completions};
    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::copies::Backups;
    #[pymodule_export]
    use super::cursor::Cursor;
    #[pymodule_export]
    use super::db::{Db, destroy, exists, repair};
    #[pymodule_export]
    use super::feed::Changes;
    #[pymodule_export]
    use super::keyspace::Keyspace;
    #[pymodule_export]
    use super::scan::Steps;
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::transaction::{Mark, Transaction};

    #[pymodule_export]
    use super::walk::Walk;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        hedgerow_bindings::fork::watch();
        Ok(())
    }
}
