//! Iterators: positions among the keys of a keyspace, and buffers of many entries.

mod source;

use std::ffi::{c_int, c_void};

use engine::{Cursor, KeyOrder};
use hedgerow_bindings::foreign::{Buffer, Optional, Out, Room, entry_bytes, number};
use hedgerow_bindings::{Exclusive, Failure};

use crate::progress::Progress;
use crate::types::hg_code::*;
use crate::types::{
    ITERATORS, call, free, give, hg_bytes, hg_code, hg_error, hg_iter, hg_keyspace, hg_snapshot,
    keyspace, snapshot,
};
use source::Source;

/// The direction of a fill.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub enum hg_direction {
    /// To larger keys.
    HG_FORWARD = 0,
    /// To smaller keys.
    HG_BACKWARD = 1,
}

/// A position among the keys within some bounds.
pub(crate) struct Position {
    source: Source,
    /// The iterator has been moved.
    is_placed: bool,
    /// The cursor is on a key within the bounds.
    is_on_key: bool,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

impl Position {
    pub(crate) fn of_cursor(cursor: Cursor) -> Position {
        Position {
            source: Source::Ordered(cursor),
            is_placed: false,
            is_on_key: false,
            from: None,
            to: None,
        }
    }

    /// Notes that the source was moved, and checks the bounds.
    fn placed(&mut self, found: bool) -> bool {
        self.is_placed = true;
        let key = self.source.key().filter(|_| found);
        self.is_on_key = key.is_some_and(|key| {
            self.from.as_deref().is_none_or(|from| from <= key)
                && self.to.as_deref().is_none_or(|to| key < to)
        });
        self.is_on_key
    }

    fn seek_first(&mut self) -> Result<bool, Failure> {
        let found = match (&mut self.source, &self.from) {
            (Source::Ordered(cursor), None) => cursor.seek_first()?,
            (Source::Ordered(cursor), Some(from)) => cursor.seek(from)?,
            (Source::Unordered { .. }, _) if self.is_placed => {
                self.source.cursor()?;
                false
            }
            (Source::Unordered { .. }, _) => return self.next(),
        };
        Ok(self.placed(found))
    }

