//! Removing keys that have expired, also those that nobody reads.
//!
//! Each database has its times of expiry in order, so what is due is at the beginning: keys, and
//! hashes with fields that are due. The task takes at most a quarter of one processor.
//!
//! The tree keeps a record of each time that was removed until merges drop it, and a walk from the
//! beginning would meet them all. So a look begins shortly before the last time that was removed;
//! one look in a minute begins at the beginning, for keys that came with times of long ago.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::commands::{Args, Command, Keys, Run, WRITE, expire_due, expire_fields_due};
use crate::execute::{Call, Caller};
use crate::server::Server;
use crate::store::{DATABASES, Due, due, time_of};

const PAUSE: Duration = Duration::from_millis(100);
/// The time between two looks from the beginning.
const WHOLE: Duration = Duration::from_secs(60);
/// The milliseconds before the last removed time in which a new one may still be.
const LATE: u64 = 1_000;
/// The keys that are removed together.
const KEYS: usize = 64;

/// A command that is not in the table, since no client can call it.
const fn removal(name: &'static str, run: Run, summary: &'static str) -> Command {
    Command {
        name,
        arity: -1,
        flags: WRITE,
        keys: Keys::Range(0, -1, 1),
        run,
        summary,
    }
}

static EXPIRE_DUE: Command = removal(
    "del",
    Run::Data(expire_due),
    "Removes keys that have expired.",
);
static EXPIRE_FIELDS_DUE: Command = removal(
    "hdel",
    Run::Data(expire_fields_due),
    "Removes fields of hashes that have expired.",
);

/// Removes what is due until the server ends.
pub(crate) async fn run(server: Arc<Server>) {
    let (mut from, mut whole) = ([[0; 2]; DATABASES], clock::now());
    loop {
        let mut pause = PAUSE;
        while server.pause.is_on(false) {
            tokio::time::sleep(PAUSE).await;
        }
        // A replica hides what has expired, and its primary removes it.
        while server.replication.is_replica() || server.replication.is_loading() {
            tokio::time::sleep(PAUSE).await;
            let _ = tokio::task::block_in_place(|| server.databases().drop_flushed(true));
            from = [[0; 2]; DATABASES];
        }
        if whole.elapsed() >= WHOLE {
            (from, whole) = ([[0; 2]; DATABASES], clock::now());
        }
        let kinds = [(Due::Keys, &EXPIRE_DUE), (Due::Fields, &EXPIRE_FIELDS_DUE)];
        let all = (0..DATABASES).flat_map(|db| kinds.map(|(kind, command)| (db, kind, command)));
        for (db, kind, command) in all {
            let began = clock::now();
            let from = &mut from[db][kind as usize];
            let due = || due(&server.databases(), (db, kind), (*from, server.now()), KEYS);
            // An error comes again, to those who read.
            let due = tokio::task::block_in_place(due).unwrap_or_default();
            if due.is_empty() {
                continue;
            }
            let keys: Vec<&[u8]> = due.iter().map(|it| &it[8..]).collect();
            let wrote = remove(&server, db, (command, &keys)).await;
            if wrote {
                *from = due.last().map_or(0, |it| time_of(it).saturating_sub(LATE));
            }
            // A hash may have more fields that are due.
            if due.len() == KEYS || kind == Due::Fields && wrote {
                pause = Duration::ZERO;
            }
            server.latencies.note("expire-cycle", began.elapsed());
            tokio::time::sleep(began.elapsed() * 3).await;
        }
        tokio::time::sleep(pause).await;
        let _ = tokio::task::block_in_place(|| drop_flushed(&server));
    }
}

/// Drops the keyspaces of flushed databases, which is a write.
fn drop_flushed(server: &Server) -> hedgerow::Result<()> {
    let databases = server.databases();
    let Some(_held) = server.stripes.try_hold(&mut vec![0]) else {
        return Ok(());
    };
    let replication = &server.replication;
    if replication.is_paused() || replication.is_replica() || replication.is_loading() {
        return Ok(());
    }
    databases.drop_flushed(false)
}

/// Returns true if anything was removed.
async fn remove(server: &Server, db: usize, (command, keys): (&'static Command, Args<'_>)) -> bool {
    let caller = Caller {
        db,
        ..Caller::default()
    };
    let calls: Vec<_> = keys.chunks(1).map(|args| Call { command, args }).collect();
    let outcome = server.run(caller, &calls).await;
    server.announce(outcome.effects).await;
    outcome.wrote
}
