//! Combinations of sorted sets, and of sets, whose members count with the score 1.

use std::collections::BTreeMap;

use super::Args;
use super::arguments::{Options, is};
use super::combine::{self, Combine, Weighted, add, each_of_all, narrow};
use super::sets::{counted_keys, limit_option};
use super::zset_range::store;
use super::zsets::{Scored, ordered, reply, weight};
use crate::resp::{Reply, element_bytes};
use crate::store::{Answer, Kind, Room, Stop, Txn};

/// The parsed arguments of a combination.
struct Combination<'a> {
    keys: Args<'a>,
    weights: Vec<f64>,
    aggregate: fn(f64, f64) -> f64,
    with_scores: bool,
}

impl<'a> Combination<'a> {
    /// The sums of scores.
    fn of(keys: Args<'a>) -> Combination<'a> {
        Combination {
            keys,
            weights: vec![1.0; keys.len()],
            aggregate: add,
            with_scores: false,
        }
    }

    fn parse(args: Args<'a>, at: usize, how: Combine, stores: bool) -> Answer<Combination<'a>> {
        let name = String::from_utf8_lossy(args[0]).to_lowercase();
        let number = crate::number::integer(args[at]).ok_or_else(Stop::not_an_integer)?;
        let (keys, rest) = match number {
            ..=0 => counted_keys(&[b"", b"0"], 1, &name)?,
            _ => counted_keys(args, at, &name)?,
        };
        let mut parsed = Combination::of(keys);
        let weighs = how != Combine::Difference;
        let mut options = Options::new(rest);
        while let Some(option) = options.next() {
            match option {
                _ if is(option, "WEIGHTS") && weighs => {
                    for slot in &mut parsed.weights {
                        *slot = weight(options.value()?)?;
                    }
                }
                _ if is(option, "AGGREGATE") && weighs => {
                    parsed.aggregate = match options.value()? {
                        it if is(it, "SUM") => add,
                        it if is(it, "MIN") => f64::min,
                        it if is(it, "MAX") => f64::max,
                        _ => return Err(Stop::syntax()),
                    };
                }
                _ if is(option, "WITHSCORES") && !stores => parsed.with_scores = true,
                _ => return Err(Stop::syntax()),
            }
        }
        Ok(parsed)
    }
}

/// The sets and sorted sets of a combination.
fn sets(txn: &mut Txn<'_>, it: &Combination<'_>, how: Combine) -> Answer<Vec<Weighted>> {
    let kinds = [Kind::SortedSet, Kind::Set];
    combine::sets(txn, (it.keys, &it.weights), how, &kinds)
}

/// The members of all sets, as long as there is room.
fn union(txn: &mut Txn<'_>, it: &Combination<'_>, mut room: Room) -> Answer<Vec<Scored>> {
    let sets = sets(txn, it, Combine::Union)?;
    let mut found: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    each_of_all(txn, &sets, |(name, score)| {
        match found.get_mut(&name) {
            Some(sum) => *sum = (it.aggregate)(*sum, score),
            None => {
                room.take(element_bytes(name.len()))?;
                found.insert(name, score);
            }
        }
        Ok(())
    })?;
    Ok(found.into_iter().collect())
}

/// The members of an intersection or difference, as long as there is room.
fn narrowed(
    txn: &mut Txn<'_>,
    it: &Combination<'_>,
    (how, mut room): (Combine, Room),
) -> Answer<Vec<Scored>> {
    let sets = sets(txn, it, how)?;
    let mut found = Vec::new();
    narrow(txn, &sets, (how, it.aggregate), |member| {
        room.take(element_bytes(member.0.len()))?;
        found.push(member);
        Ok(true)
    })?;
    Ok(found)
}

/// The members in the order of scores and names, as long as there is room.
fn combined(
    txn: &mut Txn<'_>,
    it: &Combination<'_>,
    (how, room): (Combine, Room),
) -> Answer<Vec<Scored>> {
    let mut found = match how {
        Combine::Union => union(txn, it, room)?,
        _ => narrowed(txn, it, (how, room))?,
    };
    // Both zeros are one score.
    let order = |it: &Scored| ordered(it.1);
    found.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.0.cmp(&b.0)));
    Ok(found)
}

fn find(txn: &mut Txn<'_>, args: Args<'_>, how: Combine) -> Answer<Reply> {
    let parsed = Combination::parse(args, 1, how, false)?;
    let room = txn.room;
    let found = combined(txn, &parsed, (how, room))?;
    Ok(reply(txn, found, parsed.with_scores))
}

fn find_and_store(
    txn: &mut Txn<'_>,
    args: Args<'_>,
    how: Combine,
    event: &'static str,
) -> Answer<Reply> {
    let parsed = Combination::parse(args, 2, how, true)?;
    let found = combined(txn, &parsed, (how, Room::OF_COMMIT))?;
    store(txn, args[1], &found, event)
}

pub(super) fn zunion(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, args, Combine::Union)
}

pub(super) fn zinter(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, args, Combine::Intersection)
}

pub(super) fn zdiff(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, args, Combine::Difference)
}

pub(super) fn zunionstore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find_and_store(txn, args, Combine::Union, "zunionstore")
}

pub(super) fn zinterstore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find_and_store(txn, args, Combine::Intersection, "zinterstore")
}

pub(super) fn zdiffstore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find_and_store(txn, args, Combine::Difference, "zdiffstore")
}

pub(super) fn zintercard(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (keys, rest) = counted_keys(args, 1, "zintercard")?;
    let limit = limit_option(rest)?;
    let parsed = Combination::of(keys);
    let sets = sets(txn, &parsed, Combine::Intersection)?;
    let mut count = 0;
    narrow(txn, &sets, (Combine::Intersection, add), |_| {
        count += 1;
        Ok(count < limit)
    })?;
    Ok(Reply::count(count))
}
