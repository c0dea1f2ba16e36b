//! XINFO: facts about streams, groups and consumers.

use std::collections::HashMap;

use super::Args;
use super::arguments::{integer, is};
use super::stream_groups::{Consumer, Group, Pending, UNKNOWN, key, missing_group, prefix};
use super::streams::{Item, item_reply, items, no_such_key, stream};
use crate::resp::Reply;
use crate::store::{Answer, Id, Meta, Room, Space, Stop, Txn};

fn map(pairs: Vec<(&'static str, Reply)>) -> Reply {
    let pair = |(name, value)| (Reply::bulk(name), value);
    Reply::Map(pairs.into_iter().map(pair).collect())
}

fn number(number: u64) -> Reply {
    Reply::Integer(number as i64)
}

fn known(number: Option<u64>) -> Reply {
    number.map_or(Reply::Null, |it| Reply::Integer(it as i64))
}

fn id_reply(id: Id) -> Reply {
    Reply::bulk(id.to_string())
}

pub(super) fn groups(txn: &mut Txn<'_>, meta: &Meta) -> Answer<Vec<Group>> {
    let begin = key(meta, b'g', &[]);
    let skipped = begin.len();
    let db = txn.db;
    let scan = txn.scan(db, Space::Elements, prefix(begin), 0)?;
    let group = |item: Answer<(hedgerow::Slice, hedgerow::Slice)>| {
        let (key, value) = item?;
        Ok(Group::decode(&key[skipped..], &value))
    };
    scan.map(group).collect()
}

pub(super) fn xinfo(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    match (args[1], args.len()) {
        (it, 3..=6) if is(it, "STREAM") => about_stream(txn, args),
        (it, 3) if is(it, "GROUPS") => {
            let entry = stream(txn, args[2])?;
            let meta = entry.meta().cloned().ok_or_else(no_such_key)?;
            let mut rows = Vec::new();
            for group in groups(txn, &meta)? {
                let consumers = Consumer::all(txn, &meta, &group)?.len();
                rows.push(map(vec![
                    ("name", Reply::bulk(&group.name)),
                    ("consumers", Reply::count(consumers)),
                    ("pending", number(group.pending)),
                    ("last-delivered-id", id_reply(group.last)),
                    (
                        "entries-read",
                        known(Some(group.read).filter(|it| *it != UNKNOWN)),
                    ),
                    ("lag", known(group.lag(&meta))),
                ]));
            }
            Ok(Reply::Array(rows))
        }
        (it, 4) if is(it, "CONSUMERS") => {
            let entry = stream(txn, args[2])?;
            let meta = entry.meta().cloned().ok_or_else(no_such_key)?;
            let group = Group::find(txn, &meta, args[3])?;
            let missing = || missing_group(args[2], args[3]);
            let group = group.ok_or_else(missing)?;
            let now = txn.now;
            let row = |it: Consumer| {
                let inactive = match it.active {
                    0 => Reply::Integer(-1),
                    active => number(now.saturating_sub(active)),
                };
                map(vec![
                    ("name", Reply::Bulk(it.name)),
                    ("pending", number(it.pending)),
                    ("idle", number(now.saturating_sub(it.seen))),
                    ("inactive", inactive),
                ])
            };
            let consumers = Consumer::all(txn, &meta, &group)?.into_iter();
            Ok(Reply::Array(consumers.map(row).collect()))
        }
        (it, 2) if is(it, "HELP") => Ok(Reply::bulks([
            "XINFO <subcommand>. Subcommands are:",
            "CONSUMERS <key> <group>: tells of the consumers of a group.",
            "GROUPS <key>: tells of the groups of a stream.",
            "STREAM <key> [FULL [COUNT <count>]]: tells of a stream.",
        ])),
        _ => Err(Stop::reply(super::wrong_subcommand(args))),
    }
}

fn about_stream(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let count = match args[3..] {
        [] => None,
        [full] if is(full, "FULL") => Some(10),
        [full, word, count] if is(full, "FULL") && is(word, "COUNT") => {
            let count = usize::try_from(integer(count)?).unwrap_or(10);
            Some(if count == 0 { usize::MAX } else { count })
        }
        _ => return Err(Stop::syntax()),
    };
    let entry = stream(txn, args[2])?;
    let meta = entry.meta().cloned().ok_or_else(no_such_key)?;
    let all = (Id::default(), Id::MAX);
    let mut room = txn.room;
    let first = items(txn, &meta, all, (1, false), &mut room)?;
    let first_id = first.first().map_or(Id::default(), |it| it.0);
    let mut facts = vec![
        ("length", number(meta.count)),
        // There is no tree of nodes; clients want the numbers.
        ("radix-tree-keys", number(meta.count.div_ceil(100))),
        ("radix-tree-nodes", number(meta.count.div_ceil(100) + 1)),
        ("last-generated-id", id_reply(meta.ends.last)),
        ("max-deleted-entry-id", id_reply(meta.ends.deleted)),
        ("entries-added", number(meta.ends.added)),
        ("recorded-first-entry-id", id_reply(first_id)),
    ];
    let groups = groups(txn, &meta)?;
    let Some(count) = count else {
        let last = items(txn, &meta, all, (1, true), &mut room)?;
        let entry = |it: Vec<Item>| it.into_iter().next().map_or(Reply::Null, item_reply);
        facts.extend([
            ("groups", Reply::count(groups.len())),
            ("first-entry", entry(first)),
            ("last-entry", entry(last)),
        ]);
        return Ok(map(facts));
    };
    // The first entry is among these, and not in the reply twice.
    let mut room = txn.room;
    let found = items(txn, &meta, all, (count, false), &mut room)?;
    let found = found.into_iter().map(item_reply).collect();
    facts.push(("entries", Reply::Array(found)));
    let mut rows = Vec::new();
    for group in &groups {
        rows.push(about_group(txn, (&meta, group), (count, &mut room))?);
    }
    facts.push(("groups", Reply::Array(rows)));
    Ok(map(facts))
}

fn about_group(
    txn: &mut Txn<'_>,
    (meta, group): (&Meta, &Group),
    (count, room): (usize, &mut Room),
) -> Answer<Reply> {
    let consumers = Consumer::all(txn, meta, group)?;
    // One walk finds the rows of the group and of all consumers. It ends when all are found.
    let shown = |pending: u64| pending.min(count as u64);
    let of_all = consumers.iter().map(|it| shown(it.pending));
    let mut left = of_all.fold(shown(group.pending), u64::saturating_add);
    let mut rows = Vec::new();
    let mut rows_of: HashMap<Vec<u8>, Vec<Reply>> = HashMap::new();
    let mut pending = Pending::walk(txn, (meta, group), (Id::default(), Id::MAX), usize::MAX)?;
    while left > 0
        && let Some(it) = pending.next().transpose()?
    {
        let row = [
            id_reply(it.id),
            Reply::bulk(&it.consumer),
            number(it.delivered),
            number(it.deliveries),
        ];
        let rows_of = rows_of.entry(it.consumer).or_default();
        if rows_of.len() < count {
            let [id, _, delivered, deliveries] = row.clone();
            room.push(rows_of, Reply::Array(vec![id, delivered, deliveries]))?;
            left -= 1;
        }
        if rows.len() < count {
            room.push(&mut rows, Reply::Array(row.into()))?;
            left = left.saturating_sub(1);
        }
    }
    let about = |it: Consumer| {
        let pending = rows_of.remove(&it.name).unwrap_or_default();
        map(vec![
            ("name", Reply::Bulk(it.name)),
            ("seen-time", number(it.seen)),
            ("active-time", Reply::Integer(it.active as i64)),
            ("pel-count", number(it.pending)),
            ("pending", Reply::Array(pending)),
        ])
    };
    let consumers = consumers.into_iter().map(about).collect();
    Ok(map(vec![
        ("name", Reply::bulk(&group.name)),
        ("last-delivered-id", id_reply(group.last)),
        (
            "entries-read",
            known(Some(group.read).filter(|it| *it != UNKNOWN)),
        ),
        ("lag", known(group.lag(meta))),
        ("pel-count", number(group.pending)),
        ("pending", Reply::Array(rows)),
        ("consumers", Reply::Array(consumers)),
    ]))
}
