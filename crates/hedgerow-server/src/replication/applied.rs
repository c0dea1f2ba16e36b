//! The replica's side of commits that were applied: what of them is durable, and who is to be told.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hedgerow::{CommitChange, Db, Error};
use hedgerow_copies::replica::Replica;
use tokio::runtime::Handle;

use super::wire::Wire;
use crate::clock;
use crate::commands::config::Fsync;
use crate::server::Server;
use crate::store::{Effects, FORMAT, MAP, SERVER, generation_of};
use crate::watches::borrowed;

/// Everything applied is durable after this time.
const SYNC_EACH: Duration = Duration::from_secs(1);
/// The hash in front of a key.
const PLACE_BYTES: usize = 4;

/// The part of what was applied that is durable.
pub(super) struct Durable<'a> {
    server: &'a Server,
    db: &'a Db,
    offset: u64,
    synced: Instant,
}

impl<'a> Durable<'a> {
    pub(super) fn new(server: &'a Server, db: &'a Db, offset: u64) -> Durable<'a> {
        Durable {
            server,
            db,
            offset,
            synced: clock::now(),
        }
    }

    pub(super) fn sync(&mut self, replica: &Replica) -> hedgerow::Result<()> {
        if replica.position() > self.offset {
            self.db.sync()?;
            self.offset = replica.position();
        }
        self.synced = clock::now();
        Ok(())
    }

    pub(super) fn sync_if_due(&mut self, replica: &Replica) -> hedgerow::Result<()> {
        let is_due = match self.server.config.fsync() {
            Fsync::Always => true,
            Fsync::EverySecond => self.synced.elapsed() >= SYNC_EACH,
            Fsync::Never => false,
        };
        if is_due { self.sync(replica) } else { Ok(()) }
    }

    pub(super) fn acknowledge(
        &self,
        wire: &mut Wire<'_>,
        replica: &Replica,
    ) -> hedgerow::Result<()> {
        let (applied, durable) = (replica.position().to_string(), self.offset.to_string());
        let sent = wire.send(&[b"ACK", applied.as_bytes(), durable.as_bytes()]);
        sent.map_err(|e| Error::io("acknowledge to", Path::new("the primary"), e))
    }
}

/// The things to tell when commits were applied.
pub(super) struct Changed<'a> {
    server: &'a Arc<Server>,
    /// Somebody watches keys, tracks them, or waits for them.
    has_listeners: bool,
    keys: Vec<(usize, Vec<u8>)>,
    map: bool,
    libraries: bool,
}

impl<'a> Changed<'a> {
    pub(super) fn new(server: &'a Arc<Server>) -> Changed<'a> {
        Changed {
            server,
            has_listeners: has_listeners(server),
            keys: Vec::new(),
            map: false,
            libraries: false,
        }
    }

    /// After an error, which left something untold.
    pub(super) fn everything(server: &'a Arc<Server>) -> Changed<'a> {
        Changed {
            map: true,
            libraries: true,
            ..Changed::new(server)
        }
    }

    pub(super) fn note(&mut self, change: &CommitChange) {
        match change {
            CommitChange::Put { keyspace, key, .. } | CommitChange::Delete { keyspace, key } => {
                if keyspace == SERVER {
                    self.map |= key == MAP || key == FORMAT;
                    self.libraries |= is_library(key);
                } else if self.has_listeners
                    && let Some(('m', generation)) = generation_of(keyspace)
                    && let Some(db) = self.server.databases().of_generation(generation)
                    && let Some((_, key)) = key.split_at_checked(PLACE_BYTES)
                {
                    self.keys.push((db, key.to_vec()));
                }
            }
            CommitChange::DeleteRange { keyspace, from, .. } if keyspace == SERVER => {
                self.libraries |= is_library(from);
            }
            // A script has flushed the database.
            CommitChange::DeleteRange { keyspace, .. } => {
                self.map |= generation_of(keyspace).is_some_and(|it| it.0 == 'm');
            }
            _ => {}
        }
    }

    pub(super) fn tell(self) -> hedgerow::Result<()> {
        if self.map {
            self.server.databases().reload()?;
        }
        // A listener that began meanwhile may have seen the state before.
        if self.map || !self.has_listeners && has_listeners(self.server) {
            self.server.touch_everything();
        }
        if self.libraries {
            load_libraries(self.server)?;
        }
        if self.keys.is_empty() {
            return Ok(());
        }
        self.server.watches.touch(borrowed(&self.keys));
        // Its writer is a client of the primary.
        let changed = self.keys.iter().map(|(_, key)| (0, key.clone()));
        let effects = Effects {
            changed: changed.collect(),
            ready: self.keys,
            ..Effects::default()
        };
        Handle::current().block_on(self.server.announce(effects));
        Ok(())
    }
}

fn has_listeners(server: &Server) -> bool {
    server.watches.count() > 0 || server.waiters.count() > 0 || server.tracking.is_used()
}

#[cfg(feature = "lua")]
fn is_library(key: &[u8]) -> bool {
    key.starts_with(crate::store::LIBRARY)
}

#[cfg(not(feature = "lua"))]
fn is_library(_key: &[u8]) -> bool {
    false
}

#[cfg(feature = "lua")]
pub(super) fn load_libraries(server: &Server) -> hedgerow::Result<()> {
    crate::commands::functions::load_stored(&server.databases())
}

#[cfg(not(feature = "lua"))]
pub(super) fn load_libraries(_server: &Server) -> hedgerow::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::acl::Acl;
    use crate::commands::config::Config;

    /// It may have seen the state before, and `note` did not note the keys for it.
    #[test]
    fn who_begins_to_listen_while_commits_are_applied_is_told() {
        const MEMORY: u64 = 16 << 20;
        let dir = tempfile::tempdir().unwrap();
        let builder = Db::builder(dir.path()).memory_budget(MEMORY);
        let db = builder.clone().open().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _entered = runtime.enter();
        let settings = (
            Config::new(Fsync::EverySecond, "", 10),
            Acl::open("", None).unwrap(),
        );
        let own = (dir.path().to_path_buf(), builder);
        let server = Arc::new(Server::new(&db, own, (0, MEMORY), settings).unwrap());
        let changed = Changed::new(&server);
        let (user, _) = server.acl.first();
        let (clients, nowhere) = (&server.clients, String::new);
        let client = clients.add(&server.buffers, user, nowhere(), nowhere());
        server.watches.add(&client, &(0, b"k".to_vec()));
        changed.tell().unwrap();
        assert!(client.is_dirty.load(Ordering::Acquire));
    }
}
