//! Iterators: a range of keys of a snapshot, read in chunks.
//!
//! A chunk is one packed buffer: a byte that is 1 if the range has ended, the number of entries as
//! u32, then the entries. A key or a value that was not asked for is empty.

use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, Mutex, PoisonError};

use engine::{Cursor, Snapshot};
use napi::bindgen_prelude::AsyncTask;
use napi_derive::napi;

use crate::abort::Abort;
use crate::call::{Answer, Call, later};
use crate::database::Database;
use crate::failure::{Code, Failure, Result, caught};
use crate::handles::{self, Object};
use crate::opened::Opened;
use crate::packed::{Bytes, Reader, put_bytes};
use crate::writes::{Bounds, bounds};

const HEAD_BYTES: usize = 5;

/// An iterator that JavaScript has a handle of.
pub struct Iterator {
    pub(crate) db: Arc<Opened>,
    pub(crate) abort: Arc<Abort>,
    place: Mutex<Place>,
}

struct Place {
    database: Arc<Database>,
    snapshot: Snapshot,
    range: Bounds,
    reverse: bool,
    keys: bool,
    values: bool,
    /// Opened by the first chunk, because that may read a file, and dropped after the last one. It
    /// may hold the last reference to a file, so no thread of an event loop drops it.
    cursor: Option<Cursor>,
    at: At,
}

/// The position of the cursor of an iterator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the first key of the range.
    Start,
    /// On a key that was not yielded.
    Next,
    /// On the key that was yielded last.
    Yielded,
    End,
}

/// Opens an iterator over a packed range, of the present or of a snapshot. The result is a handle.
#[napi(catch_unwind)]
pub fn iterator(
    handle: f64,
    snapshot: f64,
    range: Bytes<'_>,
    reverse: bool,
    keys: bool,
    values: bool,
) -> napi::Result<f64, Code> {
    let opened = caught(|| {
        let database = handles::database(handle)?;
        let snapshot = match handles::snapshot(snapshot)? {
            Some(snapshot) => snapshot,
            None => database.db.snapshot()?,
        };
        let db = database.db.clone();
        let place = Mutex::new(Place {
            range: bounds(&mut Reader::new(&range))?,
            database,
            snapshot,
            reverse,
            keys,
            values,
            cursor: None,
            at: At::Start,
        });
        let abort = Arc::default();
        handles::insert(Object::Iterator(Arc::new(Iterator { db, abort, place })))
    });
    Ok(opened?)
}

/// Reads the next `count` entries, fewer if they have `bytes` together or the range ends. `last`
/// says that no more are wanted. With a target, moves there first: the first `length` bytes of a
/// buffer, none if it is negative.
#[napi(catch_unwind)]
pub fn nextv(
    handle: f64,
    count: u32,
    bytes: u32,
    last: bool,
    buffer: Bytes<'_>,
    length: i32,
) -> napi::Result<AsyncTask<Call>, Code> {
    let iterator = handles::iterator(handle)?;
    let target = usize::try_from(length)
        .ok()
        .and_then(|length| buffer.get(..length));
    let target = target.map(<[u8]>::to_vec);
    let bytes = bytes as usize;
    Ok(later(move || {
        let mut place = iterator
            .place
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = &target {
            place.seek(target)?;
        }
        let (chunk, entries) = place.chunk(count, bytes, &iterator.abort)?;
        if place.at == At::End || last && entries == count {
            place.cursor = None;
        }
        Ok(Answer::Bytes(chunk))
    }))
}

impl Iterator {
    /// True if its cursor is open and no call uses it.
    pub(crate) fn holds_cursor(&self) -> bool {
        self.place
            .try_lock()
            .is_ok_and(|place| place.cursor.is_some())
    }
}

