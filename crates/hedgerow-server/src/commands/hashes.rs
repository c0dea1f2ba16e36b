//! Hashes. A field is an entry of its own: [`super::fields`].

use std::collections::HashSet;

use super::Args;
use super::arguments::{float, integer, is, random_options};
use super::fields::{Changed, Field, live_pair};
use super::scan::{DRAWN_FROM, random_element};
use crate::number;
use crate::resp::Reply;
use crate::store::{Answer, Entry, Kind, Meta, Space, Stop, Txn, elements};
use hedgerow::Slice;

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

/// A field as it is stored; it may have expired.
pub(super) fn stored(txn: &mut Txn<'_>, meta: &Meta, name: &[u8]) -> Answer<Option<Field>> {
    let key = element_key(txn, meta.version, name);
    let db = txn.db;
    let stored = txn.get(db, Space::Elements, &key)?;
    stored.map(Field::decode).transpose()
}

/// A field, unless there is none or it has expired.
pub(super) fn field(txn: &mut Txn<'_>, meta: &Meta, name: &[u8]) -> Answer<Option<Field>> {
    let now = txn.now;
    Ok(stored(txn, meta, name)?.filter(|it| it.is_live(now)))
}

/// Several fields; in memory mode all that are missing are asked for together.
pub(super) fn fields(
    txn: &mut Txn<'_>,
    meta: &Meta,
    names: Args<'_>,
) -> Answer<Vec<Option<Field>>> {
    let keys: Vec<_> = names
        .iter()
        .map(|it| element_key(txn, meta.version, it))
        .collect();
    let (db, now) = (txn.db, txn.now);
    let stored = txn.get_all(db, Space::Elements, &keys)?.into_iter();
    let decoded = stored.map(|it| {
        let field = it.map(Field::decode).transpose()?;
        Ok(field.filter(|it| it.is_live(now)))
    });
    decoded.collect()
}

/// All fields that have not expired, with their names, in the order of hashes.
pub(super) fn all(
    txn: &mut Txn<'_>,
    meta: &Meta,
) -> Answer<impl Iterator<Item = Answer<(Slice, Field)>> + use<>> {
    let (db, now) = (txn.db, txn.now);
    let pairs = txn.scan(db, Space::Elements, elements(meta.version), meta.count)?;
    Ok(pairs.filter_map(move |pair| live_pair(pair, now)))
}

/// Stores the new numbers of elements, or notes the change if they are the same.
pub(super) fn store_count(txn: &mut Txn<'_>, entry: &mut Entry, meta: Meta) -> Answer<()> {
    let counts = |meta: &Meta| (meta.count, meta.expiring);
    if entry.meta().is_some_and(|old| counts(old) == counts(&meta)) {
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
    let mut hash = Changed::open(txn, args[1])?;
    let names: Vec<_> = pairs.iter().map(|pair| pair[0]).collect();
    hash.prefetch(txn, &names)?;
    let mut added = 0;
    for [name, value] in pairs {
        // A field may be there twice.
        let old = hash.stored(txn, name)?;
        let is_new = hash.put(txn, (name, old.as_ref()), (value, 0))?;
        added += i64::from(is_new);
    }
    hash.close(txn, &["hset"])?;
    Ok(added)
}

pub(super) fn hsetnx(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut hash = Changed::open(txn, args[1])?;
    let old = hash.stored(txn, args[2])?;
    if old.as_ref().is_some_and(|it| it.is_live(txn.now)) {
        return Ok(Reply::Integer(0));
    }
    hash.put(txn, (args[2], old.as_ref()), (args[3], 0))?;
    hash.close(txn, &["hset"])?;
    Ok(Reply::Integer(1))
}

pub(super) fn hget(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = hash(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Null);
    };
    let found = field(txn, meta, args[2])?;
    Ok(found.map_or(Reply::Null, |it| it.reply()))
}

pub(super) fn hmget(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = hash(txn, args[1])?;
    let found = match entry.meta() {
        Some(meta) => fields(txn, meta, &args[2..])?,
        None => vec![None; args.len() - 2],
    };
    let values = found
        .iter()
        .map(|it| it.as_ref().map_or(Reply::Null, Field::reply));
    Ok(Reply::Array(values.collect()))
}

pub(super) fn hdel(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let Some(mut hash) = Changed::existing(txn, args[1])? else {
        return Ok(Reply::Integer(0));
    };
    hash.prefetch(txn, &args[2..])?;
    let mut removed = 0;
    for name in &args[2..] {
        if let Some(old) = hash.stored(txn, name)? {
            removed += i64::from(hash.remove(txn, name, &old)?);
        }
    }
    let events: &[_] = if removed > 0 { &["hdel"] } else { &[] };
    hash.close(txn, events)?;
    Ok(Reply::Integer(removed))
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
    Ok(Reply::count(found.map_or(0, |it| it.value().len())))
}

pub(super) fn hgetall(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = hash(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Map(Vec::new()));
    };
    let pairs = all(txn, meta)?.map(|item| {
        let (key, value) = item?;
        Ok((Reply::bulk(name_of(&key)), value.reply()))
    });
    let bytes = |(key, value): &(Reply, Reply)| key.bytes() + value.bytes();
    Ok(Reply::Map(txn.room.collect(pairs, bytes)?))
}

