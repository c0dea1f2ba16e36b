//! The entries of a restart interval up to the current one, for steps backward.

use crate::base::error::{Error, Result};
use crate::table::block_based::block::{Cursor, RawEntry};

/// The decoded entries of one interval, the current one last.
#[derive(Debug, Default)]
pub(super) struct Behind {
    entries: Vec<(Cursor, RawEntry, usize)>,
    keys: Vec<u8>,
}

impl Behind {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
    }

    /// Appends an entry whose key extends a part of the last one's.
    pub(super) fn push(&mut self, at: Cursor, entry: RawEntry, rest: &[u8]) -> Result<()> {
        let end = self.keys.len();
        let start = self.entries.last().map_or(end, |last| last.2);
        if entry.shared > end - start {
            return Err(shared_too_much(entry.shared, end - start));
        }
        self.keys.extend_from_within(start..start + entry.shared);
        self.keys.extend_from_slice(rest);
        self.entries.push((at, entry, end));
        Ok(())
    }

    /// Drops the last entry. The one before, if any, is then the current one.
    pub(super) fn pop(&mut self) {
        if let Some((_, _, key_start)) = self.entries.pop() {
            self.keys.truncate(key_start);
        }
    }

    pub(super) fn last(&self) -> Option<(Cursor, RawEntry, &[u8])> {
        let &(at, entry, key_start) = self.entries.last()?;
        Some((at, entry, &self.keys[key_start..]))
    }
}

#[cold]
pub(super) fn shared_too_much(shared: usize, key_bytes: usize) -> Error {
    Error::corruption(format!(
        "expected an entry to share at most {key_bytes} bytes, found {shared}"
    ))
}
