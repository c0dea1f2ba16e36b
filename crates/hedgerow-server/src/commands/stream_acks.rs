//! XACK and XPENDING: entries that were delivered to consumers and are not acknowledged.

use super::Args;
use super::arguments::{integer, is};
use super::stream_groups::{Consumer, Group, Pending, found};
use super::streams::{parse_bound, parse_id, stream};
use crate::resp::Reply;
use crate::store::{Answer, Id, Meta, Stop, Txn};

pub(super) fn xack(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let ids = args[3..].iter().map(|it| parse_id(it, 0));
    let ids = ids.collect::<Answer<Vec<Id>>>()?;
    let entry = stream(txn, args[1])?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Reply::Integer(0));
    };
    let Some(mut group) = Group::find(txn, &meta, args[2])? else {
        return Ok(Reply::Integer(0));
    };
    let before = group.pending;
    for id in ids {
        if let Some(pending) = Pending::find(txn, &meta, &group, id)? {
            pending.delete(txn, &meta, &mut group)?;
        }
    }
    if group.pending < before {
        group.put(txn, &meta)?;
    }
    Ok(Reply::Integer((before - group.pending) as i64))
}

pub(super) fn xpending(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut rest = &args[3..];
    let mut least_idle = 0;
    if let [option, millis, more @ ..] = rest
        && is(option, "IDLE")
    {
        least_idle = u64::try_from(integer(millis)?).unwrap_or(0);
        rest = more;
    }
    let wanted = match *rest {
        [] if args.len() == 3 => None,
        [from, to, count] => Some((from, to, count, None)),
        [from, to, count, consumer] => Some((from, to, count, Some(consumer))),
        _ => return Err(Stop::syntax()),
    };
    let wanted = match wanted {
        None => None,
        Some((from, to, count, consumer)) => {
            let bounds = (parse_bound(from, false)?, parse_bound(to, true)?);
            let count = usize::try_from(integer(count)?).unwrap_or(0);
            Some((bounds, count, consumer))
        }
    };
    let (_, meta, group) = found(txn, args[1], args[2], "")?;
    let Some((bounds, count, consumer)) = wanted else {
        return summary(txn, &meta, &group);
    };
    let now = txn.now;
    let is_wanted = |it: &Pending| {
        consumer.is_none_or(|name| it.consumer == name)
            && now.saturating_sub(it.delivered) >= least_idle
    };
    let pending = Pending::walk(txn, (&meta, &group), bounds, usize::MAX)?;
    let wanted = pending.filter(|it| it.as_ref().map_or(true, is_wanted));
    let row = |it: Pending| {
        Reply::Array(vec![
            Reply::bulk(it.id.to_string()),
            Reply::Bulk(it.consumer),
            Reply::Integer(now.saturating_sub(it.delivered) as i64),
            Reply::Integer(it.deliveries as i64),
        ])
    };
    let rows = wanted.take(count).map(|it| it.map(row));
    Ok(Reply::Array(txn.room.replies(rows)?))
}

fn summary(txn: &mut Txn<'_>, meta: &Meta, group: &Group) -> Answer<Reply> {
    let all = (Id::default(), Id::MAX);
    let first = Pending::walk(txn, (meta, group), all, 1)?
        .next()
        .transpose()?;
    let last = Pending::walk(txn, (meta, group), all, 1)?
        .next_back()
        .transpose()?;
    let id = |it: Option<Pending>| it.map_or(Reply::Null, |it| Reply::bulk(it.id.to_string()));
    let consumers = Consumer::all(txn, meta, group)?.into_iter();
    let with_some = consumers.filter(|it| it.pending > 0);
    let row = |it: Consumer| {
        Reply::Array(vec![
            Reply::Bulk(it.name),
            Reply::bulk(it.pending.to_string()),
        ])
    };
    let rows: Vec<Reply> = with_some.map(row).collect();
    Ok(Reply::Array(vec![
        Reply::Integer(group.pending as i64),
        id(first),
        id(last),
        match rows.is_empty() {
            true => Reply::NullArray,
            false => Reply::Array(rows),
        },
    ]))
}
