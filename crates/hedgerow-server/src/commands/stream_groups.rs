//! Groups of consumers. A group remembers up to where it has read, and what is pending: delivered
//! to a consumer and not acknowledged.
//!
//! All is in the keyspace of elements, behind the stream's version:
//!
//! | key | value |
//! |---|---|
//! | `g` . group | last id(16), entries read(8), pending(8) |
//! | `c` . length(4) . group . consumer | seen(8), active(8), pending(8) |
//! | `p` . length(4) . group . id(16) | delivered at(8), deliveries(8), consumer |
//!
//! What one consumer has pending is found by a walk over what the group has.

use super::streams::stream;
use crate::store::{Answer, Entry, Id, Meta, Space, Stop, Txn};
pub(super) use crate::store::{Consumer, Group, Pending};

/// The number of entries read is not known.
pub(super) const UNKNOWN: u64 = u64::MAX;

pub(super) fn key(meta: &Meta, letter: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = meta.version.to_be_bytes().to_vec();
    key.push(letter);
    if let [group, ..] = parts
        && letter != b'g'
    {
        key.extend_from_slice(&(group.len() as u32).to_be_bytes());
    }
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

/// The keys that begin with these bytes.
pub(super) fn prefix(begin: Vec<u8>) -> std::ops::Range<Vec<u8>> {
    let mut end = begin.clone();
    while end.pop_if(|it| *it == u8::MAX).is_some() {}
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    begin..end
}

fn numbers<const N: usize>(stored: &[u8]) -> [u64; N] {
    let (words, _) = stored.as_chunks::<8>();
    std::array::from_fn(|at| words.get(at).map_or(0, |it| u64::from_be_bytes(*it)))
}

fn bytes(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|it| it.to_be_bytes()).collect()
}

impl Group {
    pub(super) fn decode(name: &[u8], stored: &[u8]) -> Group {
        let [millis, number, read, pending] = numbers(stored);
        Group {
            name: name.to_vec(),
            last: Id { millis, number },
            read,
            pending,
        }
    }

    pub(super) fn put(&self, txn: &mut Txn<'_>, meta: &Meta) -> Answer<()> {
        let Id { millis, number } = self.last;
        let value = bytes(&[millis, number, self.read, self.pending]);
        let db = txn.db;
        txn.put(db, Space::Elements, &key(meta, b'g', &[&self.name]), &value)
    }

    pub(super) fn find(txn: &mut Txn<'_>, meta: &Meta, name: &[u8]) -> Answer<Option<Group>> {
        let db = txn.db;
        let stored = txn.get(db, Space::Elements, &key(meta, b'g', &[name]))?;
        Ok(stored.map(|it| Group::decode(name, &it)))
    }

    /// The entries that the group has not read; `None` if it cannot be known.
    pub(super) fn lag(&self, meta: &Meta) -> Option<u64> {
        let ends = &meta.ends;
        if ends.added == 0 {
            return Some(0);
        }
        if self.read != UNKNOWN && !has_gaps(meta, self.last) {
            return Some(ends.added.saturating_sub(self.read));
        }
        match read_up_to(meta, self.last) {
            UNKNOWN => None,
            read => Some(ends.added.saturating_sub(read)),
        }
    }

    /// Notes that the group has read up to an entry.
    pub(super) fn advance(&mut self, meta: &Meta, id: Id) {
        if id <= self.last {
            return;
        }
        if self.read != UNKNOWN && !has_gaps(meta, id) {
            self.read += 1;
        } else if meta.ends.added > 0 {
            self.read = read_up_to(meta, id);
        }
        self.last = id;
    }
}

/// Returns true if an entry behind `from` was deleted.
fn has_gaps(meta: &Meta, from: Id) -> bool {
    let ends = &meta.ends;
    meta.count > 0 && ends.deleted != Id::default() && from <= ends.deleted
}

/// The number of entries that were ever added up to an id.
pub(super) fn read_up_to(meta: &Meta, id: Id) -> u64 {
    let ends = &meta.ends;
    if ends.added == 0 {
        return 0;
    }
    if meta.count == 0 && id < ends.last || id == ends.last {
        return ends.added;
    }
    let is_whole = ends.deleted == Id::default() || ends.deleted < ends.first;
    match id.cmp(&ends.first) {
        _ if id > ends.last || !is_whole => UNKNOWN,
        std::cmp::Ordering::Less => ends.added - meta.count,
        std::cmp::Ordering::Equal => ends.added - meta.count + 1,
        std::cmp::Ordering::Greater => UNKNOWN,
    }
}

impl Consumer {
    pub(super) fn decode(name: &[u8], stored: &[u8]) -> Consumer {
        let [seen, active, pending] = numbers(stored);
        Consumer {
            name: name.to_vec(),
            seen,
            active,
            pending,
        }
    }

    pub(super) fn put(&self, txn: &mut Txn<'_>, meta: &Meta, group: &Group) -> Answer<()> {
        let value = bytes(&[self.seen, self.active, self.pending]);
        let key = key(meta, b'c', &[&group.name, &self.name]);
        let db = txn.db;
        txn.put(db, Space::Elements, &key, &value)
    }

    pub(super) fn find(
        txn: &mut Txn<'_>,
        meta: &Meta,
        group: &Group,
        name: &[u8],
    ) -> Answer<Option<Consumer>> {
        let db = txn.db;
        let key = key(meta, b'c', &[&group.name, name]);
        let stored = txn.get(db, Space::Elements, &key)?;
        Ok(stored.map(|it| Consumer::decode(name, &it)))
    }

