//! Streams: entries in the order of their ids. They are read in `stream_reads.rs`; groups of
//! consumers are in `stream_groups.rs`.

use super::Args;
use super::arguments::{Options, integer, is};
use crate::resp::{ELEMENT_BYTES, Reply, element_bytes};
use crate::store::{Answer, Entry, Id, Kind, Meta, Room, Space, Stop, Txn};
use hedgerow::Slice;

/// An entry: its id, and fields and values in turn.
pub(super) type Item = (Id, Vec<Vec<u8>>);

/// Entries as they are stored, one after the other.
type StoredItems = Box<dyn Iterator<Item = Answer<(Id, Slice)>>>;

pub(super) fn stream(txn: &mut Txn<'_>, key: &[u8]) -> Answer<Entry> {
    txn.lookup_kind(key, Kind::Stream)
}

pub(super) fn no_such_key() -> Stop {
    Stop::reply("ERR no such key")
}

pub(super) fn item_key(meta: &Meta, id: Id) -> Vec<u8> {
    [&meta.version.to_be_bytes()[..], &id.to_bytes()].concat()
}

pub(super) fn encode<B: AsRef<[u8]>>(words: &[B]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in words.iter().map(B::as_ref) {
        out.extend_from_slice(&(word.len() as u32).to_be_bytes());
        out.extend_from_slice(word);
    }
    out
}

fn decode(mut stored: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    while let Some((length, rest)) = stored.split_first_chunk::<4>() {
        let length = (u32::from_be_bytes(*length) as usize).min(rest.len());
        let (word, rest) = rest.split_at(length);
        words.push(word.to_vec());
        stored = rest;
    }
    words
}

// ---- ids ----

fn invalid_id() -> Stop {
    Stop::reply("ERR Invalid stream ID specified as stream command argument")
}

/// An id; `number` is used if only the time is given.
pub(super) fn parse_id(text: &[u8], number: u64) -> Answer<Id> {
    let digits = |text: &[u8]| -> Option<u64> {
        // Redis reads as C does, which takes blanks and a sign in front.
        let is_blank = |it: &u8| it.is_ascii_whitespace() || *it == b'\x0b';
        let blanks = text.iter().take_while(|it| is_blank(it)).count();
        let text = text[blanks..].strip_prefix(b"+").unwrap_or(&text[blanks..]);
        let is_digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(text).ok().filter(|_| is_digits)?;
        text.parse().ok()
    };
    let parsed = match text.iter().position(|it| *it == b'-') {
        None => digits(text).map(|millis| Id { millis, number }),
        Some(place) => {
            let millis = digits(&text[..place]);
            let pair = millis.zip(digits(&text[place + 1..]));
            pair.map(|(millis, number)| Id { millis, number })
        }
    };
    parsed.ok_or_else(invalid_id)
}

/// The first or last id of a range: `-`, `+`, an id, or `(` and an id that is not in it.
pub(super) fn parse_bound(text: &[u8], is_end: bool) -> Answer<Id> {
    let number = if is_end { u64::MAX } else { 0 };
    match text {
        b"-" => Ok(Id::default()),
        b"+" => Ok(Id::MAX),
        [b'(', id @ ..] => {
            let id = parse_id(id, number)?;
            let (beside, which) = match is_end {
                true => (id.before(), "end"),
                false => (id.next(), "start"),
            };
            let none = || Stop::reply(format!("ERR invalid {which} ID for the interval"));
            beside.ok_or_else(none)
        }
        id => parse_id(id, number),
    }
}

// ---- entries ----

/// The entries from `from` to `to`, at most `count`, forwards or backwards. They take some of the
/// room.
pub(super) fn items(
    txn: &mut Txn<'_>,
    meta: &Meta,
    range: (Id, Id),
    part: (usize, bool),
    room: &mut Room,
) -> Answer<Vec<Item>> {
    let item = |(id, value): (Id, Slice)| (id, decode(&value));
    let items = walk(txn, meta, range, part)?.map(|it| it.map(item));
    room.gather(items, item_bytes)
}

/// The ids of these entries.
fn ids(txn: &mut Txn<'_>, meta: &Meta, range: (Id, Id), part: (usize, bool)) -> Answer<Vec<Id>> {
    walk(txn, meta, range, part)?
        .map(|it| it.map(|it| it.0))
        .collect()
}

