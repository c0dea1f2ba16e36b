//! Places on the earth: members of a sorted set whose scores say where they are.

use std::cmp::Ordering;

use super::Args;
use super::arguments::{Options, is};
use super::geo_area::{Area, Place, Shape};
use super::zset_range::{Range, store, walk};
use super::zsets::{Scored, score_of, zadd, zset};
use crate::number;
use crate::resp::{ELEMENT_BYTES, Reply, element_bytes};
use crate::store::{Answer, First, Meta, Room, Stop, Txn};

/// The metres of a unit.
fn unit(word: &[u8]) -> Answer<f64> {
    match word {
        it if is(it, "M") => Ok(1.0),
        it if is(it, "KM") => Ok(1_000.0),
        it if is(it, "FT") => Ok(0.3048),
        it if is(it, "MI") => Ok(1_609.34),
        _ => Err(Stop::reply(
            "ERR unsupported unit provided. please use M, KM, FT, MI",
        )),
    }
}

fn length(argument: &[u8], what: &str) -> Answer<f64> {
    let wrong = || Stop::reply(format!("ERR need numeric {what}"));
    let length = number::parse_float(argument).ok_or_else(wrong)?;
    match length < 0.0 {
        true if what == "radius" => Err(Stop::reply("ERR radius cannot be negative")),
        true => Err(Stop::reply("ERR height or width cannot be negative")),
        false => Ok(length),
    }
}

fn distance_reply(metres: f64, unit: f64) -> Reply {
    Reply::bulk(format!("{:.4}", metres / unit))
}

/// The bytes of a number in a reply, or a few more.
const NUMBER_BYTES: usize = 24;

/// A found member.
struct Found {
    member: Vec<u8>,
    score: f64,
    distance: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    None,
    Nearest,
    Farthest,
}

/// A search, and the form of its results.
struct Search<'a> {
    from_place: Option<Place>,
    from_member: Option<&'a [u8]>,
    shape: Option<Shape>,
    unit: f64,
    with_distance: bool,
    with_score: bool,
    with_place: bool,
    order: Order,
    count: usize,
    any: bool,
    target: Option<&'a [u8]>,
    /// The event of a search that stores.
    event: &'static str,
    stores_distance: bool,
}

