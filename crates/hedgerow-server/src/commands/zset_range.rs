//! Ranges of sorted sets: by rank, by score, by name.

use super::Args;
use super::arguments::{Options, integer, is, slice};
use super::zsets::{Scored, ordered, put, remove_range, reply, score_key, scored, zset};
use crate::number;
use crate::resp::{Reply, element_bytes};
use crate::store::{Answer, Kind, Meta, Room, Scores, Space, Stop, Txn, skip};

/// A bound of names.
#[derive(Debug, Clone)]
enum Name {
    First,
    Last,
    At { name: Vec<u8>, is_included: bool },
}

impl Name {
    /// Returns true if a name is in the range that begins here.
    fn is_below(&self, name: &[u8]) -> bool {
        match self {
            Name::First => true,
            Name::Last => false,
            Name::At {
                name: bound,
                is_included,
            } => name > &bound[..] || *is_included && name == bound,
        }
    }

    /// Returns true if a name is in the range that ends here.
    fn is_above(&self, name: &[u8]) -> bool {
        match self {
            Name::First => false,
            Name::Last => true,
            Name::At {
                name: bound,
                is_included,
            } => name < &bound[..] || *is_included && name == bound,
        }
    }
}

#[derive(Debug, Clone)]
enum By {
    Rank(i64, i64),
    /// Scores as they are ordered; the end is excluded.
    Score(u64, u64),
    Name(Name, Name),
}

/// A range of members, and the part of it that is wanted.
#[derive(Debug, Clone)]
pub(super) struct Range {
    by: By,
    reversed: bool,
    offset: usize,
    limit: usize,
    /// The room for the members.
    room: Room,
}

impl Range {
    /// The first or last members.
    pub(super) fn first(count: usize, reversed: bool, room: Room) -> Range {
        Range {
            room,
            ..Range::new(By::Rank(0, count as i64 - 1), reversed)
        }
    }

    fn new(by: By, reversed: bool) -> Range {
        Range {
            by,
            reversed,
            offset: 0,
            limit: usize::MAX,
            room: Room::OF_COMMIT,
        }
    }

    /// The members with scores from `from` on, below `to`.
    pub(super) fn of_scores(from: f64, to: f64) -> Range {
        Range::new(By::Score(ordered(from), ordered(to)), false)
    }

    pub(super) fn removal_event(&self) -> &'static str {
        match self.by {
            By::Rank(..) => "zremrangebyrank",
            By::Score(..) => "zremrangebyscore",
            By::Name(..) => "zremrangebylex",
        }
    }

    fn ranks(start: &[u8], stop: &[u8]) -> Answer<By> {
        Ok(By::Rank(integer(start)?, integer(stop)?))
    }

    fn scores(min: &[u8], max: &[u8]) -> Answer<By> {
        let bound = |argument: &[u8]| {
            let (number, is_excluded) = match argument.strip_prefix(b"(") {
                Some(number) => (number, true),
                None => (argument, false),
            };
            let wrong = || Stop::reply("ERR min or max is not a float");
            // A bound may be out of the range of scores.
            let score = number::parse_any_float(number).ok_or_else(wrong)?;
            Ok::<_, Stop>((ordered(score), is_excluded))
        };
        let ((from, is_from_excluded), (to, is_to_excluded)) = (bound(min)?, bound(max)?);
        Ok(By::Score(
            from + u64::from(is_from_excluded),
            to + u64::from(!is_to_excluded),
        ))
    }

    fn names(min: &[u8], max: &[u8]) -> Answer<By> {
        let bound = |argument: &[u8]| match argument {
            b"-" => Ok(Name::First),
            b"+" => Ok(Name::Last),
            [b'(', name @ ..] => Ok(Name::At {
                name: name.to_vec(),
                is_included: false,
            }),
            [b'[', name @ ..] => Ok(Name::At {
                name: name.to_vec(),
                is_included: true,
            }),
            _ => Err(Stop::reply("ERR min or max not valid string range item")),
        };
        Ok(By::Name(bound(min)?, bound(max)?))
    }
}

