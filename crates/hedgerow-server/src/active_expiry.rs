//! Removing keys that have expired, also those that nobody reads.
//!
//! Each database has its times of expiry in order, so what is due is at the beginning. The task
//! takes at most a quarter of one processor.

use std::sync::Arc;
use std::time::Duration;

use hedgerow::Slice;

use crate::clock;
use crate::commands::{Args, Command, Keys, Run, WRITE, expire_due};
use crate::execute::{Call, Caller};
use crate::server::Server;
use crate::store::{DATABASES, Space};

const PAUSE: Duration = Duration::from_millis(100);
/// The keys that are removed together.
const KEYS: usize = 64;

/// Not in the table, since no client can call it.
static EXPIRE_DUE: Command = Command {
    name: "del",
    arity: -1,
    flags: WRITE,
    keys: Keys::Range(0, -1, 1),
    run: Run::Data(expire_due),
    summary: "Removes keys that have expired.",
};

/// Removes what is due until the server ends.
pub(crate) async fn run(server: Arc<Server>) {
    loop {
        let mut pause = PAUSE;
        for db in 0..DATABASES {
            let began = clock::now();
            // An error comes again, to those who read.
            let due = tokio::task::block_in_place(|| due(&server, db)).unwrap_or_default();
            if due.is_empty() {
                continue;
            }
            let keys: Vec<&[u8]> = due.iter().map(|it| &it[8..]).collect();
            remove(&server, db, &keys).await;
            if due.len() == KEYS {
                pause = Duration::ZERO;
            }
            tokio::time::sleep(began.elapsed() * 3).await;
        }
        tokio::time::sleep(pause).await;
        let _ = tokio::task::block_in_place(|| server.databases.drop_flushed());
    }
}

/// The first entries that are due.
fn due(server: &Server, db: usize) -> hedgerow::Result<Vec<Slice>> {
    let map = server.databases.map();
    let Some(database) = map.get(db).and_then(Option::as_ref) else {
        return Ok(Vec::new());
    };
    let end = (server.now() + 1).to_be_bytes();
    let due = database.space(Space::Expiry).scan(..&end[..])?;
    due.keys().take(KEYS).collect()
}

async fn remove(server: &Server, db: usize, keys: Args<'_>) {
    let caller = Caller {
        db,
        resp3: false,
        is_waiting: false,
        atomic: None,
        watched: &[],
        address: "",
        client: None,
    };
    let calls: Vec<_> = keys
        .chunks(1)
        .map(|args| Call {
            command: &EXPIRE_DUE,
            args,
        })
        .collect();
    let outcome = server.run(caller, &calls).await;
    server.announce(outcome.effects).await;
}
