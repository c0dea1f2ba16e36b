//! Strings, and counters, which are strings of digits.

use super::Args;
use super::arguments::{Options, expiry, integer, is, slice};
use crate::resp::Reply;
use crate::store::{Answer, Entry, Kind, Meta, Stop, Text, Txn, together};
use crate::{decimal, number};

/// The bytes of a string: a value of the engine, with what stands in front of it.
pub(crate) const STRING_BYTES_MAX: usize = (64 << 20) - 64;

/// The value of a string as a reply.
pub(crate) fn reply(entry: &Entry) -> Reply {
    match entry.meta().map(|meta| &meta.value) {
        None => Reply::Null,
        Some(Text::Stored(value, from)) => Reply::Stored(value.clone(), *from),
        Some(Text::New(bytes)) => Reply::bulk(bytes),
    }
}

pub(super) fn bytes(entry: &Entry) -> &[u8] {
    entry.meta().map_or(&[], |meta| meta.value.bytes())
}

pub(super) fn string(txn: &mut Txn<'_>, key: &[u8]) -> Answer<Entry> {
    txn.lookup_kind(key, Kind::String)
}

/// Stores a string that keeps the time of expiry.
pub(super) fn store(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    value: Vec<u8>,
    event: &'static str,
) -> Answer<()> {
    let expires = entry.expires();
    txn.store(entry, Meta::string(value, expires))?;
    txn.event(entry, b'$', event);
    Ok(())
}

fn check_bytes(bytes: usize) -> Answer<()> {
    if bytes <= STRING_BYTES_MAX {
        return Ok(());
    }
    Err(Stop::reply(
        "ERR string exceeds maximum allowed size (proto-max-bulk-len)",
    ))
}

pub(super) fn get(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    Ok(reply(&string(txn, args[1])?))
}

/// The options of SET.
#[derive(Default)]
struct SetOptions {
    only_new: bool,
    only_old: bool,
    returns_old: bool,
    keeps_expiry: bool,
    expires: u64,
    /// The option that named the time: it may come again, and no other one.
    unit: &'static str,
}

impl SetOptions {
    fn parse(txn: &Txn<'_>, rest: Args<'_>) -> Answer<SetOptions> {
        let (mut parsed, mut options) = (SetOptions::default(), Options::new(rest));
        while let Some(option) = options.next() {
            match option {
                _ if is(option, "NX") && !parsed.only_old => parsed.only_new = true,
                _ if is(option, "XX") && !parsed.only_new => parsed.only_old = true,
                _ if is(option, "GET") => parsed.returns_old = true,
                _ if is(option, "KEEPTTL") && parsed.unit.is_empty() => parsed.keeps_expiry = true,
                _ => {
                    let unit = unit_of(option).filter(|_| !parsed.keeps_expiry);
                    parsed.unit = repeated(unit, parsed.unit)?;
                    parsed.expires = expiry(options.value()?, option, txn.now, "set")?;
                }
            }
        }
        Ok(parsed)
    }
}

/// The option, if it names a time of expiry.
fn unit_of(option: &[u8]) -> Option<&'static str> {
    let mut units = ["EX", "PX", "EXAT", "PXAT"].into_iter();
    units.find(|word| is(option, word))
}

/// An option that may come again, and not beside another one of its kind; `before` is the one that
/// was there, or empty.
fn repeated(option: Option<&'static str>, before: &'static str) -> Answer<&'static str> {
    let option = option.filter(|it| before.is_empty() || *it == before);
    option.ok_or_else(Stop::syntax)
}

pub(super) fn set(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let options = SetOptions::parse(txn, &args[3..])?;
    let mut entry = match options.returns_old {
        true => string(txn, args[1])?,
        false => txn.lookup(args[1])?,
    };
    let old = match options.returns_old {
        true => Some(reply(&entry)),
        false => None,
    };
    let refused = if entry.exists() {
        options.only_new
    } else {
        options.only_old
    };
    if refused {
        return Ok(old.unwrap_or(Reply::Null));
    }
    match options.keeps_expiry {
        // The time is no news.
        true => {
            check_bytes(args[2].len())?;
            store(txn, &mut entry, args[2].to_vec(), "set")?;
        }
        false => set_to(txn, &mut entry, args[2], options.expires)?,
    }
    Ok(old.unwrap_or(Reply::OK))
}

