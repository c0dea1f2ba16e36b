//! Sets. A member is an entry without a value.

use std::collections::BTreeSet;

use super::Args;
use super::arguments::{Options, count, integer, is};
use super::combine::{self, Combine, Weighted, add, each_of_all, narrow};
use super::hashes::{element_key, name_of, random_elements, store_count};
use crate::number;
use crate::resp::{Reply, element_bytes};
use crate::store::{Answer, Entry, Kind, Meta, Room, Space, Stop, Txn, elements};
use hedgerow::Slice;

fn set(txn: &mut Txn<'_>, key: &[u8]) -> Answer<Entry> {
    txn.lookup_kind(key, Kind::Set)
}

fn is_member(txn: &mut Txn<'_>, meta: &Meta, member: &[u8]) -> Answer<bool> {
    let key = element_key(txn, meta.version, member);
    let db = txn.db;
    Ok(txn.get(db, Space::Elements, &key)?.is_some())
}

/// All members, one after the other.
pub(super) fn walk(
    txn: &mut Txn<'_>,
    meta: &Meta,
) -> Answer<impl Iterator<Item = Answer<Vec<u8>>> + use<>> {
    let db = txn.db;
    let all = txn.scan(db, Space::Elements, elements(meta.version), meta.count)?;
    Ok(all.map(|item| Ok(name_of(&item?.0).to_vec())))
}

/// All members, as long as there is room.
fn members(txn: &mut Txn<'_>, meta: &Meta) -> Answer<Vec<Vec<u8>>> {
    let names = walk(txn, meta)?;
    txn.room.collect(names, |name| element_bytes(name.len()))
}

/// Asks for several members together.
fn prefetch(txn: &mut Txn<'_>, meta: &Meta, names: &[impl AsRef<[u8]>]) -> Answer<Vec<bool>> {
    let keys: Vec<_> = names
        .iter()
        .map(|it| element_key(txn, meta.version, it.as_ref()))
        .collect();
    let db = txn.db;
    txn.get_all((db, Space::Elements), &keys, |found| Ok(found.is_some()))
}

pub(super) fn sadd(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = set(txn, args[1])?;
    let mut meta = txn.collection(&entry, Kind::Set)?;
    if entry.exists() && args.len() > 3 {
        prefetch(txn, &meta, &args[2..])?;
    }
    let (db, before) = (txn.db, meta.count);
    for member in &args[2..] {
        if !is_member(txn, &meta, member)? {
            let key = element_key(txn, meta.version, member);
            txn.put(db, Space::Elements, &key, b"")?;
            meta.count += 1;
        }
    }
    let added = meta.count - before;
    if added > 0 {
        store_count(txn, &mut entry, meta)?;
        txn.event(&entry, b's', "sadd");
    }
    Ok(Reply::Integer(added as i64))
}

pub(super) fn srem(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = set(txn, args[1])?;
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    if args.len() > 3 {
        prefetch(txn, &meta, &args[2..])?;
    }
    let (db, before) = (txn.db, meta.count);
    for member in &args[2..] {
        // A member may be there twice.
        if is_member(txn, &meta, member)? {
            let key = element_key(txn, meta.version, member);
            txn.delete(db, Space::Elements, &key)?;
            meta.count -= 1;
        }
    }
    let removed = before - meta.count;
    if removed > 0 {
        txn.event(&entry, b's', "srem");
        txn.store_or_remove(&mut entry, meta)?;
    }
    Ok(Reply::Integer(removed as i64))
}

pub(super) fn scard(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    Ok(Reply::Integer(set(txn, args[1])?.count() as i64))
}

pub(super) fn sismember(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = set(txn, args[1])?;
    let found = match entry.meta() {
        Some(meta) => is_member(txn, meta, args[2])?,
        None => false,
    };
    Ok(Reply::Integer(i64::from(found)))
}

pub(super) fn smismember(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = set(txn, args[1])?;
    let found = match entry.meta() {
        Some(meta) => prefetch(txn, meta, &args[2..])?,
        None => vec![false; args.len() - 2],
    };
    let found = found.into_iter().map(|it| Reply::Integer(i64::from(it)));
    Ok(Reply::Array(found.collect()))
}

pub(super) fn smembers(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = set(txn, args[1])?;
    let found = match entry.meta() {
        Some(meta) => members(txn, meta)?,
        None => Vec::new(),
    };
    Ok(reply(found))
}

