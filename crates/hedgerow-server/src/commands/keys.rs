//! Keys, whatever they hold.

use super::arguments::{Options, is};
use super::status::is_without_effect;
use super::{Args, refusal};
use crate::number;
use crate::resp::Reply;
use crate::store::{Answer, DATABASES, Entry, Kind, Meta, Space, Stop, Txn, elements};

pub(super) fn del(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    if args.len() > 2 {
        txn.prefetch(&args[1..])?;
    }
    let mut removed = 0;
    for key in &args[1..] {
        // A key may be there twice.
        let mut entry = txn.lookup(key)?;
        removed += i64::from(txn.del(&mut entry)?);
    }
    Ok(Reply::Integer(removed))
}

pub(super) fn exists(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let found = txn.lookup_all(&args[1..], |it| Ok(it.exists()))?;
    Ok(Reply::count(found.iter().filter(|it| **it).count()))
}

pub(super) fn kind(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let entry = txn.lookup(args[1])?;
    Ok(Reply::Status(
        entry.meta().map_or("none", |meta| meta.kind.name()),
    ))
}

pub(super) fn rename(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    rename_to(txn, args, true)?;
    Ok(Reply::OK)
}

pub(super) fn renamenx(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let renamed = rename_to(txn, args, false)?;
    Ok(Reply::Integer(i64::from(renamed)))
}

/// Gives the elements to another key: constant time.
fn rename_to(txn: &mut Txn<'_>, args: Args<'_>, replaces: bool) -> Answer<bool> {
    txn.prefetch(&args[1..])?;
    let mut from = txn.lookup(args[1])?;
    if !from.exists() {
        return Err(Stop::reply("ERR no such key"));
    }
    let mut to = txn.lookup(args[2])?;
    if to.exists() && !replaces {
        return Ok(false);
    }
    if args[1] == args[2] {
        return Ok(true);
    }
    let Some(meta) = txn.detach(&mut from)? else {
        return Ok(false);
    };
    store_anew(txn, &mut to, meta)?;
    txn.event(&from, b'g', "rename_from");
    txn.event(&to, b'g', "rename_to");
    txn.ready(&to);
    Ok(true)
}

/// Stores the entry of a key that is a new one for those who listen, also if it was there.
fn store_anew(txn: &mut Txn<'_>, to: &mut Entry, meta: Meta) -> Answer<()> {
    if to.exists() {
        txn.event(to, b'n', "new");
    }
    txn.store(to, meta)
}

fn database(argument: &[u8]) -> Answer<usize> {
    let number = number::integer(argument).ok_or_else(Stop::not_an_integer)?;
    let within = usize::try_from(number).ok().filter(|it| *it < DATABASES);
    within.ok_or_else(|| Stop::reply("ERR DB index is out of range"))
}

pub(super) fn copy(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (mut target_db, mut replaces) = (txn.db, false);
    let mut options = Options::new(&args[3..]);
    while let Some(option) = options.next() {
        match option {
            _ if is(option, "REPLACE") => replaces = true,
            _ if is(option, "DB") => target_db = database(options.value()?)?,
            _ => return Err(Stop::syntax()),
        }
    }
    if target_db == txn.db && args[1] == args[2] {
        return Err(Stop::reply(
            "ERR source and destination objects are the same",
        ));
    }
    let from = txn.lookup(args[1])?;
    let mut to = txn.lookup_in(target_db, args[2])?;
    if !from.exists() || to.exists() && !replaces {
        return Ok(Reply::Integer(0));
    }
    copy_to(txn, &from, &mut to)?;
    txn.event(&to, b'g', "copy_to");
    Ok(Reply::Integer(1))
}

/// Copies what a key holds; the time is that of writing all elements.
fn copy_to(txn: &mut Txn<'_>, from: &Entry, to: &mut Entry) -> Answer<()> {
    let Some(meta) = from.meta().cloned() else {
        return Ok(());
    };
    if !meta.is_collection() {
        return store_anew(txn, to, meta);
    }
    let new = Meta {
        version: txn.new_collection(meta.kind)?.version,
        ..meta.clone()
    };
    let spaces: &[Space] = match meta.kind {
        Kind::Hash if meta.expiring.count > 0 => &[Space::Elements, Space::Ordered],
        Kind::Hash | Kind::Set | Kind::String => &[Space::Elements],
        Kind::List => &[Space::Ordered],
        Kind::SortedSet | Kind::Stream => &[Space::Elements, Space::Ordered],
    };
    for space in spaces {
        let all = elements(meta.version);
        for item in txn.scan(from.db, *space, all, meta.count)? {
            let (key, value) = item?;
            let key = [&new.version.to_be_bytes(), &key[8..]].concat();
            txn.put(to.db, *space, &key, &value)?;
        }
    }
    store_anew(txn, to, new)?;
    txn.ready(to);
    Ok(())
}

