//! Hashes. A field is an entry of its own; its value has a byte of flags in front, for what fields
//! may have one day.

use super::Args;
use super::arguments::{float, integer, is};
use super::scan::random_element;
use crate::number;
use crate::resp::Reply;
use crate::store::{Answer, Entry, Kind, Meta, Space, Stop, Txn, elements};
use hedgerow::Slice;

/// The flags of a value.
const PLAIN: u8 = 0;

fn hash(txn: &mut Txn<'_>, key: &[u8]) -> Answer<Entry> {
    txn.lookup_kind(key, Kind::Hash)
}

/// The key of a field or member.
pub(super) fn element_key(txn: &Txn<'_>, version: u64, name: &[u8]) -> Vec<u8> {
    [&version.to_be_bytes()[..], &txn.place(name), name].concat()
}

/// The name in the key of an element.
pub(super) fn name_of(key: &Slice) -> &[u8] {
    &key[12..]
}

fn value_of(stored: &Slice) -> Reply {
    Reply::Stored(stored.clone(), 1)
}

fn field(txn: &mut Txn<'_>, meta: &Meta, name: &[u8]) -> Answer<Option<Slice>> {
    let key = element_key(txn, meta.version, name);
    let db = txn.db;
    txn.get(db, Space::Elements, &key)
}

fn fields(txn: &mut Txn<'_>, meta: &Meta, names: Args<'_>) -> Answer<Vec<Option<Slice>>> {
    let keys: Vec<_> = names
        .iter()
        .map(|it| element_key(txn, meta.version, it))
        .collect();
    let db = txn.db;
    txn.get_all(db, Space::Elements, &keys)
}

pub(super) fn put(txn: &mut Txn<'_>, meta: &Meta, name: &[u8], value: &[u8]) -> Answer<()> {
    let key = element_key(txn, meta.version, name);
    let db = txn.db;
    txn.put(db, Space::Elements, &key, &[&[PLAIN], value].concat())
}

/// All fields and values, in the order of hashes.
fn all(
    txn: &mut Txn<'_>,
    meta: &Meta,
) -> Answer<impl Iterator<Item = Answer<(Slice, Slice)>> + use<>> {
    let db = txn.db;
    txn.scan(db, Space::Elements, elements(meta.version), meta.count)
}

/// Stores the new number of fields, or notes the change if the number is the same.
pub(super) fn store_count(txn: &mut Txn<'_>, entry: &mut Entry, meta: Meta) -> Answer<()> {
    if entry.meta().is_some_and(|old| old.count == meta.count) {
        txn.touch(entry);
        return Ok(());
    }
    txn.store_or_remove(entry, meta)
}

pub(super) fn hset(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let added = set_fields(txn, args)?;
    Ok(match is(args[0], "HMSET") {
        true => Reply::OK,
        false => Reply::Integer(added),
    })
}

fn set_fields(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<i64> {
    let (pairs, rest) = args[2..].as_chunks::<2>();
    if !rest.is_empty() {
        let name = String::from_utf8_lossy(args[0]).to_lowercase();
        return Err(Stop::reply(format!(
            "ERR wrong number of arguments for '{name}' command"
        )));
    }
    let mut entry = hash(txn, args[1])?;
    let mut meta = txn.collection(&entry, Kind::Hash)?;
    let names: Vec<_> = pairs.iter().map(|pair| pair[0]).collect();
    if entry.exists() {
        fields(txn, &meta, &names)?;
    }
    let mut added = 0;
    for [name, value] in pairs {
        // A field may be there twice.
        if field(txn, &meta, name)?.is_none() {
            added += 1;
        }
        put(txn, &meta, name, value)?;
    }
    meta.count += added;
    store_count(txn, &mut entry, meta)?;
    txn.event(&entry, b'h', "hset");
    Ok(added as i64)
}

pub(super) fn hsetnx(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = hash(txn, args[1])?;
    let mut meta = txn.collection(&entry, Kind::Hash)?;
    if field(txn, &meta, args[2])?.is_some() {
        return Ok(Reply::Integer(0));
    }
    put(txn, &meta, args[2], args[3])?;
    meta.count += 1;
    store_count(txn, &mut entry, meta)?;
    txn.event(&entry, b'h', "hset");
    Ok(Reply::Integer(1))
}

pub(super) fn hget(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = hash(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Null);
    };
    let found = field(txn, meta, args[2])?;
    Ok(found.as_ref().map_or(Reply::Null, value_of))
}

pub(super) fn hmget(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = hash(txn, args[1])?;
    let found = match entry.meta() {
        Some(meta) => fields(txn, meta, &args[2..])?,
        None => vec![None; args.len() - 2],
    };
    let values = found
        .iter()
        .map(|it| it.as_ref().map_or(Reply::Null, value_of));
    Ok(Reply::Array(values.collect()))
}

pub(super) fn hdel(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let removed = remove_elements(txn, args, Kind::Hash, b'h', "hdel")?;
    Ok(Reply::Integer(removed))
}

/// Removes fields or members, and the key with the last one.
pub(super) fn remove_elements(
    txn: &mut Txn<'_>,
    args: Args<'_>,
    kind: Kind,
    class: u8,
    event: &'static str,
) -> Answer<i64> {
    let mut entry = txn.lookup_kind(args[1], kind)?;
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(0);
    };
    fields(txn, &meta, &args[2..])?;
    let (db, mut removed) = (txn.db, 0);
    for name in &args[2..] {
        let key = element_key(txn, meta.version, name);
        if txn.get(db, Space::Elements, &key)?.is_some() {
            txn.delete(db, Space::Elements, &key)?;
            removed += 1;
        }
    }
    if removed > 0 {
        meta.count -= removed;
        txn.event(&entry, class, event);
        txn.store_or_remove(&mut entry, meta)?;
    }
    Ok(removed as i64)
}