fn reply(members: impl IntoIterator<Item = Vec<u8>>) -> Reply {
    Reply::Set(members.into_iter().map(Reply::Bulk).collect())
}

pub(super) fn smove(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut from = set(txn, args[1])?;
    let Some(mut meta) = from.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    let mut to = set(txn, args[2])?;
    if !is_member(txn, &meta, args[3])? {
        return Ok(Reply::Integer(0));
    }
    if args[1] == args[2] {
        return Ok(Reply::Integer(1));
    }
    let mut target = txn.collection(&to, Kind::Set)?;
    let is_new = !is_member(txn, &target, args[3])?;
    let db = txn.db;
    let (old_key, new_key) = (
        element_key(txn, meta.version, args[3]),
        element_key(txn, target.version, args[3]),
    );
    txn.delete(db, Space::Elements, &old_key)?;
    meta.count -= 1;
    txn.event(&from, b's', "srem");
    txn.store_or_remove(&mut from, meta)?;
    if is_new {
        txn.put(db, Space::Elements, &new_key, b"")?;
        target.count += 1;
        store_count(txn, &mut to, target)?;
        txn.event(&to, b's', "sadd");
    }
    Ok(Reply::Integer(1))
}

pub(super) fn srandmember(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    if args.len() > 3 {
        return Err(Stop::syntax());
    }
    let count = args.get(2).map(|count| integer(count)).transpose()?;
    if count.is_some_and(|it| it < -(i64::MAX / 2)) {
        return Err(Stop::reply("ERR value is out of range"));
    }
    let entry = set(txn, args[1])?;
    let name = |key: Slice, _| Ok(Some(Reply::bulk(name_of(&key))));
    let mut names = random_elements(txn, &entry, count, (name, Reply::element_bytes))?;
    Ok(match count {
        None => names.pop().unwrap_or(Reply::Null),
        Some(_) => Reply::Array(names),
    })
}

pub(super) fn spop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    if args.len() > 3 {
        return Err(Stop::syntax());
    }
    let wanted = args.get(2).map(|it| count(it)).transpose()?;
    let mut entry = set(txn, args[1])?;
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(wanted.map_or(Reply::Null, |_| reply(Vec::new())));
    };
    if wanted.is_some_and(|it| it as u64 >= meta.count) {
        let all = members(txn, &meta)?;
        txn.event(&entry, b's', "spop");
        txn.del(&mut entry)?;
        return Ok(reply(all));
    }
    let count = wanted.map(|it| it as i64);
    let bytes = |key: &Slice| element_bytes(name_of(key).len());
    let picked = random_elements(txn, &entry, count, (|key, _| Ok(Some(key)), bytes))?;
    if picked.is_empty() {
        return Ok(reply(Vec::new()));
    }
    let db = txn.db;
    for key in &picked {
        txn.delete(db, Space::Elements, key)?;
    }
    meta.count -= picked.len() as u64;
    txn.event(&entry, b's', "spop");
    txn.store_or_remove(&mut entry, meta)?;
    let mut names = picked.iter().map(|key| name_of(key).to_vec());
    Ok(match wanted {
        None => Reply::bulk_or_null(names.next()),
        Some(_) => reply(names),
    })
}

fn sets(txn: &mut Txn<'_>, keys: Args<'_>, how: Combine) -> Answer<Vec<Weighted>> {
    combine::sets(txn, (keys, &vec![1.0; keys.len()]), how, &[Kind::Set])
}

/// The members of the combination of several sets, as long as there is room.
fn combined(
    txn: &mut Txn<'_>,
    keys: Args<'_>,
    (how, mut room): (Combine, Room),
) -> Answer<BTreeSet<Vec<u8>>> {
    let sets = sets(txn, keys, how)?;
    let mut found = BTreeSet::new();
    let mut keep = |name: Vec<u8>| {
        let bytes = element_bytes(name.len());
        match found.insert(name) {
            true => room.take(bytes),
            false => Ok(()),
        }
    };
    match how {
        Combine::Union => each_of_all(txn, &sets, |(name, _)| keep(name))?,
        _ => narrow(txn, &sets, (how, add), |(name, _)| {
            keep(name).map(|()| true)
        })?,
    }
    Ok(found)
}

