//! Range tombstones: the range deletes of a memtable, a table or a merge, as disjoint fragments.
//!
//! Overlapping ranges are cut at all their ends. Each fragment lists the deletes of its keys, the
//! newest first. So a search for a key finds all deletes of the key in one place.
//!
//! ```text
//! deletes     [a ------ m) at 7      [f ------------ z) at 9
//! fragments   [a, f): 7    [f, m): 9, 7    [m, z): 9
//! ```
//!
//! Keys are order keys. In a semi-sorted keyspace a delete is about one prefix. Its range is that
//! of the prefix's hash, which other prefixes may share. So a delete carries its prefix, and a hit
//! compares it.
//!
//! Cost: a search is a binary search. A merge of lists is linear in their fragments and deletes.

use crate::base::codec::byte_reader::put_sized;
use crate::base::codec::{ByteReader, varint};
use crate::base::entry::{KEY_BYTES_MAX, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::key_order::{Order, PREFIX_HASH_BYTES, end_of_group, prefix_of};
use crate::base::key_ranges::KeyRange;
use crate::base::options::{KeyOrder, PrefixRule};

/// One delete of all keys of a fragment, or of those with a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RangeDelete {
    pub(crate) seqno: SeqNo,
    pub(crate) prefix: Option<Box<[u8]>>,
}

impl RangeDelete {
    /// Returns true if this delete hides everything of a fragment that an older one hides.
    pub(crate) fn hides(&self, older: &RangeDelete) -> bool {
        self.prefix.is_none() || self.prefix == older.prefix
    }
}

/// A range of keys with the same deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) start: Vec<u8>,
    /// The first key behind the fragment; empty if the fragment has no end.
    pub(crate) end: Vec<u8>,
    /// Newest first; never empty.
    pub(crate) deletes: Vec<RangeDelete>,
}

impl Fragment {
    /// The largest key that the fragment may hold: exact for ends that a merge has cut, else the
    /// end itself.
    pub(crate) fn last_key(&self) -> &[u8] {
        self.end.strip_suffix(&[0]).unwrap_or(&self.end)
    }

    /// Returns true if the fragment ends at or before `key`.
    fn ends_by(&self, key: &[u8]) -> bool {
        !self.end.is_empty() && self.end.as_slice() <= key
    }
}

/// The end of a fragment as a place among keys: the empty end is behind all of them.
fn place_of(end: &[u8]) -> (bool, &[u8]) {
    (end.is_empty(), end)
}

/// The smallest key above a key.
pub(crate) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RangeTombstones {
    /// In key order.
    fragments: Vec<Fragment>,
    /// The rule that finds the prefix of a key, if deletes have prefixes.
    rule: Option<PrefixRule>,
}

