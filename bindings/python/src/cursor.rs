//! Cursors: positions among the keys of a keyspace, which move both ways.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Bytes;
use crate::errors::OrRaise;
use crate::keyspace::Keyspace;
use crate::shared::Closable;

/// A position among the keys as they were when the cursor was opened.
#[pyclass(frozen, subclass, module = "hedgerow._native")]
pub(crate) struct Cursor {
    cursor: Closable<engine::Cursor>,
}

impl Cursor {
    fn moved(
        &self,
        py: Python<'_>,
        step: impl FnOnce(&mut engine::Cursor) -> engine::Result<bool> + Send,
    ) -> PyResult<bool> {
        self.cursor.with_detached(py, step)?.or_raise()
    }
}

#[pymethods]
impl Cursor {
    /// A cursor over a keyspace, as it is now or at a snapshot.
    #[new]
    #[pyo3(signature = (keyspace, snapshot=None))]
    fn new(
        py: Python<'_>,
        keyspace: &Bound<'_, Keyspace>,
        snapshot: Option<&Bound<'_, crate::snapshot::Snapshot>>,
    ) -> PyResult<Cursor> {
        let keyspace = keyspace.get().engine()?;
        let cursor = match snapshot {
            Some(snapshot) => snapshot.get().engine(py)?.cursor(keyspace),
            None => keyspace.cursor(),
        };
        Ok(Cursor {
            cursor: Closable::new("cursor", cursor.or_raise()?),
        })
    }

    /// Moves to the first key at or after this one. Returns true if there is one.
    fn seek(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        let key = &*key;
        self.moved(py, |cursor| cursor.seek(key))
    }

    /// Moves to the last key at or before this one. Returns true if there is one.
    fn seek_for_prev(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        let key = &*key;
        self.moved(py, |cursor| cursor.seek_for_prev(key))
    }

    /// Moves to the first key. Returns true if there is one.
    fn seek_first(&self, py: Python<'_>) -> PyResult<bool> {
        self.moved(py, engine::Cursor::seek_first)
    }

    /// Moves to the last key. Returns true if there is one.
    fn seek_last(&self, py: Python<'_>) -> PyResult<bool> {
        self.moved(py, engine::Cursor::seek_last)
    }

    /// Moves to the next key. Returns true if there is one.
    fn next(&self, py: Python<'_>) -> PyResult<bool> {
        self.moved(py, engine::Cursor::next)
    }

    /// Moves to the key before. Returns true if there is one.
    fn prev(&self, py: Python<'_>) -> PyResult<bool> {
        self.moved(py, engine::Cursor::prev)
    }

    /// The key here; `None` if there is no position.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let key = self
            .cursor
            .with(py, |cursor| cursor.key().map(<[u8]>::to_vec))?;
        Ok(key.map(|key| PyBytes::new(py, &key)))
    }

    /// The value here; `None` if there is no position.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = |cursor: &mut engine::Cursor| Ok(cursor.value()?.map(<[u8]>::to_vec));
        let value = self.cursor.with_detached(py, value)?.or_raise()?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// Ends the cursor.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.cursor.close(py).map(drop)
    }
}
