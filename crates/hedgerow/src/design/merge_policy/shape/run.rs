//! A sorted run, and the search for its table that may hold a key.
//!
//! Lookups search the eight-byte heads of each table's first and last key, which lie side by side.
//! The keys themselves are scattered in memory: every step of a binary search would cost three
//! cache misses. The common beginning of all keys of the run is left out, so that `user:...` does
//! not make all heads equal.

use std::cmp::Ordering;
use std::ops::{Deref, Range};

use super::{Facts, bytes_of};
use crate::base::entry::RunId;
use crate::base::error::Result;

/// Sorted tables that do not overlap.
#[derive(Debug, Clone)]
pub(crate) struct Run<T> {
    pub(crate) id: RunId,
    pub(crate) tables: Tables<T>,
}

impl<T: Facts> Run<T> {
    pub(crate) fn new(id: RunId, tables: Vec<T>) -> Run<T> {
        let tables = Tables::new(tables);
        Run { id, tables }
    }

    /// The place of the table that may hold a key. Cost: a binary search of heads, and a comparison
    /// of keys where heads are equal.
    #[inline]
    pub(crate) fn place_for(&self, key: &[u8]) -> Option<usize> {
        self.tables.place_for(key)
    }

    /// The tables that overlap the keys from `lo` to `hi`, both inclusive.
    pub(crate) fn overlapping(&self, lo: &[u8], hi: &[u8]) -> &[T] {
        let from = self.first_ending_at_or_after(lo);
        let count =
            self.tables[from..].partition_point(|table| table.meta().smallest_key.as_slice() <= hi);
        &self.tables[from..from + count]
    }

    /// The place of the first table whose largest key is at or after `key`.
    pub(crate) fn first_ending_at_or_after(&self, key: &[u8]) -> usize {
        self.tables.first_ending_at_or_after(key)
    }

    pub(crate) fn bytes(&self) -> u64 {
        bytes_of(&self.tables)
    }

    /// Inserts tables in key order, in one pass.
    pub(super) fn insert_all(&mut self, added: Vec<T>) -> Result<()> {
        for at in self.tables.insert_all(added) {
            self.check_neighbours(at.saturating_sub(1))?;
            self.check_neighbours(at)?;
        }
        Ok(())
    }
}

/// The tables of a run, in key order.
#[derive(Debug, Clone)]
pub(crate) struct Tables<T> {
    tables: Vec<T>,
    /// The common beginning of all keys: of the first key of the first table and the last key of
    /// the last.
    shared: Vec<u8>,
    /// The heads, one entry per table.
    heads: Vec<Heads>,
}

/// The heads of a table's smallest and largest key, and the table's size.
#[derive(Debug, Clone, Copy)]
struct Heads {
    smallest: u64,
    largest: u64,
    bytes: u64,
}

impl<T> Deref for Tables<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.tables
    }
}

impl<'a, T> IntoIterator for &'a Tables<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.tables.iter()
    }
}

impl<T: Facts> Tables<T> {
    fn new(tables: Vec<T>) -> Tables<T> {
        let mut new = Tables {
            tables,
            shared: Vec::new(),
            heads: Vec::new(),
        };
        new.share();
        new.heads = new.tables.iter().map(|it| new.heads_of(it)).collect();
        new
    }

    #[inline]
    fn place_for(&self, key: &[u8]) -> Option<usize> {
        let head = head(self.behind_shared(key).ok()?);
        let at = self.first_with(head, key);
        (at < self.len() && self.begins_by_head(at, head, key)).then_some(at)
    }

    /// True if the smallest key of the table at a place is at or before `key`, which has this head.
    #[inline]
    fn begins_by_head(&self, at: usize, head: u64, key: &[u8]) -> bool {
        match self.heads[at].smallest.cmp(&head) {
            Ordering::Equal => self.tables[at].meta().smallest_key.as_slice() <= key,
            order => order == Ordering::Less,
        }
    }

    /// True if a table's largest key is before `key`, which has this head.
    #[inline]
    fn ends_before_by_head(&self, at: usize, head: u64, key: &[u8]) -> bool {
        match self.heads[at].largest.cmp(&head) {
            Ordering::Equal => self.tables[at].meta().largest_key.as_slice() < key,
            order => order == Ordering::Less,
        }
    }

    /// The places of the tables that overlap the keys from `lo` to `hi`, both inclusive. All tables
    /// before `from` end before `lo`. Cost: one step per table from there on, so that a caller with
    /// ascending ranges looks at each table once.
    pub(crate) fn overlapping_from(&self, from: usize, lo: &[u8], hi: &[u8]) -> Range<usize> {
        let start = self.pass(from, lo, |at, head| self.ends_before_by_head(at, head, lo));
        start..self.pass(start, hi, |at, head| self.begins_by_head(at, head, hi))
    }

    /// The first place from `from` on where `is_passed` is false for the place and the head of
    /// `key`.
    #[inline]
    fn pass(&self, from: usize, key: &[u8], is_passed: impl Fn(usize, u64) -> bool) -> usize {
        match self.behind_shared(key) {
            Ok(rest) => {
                let head = head(rest);
                let mut places = from..self.len();
                places
                    .find(|&at| !is_passed(at, head))
                    .unwrap_or(self.len())
            }
            Err(Ordering::Greater) => self.len(),
            Err(_) => from,
        }
    }

