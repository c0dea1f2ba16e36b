//! Snapshots: the whole database at one moment.

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::arrays::gets::{Gets, get_rows};
use crate::arrays::{BytesArray, Rows};
use crate::batch::chosen;
use crate::bytes::Bytes;
use crate::errors::OrRaise;
use crate::fork::Owned;
use crate::keyspace::{Keyspace, get_list, value_or};
use crate::scan::{Bounds, Part, Range, Scans, Steps};
use crate::shared::Closable;

/// A snapshot of the whole database, which reads one keyspace if a call names no other.
#[pyclass(frozen, subclass, module = "hedgerow._native")]
pub(crate) struct Snapshot {
    snapshot: Closable<engine::Snapshot>,
    keyspace: Owned<engine::Keyspace>,
}

impl Snapshot {
    /// The snapshot of the engine, which is a handle.
    pub(crate) fn engine(&self, py: Python<'_>) -> PyResult<engine::Snapshot> {
        self.snapshot.with(py, |snapshot| snapshot.clone())
    }
}

impl Scans for engine::Snapshot {
    fn range(&mut self, of: &engine::Keyspace, range: Bounds<'_>) -> engine::Result<engine::Scan> {
        self.scan::<&[u8]>(of, range)
    }

    fn prefix(&mut self, of: &engine::Keyspace, prefix: &[u8]) -> engine::Result<engine::Scan> {
        self.scan_prefix(of, prefix)
    }

    fn unordered(&mut self, of: &engine::Keyspace) -> engine::Result<engine::UnorderedScan> {
        self.scan_unordered(of)
    }

    fn cursor(&mut self, of: &engine::Keyspace) -> engine::Result<engine::Cursor> {
        engine::Snapshot::cursor(self, of)
    }
}

/// A keyspace at a snapshot.
struct At<'a>(&'a engine::Snapshot, &'a engine::Keyspace);

impl Gets for At<'_> {
    fn visit_values(&self, keys: &[&[u8]], see: impl FnMut(usize, &[u8])) -> engine::Result<()> {
        self.0.visit_values(self.1, keys, see)
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(keyspace: &Bound<'_, Keyspace>) -> PyResult<Snapshot> {
        let keyspace = keyspace.get();
        Ok(Snapshot {
            snapshot: Closable::new("snapshot", keyspace.db()?.snapshot().or_raise()?),
            keyspace: Owned::new(keyspace.engine()?.clone()),
        })
    }

    /// The value of a key.
    #[pyo3(signature = (key, default=None, *, keyspace=None))]
    fn get(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        default: Option<Py<PyAny>>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<Py<PyAny>> {
        let (keyspace, key) = (chosen(keyspace, &self.keyspace)?, &*key);
        let snapshot = self.engine(py)?;
        let value = py.detach(|| snapshot.get(keyspace, key)).or_raise()?;
        Ok(value_or(py, value, default))
    }

    fn __contains__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        let (keyspace, key, snapshot) = (self.keyspace.get()?, &*key, self.engine(py)?);
        py.detach(|| snapshot.contains_key(keyspace, key))
            .or_raise()
    }

    fn _get_list<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Bytes<'py>>,
        default: Py<PyAny>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        let snapshot = self.engine(py)?;
        get_list(py, &keys, &default, |some| {
            py.detach(|| snapshot.multi_get(keyspace, some)).or_raise()
        })
    }

    fn _get_rows(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, Rows>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<BytesArray> {
        let (keyspace, snapshot) = (chosen(keyspace, &self.keyspace)?, self.engine(py)?);
        get_rows(py, keys.get(), &At(&snapshot, keyspace))
    }

    fn _scan(
        &self,
        py: Python<'_>,
        part: Part,
        range: Range<'_>,
        keyspace: Option<&Bound<'_, Keyspace>>,
    ) -> PyResult<Steps> {
        let keyspace = chosen(keyspace, &self.keyspace)?;
        let entries = range.scan(&mut self.engine(py)?, keyspace, part);
        Ok(Steps::new(entries.or_raise()?, part))
    }

    /// The sequence number at which it reads.
    #[getter]
    fn number(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.engine(py)?.number())
    }

    /// Releases the snapshot.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.snapshot.close(py).map(drop)
    }
}
