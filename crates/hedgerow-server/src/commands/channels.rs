//! Channels: who listens, and messages.

use super::Args;
use super::arguments::is;
use crate::pubsub::Kind;
use crate::resp::{Reply, error};
use crate::session::Session;
use crate::store::{Answer, Txn};

pub(super) fn subscribe(session: &mut Session, args: Args<'_>) -> Reply {
    change(session, "subscribe", &args[1..], (Kind::Channel, true))
}

pub(super) fn psubscribe(session: &mut Session, args: Args<'_>) -> Reply {
    change(session, "psubscribe", &args[1..], (Kind::Pattern, true))
}

pub(super) fn ssubscribe(session: &mut Session, args: Args<'_>) -> Reply {
    change(session, "ssubscribe", &args[1..], (Kind::Shard, true))
}

pub(super) fn unsubscribe(session: &mut Session, args: Args<'_>) -> Reply {
    remove(session, "unsubscribe", &args[1..], Kind::Channel)
}

pub(super) fn punsubscribe(session: &mut Session, args: Args<'_>) -> Reply {
    remove(session, "punsubscribe", &args[1..], Kind::Pattern)
}

pub(super) fn sunsubscribe(session: &mut Session, args: Args<'_>) -> Reply {
    remove(session, "sunsubscribe", &args[1..], Kind::Shard)
}

/// Removes these subscriptions, or all of a kind.
fn remove(session: &mut Session, word: &str, names: Args<'_>, kind: Kind) -> Reply {
    if !names.is_empty() {
        return change(session, word, names, (kind, false));
    }
    let all = session.names[kind as usize].clone();
    if all.is_empty() {
        let left = Reply::count(session.subscriptions(kind));
        return Reply::Push(vec![Reply::bulk(word), Reply::Null, left]);
    }
    let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    change(session, word, &all, (kind, false))
}

fn change(session: &mut Session, word: &str, names: Args<'_>, (kind, on): (Kind, bool)) -> Reply {
    let mut told = Vec::new();
    for name in names {
        session.subscribe(name, kind, on);
        if session.client.is_killed() {
            break;
        }
        let count = Reply::count(session.subscriptions(kind));
        let push = vec![Reply::bulk(word), Reply::bulk(name), count];
        told.push(Reply::Push(push));
    }
    Reply::Several(told)
}

pub(super) fn publish(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    Ok(Reply::count(txn.publish(
        Kind::Channel,
        args[1],
        args[2],
    )?))
}

pub(super) fn spublish(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    Ok(Reply::count(txn.publish(Kind::Shard, args[1], args[2])?))
}

pub(super) fn pubsub(session: &mut Session, args: Args<'_>) -> Reply {
    let pubsub = &session.server.pubsub;
    let names = |kind: Kind| Reply::bulks(pubsub.names(kind, args.get(2).copied()));
    let counts = |kind: Kind| {
        let counts = args[2..].iter().flat_map(|channel| {
            let count = Reply::count(pubsub.listeners_of(kind, channel));
            [Reply::bulk(channel), count]
        });
        Reply::Array(counts.collect())
    };
    match (args[1], args.len()) {
        (it, 2 | 3) if is(it, "CHANNELS") => names(Kind::Channel),
        (it, 2 | 3) if is(it, "SHARDCHANNELS") => names(Kind::Shard),
        (it, _) if is(it, "NUMSUB") => counts(Kind::Channel),
        (it, _) if is(it, "SHARDNUMSUB") => counts(Kind::Shard),
        (it, 2) if is(it, "NUMPAT") => Reply::count(pubsub.count(Kind::Pattern)),
        (it, 2) if is(it, "HELP") => Reply::bulks([
            "PUBSUB CHANNELS [pattern]|NUMSUB [channel ...]|NUMPAT|SHARDCHANNELS [pattern]|\
             SHARDNUMSUB [channel ...]. About channels.",
        ]),
        _ => error(super::wrong_subcommand(args)),
    }
}
