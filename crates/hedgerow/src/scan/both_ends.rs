//! A scan: a cursor from each end of a range, until they meet.

use std::ops::{Bound, RangeBounds};

use crate::entry::check_key;
use crate::error::{Error, Result};
use crate::partition::KeyBounds;
use crate::slice::Slice;

use super::{Cursor, View};

/// A key and its value.
type Pair = (Slice, Slice);

/// The keys of a range with their values, from both ends. Made by `scan`.
///
/// An error ends the iteration from both ends, which cannot know any more where they would meet:
/// it is given once more at every further call.
///
/// ```
/// # use hedgerow::{Db, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Db::open(dir.path())?;
/// # let files = db.keyspace("files", Layout::sorted())?;
/// for name in ["a/1", "b/1", "b/2", "b/3", "c/1"] {
///     files.put(name, name.len().to_string())?;
/// }
/// let mut scan = files.scan_prefix("b/")?;
/// let (first, _) = scan.next().unwrap()?;
/// let (last, _) = scan.next_back().unwrap()?;
/// assert_eq!((&*first, &*last), (&b"b/1"[..], &b"b/3"[..]));
/// let rest = scan.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(rest.len(), 1);
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub struct Scan {
    front: Option<Cursor>,
    back: Option<Cursor>,
    done: bool,
    error: Option<Error>,
    view: View,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
}

impl Scan {
    /// Of a view that covers the bounds.
    pub(crate) fn new(view: View, (lower, upper): KeyBounds) -> Result<Scan> {
        // Refuses what cannot be scanned now, and not at the first item.
        let front = Some(Cursor::new(view.clone())?);
        Ok(Scan {
            front,
            back: None,
            done: false,
            error: None,
            view,
            lower,
            upper,
        })
    }

    fn step_front(&mut self) -> Result<Option<Pair>> {
        let fresh = self.front.as_ref().is_none_or(|c| c.key().is_none());
        let cursor = match &mut self.front {
            Some(cursor) => cursor,
            empty => empty.insert(Cursor::new(self.view.clone())?),
        };
        let mut there = match &self.lower {
            _ if !fresh => cursor.next()?,
            Bound::Unbounded => cursor.seek_first()?,
            Bound::Included(key) | Bound::Excluded(key) => cursor.seek(key)?,
        };
        if there
            && fresh
            && let Bound::Excluded(key) = &self.lower
            && cursor.key() == Some(key)
        {
            there = cursor.next()?;
        }
        let Some(key) = cursor.key().filter(|_| there) else {
            return Ok(None);
        };
        let inside = match &self.upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => key <= upper.as_slice(),
            Bound::Excluded(upper) => key < upper.as_slice(),
        };
        let met = self
            .back
            .as_ref()
            .and_then(Cursor::key)
            .is_some_and(|back| key >= back);
        if !inside || met {
            return Ok(None);
        }
        let key = Slice::copy_from(key);
        Ok(cursor.value()?.map(|value| (key, value)))
    }

    fn step_back(&mut self) -> Result<Option<Pair>> {
        let fresh = self.back.as_ref().is_none_or(|c| c.key().is_none());
        let cursor = match &mut self.back {
            Some(cursor) => cursor,
            empty => empty.insert(Cursor::new(self.view.clone())?),
        };
        let there = match &self.upper {
            _ if !fresh => cursor.prev()?,
            Bound::Unbounded => cursor.seek_last()?,
            Bound::Included(key) => cursor.seek_for_prev(key)?,
            Bound::Excluded(key) => cursor.seek_before(key)?,
        };
        let Some(key) = cursor.key().filter(|_| there) else {
            return Ok(None);
        };
        let inside = match &self.lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => key >= lower.as_slice(),
            Bound::Excluded(lower) => key > lower.as_slice(),
        };
        let met = self
            .front
            .as_ref()
            .and_then(Cursor::key)
            .is_some_and(|front| key <= front);
        if !inside || met {
            return Ok(None);
        }
        let key = Slice::copy_from(key);
        Ok(cursor.value()?.map(|value| (key, value)))
    }

    /// One step from an end, unless the iteration is over.
    fn advance(&mut self, step: fn(&mut Scan) -> Result<Option<Pair>>) -> Option<Result<Pair>> {
        if let Some(error) = &self.error {
            return Some(Err(error.clone()));
        }
        if self.done {
            return None;
        }
        match step(self) {
            Ok(None) => {
                self.done = true;
                None
            }
            Ok(Some(item)) => Some(Ok(item)),
            Err(error) => {
                self.error = Some(error.clone());
                Some(Err(error))
            }
        }
    }
}

impl Iterator for Scan {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(Scan::step_front)
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advance(Scan::step_back)
    }
}

/// A key range as owned bounds; keys beyond the limits are refused.
pub(crate) fn bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> Result<KeyBounds> {
    let owned = |bound: Bound<&K>| -> Result<Bound<Vec<u8>>> {
        Ok(match bound {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(key) => Bound::Included(checked(key.as_ref())?),
            Bound::Excluded(key) => Bound::Excluded(checked(key.as_ref())?),
        })
    };
    Ok((owned(range.start_bound())?, owned(range.end_bound())?))
}

/// A bound may be empty, which no key is.
fn checked(key: &[u8]) -> Result<Vec<u8>> {
    if !key.is_empty() {
        check_key(key)?;
    }
    Ok(key.to_vec())
}

/// The bounds of the keys with a prefix.
pub(crate) fn prefix_bounds(prefix: &[u8]) -> Result<KeyBounds> {
    Ok((Bound::Included(checked(prefix)?), prefix_end(prefix)))
}

/// The first key behind all keys with a prefix.
fn prefix_end(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xFF {
            *last += 1;
            return Bound::Excluded(end);
        }
        end.pop();
    }
    Bound::Unbounded
}
