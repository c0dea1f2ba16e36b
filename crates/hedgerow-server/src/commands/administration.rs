//! Small commands about the server.

use std::sync::atomic::Ordering;

use super::Args;
use crate::clock;
use crate::resp::Reply;
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
