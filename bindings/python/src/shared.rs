//! Parts of the engine that several threads use through one Python object, until it is closed.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::errors::closed;
use crate::fork::Owned;

/// A part of the engine that is closed at some time. No Python code runs while it is locked, so
/// that no thread waits for itself.
pub(crate) struct Closable<T> {
    what: &'static str,
    value: Owned<Mutex<Option<T>>>,
}

impl<T: Send> Closable<T> {
    pub(crate) fn new(what: &'static str, value: T) -> Closable<T> {
        Closable {
            what,
            value: Owned::new(Mutex::new(Some(value))),
        }
    }

    /// Uses the value.
    ///
    /// # Errors
    /// `ClosedError` if it was closed, `RuntimeError` in the child of a fork.
    pub(crate) fn with<R>(&self, py: Python<'_>, use_it: impl FnOnce(&mut T) -> R) -> PyResult<R> {
        let mut value = lock(self.value.get()?, py);
        value.as_mut().map(use_it).ok_or_else(|| closed(self.what))
    }

    /// Uses the value while other threads of Python run.
    ///
    /// # Errors
    /// As [`Closable::with`].
    pub(crate) fn with_detached<R: Send>(
        &self,
        py: Python<'_>,
        use_it: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        let value = self.value.get()?;
        let result = py.detach(|| {
            let mut value = value.lock().unwrap_or_else(PoisonError::into_inner);
            value.as_mut().map(use_it)
        });
        result.ok_or_else(|| closed(self.what))
    }

    /// Closes it and returns the value; `None` if it was closed before.
    ///
    /// # Errors
    /// `RuntimeError` in the child of a fork.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<Option<T>> {
        Ok(lock(self.value.get()?, py).take())
    }

    /// As [`Closable::close`].
    ///
    /// # Errors
    /// As [`Closable::with`].
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<T> {
        self.close(py)?.ok_or_else(|| closed(self.what))
    }

    /// Returns true if it was closed.
    pub(crate) fn is_closed(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(lock(self.value.get()?, py).is_none())
    }
}

fn lock<'a, T>(mutex: &'a Mutex<T>, py: Python<'_>) -> MutexGuard<'a, T> {
    mutex
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner)
}