fn set_to(txn: &mut Txn<'_>, entry: &mut Entry, value: &[u8], expires: u64) -> Answer<()> {
    check_bytes(value.len())?;
    if expires > 0 && expires <= txn.now {
        // It is expired before anyone can see it.
        txn.del(entry)?;
        return Ok(());
    }
    txn.store(entry, Meta::string(value.to_vec(), expires))?;
    txn.event(entry, b'$', "set");
    if expires > 0 {
        txn.event(entry, b'g', "expire");
    }
    Ok(())
}

pub(super) fn setnx(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = txn.lookup(args[1])?;
    if entry.exists() {
        return Ok(Reply::Integer(0));
    }
    set_to(txn, &mut entry, args[2], 0)?;
    Ok(Reply::Integer(1))
}

pub(super) fn setex(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    set_expiring(txn, args, "EX", "setex")
}

pub(super) fn psetex(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    set_expiring(txn, args, "PX", "psetex")
}

fn set_expiring(txn: &mut Txn<'_>, args: Args<'_>, unit: &str, name: &str) -> Answer<Reply> {
    let expires = expiry(args[2], unit.as_bytes(), txn.now, name)?;
    let mut entry = txn.lookup(args[1])?;
    set_to(txn, &mut entry, args[3], expires)?;
    Ok(Reply::OK)
}

pub(super) fn getset(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = string(txn, args[1])?;
    let old = reply(&entry);
    set_to(txn, &mut entry, args[2], 0)?;
    Ok(old)
}

pub(super) fn getdel(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = string(txn, args[1])?;
    let old = reply(&entry);
    txn.del(&mut entry)?;
    Ok(old)
}

pub(super) fn getex(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut options = Options::new(&args[2..]);
    let (mut expires, mut kind) = (None, "");
    while let Some(option) = options.next() {
        let persists = is(option, "PERSIST").then_some("PERSIST");
        kind = repeated(persists.or_else(|| unit_of(option)), kind)?;
        expires = Some(match persists {
            Some(_) => None,
            None => Some((options.value()?, option)),
        });
    }
    let mut entry = string(txn, args[1])?;
    let old = reply(&entry);
    let (Some(expires), Some(meta)) = (expires, entry.meta().cloned()) else {
        return Ok(old);
    };
    // A time is looked at behind the key, as in Redis.
    let expires = expires.map_or(Ok(0), |(time, unit)| expiry(time, unit, txn.now, "getex"))?;
    if expires > 0 && expires <= txn.now {
        txn.del(&mut entry)?;
    } else if expires > 0 || meta.expires > 0 {
        txn.store(&mut entry, Meta { expires, ..meta })?;
        let name = if expires > 0 { "expire" } else { "persist" };
        txn.event(&entry, b'g', name);
    }
    Ok(old)
}

pub(super) fn mget(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut room = txn.room;
    let values = args[1..].iter().map(|key| {
        let entry = txn.lookup(key)?;
        let is_string = |it: &&Meta| it.kind == Kind::String;
        let value = entry.meta().filter(is_string).map(|_| reply(&entry));
        let value = value.unwrap_or(Reply::Null);
        room.take(value.element_bytes())?;
        Ok(value)
    });
    Ok(Reply::Array(together(values)?))
}

pub(super) fn mset(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    set_all(txn, args, false, "mset")?;
    Ok(Reply::OK)
}

pub(super) fn msetnx(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let done = set_all(txn, args, true, "msetnx")?;
    Ok(Reply::Integer(i64::from(done)))
}

fn set_all(txn: &mut Txn<'_>, args: Args<'_>, only_new: bool, name: &str) -> Answer<bool> {
    let (pairs, rest) = args[1..].as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Stop::reply(format!(
            "ERR wrong number of arguments for '{name}' command"
        )));
    }
    let keys: Vec<_> = pairs.iter().map(|pair| pair[0]).collect();
    let found = txn.lookup_all(&keys, |it| Ok(it.exists()))?;
    if only_new && found.contains(&true) {
        return Ok(false);
    }
    for [key, value] in pairs {
        // A key may be there twice.
        let mut entry = txn.lookup(key)?;
        set_to(txn, &mut entry, value, 0)?;
    }
    Ok(true)
}

pub(super) fn append(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = string(txn, args[1])?;
    let old = bytes(&entry);
    check_bytes(old.len().saturating_add(args[2].len()))?;
    let value = [old, args[2]].concat();
    let length = value.len();
    store(txn, &mut entry, value, "append")?;
    Ok(Reply::count(length))
}