/// The keys of a range in the order of scores.
fn bounds(txn: &mut Txn<'_>, meta: &Meta, by: &By) -> Answer<std::ops::Range<Vec<u8>>> {
    let Scores { first, last } = meta.scores;
    let all = score_key(meta, first)..score_key(meta, last + 1);
    match by {
        By::Rank(..) => Ok(all),
        By::Score(from, to) => {
            let key = |score| score_key(meta, score);
            Ok(key(first.max(*from))..key((last + 1).min(*to)))
        }
        By::Name(min, max) => {
            // All members should have one score, that of the first; else each is compared.
            let db = txn.db;
            let first = txn
                .scan(db, Space::Ordered, all.clone(), 1)?
                .next()
                .transpose()?;
            let last = txn
                .scan(db, Space::Ordered, all.clone(), 1)?
                .next_back()
                .transpose()?;
            let (Some((first, _)), Some((last, _))) = (first, last) else {
                return Ok(all);
            };
            if first[..16] != last[..16] {
                return Ok(all);
            }
            let key = |name: &[u8]| [&first[..16], name].concat();
            let successor = |name: &[u8]| [&first[..16], name, &[0]].concat();
            let from = match min {
                Name::First => all.start,
                Name::Last => all.end.clone(),
                Name::At {
                    name,
                    is_included: true,
                } => key(name),
                Name::At { name, .. } => successor(name),
            };
            let to = match max {
                Name::First => from.clone(),
                Name::Last => all.end,
                Name::At {
                    name,
                    is_included: true,
                } => successor(name),
                Name::At { name, .. } => key(name),
            };
            Ok(from..to)
        }
    }
}

/// The members of a range in its direction, as long as there is room.
pub(super) fn in_order(txn: &mut Txn<'_>, meta: &Meta, range: &Range) -> Answer<Vec<Scored>> {
    let found = walk(txn, meta, range)?;
    let bytes = |(member, _): &Scored| element_bytes(member.len());
    range.room.collect(found, bytes)
}

/// The members of a range in its direction, one after the other.
pub(super) fn walk<'r>(
    txn: &mut Txn<'_>,
    meta: &Meta,
    range: &'r Range,
) -> Answer<Box<dyn Iterator<Item = Answer<Scored>> + 'r>> {
    let (mut offset, mut limit) = (range.offset, range.limit);
    if let By::Rank(start, stop) = range.by {
        let Some(ranks) = slice(start, stop, meta.count) else {
            return Ok(Box::new(std::iter::empty()));
        };
        (offset, limit) = (
            *ranks.start() as usize,
            (ranks.end() - ranks.start() + 1) as usize,
        );
    }
    let keys = bounds(txn, meta, &range.by)?;
    if keys.start >= keys.end {
        return Ok(Box::new(std::iter::empty()));
    }
    let steps = meta.count.min(offset.saturating_add(limit) as u64);
    let db = txn.db;
    let scan = txn.scan(db, Space::Ordered, keys, steps)?;
    let is_within = move |item: &Answer<Scored>| match (&range.by, item) {
        (By::Name(min, max), Ok((name, _))) => min.is_below(name) && max.is_above(name),
        _ => true,
    };
    let item = |item: Answer<(hedgerow::Slice, hedgerow::Slice)>| Ok(scored(&item?.0));
    let found: Box<dyn Iterator<Item = _>> = match range.reversed {
        false => Box::new(scan.map(item)),
        true => Box::new(scan.rev().map(item)),
    };
    Ok(Box::new(skip(found.filter(is_within), offset).take(limit)))
}

