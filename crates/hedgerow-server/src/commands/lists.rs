//! Lists. An element's key is its place, and the places of a list have no gaps: so an index is one
//! read, and both ends are one write. Inserting and removing in the middle moves the elements up to
//! the nearer end. `list_ends.rs` has the commands on the ends.

use super::Args;
use super::arguments::{Options, integer, is, slice};
use crate::resp::Reply;
use crate::store::{Answer, Entry, Kind, Meta, Room, Space, Stop, Txn};
use hedgerow::Slice;
use std::ops::Range;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

pub(super) fn list(txn: &mut Txn<'_>, key: &[u8]) -> Answer<Entry> {
    txn.lookup_kind(key, Kind::List)
}

pub(super) fn place_key(meta: &Meta, index: u64) -> Vec<u8> {
    let place = meta.head.wrapping_add(index);
    [meta.version.to_be_bytes(), place.to_be_bytes()].concat()
}

pub(super) fn element(txn: &mut Txn<'_>, meta: &Meta, index: u64) -> Answer<Slice> {
    let db = txn.db;
    let found = txn.get(db, Space::Ordered, &place_key(meta, index))?;
    found.ok_or_else(|| {
        Stop::reply("ERR expected an element of a list, found none: the database is damaged")
    })
}

pub(super) fn put(txn: &mut Txn<'_>, meta: &Meta, index: u64, value: &[u8]) -> Answer<()> {
    let db = txn.db;
    txn.put(db, Space::Ordered, &place_key(meta, index), value)
}

/// The elements of these indexes, one after the other.
pub(super) fn walk(
    txn: &mut Txn<'_>,
    meta: &Meta,
    indexes: Range<u64>,
) -> Answer<impl DoubleEndedIterator<Item = Answer<Slice>> + use<>> {
    let places = place_key(meta, indexes.start)..place_key(meta, indexes.end);
    let db = txn.db;
    let found = txn.scan(db, Space::Ordered, places, indexes.end - indexes.start)?;
    Ok(found.map(|item| Ok(item?.1)))
}

pub(super) fn llen(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    Ok(Reply::Integer(list(txn, args[1])?.count() as i64))
}

fn index(argument: &[u8], count: u64) -> Answer<Option<u64>> {
    let index = integer(argument)?;
    Ok(slice(index, index, count)
        .filter(|_| index < count as i64 && index >= -(count as i64))
        .map(|it| *it.start()))
}

pub(super) fn lindex(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = list(txn, args[1])?;
    let index = index(args[2], entry.count())?;
    match (entry.meta(), index) {
        (Some(meta), Some(index)) => Ok(Reply::Stored(element(txn, meta, index)?, 0)),
        _ => Ok(Reply::Null),
    }
}

pub(super) fn lset(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = list(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Err(Stop::reply("ERR no such key"));
    };
    let index = index(args[2], meta.count)?;
    let index = index.ok_or_else(|| Stop::reply("ERR index out of range"))?;
    put(txn, meta, index, args[3])?;
    txn.touch_elements(&entry)?;
    txn.event(&entry, b'l', "lset");
    Ok(Reply::OK)
}

pub(super) fn lrange(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let entry = list(txn, args[1])?;
    let (Some(meta), Some(part)) = (entry.meta(), slice(start, stop, entry.count())) else {
        return Ok(Reply::Array(Vec::new()));
    };
    let part = *part.start()..part.end() + 1;
    let found = walk(txn, meta, part)?.map(|item| Ok(Reply::Stored(item?, 0)));
    Ok(Reply::Array(txn.room.replies(found)?))
}

pub(super) fn ltrim(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let mut entry = list(txn, args[1])?;
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(Reply::OK);
    };
    txn.event(&entry, b'l', "ltrim");
    let Some(part) = slice(start, stop, meta.count) else {
        txn.del(&mut entry)?;
        return Ok(Reply::OK);
    };
    remove(txn, &meta, 0..*part.start())?;
    remove(txn, &meta, part.end() + 1..meta.count)?;
    meta.head = meta.head.wrapping_add(*part.start());
    meta.count = part.end() - part.start() + 1;
    txn.store(&mut entry, meta)?;
    Ok(Reply::OK)
}

/// The least number of elements that are removed by one deletion of a range. Each deletion of a
/// range makes later reads look at one more, so a few elements are deleted one by one.
const REMOVED_AT_ONCE_MIN: u64 = 128;

/// Removes the elements of these indexes. Other elements keep their places.
fn remove(txn: &mut Txn<'_>, meta: &Meta, indexes: Range<u64>) -> Answer<()> {
    let db = txn.db;
    if indexes.end - indexes.start >= REMOVED_AT_ONCE_MIN {
        let places = place_key(meta, indexes.start)..place_key(meta, indexes.end);
        return txn.delete_range(db, Space::Ordered, places);
    }
    for index in indexes {
        txn.delete(db, Space::Ordered, &place_key(meta, index))?;
    }
    Ok(())
}

