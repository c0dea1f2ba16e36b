//! Hashes. A field is an entry of its own: [`super::fields`].

use std::collections::HashSet;

use super::Args;
use super::arguments::{integer, is, random_options};
use super::fields::{Changed, Field, live_pair};
use super::scan::{DRAWN_FROM, random_element};
use crate::number;
use crate::resp::{Reply, element_bytes};
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

/// The kept parts of several fields; in memory mode all that are missing are asked for together.
pub(super) fn fields<T>(
    txn: &mut Txn<'_>,
    meta: &Meta,
    names: Args<'_>,
    mut kept: impl FnMut(Option<Field>) -> Answer<T>,
) -> Answer<Vec<T>> {
    let keys: Vec<_> = names
        .iter()
        .map(|it| element_key(txn, meta.version, it))
        .collect();
    let (db, now) = (txn.db, txn.now);
    txn.get_all((db, Space::Elements), &keys, |stored| {
        let field = stored.map(Field::decode).transpose()?;
        kept(field.filter(|it| it.is_live(now)))
    })
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
        return txn.touch_elements(entry);
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
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Array(vec![Reply::Null; args.len() - 2]));
    };
    let mut room = txn.room;
    let values = fields(txn, meta, &args[2..], |found| {
        let value = found.map_or(Reply::Null, |it| it.reply());
        room.take(value.element_bytes())?;
        Ok(value)
    });
    Ok(Reply::Array(values?))
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
    let bytes = |(key, value): &(Reply, Reply)| key.element_bytes() + value.element_bytes();
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
    let by = number::parse_any_float(args[3]).ok_or_else(Stop::not_a_float)?;
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
    let (now, resp3) = (txn.now, txn.resp3);
    let part = |key: Slice, stored: Slice| {
        let field = Field::decode(stored)?;
        let value = with_values.then(|| field.reply());
        let name = Reply::bulk(name_of(&key));
        Ok(field.is_live(now).then_some((name, value)))
    };
    let bytes = |(name, value): &(Reply, Option<Reply>)| {
        name.element_bytes() + value.as_ref().map_or(0, Reply::element_bytes)
    };
    let mut found = random_elements(txn, &entry, count, (part, bytes))?;
    if count.is_none() {
        return Ok(found.pop().map_or(Reply::Null, |it| it.0));
    }
    let parts = found
        .into_iter()
        .flat_map(|(name, value)| match (value, resp3) {
            (Some(value), true) => [Some(Reply::Array(vec![name, value])), None],
            (value, _) => [Some(name), value],
        });
    Ok(Reply::Array(parts.flatten().collect()))
}

/// Random elements of a hash, set or sorted set, as long as there is room: what `part` makes of
/// them, with their bytes; it leaves out what has expired. `None` means one; a negative count
/// allows the same element several times. Few of many are drawn one by one; else all are walked
/// over.
pub(super) fn random_elements<T: Clone>(
    txn: &mut Txn<'_>,
    entry: &Entry,
    count: Option<i64>,
    (part, bytes): (
        impl Fn(Slice, Slice) -> Answer<Option<T>>,
        impl Fn(&T) -> usize,
    ),
) -> Answer<Vec<T>> {
    let Some(meta) = entry.meta() else {
        return Ok(Vec::new());
    };
    let (wanted, near) = (count.map_or(1, i64::unsigned_abs), DRAWN_FROM as u64);
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let repeats = count.is_some_and(|it| it < 0);
    if repeats {
        txn.room.check_draws(wanted)?;
    }
    let are_few = count.is_none() || wanted.saturating_mul(near) < meta.count;
    // Some of those that were drawn may have expired.
    if !are_few || meta.expiring.count > 0 {
        return drawn(txn, meta, (wanted, repeats), (part, bytes));
    }
    let (prefix, end) = (meta.version.to_be_bytes(), elements(meta.version).end);
    let (mut found, mut keys, mut room) = (Vec::new(), HashSet::new(), txn.room);
    txn.may_walk(wanted * near)?;
    // Enough tries for different ones, even if the count is wrong.
    for _ in 0..wanted * 8 {
        let Some((key, stored)) = random_element(txn, Space::Elements, &prefix, end.clone())?
        else {
            break;
        };
        if repeats || keys.insert(key.clone()) {
            let element = part(key, stored)?;
            room.take(element.as_ref().map_or(0, &bytes))?;
            found.extend(element);
        }
        if found.len() as u64 == wanted {
            break;
        }
    }
    Ok(found)
}

/// Random elements of all, by their places, which are drawn first.
fn drawn<T: Clone>(
    txn: &mut Txn<'_>,
    meta: &Meta,
    (wanted, repeats): (u64, bool),
    (part, bytes): (
        impl Fn(Slice, Slice) -> Answer<Option<T>>,
        impl Fn(&T) -> usize,
    ),
) -> Answer<Vec<T>> {
    let walk = |txn: &mut Txn<'_>| {
        let all = txn.scan(txn.db, Space::Elements, elements(meta.version), meta.count)?;
        let part = |(key, stored)| part(key, stored);
        Ok::<_, Stop>(all.filter_map(move |pair| pair.and_then(part).transpose()))
    };
    let count = match meta.expiring.count {
        0 => meta.count,
        _ => walk(txn)?.try_fold(0, |count, item| item.map(|_| count + 1))?,
    };
    let (mut room, mut least) = (txn.room, txn.room);
    least.take(wanted.min(count) as usize * element_bytes(0))?;
    let mut places: Vec<u64> = match repeats {
        false => fastrand::choose_multiple(0..count, wanted.min(count) as usize),
        true if count == 0 => Vec::new(),
        true => (0..wanted).map(|_| fastrand::u64(..count)).collect(),
    };
    places.sort_unstable();
    let (mut found, mut places) = (Vec::new(), places.into_iter().peekable());
    for (place, element) in (0..).zip(walk(txn)?) {
        let element = element?;
        while places.next_if_eq(&place).is_some() {
            room.take(bytes(&element))?;
            found.push(element.clone());
        }
        if places.peek().is_none() {
            break;
        }
    }
    fastrand::shuffle(&mut found);
    Ok(found)
}
