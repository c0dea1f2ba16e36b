//! XCLAIM and XAUTOCLAIM: pending entries go from one consumer to another.

use super::Args;
use super::arguments::{Options, integer, is};
use super::stream_groups::{Consumer, Group, Pending, found};
use super::streams::{Item, item, item_reply, parse_bound, parse_id};
use crate::resp::Reply;
use crate::store::{Answer, Entry, Id, Meta, Stop, Txn};

/// The options of XCLAIM.
struct Claim {
    delivered: u64,
    deliveries: Option<u64>,
    forces: bool,
    only_ids: bool,
    last: Option<Id>,
}

impl Claim {
    /// A claim without options.
    fn new(now: u64) -> Claim {
        Claim {
            delivered: now,
            deliveries: None,
            forces: false,
            only_ids: false,
            last: None,
        }
    }

    fn parse(rest: Args<'_>, now: u64) -> Answer<Claim> {
        let mut claim = Claim::new(now);
        let mut options = Options::new(rest);
        while let Some(option) = options.next() {
            match option {
                _ if is(option, "FORCE") => claim.forces = true,
                _ if is(option, "JUSTID") => claim.only_ids = true,
                _ if is(option, "IDLE") => {
                    let idle = u64::try_from(options.integer()?).unwrap_or(0);
                    claim.delivered = now.saturating_sub(idle);
                }
                _ if is(option, "TIME") => {
                    let at = u64::try_from(options.integer()?).unwrap_or(0);
                    claim.delivered = at.min(now);
                }
                _ if is(option, "RETRYCOUNT") => {
                    claim.deliveries = Some(u64::try_from(options.integer()?).unwrap_or(0));
                }
                _ if is(option, "LASTID") => claim.last = Some(parse_id(options.value()?, 0)?),
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(Stop::reply(format!(
                        "ERR Unrecognized XCLAIM option '{option}'"
                    )));
                }
            }
        }
        Ok(claim)
    }

    /// An entry that was claimed.
    fn reply(&self, (id, words): Item) -> Reply {
        match self.only_ids {
            true => Reply::bulk(id.to_string()),
            false => item_reply((id, words)),
        }
    }
}

/// The milliseconds for which an entry has to be pending.
fn least_idle(argument: &[u8], command: &str) -> Answer<u64> {
    let wrong = |_| Stop::reply(format!("ERR Invalid min-idle-time argument for {command}"));
    let millis = integer(argument).map_err(wrong)?;
    Ok(u64::try_from(millis).unwrap_or(0))
}

/// The ids before the first word that is none.
fn leading_ids(words: Args<'_>) -> Answer<Vec<Id>> {
    let mut ids = Vec::new();
    for word in words {
        match parse_id(word, 0) {
            Ok(id) => ids.push(id),
            Err(stop) if ids.is_empty() => return Err(stop),
            Err(_) => break,
        }
    }
    Ok(ids)
}

pub(super) fn xclaim(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let least_idle = least_idle(args[4], "XCLAIM")?;
    let ids = leading_ids(&args[5..])?;
    let now = txn.now;
    let claim = Claim::parse(&args[5 + ids.len()..], now)?;
    let (entry, meta, mut group) = found(txn, args[1], args[2], "")?;
    if let Some(last) = claim.last {
        group.last = group.last.max(last);
    }
    let consumer = Consumer::seen(txn, &entry, (&meta, &group), args[3])?;
    consumer.put(txn, &meta, &group)?;
    let (mut replies, mut room) = (Vec::new(), txn.room);
    for id in ids {
        let old = Pending::find(txn, &meta, &group, id)?;
        let Some(words) = item(txn, &meta, id)? else {
            if let Some(old) = old {
                old.delete(txn, &meta, &mut group)?;
            }
            continue;
        };
        let pending = match old {
            Some(old) if now.saturating_sub(old.delivered) < least_idle => continue,
            Some(old) => old,
            None if claim.forces => {
                group.pending += 1;
                Consumer::change(txn, &meta, &group, (&consumer.name, 1))?;
                Pending {
                    id,
                    delivered: now,
                    // As if it had been delivered before.
                    deliveries: 1,
                    consumer: consumer.name.clone(),
                }
            }
            None => continue,
        };
        take(txn, (&meta, &group), pending, &consumer.name, &claim)?;
        room.push(&mut replies, claim.reply((id, words)))?;
    }
    finish(txn, &entry, (&meta, &group), (args[3], replies.len()))?;
    Ok(Reply::Array(replies))
}