/// The options of the commands that return a range.
struct RangeOptions {
    by_score: bool,
    by_name: bool,
    reversed: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl RangeOptions {
    /// Only the newer commands, `any_kind`, have options for the kind of range.
    fn parse(rest: Args<'_>, any_kind: bool) -> Answer<RangeOptions> {
        let mut parsed = RangeOptions {
            by_score: false,
            by_name: false,
            reversed: false,
            with_scores: false,
            limit: None,
        };
        let mut options = Options::new(rest);
        while let Some(option) = options.next() {
            match option {
                _ if any_kind && is(option, "BYSCORE") => parsed.by_score = true,
                _ if any_kind && is(option, "BYLEX") => parsed.by_name = true,
                _ if any_kind && is(option, "REV") => parsed.reversed = true,
                _ if is(option, "WITHSCORES") => parsed.with_scores = true,
                _ if is(option, "LIMIT") => {
                    parsed.limit = Some((options.integer()?, options.integer()?));
                }
                _ => return Err(Stop::syntax()),
            }
        }
        Ok(parsed)
    }

    fn range(&self, first: &[u8], second: &[u8]) -> Answer<Range> {
        let is_by_rank = !self.by_score && !self.by_name;
        // Redis looks only at the number, which is -1 without LIMIT.
        if self.limit.is_some_and(|it| it.1 != -1) && is_by_rank {
            return Err(Stop::reply(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or \
                 BYLEX",
            ));
        }
        if self.by_name && self.with_scores {
            return Err(Stop::reply(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let (min, max) = if self.reversed {
            (second, first)
        } else {
            (first, second)
        };
        let by = match (self.by_score, self.by_name) {
            (true, true) => return Err(Stop::syntax()),
            (true, false) => Range::scores(min, max)?,
            (false, true) => Range::names(min, max)?,
            (false, false) => Range::ranks(first, second)?,
        };
        let (offset, limit) = self.limit.unwrap_or((0, -1));
        let mut range = Range::new(by, self.reversed);
        range.limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match usize::try_from(offset) {
            Ok(offset) => range.offset = offset,
            Err(_) => range.limit = 0,
        }
        Ok(range)
    }
}

pub(super) fn zrange(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, args, |_| {})
}

pub(super) fn zrevrange(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, args, |options| options.reversed = true)
}

pub(super) fn zrangebyscore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, args, |options| options.by_score = true)
}

pub(super) fn zrevrangebyscore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, args, |options| {
        (options.by_score, options.reversed) = (true, true)
    })
}

pub(super) fn zrangebylex(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, args, |options| options.by_name = true)
}

pub(super) fn zrevrangebylex(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    find(txn, args, |options| {
        (options.by_name, options.reversed) = (true, true)
    })
}

fn find(txn: &mut Txn<'_>, args: Args<'_>, change: impl Fn(&mut RangeOptions)) -> Answer<Reply> {
    let mut options = RangeOptions::parse(&args[4..], is(args[0], "ZRANGE"))?;
    change(&mut options);
    let mut range = options.range(args[2], args[3])?;
    range.room = txn.room;
    let entry = zset(txn, args[1])?;
    let found = match entry.meta() {
        Some(meta) => in_order(txn, meta, &range)?,
        None => Vec::new(),
    };
    Ok(reply(txn, found, options.with_scores))
}

pub(super) fn zrangestore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let options = RangeOptions::parse(&args[5..], true)?;
    if options.with_scores {
        return Err(Stop::syntax());
    }
    let range = options.range(args[3], args[4])?;
    let entry = zset(txn, args[2])?;
    let found = match entry.meta() {
        Some(meta) => in_order(txn, meta, &range)?,
        None => Vec::new(),
    };
    store(txn, args[1], &found, "zrangestore")
}

/// Stores members as the only ones of a key.
pub(super) fn store(
    txn: &mut Txn<'_>,
    key: &[u8],
    members: &[Scored],
    event: &'static str,
) -> Answer<Reply> {
    let mut target = txn.lookup(key)?;
    if members.is_empty() {
        txn.del(&mut target)?;
        return Ok(Reply::Integer(0));
    }
    let mut meta = txn.new_collection(Kind::SortedSet)?;
    for (member, score) in members {
        put(txn, &mut meta, member, (None, *score))?;
    }
    txn.store(&mut target, meta)?;
    txn.event(&target, b'z', event);
    txn.ready(&target);
    Ok(Reply::count(members.len()))
}

pub(super) fn zcount(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    count(txn, args[1], Range::scores(args[2], args[3])?)
}

pub(super) fn zlexcount(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    count(txn, args[1], Range::names(args[2], args[3])?)
}

fn count(txn: &mut Txn<'_>, key: &[u8], by: By) -> Answer<Reply> {
    let entry = zset(txn, key)?;
    let Some(meta) = entry.meta() else {
        return Ok(Reply::Integer(0));
    };
    let range = Range::new(by, false);
    let count = walk(txn, meta, &range)?.try_fold(0, |count, item| item.map(|_| count + 1));
    Ok(Reply::Integer(count?))
}

pub(super) fn zremrangebyrank(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    remove_range(
        txn,
        args[1],
        &Range::new(Range::ranks(args[2], args[3])?, false),
    )
}

pub(super) fn zremrangebyscore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    remove_range(
        txn,
        args[1],
        &Range::new(Range::scores(args[2], args[3])?, false),
    )
}

pub(super) fn zremrangebylex(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    remove_range(
        txn,
        args[1],
        &Range::new(Range::names(args[2], args[3])?, false),
    )
}
