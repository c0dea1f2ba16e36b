//! Lists. An element's key is its place, and the places of a list have no gaps: so an index is one
//! read, and both ends are one write. Inserting and removing in the middle moves the elements up to
//! the nearer end.

use super::Args;
use super::arguments::{Options, count, integer, is, slice};
use super::sets::pop_words;
use crate::resp::Reply;
use crate::store::{Answer, Entry, Kind, Meta, Space, Stop, Txn};
use hedgerow::Slice;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Left,
    Right,
}

impl End {
    fn parse(argument: &[u8]) -> Answer<End> {
        match argument {
            it if is(it, "LEFT") => Ok(End::Left),
            it if is(it, "RIGHT") => Ok(End::Right),
            _ => Err(Stop::syntax()),
        }
    }
}

fn list(txn: &mut Txn<'_>, key: &[u8]) -> Answer<Entry> {
    txn.lookup_kind(key, Kind::List)
}

fn place_key(meta: &Meta, index: u64) -> Vec<u8> {
    let place = meta.head.wrapping_add(index);
    [meta.version.to_be_bytes(), place.to_be_bytes()].concat()
}

fn element(txn: &mut Txn<'_>, meta: &Meta, index: u64) -> Answer<Slice> {
    let db = txn.db;
    let found = txn.get(db, Space::Ordered, &place_key(meta, index))?;
    found.ok_or_else(|| {
        Stop::reply("ERR expected an element of a list, found none: the database is damaged")
    })
}

fn put(txn: &mut Txn<'_>, meta: &Meta, index: u64, value: &[u8]) -> Answer<()> {
    let db = txn.db;
    txn.put(db, Space::Ordered, &place_key(meta, index), value)
}

/// The elements of these indexes.
pub(super) fn range(
    txn: &mut Txn<'_>,
    meta: &Meta,
    indexes: std::ops::RangeInclusive<u64>,
) -> Answer<Vec<Slice>> {
    let (first, last) = (*indexes.start(), *indexes.end());
    let count = last - first + 1;
    let mut end = place_key(meta, last);
    end.push(0);
    let db = txn.db;
    let found = txn.scan(db, Space::Ordered, place_key(meta, first)..end, count)?;
    found.map(|item| Ok(item?.1)).collect()
}

/// Adds one element at an end.
fn push(txn: &mut Txn<'_>, meta: &mut Meta, end: End, value: &[u8]) -> Answer<()> {
    match end {
        End::Left => meta.head = meta.head.wrapping_sub(1),
        End::Right => {}
    }
    let index = if end == End::Left { 0 } else { meta.count };
    meta.count += 1;
    put(txn, meta, index, value)
}

/// Removes one element from an end; there must be one.
fn pop(txn: &mut Txn<'_>, meta: &mut Meta, end: End) -> Answer<Slice> {
    let index = if end == End::Left { 0 } else { meta.count - 1 };
    let value = element(txn, meta, index)?;
    let db = txn.db;
    txn.delete(db, Space::Ordered, &place_key(meta, index))?;
    if end == End::Left {
        meta.head = meta.head.wrapping_add(1);
    }
    meta.count -= 1;
    Ok(value)
}

fn push_event(end: End) -> &'static str {
    if end == End::Left { "lpush" } else { "rpush" }
}

fn pop_event(end: End) -> &'static str {
    if end == End::Left { "lpop" } else { "rpop" }
}

pub(super) fn lpush(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    push_all(txn, args, End::Left, false)
}

pub(super) fn rpush(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    push_all(txn, args, End::Right, false)
}

pub(super) fn lpushx(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    push_all(txn, args, End::Left, true)
}

pub(super) fn rpushx(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    push_all(txn, args, End::Right, true)
}

fn push_all(txn: &mut Txn<'_>, args: Args<'_>, end: End, only_old: bool) -> Answer<Reply> {
    let mut entry = list(txn, args[1])?;
    if only_old && !entry.exists() {
        return Ok(Reply::Integer(0));
    }
    let mut meta = txn.collection(&entry, Kind::List)?;
    for value in &args[2..] {
        push(txn, &mut meta, end, value)?;
    }
    let count = meta.count;
    txn.store(&mut entry, meta)?;
    txn.event(&entry, b'l', push_event(end));
    txn.ready(&entry);
    Ok(Reply::Integer(count as i64))
}

pub(super) fn lpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop_some(txn, args, End::Left)
}

pub(super) fn rpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop_some(txn, args, End::Right)
}

fn pop_some(txn: &mut Txn<'_>, args: Args<'_>, end: End) -> Answer<Reply> {
    if args.len() > 3 {
        return Err(Stop::reply(format!(
            "ERR wrong number of arguments for '{}' command",
            pop_event(end)
        )));
    }
    let wanted = args.get(2).map(|it| count(it)).transpose()?;
    let mut entry = list(txn, args[1])?;
    if !entry.exists() {
        return Ok(if wanted.is_some() {
            Reply::NullArray
        } else {
            Reply::Null
        });
    }
    let popped = pop_count(txn, &mut entry, end, wanted.unwrap_or(1))?;
    Ok(match wanted {
        Some(_) => Reply::bulks(popped),
        None => Reply::bulk_or_null(popped.first()),
    })
}

