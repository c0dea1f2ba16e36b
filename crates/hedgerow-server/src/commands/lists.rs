//! Lists. An element's key is its place, and the places of a list have no gaps: so an index is one
//! read, and both ends are one write. Inserting and removing in the middle moves the elements up to
//! the nearer end. `list_ends.rs` has the commands on the ends.

use super::Args;
use super::arguments::{Options, integer, is, slice};
use crate::resp::Reply;
use crate::store::{Answer, Entry, Kind, Meta, Space, Stop, Txn};
use hedgerow::Slice;

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

/// The elements of these indexes together.
pub(super) fn range(
    txn: &mut Txn<'_>,
    meta: &Meta,
    indexes: std::ops::RangeInclusive<u64>,
) -> Answer<Vec<Slice>> {
    walk(txn, meta, indexes)?.collect()
}

/// The elements of these indexes, one after the other.
pub(super) fn walk(
    txn: &mut Txn<'_>,
    meta: &Meta,
    indexes: std::ops::RangeInclusive<u64>,
) -> Answer<impl Iterator<Item = Answer<Slice>> + use<>> {
    let (first, last) = (*indexes.start(), *indexes.end());
    let count = last - first + 1;
    let mut end = place_key(meta, last);
    end.push(0);
    let db = txn.db;
    let found = txn.scan(db, Space::Ordered, place_key(meta, first)..end, count)?;
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
    txn.touch(&entry);
    txn.event(&entry, b'l', "lset");
    Ok(Reply::OK)
}

pub(super) fn lrange(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let entry = list(txn, args[1])?;
    let (Some(meta), Some(part)) = (entry.meta(), slice(start, stop, entry.count())) else {
        return Ok(Reply::Array(Vec::new()));
    };
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
    let db = txn.db;
    let dropped = (0..*part.start()).chain(part.end() + 1..meta.count);
    for index in dropped {
        txn.delete(db, Space::Ordered, &place_key(&meta, index))?;
    }
    meta.head = meta.head.wrapping_add(*part.start());
    meta.count = part.end() - part.start() + 1;
    txn.store(&mut entry, meta)?;
    Ok(Reply::OK)
}

/// The elements of a list, with the new ones in their place.
fn all(txn: &mut Txn<'_>, meta: &Meta) -> Answer<Vec<Slice>> {
    range(txn, meta, 0..=meta.count - 1)
}

/// Writes a list whose elements were `old`: only those that have moved, towards the end that moves
/// fewer.
fn rewrite(txn: &mut Txn<'_>, entry: &mut Entry, old: &[Slice], new: &[Slice]) -> Answer<()> {
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(());
    };
    let same_before = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let same_behind = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let db = txn.db;
    if same_behind > same_before {
        // The elements at the end stay, so the head moves.
        let grown = (new.len() as u64).wrapping_sub(old.len() as u64);
        for index in 0..old.len().saturating_sub(new.len()) {
            txn.delete(db, Space::Ordered, &place_key(&meta, index as u64))?;
        }
        meta.head = meta.head.wrapping_sub(grown);
        for (index, value) in new[..new.len() - same_behind.min(new.len())]
            .iter()
            .enumerate()
        {
            put(txn, &meta, index as u64, value)?;
        }
    } else {
        for index in new.len()..old.len() {
            txn.delete(db, Space::Ordered, &place_key(&meta, index as u64))?;
        }
        for (index, value) in new.iter().enumerate().skip(same_before) {
            put(txn, &meta, index as u64, value)?;
        }
    }
    meta.count = new.len() as u64;
    txn.store_or_remove(entry, meta)
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
    let old = all(txn, &meta)?;
    let Some(pivot) = old.iter().position(|it| *it == *args[3]) else {
        return Ok(Reply::Integer(-1));
    };
    let mut new = old.clone();
    new.insert(pivot + behind, Slice::copy_from(args[4]));
    rewrite(txn, &mut entry, &old, &new)?;
    txn.event(&entry, b'l', "linsert");
    Ok(Reply::count(new.len()))
}

pub(super) fn lrem(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let wanted = integer(args[2])?;
    let mut entry = list(txn, args[1])?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    let old = all(txn, &meta)?;
    let limit = if wanted == 0 {
        u64::MAX
    } else {
        wanted.unsigned_abs()
    };
    let mut removed = 0;
    let mut keeps = |value: &Slice| {
        let goes = *value == *args[3] && removed < limit;
        removed += u64::from(goes);
        !goes
    };
    let mut new: Vec<Slice> = match wanted < 0 {
        false => old.iter().filter(|it| keeps(it)).cloned().collect(),
        true => old.iter().rev().filter(|it| keeps(it)).cloned().collect(),
    };
    if wanted < 0 {
        new.reverse();
    }
    if removed > 0 {
        txn.event(&entry, b'l', "lrem");
        rewrite(txn, &mut entry, &old, &new)?;
    }
    Ok(Reply::Integer(removed as i64))
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
    let values = match entry.meta() {
        Some(meta) => all(txn, &meta.clone())?,
        None => Vec::new(),
    };
    let compared = if length_max == 0 {
        usize::MAX
    } else {
        length_max
    };
    let places: Box<dyn Iterator<Item = usize>> = match rank > 0 {
        true => Box::new(0..values.len()),
        false => Box::new((0..values.len()).rev()),
    };
    let limit = match wanted {
        None => 1,
        Some(0) => usize::MAX,
        Some(wanted) => wanted,
    };
    let matches = places.take(compared).filter(|it| values[*it] == *args[2]);
    let skipped = rank.unsigned_abs() as usize - 1;
    let mut found = matches.skip(skipped).take(limit).map(Reply::count);
    Ok(match wanted {
        None => found.next().unwrap_or(Reply::Null),
        Some(_) => Reply::Array(found.collect()),
    })
}
