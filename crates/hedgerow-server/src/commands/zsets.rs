//! Sorted sets. A member has two entries: one by name with its score, and one in the order of
//! scores and then of names.

use super::Args;
use super::arguments::{float, is, random_options};
use super::hashes::{element_key, name_of, random_elements};
use super::zset_ends::find_ends;
use super::zset_range::{Range, in_order};
use crate::number;
use crate::resp::{Reply, element_bytes};
use crate::store::{Answer, Entry, Kind, Meta, Space, Stop, Txn};
use hedgerow::Slice;

/// A member with its score.
pub(super) type Scored = (Vec<u8>, f64);

/// The bytes of a score, which sort as scores do.
pub(super) fn ordered(score: f64) -> u64 {
    // Both zeros are one score.
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits ^ 1 << 63
    }
}

pub(super) fn of_ordered(ordered: u64) -> f64 {
    let bits = if ordered >> 63 == 1 {
        ordered ^ 1 << 63
    } else {
        !ordered
    };
    f64::from_bits(bits)
}

/// The score in the entry of a member's name.
pub(super) fn score(stored: &[u8]) -> f64 {
    let bytes = stored.try_into().map(u64::from_be_bytes);
    bytes.map_or(0.0, of_ordered)
}

pub(super) fn zset(txn: &mut Txn<'_>, key: &[u8]) -> Answer<Entry> {
    txn.lookup_kind(key, Kind::SortedSet)
}

fn order_key(meta: &Meta, score: f64, member: &[u8]) -> Vec<u8> {
    let score = ordered(score).to_be_bytes();
    [&meta.version.to_be_bytes()[..], &score, member].concat()
}

/// The key before those of all members with a score, which is ordered.
pub(super) fn score_key(meta: &Meta, ordered: u64) -> Vec<u8> {
    [meta.version.to_be_bytes(), ordered.to_be_bytes()].concat()
}

/// The score of a member.
pub(super) fn score_of(txn: &mut Txn<'_>, meta: &Meta, member: &[u8]) -> Answer<Option<f64>> {
    let key = element_key(txn, meta.version, member);
    let db = txn.db;
    Ok(txn.get(db, Space::Elements, &key)?.map(|it| score(&it)))
}

fn scores_of(txn: &mut Txn<'_>, meta: &Meta, members: &[&[u8]]) -> Answer<Vec<Option<f64>>> {
    let keys: Vec<_> = members
        .iter()
        .map(|it| element_key(txn, meta.version, it))
        .collect();
    let db = txn.db;
    let score = |found: Option<Slice>| Ok(found.map(|it| score(&it)));
    txn.get_all((db, Space::Elements), &keys, score)
}

/// Writes both entries of a member.
pub(super) fn put(
    txn: &mut Txn<'_>,
    meta: &mut Meta,
    member: &[u8],
    (old, new): (Option<f64>, f64),
) -> Answer<()> {
    let db = txn.db;
    if old.is_some_and(|old| ordered(old) == ordered(new)) {
        return Ok(());
    }
    meta.scores.add(ordered(new), meta.count);
    match old {
        Some(old) => txn.delete(db, Space::Ordered, &order_key(meta, old, member))?,
        None => meta.count += 1,
    }
    let key = element_key(txn, meta.version, member);
    txn.put(db, Space::Elements, &key, &ordered(new).to_be_bytes())?;
    txn.put(db, Space::Ordered, &order_key(meta, new, member), b"")
}

pub(super) fn delete(txn: &mut Txn<'_>, meta: &mut Meta, member: &[u8], score: f64) -> Answer<()> {
    let (db, key) = (txn.db, element_key(txn, meta.version, member));
    txn.delete(db, Space::Elements, &key)?;
    txn.delete(db, Space::Ordered, &order_key(meta, score, member))?;
    meta.count -= 1;
    Ok(())
}

/// The member of an entry in the order of scores.
pub(super) fn scored(key: &[u8]) -> Scored {
    let (prefix, member) = key.split_at(16);
    (member.to_vec(), score(&prefix[8..]))
}

