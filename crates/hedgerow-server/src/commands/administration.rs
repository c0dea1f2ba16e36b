//! Small commands about the server.

use std::sync::atomic::Ordering;

use super::Args;
use super::arguments::is;
use crate::clock;
use crate::resp::{Reply, error};
use crate::session::Session;

pub(super) fn time(_session: &mut Session, _args: Args<'_>) -> Reply {
    let micros = clock::unix_micros();
    Reply::bulks([
        (micros / 1_000_000).to_string(),
        (micros % 1_000_000).to_string(),
    ])
}

pub(super) fn last_save(session: &mut Session, _args: Args<'_>) -> Reply {
    Reply::Integer(session.server.last_save.load(Ordering::Acquire))
}

pub(super) fn unwatch(session: &mut Session, _args: Args<'_>) -> Reply {
    session.unwatch();
    Reply::OK
}

pub(super) fn role(session: &mut Session, _args: Args<'_>) -> Reply {
    tokio::task::block_in_place(|| crate::replication::role(&session.server))
}

pub(super) fn lolwut(_session: &mut Session, _args: Args<'_>) -> Reply {
    let [redis, own] = [super::info::REDIS_VERSION, env!("CARGO_PKG_VERSION")];
    Reply::Text(format!("Redis ver. {redis}, by Hedgerow {own}\n"))
}

/// No latencies are collected beyond those of SLOWLOG.
pub(super) fn latency(_session: &mut Session, args: Args<'_>) -> Reply {
    match args[1] {
        it if is(it, "RESET") => Reply::Integer(0),
        it if is(it, "LATEST") || is(it, "HISTORY") => Reply::Array(Vec::new()),
        _ => error("ERR LATENCY knows RESET, LATEST and HISTORY, which are empty"),
    }
}