impl RangeTombstones {
    /// The fragment of an operation of the log: its key and value are the range, or its key is the
    /// prefix if keys are semi-sorted.
    ///
    /// # Errors
    /// `Corruption` if this order has no such range.
    pub(crate) fn of_operation(
        (key, value): (&[u8], &[u8]),
        seqno: SeqNo,
        (spec, order): (KeyOrder, &dyn Order),
    ) -> Result<RangeTombstones> {
        let rule = rule_of(spec);
        let range = match spec {
            KeyOrder::Sorted if value.is_empty() || key < value => {
                Some((key.to_vec(), value.to_vec()))
            }
            KeyOrder::SemiSorted(_) if value.is_empty() => {
                let group = order.group(key).ok();
                group.map(|group| (group.clone(), end_of_group(&group).unwrap_or_default()))
            }
            _ => None,
        };
        let (start, end) = range.ok_or_else(|| {
            Error::corruption(format!(
                "expected a range of keys in the order {spec}, found {key:?} to {value:?}"
            ))
        })?;
        let prefix = rule.map(|_| key.into());
        Ok(RangeTombstones {
            fragments: vec![Fragment {
                start,
                end,
                deletes: vec![RangeDelete { seqno, prefix }],
            }],
            rule,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The number of deletes, counted once in each fragment.
    pub(crate) fn count(&self) -> u64 {
        let counts = self.fragments.iter().map(|it| it.deletes.len() as u64);
        counts.sum()
    }

    /// The approximate bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes_of = |it: &Fragment| {
            size_of::<Fragment>()
                + it.start.capacity()
                + it.end.capacity()
                + it.deletes.capacity() * size_of::<RangeDelete>()
        };
        self.fragments.iter().map(bytes_of).sum()
    }

    /// The place of the first fragment that does not end at or before a key.
    fn first_for(&self, key: &[u8]) -> usize {
        self.fragments.partition_point(|it| it.ends_by(key))
    }

    /// The newest delete of a key numbered at most `seqno`, with its fragment.
    pub(crate) fn newest(&self, key: &[u8], seqno: SeqNo) -> Option<(&Fragment, &RangeDelete)> {
        let fragment = self.fragments.get(self.first_for(key))?;
        if fragment.start.as_slice() > key {
            return None;
        }
        let mut deletes = fragment.deletes.iter();
        let newest = deletes.find(|it| it.seqno <= seqno && self.is_about(it, key))?;
        Some((fragment, newest))
    }

    /// The deletes of a key from the newest to the oldest.
    pub(crate) fn of<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = SeqNo> + 'a {
        let fragment = self.fragments.get(self.first_for(key));
        let fragment = fragment.filter(|it| it.start.as_slice() <= key);
        let deletes = fragment.into_iter().flat_map(|it| &it.deletes);
        { deletes }
            .filter(|it| self.is_about(it, key))
            .map(|it| it.seqno)
    }

    /// The first key of a range with a delete newer than a number.
    pub(crate) fn first_newer(&self, range: &KeyRange, since: SeqNo) -> Option<Vec<u8>> {
        let behind = &self.fragments[self.first_for(&range.start)..];
        let mut inside = behind.iter().take_while(|it| range.ends_behind(&it.start));
        let newer = inside.find(|it| it.deletes[0].seqno > since)?;
        Some((&newer.start).max(&range.start).clone())
    }

    fn is_about(&self, delete: &RangeDelete, key: &[u8]) -> bool {
        match (&delete.prefix, self.rule) {
            (None, _) => true,
            (Some(prefix), Some(rule)) => prefix_of(rule, key) == Some(prefix),
            (Some(_), None) => false,
        }
    }

    /// The range around a key that has no fragment: the end before it and the start behind it, both
    /// empty if there is none. `None` if the key is in a fragment.
    pub(crate) fn gap(&self, key: &[u8]) -> Option<(&[u8], &[u8])> {
        let at = self.first_for(key);
        let (before, behind) = self.fragments.split_at(at);
        let start = behind.first().map_or(&b""[..], |it| &it.start);
        if !behind.is_empty() && start <= key {
            return None;
        }
        Some((before.last().map_or(&b""[..], |it| &it.end), start))
    }

    /// Returns true if each key from `lo` to `hi`, both inclusive, has a delete without a prefix
    /// that `is_enough`.
    pub(crate) fn cover(&self, lo: &[u8], hi: &[u8], is_enough: impl Fn(SeqNo) -> bool) -> bool {
        let mut from = lo;
        for fragment in &self.fragments[self.first_for(lo)..] {
            let mut plain = fragment.deletes.iter().filter(|it| it.prefix.is_none());
            if fragment.start.as_slice() > from || !plain.any(|it| is_enough(it.seqno)) {
                return false;
            }
            if !fragment.ends_by(hi) {
                return true;
            }
            from = &fragment.end;
        }
        false
    }