/// Gives a pending entry to a consumer.
fn take(
    txn: &mut Txn<'_>,
    (meta, group): (&Meta, &Group),
    mut pending: Pending,
    consumer: &[u8],
    claim: &Claim,
) -> Answer<()> {
    if pending.consumer != consumer {
        Consumer::change(txn, meta, group, (&pending.consumer, -1))?;
        Consumer::change(txn, meta, group, (consumer, 1))?;
        pending.consumer = consumer.to_vec();
    }
    pending.delivered = claim.delivered;
    pending.deliveries = match claim.deliveries {
        Some(deliveries) => deliveries,
        None => pending.deliveries + u64::from(!claim.only_ids),
    };
    pending.put(txn, meta, group)
}

/// Stores the group, and that the consumer was active if it has got entries.
fn finish(
    txn: &mut Txn<'_>,
    entry: &Entry,
    (meta, group): (&Meta, &Group),
    (consumer, claimed): (&[u8], usize),
) -> Answer<()> {
    if claimed > 0 {
        let mut consumer = Consumer::seen(txn, entry, (meta, group), consumer)?;
        consumer.active = txn.now;
        consumer.put(txn, meta, group)?;
    }
    group.put(txn, meta)
}

/// The options of XAUTOCLAIM: how many entries are claimed at most, and if only their ids are
/// wanted.
fn autoclaim_options(rest: Args<'_>) -> Answer<(usize, bool)> {
    let (mut count, mut only_ids) = (100, false);
    let mut options = Options::new(rest);
    while let Some(option) = options.next() {
        match option {
            _ if is(option, "COUNT") => {
                let given = options.integer()?;
                let in_range = (1..=i64::MAX / 16).contains(&given);
                if !in_range {
                    return Err(Stop::reply("ERR COUNT must be > 0"));
                }
                count = given as usize;
            }
            _ if is(option, "JUSTID") => only_ids = true,
            _ => return Err(Stop::syntax()),
        }
    }
    Ok((count, only_ids))
}

pub(super) fn xautoclaim(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let least_idle = least_idle(args[4], "XAUTOCLAIM")?;
    let from = parse_bound(args[5], false)?;
    let (count, only_ids) = autoclaim_options(&args[6..])?;
    let (entry, meta, mut group) = found(txn, args[1], args[2], "")?;
    let consumer = Consumer::seen(txn, &entry, (&meta, &group), args[3])?;
    consumer.put(txn, &meta, &group)?;
    let now = txn.now;
    let claim = Claim {
        only_ids,
        ..Claim::new(now)
    };
    // Ten times as many are looked at as are claimed, so that the call is short.
    let looked_at = count.saturating_mul(10).saturating_add(1);
    let pending = Pending::walk(txn, (&meta, &group), (from, Id::MAX), looked_at)?;
    let (mut next, mut replies, mut gone, mut left) = (None, Vec::new(), Vec::new(), count);
    let mut room = txn.room;
    for (place, pending) in pending.take(looked_at).enumerate() {
        let pending = pending?;
        if left == 0 || place + 1 == looked_at {
            next = Some(pending.id);
            break;
        }
        let id = pending.id;
        let Some(words) = item(txn, &meta, id)? else {
            pending.delete(txn, &meta, &mut group)?;
            room.push(&mut gone, Reply::bulk(id.to_string()))?;
            left -= 1;
            continue;
        };
        if now.saturating_sub(pending.delivered) < least_idle {
            continue;
        }
        take(txn, (&meta, &group), pending, &consumer.name, &claim)?;
        room.push(&mut replies, claim.reply((id, words)))?;
        left -= 1;
    }
    finish(txn, &entry, (&meta, &group), (args[3], replies.len()))?;
    Ok(Reply::Array(vec![
        Reply::bulk(next.unwrap_or_default().to_string()),
        Reply::Array(replies),
        Reply::Array(gone),
    ]))
}

#[cfg(test)]
mod tests {
    use crate::commands::world::World;

    #[test]
    fn what_is_claimed_by_force_counts_as_delivered() {
        let world = World::new();
        for (words, expected) in [
            ("XADD s 1-1 f v", "1-1"),
            ("XADD s 2-1 f v", "2-1"),
            ("XGROUP CREATE s g 0", "+OK"),
            ("XCLAIM s g c 0 1-1 FORCE", "1-1 f v"),
            ("XCLAIM s g c 0 2-1 FORCE JUSTID", "2-1"),
            ("XPENDING s g - + 9", "1-1 c 0 2 2-1 c 0 1"),
        ] {
            assert_eq!(world.run(words), expected, "{words}");
        }
    }
}
