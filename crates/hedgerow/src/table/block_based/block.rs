//! A block: the entries of a narrow range of keys, the unit of reading. The format is in
//! `docs/format/block_based_table.md`.
//!
//! Restart points and heads (lengths, tag, key) come first, then all values. So the bytes that a
//! search reads are neighbours, and can be prefetched before any of them is known.
//!
//! A key is stored as the length that it shares with the key before it, and the rest. Every 16th
//! key is a *restart point*, stored whole. A lookup compares integers to find the restart point to
//! begin at, and then walks at most 16 entries without assembling a key. The length that an entry
//! shares with its predecessor nearly always decides on which side of the wanted key it is, without
//! a look at bytes.

mod builder;
mod entry_head;
#[cfg(test)]
mod tests;

pub(super) use builder::BlockBuilder;
pub(super) use entry_head::{Cursor, RawEntry};

use std::cmp::Ordering;
use std::ops::{Deref, Range};

use crate::base::codec::{packed, shared_prefix, varint};
use crate::base::entry::{SeqNo, Tag};
use crate::base::error::{Error, Result};
use crate::table::entry_parts::{entry_code, other_tag, take_varint};
use entry_head::{Head, Lengths};

/// The number of entries from one restart point to the next. Measured with keys of 16 and values of
/// 100 bytes: with 8 an entry costs 6.7 bytes of overhead and a warm get 240 ns, with 16 6.0 bytes
/// and 258 ns.
const RESTART_ENTRIES: usize = 16;
/// The bytes of a restart point's integer. Four bytes after the block's shared ones nearly always
/// distinguish the few restart keys of a block.
const PREFIX_BYTES: usize = 4;
/// An entry that a search found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) at: Cursor,
    pub(super) entry: RawEntry,
    /// True if its key is the wanted one.
    pub(super) same_key: bool,
}

/// The numbers at the front of a block.
struct Front {
    base: u64,
    widths: u8,
    shared: usize,
    restarts: usize,
    head_bytes: usize,
    /// The offset behind them.
    end: usize,
}

impl Front {
    #[inline(always)]
    fn take(page: &[u8]) -> Option<Front> {
        let mut at = 0;
        let base = varint::take(page, &mut at)?;
        let widths = *page.get(at)?;
        at += 1;
        Some(Front {
            base,
            widths,
            shared: take_varint(page, &mut at)?,
            restarts: take_varint(page, &mut at)?,
            head_bytes: take_varint(page, &mut at)?,
            end: at,
        })
    }
}

/// A parsed block over its page.
#[derive(Debug, Clone)]
pub(super) struct Block<B> {
    page: B,
    base: u64,
    shared: usize,
    heads: Range<u32>,
    values_end: u32,
    restarts: usize,
    /// The places of the arrays of restart points.
    offsets: usize,
    prefixes: usize,
    tag_bytes: usize,
    offset_bytes: usize,
}

impl<B: Deref<Target = [u8]>> Block<B> {
    /// Parses the front and checks that all parts are inside the page.
    #[inline]
    pub(super) fn parse(page: B) -> Result<Self> {
        let Some(front) = Front::take(&page) else {
            return Err(no_front(page.len()));
        };
        let Front {
            base,
            widths,
            shared,
            restarts,
            head_bytes,
            end: offsets,
        } = front;
        let (tag_bytes, offset_bytes) = (usize::from(widths & 15), usize::from(widths >> 4));
        // Each of the factors and summands has at most 32 bits.
        let restarts_bytes = restarts * (PREFIX_BYTES + 2 * offset_bytes);
        let valid = restarts > 0
            && head_bytes > 0
            && head_bytes + restarts_bytes <= page.len() - offsets
            && u32::try_from(page.len()).is_ok()
            && (1..=8).contains(&tag_bytes)
            && (1..=4).contains(&offset_bytes);
        if !valid {
            return Err(bad_front(restarts, head_bytes, widths, page.len()));
        }
        let heads = offsets + restarts_bytes;
        Ok(Block {
            base,
            shared,
            heads: heads as u32..(heads + head_bytes) as u32,
            values_end: page.len() as u32,
            restarts,
            offsets,
            prefixes: heads - restarts * PREFIX_BYTES,
            tag_bytes,
            offset_bytes,
            page,
        })
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.page
    }