pub(super) fn strlen(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    Ok(Reply::count(bytes(&string(txn, args[1])?).len()))
}

pub(super) fn getrange(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (start, stop) = (integer(args[2])?, integer(args[3])?);
    let entry = string(txn, args[1])?;
    let value = bytes(&entry);
    if start < 0 && stop < 0 && start > stop {
        return Ok(Reply::bulk(""));
    }
    let part = slice(start, stop.max(-(value.len() as i64)), value.len() as u64);
    let part = part.map_or(&value[..0], |it| {
        &value[*it.start() as usize..=*it.end() as usize]
    });
    Ok(Reply::bulk(part))
}

pub(super) fn setrange(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let offset = usize::try_from(integer(args[2])?)
        .map_err(|_| Stop::reply("ERR offset is out of range"))?;
    let mut entry = string(txn, args[1])?;
    let old = bytes(&entry);
    if args[3].is_empty() {
        return Ok(Reply::count(old.len()));
    }
    let end = offset.saturating_add(args[3].len());
    check_bytes(end)?;
    let mut value = old.to_vec();
    value.resize(value.len().max(end), 0);
    value[offset..end].copy_from_slice(args[3]);
    let length = value.len();
    store(txn, &mut entry, value, "setrange")?;
    Ok(Reply::count(length))
}

pub(super) fn incr(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    add(txn, args[1], 1)
}

pub(super) fn decr(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    add(txn, args[1], -1)
}

pub(super) fn incrby(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    add(txn, args[1], integer(args[2])?)
}

pub(super) fn decrby(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let by = integer(args[2])?.checked_neg();
    let by = by.ok_or_else(|| Stop::reply("ERR decrement would overflow"))?;
    add(txn, args[1], by)
}

fn add(txn: &mut Txn<'_>, key: &[u8], by: i64) -> Answer<Reply> {
    let mut entry = string(txn, key)?;
    let old = match entry.meta() {
        Some(meta) => integer(meta.value.bytes())?,
        None => 0,
    };
    let overflow = || Stop::reply("ERR increment or decrement would overflow");
    let new = old.checked_add(by).ok_or_else(overflow)?;
    store(txn, &mut entry, new.to_string().into_bytes(), "incrby")?;
    Ok(Reply::Integer(new))
}

pub(super) fn incrbyfloat(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    // Redis computes with larger floats: what is too close to 0 is one.
    number::parse_any_float(args[2]).ok_or_else(Stop::not_a_float)?;
    let mut entry = string(txn, args[1])?;
    let old = match entry.meta() {
        Some(meta) => meta.value.bytes(),
        None => b"0",
    };
    let new = sum(old, args[2], "ERR value is not a valid float")?;
    store(txn, &mut entry, new.clone().into_bytes(), "incrbyfloat")?;
    Ok(Reply::bulk(new))
}

/// The sum of two numbers as text, never with an exponent. Decimals are added as decimals.
pub(super) fn sum(old: &[u8], by: &[u8], wrong: &str) -> Answer<String> {
    let number = |text| number::parse_any_float(text).ok_or_else(|| Stop::reply(wrong));
    let sum = number(old)? + number(by)?;
    if !sum.is_finite() {
        return Err(Stop::reply("ERR increment would produce NaN or Infinity"));
    }
    Ok(decimal::sum(old, by).unwrap_or_else(|| number::plain_float(sum)))
}

#[cfg(test)]
mod tests {
    use crate::commands::world::World;

    #[test]
    fn floats_are_added_without_loss() {
        let world = World::new();
        for (words, expected) in [
            ("SET s 9007199254740993", "+OK"),
            ("INCRBYFLOAT s 1e0", "9007199254740994"),
            (
                "INCRBYFLOAT none 12345678901234567890123",
                "12345678901234567890123",
            ),
            ("HSET h f 123456789012345678", "1"),
            ("HINCRBYFLOAT h f 1e3", "123456789012346678"),
            ("INCRBYFLOAT s 1e-400", "9007199254740994"),
            ("INCRBYFLOAT s 0x10", "9007199254741010"),
            ("INCRBYFLOAT s nan", "ERR value is not a valid float"),
            (
                "INCRBYFLOAT s 1e309",
                "ERR increment would produce NaN or Infinity",
            ),
            ("HINCRBYFLOAT h f inf", "ERR value is NaN or Infinity"),
        ] {
            assert_eq!(world.run(words), expected, "{words}");
        }
    }
}
