//! A range of keys and the walk over it: in order, in either direction, or in stored order for
//! hashed keys.

use std::ffi::OsString;
use std::ops::{Bound, RangeBounds};

use hedgerow::{Cursor, KeyOrder, Keyspace, Slice, StoredEntry};

use crate::encoding::Encoding;
use crate::exit::Failure;
use crate::interrupt::Interrupt;

#[derive(Debug, clap::Args)]
pub(crate) struct RangeArguments {
    /// The first key of the range.
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,

    /// The end of the range; this key is not in it.
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,

    /// The prefix of the keys; for a semi-sorted keyspace, exactly the prefix that its layout cuts
    /// off.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
}

/// The keys from `from`, inclusive, to `to`, exclusive.
#[derive(Debug)]
pub(crate) struct Range {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    /// The prefix, if the range was given as one.
    prefix: Option<Vec<u8>>,
}

impl RangeArguments {
    /// Returns true if anything was given.
    pub(crate) fn is_given(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.prefix.is_some()
    }

    pub(crate) fn range(&self, encoding: Encoding) -> Result<Range, Failure> {
        let key = |argument: &Option<OsString>| {
            let key = argument.as_ref().map(|text| encoding.argument(text));
            key.transpose()
        };
        if let Some(prefix) = key(&self.prefix)? {
            return Ok(Range {
                to: successor(&prefix),
                from: Some(prefix.clone()),
                prefix: Some(prefix),
            });
        }
        Ok(Range {
            from: key(&self.from)?,
            to: key(&self.to)?,
            prefix: None,
        })
    }
}

/// The smallest key that is greater than all keys that begin with `prefix`; `None` if there is
/// none.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

impl Range {
    pub(crate) fn is_everything(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Returns true if a key of the range was given without a byte.
    pub(crate) fn has_empty_key(&self) -> bool {
        let mut keys = [&self.from, &self.to].into_iter().flatten();
        keys.any(Vec::is_empty)
    }

    /// The prefix, if the range was given as one.
    pub(crate) fn prefix(&self) -> Option<&[u8]> {
        self.prefix.as_deref()
    }

    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let lower = self
            .from
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Included);
        let upper = self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        (lower, upper)
    }
}

/// All entries of a range with their expiry.
pub(crate) type StoredEntries = Box<dyn Iterator<Item = hedgerow::Result<StoredEntry>>>;

impl Range {
    /// The entries of the range, those of unsorted keys in stored order.
    pub(crate) fn entries(&self, keyspace: &Keyspace) -> Result<StoredEntries, Failure> {
        let is_sorted = keyspace.layout().order == KeyOrder::Sorted;
        Ok(match &self.prefix {
            Some(prefix) if !is_sorted => Box::new(keyspace.scan_prefix(prefix)?.entries()),
            None if !is_sorted && self.is_everything() => {
                Box::new(keyspace.scan_unordered()?.entries())
            }
            // The engine refuses a range of unsorted keys and says why.
            _ => Box::new(keyspace.scan::<&[u8]>(self.bounds())?.entries()),
        })
    }
}

/// A walk over the keys of a range, as of the moment when it began. Ctrl-C ends it.
pub(crate) struct Walk {
    steps: Steps,
    interrupt: Interrupt,
}

enum Steps {
    InOrder(Box<InOrder>),
    AsStored(AsStored),
}

impl Walk {
    pub(crate) fn new(keyspace: &Keyspace, range: Range, reverse: bool) -> Result<Walk, Failure> {
        let interrupt = Interrupt::listen()?;
        let steps = Steps::new(keyspace, range, reverse)?;
        Ok(Walk { steps, interrupt })
    }

    /// Steps to the next key. Returns `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.interrupt.check()?;
        match &mut self.steps {
            Steps::InOrder(walk) => walk.next(),
            Steps::AsStored(walk) => walk.next(),
        }
    }

    /// The value of the key that [`Walk::next`] returned.
    pub(crate) fn value(&self) -> Result<&[u8], Failure> {
        let value = match &self.steps {
            Steps::InOrder(walk) => walk.cursor.value()?,
            Steps::AsStored(walk) => walk.here.as_ref().map(|(_, value)| &**value),
        };
        Ok(value.expect("a walk that is at a key has its value"))
    }
}

impl Steps {
    fn new(keyspace: &Keyspace, range: Range, reverse: bool) -> Result<Steps, Failure> {
        if keyspace.layout().order == KeyOrder::Sorted {
            return Ok(Steps::InOrder(Box::new(InOrder {
                cursor: keyspace.cursor()?,
                range,
                reverse,
                begun: false,
            })));
        }
        let items: Items = match (&range.prefix, reverse) {
            (Some(prefix), false) => Box::new(keyspace.scan_prefix(prefix)?),
            (Some(prefix), true) => Box::new(keyspace.scan_prefix(prefix)?.rev()),
            (None, false) if range.is_everything() => Box::new(keyspace.scan_unordered()?),
            // The engine refuses this and says why.
            (None, _) => Box::new(keyspace.scan::<&[u8]>(range.bounds())?),
        };
        Ok(Steps::AsStored(AsStored { items, here: None }))
    }
}

/// A walk in key order. A value is read only on demand.
pub(crate) struct InOrder {
    cursor: Cursor,
    range: Range,
    reverse: bool,
    begun: bool,
}

impl InOrder {
    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        let there = match (self.begun, self.reverse) {
            (true, false) => self.cursor.next()?,
            (true, true) => self.cursor.prev()?,
            (false, false) => self.seek_begin()?,
            (false, true) => self.seek_end()?,
        };
        self.begun = true;
        let bounds = self.range.bounds();
        let key = self.cursor.key().filter(|_| there);
        Ok(key.filter(|key| RangeBounds::<&[u8]>::contains::<&[u8]>(&bounds, key)))
    }

    fn seek_begin(&mut self) -> Result<bool, Failure> {
        Ok(match &self.range.from {
            Some(from) => self.cursor.seek(from)?,
            None => self.cursor.seek_first()?,
        })
    }

    fn seek_end(&mut self) -> Result<bool, Failure> {
        let Some(to) = &self.range.to else {
            return Ok(self.cursor.seek_last()?);
        };
        let there = self.cursor.seek_for_prev(to)?;
        Ok(match self.cursor.key() {
            Some(key) if key == to => self.cursor.prev()?,
            _ => there,
        })
    }
}

type Items = Box<dyn Iterator<Item = hedgerow::Result<(Slice, Slice)>>>;

/// A walk in stored order, each key with its value.
pub(crate) struct AsStored {
    items: Items,
    here: Option<(Slice, Slice)>,
}

impl AsStored {
    fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        self.here = self.items.next().transpose()?;
        Ok(self.here.as_ref().map(|(key, _)| &**key))
    }
}

#[cfg(test)]
mod tests {
    use super::successor;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(successor(b"a"), Some(b"b".to_vec()));
        assert_eq!(successor(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(successor(b"\xff\xff"), None);
    }
}
