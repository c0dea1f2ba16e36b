//! Ranges of keys, many entries at a time.

use std::ops::Bound as End;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use engine::{Cursor, KeyOrder, Keyspace, Scan, UnorderedScan};

use crate::arrays::{BytesArray, Values, too_long};
use crate::bytes::{Bytes, range};
use crate::errors::OrRaise;
use crate::shared::Closable;

/// The entries of the first step. A range of which only the first entries are wanted costs little.
const ENTRIES_FIRST: usize = 16;
/// Each step takes four times as many entries as the one before, up to this number: its entries
/// should be in the processor's cache when Python takes them.
const ENTRIES_MAX: usize = 256;
/// A step ends when its entries have this size together.
const STEP_BYTES_MAX: usize = 1 << 20;
/// A step into arrays ends when its entries have this size together.
const ARRAY_BYTES_MAX: usize = 64 << 20;

/// The part of the entries that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Keys,
    Values,
    Items,
}

impl<'a, 'py> FromPyObject<'a, 'py> for Part {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Part> {
        match object.extract::<&str>()? {
            "keys" => Ok(Part::Keys),
            "values" => Ok(Part::Values),
            _ => Ok(Part::Items),
        }
    }
}

/// The keys of a range.
pub(crate) type Bounds<'a> = (End<&'a [u8]>, End<&'a [u8]>);

/// Something with entries: a keyspace as it is now, or as a snapshot or a transaction sees it.
pub(crate) trait Scans {
    fn range(&mut self, of: &Keyspace, range: Bounds<'_>) -> engine::Result<Scan>;
    fn prefix(&mut self, of: &Keyspace, prefix: &[u8]) -> engine::Result<Scan>;
    fn unordered(&mut self, of: &Keyspace) -> engine::Result<UnorderedScan>;
    fn cursor(&mut self, of: &Keyspace) -> engine::Result<Cursor>;
}

/// The keyspace as it is now.
pub(crate) struct Present;

impl Scans for Present {
    fn range(&mut self, of: &Keyspace, range: Bounds<'_>) -> engine::Result<Scan> {
        of.scan::<&[u8]>(range)
    }

    fn prefix(&mut self, of: &Keyspace, prefix: &[u8]) -> engine::Result<Scan> {
        of.scan_prefix(prefix)
    }

    fn unordered(&mut self, of: &Keyspace) -> engine::Result<UnorderedScan> {
        of.scan_unordered()
    }

    fn cursor(&mut self, of: &Keyspace) -> engine::Result<Cursor> {
        of.cursor()
    }
}

/// The keys of a scan, as Python code gives them.
#[derive(FromPyObject)]
pub(crate) struct Range<'py> {
    start: Option<Bytes<'py>>,
    stop: Option<Bytes<'py>>,
    prefix: Option<Bytes<'py>>,
    reverse: bool,
}

impl Range<'_> {
    /// Begins a scan. All keys of a keyspace that is not sorted come in the order in which they are
    /// stored.
    pub(crate) fn scan(
        &self,
        source: &mut impl Scans,
        of: &Keyspace,
        part: Part,
    ) -> engine::Result<Entries> {
        let (first, last) = match self.reverse {
            false => (&self.start, &self.stop),
            true => (&self.stop, &self.start),
        };
        let is_sorted = of.layout().order == KeyOrder::Sorted;
        Ok(match (&self.prefix, last) {
            (Some(prefix), _) => Entries::of_scan(source.prefix(of, prefix)?, part, self.reverse),
            (None, None) if is_sorted => Entries::Cursor {
                cursor: Box::new(source.cursor(of)?),
                first: first.as_deref().map(<[u8]>::to_vec),
                has_begun: false,
                reverse: self.reverse,
            },
            (None, None) if first.is_none() && !self.reverse => {
                Entries::Unordered(Box::new(source.unordered(of)?))
            }
            _ => {
                let range = range(&self.start, &self.stop);
                Entries::of_scan(source.range(of, range)?, part, self.reverse)
            }
        })
    }
}

/// The entries of a range, from one of its ends.
pub(crate) enum Entries {
    /// A range up to the last key, or down to the first. A cursor lends its entries; a scan copies
    /// them, but reads nothing behind its bound.
    Cursor {
        cursor: Box<Cursor>,
        /// The bound at which it begins: included forwards, excluded backwards.
        first: Option<Vec<u8>>,
        has_begun: bool,
        reverse: bool,
    },
    Range(Box<Scan>),
    Reverse(Box<Scan>),
    Keys(Box<engine::Keys<Scan>>),
    ReverseKeys(Box<engine::Keys<Scan>>),
    Unordered(Box<UnorderedScan>),
}

impl Entries {
    fn of_scan(scan: Scan, part: Part, reverse: bool) -> Entries {
        match (part, reverse) {
            (Part::Keys, false) => Entries::Keys(Box::new(scan.keys())),
            (Part::Keys, true) => Entries::ReverseKeys(Box::new(scan.keys())),
            (_, false) => Entries::Range(Box::new(scan)),
            (_, true) => Entries::Reverse(Box::new(scan)),
        }
    }