/// Members and, if asked for, scores: pairs in version 3 of the protocol.
pub(super) fn reply(txn: &Txn<'_>, found: Vec<Scored>, with_scores: bool) -> Reply {
    let mut items = Vec::new();
    for (member, score) in found {
        match (with_scores, txn.resp3) {
            (false, _) => items.push(Reply::Bulk(member)),
            (true, false) => items.extend([Reply::Bulk(member), Reply::Double(score)]),
            (true, true) => {
                items.push(Reply::Array(vec![
                    Reply::Bulk(member),
                    Reply::Double(score),
                ]));
            }
        }
    }
    Reply::Array(items)
}

/// The options of ZADD.
#[derive(Default, Clone, Copy)]
struct AddOptions {
    only_new: bool,
    only_old: bool,
    greater: bool,
    less: bool,
    counts_changes: bool,
    adds: bool,
}

impl AddOptions {
    /// The options, and the scores and members behind them.
    fn parse(rest: Args<'_>) -> Answer<(AddOptions, &[[&[u8]; 2]])> {
        let mut options = AddOptions::default();
        let mut at = 0;
        while let Some(word) = rest.get(at) {
            let option = match word {
                it if is(it, "NX") => &mut options.only_new,
                it if is(it, "XX") => &mut options.only_old,
                it if is(it, "GT") => &mut options.greater,
                it if is(it, "LT") => &mut options.less,
                it if is(it, "CH") => &mut options.counts_changes,
                it if is(it, "INCR") => &mut options.adds,
                _ => break,
            };
            *option = true;
            at += 1;
        }
        let (pairs, odd) = rest[at..].as_chunks::<2>();
        if !odd.is_empty() || pairs.is_empty() {
            return Err(Stop::syntax());
        }
        if options.only_new && options.only_old {
            return Err(Stop::reply(
                "ERR XX and NX options at the same time are not compatible",
            ));
        }
        let conditions = [options.only_new, options.greater, options.less];
        if conditions.iter().filter(|it| **it).count() > 1 {
            return Err(Stop::reply(
                "ERR GT, LT, and/or NX options at the same time are not compatible",
            ));
        }
        if options.adds && pairs.len() > 1 {
            return Err(Stop::reply(
                "ERR INCR option supports a single increment-element pair",
            ));
        }
        Ok((options, pairs))
    }

    /// The new score; `None` if the member stays as it is.
    fn new_score(self, old: Option<f64>, given: f64) -> Answer<Option<f64>> {
        let Some(old) = old else {
            return Ok((!self.only_old).then_some(given));
        };
        if self.only_new {
            return Ok(None);
        }
        let new = if self.adds { old + given } else { given };
        if new.is_nan() {
            return Err(Stop::reply("ERR resulting score is not a number (NaN)"));
        }
        let refused = self.greater && new <= old || self.less && new >= old;
        Ok((!refused).then_some(new))
    }
}

pub(super) fn zadd(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (options, pairs) = AddOptions::parse(&args[2..])?;
    let event = if options.adds { "zincr" } else { "zadd" };
    add(txn, args[1], options, pairs, event)
}

pub(super) fn zincrby(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let options = AddOptions {
        adds: true,
        ..AddOptions::default()
    };
    add(txn, args[1], options, &[[args[2], args[3]]], "zincr")
}

fn add(
    txn: &mut Txn<'_>,
    key: &[u8],
    options: AddOptions,
    pairs: &[[&[u8]; 2]],
    event: &'static str,
) -> Answer<Reply> {
    let scores = pairs.iter().map(|[score, _]| float(score));
    let scores = scores.collect::<Answer<Vec<f64>>>()?;
    let mut entry = zset(txn, key)?;
    if !entry.exists() && options.only_old {
        return Ok(if options.adds {
            Reply::Null
        } else {
            Reply::Integer(0)
        });
    }
    let mut meta = txn.collection(&entry, Kind::SortedSet)?;
    if entry.exists() && pairs.len() > 1 {
        let members: Vec<_> = pairs.iter().map(|pair| pair[1]).collect();
        scores_of(txn, &meta, &members)?;
    }
    let (before, mut left, mut last) = (meta.count, Vec::new(), None);
    for ([_, member], score) in pairs.iter().zip(scores) {
        let old = score_of(txn, &meta, member)?;
        last = options.new_score(old, score)?;
        if let Some(new) = last {
            left.extend(old.filter(|old| *old != new));
            put(txn, &mut meta, member, (old, new))?;
        }
    }
    let (added, changed) = ((meta.count - before) as i64, left.len() as i64);
    if added + changed > 0 {
        find_ends(txn, &mut meta, left.into_iter())?;
        txn.store(&mut entry, meta)?;
        txn.event(&entry, b'z', event);
        txn.ready(&entry);
    }
    Ok(match (options.adds, options.counts_changes) {
        (true, _) => last.map_or(Reply::Null, Reply::Double),
        (false, true) => Reply::Integer(added + changed),
        (false, false) => Reply::Integer(added),
    })
}

