//! XREAD and XREADGROUP: entries behind ids, or those that a group of consumers has not read.

use super::Args;
use super::arguments::{Options, is};
use super::stream_groups::{Consumer, Group, Pending, found};
use super::streams::{Item, item, item_reply, items, parse_id};
use crate::number;
use crate::resp::Reply;
use crate::store::{Answer, Id, Kind, Meta, Room, Stop, Txn};

/// The arguments of a read.
struct Read<'a> {
    count: usize,
    blocks: bool,
    group: Option<(&'a [u8], &'a [u8])>,
    no_ack: bool,
    keys: Args<'a>,
    ids: Args<'a>,
    /// The place of the ids among the arguments.
    at: usize,
}

impl<'a> Read<'a> {
    fn parse(args: Args<'a>) -> Answer<Read<'a>> {
        let is_group = is(args[0], "XREADGROUP");
        let mut read = Read {
            count: usize::MAX,
            blocks: false,
            group: None,
            no_ack: false,
            keys: &[],
            ids: &[],
            at: 0,
        };
        let mut options = Options::new(&args[1..]);
        while let Some(option) = options.next() {
            match option {
                _ if is(option, "COUNT") => {
                    let count = options.integer()?;
                    read.count = usize::try_from(count)
                        .ok()
                        .filter(|it| *it > 0)
                        .unwrap_or(usize::MAX);
                }
                _ if is(option, "BLOCK") => {
                    let wrong = || Stop::reply("ERR timeout is not an integer or out of range");
                    let millis = number::integer(options.value()?).ok_or_else(wrong)?;
                    if millis < 0 {
                        return Err(Stop::reply("ERR timeout is negative"));
                    }
                    read.blocks = true;
                }
                _ if is(option, "GROUP") && is_group => {
                    read.group = Some((options.value()?, options.value()?));
                }
                _ if is(option, "NOACK") && is_group => read.no_ack = true,
                _ if is(option, "STREAMS") => {
                    let names = args.len() - options.left();
                    let (keys, ids) = args[names..].split_at(options.left() / 2);
                    let name = if is_group { "XREADGROUP" } else { "XREAD" };
                    if keys.is_empty() || keys.len() != ids.len() {
                        return Err(Stop::reply(format!(
                            "ERR Unbalanced '{}' list of streams: for each stream key an ID or '$' must be specified.",
                            name.to_lowercase()
                        )));
                    }
                    (read.keys, read.ids, read.at) = (keys, ids, names + keys.len());
                    break;
                }
                _ => return Err(Stop::syntax()),
            }
        }
        if read.keys.is_empty() {
            return Err(Stop::syntax());
        }
        if is_group && read.group.is_none() {
            return Err(Stop::reply("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(read)
    }
}

pub(super) fn xread(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let read = Read::parse(args)?;
    let mut words: Vec<Vec<u8>> = args.iter().map(|it| it.to_vec()).collect();
    let (mut found, mut waits, mut room) = (Vec::new(), true, txn.room);
    for (place, (key, id)) in read.keys.iter().zip(read.ids).enumerate() {
        let items = match read.group {
            None => {
                let word = &mut words[read.at + place];
                read_items(txn, (key, id), read.count, (word, &mut room))?
            }
            Some(group) => {
                let options = (read.count, read.no_ack, &mut room);
                // A consumer never waits for entries that it has read before.
                waits &= *id == b">";
                read_group(txn, (*key, *id), group, options)?
            }
        };
        if let Some(items) = items {
            found.push((Reply::bulk(key), Reply::Array(items)));
        }
    }
    if !found.is_empty() {
        return Ok(match txn.resp3 {
            true => Reply::Map(found),
            false => {
                let pair = |(key, items)| Reply::Array(vec![key, items]);
                Reply::Array(found.into_iter().map(pair).collect())
            }
        });
    }
    Ok(match read.blocks && waits {
        true => Reply::WaitWith(words),
        false => Reply::NullArray,
    })
}

/// The entries behind an id. `$` becomes the id of the last entry.
fn read_items(
    txn: &mut Txn<'_>,
    (key, id): (&[u8], &[u8]),
    count: usize,
    (word, room): (&mut Vec<u8>, &mut Room),
) -> Answer<Option<Vec<Reply>>> {
    if id == b">" {
        return Err(Stop::reply(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        ));
    }
    let entry = txn.lookup_awaited(key, Kind::Stream)?;
    let meta = entry.and_then(|it| it.meta().cloned());
    let last = meta.as_ref().map_or(Id::default(), |it| it.ends.last);
    if id == b"$" {
        *word = last.to_string().into_bytes();
        return Ok(None);
    }
    let from = parse_id(id, 0)?.next();
    let (Some(meta), Some(from)) = (meta, from) else {
        return Ok(None);
    };
    let found = items(txn, &meta, (from, Id::MAX), (count, false), room)?;
    Ok((!found.is_empty()).then(|| found.into_iter().map(item_reply).collect()))
}

/// The entries of a stream for a consumer of a group: new ones for `>`, or what the consumer has
/// pending behind an id.
fn read_group(
    txn: &mut Txn<'_>,
    (name, id): (&[u8], &[u8]),
    (group, consumer): (&[u8], &[u8]),
    (count, no_ack, room): (usize, bool, &mut Room),
) -> Answer<Option<Vec<Reply>>> {
    if id == b"$" {
        return Err(Stop::reply(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        ));
    }
    if txn.is_waiting && txn.lookup_awaited(name, Kind::Stream)?.is_none() {
        return Err(Stop::reply("UNBLOCKED the stream key no longer exists"));
    }
    let command = " in XREADGROUP with GROUP option";
    let (entry, meta, group) = found(txn, name, group, command).map_err(|stop| match stop {
        Stop::Reply(_) if txn.is_waiting => {
            Stop::reply("NOGROUP the consumer group this client was blocked on no longer exists")
        }
        stop => stop,
    })?;
    let consumer = Consumer::seen(txn, &entry, (&meta, &group), consumer)?;
    match id == b">" {
        true => deliver_new(txn, &meta, (group, consumer), (count, no_ack, room)),
        false => {
            let after = parse_id(id, 0)?;
            deliver_again(txn, &meta, (&group, &consumer), (after, count, room)).map(Some)
        }
    }
}

/// Delivers entries that the group has not read.
fn deliver_new(
    txn: &mut Txn<'_>,
    meta: &Meta,
    (mut group, mut consumer): (Group, Consumer),
    (count, no_ack, room): (usize, bool, &mut Room),
) -> Answer<Option<Vec<Reply>>> {
    let now = txn.now;
    let new: Vec<Item> = match group.last.next() {
        None => Vec::new(),
        Some(from) => items(txn, meta, (from, Id::MAX), (count, false), room)?,
    };
    for (id, _) in &new {
        group.advance(meta, *id);
        if !no_ack {
            // After a change of the group's last id, an entry may be delivered again.
            if let Some(old) = Pending::find(txn, meta, &group, *id)? {
                old.delete(txn, meta, &mut group)?;
                let was_its = u64::from(old.consumer == consumer.name);
                consumer.pending = consumer.pending.saturating_sub(was_its);
            }
            consumer.pending += 1;
            group.pending += 1;
            let pending = Pending {
                id: *id,
                delivered: now,
                deliveries: 1,
                consumer: consumer.name.clone(),
            };
            pending.put(txn, meta, &group)?;
        }
    }
    if !new.is_empty() {
        consumer.active = now;
        group.put(txn, meta)?;
    }
    consumer.put(txn, meta, &group)?;
    Ok((!new.is_empty()).then(|| new.into_iter().map(item_reply).collect()))
}

/// Delivers again what a consumer has pending behind an id.
fn deliver_again(
    txn: &mut Txn<'_>,
    meta: &Meta,
    (group, consumer): (&Group, &Consumer),
    (after, count, room): (Id, usize, &mut Room),
) -> Answer<Vec<Reply>> {
    let now = txn.now;
    consumer.put(txn, meta, group)?;
    let Some(from) = after.next() else {
        return Ok(Vec::new());
    };
    let of_consumer = Pending::of_consumer(txn, (meta, group), from, consumer)?;
    let mut replies = Vec::new();
    for pending in of_consumer.take(count) {
        let mut pending = pending?;
        let reply = match item(txn, meta, pending.id)? {
            Some(words) => {
                (pending.delivered, pending.deliveries) = (now, pending.deliveries + 1);
                pending.put(txn, meta, group)?;
                item_reply((pending.id, words))
            }
            None => Reply::Array(vec![Reply::bulk(pending.id.to_string()), Reply::NullArray]),
        };
        room.push(&mut replies, reply)?;
    }
    Ok(replies)
}
