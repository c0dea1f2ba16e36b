//! Streams: nodes of entries in listpacks, and groups of consumers.
//!
//! A node has the id of its first entry as its name. Its listpack begins with the names of the
//! fields that the first entry had; entries with the same names have only values:
//!
//! ```text
//! entries, deleted entries, n, n names, 0
//! flags, id behind that of the node (2), n values, the elements so far of the entry
//! flags, id behind that of the node (2), fields, names and values, the elements of the entry
//! ```

use std::collections::BTreeMap;

use super::packed::{Pack, list_pack};
use super::reader::Reader;
use super::{length, string};
use crate::number;
use crate::store::{Consumer, Ends, Group, Id, Pending};

/// The types: before version 7.0, 7.0, 7.2.
pub(super) const OLD: u8 = 15;
pub(super) const STREAM: u8 = 19;
pub(super) const WITH_ACTIVE: u8 = 21;

/// The bounds of a node, as in the configuration of Redis.
const NODE_ENTRIES: usize = 100;
const NODE_BYTES: usize = 4096;

/// Counters that are higher are damaged: they could not be counted on.
const COUNT_MAX: u64 = i64::MAX as u64;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// A stream with everything that belongs to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Stream {
    /// The entries in order: fields and values in turn.
    pub(crate) items: Vec<(Id, Vec<Vec<u8>>)>,
    pub(crate) ends: Ends,
    pub(crate) groups: Vec<Members>,
    /// The groups have no number of entries read, which is to be estimated.
    pub(crate) is_old: bool,
}

/// A group with its consumers and what they have not acknowledged, in the order of ids.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Members {
    pub(crate) group: Group,
    pub(crate) consumers: Vec<Consumer>,
    pub(crate) pending: Vec<Pending>,
}

// ---- reading ----

impl Stream {
    pub(super) fn read(from: &mut Reader<'_>, kind: u8) -> Option<Stream> {
        let nodes = from.several(1, |from| {
            let first = Id::of_bytes(from.string()?.try_into().ok()?);
            from.packed(|pack, from| node(pack, first, from))
        });
        let mut stream = Stream {
            items: nodes?.into_iter().flatten().collect(),
            is_old: kind == OLD,
            ..Stream::default()
        };
        let count = from.count()?;
        let (ends, items) = (&mut stream.ends, &stream.items);
        ends.last = from.id()?;
        ends.added = count as u64;
        if kind != OLD {
            // The first entry is known.
            from.id()?;
            ends.deleted = from.id()?;
            ends.added = from.number()?;
        }
        ends.first = items.first().map_or(ends.last, |it| it.0);
        let is_ordered = items.is_sorted_by(|one, next| one.0 < next.0);
        let ends_well = items.last().is_none_or(|it| it.0 <= ends.last);
        let is_counted = (count as u64..COUNT_MAX).contains(&ends.added);
        if items.len() != count || !is_counted || !is_ordered || !ends_well {
            return None;
        }
        stream.groups = from.several(1, |from| members(from, kind))?;
        let mut names: Vec<_> = stream.groups.iter().map(|it| &it.group.name).collect();
        names.sort_unstable();
        names.is_sorted_by(|one, next| one < next).then_some(stream)
    }
}

/// The entries of a node that are not deleted.
fn node(pack: &[u8], first: Id, whole: &mut Reader<'_>) -> Option<Vec<(Id, Vec<Vec<u8>>)>> {
    let mut words = list_pack(pack, whole)?.into_iter();
    let (word_count, mut kept) = (words.len(), 0);
    let mut next = || words.next();
    let integer = |word: Option<Vec<u8>>| number::integer(&word?);
    let count = |word| usize::try_from(integer(word)?).ok();
    let all = count(next())?.checked_add(count(next())?)?;
    let width = count(next())?;
    let names: Vec<_> = (0..width).map(|_| next()).collect::<Option<_>>()?;
    // The end of the names.
    next()?;
    let mut items = Vec::new();
    for _ in 0..all {
        let flags = integer(next())?;
        let (millis, number) = (integer(next())?, integer(next())?);
        let id = Id {
            millis: first.millis.wrapping_add_signed(millis),
            number: first.number.wrapping_add_signed(number),
        };
        let mut fields = Vec::new();
        if flags & SAME_FIELDS != 0 {
            for name in &names {
                fields.extend([whole.kept(name.clone())?, next()?]);
            }
        } else {
            let width = count(next())?;
            for _ in 0..width {
                fields.extend([next()?, next()?]);
            }
        }
        // The number of elements, for readers from the end.
        next()?;
        if flags & DELETED == 0 {
            let own = if flags & SAME_FIELDS != 0 { 1 } else { 2 };
            // Two of its numbers stand for the memory of the entry itself.
            kept += fields.len() / 2 * own + 2;
            items.push((id, fields));
        }
    }
    whole.dropped(word_count.saturating_sub(kept));
    words.next().is_none().then_some(items)
}

