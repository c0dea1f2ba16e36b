//! Errors of the engine as exceptions of the module `hedgerow.errors`.

use std::error::Error as _;
use std::io;
use std::path::Path;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use engine::{Error, ErrorKind};

static EXCEPTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The exception for an error of the engine.
pub(crate) fn raised(error: &Error) -> PyErr {
    let source = error.source().and_then(|it| it.downcast_ref::<io::Error>());
    let errno = source.and_then(io::Error::raw_os_error);
    // `hedgerow.errors` knows a kind by its name.
    let (kind, number) = match error.kind() {
        ErrorKind::Gap { oldest } => ("Gap".to_owned(), Some(oldest)),
        kind => (format!("{kind:?}"), error.offset()),
    };
    let place = (error.path(), number);
    exception(&kind, &error.to_string(), place, errno)
}

/// The exception for a database that is not there.
pub(crate) fn missing(dir: &Path) -> PyErr {
    let message = format!("expected a database in {}, found none", dir.display());
    exception("Missing", &message, (Some(dir), None), None)
}

fn exception(
    kind: &str,
    message: &str,
    (path, number): (Option<&Path>, Option<u64>),
    errno: Option<i32>,
) -> PyErr {
    Python::attach(|py| {
        let made = EXCEPTION
            .import(py, "hedgerow.errors", "_exception")
            .and_then(|make| make.call1((kind, message, path, number, errno)));
        made.map_or_else(|failed| failed, PyErr::from_value)
    })
}

/// The exception for the use of something that was closed.
pub(crate) fn closed(what: &str) -> PyErr {
    raised(&Error::new(
        ErrorKind::Closed,
        format!("the {what} is closed"),
    ))
}

/// The exception for a thread that ended without a result.
pub(crate) fn panicked() -> PyErr {
    PyRuntimeError::new_err("the engine panicked; its message is in the standard error output")
}

/// Turns errors of the engine into exceptions.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> PyResult<T>;
}

impl<T> OrRaise<T> for engine::Result<T> {
    #[inline]
    fn or_raise(self) -> PyResult<T> {
        self.map_err(|error| raised(&error))
    }
}
