//! Combinations of sorted sets, and of sets, whose members count with the score 1.

use std::collections::BTreeMap;

use super::Args;
use super::arguments::{Options, is};
use super::hashes::name_of;
use super::sets::{counted_keys, limit_option};
use super::zset_range::store;
use super::zsets::{Scored, reply, score, weight};
use crate::resp::Reply;
use crate::store::{Answer, Kind, Space, Stop, Txn, elements};

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
    let sum = a + b;
    if sum.is_nan() { 0.0 } else { sum }
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

/// The members of a set or sorted set.
fn members(txn: &mut Txn<'_>, key: &[u8]) -> Answer<BTreeMap<Vec<u8>, f64>> {
    let entry = txn.lookup(key)?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(BTreeMap::new());
    };
    let is_sorted = meta.kind == Kind::SortedSet;
    if !is_sorted && meta.kind != Kind::Set {
        return Err(Stop::wrong_type());
    }
    let db = txn.db;
    let all = txn.scan(db, Space::Elements, elements(meta.version), meta.count)?;
    let scored = |item: Answer<(hedgerow::Slice, hedgerow::Slice)>| {
        let (key, value) = item?;
        let score = if is_sorted { score(&value) } else { 1.0 };
        Ok((name_of(&key).to_vec(), score))
    };
    all.map(scored).collect()
}

/// The members in the order of scores and names.
fn combine(txn: &mut Txn<'_>, it: &Combination<'_>, how: Combine) -> Answer<Vec<Scored>> {
    txn.lookup_all(it.keys)?;
    let sets = it.keys.iter().map(|key| members(txn, key));
    let sets = sets.collect::<Answer<Vec<_>>>()?;
    let weighted = |index: usize, score: f64| {
        let score = score * it.weights[index];
        if score.is_nan() { 0.0 } else { score }
    };
    let mut found: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
    for (index, set) in sets.iter().enumerate() {
        if index == 0 {
            found.extend(
                set.iter()
                    .map(|(name, score)| (name.clone(), weighted(0, *score))),
            );
            continue;
        }
        match how {
            Combine::Difference => found.retain(|name, _| !set.contains_key(name)),
            Combine::Intersection => found.retain(|name, score| match set.get(name) {
                Some(other) => {
                    *score = (it.aggregate)(*score, weighted(index, *other));
                    true
                }
                None => false,
            }),
            Combine::Union => {
                for (name, other) in set {
                    let other = weighted(index, *other);
                    let both = |score: &mut f64| *score = (it.aggregate)(*score, other);
                    found.entry(name.clone()).and_modify(both).or_insert(other);
                }
            }
        }
    }
    let mut scored: Vec<Scored> = found.into_iter().collect();
    scored.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    Ok(scored)
}

fn find(txn: &mut Txn<'_>, args: Args<'_>, how: Combine) -> Answer<Reply> {
    let parsed = Combination::parse(args, 1, how, false)?;
    let found = combine(txn, &parsed, how)?;
    Ok(reply(txn, found, parsed.with_scores))
}

fn find_and_store(
    txn: &mut Txn<'_>,
    args: Args<'_>,
    how: Combine,
    event: &'static str,
) -> Answer<Reply> {
    let parsed = Combination::parse(args, 2, how, true)?;
    let found = combine(txn, &parsed, how)?;
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
    let found = combine(txn, &parsed, Combine::Intersection)?;
    Ok(Reply::count(found.len().min(limit)))
}
