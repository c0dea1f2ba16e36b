//! Arguments that are bytes, ranges of keys, times.

use std::ops::{Bound as End, Deref};
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use engine::io::WallTime;
use engine::{Durability, Expiry};

/// An argument that is bytes-like. Anything but `bytes` is copied, because others may change it
/// while the engine reads it.
pub(crate) struct Bytes<'py>(Bound<'py, PyBytes>);

impl<'a, 'py> FromPyObject<'a, 'py> for Bytes<'py> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Bytes<'py>> {
        match object.cast::<PyBytes>() {
            Ok(bytes) => Ok(Bytes(bytes.to_owned())),
            Err(_) => copied(&object),
        }
    }
}

#[cold]
fn copied<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bytes<'py>> {
    let Ok(view) = PyMemoryView::from(object) else {
        let found = object.get_type().qualname()?;
        return Err(PyTypeError::new_err(format!(
            "expected a bytes-like object, found {found}"
        )));
    };
    Ok(Bytes(view.call_method0("tobytes")?.cast_into()?))
}

impl Bytes<'_> {
    pub(crate) fn into_object(self) -> Py<PyBytes> {
        self.0.unbind()
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The keys from `start` on, and before `stop`.
pub(crate) fn range<'a>(
    start: &'a Option<Bytes<'_>>,
    stop: &'a Option<Bytes<'_>>,
) -> (End<&'a [u8]>, End<&'a [u8]>) {
    let start = start.as_deref().map_or(End::Unbounded, End::Included);
    (start, stop.as_deref().map_or(End::Unbounded, End::Excluded))
}

/// A durability as Python code says it.
pub(crate) fn durability(sync: bool) -> Durability {
    match sync {
        true => Durability::Synced,
        false => Durability::Buffered,
    }
}

/// The time until a value expires: seconds, or a `timedelta`; or the moment, as a `datetime` that
/// knows its time zone.
#[derive(Clone, Copy)]
pub(crate) struct Expires(pub(crate) Expiry);

impl<'a, 'py> FromPyObject<'a, 'py> for Expires {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Expires> {
        if let Ok(seconds) = object.extract::<f64>() {
            let duration = Duration::try_from_secs_f64(if seconds < 0.0 { 0.0 } else { seconds });
            let wrong = || PyValueError::new_err(format!("expected seconds, found {seconds:?}"));
            return Ok(Expires(Expiry::In(duration.map_err(|_| wrong())?)));
        }
        if let Ok(total) = object.call_method0("total_seconds") {
            return total.extract();
        }
        let Ok(timestamp) = object.call_method0("timestamp") else {
            let found = object.get_type().qualname()?;
            return Err(PyTypeError::new_err(format!(
                "expected seconds, a timedelta or a datetime, found {found}"
            )));
        };
        let since = Duration::try_from_secs_f64(timestamp.extract::<f64>()?.max(0.0));
        let at = since
            .ok()
            .and_then(|it| WallTime::UNIX_EPOCH.checked_add(it));
        let at = at.ok_or_else(|| PyValueError::new_err("expected a moment that exists"))?;
        Ok(Expires(Expiry::At(at)))
    }
}

/// A time of expiry in seconds since 1970; `None` is never.
pub(crate) fn timestamp(expiry: Expiry) -> Option<f64> {
    match expiry {
        Expiry::At(at) => {
            let since = at.duration_since(WallTime::UNIX_EPOCH).unwrap_or_default();
            Some(since.as_secs_f64())
        }
        _ => None,
    }
}