    /// The consumer that a command names, which is seen now. Notes an event for a new one.
    pub(super) fn seen(
        txn: &mut Txn<'_>,
        entry: &Entry,
        (meta, group): (&Meta, &Group),
        name: &[u8],
    ) -> Answer<Consumer> {
        let seen = txn.now;
        if let Some(found) = Consumer::find(txn, meta, group, name)? {
            return Ok(Consumer { seen, ..found });
        }
        txn.event(entry, b't', "xgroup-createconsumer");
        Ok(Consumer {
            name: name.to_vec(),
            seen,
            active: 0,
            pending: 0,
        })
    }

    /// Adds to the number of pending entries.
    pub(super) fn change(
        txn: &mut Txn<'_>,
        meta: &Meta,
        group: &Group,
        (name, by): (&[u8], i64),
    ) -> Answer<()> {
        if let Some(mut consumer) = Consumer::find(txn, meta, group, name)? {
            consumer.pending = consumer.pending.saturating_add_signed(by);
            consumer.put(txn, meta, group)?;
        }
        Ok(())
    }

    pub(super) fn all(txn: &mut Txn<'_>, meta: &Meta, group: &Group) -> Answer<Vec<Consumer>> {
        let begin = key(meta, b'c', &[&group.name]);
        let skipped = begin.len();
        let db = txn.db;
        let scan = txn.scan(db, Space::Elements, prefix(begin), 0)?;
        let consumer = |item: Answer<(hedgerow::Slice, hedgerow::Slice)>| {
            let (key, value) = item?;
            Ok(Consumer::decode(&key[skipped..], &value))
        };
        scan.map(consumer).collect()
    }
}

impl Pending {
    pub(super) fn decode(id: Id, stored: &[u8]) -> Pending {
        let [delivered, deliveries] = numbers(stored);
        Pending {
            id,
            delivered,
            deliveries,
            consumer: stored.get(16..).unwrap_or_default().to_vec(),
        }
    }

    pub(super) fn key(meta: &Meta, group: &Group, id: Id) -> Vec<u8> {
        key(meta, b'p', &[&group.name, &id.to_bytes()])
    }

    pub(super) fn put(&self, txn: &mut Txn<'_>, meta: &Meta, group: &Group) -> Answer<()> {
        let mut value = bytes(&[self.delivered, self.deliveries]);
        value.extend_from_slice(&self.consumer);
        let db = txn.db;
        txn.put(
            db,
            Space::Elements,
            &Pending::key(meta, group, self.id),
            &value,
        )
    }

    pub(super) fn find(
        txn: &mut Txn<'_>,
        meta: &Meta,
        group: &Group,
        id: Id,
    ) -> Answer<Option<Pending>> {
        let db = txn.db;
        let stored = txn.get(db, Space::Elements, &Pending::key(meta, group, id))?;
        Ok(stored.map(|it| Pending::decode(id, &it)))
    }

    pub(super) fn delete(&self, txn: &mut Txn<'_>, meta: &Meta, group: &mut Group) -> Answer<()> {
        let db = txn.db;
        txn.delete(db, Space::Elements, &Pending::key(meta, group, self.id))?;
        group.pending = group.pending.saturating_sub(1);
        Consumer::change(txn, meta, group, (&self.consumer, -1))
    }

    /// The pending entries from one id to another, one after the other; `count` says how many the
    /// caller walks over at most.
    pub(super) fn walk(
        txn: &mut Txn<'_>,
        (meta, group): (&Meta, &Group),
        (from, to): (Id, Id),
        count: usize,
    ) -> Answer<impl DoubleEndedIterator<Item = Answer<Pending>> + use<>> {
        let begin = Pending::key(meta, group, from);
        let mut end = Pending::key(meta, group, to.max(from));
        if from <= to {
            end.push(0);
        }
        let (db, place) = (txn.db, begin.len() - 16);
        let steps = group.pending.min(count as u64);
        let scan = txn.scan(db, Space::Elements, begin..end, steps)?;
        Ok(scan.map(move |item| {
            let (key, value) = item?;
            let id = key[place..].try_into().map_or(Id::default(), Id::of_bytes);
            Ok(Pending::decode(id, &value))
        }))
    }

    /// The pending entries of a consumer from an id on. The walk passes those of the others.
    pub(super) fn of_consumer<'a>(
        txn: &mut Txn<'_>,
        of: (&Meta, &Group),
        from: Id,
        consumer: &'a Consumer,
    ) -> Answer<impl Iterator<Item = Answer<Pending>> + use<'a>> {
        let pending = Pending::walk(txn, of, (from, Id::MAX), usize::MAX)?;
        let is_its = |it: &Pending| it.consumer == consumer.name;
        Ok(pending.filter(move |it| it.as_ref().map_or(true, is_its)))
    }
}

fn no_group(key: &[u8], group: &[u8], command: &str) -> Stop {
    let lossy = String::from_utf8_lossy;
    Stop::reply(format!(
        "NOGROUP No such key '{}' or consumer group '{}'{command}",
        lossy(key),
        lossy(group)
    ))
}

/// A stream and its group, which must be there.
pub(super) fn found(
    txn: &mut Txn<'_>,
    key: &[u8],
    name: &[u8],
    command: &str,
) -> Answer<(Entry, Meta, Group)> {
    let entry = stream(txn, key)?;
    let missing = || no_group(key, name, command);
    let meta = entry.meta().cloned().ok_or_else(missing)?;
    let group = Group::find(txn, &meta, name)?.ok_or_else(missing)?;
    Ok((entry, meta, group))
}

pub(super) fn missing_group(key: &[u8], group: &[u8]) -> Stop {
    let lossy = String::from_utf8_lossy;
    Stop::reply(format!(
        "NOGROUP No such consumer group '{}' for key name '{}'",
        lossy(group),
        lossy(key)
    ))
}
