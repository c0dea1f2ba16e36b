//! A copy of the primary's database takes the place of the replica's own.
//!
//! ```text
//! DIR/receiving   the copy while it comes; without a meaning after a crash
//! DIR/received    the whole copy: whoever finds it finishes the exchange
//! DIR/replaced    what was there before, until it is removed
//! DIR/sending     checkpoints that are sent to replicas; without a meaning after a crash
//! ```
//!
//! All are in the directory of the database, which may be a file system of its own. The copy was
//! opened once before it gets its second name, so it is a database. The old database serves
//! clients until then. The exchange is a number of renames; after a crash the rest of them is done
//! before the database is opened.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hedgerow::{Db, Error, ErrorKind, Result};
use hedgerow_copies::backup::Progress;
use hedgerow_copies::replica::Replica;
use hedgerow_copies::transfer;
use tokio::runtime::Handle;

use super::state::{Era, Primary, State};
use super::{
    FOLLOWED, LOADING, Replication, SENDING, retention, store, stored_offset, stored_state,
};
use crate::client::lock;
use crate::clock;
use crate::directories::{LOST, is_there, remove, rename, sync};
use crate::server::Server;
use crate::store::{Databases, Found};

/// The parts of a database. The manifest is last: without it there is no database.
const PARTS: [&str; 4] = ["log", "tables", "filters", "MANIFEST"];
/// The time for commands that use the old database.
const PATIENCE: Duration = Duration::from_secs(30);

/// A received copy, and the number of its last commit.
pub(super) struct Received(u64);

/// Receives a copy beside the database.
pub(super) fn receive(
    server: &Server,
    input: &mut impl Read,
    go_on: impl FnMut(Progress) -> bool,
) -> Result<Received> {
    let dir = server.replication.dir.join("receiving");
    remove(&dir)?;
    transfer::receive(input, &dir, go_on).map(Received)
}

/// Makes the copy a replica's, and puts it in the place of the database.
pub(super) fn install(server: &Arc<Server>, copy: Received, from: (&str, &Primary)) -> Result<()> {
    let replication = &server.replication;
    let state = prepare(server, &copy, from)?;
    let dir = replication.dir.clone();
    rename(&dir.join("receiving"), &dir.join("received"))?;
    sync(&dir)?;
    replication.flags.fetch_or(LOADING, Ordering::SeqCst);
    replication.end_sending();
    wait_for_users(server);
    // A failure to make the old database durable does not matter any more.
    let _ = server.db().close();
    let mut opened = open(server, &dir);
    while let Err(error) = opened {
        if replication.is_over.load(Ordering::Acquire) {
            return Err(error);
        }
        // There may be room on the disk, or memory, later. Meanwhile there is no database.
        Handle::current().block_on(tokio::time::sleep(Duration::from_secs(1)));
        opened = open(server, &dir);
    }
    let databases = opened?;
    server.set_databases(databases);
    // It was a number of the engine before.
    replication.unpassable.store(0, Ordering::Release);
    *lock(&replication.state) = state;
    replication.is_stored.store(true, Ordering::Release);
    server.open_to(LOADING);
    server.touch_everything();
    // The rest is removed when the server begins again.
    let _ = remove(&dir.join("replaced"));
    Ok(())
}

