//! The ends of sorted sets: taking members from them, and knowing where they are.

use super::Args;
use super::arguments::is;
use super::sets::pop_words;
use super::waiting::{or_wait, timeout};
use super::zset_range::{Range, in_order};
use super::zsets::{Scored, delete, ordered, reply, score_key, scored, zset};
use crate::resp::Reply;
use crate::store::{Answer, Entry, Kind, Meta, Scores, Space, Stop, Txn};

/// Finds the first and the last score again, if members with them are gone: a seek for each.
pub(super) fn find_ends(
    txn: &mut Txn<'_>,
    meta: &mut Meta,
    gone: impl Iterator<Item = f64> + Clone,
) -> Answer<()> {
    let Scores { first, last } = meta.scores;
    let is_gone = |end| gone.clone().any(|score| ordered(score) == end);
    if meta.count == 0 || first == last {
        return Ok(());
    }
    let db = txn.db;
    let all = score_key(meta, first)..score_key(meta, last + 1);
    if is_gone(first) {
        let item = txn.scan(db, Space::Ordered, all.clone(), 1)?.next();
        if let Some(item) = item {
            meta.scores.first = ordered(scored(&item?.0).1);
        }
    }
    if is_gone(last) {
        let item = txn.scan(db, Space::Ordered, all, 1)?.next_back();
        if let Some(item) = item {
            meta.scores.last = ordered(scored(&item?.0).1);
        }
    }
    Ok(())
}

pub(super) fn zpopmin(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop(txn, args, false)
}

pub(super) fn zpopmax(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop(txn, args, true)
}

fn pop(txn: &mut Txn<'_>, args: Args<'_>, from_end: bool) -> Answer<Reply> {
    if args.len() > 3 {
        return Err(Stop::syntax());
    }
    let wanted = args
        .get(2)
        .map(|it| super::arguments::count(it))
        .transpose()?;
    let mut entry = zset(txn, args[1])?;
    let popped = pop_count(txn, &mut entry, from_end, wanted.unwrap_or(1))?;
    if wanted.is_none() && txn.resp3 {
        let pair = popped
            .into_iter()
            .flat_map(|(member, score)| [Reply::Bulk(member), Reply::Double(score)]);
        return Ok(Reply::Array(pair.collect()));
    }
    Ok(reply(txn, popped, true))
}

fn pop_count(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    from_end: bool,
    wanted: usize,
) -> Answer<Vec<Scored>> {
    let Some(mut meta) = entry.meta().cloned() else {
        return Ok(Vec::new());
    };
    if wanted == 0 {
        return Ok(Vec::new());
    }
    let range = Range::first(wanted, from_end, txn.room);
    let popped = in_order(txn, &meta, &range)?;
    for (member, score) in &popped {
        delete(txn, &mut meta, member, *score)?;
    }
    find_ends(txn, &mut meta, popped.iter().map(|it| it.1))?;
    txn.event(entry, b'z', if from_end { "zpopmax" } else { "zpopmin" });
    txn.store_or_remove(entry, meta)?;
    Ok(popped)
}

pub(super) fn bzpopmin(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop_or_wait(txn, args, false)
}

pub(super) fn bzpopmax(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop_or_wait(txn, args, true)
}

fn pop_or_wait(txn: &mut Txn<'_>, args: Args<'_>, from_end: bool) -> Answer<Reply> {
    timeout(args[args.len() - 1])?;
    for key in &args[1..args.len() - 1] {
        let Some(mut entry) = txn.lookup_awaited(key, Kind::SortedSet)? else {
            continue;
        };
        if let Some((member, score)) = pop_count(txn, &mut entry, from_end, 1)?.pop() {
            let parts = vec![Reply::bulk(key), Reply::Bulk(member), Reply::Double(score)];
            return Ok(Reply::Array(parts));
        }
    }
    Ok(Reply::Wait)
}

pub(super) fn zmpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    pop_first(txn, args, 1)
}

pub(super) fn bzmpop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    timeout(args[1])?;
    or_wait(pop_first(txn, args, 2)?)
}

fn pop_first(txn: &mut Txn<'_>, args: Args<'_>, at: usize) -> Answer<Reply> {
    let from_end = |word: &[u8]| match word {
        it if is(it, "MIN") => Ok(false),
        it if is(it, "MAX") => Ok(true),
        _ => Err(Stop::syntax()),
    };
    let (keys, from_end, wanted) = pop_words(args, at, from_end)?;
    for key in keys {
        let Some(mut entry) = txn.lookup_awaited(key, Kind::SortedSet)? else {
            continue;
        };
        let popped = pop_count(txn, &mut entry, from_end, wanted)?;
        if !popped.is_empty() {
            let pairs = popped.into_iter().map(|(member, score)| {
                Reply::Array(vec![Reply::Bulk(member), Reply::Double(score)])
            });
            return Ok(Reply::Array(vec![
                Reply::bulk(key),
                Reply::Array(pairs.collect()),
            ]));
        }
    }
    Ok(Reply::NullArray)
}
