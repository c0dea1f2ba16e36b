//! SORT: the elements of a list, set or sorted set by value or by other keys.

use super::Args;
use super::arguments::{Options, is};
use super::hashes::{self, name_of};
use super::lists::range;
use crate::number;
use crate::resp::Reply;
use crate::store::{Answer, Kind, LIST_MIDDLE, Meta, Space, Stop, Txn, elements};

struct SortOptions<'a> {
    by: Option<&'a [u8]>,
    limit: Option<(i64, i64)>,
    gets: Vec<&'a [u8]>,
    descending: bool,
    by_text: bool,
    target: Option<&'a [u8]>,
}

impl<'a> SortOptions<'a> {
    fn parse(rest: Args<'a>, may_store: bool) -> Answer<SortOptions<'a>> {
        let mut parsed = SortOptions {
            by: None,
            limit: None,
            gets: Vec::new(),
            descending: false,
            by_text: false,
            target: None,
        };
        let mut options = Options::new(rest);
        while let Some(option) = options.next() {
            match option {
                _ if is(option, "ASC") => parsed.descending = false,
                _ if is(option, "DESC") => parsed.descending = true,
                _ if is(option, "ALPHA") => parsed.by_text = true,
                _ if is(option, "LIMIT") => {
                    parsed.limit = Some((options.integer()?, options.integer()?));
                }
                _ if is(option, "BY") => parsed.by = Some(options.value()?),
                _ if is(option, "GET") => parsed.gets.push(options.value()?),
                _ if is(option, "STORE") && may_store => parsed.target = Some(options.value()?),
                _ => return Err(Stop::syntax()),
            }
        }
        Ok(parsed)
    }

    /// Without a place for the element, BY names no key and nothing is sorted.
    fn sorts(&self) -> bool {
        self.by.is_none_or(|by| by.contains(&b'*'))
    }

    /// BY and GET read keys that are not named, so the user must be allowed to read all.
    fn check(&self, txn: &Txn<'_>, command: &str) -> Answer<()> {
        let reads_all = || {
            txn.rules
                .as_ref()
                .is_none_or(|it| it.reads_all_keys(command))
        };
        let has_gets = self.gets.iter().any(|it| *it != b"#");
        let option = match (self.by.is_some() && self.sorts(), has_gets) {
            (true, _) => "BY",
            (_, true) => "GET",
            _ => return Ok(()),
        };
        if reads_all() {
            return Ok(());
        }
        Err(Stop::reply(format!(
            "ERR {option} option of SORT denied due to insufficient ACL permissions."
        )))
    }

    fn cut<T>(&self, items: &mut Vec<T>) {
        let Some((offset, count)) = self.limit else {
            return;
        };
        let offset = usize::try_from(offset).unwrap_or(0).min(items.len());
        items.drain(..offset);
        items.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    }
}

pub(super) fn sort(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    run(txn, args, true)
}

pub(super) fn sort_ro(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    run(txn, args, false)
}

fn run(txn: &mut Txn<'_>, args: Args<'_>, may_store: bool) -> Answer<Reply> {
    let options = SortOptions::parse(&args[2..], may_store)?;
    options.check(txn, if may_store { "sort" } else { "sort_ro" })?;
    let mut items = items(txn, args[1], &options)?;
    if options.sorts() {
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let weight = match options.by {
                Some(by) => value_of(txn, by, &item)?,
                None => Some(item.clone()),
            };
            keyed.push((weight, item));
        }
        items = ordered(keyed, &options)?;
    }
    options.cut(&mut items);
    let mut found: Vec<Option<Vec<u8>>> = Vec::new();
    for item in items {
        for pattern in &options.gets {
            let value = match *pattern {
                b"#" => Some(item.clone()),
                pattern => value_of(txn, pattern, &item)?,
            };
            found.push(value);
        }
        if options.gets.is_empty() {
            found.push(Some(item));
        }
    }
    match options.target {
        Some(target) => store(txn, target, found),
        None => Ok(Reply::Array(
            found.into_iter().map(Reply::bulk_or_null).collect(),
        )),
    }
}

