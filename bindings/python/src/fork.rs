//! Parts of the engine in the child of a fork: errors, and never dropped.

use std::mem::ManuallyDrop;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use hedgerow_bindings::fork::depth;

/// A part of the engine, for the process that made it alone. The child of a fork gets an error
/// instead of it, and leaves it undropped: dropping would wait for threads that the child has not.
pub(crate) struct Owned<T> {
    value: Option<T>,
    depth: usize,
}

impl<T> Owned<T> {
    pub(crate) fn new(value: T) -> Owned<T> {
        Owned {
            value: Some(value),
            depth: depth(),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// `RuntimeError` in the child of a fork.
    #[inline]
    pub(crate) fn get(&self) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.depth == depth() => Ok(value),
            _ => Err(PyRuntimeError::new_err(
                "the database was opened before this process was forked: open it after the fork",
            )),
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.depth != depth() {
            let _left = ManuallyDrop::new(self.value.take());
        }
    }
}
