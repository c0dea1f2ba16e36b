//! Writes of single keys, of ranges, and of many keys at once.

use std::thread;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use engine::{Error, Expiry, LoadOp, Slice};
use hedgerow_bindings::Failure;
use hedgerow_bindings::load::bulk_load;

use super::{Keyspace, value_or};
use crate::bytes::{Bytes, Expires, durability, range, timestamp};
use crate::errors::{OrRaise, panicked, raised};

/// The error of a call: of the engine, or of what Python code gave.
pub(crate) enum Failed {
    Engine(Error),
    Python(PyErr),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Engine(error)
    }
}

impl From<PyErr> for Failed {
    fn from(error: PyErr) -> Failed {
        Failed::Python(error)
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        match failure.kind {
            Some(kind) => Failed::Engine(Error::new(kind, failure.message.clone())),
            None => Failed::Python(panicked()),
        }
    }
}

impl From<Failed> for PyErr {
    fn from(failed: Failed) -> PyErr {
        match failed {
            Failed::Engine(error) => raised(&error),
            Failed::Python(error) => error,
        }
    }
}

#[pymethods]
impl Keyspace {
    /// Gives a key a value.
    #[pyo3(signature = (key, value, *, sync=false, expire=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        sync: bool,
        expire: Option<Expires>,
    ) -> PyResult<()> {
        let (keyspace, durability) = (self.for_writing(py)?, durability(sync));
        let (key, value) = (&*key, &*value);
        let put = || match expire {
            None => keyspace.put_with(key, value, durability),
            Some(Expires(at)) => keyspace.put_expiring_with(key, value, at, durability),
        };
        py.detach(put).or_raise()
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        let (keyspace, key, value) = (self.for_writing(py)?, &*key, &*value);
        py.detach(|| keyspace.put(key, value)).or_raise()
    }

    /// Deletes a key, whether it has a value or not.
    #[pyo3(signature = (key, *, sync=false))]
    fn delete(&self, py: Python<'_>, key: Bytes<'_>, sync: bool) -> PyResult<()> {
        let (keyspace, durability, key) = (self.for_writing(py)?, durability(sync), &*key);
        py.detach(|| keyspace.delete_with(key, durability))
            .or_raise()
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        match self.take(py, &key)? {
            Some(_) => Ok(()),
            None => Err(key.missing()),
        }
    }

    /// Takes the value of a key; the default if it has none.
    fn _take(&self, py: Python<'_>, key: Bytes<'_>, default: Py<PyAny>) -> PyResult<Py<PyAny>> {
        Ok(value_or(py, self.take(py, &key)?, Some(default)))
    }

    /// Deletes the keys from `start` on and before `stop`.
    #[pyo3(signature = (start=None, stop=None, *, sync=false))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        sync: bool,
    ) -> PyResult<()> {
        let (keyspace, durability) = (self.for_writing(py)?, durability(sync));
        let range = range(&start, &stop);
        py.detach(|| keyspace.delete_range_with::<&[u8]>(range, durability))
            .or_raise()
    }

    /// Deletes the keys with a prefix.
    #[pyo3(signature = (prefix, *, sync=false))]
    fn delete_prefix(&self, py: Python<'_>, prefix: Bytes<'_>, sync: bool) -> PyResult<()> {
        let (keyspace, durability, prefix) = (self.for_writing(py)?, durability(sync), &*prefix);
        py.detach(|| keyspace.delete_prefix_with(prefix, durability))
            .or_raise()
    }

    /// Changes a value by an operand of the keyspace's merge operator.
    #[pyo3(signature = (key, operand, *, sync=false))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        operand: Bytes<'_>,
        sync: bool,
    ) -> PyResult<()> {
        let (keyspace, durability) = (self.for_writing(py)?, durability(sync));
        let (key, operand) = (&*key, &*operand);
        py.detach(|| keyspace.merge_with(key, operand, durability))
            .or_raise()
    }

    /// Gives a key the value `new` if its value is `expected`; `None` is no value.
    fn compare_and_swap(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        expected: Option<Bytes<'_>>,
        new: Option<Bytes<'_>>,
    ) -> PyResult<bool> {
        let (keyspace, key) = (self.for_writing(py)?, &*key);
        let (expected, new) = (expected.as_deref(), new.as_deref());
        py.detach(|| keyspace.compare_and_swap(key, expected, new))
            .or_raise()
    }

    /// Gives a key a value if it has none. Returns the value that it had.
    fn put_if_absent(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, key, value) = (self.for_writing(py)?, &*key, &*value);
        let old = py
            .detach(|| keyspace.put_if_absent(key, value))
            .or_raise()?;
        Ok(value_or(py, old, None))
    }

    /// Replaces a value atomically by what a function returns for it. The function may be called
    /// several times.
    #[pyo3(signature = (key, function, *, sync=false))]
    fn modify(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        function: Py<PyAny>,
        sync: bool,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, durability, key) = (self.for_writing(py)?, durability(sync), &*key);
        let call = |old: Option<&[u8]>| {
            Python::attach(|py| {
                let old = old.map(|old| PyBytes::new(py, old));
                let new: Option<Bytes<'_>> = function.bind(py).call1((old,))?.extract()?;
                Ok(new.map(|new| new.to_vec()))
            })
            .map_err(Failed::Python)
        };
        let new = py.detach(|| keyspace.try_update_with(key, call, durability))?;
        Ok(value_or(py, new, None))
    }

    /// The time when a value expires, in seconds since 1970; `None` is never.
    fn expiry(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<Option<f64>> {
        let (keyspace, bytes) = (self.engine()?, &*key);
        match py.detach(|| keyspace.expiry(bytes)).or_raise()? {
            Some(expiry) => Ok(timestamp(expiry)),
            None => Err(key.missing()),
        }
    }

    /// Changes the time when a value expires; `None` is never. Returns false if there is none.
    #[pyo3(signature = (key, expire))]
    fn set_expiry(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        expire: Option<Expires>,
    ) -> PyResult<bool> {
        let (keyspace, key) = (self.for_writing(py)?, &*key);
        let expiry = expire.map_or(Expiry::Never, |it| it.0);
        py.detach(|| keyspace.set_expiry(key, expiry)).or_raise()
    }

    /// Loads entries in the order of their keys past the log and the memtables. Returns their
    /// number.
    fn bulk_load(&self, py: Python<'_>, entries: &Bound<'_, PyAny>) -> PyResult<u64> {
        let keyspace = self.engine()?.clone();
        let mut entries = entries.try_iter()?;
        let next = || -> Result<_, Failed> {
            py.check_signals()?;
            let Some(entry) = entries.next().transpose()? else {
                return Ok(None);
            };
            let (key, value): (Bytes<'_>, Bytes<'_>) = entry.extract()?;
            Ok(Some((key.to_vec(), LoadOp::Put(value.to_vec()))))
        };
        let pause = |time| {
            py.detach(|| thread::sleep(time));
            Ok(py.check_signals()?)
        };
        let report = bulk_load(keyspace, next, pause)?;
        Ok(report.entries)
    }
}

impl Keyspace {
    /// Removes the value of a key and returns it.
    fn take(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Slice>> {
        let keyspace = self.for_writing(py)?;
        let mut taken = None;
        let take = || {
            keyspace.update(key, |old| {
                taken = old.map(Slice::copy_from);
                None
            })
        };
        py.detach(take).or_raise()?;
        Ok(taken)
    }
}