/// These entries as they are stored.
fn walk(
    txn: &mut Txn<'_>,
    meta: &Meta,
    (from, to): (Id, Id),
    (count, reversed): (usize, bool),
) -> Answer<StoredItems> {
    let from = from.max(meta.ends.first);
    let to = to.min(meta.ends.last);
    if from > to || meta.count == 0 {
        return Ok(Box::new(std::iter::empty()));
    }
    let end = match to.next() {
        Some(next) => item_key(meta, next),
        None => (meta.version + 1).to_be_bytes().to_vec(),
    };
    let steps = meta.count.min(count as u64);
    let db = txn.db;
    let scan = txn.scan(db, Space::Ordered, item_key(meta, from)..end, steps)?;
    let item = |item: Answer<(Slice, Slice)>| {
        let (key, value) = item?;
        let id = key.get(8..24).and_then(|it| it.try_into().ok());
        Ok((id.map_or(Id::default(), Id::of_bytes), value))
    };
    Ok(match reversed {
        false => Box::new(scan.take(count).map(item)),
        true => Box::new(scan.rev().take(count).map(item)),
    })
}

/// The fields and values of an entry.
pub(super) fn item(txn: &mut Txn<'_>, meta: &Meta, id: Id) -> Answer<Option<Vec<Vec<u8>>>> {
    let db = txn.db;
    let stored = txn.get(db, Space::Ordered, &item_key(meta, id))?;
    Ok(stored.map(|it| decode(&it)))
}

/// The bytes of an entry in a reply, or a few more.
fn item_bytes((id, words): &Item) -> usize {
    let words = words.iter().map(|it| element_bytes(it.len()));
    6 + 2 * ELEMENT_BYTES + element_bytes(id.to_string().len()) + words.sum::<usize>()
}

pub(super) fn item_reply((id, words): Item) -> Reply {
    Reply::Array(vec![Reply::bulk(id.to_string()), Reply::bulks(words)])
}

/// Deletes an entry that is there.
fn delete(txn: &mut Txn<'_>, meta: &mut Meta, id: Id) -> Answer<()> {
    let db = txn.db;
    txn.delete(db, Space::Ordered, &item_key(meta, id))?;
    meta.count -= 1;
    Ok(())
}

/// Finds the first entry again, after the one that was it is gone.
fn update_first(txn: &mut Txn<'_>, meta: &mut Meta) -> Answer<()> {
    let first = ids(txn, meta, (meta.ends.first, Id::MAX), (1, false))?;
    meta.ends.first = first.first().copied().unwrap_or_default();
    if meta.count == 0 {
        // Every entry that comes is behind the last.
        meta.ends.first = meta.ends.last;
    }
    Ok(())
}

/// A way to remove entries from the beginning.
#[derive(Debug, Clone, Copy)]
enum Trim {
    /// The number that stays.
    Length(u64),
    /// Those with lower ids go.
    Below(Id),
}

impl Trim {
    /// The trimming that `option` names, and its limit.
    fn parse(option: &[u8], options: &mut Options<'_>) -> Answer<Trim> {
        let by_length = is(option, "MAXLEN");
        let mut value = options.value()?;
        if value == b"=" || value == b"~" {
            value = options.value()?;
        }
        if !by_length {
            return Ok(Trim::Below(parse_id(value, 0)?));
        }
        let length = integer(value)?;
        let wrong = |_| Stop::reply("ERR The MAXLEN argument must be >= 0.");
        Ok(Trim::Length(u64::try_from(length).map_err(wrong)?))
    }

    /// Removes entries. Returns how many.
    fn run(self, txn: &mut Txn<'_>, meta: &mut Meta, limit: u64) -> Answer<u64> {
        let (to, most) = match self {
            Trim::Length(length) => (Id::MAX, meta.count.saturating_sub(length)),
            Trim::Below(id) => match id.before() {
                None => return Ok(0),
                Some(last) => (last, meta.count),
            },
        };
        let most = most.min(limit);
        if most == 0 {
            return Ok(0);
        }
        let found = ids(txn, meta, (Id::default(), to), (most as usize, false))?;
        for id in &found {
            delete(txn, meta, *id)?;
            meta.ends.deleted = meta.ends.deleted.max(*id);
        }
        if !found.is_empty() {
            update_first(txn, meta)?;
        }
        Ok(found.len() as u64)
    }
}