pub(super) fn hkeys(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    list(txn, args[1], |key, _| Reply::bulk(name_of(key)))
}

pub(super) fn hvals(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    list(txn, args[1], |_, value| value.reply())
}

fn list(txn: &mut Txn<'_>, key: &[u8], part: impl Fn(&Slice, &Field) -> Reply) -> Answer<Reply> {
    let entry = hash(txn, key)?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Array(Vec::new()));
    };
    let parts = all(txn, meta)?.map(|item| item.map(|(key, value)| part(&key, &value)));
    Ok(Reply::Array(txn.room.replies(parts)?))
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

/// Gives a field the value that is computed from the old one; it keeps its time of expiry.
fn change<T>(
    txn: &mut Txn<'_>,
    args: Args<'_>,
    event: &'static str,
    new: impl Fn(Option<&[u8]>) -> Answer<(T, String)>,
) -> Answer<(T, String)> {
    let mut hash = Changed::open(txn, args[1])?;
    let stored = hash.stored(txn, args[2])?;
    let old = stored.as_ref().filter(|it| it.is_live(txn.now));
    let (number, text) = new(old.map(Field::value))?;
    let expires = old.map_or(0, |it| it.expires);
    hash.put(txn, (args[2], stored.as_ref()), (text.as_bytes(), expires))?;
    hash.close(txn, &[event])?;
    Ok((number, text))
}

pub(super) fn hrandfield(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (count, with_values) = random_options(args, "WITHVALUES")?;
    let entry = hash(txn, args[1])?;
    let picked = random_fields(txn, &entry, count)?;
    let Some(_) = count else {
        let name = picked.first().map(|(key, _)| name_of(key).to_vec());
        return Ok(Reply::bulk_or_null(name));
    };
    let (resp3, mut room) = (txn.resp3, txn.room);
    let mut replies = Vec::new();
    for (key, value) in &picked {
        let name = Reply::bulk(name_of(key));
        room.take(name.bytes())?;
        match (with_values, resp3) {
            (false, _) => replies.push(name),
            (true, false) => replies.extend([name, value.reply()]),
            (true, true) => replies.push(Reply::Array(vec![name, value.reply()])),
        }
    }
    Ok(Reply::Array(replies))
}

/// Random fields that have not expired.
fn random_fields(
    txn: &mut Txn<'_>,
    entry: &Entry,
    count: Option<i64>,
) -> Answer<Vec<(Slice, Field)>> {
    let now = txn.now;
    match entry.meta().filter(|meta| meta.expiring.count > 0).cloned() {
        // Some of those that were drawn may have expired.
        Some(meta) => {
            check_draws(txn, count)?;
            let live: Vec<_> = all(txn, &meta)?.collect::<Answer<_>>()?;
            Ok(drawn(live, count.unwrap_or(1)))
        }
        None => {
            let picked = random_elements(txn, entry, count)?.into_iter();
            picked.filter_map(|it| live_pair(Ok(it), now)).collect()
        }
    }
}

/// Random elements of a hash, set or sorted set. `None` means one; a negative count allows the
/// same element several times. Few of many are drawn one by one; else all are walked over.
pub(super) fn random_elements(
    txn: &mut Txn<'_>,
    entry: &Entry,
    count: Option<i64>,
) -> Answer<Vec<(Slice, Slice)>> {
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Vec::new());
    };
    check_draws(txn, count)?;
    let (prefix, end) = (meta.version.to_be_bytes(), elements(meta.version).end);
    let one = |txn: &mut Txn<'_>| random_element(txn, Space::Elements, &prefix, end.clone());
    let (wanted, near) = (count.map_or(1, i64::unsigned_abs), DRAWN_FROM as u64);
    match count {
        Some(0) => Ok(Vec::new()),
        None => Ok(one(txn)?.into_iter().collect()),
        Some(count) if wanted.saturating_mul(near) < meta.count => {
            txn.may_walk(wanted * near)?;
            let (mut drawn, mut keys) = (Vec::new(), HashSet::new());
            // Enough tries for different ones, even if the count is wrong.
            for _ in 0..wanted * 8 {
                let Some(element) = one(txn)? else { break };
                if count < 0 || keys.insert(element.0.clone()) {
                    drawn.push(element);
                }
                if drawn.len() as u64 == wanted {
                    break;
                }
            }
            Ok(drawn)
        }
        Some(count) => {
            let db = txn.db;
            let all = txn.scan(db, Space::Elements, elements(meta.version), meta.count)?;
            Ok(drawn(all.collect::<Answer<_>>()?, count))
        }
    }
}

/// Refuses a negative count that asks for more than a reply may take.
fn check_draws(txn: &Txn<'_>, count: Option<i64>) -> Answer<()> {
    let repeated = count.filter(|it| *it < 0);
    txn.room.check_draws(repeated.map_or(0, i64::unsigned_abs))
}

/// So many of these; a negative count allows the same one several times.
fn drawn<T: Clone>(mut all: Vec<T>, count: i64) -> Vec<T> {
    if count > 0 || all.is_empty() {
        fastrand::shuffle(&mut all);
        all.truncate(count.unsigned_abs() as usize);
        return all;
    }
    let picks = (0..count.unsigned_abs()).map(|_| all[fastrand::usize(..all.len())].clone());
    picks.collect()
}
