//! Combinations of sorted sets, and of sets, whose members count with the score 1.

use std::collections::BTreeMap;

use super::Args;
use super::arguments::{Options, is};
use super::hashes::{element_key, name_of};
use super::sets::{PART, counted_keys, limit_option};
use super::zset_range::store;
use super::zsets::{Scored, reply, score, weight};
use crate::resp::{Reply, bulk_bytes};
use crate::store::{Answer, Kind, Meta, Room, Space, Stop, Txn, elements};
use hedgerow::Slice;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Combine {
    Union,
    Intersection,
    Difference,
}

/// The parsed arguments of a combination.
struct Combination<'a> {
    keys: Args<'a>,
    weights: Vec<f64>,
    aggregate: fn(f64, f64) -> f64,
    with_scores: bool,
}

/// The sum; infinities of both signs make 0.
fn add(a: f64, b: f64) -> f64 {
    number(a + b)
}

impl<'a> Combination<'a> {
    fn parse(args: Args<'a>, at: usize, how: Combine, stores: bool) -> Answer<Combination<'a>> {
        let name = String::from_utf8_lossy(args[0]).to_lowercase();
        let number = crate::number::integer(args[at]).ok_or_else(Stop::not_an_integer)?;
        let (keys, rest) = match number {
            ..=0 => counted_keys(&[b"", b"0"], 1, &name)?,
            _ => counted_keys(args, at, &name)?,
        };
        let mut parsed = Combination {
            keys,
            weights: vec![1.0; keys.len()],
            aggregate: add,
            with_scores: false,
        };
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

/// A number, and 0 in place of what is none.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// The sets and sorted sets of the keys, with their places among them. They are in the order in
/// which Redis adds up scores, as sums of floating-point numbers depend on it: the smallest first,
/// but for a difference.
fn sets(txn: &mut Txn<'_>, keys: Args<'_>, how: Combine) -> Answer<Vec<(usize, Option<Meta>)>> {
    let found = txn.lookup_all(keys, |it| match it.meta() {
        Some(meta) if !matches!(meta.kind, Kind::SortedSet | Kind::Set) => Err(Stop::wrong_type()),
        meta => Ok(meta.cloned()),
    })?;
    let mut sets: Vec<_> = found.into_iter().enumerate().collect();
    if how != Combine::Difference {
        sets.sort_by_key(|(_, meta)| meta.as_ref().map_or(0, |it| it.count));
    }
    Ok(sets)
}

fn score_in(meta: &Meta, stored: &[u8]) -> f64 {
    match meta.kind {
        Kind::SortedSet => score(stored),
        _ => 1.0,
    }
}

/// The members of a set or sorted set, one after the other.
fn walk<'m>(
    txn: &mut Txn<'_>,
    meta: &'m Meta,
) -> Answer<impl Iterator<Item = Answer<Scored>> + use<'m>> {
    let db = txn.db;
    let all = txn.scan(db, Space::Elements, elements(meta.version), meta.count)?;
    Ok(all.map(move |item| {
        let (key, stored) = item?;
        Ok((name_of(&key).to_vec(), score_in(meta, &stored)))
    }))
}

/// The scores that a set has for members.
fn scores(txn: &mut Txn<'_>, meta: &Meta, members: &[Scored]) -> Answer<Vec<Option<f64>>> {
    let keys: Vec<_> = members
        .iter()
        .map(|(name, _)| element_key(txn, meta.version, name))
        .collect();
    let db = txn.db;
    let score = |found: Option<Slice>| Ok(found.map(|it| score_in(meta, &it)));
    txn.get_all((db, Space::Elements), &keys, score)
}

/// The members of all sets, as long as there is room.
fn union(txn: &mut Txn<'_>, it: &Combination<'_>, mut room: Room) -> Answer<Vec<Scored>> {
    let mut found: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    for (index, meta) in sets(txn, it.keys, Combine::Union)? {
        let Some(meta) = meta else { continue };
        for member in walk(txn, &meta)? {
            let (name, score) = member?;
            let score = number(score * it.weights[index]);
            match found.get_mut(&name) {
                Some(sum) => *sum = (it.aggregate)(*sum, score),
                None => {
                    room.take(bulk_bytes(name.len()))?;
                    found.insert(name, score);
                }
            }
        }
    }
    Ok(found.into_iter().collect())
}

/// Hands over the members of an intersection or difference, until `keep` wants no more. Those of
/// one set are looked for in the others, part by part.
fn narrow(
    txn: &mut Txn<'_>,
    it: &Combination<'_>,
    how: Combine,
    mut keep: impl FnMut(Scored) -> Answer<bool>,
) -> Answer<()> {
    let sets = sets(txn, it.keys, how)?;
    let Some(((first, Some(meta)), others)) = sets.split_first() else {
        return Ok(());
    };
    let weight = it.weights[*first];
    let mut members = walk(txn, meta)?.map(|member| {
        let (name, score) = member?;
        Ok((name, number(score * weight)))
    });
    loop {
        let part = members.by_ref().take(PART);
        let mut part = part.collect::<Answer<Vec<_>>>()?;
        if part.is_empty() {
            return Ok(());
        }
        for (index, meta) in others {
            let Some(meta) = meta else { continue };
            let both = scores(txn, meta, &part)?.into_iter().zip(part);
            let left = both.filter_map(|(other, (name, sum))| match (how, other) {
                (Combine::Difference, None) => Some((name, sum)),
                (Combine::Difference, Some(_)) | (_, None) => None,
                (_, Some(other)) => Some((name, (it.aggregate)(sum, other * it.weights[*index]))),
            });
            part = left.collect();
        }
        for member in part {
            if !keep(member)? {
                return Ok(());
            }
        }
    }
}

/// The members in the order of scores and names, as long as there is room.
fn combine(
    txn: &mut Txn<'_>,
    it: &Combination<'_>,
    (how, room): (Combine, Room),
) -> Answer<Vec<Scored>> {
    let mut found = match how {
        Combine::Union => union(txn, it, room)?,
        _ => {
            let (mut kept, mut room) = (Vec::new(), room);
            narrow(txn, it, how, |member| {
                room.take(bulk_bytes(member.0.len()))?;
                kept.push(member);
                Ok(true)
            })?;
            kept
        }
    };
    found.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    Ok(found)
}

fn find(txn: &mut Txn<'_>, args: Args<'_>, how: Combine) -> Answer<Reply> {
    let parsed = Combination::parse(args, 1, how, false)?;
    let room = txn.room;
    let found = combine(txn, &parsed, (how, room))?;
    Ok(reply(txn, found, parsed.with_scores))
}

fn find_and_store(
    txn: &mut Txn<'_>,
    args: Args<'_>,
    how: Combine,
    event: &'static str,
) -> Answer<Reply> {
    let parsed = Combination::parse(args, 2, how, true)?;
    let found = combine(txn, &parsed, (how, Room::OF_COMMIT))?;
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
    let parsed = Combination {
        keys,
        weights: vec![1.0; keys.len()],
        aggregate: add,
        with_scores: false,
    };
    let mut count = 0;
    narrow(txn, &parsed, Combine::Intersection, |_| {
        count += 1;
        Ok(count < limit)
    })?;
    Ok(Reply::count(count))
}
