//! Gets of arrays of keys.
//!
//! The keys of a part of an array are looked up in their order, so that neighbours are found in the
//! same blocks while these are in the processor's caches, and by all processors.

use std::ops::Range;
use std::thread;

use pyo3::prelude::*;

use super::{BytesArray, Rows, Values, View, too_long};
use crate::errors::OrRaise;

/// Rows that are sorted and looked up between two looks for signals.
const ROWS_AT_ONCE: usize = 1 << 16;
/// A thread is begun for this many rows at least, for which it works a hundred times as long as it
/// takes to begin it.
const ROWS_OF_THREAD: usize = 1 << 13;
const THREADS_MAX: usize = 8;

/// Something with values: a keyspace as it is now, or at a snapshot.
pub(crate) trait Gets: Sync {
    /// Calls `see` with the place in `keys` and the value of each key that has a value.
    fn visit_values(&self, keys: &[&[u8]], see: impl FnMut(usize, &[u8])) -> engine::Result<()>;
}

impl Gets for engine::Keyspace {
    fn visit_values(&self, keys: &[&[u8]], see: impl FnMut(usize, &[u8])) -> engine::Result<()> {
        engine::Keyspace::visit_values(self, keys, see)
    }
}

/// The values of an array of keys, as an array.
pub(crate) fn get_rows(py: Python<'_>, keys: &Rows, source: &impl Gets) -> PyResult<BytesArray> {
    let keys = keys.view(py);
    let mut values = Values::new(keys.len());
    for first in (0..keys.len()).step_by(ROWS_AT_ONCE) {
        let some = first..keys.len().min(first + ROWS_AT_ONCE);
        let fits = py.detach(|| get_some(keys, some, source, &mut values));
        if !fits.or_raise()? {
            return Err(too_long());
        }
        py.check_signals()?;
    }
    Ok(values.finish())
}

/// Gets the values of some rows. Returns false if all values together are too long.
fn get_some(
    keys: View<'_>,
    rows: Range<usize>,
    source: &impl Gets,
    values: &mut Values,
) -> engine::Result<bool> {
    let first = rows.start;
    // The first bytes of each key as a number: comparing numbers is faster.
    let mut order: Vec<(u64, u32)> = rows
        .clone()
        .map(|row| front(keys.row(row)))
        .zip(0..)
        .collect();
    let key = |index: u32| keys.row(first + index as usize);
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = (rows.len() / ROWS_OF_THREAD).clamp(1, processors.min(THREADS_MAX));
    let parts = order.chunks(order.len().div_ceil(threads).max(1));
    let found: Vec<engine::Result<Found>> = thread::scope(|scope| {
        let work = |part| move || get_sorted(part, key, source);
        let (last, others) = parts
            .clone()
            .next_back()
            .zip(Some(parts.len() - 1))
            .unwrap_or_default();
        let begun: Vec<_> = parts
            .take(others)
            .map(|part| scope.spawn(work(part)))
            .collect();
        let own = work(last)();
        let joined = begun
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| panicked()));
        joined.chain([own]).collect()
    });
    let mut places = vec![(0, 0..0); rows.len()];
    let found = found.into_iter().collect::<engine::Result<Vec<_>>>()?;
    for (part, found) in found.iter().enumerate() {
        for (index, place) in &found.places {
            places[*index as usize] = (part + 1, place.clone());
        }
    }
    // A row without a place has no value.
    let value = |(part, place): &(usize, Range<usize>)| {
        part.checked_sub(1)
            .map(|part| &found[part].bytes[place.clone()])
    };
    Ok(places.iter().all(|place| values.push(value(place))))
}

fn panicked() -> engine::Result<Found> {
    Err(engine::Error::new(
        engine::ErrorKind::Cancelled,
        "a thread of the lookup panicked",
    ))
}

/// The first eight bytes of a key, in the order of keys.
fn front(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let length = key.len().min(8);
    bytes[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(bytes)
}

/// Values one after another, and the place of each with the index of its key.
#[derive(Default)]
struct Found {
    bytes: Vec<u8>,
    places: Vec<(u32, Range<usize>)>,
}

impl Found {
    fn push(&mut self, index: u32, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.places.push((index, start..self.bytes.len()));
    }
}

/// Looks keys up in their order.
fn get_sorted<'a>(
    order: &[(u64, u32)],
    key: impl Fn(u32) -> &'a [u8],
    source: &impl Gets,
) -> engine::Result<Found> {
    let mut found = Found::default();
    found.places.reserve(order.len());
    let keys: Vec<&[u8]> = order.iter().map(|(_, index)| key(*index)).collect();
    source.visit_values(&keys, |at, value| found.push(order[at].1, value))?;
    Ok(found)
}