    fn seek_last(&mut self) -> Result<bool, Failure> {
        let cursor = self.source.cursor()?;
        let found = match &self.to {
            None => cursor.seek_last()?,
            Some(to) => {
                let found = cursor.seek_for_prev(to)?;
                // The bound itself is outside.
                match found && cursor.key() == Some(to) {
                    true => cursor.prev()?,
                    false => found,
                }
            }
        };
        Ok(self.placed(found))
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool, Failure> {
        if self.from.as_deref().is_some_and(|from| key < from) {
            return self.seek_first();
        }
        let found = self.source.cursor()?.seek(key)?;
        Ok(self.placed(found))
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool, Failure> {
        if self.to.as_deref().is_some_and(|to| to <= key) {
            return self.seek_last();
        }
        let found = self.source.cursor()?.seek_for_prev(key)?;
        Ok(self.placed(found))
    }

    /// Moves to the next key; an iterator that was never moved moves to the first one.
    fn next(&mut self) -> Result<bool, Failure> {
        let found = match &mut self.source {
            Source::Ordered(_) if !self.is_placed => return self.seek_first(),
            Source::Ordered(_) if !self.is_on_key => return Ok(false),
            Source::Ordered(cursor) => cursor.next()?,
            Source::Unordered { scan, entry } => {
                *entry = scan.next().transpose()?;
                entry.is_some()
            }
        };
        Ok(self.placed(found))
    }

    /// Moves to the key before; an iterator that was never moved moves to the last one.
    fn prev(&mut self) -> Result<bool, Failure> {
        if !self.is_placed {
            return self.seek_last();
        }
        let (is_on_key, cursor) = (self.is_on_key, self.source.cursor()?);
        let found = is_on_key && cursor.prev()?;
        Ok(self.placed(found))
    }

    fn step(&mut self, is_forward: bool) -> Result<bool, Failure> {
        match is_forward {
            true => self.next(),
            false => self.prev(),
        }
    }

    /// Writes entries from the position on, as many as there is room for. Returns their number, or
    /// the bytes that the first one needs.
    fn fill(&mut self, room: &mut Room<'_>, is_forward: bool) -> Result<Filled, Failure> {
        if !self.is_placed {
            self.step(is_forward)?;
        }
        let progress = Progress::of_thread();
        let at_once = progress.entries_at_once();
        let mut entries_max = at_once;
        loop {
            self.fill_up_to(entries_max, room, is_forward)?;
            if !self.is_on_key || room.entries() < entries_max {
                break;
            }
            if !progress.go_on(0, 0) {
                return Ok(Filled::Ended(room.entries()));
            }
            entries_max += at_once;
        }
        Ok(match room.entries() {
            0 if self.is_on_key => {
                let (key, value) = self.entry()?;
                Filled::Needs(entry_bytes(key, value))
            }
            entries => Filled::Entries(entries),
        })
    }

    /// Writes entries until there are so many, or no room.
    fn fill_up_to(
        &mut self,
        entries_max: usize,
        room: &mut Room<'_>,
        is_forward: bool,
    ) -> Result<(), Failure> {
        match &mut self.source {
            Source::Ordered(cursor) if is_forward && self.is_on_key => {
                let to = self.to.as_deref();
                let found = cursor.visit(|key, value| {
                    to.is_none_or(|to| key < to)
                        && room.entries() < entries_max
                        && room.push_entry(key, value)
                })?;
                self.placed(found);
            }
            _ => {
                while self.is_on_key && room.entries() < entries_max {
                    let (key, value) = self.entry()?;
                    if !room.push_entry(key, value) {
                        break;
                    }
                    self.step(is_forward)?;
                }
            }
        }
        Ok(())
    }

    /// The key and the value of the position.
    fn entry(&self) -> Result<(&[u8], &[u8]), Failure> {
        let (key, value) = (self.source.key(), self.source.value()?);
        Ok((key.unwrap_or_default(), value.unwrap_or_default()))
    }
}

enum Filled {
    Entries(usize),
    /// The progress function has ended the call behind this many.
    Ended(usize),
    /// There is no room for the next entry, which needs this many bytes.
    Needs(usize),
}

/// Makes an iterator.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_new(
    handle: *mut hg_keyspace,
    at: *const hg_snapshot,
    iter: *mut *mut hg_iter,
    error: *mut hg_error,
) -> hg_code {
    let make = |place: Out<*mut hg_iter>| {
        let (keyspace, snapshot) = (keyspace(handle)?, snapshot(at)?);
        let position = match keyspace.layout().order {
            KeyOrder::Hashed => Position {
                source: Source::Unordered {
                    scan: Box::new(match snapshot {
                        None => keyspace.scan_unordered()?,
                        Some(snapshot) => snapshot.scan_unordered(&keyspace)?,
                    }),
                    entry: None,
                },
                is_placed: false,
                is_on_key: false,
                from: None,
                to: None,
            },
            _ => Position::of_cursor(match snapshot {
                None => keyspace.cursor()?,
                Some(snapshot) => snapshot.cursor(&keyspace)?,
            }),
        };
        give(&place, &ITERATORS, Exclusive::new(position))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, iter, make) }
}

/// Frees an iterator.
#[unsafe(no_mangle)]
pub extern "C" fn hg_iter_free(iter: *mut hg_iter) -> hg_code {
    free(&ITERATORS, iter)
}

/// Keeps an iterator within bounds. It has no position then.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_set_bounds(
    iter: *mut hg_iter,
    from: hg_bytes,
    to: hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let set = |(from_key, to_key): (&[u8], &[u8])| {
        let iterator = ITERATORS.get(number(iter))?;
        let mut position = iterator.lock()?;
        position.source.cursor()?;
        let bound = |address: hg_bytes, key: &[u8]| (!address.data.is_null()).then(|| key.to_vec());
        position.from = bound(from, from_key);
        position.to = bound(to, to_key);
        position.is_placed = false;
        position.is_on_key = false;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (from, to), set) }
}

type Place = Option<Out<hg_bytes>>;

/// Moves an iterator and writes the addresses of key and value.
fn go(
    iter: *mut hg_iter,
    (key, value): (Place, Place),
    to: impl FnOnce(&mut Position) -> Result<bool, Failure>,
) -> Result<bool, Failure> {
    let iterator = ITERATORS.get(number(iter))?;
    let mut position = iterator.lock()?;
    let moved = to(&mut position).inspect_err(|_| position.is_on_key = false)?;
    if let (true, Some(place)) = (moved, key) {
        place.set(position.source.key().map_or(hg_bytes::NONE, hg_bytes::of));
    }
    if let (true, Some(place)) = (moved, value) {
        place.set(
            position
                .source
                .value()?
                .map_or(hg_bytes::NONE, hg_bytes::of),
        );
    }
    Ok(moved)
}