/// Opens the copy once, and stores that it is a replica's. Returns the state.
fn prepare(server: &Server, copy: &Received, (id, primary): (&str, &Primary)) -> Result<State> {
    let dir = server.replication.dir.join("receiving");
    let builder = Db::builder(&dir).create_if_missing(false);
    let db = builder
        .memory_budget(Replication::beside_bytes(server))
        .open()?;
    let of_primary = stored_state(&db)?.filter(|it| it.id == id).ok_or_else(|| {
        Error::new(
            ErrorKind::Corruption,
            format!("expected a copy of the history {id}, found another one"),
        )
    })?;
    let offset = match of_primary.offset_at(copy.0) {
        Some(offset) => {
            Replica::begin(db.clone(), offset)?;
            offset
        }
        // That of a replica, which may have a part of a load.
        None => stored_offset(&db)?,
    };
    retention::begin_in_copy(&db, Replication::log_bytes(server))?;
    let flags = &server.replication.flags;
    flags.fetch_or(FOLLOWED, Ordering::SeqCst);
    let configured = lock(&server.replication.state).configured.clone();
    let state = State {
        id: id.to_owned(),
        earlier: of_primary.earlier,
        eras: vec![Era {
            number: db.snapshot()?.number(),
            offset,
            follows: true,
        }],
        primary: Some(primary.clone()),
        configured,
    };
    store(&db, &state)?;
    db.close()?;
    Ok(state)
}

/// Waits until nobody uses the database: commands that have begun, and replicas that are sent it.
fn wait_for_users(server: &Server) {
    let databases = server.databases();
    let began = clock::now();
    // One is kept by the server, one is here.
    while (Arc::strong_count(&databases) > 2 || server.replication.replicas.count() > 0)
        && began.elapsed() < PATIENCE
    {
        Handle::current().block_on(tokio::time::sleep(Duration::from_millis(1)));
    }
}

fn open(server: &Server, dir: &Path) -> Result<Databases> {
    exchange(dir)?;
    let db = server.replication.builder.clone().open()?;
    let databases = Databases::open(&db, Found::OfReplica)?;
    #[cfg(feature = "lua")]
    crate::commands::functions::load_stored(&databases)?;
    Ok(databases)
}

/// Finishes what a crash has cut short, in the directory of a database that is not open.
///
/// # Errors
/// `Io`.
pub(crate) fn finish(dir: &Path) -> Result<()> {
    exchange(dir)?;
    remove(&dir.join("receiving"))?;
    remove(&dir.join(SENDING))?;
    remove(&dir.join("replaced"))
}

/// Moves the parts of a received copy to their places, if there is one.
fn exchange(dir: &Path) -> Result<()> {
    let (received, replaced) = (dir.join("received"), dir.join("replaced"));
    if !is_there(&received) {
        return Ok(());
    }
    let created = std::fs::create_dir_all(&replaced);
    created.map_err(|e| Error::io("create", &replaced, e))?;
    let replace = |part: &str| {
        let old = dir.join(part);
        if is_there(&old) {
            remove(&replaced.join(part))?;
            rename(&old, &replaced.join(part))?;
        }
        Ok::<_, Error>(old)
    };
    // A copy has none.
    replace(LOST)?;
    for part in PARTS {
        let new = received.join(part);
        // It may have been moved before.
        if is_there(&new) {
            rename(&new, &replace(part)?)?;
        }
    }
    sync(dir)?;
    remove(&received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "files that stand for a database")]
    fn an_exchange_is_finished_wherever_it_was_cut_short() {
        let write = |dir: &Path, part: &str, text: &str| {
            std::fs::create_dir_all(dir).unwrap();
            std::fs::write(dir.join(part), text).unwrap();
        };
        for moved in 0..=PARTS.len() {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            std::fs::create_dir_all(dir.join("received")).unwrap();
            write(&dir.join("receiving"), "log", "half");
            write(&dir.join(SENDING), "7", "half");
            if moved == 0 {
                write(&dir.join(LOST), "MANIFEST.before", "old");
            }
            for (place, part) in PARTS.iter().enumerate() {
                match place < moved {
                    true => write(&dir.join("replaced"), part, "old"),
                    false => write(&dir.join("received"), part, "new"),
                }
                write(dir, part, if place < moved { "new" } else { "old" });
            }
            finish(dir).unwrap();
            for part in PARTS {
                assert_eq!(std::fs::read_to_string(dir.join(part)).unwrap(), "new");
            }
            assert_eq!(std::fs::read_dir(dir).unwrap().count(), PARTS.len());
            finish(dir).unwrap();
        }
    }
}
