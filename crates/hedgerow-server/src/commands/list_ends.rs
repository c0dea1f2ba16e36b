//! The ends of lists: elements come and go there, also from one list to another, and commands wait
//! for them.

use super::Args;
use super::arguments::{count, is};
use super::lists::{End, element, list, place_key, put, walk};
use super::sets::pop_words;
use super::waiting::{or_wait, timeout};
use crate::resp::{Reply, element_bytes};
use crate::store::{Answer, Entry, Kind, Meta, Space, Stop, Txn};
use hedgerow::Slice;

impl End {
    fn parse(argument: &[u8]) -> Answer<End> {
        match argument {
            it if is(it, "LEFT") => Ok(End::Left),
            it if is(it, "RIGHT") => Ok(End::Right),
            _ => Err(Stop::syntax()),
        }
    }
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
    let bytes = |it: &Slice| element_bytes(it.len());
    if count == meta.count && count > 1 {
        // The whole list goes, at the cost of one key.
        let all = walk(txn, &meta, 0..count)?;
        let mut popped = txn.room.collect(all, bytes)?;
        if end == End::Right {
            popped.reverse();
        }
        txn.del(entry)?;
        return Ok(popped);
    }
    txn.may_walk(count)?;
    let (room, popped) = (txn.room, (0..count).map(|_| pop(txn, &mut meta, end)));
    let popped = room.collect(popped, bytes)?;
    txn.store_or_remove(entry, meta)?;
    Ok(popped)
}

pub(super) fn lmpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop_first(txn, args, 1)
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
        txn.event(&source, b'l', push_event(to));
        txn.event(&source, b'l', pop_event(from));
        return Ok(Reply::Stored(value, 0));
    }
    let mut target = list(txn, args[2])?;
    let mut of_target = txn.collection(&target, Kind::List)?;
    push(txn, &mut of_target, to, &value)?;
    txn.store(&mut target, of_target)?;
    // As in Redis: the element is there before it goes.
    txn.event(&target, b'l', push_event(to));
    txn.event(&source, b'l', pop_event(from));
    txn.store_or_remove(&mut source, meta)?;
    txn.ready(&target);
    Ok(Reply::Stored(value, 0))
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

pub(super) fn blmpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    timeout(args[1])?;
    or_wait(pop_first(txn, args, 2)?)
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