    /// The approximate bytes between `lo` and `hi` of the tables at these places, which overlap
    /// that range.
    pub(crate) fn bytes_within(&self, places: Range<usize>, lo: &[u8], hi: &[u8]) -> u64 {
        let part = |at: usize| self.tables[at].bytes_within(lo, hi);
        match places.len() {
            0 => 0,
            1 => part(places.start),
            // The tables in between lie within the keys entirely.
            _ => self.heads[places.start + 1..places.end - 1]
                .iter()
                .map(|it| it.bytes)
                .chain([part(places.start), part(places.end - 1)])
                .fold(0, u64::saturating_add),
        }
    }

    #[inline]
    fn first_ending_at_or_after(&self, key: &[u8]) -> usize {
        match self.behind_shared(key) {
            Ok(rest) => self.first_with(head(rest), key),
            Err(Ordering::Greater) => self.len(),
            Err(_) => 0,
        }
    }

    /// The place of the first table whose largest key is at or after `key`, which has this head.
    #[inline]
    fn first_with(&self, head: u64, key: &[u8]) -> usize {
        let at = self.heads.partition_point(|it| it.largest < head);
        // Nearly always no head is equal.
        if self.heads.get(at).is_none_or(|it| it.largest > head) {
            return at;
        }
        let equal = self.heads[at..].iter();
        let equal = equal.take_while(|it| it.largest == head).count();
        let is_before = |table: &T| table.meta().largest_key.as_slice() < key;
        at + self.tables[at..at + equal].partition_point(is_before)
    }

    /// The rest of a key behind the common beginning; for any other key, its order relative to all
    /// keys here.
    #[inline]
    fn behind_shared<'k>(&self, key: &'k [u8]) -> std::result::Result<&'k [u8], Ordering> {
        if self.shared.is_empty() {
            return Ok(key);
        }
        match key.get(..self.shared.len()) {
            Some(start) if start == self.shared => Ok(&key[self.shared.len()..]),
            _ => Err(key.cmp(&self.shared)),
        }
    }

    /// The heads of a table. They are meaningless if it lacks the common beginning, which then
    /// changes next.
    fn heads_of(&self, table: &T) -> Heads {
        let behind_shared = |key: &[u8]| head(key.get(self.shared.len()..).unwrap_or_default());
        Heads {
            smallest: behind_shared(&table.meta().smallest_key),
            largest: behind_shared(&table.meta().largest_key),
            bytes: table.meta().file_bytes,
        }
    }

    /// Finds the common beginning. Returns true if it has changed.
    fn share(&mut self) -> bool {
        let (Some(first), Some(last)) = (self.tables.first(), self.tables.last()) else {
            return false;
        };
        let (smallest, largest) = (&first.meta().smallest_key, &last.meta().largest_key);
        let pairs = smallest.iter().zip(largest);
        let count = pairs.take_while(|(a, b)| a == b).count();
        let changed = self.shared != smallest[..count];
        if changed {
            self.shared = smallest[..count].to_vec();
        }
        changed
    }

    /// Updates the common beginning, and the heads if it has changed.
    fn share_anew(&mut self) {
        if self.share() {
            let heads = self.tables.iter().map(|it| self.heads_of(it)).collect();
            self.heads = heads;
        }
    }

    /// Inserts tables in key order and returns their places. Cost: looks at these tables only,
    /// unless the common beginning changes.
    fn insert_all(&mut self, added: Vec<T>) -> Vec<usize> {
        let mut from = 0;
        let mut place = |(i, table): (usize, &T)| {
            let smallest = table.meta().smallest_key.as_slice();
            let is_before = |other: &T| other.meta().smallest_key.as_slice() < smallest;
            from += self.tables[from..].partition_point(is_before);
            from + i
        };
        let places: Vec<usize> = added.iter().enumerate().map(&mut place).collect();
        let heads = added.iter().map(|it| self.heads_of(it)).collect();
        insert_at(&mut self.heads, &places, heads);
        insert_at(&mut self.tables, &places, added);
        self.share_anew();
        places
    }

    /// Removes the tables at ascending places.
    pub(super) fn remove(&mut self, places: &[usize]) {
        remove_places(&mut self.tables, places);
        remove_places(&mut self.heads, places);
        self.share_anew();
    }
}

/// The first eight bytes as a number, padded with zeros. Different numbers have the order of their
/// keys.
#[inline]
pub(super) fn head(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut padded = [0; 8];
            padded[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(padded)
        }
    }
}

/// Inserts elements in one pass, so that they end up at these ascending places. If the places are
/// side by side, as for nearly every merge, no earlier element moves.
fn insert_at<X>(into: &mut Vec<X>, places: &[usize], elements: Vec<X>) {
    if let Some(side_by_side) = side_by_side(places) {
        into.splice(side_by_side.start..side_by_side.start, elements);
        return;
    }
    let mut old = std::mem::take(into).into_iter();
    into.reserve_exact(old.len() + elements.len());
    for (place, element) in places.iter().zip(elements) {
        let before = place - into.len();
        into.extend(old.by_ref().take(before));
        into.push(element);
    }
    into.extend(old);
}

/// Removes the elements at ascending places in one pass.
fn remove_places<X>(from: &mut Vec<X>, places: &[usize]) {
    if let Some(side_by_side) = side_by_side(places) {
        from.drain(side_by_side);
        return;
    }
    let mut at = 0;
    let mut next = places.iter().copied().peekable();
    from.retain(|_| {
        let removed = next.next_if_eq(&at).is_some();
        at += 1;
        !removed
    });
}

/// The range of ascending places, if they leave none out.
fn side_by_side(places: &[usize]) -> Option<Range<usize>> {
    let (first, last) = (*places.first()?, *places.last()?);
    (last - first + 1 == places.len()).then_some(first..last + 1)
}

#[cfg(test)]
mod tests;
