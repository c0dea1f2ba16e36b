//! A scan: a cursor from each end of a range, until they meet.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::base::error::{Error, Result};
use crate::base::key_order::{Order, end_of_group};
use crate::base::slice::Slice;
use crate::tree::partition::KeyBounds;
use crate::tree::partition::ends::End;

use super::{Cursor, View};

/// A key and its value.
pub(crate) type Pair = (Slice, Slice);

/// The keys of a range, or of a prefix, with their values, from both ends. Made by `scan` and
/// `scan_prefix`.
///
/// An error ends the iteration from both ends, because their meeting point is unknown then. Every
/// further call returns the error again.
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
    pub(super) keeps_operands: bool,
    error: Option<Error>,
    view: Arc<View>,
    /// The bounds are order keys.
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    /// The prefix that the keys must have, if other keys may lie between the bounds.
    prefix: Option<Vec<u8>>,
}

impl Scan {
    /// Scans a view that covers the bounds.
    pub(crate) fn new(view: Arc<View>, extent: Extent) -> Scan {
        let (lower, upper) = extent.bounds;
        Scan {
            front: None,
            back: None,
            done: false,
            keeps_operands: false,
            error: None,
            view,
            lower,
            upper,
            prefix: extent.prefix,
        }
    }

    /// Moves the cursor of the front to the next key. Returns false at the end of the scan.
    fn step_front(&mut self) -> Result<bool> {
        loop {
            let fresh = self.front.is_none();
            let (view, upper) = (&self.view, &self.upper);
            let begin = || Cursor::to(view.clone(), upper);
            let cursor = self.front.get_or_insert_with(begin);
            cursor.keeps_operands = self.keeps_operands;
            let there = match &self.lower {
                _ if !fresh => cursor.next()?,
                Bound::Unbounded => cursor.seek_first()?,
                Bound::Included(key) => cursor.seek_at(key)?,
                Bound::Excluded(key) => cursor.seek_behind(key)?,
            };
            let Some(key) = cursor.order_key().filter(|_| there) else {
                return Ok(false);
            };
            let inside = is_below(&self.upper, key);
            let back = self.back.as_ref().and_then(Cursor::order_key);
            if !inside || back.is_some_and(|back| key >= back) {
                return Ok(false);
            }
            if has_prefix(&self.view, self.prefix.as_deref(), key) {
                return Ok(true);
            }
        }
    }

    /// Takes entries from the front and calls `see` with each key and value, until it returns false
    /// for the last one that it takes. Returns true then, and false at the end of the scan. Cost:
    /// less than that of the iterator, and no copy.
    ///
    /// # Errors
    /// As the iterator.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let files = db.keyspace("files", Layout::sorted())?;
    /// for (name, bytes) in [("a/1", "700"), ("a/2", "600"), ("b/1", "500")] {
    ///     files.put(name, bytes)?;
    /// }
    /// let mut longest = 0;
    /// files.scan_prefix("a/")?.visit(|name, _| {
    ///     longest = longest.max(name.len());
    ///     true
    /// })?;
    /// assert_eq!(longest, 3);
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn visit(&mut self, see: impl FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let visited = match self.done {
            true => Ok(false),
            false => self.visit_front(see),
        };
        match &visited {
            Ok(goes_on) => self.done = !goes_on,
            Err(error) => self.error = Some(error.clone()),
        }
        visited
    }

    fn visit_front(&mut self, mut see: impl FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        if !self.step_front()? {
            return Ok(false);
        }
        let Some(cursor) = &mut self.front else {
            return Ok(false);
        };
        let (view, upper, prefix) = (&self.view, &self.upper, self.prefix.as_deref());
        let back = self.back.as_ref().and_then(Cursor::order_key);
        let mut inside = true;
        let goes_on = cursor.visit_order(|key, value| {
            inside = is_below(upper, key) && back.is_none_or(|back| key < back);
            let is_wanted = inside && has_prefix(view, prefix, key);
            inside && (!is_wanted || see(view.state.facts.order.decode(key), value))
        })?;
        Ok(goes_on && inside)
    }

    /// Moves the cursor of the back to the key before. Returns false at the end of the scan.
    fn step_back(&mut self) -> Result<bool> {
        loop {
            let fresh = self.back.is_none();
            let view = &self.view;
            let cursor = self.back.get_or_insert_with(|| Cursor::new(view.clone()));
            let there = match &self.upper {
                _ if !fresh => cursor.prev()?,
                Bound::Unbounded => cursor.seek_last()?,
                Bound::Included(key) => cursor.seek_at_or_before(key)?,
                Bound::Excluded(key) => cursor.seek_before(key)?,
            };
            let Some(key) = cursor.order_key().filter(|_| there) else {
                return Ok(false);
            };
            let inside = match &self.lower {
                Bound::Unbounded => true,
                Bound::Included(lower) => key >= lower.as_slice(),
                Bound::Excluded(lower) => key > lower.as_slice(),
            };
            let front = self.front.as_ref().and_then(Cursor::order_key);
            if !inside || front.is_some_and(|front| key <= front) {
                return Ok(false);
            }
            if has_prefix(&self.view, self.prefix.as_deref(), key) {
                return Ok(true);
            }
        }
    }