fn members(from: &mut Reader<'_>, kind: u8) -> Option<Members> {
    let mut group = Group {
        name: from.string()?,
        last: from.id()?,
        read: if kind == OLD { 0 } else { from.number()? },
        pending: 0,
    };
    let raw_id = |from: &mut Reader<'_>| Some(Id::of_bytes(from.chunk()?));
    let entries = from.several(1, |from| {
        let pending = Pending {
            id: raw_id(from)?,
            delivered: from.millis()?,
            deliveries: from.number().filter(|it| *it < COUNT_MAX)?,
            consumer: Vec::new(),
        };
        Some((pending.id, pending))
    })?;
    group.pending = entries.len() as u64;
    // Each is of one consumer, which follows.
    let mut unowned: BTreeMap<Id, Pending> = entries.into_iter().collect();
    let mut pending = Vec::with_capacity(unowned.len());
    let consumers = from.several(1, |from| {
        let (name, seen) = (from.string()?, from.millis()?);
        let active = if kind == WITH_ACTIVE {
            from.millis()?
        } else {
            seen
        };
        let ids = from.several(1, raw_id)?;
        for id in &ids {
            let consumer = from.kept(name.clone())?;
            pending.push(Pending {
                consumer,
                ..unowned.remove(id)?
            });
        }
        Some(Consumer {
            name,
            seen,
            active,
            pending: ids.len() as u64,
        })
    })?;
    pending.sort_unstable_by_key(|it| it.id);
    let mut names: Vec<_> = consumers.iter().map(|it| &it.name).collect();
    names.sort_unstable();
    let are_new = names.is_sorted_by(|one, next| one < next);
    let is_whole = are_new && unowned.is_empty() && pending.len() as u64 == group.pending;
    is_whole.then_some(Members {
        group,
        consumers,
        pending,
    })
}

// ---- writing ----

impl Stream {
    /// Appends what is behind the type.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let nodes = nodes(&self.items);
        length(out, nodes.len() as u64);
        for (first, pack) in nodes {
            string(out, &first.to_bytes());
            string(out, &pack);
        }
        length(out, self.items.len() as u64);
        id(out, self.ends.last);
        // Redis has no first entry in an empty stream.
        id(out, self.items.first().map_or(Id::default(), |it| it.0));
        id(out, self.ends.deleted);
        length(out, self.ends.added);
        length(out, self.groups.len() as u64);
        for members in &self.groups {
            members.write(out);
        }
    }
}

impl Members {
    fn write(&self, out: &mut Vec<u8>) {
        let group = &self.group;
        string(out, &group.name);
        id(out, group.last);
        length(out, group.read);
        length(out, self.pending.len() as u64);
        for pending in &self.pending {
            out.extend_from_slice(&pending.id.to_bytes());
            out.extend_from_slice(&pending.delivered.to_le_bytes());
            length(out, pending.deliveries);
        }
        length(out, self.consumers.len() as u64);
        for consumer in &self.consumers {
            string(out, &consumer.name);
            out.extend_from_slice(&consumer.seen.to_le_bytes());
            let of_consumer = self
                .pending
                .iter()
                .filter(|it| it.consumer == consumer.name);
            let ids: Vec<_> = of_consumer.map(|it| it.id).collect();
            length(out, ids.len() as u64);
            ids.iter()
                .for_each(|id| out.extend_from_slice(&id.to_bytes()));
        }
    }
}

fn id(out: &mut Vec<u8>, id: Id) {
    length(out, id.millis);
    length(out, id.number);
}

/// The nodes of these entries, each with the id of its first.
fn nodes(items: &[(Id, Vec<Vec<u8>>)]) -> Vec<(Id, Vec<u8>)> {
    let mut nodes = Vec::new();
    let mut rest = items;
    while let Some((first, words)) = rest.first() {
        let names: Vec<&Vec<u8>> = words.iter().step_by(2).collect();
        let mut entries = Pack::new();
        let mut count = 0;
        for (id, words) in rest.iter().take(NODE_ENTRIES) {
            if count > 0 && entries.bytes() > NODE_BYTES {
                break;
            }
            entry(&mut entries, (*id, words), (*first, &names));
            count += 1;
        }
        let mut pack = Pack::new();
        pack.number(count as i64);
        pack.number(0);
        pack.number(names.len() as i64);
        names.iter().for_each(|name| pack.string(name));
        pack.number(0);
        pack.append(entries);
        nodes.push((*first, pack.finish()));
        rest = &rest[count..];
    }
    nodes
}

fn entry(pack: &mut Pack, (id, words): (Id, &[Vec<u8>]), (first, names): (Id, &[&Vec<u8>])) {
    let is_same = words.iter().step_by(2).eq(names.iter().copied());
    pack.number(if is_same { SAME_FIELDS } else { 0 });
    pack.number(id.millis.wrapping_sub(first.millis) as i64);
    pack.number(id.number.wrapping_sub(first.number) as i64);
    if is_same {
        words
            .iter()
            .skip(1)
            .step_by(2)
            .for_each(|it| pack.string(it));
        pack.number(3 + names.len() as i64);
    } else {
        pack.number(words.len() as i64 / 2);
        words.iter().for_each(|it| pack.string(it));
        pack.number(4 + words.len() as i64);
    }
}