/// Moves a key to another database; elements are copied.
pub(super) fn move_key(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let target_db = database(args[2])?;
    if target_db == txn.db {
        return Err(Stop::reply(
            "ERR source and destination objects are the same",
        ));
    }
    let mut from = txn.lookup(args[1])?;
    let mut to = txn.lookup_in(target_db, args[1])?;
    if !from.exists() || to.exists() {
        return Ok(Reply::Integer(0));
    }
    copy_to(txn, &from, &mut to)?;
    txn.event(&from, b'g', "move_from");
    txn.event(&to, b'g', "move_to");
    txn.remove(&mut from)?;
    Ok(Reply::Integer(1))
}

/// SELECT inside of a transaction, and of a connection.
pub(super) fn select(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    txn.db = database(args[1])?;
    Ok(Reply::OK)
}

pub(super) fn object(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    if is(args[1], "HELP") {
        return Ok(Reply::bulks([
            "OBJECT ENCODING|FREQ|IDLETIME|REFCOUNT <key>. Tells about the value of a key.",
        ]));
    }
    let known = ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"];
    if !known.iter().any(|it| is(args[1], it)) || args.len() != 3 {
        return Err(Stop::reply(super::wrong_subcommand(args)));
    }
    let entry = txn.lookup(args[2])?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Null);
    };
    if let Some(Reply::Error(text)) = refusal("object", args[1]) {
        return Err(Stop::reply(text));
    }
    Ok(match args[1] {
        it if is(it, "ENCODING") => Reply::bulk(encoding(meta)),
        it if is(it, "REFCOUNT") => Reply::Integer(1),
        _ => Reply::Integer(0),
    })
}

/// The encoding that Redis would have chosen by the size; there is one encoding here.
fn encoding(meta: &Meta) -> &'static str {
    const SMALL: u64 = 128;
    match meta.kind {
        Kind::String if number::integer(meta.value.bytes()).is_some() => "int",
        Kind::String if meta.value.bytes().len() <= 44 => "embstr",
        Kind::String => "raw",
        Kind::Stream => "stream",
        Kind::List if meta.count <= SMALL => "listpack",
        Kind::List => "quicklist",
        Kind::SortedSet if meta.count > SMALL => "skiplist",
        Kind::Hash | Kind::Set if meta.count > SMALL => "hashtable",
        Kind::Hash if meta.expiring.count > 0 => "listpackex",
        _ => "listpack",
    }
}

/// The bytes on disk, about: those of the entry and, for a collection, 64 for each element.
pub(super) fn memory(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    if is(args[1], "DOCTOR") && args.len() == 2 {
        return Ok(Reply::Text(
            "The memory budget of the engine bounds all memory but that of buffers for clients."
                .to_owned(),
        ));
    }
    if is(args[1], "STATS") && args.len() == 2 {
        let db = txn.db;
        let count = Reply::Integer(txn.size(db)?);
        return Ok(Reply::Map(vec![(Reply::bulk("keys.count"), count)]));
    }
    if is(args[1], "MALLOC-STATS") && args.len() == 2 {
        let of_engine = txn.databases().db().stats().memory;
        return Ok(Reply::Text(format!("{of_engine:#?}")));
    }
    if is_without_effect("memory", args[1]) && args.len() == 2 {
        return Ok(Reply::OK);
    }
    if is(args[1], "HELP") {
        return Ok(Reply::bulks([
            "MEMORY DOCTOR|MALLOC-STATS|PURGE|STATS|USAGE <key>. Tells about memory.",
        ]));
    }
    if !is(args[1], "USAGE") || args.len() < 3 {
        return Err(Stop::reply(super::wrong_subcommand(args)));
    }
    // SAMPLES changes nothing: the number of elements is known.
    let has_options = match &args[3..] {
        [] => true,
        [samples, count] => {
            is(samples, "SAMPLES") && number::integer(count).is_some_and(|it| it >= 0)
        }
        _ => false,
    };
    if !has_options {
        return Err(Stop::syntax());
    }
    let entry = txn.lookup(args[2])?;
    Ok(entry.meta().map_or(Reply::Null, |meta| {
        let value = meta.value.bytes().len() as u64;
        Reply::Integer((32 + args[2].len() as u64 + value + 64 * meta.count) as i64)
    }))
}

/// Removes keys that have expired; the arguments are their names.
pub(crate) fn expire_due(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    for key in args {
        let mut entry = txn.lookup(key)?;
        // It may have got another time meanwhile.
        if !entry.exists() {
            txn.remove(&mut entry)?;
        }
    }
    Ok(Reply::OK)
}