pub(super) fn hlen(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    Ok(Reply::Integer(hash(txn, args[1])?.count() as i64))
}

pub(super) fn hexists(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = hash(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Integer(0));
    };
    let found = field(txn, meta, args[2])?.is_some();
    Ok(Reply::Integer(i64::from(found)))
}

pub(super) fn hstrlen(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = hash(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Integer(0));
    };
    let found = field(txn, meta, args[2])?;
    Ok(Reply::count(found.map_or(0, |it| it.len() - 1)))
}

pub(super) fn hgetall(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = hash(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Map(Vec::new()));
    };
    let pairs = all(txn, meta)?.map(|item| {
        let (key, value) = item?;
        Ok((Reply::bulk(name_of(&key)), value_of(&value)))
    });
    Ok(Reply::Map(pairs.collect::<Answer<_>>()?))
}

pub(super) fn hkeys(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    list(txn, args[1], |key, _| Reply::bulk(name_of(key)))
}

pub(super) fn hvals(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    list(txn, args[1], |_, value| value_of(value))
}

fn list(txn: &mut Txn<'_>, key: &[u8], part: impl Fn(&Slice, &Slice) -> Reply) -> Answer<Reply> {
    let entry = hash(txn, key)?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Array(Vec::new()));
    };
    let parts = all(txn, meta)?.map(|item| item.map(|(key, value)| part(&key, &value)));
    Ok(Reply::Array(parts.collect::<Answer<_>>()?))
}

pub(super) fn hincrby(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let by = integer(args[3])?;
    let not_an_integer = || Stop::reply("ERR hash value is not an integer");
    let (new, text) = change(txn, args, "hincrby", |old| {
        let old = old
            .map_or(Some(0), number::integer)
            .ok_or_else(not_an_integer)?;
        let overflow = || Stop::reply("ERR increment or decrement would overflow");
        let new = old.checked_add(by).ok_or_else(overflow)?;
        Ok((new, new.to_string()))
    })?;
    drop(text);
    Ok(Reply::Integer(new))
}

pub(super) fn hincrbyfloat(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let by = float(args[3])?;
    if !by.is_finite() {
        return Err(Stop::reply("ERR value is NaN or Infinity"));
    }
    let wrong = "ERR hash value is not a float";
    let ((), text) = change(txn, args, "hincrbyfloat", |old| {
        Ok((
            (),
            super::strings::sum(old.unwrap_or(b"0"), args[3], wrong)?,
        ))
    })?;
    Ok(Reply::bulk(text))
}

/// Gives a field the value that is computed from the old one.
fn change<T>(
    txn: &mut Txn<'_>,
    args: Args<'_>,
    event: &'static str,
    new: impl Fn(Option<&[u8]>) -> Answer<(T, String)>,
) -> Answer<(T, String)> {
    let mut entry = hash(txn, args[1])?;
    let mut meta = txn.collection(&entry, Kind::Hash)?;
    let old = field(txn, &meta, args[2])?;
    let (number, text) = new(old.as_ref().map(|it| &it[1..]))?;
    put(txn, &meta, args[2], text.as_bytes())?;
    meta.count += u64::from(old.is_none());
    store_count(txn, &mut entry, meta)?;
    txn.event(&entry, b'h', event);
    Ok((number, text))
}

pub(super) fn hrandfield(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let with_values = match args.get(3) {
        None => false,
        Some(word) if is(word, "WITHVALUES") && args.len() == 4 => true,
        Some(_) => return Err(Stop::syntax()),
    };
    let count = args.get(2).map(|count| integer(count)).transpose()?;
    if count.is_some_and(|it| !(-(i64::MAX / 2)..=i64::MAX / 2).contains(&it)) {
        return Err(Stop::reply("ERR value is out of range"));
    }
    let entry = hash(txn, args[1])?;
    let picked = random_elements(txn, &entry, count)?;
    let Some(_) = count else {
        let name = picked.first().map(|(key, _)| name_of(key).to_vec());
        return Ok(Reply::bulk_or_null(name));
    };
    let resp3 = txn.resp3;
    let mut replies = Vec::new();
    for (key, value) in &picked {
        let name = Reply::bulk(name_of(key));
        match (with_values, resp3) {
            (false, _) => replies.push(name),
            (true, false) => replies.extend([name, value_of(value)]),
            (true, true) => replies.push(Reply::Array(vec![name, value_of(value)])),
        }
    }
    Ok(Reply::Array(replies))
}

/// Random elements of a hash, set or sorted set. `None` means one; a negative count allows the
/// same element several times. A positive one walks over all elements.
pub(super) fn random_elements(
    txn: &mut Txn<'_>,
    entry: &Entry,
    count: Option<i64>,
) -> Answer<Vec<(Slice, Slice)>> {
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Vec::new());
    };
    let (prefix, end) = (meta.version.to_be_bytes(), elements(meta.version).end);
    match count {
        Some(0) => Ok(Vec::new()),
        None => Ok(random_element(txn, Space::Elements, &prefix, end)?
            .into_iter()
            .collect()),
        Some(count) => {
            let mut walked: Vec<(Slice, Slice)> = all(txn, &meta)?.collect::<Answer<_>>()?;
            if count > 0 {
                fastrand::shuffle(&mut walked);
                walked.truncate(count as usize);
                return Ok(walked);
            }
            let wanted = count.unsigned_abs() as usize;
            let picks = (0..wanted).map(|_| walked[fastrand::usize(..walked.len())].clone());
            Ok(picks.collect())
        }
    }
}
