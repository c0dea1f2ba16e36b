//! A position between two entries of a range, which steps over them in both directions: the
//! iterator of `hedgerow.plyvel`.
//!
//! It reads entries ahead in the direction of its steps, so that most steps make two objects and
//! nothing else. When the direction changes it goes back to its position.

use std::ops::Bound as End;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Bytes;
use crate::errors::OrRaise;
use crate::keyspace::Keyspace;
use crate::packed::Packed;
use crate::scan::{ENTRIES_MAX, STEP_BYTES_MAX};
use crate::shared::Closable;
use crate::snapshot::Snapshot;

/// The entries that are read ahead at first. Each time there are four times as many, up to
/// [`ENTRIES_MAX`].
const ENTRIES_FIRST: usize = 4;

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
    reads_values: bool,
    ahead: Ahead,
}

/// Entries that were read, in one direction. The cursor is on the last of them, or anywhere if the
/// range has ended.
struct Ahead {
    is_forward: bool,
    /// A key and a value of each, the value empty if it is not wanted.
    packed: Packed,
    /// The entries that were stepped over. The position is behind these.
    taken: usize,
    /// The most entries of the next read.
    entries_max: usize,
    /// The error behind the entries. Every further step in the direction has it.
    failed: Option<engine::Error>,
}

impl Ahead {
    fn new() -> Ahead {
        Ahead {
            is_forward: true,
            packed: Packed::default(),
            taken: 0,
            entries_max: ENTRIES_FIRST,
            failed: None,
        }
    }

    fn has_entry(&self, is_forward: bool) -> bool {
        self.is_forward == is_forward && self.taken < self.packed.len() / 2
    }

    /// Steps over an entry; `None` if there is none in this direction.
    fn take(&mut self, is_forward: bool) -> Option<(&[u8], &[u8])> {
        let place = 2 * self.taken;
        self.has_entry(is_forward).then(|| {
            self.taken += 1;
            (self.packed.at(place), self.packed.at(place + 1))
        })
    }

    fn clear(&mut self) {
        self.packed.clear();
        (self.taken, self.failed) = (0, None);
    }

    /// Adds an entry. Returns true if more are wanted.
    fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        self.packed.push(key);
        self.packed.push(value);
        self.packed.len() < 2 * self.entries_max && self.packed.bytes() < STEP_BYTES_MAX
    }
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

    /// Reads entries ahead, unless there are some. Returns false at the end.
    fn read(&mut self, is_forward: bool) -> engine::Result<bool> {
        if self.ahead.has_entry(is_forward) {
            return Ok(true);
        }
        if self.ahead.is_forward == is_forward
            && let Some(error) = &self.ahead.failed
        {
            return Err(error.clone());
        }
        self.go_back()?;
        self.ahead.is_forward = is_forward;
        if let Err(error) = self.add(is_forward) {
            self.at = if is_forward { At::Stop } else { At::Start };
            self.ahead.failed = Some(error.clone());
            if self.ahead.packed.len() == 0 {
                return Err(error);
            }
        }
        self.ahead.entries_max = (self.ahead.entries_max * 4).min(ENTRIES_MAX);
        Ok(self.ahead.packed.len() > 0)
    }

    /// Moves the cursor to the position, and forgets what was read ahead.
    fn go_back(&mut self) -> engine::Result<()> {
        let Ahead {
            packed,
            taken,
            is_forward,
            ..
        } = &self.ahead;
        if *taken < packed.len() / 2 {
            // The last entry that was taken, or the first one.
            self.cursor.seek(packed.at(2 * taken.saturating_sub(1)))?;
            self.at = match (*taken > 0) == *is_forward {
                true => At::Behind,
                false => At::Before,
            };
            self.ahead.entries_max = ENTRIES_FIRST;
        }
        self.ahead.clear();
        Ok(())
    }

    fn add(&mut self, is_forward: bool) -> engine::Result<()> {
        loop {
            let there = match is_forward {
                true => self.forward()?,
                false => self.backward()?,
            };
            if there && is_forward && self.reads_values {
                return self.visit();
            }
            if !there {
                return Ok(());
            }
            let value = match self.reads_values {
                true => self.cursor.value()?,
                false => None,
            };
            let key = self.cursor.key().unwrap_or_default();
            if !self.ahead.push(key, value.unwrap_or_default()) {
                return Ok(());
            }
        }
    }

    /// Adds the entry of the cursor and those behind it.
    fn visit(&mut self) -> engine::Result<()> {
        let State {
            cursor,
            upper,
            ahead,
            ..
        } = self;
        let mut inside = true;
        let there = cursor.visit(|key, value| {
            inside = is_below(upper, key);
            inside && ahead.push(key, value)
        })?;
        self.at = if there && inside {
            At::Behind
        } else {
            At::Stop
        };
        Ok(())
    }

    /// Moves to a place between entries without looking for it.
    fn place(&mut self, at: At) {
        self.ahead = Ahead::new();
        self.at = at;
    }

    /// Moves to a place before the first entry at or behind a key.
    fn seek(&mut self, key: &[u8]) -> engine::Result<()> {
        self.ahead = Ahead::new();
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
        let key = self.cursor.key();
        key.is_none_or(|key| is_below(&self.upper, key))
    }

    fn is_above_lower(&self) -> bool {
        match (&self.lower, self.cursor.key()) {
            (End::Included(lower), Some(key)) => key >= lower.as_slice(),
            (End::Excluded(lower), Some(key)) => key > lower.as_slice(),
            (End::Unbounded, _) | (_, None) => true,
        }
    }
}

fn is_below(upper: &End<Vec<u8>>, key: &[u8]) -> bool {
    match upper {
        End::Included(upper) => key <= upper.as_slice(),
        End::Excluded(upper) => key < upper.as_slice(),
        End::Unbounded => true,
    }
}

/// The objects of a key and of a value, those that are wanted.
type Objects<'py> = (Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

impl Walk {
    /// Steps over an entry and returns it; `None` at the end.
    fn step(&self, py: Python<'_>, is_forward: bool) -> PyResult<Option<Py<PyAny>>> {
        let entry = loop {
            if let Some(entry) = self.take(py, is_forward)? {
                break entry;
            }
            let read = |state: &mut State| state.read(is_forward);
            if !self.state.with_detached(py, read)?.or_raise()? {
                return Ok(None);
            }
        };
        // No object that other Python code may follow is made while the state is locked.
        let object = match entry {
            (Some(key), Some(value)) => (key, value).into_pyobject(py)?.into_any().unbind(),
            (Some(bytes), None) | (None, Some(bytes)) => bytes.into_any().unbind(),
            (None, None) => py.None(),
        };
        Ok(Some(object))
    }

    fn take<'py>(&self, py: Python<'py>, is_forward: bool) -> PyResult<Option<Objects<'py>>> {
        let front = self.front.len();
        self.state.with(py, |state| {
            let (key, value) = state.ahead.take(is_forward)?;
            let key = key.get(front..).unwrap_or_default();
            let key = self.keys.then(|| PyBytes::new(py, key));
            Some((key, self.values.then(|| PyBytes::new(py, value))))
        })
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
            reads_values: wanted.1,
            ahead: Ahead::new(),
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
        self.state.with(py, |state| state.place(At::Start))
    }

    /// Moves behind all entries.
    fn seek_to_stop(&self, py: Python<'_>) -> PyResult<()> {
        self.state.with(py, |state| state.place(At::Stop))
    }

    /// Ends the iterator.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.state.close(py).map(drop)
    }
}