pub(super) fn linsert(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let behind = match args[2] {
        it if is(it, "BEFORE") => 0,
        it if is(it, "AFTER") => 1,
        _ => return Err(Stop::syntax()),
    };
    let mut entry = list(txn, args[1])?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    let first = find(txn, &meta, args[3], (End::Left, u64::MAX))?.next();
    let Some(at) = first.transpose()?.map(|pivot| pivot + behind) else {
        return Ok(Reply::Integer(-1));
    };
    let mut new = meta.clone();
    new.count += 1;
    // The elements up to the nearer end move by one.
    let (moved, to) = match at < meta.count - at {
        true => {
            new.head = new.head.wrapping_sub(1);
            (0..at, 0)
        }
        false => (at..meta.count, at + 1),
    };
    for (index, value) in (to..).zip(walk(txn, &meta, moved)?) {
        put(txn, &new, index, &value?)?;
    }
    put(txn, &new, at, args[4])?;
    let count = new.count;
    txn.store(&mut entry, new)?;
    txn.event(&entry, b'l', "linsert");
    Ok(Reply::Integer(count as i64))
}

pub(super) fn lrem(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let wanted = integer(args[2])?;
    let mut entry = list(txn, args[1])?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    let end = if wanted < 0 { End::Right } else { End::Left };
    let limit = match wanted {
        0 => usize::MAX,
        _ => usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let found = find(txn, &meta, args[3], (end, u64::MAX))?.take(limit);
    let mut gone = Room::OF_COMMIT.collect(found, |_| size_of::<u64>())?;
    gone.sort_unstable();
    if !gone.is_empty() {
        txn.event(&entry, b'l', "lrem");
    }
    if gone.len() as u64 == meta.count {
        txn.del(&mut entry)?;
    } else if !gone.is_empty() {
        let new = take_out(txn, &meta, &gone)?;
        txn.store(&mut entry, new)?;
    }
    Ok(Reply::count(gone.len()))
}

/// Removes the elements of these indexes, which are in order. The elements before the last one or
/// those behind the first one move, whichever are fewer.
fn take_out(txn: &mut Txn<'_>, old: &Meta, gone: &[u64]) -> Answer<Meta> {
    let (mut new, count) = (old.clone(), gone.len() as u64);
    let (Some(first), Some(last)) = (gone.first(), gone.last()) else {
        return Ok(new);
    };
    new.count -= count;
    let (moved, freed) = match last + 1 < old.count - first {
        true => {
            new.head = new.head.wrapping_add(count);
            (0..last + 1, 0..count)
        }
        false => (*first..old.count, new.count..old.count),
    };
    let (mut to, mut gone) = (moved.start, gone.iter().peekable());
    for (index, value) in moved.clone().zip(walk(txn, old, moved)?) {
        let value = value?;
        if gone.next_if_eq(&&index).is_none() {
            put(txn, &new, to, &value)?;
            to += 1;
        }
    }
    remove(txn, old, freed)?;
    Ok(new)
}

/// The indexes of elements that are equal to a value, from an end on, among the `compared` elements
/// that are nearest to it.
fn find<'v>(
    txn: &mut Txn<'_>,
    meta: &Meta,
    value: &'v [u8],
    (end, compared): (End, u64),
) -> Answer<impl Iterator<Item = Answer<u64>> + use<'v>> {
    let compared = compared.min(meta.count);
    let indexes = match end {
        End::Left => 0..compared,
        End::Right => meta.count - compared..meta.count,
    };
    let values = walk(txn, meta, indexes.clone())?;
    let pairs: Box<dyn Iterator<Item = (u64, Answer<Slice>)>> = match end {
        End::Left => Box::new(indexes.zip(values)),
        End::Right => Box::new(indexes.rev().zip(values.rev())),
    };
    Ok(pairs.filter_map(move |(index, found)| match found {
        Ok(found) if *found != *value => None,
        found => Some(found.map(|_| index)),
    }))
}

pub(super) fn lpos(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (mut rank, mut wanted, mut length_max) = (1, None, 0);
    let mut options = Options::new(&args[3..]);
    while let Some(option) = options.next() {
        let not_negative = |number: i64, name: &str| {
            usize::try_from(number)
                .map_err(|_| Stop::reply(format!("ERR {name} can't be negative")))
        };
        match option {
            _ if is(option, "RANK") => {
                rank = options.integer()?;
                if rank == 0 {
                    return Err(Stop::reply(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                    ));
                }
                if rank == i64::MIN {
                    return Err(Stop::reply(
                        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
                    ));
                }
            }
            _ if is(option, "COUNT") => wanted = Some(not_negative(options.integer()?, "COUNT")?),
            _ if is(option, "MAXLEN") => length_max = not_negative(options.integer()?, "MAXLEN")?,
            _ => return Err(Stop::syntax()),
        }
    }
    let entry = list(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Ok(wanted.map_or(Reply::Null, |_| Reply::Array(Vec::new())));
    };
    let end = if rank > 0 { End::Left } else { End::Right };
    let compared = if length_max == 0 {
        usize::MAX
    } else {
        length_max
    };
    let limit = match wanted {
        None => 1,
        Some(0) => usize::MAX,
        Some(wanted) => wanted,
    };
    let mut skipped = rank.unsigned_abs() - 1;
    let is_behind_skipped = |it: &Answer<u64>| match (it, skipped) {
        (Err(_), _) | (_, 0) => true,
        _ => {
            skipped -= 1;
            false
        }
    };
    let found = find(txn, meta, args[2], (end, compared as u64))?;
    let found = found.filter(is_behind_skipped).take(limit);
    let replies = found.map(|it| Ok(Reply::Integer(it? as i64)));
    let mut replies = txn.room.replies(replies)?;
    Ok(match wanted {
        None => replies.pop().unwrap_or(Reply::Null),
        Some(_) => Reply::Array(replies),
    })
}
