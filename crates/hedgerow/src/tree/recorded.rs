//! An iterator that records the ranges of keys that a reader has learned something about.
//!
//! Going forward these are the keys from the place of the seek up to the entry reached; going
//! backward, down to the last entry that was left. So a reader of the first three keys of a large
//! range depends on nothing behind the third one. Backward the record may begin one entry too early
//! at the first entry of all; a check that uses it is stricter then, never laxer.
//!
//! Cost of a step: an uncontended lock, and a copy of the key.

use std::sync::{Arc, Mutex};

use crate::base::entry::SeqNo;
use crate::base::error::{Error, Result};
use crate::base::key_ranges::KeyRange;
use crate::base::mutex::lock;
use crate::base::page::PrefetchList;
use crate::base::range_tombstones::successor;
use crate::table::iter::{Entry, InternalIter};

/// The ranges that the iterators of a transaction have read in one keyspace.
#[derive(Debug)]
pub(crate) struct RangesRead {
    bytes_max: usize,
    read: Mutex<Read>,
}

#[derive(Debug, Default)]
struct Read {
    ranges: Vec<KeyRange>,
    /// The bytes of the ranges when each began.
    bytes: usize,
}

impl RangesRead {
    pub(crate) fn new(bytes_max: usize) -> Arc<RangesRead> {
        Arc::new(RangesRead {
            bytes_max,
            read: Mutex::default(),
        })
    }

    /// The ranges so far, as they were recorded.
    pub(crate) fn ranges(&self) -> Vec<KeyRange> {
        lock(&self.read).ranges.clone()
    }

    /// The approximate bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.read).bytes
    }

    /// Adds a range to the one at `place`, or as another one if they do not touch. Returns its
    /// place.
    fn add(&self, place: Option<usize>, range: KeyRange) -> Result<usize> {
        let mut read = lock(&self.read);
        if let Some(place) = place
            && read.ranges[place].join(&range)
        {
            return Ok(place);
        }
        read.bytes += size_of::<KeyRange>() + 2 * (range.start.len() + range.end.len());
        if read.bytes > self.bytes_max {
            return Err(Error::invalid(format!(
                "expected a transaction of at most {} bytes of memory, found more in the ranges \
                 that it has read",
                self.bytes_max
            )));
        }
        read.ranges.push(range);
        Ok(read.ranges.len() - 1)
    }
}

/// See the module.
pub(crate) struct RangeRecorder {
    inner: Box<dyn InternalIter>,
    reads: Arc<RangesRead>,
    /// The place of the current range.
    place: Option<usize>,
    /// Nothing at or behind this key is read; empty if there is no limit.
    limit: Vec<u8>,
}

impl RangeRecorder {
    pub(crate) fn new(inner: Box<dyn InternalIter>, reads: Arc<RangesRead>) -> RangeRecorder {
        RangeRecorder {
            inner,
            reads,
            place: None,
            limit: Vec::new(),
        }
    }

    /// The key reached going forward; `None` if there is none before the limit.
    fn reached(&self) -> Option<&[u8]> {
        let key = self.inner.entry()?.key;
        (self.limit.is_empty() || key < self.limit.as_slice()).then_some(key)
    }

    /// Records the keys from `start` up to the entry reached.
    fn read_from(&mut self, start: Vec<u8>) -> Result<()> {
        let end = self.reached().map_or_else(|| self.limit.clone(), successor);
        self.read(KeyRange { start, end })
    }

    /// Records the keys from the entry reached up to `end`.
    fn read_up_to(&mut self, end: Vec<u8>) -> Result<()> {
        let start = self.inner.entry().map(|entry| entry.key.to_vec());
        self.read(KeyRange {
            start: start.unwrap_or_default(),
            end,
        })
    }

    fn read(&mut self, range: KeyRange) -> Result<()> {
        if range.ends_behind(&range.start) {
            self.place = Some(self.reads.add(self.place, range)?);
        }
        Ok(())
    }

    /// Changes the current range.
    fn extend(&self, change: impl FnOnce(&mut KeyRange)) {
        if let Some(place) = self.place {
            change(&mut lock(&self.reads.read).ranges[place]);
        }
    }
}

impl InternalIter for RangeRecorder {
    fn limit(&mut self, end: &[u8]) {
        self.limit = end.to_vec();
        self.inner.limit(end);
    }

    fn prepare(&mut self, key: &[u8], wanted: &mut PrefetchList) {
        self.inner.prepare(key, wanted);
    }

    fn seek(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.inner.seek(key, seqno)?;
        // Behind all versions of the key.
        let is_behind = seqno == SeqNo(0);
        self.read_from(if is_behind {
            successor(key)
        } else {
            key.to_vec()
        })
    }

    fn seek_before(&mut self, key: &[u8], seqno: SeqNo) -> Result<()> {
        self.inner.seek_before(key, seqno)?;
        let is_before = seqno == SeqNo::MAX;
        if is_before && key.is_empty() {
            return Ok(());
        }
        self.read_up_to(if is_before {
            key.to_vec()
        } else {
            successor(key)
        })
    }

    fn seek_first(&mut self) -> Result<()> {
        self.inner.seek_first()?;
        self.read_from(Vec::new())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.inner.seek_last()?;
        self.read_up_to(Vec::new())
    }

    fn advance(&mut self) -> Result<()> {
        self.inner.advance()?;
        let reached = self.reached();
        self.extend(|range| match reached {
            _ if range.end.is_empty() => {}
            Some(key) if !range.ends_behind(key) => {
                range.end.clear();
                range.end.extend_from_slice(key);
                range.end.push(0);
            }
            None if self.limit.is_empty() || range.end < self.limit => {
                range.end.clone_from(&self.limit);
            }
            _ => {}
        });
        Ok(())
    }

    fn retreat(&mut self) -> Result<()> {
        let left = self.inner.entry().map(|entry| entry.key);
        self.extend(|range| {
            if let Some(key) = left.filter(|&key| key < range.start.as_slice()) {
                range.start.clear();
                range.start.extend_from_slice(key);
            }
        });
        self.inner.retreat()?;
        if !self.inner.is_at_entry() {
            self.extend(|range| range.start.clear());
        }
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.inner.entry()
    }

    fn is_at_entry(&self) -> bool {
        self.inner.is_at_entry()
    }
}

#[cfg(test)]
mod tests;