    /// The first entry.
    pub(super) fn first(&self) -> Cursor {
        Cursor {
            head: self.heads.start,
            value: self.heads.end,
        }
    }

    /// The position behind the last entry.
    #[inline]
    pub(super) fn end(&self) -> Cursor {
        Cursor {
            head: self.heads.end,
            value: self.values_end,
        }
    }

    pub(super) fn restarts(&self) -> usize {
        self.restarts
    }

    /// The place of a restart point. The one after the last is the end of the entries.
    #[inline(always)]
    pub(super) fn restart(&self, i: usize) -> Result<Cursor> {
        if i == self.restarts {
            return Ok(self.end());
        }
        let at = self.offsets + 2 * i * self.offset_bytes;
        let head = packed::get(&self.page, at, self.offset_bytes);
        let value = packed::get(&self.page, at + self.offset_bytes, self.offset_bytes);
        let (head, value) = (head as u32, value as u32);
        if head >= self.heads.end - self.heads.start || value > self.values_end - self.heads.end {
            return Err(self.bad_restart(i, head, value));
        }
        Ok(Cursor {
            head: self.heads.start + head,
            value: self.heads.end + value,
        })
    }

    /// The restart point at or before a head.
    pub(super) fn restart_before(&self, head: u32) -> Result<usize> {
        let (mut low, mut high) = (0, self.restarts);
        while low < high {
            let middle = low.midpoint(high);
            if self.restart(middle)?.head <= head {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low.saturating_sub(1))
    }

    /// Decodes the entry at `at`.
    #[inline]
    pub(super) fn entry(&self, at: Cursor) -> Result<RawEntry> {
        self.try_entry(at).ok_or_else(|| self.bad_entry(at))
    }

    /// The entry at `at`; `None` if it is not whole.
    #[inline(always)]
    pub(super) fn try_entry(&self, at: Cursor) -> Option<RawEntry> {
        let head = self.head(at.head as usize)?;
        self.entry_of(at, &head)
    }

    /// Walks all entries from front to back, each with its assembled key. Checks that they end
    /// where the block's front says.
    pub(super) fn walk_all(
        &self,
        mut see: impl FnMut(Cursor, RawEntry, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut at = self.first();
        let mut key = Vec::new();
        while at.head < self.heads.end {
            let entry = self.entry(at)?;
            if entry.shared > key.len() {
                return Err(Error::corruption(format!(
                    "expected an entry to share at most {} bytes, found {}",
                    key.len(),
                    entry.shared
                )));
            }
            key.truncate(entry.shared);
            key.extend_from_slice(&self.page[entry.key()]);
            see(at, entry, &key)?;
            at = entry.next;
        }
        if at != self.end() {
            return Err(Error::corruption(format!(
                "expected the entries to end at {:?}, found {at:?}",
                self.end()
            )));
        }
        Ok(())
    }

    /// Decodes the part of an entry that every walk needs. The tag is left to those who want it.
    #[inline(always)]
    fn head(&self, at: usize) -> Option<Head> {
        let lengths = Lengths::take(&self.page, at)?;
        let has_other = lengths.tag_byte & entry_code::OTHER == entry_code::OTHER;
        let key_start = lengths.end + self.tag_bytes + usize::from(has_other);
        let key_end = key_start + lengths.unshared;
        // Every byte that counted is before the end of the key, so this checks all of them.
        (key_end <= self.heads.end as usize).then_some(Head {
            shared: lengths.shared,
            key_start,
            key_end,
            value_bytes: lengths.value_bytes,
            tag_at: lengths.end,
        })
    }

    /// Decodes the rest of an entry.
    #[inline]
    fn entry_of(&self, at: Cursor, head: &Head) -> Option<RawEntry> {
        let stored_tag = self.tag_of(head);
        let (tag, out_of_line) = match stored_tag & entry_code::OTHER {
            entry_code::PUT => (Tag::PUT, false),
            entry_code::DELETE => (Tag::DELETE, false),
            entry_code::PUT_OUT_OF_LINE => (Tag::PUT, true),
            _ => other_tag(*self.page.get(head.key_start - 1)?)?,
        };
        let value_end = at.value as usize + head.value_bytes;
        if value_end > self.values_end as usize {
            return None;
        }
        Some(RawEntry {
            shared: head.shared,
            key_start: head.key_start as u32,
            value_start: at.value,
            seqno: self.seqno_of(stored_tag)?,
            tag,
            out_of_line,
            next: Cursor {
                head: head.key_end as u32,
                value: value_end as u32,
            },
        })
    }

    #[inline]
    fn tag_of(&self, head: &Head) -> u64 {
        packed::get(&self.page, head.tag_at, self.tag_bytes)
    }

    #[inline]
    fn seqno_of(&self, stored_tag: u64) -> Option<SeqNo> {
        self.base
            .checked_add(stored_tag >> entry_code::BITS)
            .map(SeqNo)
    }

    #[cold]
    fn bad_restart(&self, i: usize, head: u32, value: u32) -> Error {
        Error::corruption(format!(
            "expected restart point {i} within {:?}, found {head} and {value}",
            self.heads
        ))
    }

    #[cold]
    fn bad_first_key(&self, key: &[u8]) -> Error {
        Error::corruption(format!(
            "expected a first key of at least {} bytes, found {}",
            self.shared,
            key.len()
        ))
    }

    #[cold]
    fn bad_entry(&self, at: Cursor) -> Error {
        Error::corruption(format!(
            "expected an entry at {at:?} of a block with heads in {:?} and values up to {}",
            self.heads, self.values_end
        ))
    }

    /// The first entry at or after `(key, seqno)`; `None` if all are before it.
    pub(super) fn find(&self, key: &[u8], seqno: SeqNo) -> Result<Option<Position>> {
        let Some(restart) = self.last_restart_before(key, seqno)? else {
            return Ok(None);
        };
        self.walk(restart, key, seqno)
    }

    /// The last restart point before `(key, seqno)`, or the first of all. `None` if by the block's
    /// shared bytes everything is before it.
    fn last_restart_before(&self, key: &[u8], seqno: SeqNo) -> Result<Option<usize>> {
        if self.shared > 0 {
            let first = self.restart(0)?;
            let head = self.head(first.head as usize);
            let head = head.ok_or_else(|| self.bad_entry(first))?;
            let first_key = &self.page[head.key_start..head.key_end];
            let shared = first_key.get(..self.shared);
            let shared = shared.ok_or_else(|| self.bad_first_key(first_key))?;
            match key[..key.len().min(self.shared)].cmp(shared) {
                Ordering::Less => return Ok(Some(0)),
                Ordering::Greater => return Ok(None),
                Ordering::Equal => {}
            }
        }
        let wanted = packed::get_ordered(key, self.shared, PREFIX_BYTES);
        let mut before = self.count_restarts(0, |prefix| prefix < wanted);
        if before < self.restarts && self.prefix(before) == wanted {
            let mut end = before + self.count_restarts(before, |prefix| prefix == wanted);
            while before < end {
                let middle = before.midpoint(end);
                let entry = self.entry(self.restart(middle)?)?;
                let order = self.page[entry.key()].cmp(key);
                if order.then(seqno.cmp(&entry.seqno)) == Ordering::Less {
                    before = middle + 1;
                } else {
                    end = middle;
                }
            }
        }
        Ok(Some(before.saturating_sub(1)))
    }

    #[inline]
    fn prefix(&self, restart: usize) -> u64 {
        let at = self.prefixes + restart * PREFIX_BYTES;
        let prefix = self.page.get(at..).and_then(<[u8]>::first_chunk);
        prefix.map_or(0, |bytes| u64::from(u32::from_be_bytes(*bytes)))
    }

    /// The number of restart points from `start` on whose integers satisfy `holds`.
    #[inline]
    fn count_restarts(&self, start: usize, holds: impl Fn(u64) -> bool) -> usize {
        let (mut at, mut size) = (start, self.restarts - start);
        while size > 0 {
            let half = size / 2;
            if holds(self.prefix(at + half)) {
                at += half + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        at - start
    }

    /// The first entry at or after `(key, seqno)`, from a restart point on. The next restart point
    /// is at or after it.
    ///
    /// `matched` is the number of bytes that the previous entry, which is below the wanted key,
    /// shares with that key. An entry that shares more with its predecessor is below, too. One that
    /// shares less is above. Only if both are equal are bytes compared.
    fn walk(&self, restart: usize, key: &[u8], seqno: SeqNo) -> Result<Option<Position>> {
        let mut at = self.restart(restart)?;
        let limit = self.restart(restart + 1)?;
        let mut matched = 0;
        let mut key_bytes = 0;
        while at.head < limit.head {
            let head = self
                .head(at.head as usize)
                .filter(|head| head.shared <= key_bytes)
                .ok_or_else(|| self.bad_entry(at))?;
            if head.shared <= matched {
                match self.compare(&head, key, &mut matched, seqno) {
                    Ordering::Less => {}
                    order => {
                        let same_key = order == Ordering::Equal;
                        return self.position(at, &head, same_key).map(Some);
                    }
                }
            }
            key_bytes = head.shared + (head.key_end - head.key_start);
            let value = u64::from(at.value) + head.value_bytes as u64;
            at = Cursor {
                head: head.key_end as u32,
                value: u32::try_from(value).map_err(|_| self.bad_entry(at))?,
            };
        }
        if limit.head == self.heads.end {
            return Ok(None);
        }
        let head = self
            .head(limit.head as usize)
            .ok_or_else(|| self.bad_entry(limit))?;
        let same_key = head.shared == 0 && self.page[head.key_start..head.key_end] == *key;
        self.position(limit, &head, same_key).map(Some)
    }

    /// Compares an entry with `(key, seqno)`. The entry shares at most `matched` bytes with its
    /// predecessor. `Less` is before it, `Equal` is at or after it with the same key. If the entry
    /// is before it, `matched` becomes the number of bytes that the entry shares with the key.
    #[inline(always)]
    fn compare(&self, head: &Head, key: &[u8], matched: &mut usize, seqno: SeqNo) -> Ordering {
        if head.shared < *matched {
            return Ordering::Greater;
        }
        let rest = &self.page[head.key_start..head.key_end];
        let wanted = &key[*matched..];
        let order = match (rest.first(), wanted.first()) {
            (Some(found), Some(wanted)) if found != wanted => return found.cmp(wanted),
            _ => rest.cmp(wanted),
        };
        match order {
            Ordering::Greater => Ordering::Greater,
            Ordering::Equal if self.is_at_most(head, seqno) => Ordering::Equal,
            _ => {
                *matched += shared_prefix(rest, wanted);
                Ordering::Less
            }
        }
    }

    #[inline]
    fn is_at_most(&self, head: &Head, seqno: SeqNo) -> bool {
        let found = self.seqno_of(self.tag_of(head));
        found.is_some_and(|found| found <= seqno)
    }

    #[inline]
    fn position(&self, at: Cursor, head: &Head, same_key: bool) -> Result<Position> {
        let entry = self.entry_of(at, head).ok_or_else(|| self.bad_entry(at))?;
        Ok(Position {
            at,
            entry,
            same_key,
        })
    }
}

#[cold]
fn no_front(page_bytes: usize) -> Error {
    Error::corruption(format!(
        "expected five numbers at the front of a block, found {page_bytes} bytes without them"
    ))
}

#[cold]
fn bad_front(restarts: usize, head_bytes: usize, widths: u8, page_bytes: usize) -> Error {
    Error::corruption(format!(
        "expected a block, found {restarts} restart points, {head_bytes} bytes of heads and widths {widths:#04x} in {page_bytes} bytes"
    ))
}