    /// Adds the next entry. Returns false at the end.
    fn next(&mut self, part: Part, to: &mut Packed) -> engine::Result<bool> {
        let pair = match self {
            Entries::Cursor {
                cursor,
                first,
                has_begun,
                reverse,
            } => {
                if !step(cursor, first.as_deref(), *has_begun, *reverse)? {
                    return Ok(false);
                }
                *has_begun = true;
                if part != Part::Values {
                    to.push(cursor.key().unwrap_or_default());
                }
                if part != Part::Keys {
                    to.push(cursor.value()?.unwrap_or_default());
                }
                return Ok(true);
            }
            Entries::Range(scan) => scan.next(),
            Entries::Reverse(scan) => scan.next_back(),
            Entries::Keys(keys) => return to.push_key(keys.next()),
            Entries::ReverseKeys(keys) => return to.push_key(keys.next_back()),
            Entries::Unordered(scan) => scan.next(),
        };
        let Some((key, value)) = pair.transpose()? else {
            return Ok(false);
        };
        if part != Part::Values {
            to.push(&key);
        }
        if part != Part::Keys {
            to.push(&value);
        }
        Ok(true)
    }
}

/// Moves a cursor to its first or its next entry. Returns false at the end.
fn step(
    cursor: &mut Cursor,
    first: Option<&[u8]>,
    has_begun: bool,
    reverse: bool,
) -> engine::Result<bool> {
    match (has_begun, reverse, first) {
        (true, false, _) => cursor.next(),
        (true, true, _) => cursor.prev(),
        (false, false, None) => cursor.seek_first(),
        (false, true, None) => cursor.seek_last(),
        (false, false, Some(first)) => cursor.seek(first),
        (false, true, Some(first)) => {
            let there = cursor.seek_for_prev(first)?;
            match cursor.key() == Some(first) {
                true => cursor.prev(),
                false => Ok(there),
            }
        }
    }
}

/// Keys and values one after another, with the places where each ends.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packed {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len());
    }

    /// The key or value at a place.
    fn at(&self, place: usize) -> &[u8] {
        let start = match place {
            0 => 0,
            _ => self.ends[place - 1],
        };
        &self.bytes[start..self.ends[place]]
    }

    fn push_key(&mut self, key: Option<engine::Result<engine::Slice>>) -> engine::Result<bool> {
        let key = key.transpose()?;
        if let Some(key) = &key {
            self.push(key);
        }
        Ok(key.is_some())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

struct State {
    entries: Entries,
    step: usize,
    bytes_max: usize,
    /// The memory of the last step, for the next one.
    packed: Packed,
}

impl State {
    fn next(&mut self, part: Part) -> engine::Result<Packed> {
        let mut packed = std::mem::take(&mut self.packed);
        packed.clear();
        for _ in 0..self.step {
            match self.entries.next(part, &mut packed) {
                Ok(true) if packed.bytes.len() < self.bytes_max => {}
                Err(error) if packed.ends.is_empty() => return Err(error),
                // Entries before an error come first; the next step finds the error again.
                Ok(_) | Err(_) => break,
            }
        }
        self.step = (self.step * 4).min(ENTRIES_MAX);
        Ok(packed)
    }
}

/// Iterates over steps of entries, each of which it fetches under one lock.
#[pyclass(frozen, module = "hedgerow._native")]
pub(crate) struct Steps {
    state: Closable<State>,
    part: Part,
}

impl Steps {
    pub(crate) fn new(entries: Entries, part: Part) -> Steps {
        let state = State {
            entries,
            step: ENTRIES_FIRST,
            bytes_max: STEP_BYTES_MAX,
            packed: Packed::default(),
        };
        Steps {
            state: Closable::new("iterator", state),
            part,
        }
    }
}

#[pymethods]
impl Steps {
    /// The next entries, up to a number, as arrays of keys and values; `None` at the end.
    fn arrays(&self, py: Python<'_>, entries: usize) -> PyResult<Option<(BytesArray, BytesArray)>> {
        py.check_signals()?;
        let next = |state: &mut State| {
            (state.step, state.bytes_max) = (entries, ARRAY_BYTES_MAX);
            state.next(Part::Items)
        };
        let packed = self.state.with_detached(py, next)?.or_raise()?;
        if packed.ends.is_empty() {
            return Ok(None);
        }
        let count = packed.ends.len() / 2;
        let (mut keys, mut values) = (Values::new(count), Values::new(count));
        for place in 0..count {
            let (key, value) = (packed.at(place * 2), packed.at(place * 2 + 1));
            if !keys.push(Some(key)) || !values.push(Some(value)) {
                return Err(too_long());
            }
        }
        self.state.with(py, |state| state.packed = packed)?;
        Ok(Some((keys.finish(), values.finish())))
    }

    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    /// The next entries: a list of keys or of values, or both lists. So `zip` makes a tuple for an
    /// entry, and uses it again if nobody keeps it.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        py.check_signals()?;
        let part = self.part;
        let next = |state: &mut State| state.next(part);
        let packed = self.state.with_detached(py, next)?.or_raise()?;
        if packed.ends.is_empty() {
            return Ok(None);
        }
        let list = |first: usize, by: usize| {
            let places = (first..packed.ends.len()).step_by(by);
            PyList::new(py, places.map(|place| PyBytes::new(py, packed.at(place))))
        };
        let step = match part {
            Part::Items => (list(0, 2)?, list(1, 2)?).into_pyobject(py)?.into_any(),
            Part::Keys | Part::Values => list(0, 1)?.into_any(),
        };
        self.state.with(py, |state| state.packed = packed)?;
        Ok(Some(step))
    }
}
