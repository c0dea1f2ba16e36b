//! XGROUP: groups and consumers are added, changed and removed.

use super::Args;
use super::arguments::{Options, is};
use super::stream_groups::{Consumer, Group, Pending, UNKNOWN, key, missing_group, prefix};
use super::streams::{parse_bound, parse_id, stream};
use crate::resp::Reply;
use crate::store::{Answer, Entry, Id, Kind, Meta, Space, Stop, Txn};

pub(super) fn xgroup(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    match (args[1], args.len()) {
        (it, 5..=8) if is(it, "CREATE") => create(txn, args),
        (it, 5 | 7) if is(it, "SETID") => set_id(txn, args),
        (it, 4) if is(it, "DESTROY") => destroy(txn, args),
        (it, 5) if is(it, "CREATECONSUMER") => create_consumer(txn, args),
        (it, 5) if is(it, "DELCONSUMER") => delete_consumer(txn, args),
        (it, 2) if is(it, "HELP") => Ok(Reply::bulks([
            "XGROUP <subcommand>. Subcommands are:",
            "CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <number>]: adds a group.",
            "SETID <key> <group> <id|$> [ENTRIESREAD <number>]: sets up to where it has read.",
            "DESTROY <key> <group>: removes a group.",
            "CREATECONSUMER <key> <group> <consumer>: adds a consumer.",
            "DELCONSUMER <key> <group> <consumer>: removes a consumer and what it has pending.",
        ])),
        (it, 5..) if is(it, "CREATE") || is(it, "SETID") => Err(wrong_options(args)),
        _ => Err(Stop::reply(super::wrong_subcommand(args))),
    }
}

fn wrong_options(args: Args<'_>) -> Stop {
    Stop::reply(format!(
        "ERR unknown subcommand or wrong number of arguments for '{}'. Try XGROUP HELP.",
        String::from_utf8_lossy(args[1])
    ))
}

/// The id from which on a group reads, and the options behind it.
fn begin(args: Args<'_>, meta: Option<&Meta>) -> Answer<(Id, u64, bool)> {
    let last = match args[4] {
        b"$" => meta.map_or(Id::default(), |it| it.ends.last),
        // As in Redis, a group may be set to an end of the stream, and not be made there.
        id if is(args[1], "SETID") => parse_bound(id, false)?,
        id => parse_id(id, 0)?,
    };
    let (mut read, mut makes) = (UNKNOWN, false);
    let mut options = Options::new(&args[5..]);
    while let Some(option) = options.next() {
        match option {
            _ if is(option, "MKSTREAM") && is(args[1], "CREATE") => makes = true,
            _ if is(option, "ENTRIESREAD") && options.left() > 0 => {
                let number = options.integer()?;
                if number < -1 {
                    return Err(Stop::reply(
                        "ERR value for ENTRIESREAD must be positive or -1",
                    ));
                }
                read = number as u64;
            }
            _ => return Err(wrong_options(args)),
        }
    }
    Ok((last, read, makes))
}

fn no_key() -> Stop {
    Stop::reply(
        "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
    )
}

fn create(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = stream(txn, args[2])?;
    let (last, read, makes) = begin(args, entry.meta())?;
    let meta = match entry.meta().cloned() {
        Some(meta) => meta,
        None if makes => {
            let meta = txn.new_collection(Kind::Stream)?;
            txn.store(&mut entry, meta.clone())?;
            meta
        }
        None => return Err(no_key()),
    };
    if Group::find(txn, &meta, args[3])?.is_some() {
        return Err(Stop::reply("BUSYGROUP Consumer Group name already exists"));
    }
    let group = Group {
        name: args[3].to_vec(),
        last,
        read,
        pending: 0,
    };
    // A group is no change of a stream that was there, for those who watch it.
    group.put(txn, &meta)?;
    txn.event(&entry, b't', "xgroup-create");
    Ok(Reply::OK)
}

/// The stream and the group of a subcommand of XGROUP.
fn of_group(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<(Entry, Meta, Option<Group>)> {
    let entry = stream(txn, args[2])?;
    let meta = entry.meta().cloned().ok_or_else(no_key)?;
    let group = Group::find(txn, &meta, args[3])?;
    Ok((entry, meta, group))
}

fn set_id(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (entry, meta, group) = of_group(txn, args)?;
    let (last, read, _) = begin(args, Some(&meta))?;
    let mut group = group.ok_or_else(|| missing_group(args[2], args[3]))?;
    (group.last, group.read) = (last, read);
    group.put(txn, &meta)?;
    txn.event(&entry, b't', "xgroup-setid");
    Ok(Reply::OK)
}

fn destroy(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (entry, meta, group) = of_group(txn, args)?;
    let Some(group) = group else {
        return Ok(Reply::Integer(0));
    };
    let db = txn.db;
    txn.delete(db, Space::Elements, &key(&meta, b'g', &[&group.name]))?;
    for letter in [b'c', b'p'] {
        txn.delete_range(
            db,
            Space::Elements,
            prefix(key(&meta, letter, &[&group.name])),
        )?;
    }
    txn.event(&entry, b't', "xgroup-destroy");
    // The waiters for the group learn that it is gone.
    txn.ready(&entry);
    Ok(Reply::Integer(1))
}

fn create_consumer(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (entry, meta, group) = of_group(txn, args)?;
    let group = group.ok_or_else(|| missing_group(args[2], args[3]))?;
    if Consumer::find(txn, &meta, &group, args[4])?.is_some() {
        return Ok(Reply::Integer(0));
    }
    let consumer = Consumer::seen(txn, &entry, (&meta, &group), args[4])?;
    consumer.put(txn, &meta, &group)?;
    Ok(Reply::Integer(1))
}

fn delete_consumer(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (entry, meta, group) = of_group(txn, args)?;
    let mut group = group.ok_or_else(|| missing_group(args[2], args[3]))?;
    let Some(consumer) = Consumer::find(txn, &meta, &group, args[4])? else {
        return Ok(Reply::Integer(0));
    };
    let before = group.pending;
    for pending in Pending::of_consumer(txn, (&meta, &group), Id::default(), &consumer)? {
        pending?.delete(txn, &meta, &mut group)?;
    }
    group.put(txn, &meta)?;
    let db = txn.db;
    let key = key(&meta, b'c', &[&group.name, &consumer.name]);
    txn.delete(db, Space::Elements, &key)?;
    txn.event(&entry, b't', "xgroup-delconsumer");
    Ok(Reply::Integer((before - group.pending) as i64))
}
