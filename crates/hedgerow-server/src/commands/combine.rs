//! Combinations of sets and sorted sets. A member of a set has the score 1.

use super::Args;
use super::hashes::{element_key, name_of};
use super::zsets::{Scored, score};
use crate::store::{Answer, Kind, Meta, Space, Stop, Txn, elements};
use hedgerow::Slice;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Combine {
    Intersection,
    Union,
    Difference,
}

/// A set, and what its scores are multiplied by. `None` has no members.
pub(super) type Weighted = (Option<Meta>, f64);

/// The sets of the keys, in the order in which Redis adds up scores, as sums of floating-point
/// numbers depend on it: the smallest first, but for a difference.
pub(super) fn sets(
    txn: &mut Txn<'_>,
    (keys, weights): (Args<'_>, &[f64]),
    how: Combine,
    kinds: &[Kind],
) -> Answer<Vec<Weighted>> {
    let found = txn.lookup_all(keys, |it| match it.meta() {
        Some(meta) if !kinds.contains(&meta.kind) => Err(Stop::wrong_type()),
        meta => Ok(meta.cloned()),
    })?;
    let mut sets: Vec<_> = found.into_iter().zip(weights.iter().copied()).collect();
    if how != Combine::Difference {
        sets.sort_by_key(|(meta, _)| meta.as_ref().map_or(0, |it| it.count));
    }
    Ok(sets)
}

/// The sum; infinities of both signs make 0.
pub(super) fn add(a: f64, b: f64) -> f64 {
    number(a + b)
}

/// A number, and 0 in place of what is none.
fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

fn score_in(meta: &Meta, stored: &[u8]) -> f64 {
    match meta.kind {
        Kind::SortedSet => score(stored),
        _ => 1.0,
    }
}

/// The members of a set, one after the other, with their weighted scores.
fn walk<'m>(
    txn: &mut Txn<'_>,
    (meta, weight): (&'m Meta, f64),
) -> Answer<impl Iterator<Item = Answer<Scored>> + use<'m>> {
    let db = txn.db;
    let all = txn.scan(db, Space::Elements, elements(meta.version), meta.count)?;
    Ok(all.map(move |item| {
        let (key, stored) = item?;
        let score = number(score_in(meta, &stored) * weight);
        Ok((name_of(&key).to_vec(), score))
    }))
}

/// Hands over the members of all sets. Those of several sets come several times.
pub(super) fn each_of_all(
    txn: &mut Txn<'_>,
    sets: &[Weighted],
    mut keep: impl FnMut(Scored) -> Answer<()>,
) -> Answer<()> {
    for (meta, weight) in sets {
        let Some(meta) = meta else { continue };
        for member in walk(txn, (meta, *weight))? {
            keep(member?)?;
        }
    }
    Ok(())
}

/// The members of the first set that are looked for in the others together. Each takes 64 KiB at
/// most.
const PART: usize = 128;

/// Hands over the members of an intersection or difference, until `keep` wants no more. Those of
/// the first set are looked for in the others, part by part.
pub(super) fn narrow(
    txn: &mut Txn<'_>,
    sets: &[Weighted],
    (how, aggregate): (Combine, fn(f64, f64) -> f64),
    mut keep: impl FnMut(Scored) -> Answer<bool>,
) -> Answer<()> {
    let Some(((Some(first), weight), others)) = sets.split_first() else {
        return Ok(());
    };
    let mut members = walk(txn, (first, *weight))?;
    loop {
        let part = members.by_ref().take(PART);
        let mut part = part.collect::<Answer<Vec<_>>>()?;
        if part.is_empty() {
            return Ok(());
        }
        for (meta, weight) in others {
            let found = match meta {
                Some(meta) => scores(txn, meta, &part)?,
                None => vec![None; part.len()],
            };
            let both = found.into_iter().zip(part);
            let left = both.filter_map(|(other, (name, sum))| match (how, other) {
                (Combine::Difference, None) => Some((name, sum)),
                (Combine::Difference, Some(_)) | (_, None) => None,
                (_, Some(other)) => Some((name, aggregate(sum, other * weight))),
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