fn find(txn: &mut Txn<'_>, keys: Args<'_>, how: Combine) -> Answer<Reply> {
    let room = txn.room;
    Ok(reply(combined(txn, keys, (how, room))?))
}

pub(super) fn sinter(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, &args[1..], Combine::Intersection)
}

pub(super) fn sunion(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, &args[1..], Combine::Union)
}

pub(super) fn sdiff(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, &args[1..], Combine::Difference)
}

/// The keys behind their number; and what is behind them.
pub(super) fn counted_keys<'a>(
    args: Args<'a>,
    at: usize,
    name: &str,
) -> Answer<(Args<'a>, Args<'a>)> {
    let number = number::integer(args[at]).and_then(|it| usize::try_from(it).ok());
    let count = number.filter(|it| *it > 0).ok_or_else(|| {
        Stop::reply(match name {
            "" => "ERR numkeys should be greater than 0".to_owned(),
            name => format!("ERR at least 1 input key is needed for '{name}' command"),
        })
    })?;
    args[at + 1..]
        .split_at_checked(count)
        .ok_or_else(|| match name {
            "" => Stop::reply("ERR Number of keys can't be greater than number of args"),
            _ => Stop::syntax(),
        })
}

/// The keys of LMPOP and ZMPOP, the end, and the number of elements to pop.
pub(super) fn pop_words<'a, E>(
    args: Args<'a>,
    at: usize,
    end: impl FnOnce(&[u8]) -> Answer<E>,
) -> Answer<(Args<'a>, E, usize)> {
    let (keys, rest) = counted_keys(args, at, "").map_err(|stop| match stop {
        Stop::Reply(text) if text.starts_with("ERR Number") => Stop::syntax(),
        other => other,
    })?;
    let (word, options) = rest.split_first().ok_or_else(Stop::syntax)?;
    let end = end(word)?;
    let wanted = match options {
        [] => 1,
        [word, number] if is(word, "COUNT") => {
            let count = number::integer(number).and_then(|it| usize::try_from(it).ok());
            let wrong = || Stop::reply("ERR count should be greater than 0");
            count.filter(|it| *it > 0).ok_or_else(wrong)?
        }
        _ => return Err(Stop::syntax()),
    };
    Ok((keys, end, wanted))
}

pub(super) fn sintercard(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (keys, rest) = counted_keys(args, 1, "")?;
    let limit = limit_option(rest)?;
    let sets = sets(txn, keys, Combine::Intersection)?;
    let mut count = 0;
    narrow(txn, &sets, (Combine::Intersection, add), |_| {
        count += 1;
        Ok(count < limit)
    })?;
    Ok(Reply::count(count))
}

/// The `LIMIT` of a cardinality; 0 means none.
pub(super) fn limit_option(rest: Args<'_>) -> Answer<usize> {
    let mut options = Options::new(rest);
    let mut limit = 0;
    while let Some(option) = options.next() {
        if !is(option, "LIMIT") {
            return Err(Stop::syntax());
        }
        let negative = || Stop::reply("ERR LIMIT can't be negative");
        let number = number::integer(options.value()?).ok_or_else(negative)?;
        limit = usize::try_from(number).map_err(|_| negative())?;
    }
    Ok(if limit == 0 { usize::MAX } else { limit })
}

pub(super) fn sinterstore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    store(txn, args, Combine::Intersection, "sinterstore")
}

pub(super) fn sunionstore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    store(txn, args, Combine::Union, "sunionstore")
}

pub(super) fn sdiffstore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    store(txn, args, Combine::Difference, "sdiffstore")
}

fn store(txn: &mut Txn<'_>, args: Args<'_>, how: Combine, event: &'static str) -> Answer<Reply> {
    let found = combined(txn, &args[2..], (how, Room::OF_COMMIT))?;
    let mut target = txn.lookup(args[1])?;
    if found.is_empty() {
        txn.del(&mut target)?;
        return Ok(Reply::Integer(0));
    }
    let mut meta = txn.new_collection(Kind::Set)?;
    meta.count = found.len() as u64;
    let db = txn.db;
    for member in &found {
        let key = element_key(txn, meta.version, member);
        txn.put(db, Space::Elements, &key, b"")?;
    }
    txn.store(&mut target, meta)?;
    txn.event(&target, b's', event);
    Ok(Reply::count(found.len()))
}
