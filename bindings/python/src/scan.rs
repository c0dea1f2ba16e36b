//! Ranges of keys, many entries at a time.

use std::ops::Bound as End;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use engine::{Cursor, Error, KeyOrder, Keyspace, Scan, Slice, UnorderedScan};

use crate::arrays::{BytesArray, Values};
use crate::bytes::{Bytes, range};
use crate::errors::OrRaise;
use crate::packed::Packed;
use crate::shared::Closable;

/// The entries of the first step. A range of which only the first entries are wanted costs little.
const ENTRIES_FIRST: usize = 16;
/// Each step takes four times as many entries as the one before, up to this number. A step costs
/// about 1 us beside its entries: 2 ns for each of them.
pub(crate) const ENTRIES_MAX: usize = 512;
/// A step ends when its entries have this size together: they should be in the processor's cache
/// when Python takes them.
pub(crate) const STEP_BYTES_MAX: usize = 256 << 10;
/// Arrays have memory for so many entries at first.
const ARRAY_ENTRIES: usize = 1 << 16;
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
    /// those from the back and keys alone, but reads nothing behind its bound.
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

    /// Shows the next entries, until `see` returns false, which it does at the last one that it
    /// takes. A part that is not wanted may be empty.
    fn fill(
        &mut self,
        part: Part,
        mut see: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> engine::Result<()> {
        match self {
            Entries::Cursor {
                cursor,
                first,
                has_begun,
                reverse,
            } => {
                let mut goes_on = true;
                while goes_on && step(cursor, first.as_deref(), *has_begun, *reverse)? {
                    *has_begun = true;
                    if !*reverse && part != Part::Keys {
                        return cursor.visit(see).map(drop);
                    }
                    let value = match part {
                        Part::Keys => None,
                        Part::Values | Part::Items => cursor.value()?,
                    };
                    goes_on = see(cursor.key().unwrap_or_default(), value.unwrap_or_default());
                }
                Ok(())
            }
            Entries::Range(scan) => scan.visit(see).map(drop),
            Entries::Reverse(scan) => each(scan.rev(), see),
            Entries::Keys(keys) => each_key(keys, see),
            Entries::ReverseKeys(keys) => each_key(keys.rev(), see),
            Entries::Unordered(scan) => each(scan, see),
        }
    }
}

fn each(
    entries: impl Iterator<Item = engine::Result<(Slice, Slice)>>,
    mut see: impl FnMut(&[u8], &[u8]) -> bool,
) -> engine::Result<()> {
    for entry in entries {
        let (key, value) = entry?;
        if !see(&key, &value) {
            break;
        }
    }
    Ok(())
}

fn each_key(
    keys: impl Iterator<Item = engine::Result<Slice>>,
    mut see: impl FnMut(&[u8], &[u8]) -> bool,
) -> engine::Result<()> {
    for key in keys {
        if !see(&key?, b"") {
            break;
        }
    }
    Ok(())
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

/// The keys and the values of a step, those that are wanted.
#[derive(Default)]
struct Step {
    keys: Packed,
    values: Packed,
}

struct State {
    entries: Entries,
    /// The most entries of the next step.
    entries_max: usize,
    /// The memory of the last step, for the next one.
    step: Step,
    /// The error behind the last entries. Every further step has it.
    failed: Option<Error>,
}

impl State {
    /// The next entries. Those before an error come first; the next call returns the error.
    fn fill(
        &mut self,
        part: Part,
        mut see: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> engine::Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut count = 0;
        let filled = self.entries.fill(part, |key, value| {
            count += 1;
            see(key, value)
        });
        self.failed = filled.err();
        match &self.failed {
            Some(error) if count == 0 => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn next_step(&mut self, part: Part) -> engine::Result<Step> {
        let Step {
            mut keys,
            mut values,
        } = std::mem::take(&mut self.step);
        keys.clear();
        values.clear();
        let mut left = self.entries_max;
        self.entries_max = (left * 4).min(ENTRIES_MAX);
        self.fill(part, |key, value| {
            if part != Part::Values {
                keys.push(key);
            }
            if part != Part::Keys {
                values.push(value);
            }
            left -= 1;
            left > 0 && keys.bytes() + values.bytes() < STEP_BYTES_MAX
        })?;
        Ok(Step { keys, values })
    }

    fn next_arrays(&mut self, entries: usize) -> engine::Result<(Values, Values)> {
        let capacity = entries.min(ARRAY_ENTRIES);
        let (mut keys, mut values) = (Values::new(capacity), Values::new(capacity));
        let (mut left, mut bytes) = (entries, 0);
        self.fill(Part::Items, |key, value| {
            // They are far from too long together.
            keys.push(Some(key));
            values.push(Some(value));
            (left, bytes) = (left - 1, bytes + key.len() + value.len());
            left > 0 && bytes < ARRAY_BYTES_MAX
        })?;
        Ok((keys, values))
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
            entries_max: ENTRIES_FIRST,
            step: Step::default(),
            failed: None,
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
        let next = |state: &mut State| state.next_arrays(entries);
        let (keys, values) = self.state.with_detached(py, next)?.or_raise()?;
        Ok((!keys.is_empty()).then(|| (keys.finish(), values.finish())))
    }

    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    /// The next entries: a list of keys or of values, or both lists. So `zip` makes a tuple for an
    /// entry, and uses it again if nobody keeps it.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        py.check_signals()?;
        let part = self.part;
        let next = |state: &mut State| state.next_step(part);
        let step = self.state.with_detached(py, next)?.or_raise()?;
        if step.keys.len() + step.values.len() == 0 {
            return Ok(None);
        }
        let list =
            |packed: &Packed| PyList::new(py, packed.iter().map(|bytes| PyBytes::new(py, bytes)));
        let lists = match part {
            Part::Items => {
                let lists = (list(&step.keys)?, list(&step.values)?);
                lists.into_pyobject(py)?.into_any()
            }
            Part::Keys => list(&step.keys)?.into_any(),
            Part::Values => list(&step.values)?.into_any(),
        };
        self.state.with(py, |state| state.step = step)?;
        Ok(Some(lists))
    }
}