impl<'a> Search<'a> {
    fn new() -> Search<'a> {
        Search {
            from_place: None,
            from_member: None,
            shape: None,
            unit: 1.0,
            with_distance: false,
            with_score: false,
            with_place: false,
            order: Order::None,
            count: usize::MAX,
            any: false,
            target: None,
            event: "geosearchstore",
            stores_distance: false,
        }
    }

    /// The options of GEORADIUS, of GEOSEARCH, or of GEOSEARCHSTORE.
    fn options(&mut self, rest: Args<'a>, command: &str) -> Answer<()> {
        let is_search = command.starts_with("geosearch");
        let mut options = Options::new(rest);
        while let Some(option) = options.next() {
            match option {
                _ if is(option, "WITHDIST") => self.with_distance = true,
                _ if is(option, "WITHHASH") => self.with_score = true,
                _ if is(option, "WITHCOORD") => self.with_place = true,
                _ if is(option, "ASC") => self.order = Order::Nearest,
                _ if is(option, "DESC") => self.order = Order::Farthest,
                _ if is(option, "ANY") => self.any = true,
                _ if is(option, "COUNT") => {
                    let count = options.integer()?;
                    let wrong = |_| Stop::reply("ERR COUNT must be > 0");
                    self.count = usize::try_from(count).map_err(wrong)?;
                    if self.count == 0 {
                        return Err(Stop::reply("ERR COUNT must be > 0"));
                    }
                }
                _ if is(option, "STORE")
                    && command.starts_with("georadius")
                    && !command.ends_with("_ro") =>
                {
                    self.target = Some(options.value()?);
                    self.stores_distance = false;
                }
                _ if is(option, "STOREDIST")
                    && command.starts_with("georadius")
                    && !command.ends_with("_ro") =>
                {
                    self.target = Some(options.value()?);
                    self.stores_distance = true;
                }
                _ if is(option, "STOREDIST") && command == "geosearchstore" => {
                    self.stores_distance = true;
                }
                _ if is(option, "FROMMEMBER") && is_search && self.from_place.is_none() => {
                    self.from_member = Some(options.value()?);
                }
                _ if is(option, "FROMLONLAT") && is_search && self.from_member.is_none() => {
                    self.from_place = Some(Place::parse(options.value()?, options.value()?)?);
                }
                _ if is(option, "BYRADIUS") && is_search && self.shape.is_none() => {
                    let radius = length(options.value()?, "radius")?;
                    self.unit = unit(options.value()?)?;
                    self.shape = Some(Shape::Radius(radius * self.unit));
                }
                _ if is(option, "BYBOX") && is_search && self.shape.is_none() => {
                    let width = length(options.value()?, "width")?;
                    let height = length(options.value()?, "height")?;
                    self.unit = unit(options.value()?)?;
                    self.shape = Some(Shape::Box(width * self.unit, height * self.unit));
                }
                _ => return Err(Stop::syntax()),
            }
        }
        self.check(command)
    }

    fn check(&mut self, command: &str) -> Answer<()> {
        let shows = self.with_distance || self.with_score || self.with_place;
        if shows && (self.target.is_some() || command == "geosearchstore") {
            let name = if command == "geosearchstore" {
                "GEOSEARCHSTORE"
            } else {
                "STORE option in GEORADIUS"
            };
            return Err(Stop::reply(format!(
                "ERR {name} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        if self.from_place.is_none() && self.from_member.is_none() {
            return Err(Stop::reply(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {command}"
            )));
        }
        if self.shape.is_none() {
            return Err(Stop::reply(format!(
                "ERR exactly one of BYRADIUS and BYBOX can be specified for {command}"
            )));
        }
        if self.any && self.count == usize::MAX {
            return Err(Stop::reply("ERR the ANY argument requires COUNT argument"));
        }
        if self.count < usize::MAX && !self.any && self.order == Order::None {
            self.order = Order::Nearest;
        }
        Ok(())
    }

    fn run(&self, txn: &mut Txn<'_>, key: &[u8]) -> Answer<Reply> {
        let entry = zset(txn, key)?;
        let found = match entry.meta().cloned() {
            None => Vec::new(),
            Some(meta) => self.find(txn, &meta)?,
        };
        if let Some(target) = self.target {
            let score = |it: &Found| match self.stores_distance {
                true => it.distance / self.unit,
                false => it.score,
            };
            let members: Vec<Scored> = found
                .into_iter()
                .map(|it| {
                    let score = score(&it);
                    (it.member, score)
                })
                .collect();
            return store(txn, target, &members, self.event);
        }
        Ok(Reply::Array(
            found.into_iter().map(|it| self.reply(it)).collect(),
        ))
    }

    fn find(&self, txn: &mut Txn<'_>, meta: &Meta) -> Answer<Vec<Found>> {
        let centre = match (self.from_place, self.from_member) {
            (Some(place), _) => place,
            (None, Some(member)) => {
                let score = score_of(txn, meta, member)?;
                let missing = || Stop::reply("ERR could not decode requested zset member");
                Place::of_score(score.ok_or_else(missing)?)
            }
            (None, None) => return Err(Stop::syntax()),
        };
        let shape = self.shape.ok_or_else(Stop::syntax)?;
        let area = Area { centre, shape };
        let room = self.target.map_or(txn.room, |_| Room::OF_COMMIT);
        let mut found = First::new(self.count, room, |a: &Found, b: &Found| match self.order {
            Order::None => Ordering::Equal,
            Order::Nearest => a.distance.total_cmp(&b.distance),
            Order::Farthest => b.distance.total_cmp(&a.distance),
        });
        let mut left = if self.any { self.count } else { usize::MAX };
        for (from, to) in area.scores() {
            let range = Range::of_scores(from, to);
            for member in walk(txn, meta, &range)? {
                let (member, score) = member?;
                let Some(distance) = area.distance(Place::of_score(score)) else {
                    continue;
                };
                let bytes = self.bytes(&member);
                let member = Found {
                    member,
                    score,
                    distance,
                };
                found.push(member, bytes)?;
                left -= 1;
                if left == 0 {
                    return found.sorted();
                }
            }
        }
        found.sorted()
    }

    /// The bytes of a member in the reply, or a few more.
    fn bytes(&self, member: &[u8]) -> usize {
        let numbers = [
            self.with_distance,
            self.with_score,
            self.with_place,
            self.with_place,
        ];
        let numbers = numbers.iter().filter(|it| **it).count();
        element_bytes(member.len()) + numbers * (NUMBER_BYTES + ELEMENT_BYTES)
    }

    fn reply(&self, found: Found) -> Reply {
        let mut parts = vec![Reply::Bulk(found.member)];
        if self.with_distance {
            parts.push(distance_reply(found.distance, self.unit));
        }
        if self.with_score {
            parts.push(Reply::Integer(found.score as i64));
        }
        if self.with_place {
            parts.push(Place::of_score(found.score).reply());
        }
        match parts.len() {
            1 => parts.remove(0),
            _ => Reply::Array(parts),
        }
    }
}

pub(super) fn geoadd(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let is_option = |it: &&&[u8]| ["NX", "XX", "CH"].iter().any(|word| is(it, word));
    let options = args[2..].iter().take_while(is_option).count();
    let (options, rest) = args[2..].split_at(options);
    let has = |word: &str| options.iter().any(|it| is(it, word));
    let (triples, odd) = rest.as_chunks::<3>();
    if triples.is_empty() || !odd.is_empty() || has("NX") && has("XX") {
        return Err(Stop::syntax());
    }
    let scores = triples.iter().map(|[longitude, latitude, _]| {
        let place = Place::parse(longitude, latitude)?;
        Ok(format!("{:.0}", place.score()).into_bytes())
    });
    let scores = scores.collect::<Answer<Vec<Vec<u8>>>>()?;
    let mut words: Vec<&[u8]> = [b"zadd", args[1]]
        .into_iter()
        .chain(options.iter().copied())
        .collect();
    for (score, [_, _, member]) in scores.iter().zip(triples) {
        words.extend([score, *member]);
    }
    zadd(txn, &words)
}

/// The places of members.
fn places(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Vec<Option<Place>>> {
    let entry = zset(txn, args[1])?;
    let Some(meta) = entry.meta().cloned() else {
        return Ok(vec![None; args.len() - 2]);
    };
    let scores = args[2..].iter().map(|it| score_of(txn, &meta, it));
    let scores = scores.collect::<Answer<Vec<_>>>()?;
    let place = |it: Option<f64>| it.map(Place::of_score);
    Ok(scores.into_iter().map(place).collect())
}

pub(super) fn geopos(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let places = places(txn, args)?.into_iter();
    let reply = |it: Option<Place>| it.map_or(Reply::NullArray, Place::reply);
    Ok(Reply::Array(places.map(reply).collect()))
}

pub(super) fn geodist(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let unit = match args.get(4) {
        None => 1.0,
        Some(word) if args.len() == 5 => unit(word)?,
        Some(_) => return Err(Stop::syntax()),
    };
    Ok(match places(txn, &args[..4])?[..] {
        [Some(one), Some(other)] => distance_reply(one.distance(other), unit),
        _ => Reply::Null,
    })
}

pub(super) fn geohash(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let text = |place: Place| Reply::Bulk(place.geohash());
    let places = places(txn, args)?.into_iter();
    Ok(Reply::Array(
        places.map(|it| it.map_or(Reply::Null, text)).collect(),
    ))
}

pub(super) fn georadius(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let command = String::from_utf8_lossy(args[0]).to_lowercase();
    let mut search = Search::new();
    search.event = "georadiusstore";
    let by_member = command.starts_with("georadiusbymember");
    let at = match by_member {
        true => {
            search.from_member = Some(args[2]);
            3
        }
        false => {
            search.from_place = Some(Place::parse(args[2], args[3])?);
            4
        }
    };
    if args.len() < at + 2 {
        return Err(Stop::syntax());
    }
    let radius = length(args[at], "radius")?;
    search.unit = unit(args[at + 1])?;
    search.shape = Some(Shape::Radius(radius * search.unit));
    search.options(&args[at + 2..], &command)?;
    search.run(txn, args[1])
}

pub(super) fn geosearch(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut search = Search::new();
    search.options(&args[2..], "geosearch")?;
    search.run(txn, args[1])
}

pub(super) fn geosearchstore(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut search = Search::new();
    search.options(&args[3..], "geosearchstore")?;
    search.target = Some(args[1]);
    search.run(txn, args[2])
}
