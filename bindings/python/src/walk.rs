//! A position between two entries of a range, which steps over them in both directions: the
//! iterator of `hedgerow.plyvel`.

use std::ops::Bound as End;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Bytes;
use crate::errors::OrRaise;
use crate::keyspace::Keyspace;
use crate::shared::Closable;
use crate::snapshot::Snapshot;

/// A walk over a range of entries.
#[pyclass(frozen, subclass, module = "hedgerow._native")]
pub(crate) struct Walk {
    state: Closable<State>,
    reverse: bool,
    keys: bool,
    values: bool,
    /// The bytes that every key begins with, which callers do not see.
    front: Vec<u8>,
}

struct State {
    cursor: engine::Cursor,
    at: At,
    lower: End<Vec<u8>>,
    upper: End<Vec<u8>>,
}

/// The position relative to the entry of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before all entries of the range; the cursor is anywhere.
    Start,
    /// Behind all entries of the range; the cursor is anywhere.
    Stop,
    Before,
    Behind,
}

impl State {
    /// Steps over the next entry, and leaves the cursor on it. Returns false at the end.
    fn forward(&mut self) -> engine::Result<bool> {
        let there = match self.at {
            At::Start => self.seek_lower()?,
            At::Stop => false,
            At::Before => true,
            At::Behind => self.cursor.next()?,
        };
        let inside = there && self.is_below_upper();
        self.at = if inside { At::Behind } else { At::Stop };
        Ok(inside)
    }

    /// Steps over the entry before, and leaves the cursor on it. Returns false at the beginning.
    fn backward(&mut self) -> engine::Result<bool> {
        let there = match self.at {
            At::Start => false,
            At::Stop => self.seek_upper()?,
            At::Before => self.cursor.prev()?,
            At::Behind => true,
        };
        let inside = there && self.is_above_lower();
        self.at = if inside { At::Before } else { At::Start };
        Ok(inside)
    }

    /// Moves to a place before the first entry at or behind a key.
    fn seek(&mut self, key: &[u8]) -> engine::Result<()> {
        let is_low = match &self.lower {
            End::Included(lower) | End::Excluded(lower) => key <= lower.as_slice(),
            End::Unbounded => false,
        };
        self.at = match is_low {
            true => At::Start,
            false if self.cursor.seek(key)? && self.is_below_upper() => At::Before,
            false => At::Stop,
        };
        Ok(())
    }

    fn seek_lower(&mut self) -> engine::Result<bool> {
        match &self.lower {
            End::Unbounded => self.cursor.seek_first(),
            End::Included(key) => self.cursor.seek(key),
            End::Excluded(key) => {
                let there = self.cursor.seek(key)?;
                match self.cursor.key() == Some(key) {
                    true => self.cursor.next(),
                    false => Ok(there),
                }
            }
        }
    }

    fn seek_upper(&mut self) -> engine::Result<bool> {
        match &self.upper {
            End::Unbounded => self.cursor.seek_last(),
            End::Included(key) => self.cursor.seek_for_prev(key),
            End::Excluded(key) => {
                let there = self.cursor.seek_for_prev(key)?;
                match self.cursor.key() == Some(key) {
                    true => self.cursor.prev(),
                    false => Ok(there),
                }
            }
        }
    }

    fn is_below_upper(&self) -> bool {
        match (&self.upper, self.cursor.key()) {
            (End::Included(upper), Some(key)) => key <= upper.as_slice(),
            (End::Excluded(upper), Some(key)) => key < upper.as_slice(),
            (End::Unbounded, _) | (_, None) => true,
        }
    }

    fn is_above_lower(&self) -> bool {
        match (&self.lower, self.cursor.key()) {
            (End::Included(lower), Some(key)) => key >= lower.as_slice(),
            (End::Excluded(lower), Some(key)) => key > lower.as_slice(),
            (End::Unbounded, _) | (_, None) => true,
        }
    }
}

impl Walk {
    /// Steps over an entry and returns it; `None` at the end.
    fn step(&self, py: Python<'_>, forward: bool) -> PyResult<Option<Py<PyAny>>> {
        let step = |state: &mut State| -> engine::Result<_> {
            let there = match forward {
                true => state.forward()?,
                false => state.backward()?,
            };
            if !there {
                return Ok(None);
            }
            let key = self.keys.then(|| state.cursor.key()).flatten();
            let key = key.map(|key| key.get(self.front.len()..).unwrap_or_default().to_vec());
            let value = match self.values {
                true => state.cursor.value()?.map(<[u8]>::to_vec),
                false => None,
            };
            Ok(Some((key, value)))
        };
        let Some(entry) = self.state.with_detached(py, step)?.or_raise()? else {
            return Ok(None);
        };
        let object = match entry {
            (Some(key), Some(value)) => (PyBytes::new(py, &key), PyBytes::new(py, &value))
                .into_pyobject(py)?
                .into_any()
                .unbind(),
            (Some(bytes), None) | (None, Some(bytes)) => {
                PyBytes::new(py, &bytes).into_any().unbind()
            }
            (None, None) => py.None(),
        };
        Ok(Some(object))
    }
}

/// A bound of a range: its key, and whether it belongs to the range.
type Limit<'py> = Option<(Bytes<'py>, bool)>;

fn end(limit: Limit<'_>) -> End<Vec<u8>> {
    match limit {
        None => End::Unbounded,
        Some((key, true)) => End::Included(key.to_vec()),
        Some((key, false)) => End::Excluded(key.to_vec()),
    }
}

#[pymethods]
impl Walk {
    #[new]
    fn new(
        py: Python<'_>,
        keyspace: &Bound<'_, Keyspace>,
        snapshot: Option<&Bound<'_, Snapshot>>,
        limits: (Limit<'_>, Limit<'_>),
        reverse: bool,
        wanted: (bool, bool),
        front: Bytes<'_>,
    ) -> PyResult<Walk> {
        let keyspace = keyspace.get().engine()?;
        let cursor = match snapshot {
            Some(snapshot) => snapshot.get().engine(py)?.cursor(keyspace),
            None => keyspace.cursor(),
        };
        let state = State {
            cursor: cursor.or_raise()?,
            at: if reverse { At::Stop } else { At::Start },
            lower: end(limits.0),
            upper: end(limits.1),
        };
        Ok(Walk {
            state: Closable::new("iterator", state),
            reverse,
            keys: wanted.0,
            values: wanted.1,
            front: front.to_vec(),
        })
    }

    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.step(py, !self.reverse)
    }

    /// Steps back over an entry. Returns a tuple of it; an empty one at the end.
    fn _prev(&self, py: Python<'_>) -> PyResult<Option<(Py<PyAny>,)>> {
        Ok(self.step(py, self.reverse)?.map(|entry| (entry,)))
    }

    /// Moves to a place before the first entry at or behind a key.
    fn seek(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        let key = [&self.front, &*key].concat();
        self.state
            .with_detached(py, |state| state.seek(&key))?
            .or_raise()
    }

    /// Moves before all entries.
    fn seek_to_start(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |state| state.at = At::Start)
    }

    /// Moves behind all entries.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |state| state.at = At::Stop)
    }

    /// Ends the iterator.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.close(py).map(drop)
    }
}