pub(super) fn zrem(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = zset(txn, args[1])?;
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    if args.len() > 3 {
        scores_of(txn, &meta, &args[2..])?;
    }
    let mut removed = Vec::new();
    for member in &args[2..] {
        if let Some(score) = score_of(txn, &meta, member)? {
            delete(txn, &mut meta, member, score)?;
            removed.push(score);
        }
    }
    find_ends(txn, &mut meta, removed.iter().copied())?;
    if !removed.is_empty() {
        txn.event(&entry, b'z', "zrem");
        txn.store_or_remove(&mut entry, meta)?;
    }
    Ok(Reply::count(removed.len()))
}

pub(super) fn zcard(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    Ok(Reply::Integer(zset(txn, args[1])?.count() as i64))
}

pub(super) fn zscore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = zset(txn, args[1])?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Null);
    };
    Ok(score_of(txn, meta, args[2])?.map_or(Reply::Null, Reply::Double))
}

pub(super) fn zmscore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = zset(txn, args[1])?;
    let found = match entry.meta() {
        Some(meta) => scores_of(txn, meta, &args[2..])?,
        None => vec![None; args.len() - 2],
    };
    let scores = found
        .into_iter()
        .map(|it| it.map_or(Reply::Null, Reply::Double));
    Ok(Reply::Array(scores.collect()))
}

pub(super) fn zrank(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    rank(txn, args, false)
}

pub(super) fn zrevrank(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    rank(txn, args, true)
}

/// The number of members before one: a walk over them.
fn rank(txn: &mut Txn<'_>, args: Args<'_>, reversed: bool) -> Answer<Reply> {
    let with_score = match &args[3..] {
        [] => false,
        [word] if is(word, "WITHSCORE") => true,
        _ => return Err(Stop::syntax()),
    };
    let none = if with_score {
        Reply::NullArray
    } else {
        Reply::Null
    };
    let entry = zset(txn, args[1])?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(none);
    };
    let Some(score) = score_of(txn, &meta, args[2])? else {
        return Ok(none);
    };
    let own = order_key(&meta, score, args[2]);
    let before = score_key(&meta, meta.scores.first)..own;
    let db = txn.db;
    let mut count = 0;
    for item in txn.scan(db, Space::Ordered, before, meta.count)? {
        item?;
        count += 1;
    }
    let rank = if reversed {
        meta.count - 1 - count
    } else {
        count
    };
    let rank = Reply::Integer(rank as i64);
    Ok(match with_score {
        true => Reply::Array(vec![rank, Reply::Double(score)]),
        false => rank,
    })
}

/// Removes the members of a range.
pub(super) fn remove_range(txn: &mut Txn<'_>, key: &[u8], range: &Range) -> Answer<Reply> {
    let mut entry = zset(txn, key)?;
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    let found = in_order(txn, &meta, range)?;
    for (member, score) in &found {
        delete(txn, &mut meta, member, *score)?;
    }
    find_ends(txn, &mut meta, found.iter().map(|it| it.1))?;
    if !found.is_empty() {
        txn.event(&entry, b'z', range.removal_event());
        txn.store_or_remove(&mut entry, meta)?;
    }
    Ok(Reply::count(found.len()))
}

pub(super) fn zrandmember(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (count, with_scores) = random_options(args, "WITHSCORES")?;
    let entry = zset(txn, args[1])?;
    let scored = |key: Slice, stored: Slice| Ok(Some((name_of(&key).to_vec(), score(&stored))));
    let bytes = |(member, _): &Scored| element_bytes(member.len());
    let mut scored = random_elements(txn, &entry, count, (scored, bytes))?;
    Ok(match count {
        None => Reply::bulk_or_null(scored.pop().map(|it| it.0)),
        Some(_) => reply(txn, scored, with_scores),
    })
}

/// A weight or score in an argument.
pub(super) fn weight(argument: &[u8]) -> Answer<f64> {
    let wrong = || Stop::reply("ERR weight value is not a float");
    number::parse_float(argument).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