/// Moves to the first key.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_seek_first(
    iter: *mut hg_iter,
    key: *mut hg_bytes,
    value: *mut hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let places = (Optional(key), Optional(value));
    // SAFETY: the caller's promise.
    unsafe {
        call(error, places, |places| {
            go(iter, places, Position::seek_first)
        })
    }
}

/// Moves to the last key.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_seek_last(
    iter: *mut hg_iter,
    key: *mut hg_bytes,
    value: *mut hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let places = (Optional(key), Optional(value));
    // SAFETY: the caller's promise.
    unsafe {
        call(error, places, |places| {
            go(iter, places, Position::seek_last)
        })
    }
}

/// Moves to the first key at or after `target`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_seek(
    iter: *mut hg_iter,
    target: hg_bytes,
    key: *mut hg_bytes,
    value: *mut hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let seek = |(target, key, value): (&[u8], Place, Place)| {
        go(iter, (key, value), |position| position.seek(target))
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (target, Optional(key), Optional(value)), seek) }
}

/// Moves to the last key at or before `target`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_seek_for_prev(
    iter: *mut hg_iter,
    target: hg_bytes,
    key: *mut hg_bytes,
    value: *mut hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let seek = |(target, key, value): (&[u8], Place, Place)| {
        go(iter, (key, value), |position| {
            position.seek_for_prev(target)
        })
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (target, Optional(key), Optional(value)), seek) }
}

/// Moves to the next key.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_next(
    iter: *mut hg_iter,
    key: *mut hg_bytes,
    value: *mut hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let places = (Optional(key), Optional(value));
    // SAFETY: the caller's promise.
    unsafe { call(error, places, |places| go(iter, places, Position::next)) }
}

/// Moves to the key before.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_prev(
    iter: *mut hg_iter,
    key: *mut hg_bytes,
    value: *mut hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let places = (Optional(key), Optional(value));
    // SAFETY: the caller's promise.
    unsafe { call(error, places, |places| go(iter, places, Position::prev)) }
}

/// Writes key and value of the position without moving.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_entry(
    iter: *mut hg_iter,
    key: *mut hg_bytes,
    value: *mut hg_bytes,
    error: *mut hg_error,
) -> hg_code {
    let places = (Optional(key), Optional(value));
    // SAFETY: the caller's promise.
    unsafe {
        call(error, places, |places| {
            go(iter, places, |position| Ok(position.is_on_key))
        })
    }
}

/// Fills a buffer with entries and moves behind them.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_iter_fill(
    iter: *mut hg_iter,
    direction: c_int,
    buffer: *mut c_void,
    capacity: usize,
    used: *mut usize,
    count: *mut usize,
    error: *mut hg_error,
) -> hg_code {
    let fill = |(mut room, used, count): (Room<'_>, Out<usize>, Option<Out<usize>>)| {
        let is_forward = match direction {
            0 => true,
            1 => false,
            _ => {
                let found = format!("expected HG_FORWARD or HG_BACKWARD, found {direction}");
                return Err(Failure::invalid(found));
            }
        };
        let iterator = ITERATORS.get(number(iter))?;
        let mut position = iterator.lock()?;
        let filled = position.fill(&mut room, is_forward);
        let (code, bytes, entries) = match filled.inspect_err(|_| position.is_on_key = false)? {
            Filled::Entries(0) => (HG_NOT_FOUND, 0, 0),
            Filled::Entries(entries) => (HG_OK, capacity - room.left(), entries),
            Filled::Ended(entries) => (HG_CANCELLED, capacity - room.left(), entries),
            Filled::Needs(bytes) => (HG_BUFFER_TOO_SMALL, bytes, 0),
        };
        used.set(bytes);
        count.inspect(|count| count.set(entries));
        Ok(code)
    };
    let arguments = (Buffer(buffer, capacity), used, Optional(count));
    // SAFETY: the caller's promise.
    unsafe { call(error, arguments, fill) }
}