    /// The order key that the cursor of an end has reached. It may be that of a tombstone, if no
    /// key with a value follows.
    pub(crate) fn reached(&self, end: End) -> Option<&[u8]> {
        let cursor = match end {
            End::First => &self.front,
            End::Last => &self.back,
        };
        let key = cursor.as_ref().map(|cursor| cursor.key.as_slice());
        key.filter(|key| !key.is_empty())
    }

    /// Takes one step from an end, unless the iteration is over. `item` is what the caller wants of
    /// the entry there.
    pub(crate) fn advance<T>(
        &mut self,
        end: End,
        item: impl Fn(&Cursor) -> Result<Option<T>>,
    ) -> Option<Result<T>> {
        if let Some(error) = &self.error {
            return Some(Err(error.clone()));
        }
        if self.done {
            return None;
        }
        let stepped = match end {
            End::First => self.step_front().map(|there| (there, &self.front)),
            End::Last => self.step_back().map(|there| (there, &self.back)),
        };
        let found = stepped.and_then(|(there, cursor)| match cursor {
            Some(cursor) if there => item(cursor),
            _ => Ok(None),
        });
        match found {
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

fn is_below(upper: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match upper {
        Bound::Unbounded => true,
        Bound::Included(upper) => key <= upper.as_slice(),
        Bound::Excluded(upper) => key < upper.as_slice(),
    }
}

impl Iterator for Scan {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(End::First, Cursor::pair)
    }
}

impl DoubleEndedIterator for Scan {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.advance(End::Last, Cursor::pair)
    }
}

/// Returns true if an order key between the bounds of a scan has its prefix.
fn has_prefix(view: &View, prefix: Option<&[u8]>, order_key: &[u8]) -> bool {
    let order = &view.state.facts.order;
    prefix.is_none_or(|prefix| order.has_prefix(order.decode(order_key), prefix))
}

/// The keys that a scan visits.
pub(crate) struct Extent {
    /// The bounds, as order keys.
    pub(crate) bounds: KeyBounds,
    /// The prefix that the keys must have, if other keys may lie between the bounds.
    prefix: Option<Vec<u8>>,
}

impl Extent {
    /// The keys of a range. The key order must have ranges.
    pub(crate) fn of_range<K: AsRef<[u8]>>(
        order: &dyn Order,
        range: &impl RangeBounds<K>,
    ) -> Result<Extent> {
        order.check_ranges()?;
        Ok(Extent {
            bounds: range_bounds(order, range)?,
            prefix: None,
        })
    }

    /// The keys from an order key on, going away from an end; all keys for `None`.
    pub(crate) fn from(end: End, order_key: Option<Vec<u8>>) -> Extent {
        let nearest = order_key.map_or(Bound::Unbounded, Bound::Included);
        let bounds = match end {
            End::First => (nearest, Bound::Unbounded),
            End::Last => (Bound::Unbounded, nearest),
        };
        Extent {
            bounds,
            prefix: None,
        }
    }

    /// The keys with a prefix; other keys may lie between them.
    pub(crate) fn of_prefix(order: &dyn Order, prefix: &[u8]) -> Result<Extent> {
        let group = order.group(prefix)?;
        let end = end_of_group(&group).map_or(Bound::Unbounded, Bound::Excluded);
        Ok(Extent {
            bounds: (Bound::Included(group), end),
            prefix: Some(prefix.to_vec()),
        })
    }

    /// All keys behind an order key; all keys for `None`.
    pub(super) fn behind(order_key: Option<Vec<u8>>) -> Extent {
        let lower = order_key.map_or(Bound::Unbounded, Bound::Excluded);
        Extent {
            bounds: (lower, Bound::Unbounded),
            prefix: None,
        }
    }
}

/// The order keys of a range of keys. The range is unbounded, or the key order has ranges. Refuses
/// keys beyond the limits.
pub(crate) fn range_bounds<K: AsRef<[u8]>>(
    order: &dyn Order,
    range: &impl RangeBounds<K>,
) -> Result<KeyBounds> {
    let encoded = |bound: Bound<&K>| -> Result<Bound<Vec<u8>>> {
        let bound = bound.map(AsRef::as_ref);
        if let Bound::Included(key) | Bound::Excluded(key) = bound {
            order.check_ranges()?;
            order.check(key)?;
        }
        Ok(bound.map(|key| {
            let mut order_key = Vec::with_capacity(key.len());
            order.encode(key, &mut order_key);
            order_key
        }))
    };
    Ok((encoded(range.start_bound())?, encoded(range.end_bound())?))
}
