//! DUMP and RESTORE: values as bytes that a real Redis takes, too.

use super::Args;
use super::arguments::{Options, integer, is};
use super::fields;
use super::hashes::{self, element_key, name_of};
use super::lists;
use super::stream_values;
use super::zsets::{self, Scored, of_ordered};
use crate::rdb::{Damage, Value};
use crate::resp::{Reply, element_bytes};
use crate::store::{Answer, Entry, Kind, LIST_MIDDLE, Meta, Space, Stop, Txn, elements};

pub(super) fn dump(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = txn.lookup(args[1])?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Reply::Null);
    };
    Ok(Reply::Bulk(value(txn, &meta)?.encode()))
}

/// Everything that a key of the selected database holds, as long as there is room.
pub(crate) fn value(txn: &mut Txn<'_>, meta: &Meta) -> Answer<Value> {
    let (db, all, count, room) = (txn.db, elements(meta.version), meta.count, txn.room);
    Ok(match meta.kind {
        Kind::String => Value::String(meta.value.bytes().to_vec()),
        Kind::List => {
            let found = lists::walk(txn, meta, 0..count)?.map(|it| Ok(it?.to_vec()));
            Value::List(room.collect(found, |it| element_bytes(it.len()))?)
        }
        Kind::Set => {
            let found = txn.scan(db, Space::Elements, all, count)?;
            let members = found.map(|item| Ok(name_of(&item?.0).to_vec()));
            Value::Set(room.collect(members, |it| element_bytes(it.len()))?)
        }
        Kind::Hash => {
            let fields = hashes::all(txn, meta)?.map(|item| {
                let (key, field) = item?;
                Ok((
                    name_of(&key).to_vec(),
                    field.value().to_vec(),
                    field.expires,
                ))
            });
            let fields = room.collect(fields, |it| element_bytes(it.0.len() + it.1.len()))?;
            match fields.iter().any(|it| it.2 > 0) {
                true => Value::ExpiringHash(fields),
                false => Value::Hash(fields.into_iter().map(|it| (it.0, it.1)).collect()),
            }
        }
        Kind::SortedSet => {
            let found = txn.scan(db, Space::Ordered, all, count)?;
            let members = found.map(|item| {
                let (key, _) = item?;
                let score = key.get(8..16).and_then(|it| it.try_into().ok());
                let score = of_ordered(score.map_or(0, u64::from_be_bytes));
                Ok((key[16..].to_vec(), score))
            });
            Value::SortedSet(room.collect(members, |it: &Scored| element_bytes(it.0.len()))?)
        }
        Kind::Stream => Value::Stream(Box::new(stream_values::read(txn, meta)?)),
    })
}

struct RestoreOptions {
    replaces: bool,
    is_absolute: bool,
}

impl RestoreOptions {
    fn parse(rest: Args<'_>) -> Answer<RestoreOptions> {
        let (mut replaces, mut is_absolute, mut of_use) = (false, false, "");
        let mut options = Options::new(rest);
        while let Some(option) = options.next() {
            match option {
                _ if is(option, "REPLACE") => replaces = true,
                _ if is(option, "ABSTTL") => is_absolute = true,
                // Times of use are not kept.
                _ if is(option, "IDLETIME") && of_use != "FREQ" => {
                    of_use = "IDLETIME";
                    if options.integer()? < 0 {
                        return Err(Stop::reply("ERR Invalid IDLETIME value, must be >= 0"));
                    }
                }
                _ if is(option, "FREQ") && of_use != "IDLETIME" => {
                    of_use = "FREQ";
                    if !(0..=255).contains(&options.integer()?) {
                        let text = "ERR Invalid FREQ value, must be >= 0 and <= 255";
                        return Err(Stop::reply(text));
                    }
                }
                _ => return Err(Stop::syntax()),
            }
        }
        Ok(RestoreOptions {
            replaces,
            is_absolute,
        })
    }
}

pub(super) fn restore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let options = RestoreOptions::parse(&args[4..])?;
    let mut entry = txn.lookup(args[1])?;
    if entry.exists() && !options.replaces {
        return Err(Stop::reply("BUSYKEY Target key name already exists."));
    }
    let ttl = u64::try_from(integer(args[2])?)
        .map_err(|_| Stop::reply("ERR Invalid TTL value, must be >= 0"))?;
    let value = Value::decode(args[3]).map_err(|damage| {
        Stop::reply(match damage {
            Damage::Footer => "ERR DUMP payload version or checksum are wrong",
            _ => "ERR Bad data format",
        })
    })?;
    let expires = match ttl {
        0 => 0,
        at if options.is_absolute => at,
        ttl => txn.now.saturating_add(ttl),
    };
    replace(txn, &mut entry, &value, expires)?;
    Ok(Reply::OK)
}

/// Gives a key of the selected database another value, or removes it if that has expired.
pub(crate) fn replace(
    txn: &mut Txn<'_>,
    entry: &mut Entry,
    value: &Value,
    expires: u64,
) -> Answer<()> {
    if expires > 0 && expires <= txn.now {
        txn.del(entry)?;
        return Ok(());
    }
    let mut meta = put(txn, value)?;
    meta.expires = expires;
    if meta.is_collection() && meta.count == 0 && meta.kind != Kind::Stream {
        // All fields have expired since they were written.
        txn.remove(entry)?;
        return Ok(());
    }
    txn.store(entry, meta)?;
    txn.event(entry, b'g', "restore");
    txn.ready(entry);
    Ok(())
}

/// Writes the elements of a value. Returns the entry of the key that has it.
fn put(txn: &mut Txn<'_>, value: &Value) -> Answer<Meta> {
    let (db, kind, count) = match value {
        Value::String(text) => return Ok(Meta::string(text.clone(), 0)),
        Value::List(items) => (txn.db, Kind::List, items.len()),
        Value::Set(members) => (txn.db, Kind::Set, members.len()),
        Value::Hash(fields) => (txn.db, Kind::Hash, fields.len()),
        // Each that is put counts.
        Value::ExpiringHash(_) => (txn.db, Kind::Hash, 0),
        Value::SortedSet(_) => (txn.db, Kind::SortedSet, 0),
        Value::Stream(stream) => (txn.db, Kind::Stream, stream.items.len()),
    };
    let mut meta = txn.new_collection(kind)?;
    meta.count = count as u64;
    match value {
        Value::String(_) => {}
        Value::List(items) => {
            for (place, item) in (LIST_MIDDLE..).zip(items) {
                let key = [meta.version.to_be_bytes(), place.to_be_bytes()].concat();
                txn.put(db, Space::Ordered, &key, item)?;
            }
        }
        Value::Set(members) => {
            for member in members {
                let key = element_key(txn, meta.version, member);
                txn.put(db, Space::Elements, &key, b"")?;
            }
        }
        Value::Hash(fields) => {
            for (name, value) in fields {
                fields::put(txn, &mut meta, (name, 0), (value, 0))?;
            }
        }
        Value::ExpiringHash(fields) => {
            let now = txn.now;
            for (name, value, time) in fields.iter().filter(|it| it.2 == 0 || it.2 > now) {
                fields::put(txn, &mut meta, (name, 0), (value, *time))?;
                meta.count += 1;
            }
        }
        Value::SortedSet(members) => {
            for (member, score) in members {
                zsets::put(txn, &mut meta, member, (None, *score))?;
            }
        }
        Value::Stream(stream) => stream_values::put(txn, &mut meta, stream)?,
    }
    Ok(meta)
}