/// Pops up to this number of elements.
fn pop_count(txn: &mut Txn<'_>, entry: &mut Entry, end: End, wanted: usize) -> Answer<Vec<Slice>> {
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(Vec::new());
    };
    let count = meta.count.min(wanted as u64);
    if count == 0 {
        return Ok(Vec::new());
    }
    txn.event(entry, b'l', pop_event(end));
    if count == meta.count && count > 1 {
        // The whole list goes, at the cost of one key.
        let mut popped = range(txn, &meta, 0..=count - 1)?;
        if end == End::Right {
            popped.reverse();
        }
        txn.remove(entry)?;
        txn.event(entry, b'g', "del");
        return Ok(popped);
    }
    txn.may_walk(count)?;
    let popped = (0..count).map(|_| pop(txn, &mut meta, end));
    let popped = popped.collect::<Answer<_>>()?;
    txn.store_or_remove(entry, meta)?;
    Ok(popped)
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
    let found = range(txn, meta, part)?;
    Ok(Reply::Array(
        found.into_iter().map(|it| Reply::Stored(it, 0)).collect(),
    ))
}

pub(super) fn ltrim(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let mut entry = list(txn, args[1])?;
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(Reply::OK);
    };
    txn.event(&entry, b'l', "ltrim");
    let Some(part) = slice(start, stop, meta.count) else {
        txn.remove(&mut entry)?;
        txn.event(&entry, b'g', "del");
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

pub(super) fn lmove(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (from, to) = (End::parse(args[3])?, End::parse(args[4])?);
    move_element(txn, args, from, to)
}

pub(super) fn rpoplpush(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    move_element(txn, args, End::Right, End::Left)
}

fn move_element(txn: &mut Txn<'_>, args: Args<'_>, from: End, to: End) -> Answer<Reply> {
    let Some(mut source) = txn.lookup_awaited(args[1], Kind::List)? else {
        return Ok(Reply::Null);
    };
    let mut meta = txn.collection(&source, Kind::List)?;
    list(txn, args[2])?;
    let value = pop(txn, &mut meta, from)?;
    if args[1] == args[2] {
        push(txn, &mut meta, to, &value)?;
        txn.store(&mut source, meta)?;
        txn.event(&source, b'l', pop_event(from));
        txn.event(&source, b'l', push_event(to));
        return Ok(Reply::Stored(value, 0));
    }
    txn.event(&source, b'l', pop_event(from));
    txn.store_or_remove(&mut source, meta)?;
    let mut target = list(txn, args[2])?;
    let mut meta = txn.collection(&target, Kind::List)?;
    push(txn, &mut meta, to, &value)?;
    txn.store(&mut target, meta)?;
    txn.event(&target, b'l', push_event(to));
    txn.ready(&target);
    Ok(Reply::Stored(value, 0))
}

// ---- commands that wait ----

/// Seconds to wait, 0 for ever.
pub(crate) fn timeout(argument: &[u8]) -> Answer<f64> {
    let wrong = || Stop::reply("ERR timeout is not a float or out of range");
    let seconds = crate::number::parse_float(argument).ok_or_else(wrong)?;
    if seconds < 0.0 {
        return Err(Stop::reply("ERR timeout is negative"));
    }
    let in_range = seconds < 1e13;
    in_range
        .then_some(seconds)
        .ok_or_else(|| Stop::reply("ERR timeout is out of range"))
}

/// The seconds that a command waits, whose arguments were checked when it was run.
pub(crate) fn seconds_to_wait(args: &[Vec<u8>]) -> f64 {
    let is = |word: &str| args[0].eq_ignore_ascii_case(word.as_bytes());
    let (argument, parts) = match () {
        () if is("BLMPOP") || is("BZMPOP") => (args.get(1), 1.0),
        () if is("XREAD") || is("XREADGROUP") => {
            let is_block = |it: &Vec<u8>| it.eq_ignore_ascii_case(b"BLOCK");
            let place = args.iter().position(is_block);
            (place.and_then(|it| args.get(it + 1)), 1_000.0)
        }
        () => (args.last(), 1.0),
    };
    let seconds = argument.and_then(|it| timeout(it).ok());
    seconds.unwrap_or(0.0) / parts
}

pub(super) fn blpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop_or_wait(txn, args, End::Left)
}

pub(super) fn brpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop_or_wait(txn, args, End::Right)
}

fn pop_or_wait(txn: &mut Txn<'_>, args: Args<'_>, end: End) -> Answer<Reply> {
    timeout(args[args.len() - 1])?;
    for key in &args[1..args.len() - 1] {
        if let Some(mut entry) = txn.lookup_awaited(key, Kind::List)? {
            let popped = pop_count(txn, &mut entry, end, 1)?;
            let value = Reply::bulk_or_null(popped.first());
            return Ok(Reply::Array(vec![Reply::bulk(key), value]));
        }
    }
    Ok(Reply::Wait)
}

pub(super) fn blmove(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    timeout(args[5])?;
    let (from, to) = (End::parse(args[3])?, End::parse(args[4])?);
    or_wait(move_element(txn, args, from, to)?)
}

pub(super) fn brpoplpush(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    timeout(args[3])?;
    or_wait(move_element(txn, args, End::Right, End::Left)?)
}

fn or_wait(reply: Reply) -> Answer<Reply> {
    Ok(match reply {
        Reply::Null | Reply::NullArray => Reply::Wait,
        found => found,
    })
}

pub(super) fn lmpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop_first(txn, args, 1)
}

pub(super) fn blmpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    timeout(args[1])?;
    or_wait(pop_first(txn, args, 2)?)
}

fn pop_first(txn: &mut Txn<'_>, args: Args<'_>, at: usize) -> Answer<Reply> {
    let (keys, end, wanted) = pop_words(args, at, End::parse)?;
    for key in keys {
        if let Some(mut entry) = txn.lookup_awaited(key, Kind::List)? {
            let popped = pop_count(txn, &mut entry, end, wanted)?;
            return Ok(Reply::Array(vec![Reply::bulk(key), Reply::bulks(popped)]));
        }
    }
    Ok(Reply::NullArray)
}