/// The elements of the key.
fn items(txn: &mut Txn<'_>, key: &[u8], options: &SortOptions<'_>) -> Answer<Vec<Vec<u8>>> {
    let entry = txn.lookup(key)?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(Vec::new());
    };
    let (db, all) = (txn.db, elements(meta.version));
    match meta.kind {
        Kind::List => {
            let found = range(txn, &meta, 0..=meta.count - 1)?;
            Ok(found.iter().map(|it| it.to_vec()).collect())
        }
        Kind::Set => {
            let found = txn.scan(db, Space::Elements, all, meta.count)?;
            let names = found.map(|item| Ok(name_of(&item?.0).to_vec()));
            let mut names = names.collect::<Answer<Vec<_>>>()?;
            if !options.sorts() && options.target.is_some() {
                // The same is stored each time.
                names.sort();
            }
            Ok(names)
        }
        Kind::SortedSet => {
            let found = txn.scan(db, Space::Ordered, all, meta.count)?;
            let names = found.map(|item| Ok(item?.0[16..].to_vec()));
            let mut names = names.collect::<Answer<Vec<_>>>()?;
            if !options.sorts() && options.descending {
                names.reverse();
            }
            Ok(names)
        }
        Kind::String | Kind::Hash | Kind::Stream => Err(Stop::wrong_type()),
    }
}

/// The value of the key, or of the field behind `->`, that a pattern names for an element.
fn value_of(txn: &mut Txn<'_>, pattern: &[u8], item: &[u8]) -> Answer<Option<Vec<u8>>> {
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else {
        return Ok(None);
    };
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind
        .windows(2)
        .position(|it| it == b"->")
        .filter(|at| at + 2 < behind.len());
    let (behind, field) = match arrow {
        Some(at) => (&behind[..at], Some(&behind[at + 2..])),
        None => (behind, None),
    };
    let entry = txn.lookup(&[before, item, behind].concat())?;
    let Some(meta) = entry.meta() else {
        return Ok(None);
    };
    match (meta.kind, field) {
        (Kind::String, None) => Ok(Some(meta.value.bytes().to_vec())),
        (Kind::Hash, Some(field)) => {
            let found = hashes::field(txn, meta, field)?;
            Ok(found.map(|it| it.value().to_vec()))
        }
        _ => Ok(None),
    }
}

/// Sorts by weights, and equal weights by the elements.
fn ordered(
    mut keyed: Vec<(Option<Vec<u8>>, Vec<u8>)>,
    options: &SortOptions<'_>,
) -> Answer<Vec<Vec<u8>>> {
    if options.by_text {
        keyed.sort();
    } else {
        let not_a_number = || Stop::reply("ERR One or more scores can't be converted into double");
        let weight = |text: &Option<Vec<u8>>| match text {
            None => Ok(0.0),
            Some(text) => number::parse_float(text).ok_or_else(not_a_number),
        };
        let mut weighted = Vec::with_capacity(keyed.len());
        for (text, item) in keyed {
            weighted.push((weight(&text)?, item));
        }
        weighted.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        keyed = weighted.into_iter().map(|(_, item)| (None, item)).collect();
    }
    if options.descending {
        keyed.reverse();
    }
    Ok(keyed.into_iter().map(|(_, item)| item).collect())
}

fn store(txn: &mut Txn<'_>, key: &[u8], found: Vec<Option<Vec<u8>>>) -> Answer<Reply> {
    let mut target = txn.lookup(key)?;
    if found.is_empty() {
        txn.del(&mut target)?;
        return Ok(Reply::Integer(0));
    }
    let mut meta: Meta = txn.new_collection(Kind::List)?;
    meta.count = found.len() as u64;
    let db = txn.db;
    for (index, value) in found.iter().enumerate() {
        let place = (LIST_MIDDLE + index as u64).to_be_bytes();
        let key = [meta.version.to_be_bytes(), place].concat();
        txn.put(
            db,
            Space::Ordered,
            &key,
            value.as_deref().unwrap_or_default(),
        )?;
    }
    txn.store(&mut target, meta)?;
    txn.event(&target, b'l', "sortstore");
    txn.ready(&target);
    Ok(Reply::count(found.len()))
}
