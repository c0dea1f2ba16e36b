//! Ranges of order keys, as transactions read and watch them.

/// The keys from a start, inclusive, up to an end, exclusive. An empty end is behind all keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl KeyRange {
    /// One key.
    pub(crate) fn of_key(key: &[u8]) -> KeyRange {
        KeyRange {
            start: key.to_vec(),
            end: [key, &[0]].concat(),
        }
    }

    /// Returns true if a key is before the end.
    pub(crate) fn ends_behind(&self, key: &[u8]) -> bool {
        self.end.is_empty() || key < self.end.as_slice()
    }

    /// Adds another range if both overlap or touch. Returns false if they do not.
    pub(crate) fn join(&mut self, other: &KeyRange) -> bool {
        let touches = |a: &KeyRange, b: &KeyRange| a.ends_behind(&b.start) || a.end == b.start;
        if !touches(self, other) || !touches(other, self) {
            return false;
        }
        if other.start < self.start {
            self.start.clone_from(&other.start);
        }
        if !self.end.is_empty() && (other.end.is_empty() || self.end < other.end) {
            self.end.clone_from(&other.end);
        }
        true
    }

    /// Returns true if this range and another one have a place in common.
    pub(crate) fn overlaps(&self, start: &[u8], end: &[u8]) -> bool {
        self.ends_behind(start) && (end.is_empty() || self.start.as_slice() < end)
    }
}

/// Ascending, disjoint ranges.
#[derive(Debug, Default)]
pub(crate) struct KeyRanges(Vec<KeyRange>);

impl KeyRanges {
    /// The keys that are in any of these ranges.
    pub(crate) fn of(mut ranges: Vec<KeyRange>) -> KeyRanges {
        ranges.sort_unstable();
        let mut merged: Vec<KeyRange> = Vec::with_capacity(ranges.len());
        for range in ranges {
            if !merged.last_mut().is_some_and(|last| last.join(&range)) {
                merged.push(range);
            }
        }
        KeyRanges(merged)
    }

    /// The first key of these ranges that is at or above `start` and below `end`, if it may exist.
    pub(crate) fn first_in(&self, start: &[u8], end: &[u8]) -> Option<Vec<u8>> {
        let at = self.0.partition_point(|it| !it.ends_behind(start));
        let range = self.0.get(at).filter(|it| it.overlaps(start, end))?;
        Some(range.start.as_slice().max(start).to_vec())
    }
}

#[cfg(test)]
mod tests;