/// The options of XADD and XTRIM.
#[derive(Default)]
struct TrimOptions {
    trim: Option<Trim>,
    approximate: bool,
    limit: Option<u64>,
    only_old: bool,
    /// The arguments that were options.
    taken: usize,
}

impl TrimOptions {
    fn parse(rest: Args<'_>, is_add: bool) -> Answer<TrimOptions> {
        let (mut parsed, mut options) = (TrimOptions::default(), Options::new(rest));
        loop {
            parsed.taken = rest.len() - options.left();
            let Some(option) = options.next() else {
                break;
            };
            match option {
                _ if is(option, "MAXLEN") || is(option, "MINID") => {
                    if parsed.trim.is_some() {
                        return Err(Stop::reply(
                            "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
                        ));
                    }
                    parsed.approximate = rest.get(parsed.taken + 1).is_some_and(|it| *it == b"~");
                    parsed.trim = Some(Trim::parse(option, &mut options)?);
                }
                _ if is(option, "LIMIT") => {
                    let wrong = |_| Stop::reply("ERR The LIMIT argument must be >= 0.");
                    let limit = u64::try_from(options.integer()?).map_err(wrong)?;
                    parsed.limit = Some(if limit == 0 { u64::MAX } else { limit });
                }
                _ if is_add && is(option, "NOMKSTREAM") => parsed.only_old = true,
                _ if is_add => break,
                _ => return Err(Stop::syntax()),
            }
        }
        if parsed.limit.is_some() && !parsed.approximate {
            return Err(Stop::reply(
                "ERR syntax error, LIMIT cannot be used without the special ~ option",
            ));
        }
        Ok(parsed)
    }

    fn run(&self, txn: &mut Txn<'_>, meta: &mut Meta) -> Answer<u64> {
        match self.trim {
            None => Ok(0),
            Some(trim) => trim.run(txn, meta, self.limit.unwrap_or(u64::MAX)),
        }
    }
}

/// The id of a new entry: `*`, a time and `*`, or an id.
fn new_id(text: &[u8], last: Id, now: u64) -> Answer<Id> {
    let exhausted = || {
        Stop::reply("ERR The stream has exhausted the last possible ID, unable to add more items")
    };
    let too_small = || {
        Stop::reply(
            "ERR The ID specified in XADD is equal or smaller than the target stream top item",
        )
    };
    let of_time = |millis: u64| match millis {
        _ if millis > last.millis => Some(Id { millis, number: 0 }),
        _ => last.next(),
    };
    if last == Id::MAX {
        return Err(exhausted());
    }
    if text == b"*" {
        return of_time(now).ok_or_else(exhausted);
    }
    if let Some(millis) = text.strip_suffix(b"-*") {
        let millis = parse_id(millis, 0)?.millis;
        let id = match millis == 0 && last == Id::default() {
            true => last.next(),
            false => of_time(millis),
        };
        return id.filter(|it| it.millis == millis).ok_or_else(too_small);
    }
    let id = parse_id(text, 0)?;
    if id == Id::default() {
        return Err(Stop::reply(
            "ERR The ID specified in XADD must be greater than 0-0",
        ));
    }
    if id <= last { Err(too_small()) } else { Ok(id) }
}

pub(super) fn xadd(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let options = TrimOptions::parse(&args[2..], true)?;
    let wrong = || Stop::reply("ERR wrong number of arguments for 'xadd' command");
    let (id, words) = args[2 + options.taken..].split_first().ok_or_else(wrong)?;
    // The id is looked at first, also if the rest is wrong.
    if *id != b"*" && !id.ends_with(b"-*") {
        parse_id(id, 0)?;
    }
    if words.is_empty() || words.len() % 2 != 0 {
        return Err(wrong());
    }
    let mut entry = stream(txn, args[1])?;
    if !entry.exists() && options.only_old {
        return Ok(Reply::Null);
    }
    let mut meta = txn.collection(&entry, Kind::Stream)?;
    let id = new_id(id, meta.ends.last, txn.now)?;
    let db = txn.db;
    txn.put(db, Space::Ordered, &item_key(&meta, id), &encode(words))?;
    if meta.count == 0 {
        meta.ends.first = id;
    }
    meta.count += 1;
    meta.ends.last = id;
    meta.ends.added += 1;
    let trimmed = options.run(txn, &mut meta)?;
    txn.store(&mut entry, meta)?;
    txn.event(&entry, b't', "xadd");
    if trimmed > 0 {
        txn.event(&entry, b't', "xtrim");
    }
    txn.ready(&entry);
    Ok(Reply::bulk(id.to_string()))
}

