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

use super::Args;
use super::arguments::{Options, integer, is};
use super::streams::{Item, item, item_reply, items, parse_bound, parse_id, stream};
use crate::resp::Reply;
use crate::store::{Answer, Entry, Id, Kind, Meta, Space, Stop, Txn};
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

    /// The consumer, which was seen now, or a new one.
    pub(super) fn seen(
        txn: &mut Txn<'_>,
        meta: &Meta,
        group: &Group,
        name: &[u8],
    ) -> Answer<Consumer> {
        let now = txn.now;
        let found = Consumer::find(txn, meta, group, name)?;
        let new = || Consumer {
            name: name.to_vec(),
            seen: now,
            active: 0,
            pending: 0,
        };
        let mut consumer = found.unwrap_or_else(new);
        consumer.seen = now;
        Ok(consumer)
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

    /// The pending entries from one id to another that are wanted, at most `count`.
    pub(super) fn range(
        txn: &mut Txn<'_>,
        (meta, group): (&Meta, &Group),
        (from, to): (Id, Id),
        count: usize,
        is_wanted: impl Fn(&Pending) -> bool,
    ) -> Answer<Vec<Pending>> {
        if from > to {
            return Ok(Vec::new());
        }
        let begin = Pending::key(meta, group, from);
        let mut end = Pending::key(meta, group, to);
        end.push(0);
        let (db, place) = (txn.db, begin.len() - 16);
        let steps = group.pending.min(count as u64);
        let scan = txn.scan(db, Space::Elements, begin..end, steps)?;
        let pending = |item: Answer<(hedgerow::Slice, hedgerow::Slice)>| {
            let (key, value) = item?;
            let id = key[place..].try_into().map_or(Id::default(), Id::of_bytes);
            Ok(Pending::decode(id, &value))
        };
        let is_wanted = |it: &Answer<Pending>| it.as_ref().map_or(true, &is_wanted);
        scan.map(pending).filter(is_wanted).take(count).collect()
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

// ---- reading ----

/// XREADGROUP of a stream: new entries for `>`, or what the consumer has pending behind an id.
pub(super) fn read(
    txn: &mut Txn<'_>,
    (name, id): (&[u8], &[u8]),
    (group, consumer): (&[u8], &[u8]),
    (count, no_ack): (usize, bool),
) -> Answer<Option<Vec<Reply>>> {
    if id == b"$" {
        return Err(Stop::reply(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        ));
    }
    if txn.is_waiting && txn.lookup_awaited(name, Kind::Stream)?.is_none() {
        return Err(Stop::reply("UNBLOCKED the stream key no longer exists"));
    }
    let command = " in XREADGROUP with GROUP option";
    let (entry, meta, mut group) = found(txn, name, group, command)?;
    let is_new = Consumer::find(txn, &meta, &group, consumer)?.is_none();
    let mut consumer = Consumer::seen(txn, &meta, &group, consumer)?;
    let now = txn.now;
    if is_new {
        txn.event(&entry, b't', "xgroup-createconsumer");
    }
    if id != b">" {
        let from = parse_id(id, 0)?.next();
        consumer.put(txn, &meta, &group)?;
        let of_consumer = |it: &Pending| it.consumer == consumer.name;
        let pending = match from {
            None => Vec::new(),
            Some(from) => {
                Pending::range(txn, (&meta, &group), (from, Id::MAX), count, of_consumer)?
            }
        };
        let mut replies = Vec::new();
        for mut pending in pending {
            replies.push(match item(txn, &meta, pending.id)? {
                Some(words) => {
                    (pending.delivered, pending.deliveries) = (now, pending.deliveries + 1);
                    pending.put(txn, &meta, &group)?;
                    item_reply((pending.id, words))
                }
                None => Reply::Array(vec![Reply::bulk(pending.id.to_string()), Reply::NullArray]),
            });
        }
        return Ok(Some(replies));
    }
    let from = group.last.next();
    let new: Vec<Item> = match from {
        None => Vec::new(),
        Some(from) => items(txn, &meta, (from, Id::MAX), (count, false))?,
    };
    for (id, _) in &new {
        group.advance(&meta, *id);
        if !no_ack {
            // After a change of the group's last id, an entry may be delivered again.
            if let Some(old) = Pending::find(txn, &meta, &group, *id)? {
                old.delete(txn, &meta, &mut group)?;
                consumer.pending -= u64::from(old.consumer == consumer.name);
            }
            consumer.pending += 1;
            group.pending += 1;
            let pending = Pending {
                id: *id,
                delivered: now,
                deliveries: 1,
                consumer: consumer.name.clone(),
            };
            pending.put(txn, &meta, &group)?;
        }
    }
    if !new.is_empty() {
        consumer.active = now;
        group.put(txn, &meta)?;
    }
    consumer.put(txn, &meta, &group)?;
    Ok((!new.is_empty()).then(|| new.into_iter().map(item_reply).collect()))
}

pub(super) fn xack(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let ids = args[3..].iter().map(|it| parse_id(it, 0));
    let ids = ids.collect::<Answer<Vec<Id>>>()?;
    let entry = stream(txn, args[1])?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    let Some(mut group) = Group::find(txn, &meta, args[2])? else {
        return Ok(Reply::Integer(0));
    };
    let before = group.pending;
    for id in ids {
        if let Some(pending) = Pending::find(txn, &meta, &group, id)? {
            pending.delete(txn, &meta, &mut group)?;
        }
    }
    if group.pending < before {
        group.put(txn, &meta)?;
    }
    Ok(Reply::Integer((before - group.pending) as i64))
}

pub(super) fn xpending(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut rest = &args[3..];
    let mut least_idle = 0;
    if let [option, millis, more @ ..] = rest
        && is(option, "IDLE")
    {
        least_idle = u64::try_from(integer(millis)?).unwrap_or(0);
        rest = more;
    }
    let wanted = match *rest {
        [] if args.len() == 3 => None,
        [from, to, count] => Some((from, to, count, None)),
        [from, to, count, consumer] => Some((from, to, count, Some(consumer))),
        _ => return Err(Stop::syntax()),
    };
    let wanted = match wanted {
        None => None,
        Some((from, to, count, consumer)) => {
            let bounds = (parse_bound(from, false)?, parse_bound(to, true)?);
            let count = usize::try_from(integer(count)?).unwrap_or(0);
            Some((bounds, count, consumer))
        }
    };
    let (_, meta, group) = found(txn, args[1], args[2], "")?;
    let Some((bounds, count, consumer)) = wanted else {
        return summary(txn, &meta, &group);
    };
    let now = txn.now;
    let is_wanted = |it: &Pending| {
        consumer.is_none_or(|name| it.consumer == name)
            && now.saturating_sub(it.delivered) >= least_idle
    };
    let pending = Pending::range(txn, (&meta, &group), bounds, count, is_wanted)?;
    let row = |it: Pending| {
        Reply::Array(vec![
            Reply::bulk(it.id.to_string()),
            Reply::Bulk(it.consumer),
            Reply::Integer(now.saturating_sub(it.delivered) as i64),
            Reply::Integer(it.deliveries as i64),
        ])
    };
    Ok(Reply::Array(pending.into_iter().map(row).collect()))
}

fn summary(txn: &mut Txn<'_>, meta: &Meta, group: &Group) -> Answer<Reply> {
    let all = (Id::default(), Id::MAX);
    let pending = Pending::range(txn, (meta, group), all, usize::MAX, |_| true)?;
    let id = |it: Option<&Pending>| it.map_or(Reply::Null, |it| Reply::bulk(it.id.to_string()));
    let consumers = Consumer::all(txn, meta, group)?.into_iter();
    let with_some = consumers.filter(|it| it.pending > 0);
    let row = |it: Consumer| {
        Reply::Array(vec![
            Reply::Bulk(it.name),
            Reply::bulk(it.pending.to_string()),
        ])
    };
    let rows: Vec<Reply> = with_some.map(row).collect();
    Ok(Reply::Array(vec![
        Reply::count(pending.len()),
        id(pending.first()),
        id(pending.last()),
        match rows.is_empty() {
            true => Reply::NullArray,
            false => Reply::Array(rows),
        },
    ]))
}

// ---- XGROUP ----

pub(super) fn xgroup(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    match (args[1], args.len()) {
        (it, 5..) if is(it, "CREATE") => create(txn, args),
        (it, 5..) if is(it, "SETID") => set_id(txn, args),
        (it, 4) if is(it, "DESTROY") => destroy(txn, args),
        (it, 5) if is(it, "CREATECONSUMER") => create_consumer(txn, args),
        (it, 5) if is(it, "DELCONSUMER") => delete_consumer(txn, args),
        (it, 2) if is(it, "HELP") => Ok(Reply::bulks([
            "XGROUP <subcommand>. Subcommands are:",
            "CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <number>]: adds a group.",
            "SETID <key> <group> <id|$> [ENTRIESREAD <number>]: sets up to where it has read.",
            "DESTROY <key> <group>: removes a group.",
            "CREATECONSUMER <key> <group> <consumer>: adds a consumer.",
            "DELCONSUMER <key> <group> <consumer>: removes a consumer and what it has pending.",
        ])),
        _ => Err(Stop::reply(super::wrong_subcommand(args))),
    }
}

/// The id from which on a group reads, and the options behind it.
fn begin(args: Args<'_>, meta: Option<&Meta>) -> Answer<(Id, u64, bool)> {
    let last = match args[4] {
        b"$" => meta.map_or(Id::default(), |it| it.ends.last),
        id => parse_bound(id, false)?,
    };
    let (mut read, mut makes) = (UNKNOWN, false);
    let mut options = Options::new(&args[5..]);
    while let Some(option) = options.next() {
        match option {
            _ if is(option, "MKSTREAM") && is(args[1], "CREATE") => makes = true,
            _ if is(option, "ENTRIESREAD") => {
                let number = options.integer()?;
                if number < -1 {
                    return Err(Stop::reply(
                        "ERR value for ENTRIESREAD must be positive or -1",
                    ));
                }
                read = number as u64;
            }
            _ => return Err(Stop::syntax()),
        }
    }
    Ok((last, read, makes))
}

fn no_key() -> Stop {
    Stop::reply(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
    )
}

fn create(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = stream(txn, args[2])?;
    let (last, read, makes) = begin(args, entry.meta())?;
    let meta = match entry.meta().cloned() {
        Some(meta) => meta,
        None if makes => {
            let meta = txn.new_collection(Kind::Stream)?;
            txn.store(&mut entry, meta.clone())?;
            meta
        }
        None => return Err(no_key()),
    };
    if Group::find(txn, &meta, args[3])?.is_some() {
        return Err(Stop::reply("BUSYGROUP Consumer Group name already exists"));
    }
    let group = Group {
        name: args[3].to_vec(),
        last,
        read,
        pending: 0,
    };
    group.put(txn, &meta)?;
    txn.touch(&entry);
    txn.event(&entry, b't', "xgroup-create");
    Ok(Reply::OK)
}

/// The stream and the group of a subcommand of XGROUP.
fn of_group(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<(Entry, Meta, Option<Group>)> {
    let entry = stream(txn, args[2])?;
    let meta = entry.meta().cloned().ok_or_else(no_key)?;
    let group = Group::find(txn, &meta, args[3])?;
    Ok((entry, meta, group))
}

pub(super) fn missing_group(args: Args<'_>) -> Stop {
    let lossy = String::from_utf8_lossy;
    Stop::reply(format!(
        "NOGROUP No such consumer group '{}' for key name '{}'",
        lossy(args[3]),
        lossy(args[2])
    ))
}

fn set_id(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (entry, meta, group) = of_group(txn, args)?;
    let (last, read, _) = begin(args, Some(&meta))?;
    let mut group = group.ok_or_else(|| missing_group(args))?;
    (group.last, group.read) = (last, read);
    group.put(txn, &meta)?;
    txn.event(&entry, b't', "xgroup-setid");
    Ok(Reply::OK)
}

fn destroy(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (entry, meta, group) = of_group(txn, args)?;
    let Some(group) = group else {
        return Ok(Reply::Integer(0));
    };
    let db = txn.db;
    txn.delete(db, Space::Elements, &key(&meta, b'g', &[&group.name]))?;
    for letter in [b'c', b'p'] {
        txn.delete_range(
            db,
            Space::Elements,
            prefix(key(&meta, letter, &[&group.name])),
        )?;
    }
    txn.event(&entry, b't', "xgroup-destroy");
    // Who waits for the group learns that it is gone.
    txn.ready(&entry);
    Ok(Reply::Integer(1))
}

fn create_consumer(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (entry, meta, group) = of_group(txn, args)?;
    let group = group.ok_or_else(|| missing_group(args))?;
    if Consumer::find(txn, &meta, &group, args[4])?.is_some() {
        return Ok(Reply::Integer(0));
    }
    let consumer = Consumer::seen(txn, &meta, &group, args[4])?;
    consumer.put(txn, &meta, &group)?;
    txn.event(&entry, b't', "xgroup-createconsumer");
    Ok(Reply::Integer(1))
}

fn delete_consumer(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (entry, meta, group) = of_group(txn, args)?;
    let mut group = group.ok_or_else(|| missing_group(args))?;
    let Some(consumer) = Consumer::find(txn, &meta, &group, args[4])? else {
        return Ok(Reply::Integer(0));
    };
    let (all, of_consumer) = ((Id::default(), Id::MAX), |it: &Pending| {
        it.consumer == consumer.name
    });
    let pending = Pending::range(txn, (&meta, &group), all, usize::MAX, of_consumer)?;
    for pending in &pending {
        pending.delete(txn, &meta, &mut group)?;
    }
    group.put(txn, &meta)?;
    let db = txn.db;
    let key = key(&meta, b'c', &[&group.name, &consumer.name]);
    txn.delete(db, Space::Elements, &key)?;
    txn.event(&entry, b't', "xgroup-delconsumer");
    Ok(Reply::count(pending.len()))
}