    /// The part from `lower` to `upper`, cut there. `None` is no bound.
    pub(crate) fn within(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> RangeTombstones {
        let mut part = self.clone();
        if let Some(lower) = lower {
            part.take_before(lower);
        }
        match upper {
            Some(upper) => part.take_before(upper),
            None => part,
        }
    }

    /// The place between two neighbouring keys of a merge where a table may end; `None` if it must
    /// not end there.
    ///
    /// Parts of a fragment are divided at the successor of the first key. No key lies between these
    /// two, so the tables do not touch. The range of a prefix stays whole: a table without other
    /// entries has a delete of one key of the range, and only some keys of it have the prefix.
    pub(crate) fn cut_between(&self, last: &[u8], next: &[u8]) -> Option<Vec<u8>> {
        let at = self.fragments.get(self.first_for(last));
        match at.filter(|it| it.start.as_slice() <= last) {
            Some(it) if self.rule.is_some() => it.ends_by(next).then(|| it.end.clone()),
            Some(_) if last.len() >= KEY_BYTES_MAX => None,
            _ => Some(successor(last)),
        }
    }

    /// The place near a key where a merge may be divided; `None` if there is none.
    pub(crate) fn cut_near(&self, key: &[u8]) -> Option<Vec<u8>> {
        match self.rule {
            _ if self.is_empty() => Some(key.to_vec()),
            Some(_) => key.get(..PREFIX_HASH_BYTES).map(<[u8]>::to_vec),
            None => (key.len() < KEY_BYTES_MAX).then(|| successor(key)),
        }
    }

    /// Cuts at a key, and takes the part before it away.
    pub(crate) fn take_before(&mut self, key: &[u8]) -> RangeTombstones {
        let count = self.first_for(key);
        let mut front: Vec<Fragment> = self.fragments.drain(..count).collect();
        if let Some(first) = self.fragments.first_mut()
            && first.start.as_slice() < key
        {
            let start = std::mem::replace(&mut first.start, key.to_vec());
            front.push(Fragment {
                start,
                end: key.to_vec(),
                deletes: first.deletes.clone(),
            });
        }
        RangeTombstones {
            fragments: front,
            rule: self.rule,
        }
    }

    /// The deletes that `keep` names, in each fragment from the newest on.
    pub(crate) fn filtered(
        mut self,
        mut keep: impl FnMut(&Fragment, &[RangeDelete], &RangeDelete) -> bool,
    ) -> RangeTombstones {
        for fragment in &mut self.fragments {
            let mut kept: Vec<RangeDelete> = Vec::new();
            for delete in &fragment.deletes {
                if keep(fragment, &kept, delete) {
                    kept.push(delete.clone());
                }
            }
            fragment.deletes = kept;
        }
        self.fragments.retain(|it| !it.deletes.is_empty());
        self
    }

    /// The fragments of all these lists together.
    pub(crate) fn merged<'a>(
        lists: impl IntoIterator<Item = &'a RangeTombstones>,
    ) -> RangeTombstones {
        let lists: Vec<_> = lists.into_iter().filter(|it| !it.is_empty()).collect();
        let mut merged = RangeTombstones {
            fragments: Vec::new(),
            rule: lists.first().and_then(|it| it.rule),
        };
        let all = || lists.iter().flat_map(|it| &it.fragments);
        let mut places: Vec<(bool, &[u8])> = Vec::new();
        places.extend(all().map(|it| (false, it.start.as_slice())));
        places.extend(all().map(|it| place_of(&it.end)));
        places.sort_unstable();
        places.dedup();
        let mut rest: Vec<&[Fragment]> = lists.iter().map(|it| it.fragments.as_slice()).collect();
        for pair in places.windows(2) {
            let ((_, start), (_, end)) = (pair[0], pair[1]);
            let mut deletes: Vec<RangeDelete> = Vec::new();
            for list in &mut rest {
                while let [first, others @ ..] = *list
                    && first.ends_by(start)
                {
                    *list = others;
                }
                let first = list.first().filter(|it| it.start.as_slice() <= start);
                deletes.extend(first.into_iter().flat_map(|it| it.deletes.iter().cloned()));
            }
            deletes.sort_by(|a, b| b.seqno.cmp(&a.seqno).then_with(|| a.prefix.cmp(&b.prefix)));
            deletes.dedup();
            merged.append(start, end, deletes);
        }
        merged
    }

