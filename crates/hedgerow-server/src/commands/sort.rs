//! SORT: the elements of a list, set or sorted set by value or by other keys.

use std::cmp::Ordering;

use super::arguments::{Options, is};
use super::{Args, hashes, lists, sets};
use crate::number;
use crate::resp::{Reply, element_bytes};
use crate::store::{
    Answer, First, Kind, LIST_MIDDLE, Meta, Room, Space, Stop, Txn, elements, skip,
};
use hedgerow::Slice;

/// A number, or a text if elements are sorted by texts.
type Weight = (f64, Option<Vec<u8>>);

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

    /// The elements that are left out in front, and the number of those that are wanted.
    fn part(&self) -> (usize, usize) {
        let (offset, count) = self.limit.unwrap_or((0, -1));
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        (usize::try_from(offset).unwrap_or(0), count)
    }

    /// The weight of an element.
    fn weight(&self, txn: &mut Txn<'_>, item: &[u8]) -> Answer<Weight> {
        let text = match self.by {
            _ if !self.sorts() => return Ok((0.0, None)),
            Some(by) => value_of(txn, by, item)?,
            None if self.by_text => None,
            None => Some(item.to_vec()),
        };
        if self.by_text {
            return Ok((0.0, text));
        }
        // An empty text counts as 0, as one that is not there.
        let text = text.filter(|it| !it.is_empty());
        let number = text.map_or(Some(0.0), |it| number::parse_float(&it));
        let not_a_number = || Stop::reply("ERR One or more scores can't be converted into double");
        // -0 is equal to 0.
        Ok((number.ok_or_else(not_a_number)? + 0.0, None))
    }

    /// Compares weights, and elements with equal ones.
    fn order(&self, a: &(Weight, Vec<u8>), b: &(Weight, Vec<u8>)) -> Ordering {
        let by_number = a.0.0.total_cmp(&b.0.0);
        let order = by_number.then_with(|| (&a.0.1, &a.1).cmp(&(&b.0.1, &b.1)));
        match self.descending {
            true => order.reverse(),
            false => order,
        }
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
    let room = options.target.map_or(txn.room, |_| Room::OF_COMMIT);
    let items = items(txn, args[1], &options, room)?;
    let found: Vec<Option<Vec<u8>>> = match options.gets.is_empty() {
        true => items.into_iter().map(Some).collect(),
        false => {
            let of_item = |item| options.gets.iter().map(move |pattern| (item, *pattern));
            let values = items
                .iter()
                .flat_map(of_item)
                .map(|(item, pattern)| match pattern {
                    b"#" => Ok(Some(item.clone())),
                    pattern => value_of(txn, pattern, item),
                });
            room.collect(values, |it| element_bytes(it.as_ref().map_or(0, Vec::len)))?
        }
    };
    match options.target {
        Some(target) => store(txn, target, found),
        None => Ok(Reply::Array(
            found.into_iter().map(Reply::bulk_or_null).collect(),
        )),
    }
}

/// The elements of the key that are wanted, in their order, as long as there is room.
fn items(
    txn: &mut Txn<'_>,
    key: &[u8],
    options: &SortOptions<'_>,
    room: Room,
) -> Answer<Vec<Vec<u8>>> {
    let entry = txn.lookup(key)?;
    let Some(meta) = entry.meta() else {
        return Ok(Vec::new());
    };
    let all = walk(txn, meta, !options.sorts() && options.descending)?;
    let (offset, count) = options.part();
    // The same members of a set are stored each time.
    let has_order = meta.kind != Kind::Set || options.target.is_none();
    if !options.sorts() && has_order {
        return room.collect(skip(all, offset).take(count), |it| element_bytes(it.len()));
    }
    let order = |a: &_, b: &_| options.order(a, b);
    let mut first = First::new(offset.saturating_add(count), room, order);
    for item in all {
        let item = item?;
        let weight = options.weight(txn, &item)?;
        let bytes = element_bytes(item.len() + weight.1.as_ref().map_or(0, Vec::len));
        first.push((weight, item), bytes)?;
    }
    let found = first.sorted()?.into_iter().skip(offset);
    Ok(found.map(|it| it.1).collect())
}

type Elements = Box<dyn Iterator<Item = Answer<Vec<u8>>>>;

/// The elements of a list, set or sorted set. Those of a set cannot be reversed.
fn walk(txn: &mut Txn<'_>, meta: &Meta, reversed: bool) -> Answer<Elements> {
    let (db, all) = (txn.db, elements(meta.version));
    let of_score = |item: Answer<(Slice, Slice)>| Ok(item?.0[16..].to_vec());
    Ok(match meta.kind {
        Kind::List => {
            let found = lists::walk(txn, meta, 0..meta.count)?;
            let found = found.map(|item| Ok(item?.to_vec()));
            match reversed {
                false => Box::new(found),
                true => Box::new(found.rev()),
            }
        }
        Kind::Set => Box::new(sets::walk(txn, meta)?),
        Kind::SortedSet => {
            let found = txn.scan(db, Space::Ordered, all, meta.count)?;
            match reversed {
                false => Box::new(found.map(of_score)),
                true => Box::new(found.rev().map(of_score)),
            }
        }
        Kind::String | Kind::Hash | Kind::Stream => return Err(Stop::wrong_type()),
    })
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
    // Nobody holds such keys.
    txn.pin();
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

#[cfg(test)]
mod tests {
    use crate::commands::world::World;

    #[test]
    fn orders_are_those_of_redis() {
        let world = World::new();
        for words in [
            "RPUSH l b a c",
            "MSET w_a 0 w_b -0 w_c -1",
            "SADD s a b c",
            "ZADD z 1 c 2 b 3 a",
            "RPUSH numbers 2  1",
        ] {
            world.run(words);
        }
        for (words, expected) in [
            ("SORT l BY w_*", "c a b"),
            ("SORT l BY w_* DESC LIMIT 0 2", "b a"),
            ("SORT l ALPHA LIMIT 1 9", "b c"),
            ("SORT l BY none LIMIT 1 1", "a"),
            ("SORT l BY none LIMIT 3 1", ""),
            ("SORT z BY none", "c b a"),
            ("SORT z BY none DESC LIMIT 0 1", "a"),
            ("SORT l BY none DESC", "c a b"),
            ("SORT l BY none DESC LIMIT 1 1", "a"),
            ("SORT numbers", " 1 2"),
        ] {
            assert_eq!(world.run(words), expected, "{words}");
        }
        for (words, expected) in [
            ("SORT s BY none STORE d", "a b c"),
            ("SORT s BY none DESC STORE d", "c b a"),
            ("SORT s BY none DESC LIMIT 1 1 STORE d", "b"),
            ("SORT l BY none DESC STORE d", "c a b"),
        ] {
            world.run(words);
            assert_eq!(world.run("LRANGE d 0 -1"), expected, "{words}");
        }
    }
}
