//! Becoming a replica, and becoming a primary. One change at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hedgerow::Result;
use hedgerow_copies::replica::Replica;

use super::applied::load_libraries;
use super::link::{Asks, Link};
use super::state::{Primary, State};
use super::{READ_ONLY, stored_offset};
use crate::client::lock;
use crate::commands::{Args, WRITE};
use crate::directories::{LOST, is_there};
use crate::number;
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::store::engine_error;

/// The error for clients that wait when the server becomes a replica.
pub(crate) const UNBLOCKED_TEXT: &str = "UNBLOCKED force unblock from blocking operation, \
                                         instance state changed (master -> replica?)";

/// Continues in the stored role, or begins in the one that the options name. Options that are the
/// same as before change nothing: the role may have changed since.
///
/// # Errors
/// Those of writing the state.
pub(crate) async fn start(server: &Arc<Server>, configured: Option<&str>) -> Result<()> {
    let configured = configured.map(|text| {
        Primary::parse(text).ok_or_else(|| {
            let message = format!("expected a host and a port to replicate, found `{text}`");
            hedgerow::Error::new(hedgerow::ErrorKind::InvalidArgument, message)
        })
    });
    let configured = configured.transpose()?;
    let is_new = {
        let mut state = lock(&server.replication.state);
        let is_new = configured.is_some() && state.configured != configured;
        if is_new {
            state.configured.clone_from(&configured);
        }
        is_new
    };
    if let (true, Some(primary)) = (is_new, configured) {
        server.follow(primary).await?;
    } else if server.replication.is_replica() {
        server.tell_role();
        server.start_link();
    }
    Ok(())
}

/// REPLICAOF and SLAVEOF.
pub(crate) async fn replica_of(server: &Arc<Server>, args: Args<'_>) -> Reply {
    let [_, host, port] = args else {
        return error("ERR wrong number of arguments for 'replicaof' command");
    };
    if server.is_failing_over() {
        return error("ERR REPLICAOF not allowed while failing over.");
    }
    let is = |argument: &[u8], word: &str| argument.eq_ignore_ascii_case(word.as_bytes());
    let changed = if is(host, "NO") && is(port, "ONE") {
        server.lead().await
    } else {
        let port = number::integer(port).and_then(|it| u16::try_from(it).ok());
        let host = String::from_utf8_lossy(host).into_owned();
        let primary = port.and_then(|port| Primary::parse(&format!("{host} {port}")));
        let Some(primary) = primary else {
            return error("ERR Invalid master port");
        };
        if lock(&server.replication.state).primary.as_ref() == Some(&primary) {
            return Reply::Status("OK Already connected to specified master");
        }
        server.follow(primary).await
    };
    match changed {
        Ok(()) => Reply::OK,
        Err(error) => engine_error(&error),
    }
}

impl Server {
    /// Becomes a replica of another server, or of another one than before.
    async fn follow(self: &Arc<Server>, primary: Primary) -> Result<()> {
        let _one = self.replication.changing.lock().await;
        self.stop_link().await;
        let was_primary = !self.replication.is_replica();
        let before = lock(&self.replication.state).clone();
        let done = tokio::task::block_in_place(|| {
            if was_primary {
                self.close_to(READ_ONLY);
            }
            let offset = self.begin_following(primary)?;
            self.store_position(offset)
        });
        if let Err(error) = done {
            *lock(&self.replication.state) = before;
            if was_primary {
                self.open_to(READ_ONLY);
            }
            self.start_link();
            return Err(error);
        }
        if was_primary {
            self.end_waiting().await;
        }
        self.tell_role();
        self.start_link();
        Ok(())
    }

    /// Changes the state only, and ends what was sent before. Returns the offset of the data.
    /// Nobody writes meanwhile: the commits behind it have numbers that tell no offset.
    pub(super) fn begin_following(&self, primary: Primary) -> Result<u64> {
        let db = self.db();
        let number = db.snapshot()?.number();
        let mut state = lock(&self.replication.state);
        let offset = match state.offset_at(number) {
            Some(offset) => offset,
            None => stored_offset(&db)?,
        };
        state.follow(primary, (number, offset));
        self.replication.end_sending();
        Ok(offset)
    }

    /// Stores state and position of a replica, durably: first the position, which means nothing to
    /// a primary.
    pub(super) fn store_position(&self, offset: u64) -> Result<()> {
        let db = self.db();
        // One that is right may be within a load, of which parts were applied.
        if stored_offset(&db)? != offset {
            Replica::begin(db.clone(), offset)?;
        }
        let was_stored = self.replication.is_stored.load(Ordering::Acquire);
        self.keep_log(&db)?;
        match was_stored {
            true => self.store_state(&db),
            false => Ok(()),
        }
    }

    /// Becomes a primary with everything that was applied, in a new history.
    pub(super) async fn lead(self: &Arc<Server>) -> Result<()> {
        let _one = self.replication.changing.lock().await;
        if !self.replication.is_replica() {
            return Ok(());
        }
        self.stop_link().await;
        let before = lock(&self.replication.state).clone();
        let done = tokio::task::block_in_place(|| self.begin_leading());
        if let Err(error) = done {
            *lock(&self.replication.state) = before;
            self.start_link();
            return Err(error);
        }
        self.open_to(READ_ONLY);
        self.tell_role();
        Ok(())
    }

    fn begin_leading(&self) -> Result<()> {
        let db = self.db();
        let replica = Replica::open(db.clone(), 0)?;
        let number = db.snapshot()?.number();
        {
            let mut state = lock(&self.replication.state);
            state.lead((number, replica.position()));
            if replica.is_within_load() {
                // Others have other parts of the load.
                state.earlier.clear();
            }
        }
        self.replication.end_sending();
        if is_there(&self.replication.dir.join(LOST)) {
            self.databases().restore()?;
        }
        self.databases().reload()?;
        // Those that were loaded before stay. An error must not keep the server from leading.
        let _ = load_libraries(self);
        self.keep_log(&db)?;
        self.store_state(&db)
    }

    /// Goes back to the state before, as a primary. Nobody has written since.
    pub(super) fn take_back(&self, before: State) {
        *lock(&self.replication.state) = before;
        self.open_to(READ_ONLY);
        self.tell_role();
    }

    /// Tells CONFIG GET whom the server follows.
    pub(super) fn tell_role(&self) {
        let primary = lock(&self.replication.state).primary.clone();
        let text = primary.map_or(String::new(), |it| it.to_string());
        self.config.tell("slaveof", text.clone());
        self.config.tell("replicaof", text);
    }

    /// Ends the waiting of clients that would write, or wait for replicas.
    pub(super) async fn end_waiting(&self) {
        self.replication.replicas.wake_waiting();
        for key in self.waiters.keys() {
            for waiter in self.waiters.of(&key) {
                if waiter.command.has(WRITE) {
                    waiter.redirect(error(UNBLOCKED_TEXT)).await;
                }
            }
        }
    }

    pub(super) fn start_link(self: &Arc<Server>) {
        let Some(primary) = lock(&self.replication.state).primary.clone() else {
            return;
        };
        let link = Link::start(self.clone(), primary, Asks::Nothing);
        *lock(&self.replication.link) = Some(link);
    }

    /// Ends the link, and waits until its thread has.
    pub(super) async fn stop_link(&self) {
        let link = lock(&self.replication.link).take();
        if let Some(link) = link {
            link.stop().await;
        }
    }

    /// Returns true if the server is a replica and its primary sends it commits.
    pub(super) fn is_linked(&self) -> bool {
        let link = lock(&self.replication.link);
        link.as_ref().is_some_and(|it| it.status.is_up())
    }
}