impl Place {
    /// Moves to the first key at or behind a target, in the direction of the iterator. A target
    /// outside of the range is its end.
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let found = contains(&self.range, target) && self.position(Bound::Included(target))?;
        self.at = if found { At::Next } else { At::End };
        Ok(())
    }

    fn chunk(&mut self, count: u32, bytes: usize, abort: &Abort) -> Result<(Vec<u8>, u32)> {
        let mut out = vec![0; HEAD_BYTES];
        let mut entries = 0_u32;
        while entries < count {
            abort.check()?;
            if !self.step()? {
                out[0] = 1;
                break;
            }
            if !self.reverse && self.values {
                entries += self.visit(&mut out, count - entries, bytes, abort)?;
                abort.check()?;
                out[0] = u8::from(self.at == At::End);
                break;
            }
            self.put_entry(&mut out)?;
            entries += 1;
            if out.len() >= bytes {
                break;
            }
        }
        out[1..HEAD_BYTES].copy_from_slice(&entries.to_le_bytes());
        Ok((out, entries))
    }

    /// Adds the entry here and those behind it: at least one, and up to `count`. Returns their
    /// number.
    fn visit(&mut self, out: &mut Vec<u8>, count: u32, bytes: usize, abort: &Abort) -> Result<u32> {
        let (keys, mut entries, mut is_within) = (self.keys, 0, true);
        let upper = self.range.1.clone();
        let cursor = self.cursor()?;
        let goes_on = cursor.visit(|key, value| {
            is_within = match &upper {
                Bound::Unbounded => true,
                Bound::Included(upper) => key <= upper.as_slice(),
                Bound::Excluded(upper) => key < upper.as_slice(),
            };
            if is_within {
                put_bytes(out, if keys { key } else { b"" });
                put_bytes(out, value);
                entries += 1;
            }
            is_within && entries < count && out.len() < bytes && !abort.is_aborted()
        })?;
        self.at = match goes_on && is_within {
            true => At::Yielded,
            false => At::End,
        };
        Ok(entries)
    }

    /// Moves to the next key to be yielded. Returns true if there is one.
    fn step(&mut self) -> Result<bool> {
        let found = match self.at {
            At::End => false,
            At::Next => true,
            At::Start => {
                let (lower, upper) = self.range.clone();
                let start = if self.reverse { upper } else { lower };
                self.position(start.as_ref().map(Vec::as_slice))?
            }
            At::Yielded => self.advance()?,
        };
        let key = self.cursor.as_ref().and_then(Cursor::key);
        let is_within = found && key.is_some_and(|key| contains(&self.range, key));
        self.at = if is_within { At::Yielded } else { At::End };
        Ok(is_within)
    }

    /// Moves the cursor to the first key within a bound, in the direction of the iterator.
    fn position(&mut self, bound: Bound<&[u8]>) -> Result<bool> {
        let reverse = self.reverse;
        let cursor = self.cursor()?;
        let found = match (bound, reverse) {
            (Bound::Unbounded, false) => cursor.seek_first()?,
            (Bound::Unbounded, true) => cursor.seek_last()?,
            (Bound::Included(key) | Bound::Excluded(key), false) => cursor.seek(key)?,
            (Bound::Included(key) | Bound::Excluded(key), true) => cursor.seek_for_prev(key)?,
        };
        match bound {
            Bound::Excluded(key) if found && cursor.key() == Some(key) => self.advance(),
            _ => Ok(found),
        }
    }

    fn advance(&mut self) -> Result<bool> {
        let reverse = self.reverse;
        let cursor = self.cursor()?;
        Ok(if reverse {
            cursor.prev()?
        } else {
            cursor.next()?
        })
    }

    fn cursor(&mut self) -> Result<&mut Cursor> {
        if self.cursor.is_none() {
            self.cursor = Some(self.snapshot.cursor(&self.database.keyspace)?);
        }
        let none = || Failure::new(Code::INTERNAL, "the iterator has no cursor");
        self.cursor.as_mut().ok_or_else(none)
    }

    fn put_entry(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let (keys, values) = (self.keys, self.values);
        let cursor = self.cursor()?;
        let key = cursor.key().filter(|_| keys);
        put_bytes(out, key.unwrap_or_default());
        let value = if values { cursor.value()? } else { None };
        put_bytes(out, value.unwrap_or_default());
        Ok(())
    }
}

fn contains((lower, upper): &Bounds, key: &[u8]) -> bool {
    let lower = lower.as_ref().map(Vec::as_slice);
    (lower, upper.as_ref().map(Vec::as_slice)).contains(key)
}
