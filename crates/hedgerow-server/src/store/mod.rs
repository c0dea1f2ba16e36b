//! The data of the server in the engine, and the view that a command has of it.
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `server` | a name | the map of databases, the bound of versions, the seed of hashes |
//! | `server` | `format` | the version of all this |
//! | `server` | `n` and a generation | the number of keys of a database, by `add_i64` |
//! | `m<g>` | hash(4) . key | [`Meta`]: type, expiry, then the string, or version and counts |
//! | `e<g>` | version(8) . hash(4) . field | fields of hashes, members of sets and sorted sets |
//! | `s<g>` | version(8) . place | elements of lists, scores of sorted sets, times of fields |
//! | `t<g>` | time of expiry(8) . key | nothing: [`times`] |
//!
//! `g` is the generation of a database: FLUSHDB gives it another one, SWAPDB exchanges two. All
//! are sorted. The hash in front of keys and fields makes the order in which SCAN walks, and its
//! cursor: the hash of the next key. Numbers are big-endian, so they sort as they count.

mod databases;
mod effects;
mod entry;
#[cfg(feature = "lua")]
mod flush;
mod format;
mod gate;
mod groups;
mod last;
mod meta;
mod misses;
mod room;
mod sizes;
mod stop;
mod stripes;
mod times;
mod txn;

#[cfg(feature = "lua")]
pub(crate) use databases::LIBRARY;
pub(crate) use databases::{DATABASES, Databases, Found, MAP, SERVER, Space, generation_of};
pub(crate) use effects::{Effects, Event};
pub(crate) use entry::{Entry, elements};
pub(crate) use format::KEY as FORMAT;
pub(crate) use gate::Turn;
pub(crate) use groups::{Consumer, Group, Pending};
pub(crate) use meta::{Ends, Id, Kind, LIST_MIDDLE, Meta, Scores, Text};
pub(crate) use room::{First, Room};
pub(crate) use sizes::{Sizes, WANTED_MAX};
pub(crate) use stop::Stop;
pub(crate) use stripes::{Held, Stripes};
pub(crate) use times::{Due, due, time_of};
pub(crate) use txn::{Mode, Txn, Wanted};

use crate::resp::Reply;

/// The result of a command: a reply, or the reason why there is none yet.
pub(crate) type Answer<T> = Result<T, Stop>;

/// A reply for the end of a command that the engine refused.
pub(crate) fn engine_error(error: &hedgerow::Error) -> Reply {
    let code = match error.kind() {
        hedgerow::ErrorKind::NoSpace => "MISCONF",
        _ => "ERR",
    };
    Reply::Error(format!("{code} {error}"))
}

/// Leaves out the first items, but no reason to stop, which comes again for ever.
pub(crate) fn skip<T>(
    items: impl Iterator<Item = Answer<T>>,
    mut count: usize,
) -> impl Iterator<Item = Answer<T>> {
    items.filter(move |item| {
        let is_kept = count == 0 || item.is_err();
        count -= usize::from(!is_kept);
        is_kept
    })
}

/// All results, or the first reason to stop, when all were asked for.
pub(crate) fn together<T>(results: impl Iterator<Item = Answer<T>>) -> Answer<Vec<T>> {
    let (mut found, mut stop) = (Vec::new(), None);
    for result in results {
        match result {
            Ok(it) => found.push(it),
            Err(Stop::Read) => stop = Some(Stop::Read),
            Err(other) => return Err(other),
        }
    }
    stop.map_or(Ok(found), Err)
}