pub(super) fn xtrim(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let options = TrimOptions::parse(&args[2..], false)?;
    if options.trim.is_none() {
        return Err(Stop::syntax());
    }
    let mut entry = stream(txn, args[1])?;
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    let trimmed = options.run(txn, &mut meta)?;
    if trimmed > 0 {
        txn.store(&mut entry, meta)?;
        txn.event(&entry, b't', "xtrim");
    }
    Ok(Reply::Integer(trimmed as i64))
}

pub(super) fn xlen(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    Ok(Reply::Integer(stream(txn, args[1])?.count() as i64))
}

pub(super) fn xrange(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    range(txn, args, false)
}

pub(super) fn xrevrange(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    range(txn, args, true)
}

fn range(txn: &mut Txn<'_>, args: Args<'_>, reversed: bool) -> Answer<Reply> {
    let (first, last) = if reversed { (3, 2) } else { (2, 3) };
    let (from, to) = (
        parse_bound(args[first], false)?,
        parse_bound(args[last], true)?,
    );
    let mut count = usize::MAX;
    let mut options = Options::new(&args[4..]);
    while let Some(option) = options.next() {
        match is(option, "COUNT") {
            true => count = usize::try_from(options.integer()?).unwrap_or(0),
            false => return Err(Stop::syntax()),
        }
    }
    let entry = stream(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Array(Vec::new()));
    };
    if count == 0 {
        return Ok(Reply::NullArray);
    }
    let mut room = txn.room;
    let found = items(txn, meta, (from, to), (count, reversed), &mut room)?;
    Ok(Reply::Array(found.into_iter().map(item_reply).collect()))
}

pub(super) fn xdel(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let ids = args[2..].iter().map(|it| parse_id(it, 0));
    let ids = ids.collect::<Answer<Vec<Id>>>()?;
    let mut entry = stream(txn, args[1])?;
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    let (before, mut first_is_gone) = (meta.count, false);
    for id in ids {
        if item(txn, &meta, id)?.is_some() {
            delete(txn, &mut meta, id)?;
            meta.ends.deleted = meta.ends.deleted.max(id);
            first_is_gone |= id == meta.ends.first;
        }
    }
    let deleted = before - meta.count;
    if deleted > 0 {
        if first_is_gone {
            update_first(txn, &mut meta)?;
        }
        txn.store(&mut entry, meta)?;
        txn.event(&entry, b't', "xdel");
    }
    Ok(Reply::Integer(deleted as i64))
}

pub(super) fn xsetid(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let last = parse_id(args[2], 0)?;
    let (mut added, mut deleted) = (None, None);
    let mut options = Options::new(&args[3..]);
    while let Some(option) = options.next() {
        match option {
            _ if is(option, "ENTRIESADDED") => {
                let wrong = |_| Stop::reply("ERR entries_added must be positive");
                added = Some(u64::try_from(options.integer()?).map_err(wrong)?);
            }
            _ if is(option, "MAXDELETEDID") => deleted = Some(parse_id(options.value()?, 0)?),
            _ => return Err(Stop::syntax()),
        }
    }
    if deleted.is_some_and(|it| it > last) {
        return Err(Stop::reply(
            "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
        ));
    }
    let mut entry = stream(txn, args[1])?;
    let mut meta = entry.meta().cloned().ok_or_else(no_such_key)?;
    let top = ids(txn, &meta, (Id::default(), Id::MAX), (1, true))?;
    if top.first().is_some_and(|it| *it > last) {
        return Err(Stop::reply(
            "ERR The ID specified in XSETID is smaller than the target stream top item",
        ));
    }
    if added.is_some_and(|it| it < meta.count) {
        return Err(Stop::reply(
            "ERR The entries_added specified in XSETID is smaller than the target stream length",
        ));
    }
    meta.ends.last = last;
    meta.ends.added = added.unwrap_or(meta.ends.added);
    meta.ends.deleted = deleted.unwrap_or(meta.ends.deleted);
    if meta.count == 0 {
        meta.ends.first = last;
    }
    txn.store_facts(&mut entry, meta)?;
    txn.event(&entry, b't', "xsetid");
    Ok(Reply::OK)
}

#[cfg(test)]
mod tests;