    /// Appends a fragment, or prolongs the last one if nothing distinguishes them.
    fn append(&mut self, start: &[u8], end: &[u8], deletes: Vec<RangeDelete>) {
        if deletes.is_empty() {
            return;
        }
        match self.fragments.last_mut() {
            Some(last) if last.end == start && last.deletes == deletes => {
                last.end = end.to_vec();
            }
            _ => self.fragments.push(Fragment {
                start: start.to_vec(),
                end: end.to_vec(),
                deletes,
            }),
        }
    }

    /// Gives a fragment without end this one.
    pub(crate) fn end_at(&mut self, end: &[u8]) {
        if let Some(last) = self.fragments.last_mut().filter(|it| it.end.is_empty()) {
            last.end = end.to_vec();
            self.fragments.retain(|it| it.start < it.end);
        }
    }

    /// Appends the page of a table (`docs/format/operations.md`).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        varint::put(out, self.fragments.len() as u64);
        for fragment in &self.fragments {
            put_sized(out, &fragment.start);
            put_sized(out, &fragment.end);
            varint::put(out, fragment.deletes.len() as u64);
            for delete in &fragment.deletes {
                let mark = u64::from(delete.prefix.is_some());
                varint::put(out, delete.seqno.0 << 1 | mark);
                if let Some(prefix) = &delete.prefix {
                    put_sized(out, prefix);
                }
            }
        }
    }

    /// Reads the page of a table whose keys have this order.
    ///
    /// # Errors
    /// `Corruption` if these are no fragments in order.
    pub(crate) fn decode(page: &[u8], order: KeyOrder) -> Result<RangeTombstones> {
        if order == KeyOrder::Hashed {
            return Err(Error::corruption("expected no ranges of hashed keys"));
        }
        let mut reader = ByteReader::new(page);
        let rule = rule_of(order);
        let count = reader.varint("count of fragments")?;
        let mut fragments: Vec<Fragment> = Vec::new();
        for _ in 0..count {
            let start = reader.sized("start of a fragment")?;
            let end = reader.sized("end of a fragment")?;
            let behind = fragments.last().is_none_or(|it| it.end.as_slice() <= start);
            if start >= end || !behind {
                return Err(Error::corruption(format!(
                    "expected fragments of range tombstones in order, found {start:?} to {end:?}"
                )));
            }
            let deletes = decode_deletes(&mut reader, rule)?;
            fragments.push(Fragment {
                start: start.to_vec(),
                end: end.to_vec(),
                deletes,
            });
        }
        reader.finish("range tombstones")?;
        Ok(RangeTombstones { fragments, rule })
    }
}

fn decode_deletes(
    reader: &mut ByteReader<'_>,
    rule: Option<PrefixRule>,
) -> Result<Vec<RangeDelete>> {
    let count = reader.varint("count of range deletes")?;
    let mut deletes: Vec<RangeDelete> = Vec::new();
    for _ in 0..count {
        let number = reader.varint("number of a range delete")?;
        let seqno = SeqNo(number >> 1);
        let prefix = match number & 1 {
            0 => None,
            _ => Some(reader.sized("prefix of a range delete")?.into()),
        };
        let in_order = deletes.last().is_none_or(|it| it.seqno >= seqno);
        if !in_order || prefix.is_some() != rule.is_some() || seqno > SeqNo::OPENED_MAX {
            return Err(Error::corruption(format!(
                "expected range deletes in order, found one at {}",
                seqno.0
            )));
        }
        deletes.push(RangeDelete { seqno, prefix });
    }
    if deletes.is_empty() {
        return Err(Error::corruption("expected a fragment with range deletes"));
    }
    Ok(deletes)
}

fn rule_of(order: KeyOrder) -> Option<PrefixRule> {
    match order {
        KeyOrder::SemiSorted(rule) => Some(rule),
        KeyOrder::Sorted | KeyOrder::Hashed => None,
    }
}

#[cfg(test)]
pub(crate) mod tests;
