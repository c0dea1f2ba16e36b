//! The times of expiry of fields. Each command names its fields behind `FIELDS` and their number,
//! and answers with a number or value for each of them.

use super::Args;
use super::arguments::{Options, integer, is};
use super::expiry::Conditions;
use super::fields::{Changed, Field};
use super::hashes;
use crate::number;
use crate::resp::Reply;
use crate::store::{Answer, Kind, Stop, Txn};

/// There is no such field, or no such key.
const NO_FIELD: i64 = -2;
/// The field does not expire.
const NO_TIME: i64 = -1;
/// The condition does not hold.
const REFUSED: i64 = 0;
const DONE: i64 = 1;
/// The time has passed, so the field was removed.
const REMOVED: i64 = 2;

/// The latest time, in milliseconds: as in Redis, which has 46 bits for it.
const TIME_MAX: i64 = (1 << 46) - 1;
const NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// The names of fields, from the word `FIELDS` at a place on.
fn names<'a>(args: Args<'a>, at: usize, not_positive: &str) -> Answer<Args<'a>> {
    if !args.get(at).is_some_and(|word| is(word, "FIELDS")) {
        return Err(Stop::reply(
            "ERR Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = args.get(at + 1).and_then(|it| number::integer(it));
    let count = count.filter(|it| *it > 0);
    let count = count.ok_or_else(|| Stop::reply(not_positive))?;
    let names = args.get(at + 2..).unwrap_or_default();
    if names.len() as i64 != count {
        return Err(Stop::reply(
            "ERR The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(names)
}

/// A time in units of `unit` milliseconds, counted from `base`.
fn time(argument: &[u8], unit: i64, base: u64, args: Args<'_>) -> Answer<u64> {
    let number = integer(argument)?;
    if number < 0 {
        return Err(Stop::reply("ERR invalid expire time, must be >= 0"));
    }
    let at = number.checked_mul(unit);
    let at = at.and_then(|it| it.checked_add(base as i64));
    let at = at.filter(|it| *it <= TIME_MAX).ok_or_else(|| {
        let name = String::from_utf8_lossy(args[0]).to_lowercase();
        Stop::reply(format!("ERR invalid expire time in '{name}' command"))
    });
    at.map(|it| it as u64)
}

fn numbers(codes: Vec<i64>) -> Reply {
    Reply::Array(codes.into_iter().map(Reply::Integer).collect())
}

/// Runs over fields in their order; a name may be there twice. `None` without the hash.
fn over_fields<T>(
    txn: &mut Txn<'_>,
    (key, names): (&[u8], Args<'_>),
    mut each: impl FnMut(&mut Txn<'_>, &mut Changed, &[u8], Option<Field>) -> Answer<T>,
) -> Answer<Option<(Changed, Vec<T>)>> {
    let Some(mut hash) = Changed::existing(txn, key)? else {
        return Ok(None);
    };
    hash.prefetch(txn, names)?;
    let mut results = Vec::with_capacity(names.len());
    for name in names {
        let stored = hash.stored(txn, name)?;
        results.push(each(txn, &mut hash, name, stored)?);
    }
    Ok(Some((hash, results)))
}

// ---- setting and removing times ----

pub(super) fn hexpire(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    expire_at(txn, args, 1_000, true)
}

pub(super) fn hpexpire(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    expire_at(txn, args, 1, true)
}

pub(super) fn hexpireat(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    expire_at(txn, args, 1_000, false)
}

pub(super) fn hpexpireat(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    expire_at(txn, args, 1, false)
}

fn expire_at(txn: &mut Txn<'_>, args: Args<'_>, unit: i64, is_relative: bool) -> Answer<Reply> {
    let base = if is_relative { txn.now } else { 0 };
    let at = time(args[2], unit, base, args)?;
    let is_condition = |word: &[u8]| ["NX", "XX", "GT", "LT"].iter().any(|it| is(word, it));
    let behind = 3 + usize::from(is_condition(args[3]));
    let conditions = Conditions::parse(&args[3..behind])?;
    let not_positive = "ERR Parameter `numFields` should be greater than 0";
    let names = names(args, behind, not_positive)?;
    let done = over_fields(txn, (args[1], names), |txn, hash, name, stored| {
        let Some(old) = stored.filter(|it| it.is_live(txn.now)) else {
            return Ok(NO_FIELD);
        };
        if !conditions.hold(old.expires, at) {
            return Ok(REFUSED);
        }
        set_time(txn, hash, (name, &old), at)
    })?;
    let Some((hash, codes)) = done else {
        return Ok(numbers(vec![NO_FIELD; names.len()]));
    };
    hash.close(txn, &events_of(&codes))?;
    Ok(numbers(codes))
}

/// Gives a field a time, or removes it if the time has passed.
fn set_time(
    txn: &mut Txn<'_>,
    hash: &mut Changed,
    (name, old): (&[u8], &Field),
    at: u64,
) -> Answer<i64> {
    if at <= txn.now {
        hash.remove(txn, name, old)?;
        return Ok(REMOVED);
    }
    hash.put(txn, (name, Some(old)), (old.value(), at))?;
    Ok(DONE)
}

/// The events for fields that got times.
fn events_of(codes: &[i64]) -> Vec<&'static str> {
    let events = [(DONE, "hexpire"), (REMOVED, "hdel")].into_iter();
    let events = events.filter(|(code, _)| codes.contains(code));
    events.map(|(_, event)| event).collect()
}

pub(super) fn hpersist(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let names = names(args, 2, NOT_POSITIVE)?;
    let done = over_fields(txn, (args[1], names), |txn, hash, name, stored| {
        let Some(old) = stored.filter(|it| it.is_live(txn.now)) else {
            return Ok(NO_FIELD);
        };
        if old.expires == 0 {
            return Ok(NO_TIME);
        }
        hash.put(txn, (name, Some(&old)), (old.value(), 0))?;
        Ok(DONE)
    })?;
    let Some((hash, codes)) = done else {
        return Ok(numbers(vec![NO_FIELD; names.len()]));
    };
    hash.close(txn, &["hpersist"])?;
    Ok(numbers(codes))
}

// ---- reading times ----

pub(super) fn httl(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let now = txn.now;
    times(txn, args, |at| (at.saturating_sub(now)).div_ceil(1_000))
}

pub(super) fn hpttl(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let now = txn.now;
    times(txn, args, |at| at.saturating_sub(now))
}

pub(super) fn hexpiretime(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    times(txn, args, |at| at.div_ceil(1_000))
}

pub(super) fn hpexpiretime(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    times(txn, args, |at| at)
}

fn times(txn: &mut Txn<'_>, args: Args<'_>, unit: impl Fn(u64) -> u64) -> Answer<Reply> {
    let names = names(args, 2, NOT_POSITIVE)?;
    let entry = txn.lookup_kind(args[1], Kind::Hash)?;
    let code = |found: Option<Field>| match found {
        None => NO_FIELD,
        Some(field) if field.expires == 0 => NO_TIME,
        Some(field) => unit(field.expires) as i64,
    };
    Ok(numbers(match entry.meta() {
        Some(meta) => hashes::fields(txn, meta, names, |found| Ok(code(found)))?,
        None => vec![NO_FIELD; names.len()],
    }))
}

// ---- values and times together ----

pub(super) fn hgetdel(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let names = names(args, 2, NOT_POSITIVE)?;
    let mut removed = false;
    let done = over_fields(txn, (args[1], names), |txn, hash, name, stored| {
        let Some(old) = stored else {
            return Ok(Reply::Null);
        };
        let is_live = hash.remove(txn, name, &old)?;
        removed |= is_live;
        Ok(if is_live { old.reply() } else { Reply::Null })
    })?;
    let Some((hash, values)) = done else {
        return Ok(Reply::Array(vec![Reply::Null; names.len()]));
    };
    let events: &[_] = if removed { &["hdel"] } else { &[] };
    hash.close(txn, events)?;
    Ok(Reply::Array(values))
}

/// The change of times that HGETEX and HSETEX ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    Keep,
    Remove,
    At(u64),
}

/// The time of an option; `None` if the word is none of them.
fn time_option(
    txn: &Txn<'_>,
    word: &[u8],
    options: &mut Options<'_>,
    args: Args<'_>,
) -> Answer<Option<Time>> {
    let (unit, base) = match word {
        it if is(it, "EX") => (1_000, txn.now),
        it if is(it, "PX") => (1, txn.now),
        it if is(it, "EXAT") => (1_000, 0),
        it if is(it, "PXAT") => (1, 0),
        _ => return Ok(None),
    };
    let at = time(options.value()?, unit, base, args)?;
    Ok(Some(Time::At(at)))
}

pub(super) fn hgetex(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut options = Options::new(&args[2..]);
    let mut asked = Time::Keep;
    if let Some(word) = options.next() {
        if is(word, "PERSIST") {
            asked = Time::Remove;
        } else if let Some(time) = time_option(txn, word, &mut options, args)? {
            asked = time;
        }
    }
    let behind = match asked {
        Time::Keep => 2,
        Time::Remove => 3,
        Time::At(_) => 4,
    };
    let names = names(args, behind, NOT_POSITIVE)?;
    let mut codes = Vec::new();
    let done = over_fields(txn, (args[1], names), |txn, hash, name, stored| {
        let Some(old) = stored else {
            return Ok(Reply::Null);
        };
        if !old.is_live(txn.now) {
            hash.remove(txn, name, &old)?;
            return Ok(Reply::Null);
        }
        match asked {
            Time::At(at) => codes.push(set_time(txn, hash, (name, &old), at)?),
            Time::Remove if old.expires > 0 => {
                hash.put(txn, (name, Some(&old)), (old.value(), 0))?;
                codes.push(NO_TIME);
            }
            _ => {}
        }
        Ok(old.reply())
    })?;
    let Some((hash, values)) = done else {
        return Ok(Reply::Array(vec![Reply::Null; names.len()]));
    };
    let mut events = events_of(&codes);
    if codes.contains(&NO_TIME) {
        events.push("hpersist");
    }
    hash.close(txn, &events)?;
    Ok(Reply::Array(values))
}

/// The arguments of HSETEX.
struct SetOptions<'a> {
    /// All fields have to exist, or none.
    exist: Option<bool>,
    time: Option<Time>,
    pairs: &'a [[&'a [u8]; 2]],
}

impl<'a> SetOptions<'a> {
    fn parse(txn: &Txn<'_>, args: Args<'a>) -> Answer<SetOptions<'a>> {
        let (mut exist, mut time) = (None, None);
        let mut options = Options::new(&args[2..]);
        loop {
            let word = options.value()?;
            if is(word, "FIELDS") {
                break;
            }
            let conditions = [("FXX", true), ("FNX", false)];
            if let Some((_, all)) = conditions.iter().find(|it| is(word, it.0)) {
                if exist.replace(*all).is_some() {
                    return Err(Stop::reply(
                        "ERR Only one of FXX or FNX arguments can be specified",
                    ));
                }
                continue;
            }
            let asked = match is(word, "KEEPTTL") {
                true => Some(Time::Keep),
                false => time_option(txn, word, &mut options, args)?,
            };
            let Some(asked) = asked else {
                let word = word.escape_ascii();
                return Err(Stop::reply(format!("ERR unknown argument: {word}")));
            };
            if time.replace(asked).is_some() {
                return Err(Stop::reply(
                    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                ));
            }
        }
        let rest = &args[args.len() - options.left()..];
        let count = rest.first().and_then(|it| number::integer(it));
        let count = count.filter(|it| *it > 0);
        let count = count.ok_or_else(|| Stop::reply("ERR invalid number of fields"))?;
        let (pairs, odd) = rest[1..].as_chunks::<2>();
        if pairs.len() as i64 != count || !odd.is_empty() {
            return Err(Stop::reply(
                "ERR wrong number of arguments for 'hsetex' command",
            ));
        }
        Ok(SetOptions { exist, time, pairs })
    }
}

pub(super) fn hsetex(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let SetOptions { exist, time, pairs } = SetOptions::parse(txn, args)?;
    let mut hash = Changed::open(txn, args[1])?;
    let names: Vec<_> = pairs.iter().map(|pair| pair[0]).collect();
    hash.prefetch(txn, &names)?;
    if let Some(exist) = exist {
        for name in &names {
            let stored = hash.stored(txn, name)?;
            if stored.is_some_and(|it| it.is_live(txn.now)) != exist {
                return Ok(Reply::Integer(0));
            }
        }
    }
    let mut events = vec!["hset"];
    for [name, value] in pairs {
        let stored = hash.stored(txn, name)?;
        let live = stored.as_ref().filter(|it| it.is_live(txn.now));
        let (new, event) = match time {
            None | Some(Time::Remove) => (Some(0), None),
            Some(Time::Keep) => (Some(live.map_or(0, |it| it.expires)), None),
            Some(Time::At(at)) if at > txn.now => (Some(at), Some("hexpire")),
            Some(Time::At(_)) => (None, Some("hdel")),
        };
        match (new, &stored) {
            (Some(expires), _) => {
                hash.put(txn, (name, stored.as_ref()), (value, expires))?;
            }
            (None, Some(old)) => {
                hash.remove(txn, name, old)?;
            }
            (None, None) => {}
        }
        events.extend(event.filter(|it| !events.contains(it)));
    }
    hash.close(txn, &events)?;
    Ok(Reply::Integer(1))
}

// ---- removing what has expired ----

/// Removes the fields of hashes that have expired; the arguments are the names of keys.
pub(crate) fn expire_fields_due(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    for key in args {
        let mut entry = txn.lookup(key)?;
        if !entry.exists() {
            // All of them, or the key itself has expired.
            txn.remove(&mut entry)?;
            continue;
        }
        // Something else may be there meanwhile.
        match Changed::existing(txn, key) {
            Ok(Some(mut hash)) => {
                hash.remove_due(txn)?;
                hash.close(txn, &[])?;
            }
            Ok(None) | Err(Stop::Reply(_)) => {}
            Err(stop) => return Err(stop),
        }
    }
    Ok(Reply::OK)
}
