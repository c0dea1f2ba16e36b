//! Replication between servers: a whole copy of the database, then its change feed.
//!
//! ```text
//! state.rs       the id and the offsets of a history, as they are stored; pure
//! settings.rs    the parameters
//! role.rs        becoming a replica or a primary
//! replicas.rs    the primary: who is connected, and what each has acknowledged
//! sender.rs      the primary: a connection that sends a copy and commits
//! feed.rs        the commits of the own log, with the offsets of the history
//! retention.rs   the part of the log that is kept for replicas
//! link.rs        the replica: the connection to the primary
//! applied.rs     the replica: what was applied is made durable, and told
//! install.rs     the replica: a received copy takes the place of the database
//! failover.rs    handing over to a replica
//! wire.rs        the messages between both
//! ```
//!
//! A server alone pays one load of [`Replication::flags`] for a command, and keeps and writes
//! nothing. A replica refuses commands that write; only the thread of its link writes. Whoever
//! closes the server to writes sets a flag and passes all stripes once ([`Server::close_to`]): each
//! write looks at the flags while it holds a stripe, so none is under way then (I45).
//!
//! `docs/design/0031-replicas.md` has the decisions.

mod applied;
mod failover;
mod feed;
mod info;
mod install;
mod link;
mod replicas;
mod retention;
mod role;
mod sender;
mod settings;
mod state;
mod wire;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hedgerow::{Builder, Db, Durability, Layout, Result};
use hedgerow_copies::replica::{OWN_KEYSPACE, POSITION, Replica};

use crate::client::lock;
use crate::clock;
use crate::commands::{Command, WRITE};
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::watches::borrowed;

use link::Link;
use replicas::Replicas;
use state::State;

pub(crate) use failover::failover;
pub(crate) use info::{info, metrics, role, statistics};
pub(crate) use install::finish as finish_install;
pub(crate) use role::{UNBLOCKED_TEXT, replica_of, start};
pub(crate) use sender::{Request, serve};
pub(crate) use settings::{SETTINGS, Settings, name_of, old_name};

/// The server is a replica: its clients do not write.
const READ_ONLY: u8 = 1;
/// Writes wait for the end of a failover.
const PAUSED: u8 = 1 << 1;
/// Another database takes the place of this one.
const LOADING: u8 = 1 << 2;
/// The log is kept for replicas: commits have the entries of all keys that they change.
const FOLLOWED: u8 = 1 << 3;

const STATE: &[u8] = b"state";
/// The directory of the checkpoints that are sent, in that of the database.
const SENDING: &str = "sending";

const BESIDE_BYTES_MIN: u64 = 8 << 20;
const BESIDE_BYTES_MAX: u64 = 64 << 20;

pub(crate) const READ_ONLY_TEXT: &str = "READONLY You can't write against a read only replica.";
const FEW_REPLICAS_TEXT: &str = "NOREPLICAS Not enough good replicas to write.";

/// The part of a server that is about others.
pub(crate) struct Replication {
    /// All zero while the server is alone and keeps no log for replicas.
    flags: AtomicU8,
    state: Mutex<State>,
    /// The state is in the database.
    is_stored: AtomicBool,
    /// Held while the role changes.
    changing: tokio::sync::Mutex<()>,
    /// Grows with each change of the role, the history, its offset or the database: what was sent
    /// before does not continue.
    epoch: AtomicU64,
    /// The number of a commit of the engine that cannot be passed on. Replicas before it copy.
    unpassable: AtomicU64,
    /// Something was applied, and those who depend on it were not told.
    is_untold: AtomicBool,
    pub(crate) replicas: Replicas,
    link: Mutex<Option<Link>>,
    failover: Mutex<failover::State>,
    retention: Mutex<retention::Retention>,
    /// The moment since when there is no replica.
    alone_since: Mutex<Instant>,
    /// Opens a database at the directory of the server.
    builder: Builder,
    dir: PathBuf,
    memory_budget: u64,
    counts: Counts,
    /// The server ends.
    is_over: AtomicBool,
}

/// Synchronisations, by how they went.
#[derive(Default)]
struct Counts {
    copies: AtomicU64,
    partial: AtomicU64,
    partial_refused: AtomicU64,
    copies_received: AtomicU64,
}

impl Replication {
    /// Continues from the stored state. Nothing was written to the database since it was opened.
    /// `builder` opens a database at `dir`.
    ///
    /// # Errors
    /// `Corruption` of the state; those of writing it.
    pub(crate) fn open(
        db: &Db,
        (builder, dir, memory_budget): (Builder, PathBuf, u64),
    ) -> Result<Replication> {
        let is_followed = retention::is_on(db)?;
        let stored = stored_state(db)?;
        let stored = stored.map(|state| begin(db, state, is_followed));
        let stored = stored.transpose()?;
        let is_replica = stored.as_ref().is_some_and(|it| it.primary.is_some());
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let followed = flag(is_followed, FOLLOWED);
        Ok(Replication {
            flags: AtomicU8::new(flag(is_replica, READ_ONLY) | followed),
            is_stored: AtomicBool::new(stored.is_some()),
            state: Mutex::new(stored.unwrap_or_else(State::new)),
            changing: tokio::sync::Mutex::default(),
            epoch: AtomicU64::new(0),
            unpassable: AtomicU64::new(0),
            is_untold: AtomicBool::new(false),
            replicas: Replicas::new(),
            link: Mutex::default(),
            failover: Mutex::default(),
            retention: Mutex::default(),
            alone_since: Mutex::new(clock::now()),
            builder,
            dir,
            memory_budget,
            counts: Counts::default(),
            is_over: AtomicBool::new(false),
        })
    }

    fn flags(&self) -> u8 {
        self.flags.load(Ordering::Acquire)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags() & flag != 0
    }

    pub(crate) fn is_replica(&self) -> bool {
        self.has(READ_ONLY)
    }

    /// The database is about to be replaced: nothing new may begin.
    pub(crate) fn is_loading(&self) -> bool {
        self.has(LOADING)
    }

    /// Commits are to have the entries of all keys that they change.
    pub(crate) fn is_followed(&self) -> bool {
        self.has(FOLLOWED)
    }

    /// Writes have to wait.
    pub(crate) fn is_paused(&self) -> bool {
        self.has(PAUSED)
    }

    pub(crate) fn id(&self) -> String {
        lock(&self.state).id.clone()
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Ends what is sent to replicas. They ask anew, and learn of the change.
    fn end_sending(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    fn log_bytes(server: &Server) -> u64 {
        server.config.replication.log_bytes()
    }

    /// The memory for a second look at a database: to copy it, or to look at a copy.
    fn beside_bytes(server: &Server) -> u64 {
        (server.replication.memory_budget / 8).clamp(BESIDE_BYTES_MIN, BESIDE_BYTES_MAX)
    }
}

/// Returns true for commands that change data whatever their arguments. A script is refused when it
/// writes; PFCOUNT counts, and only its cache is written.
fn always_writes(command: &Command) -> bool {
    command.has(WRITE) && command.name != "pfcount" && command.group() != "scripting"
}

/// The error for a call that is run, if its command may not write.
pub(crate) fn refused(command: &Command, refusal: Option<&'static str>) -> Option<&'static str> {
    refusal.filter(|_| always_writes(command))
}

impl Server {
    /// Checks that the role of the server allows a command now.
    pub(crate) fn allow_by_role(&self, command: &Command) -> std::result::Result<(), Reply> {
        let (replication, settings) = (&self.replication, &self.config.replication);
        let flags = replication.flags();
        if flags & !FOLLOWED == 0 && settings.min_replicas() == 0 {
            return Ok(());
        }
        let needs_data = command.needs_data();
        if flags & LOADING != 0 && needs_data {
            return Err(error("LOADING Hedgerow is loading the dataset in memory"));
        }
        if flags & READ_ONLY != 0 && needs_data && settings.refuses_stale() && !self.is_linked() {
            return Err(error(
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            ));
        }
        match self.write_refusal() {
            Some(text) if always_writes(command) => Err(error(text)),
            _ => Ok(()),
        }
    }

    /// The error for calls that write, if nothing may. Expiry continues without replicas.
    pub(crate) fn refusal_of(&self, writes: bool, is_client: bool) -> Option<&'static str> {
        match self.replication.is_replica() {
            _ if !writes => None,
            true => Some(READ_ONLY_TEXT),
            false if is_client => self.write_refusal(),
            false => None,
        }
    }

    /// The error for clients that write, if none may.
    pub(crate) fn write_refusal(&self) -> Option<&'static str> {
        if self.replication.is_replica() {
            return Some(READ_ONLY_TEXT);
        }
        let settings = &self.config.replication;
        let least = settings.min_replicas();
        let has_few = || self.replication.replicas.heard_within(settings.max_lag()) < least;
        (least > 0 && has_few()).then_some(FEW_REPLICAS_TEXT)
    }

    /// Sets a flag that writes heed, and waits for those under way.
    fn close_to(&self, flag: u8) {
        self.replication.flags.fetch_or(flag, Ordering::SeqCst);
        self.stripes.pass();
    }

    fn open_to(&self, flag: u8) {
        self.replication.flags.fetch_and(!flag, Ordering::SeqCst);
    }

    /// The offset of the data. Everything that was committed before the call is below it.
    pub(crate) fn offset(&self) -> Result<u64> {
        match self.counted_offset()? {
            Some(offset) => Ok(offset),
            None => stored_offset(&self.db()),
        }
    }

    /// The same of a primary; `None` of a replica.
    pub(crate) fn counted_offset(&self) -> Result<Option<u64>> {
        let number = self.db().snapshot()?.number();
        Ok(lock(&self.replication.state).offset_at(number))
    }

    /// Everything may have changed: those who watch keys, track them, or wait for them, look again.
    fn touch_everything(self: &Arc<Server>) {
        let dbs: Vec<usize> = (0..crate::store::DATABASES).collect();
        self.watches.touch(borrowed(&self.watches.keys_of(&dbs)));
        let effects = crate::store::Effects {
            ready: self.waiters.keys(),
            flushed: true,
            ..crate::store::Effects::default()
        };
        tokio::runtime::Handle::current().block_on(self.announce(effects));
    }

    /// Stores the state, durably.
    fn store_state(&self, db: &Db) -> Result<()> {
        let state = lock(&self.replication.state).clone();
        store(db, &state)?;
        self.replication.is_stored.store(true, Ordering::Release);
        Ok(())
    }

    /// Keeps the log from now on, and remembers the id of the history.
    fn keep_log(&self, db: &Db) -> Result<()> {
        let replication = &self.replication;
        let _kept = lock(&replication.retention);
        if !replication.is_followed() {
            // A write under way may not have seen the flag. The log is kept from behind it on.
            self.close_to(FOLLOWED);
        }
        let begun = retention::begin(db, Replication::log_bytes(self));
        *lock(&replication.alone_since) = clock::now();
        begun?;
        // Behind what may find no room: a role that was not entered must not be stored.
        match replication.is_stored.load(Ordering::Acquire) {
            true => Ok(()),
            false => self.store_state(db),
        }
    }

    /// Ends the work with other servers.
    pub(crate) async fn end_replication(&self) {
        self.replication.is_over.store(true, Ordering::Release);
        self.stop_link().await;
        let mut left = 100;
        while self.replication.replicas.count() > 0 && left > 0 {
            self.replication.replicas.hurry();
            tokio::time::sleep(Duration::from_millis(20)).await;
            left -= 1;
        }
    }
}

/// Begins with a state that an earlier process has stored.
///
/// A primary begins a new history: its data may be an older copy, and replicas may be ahead of it
/// in the old one. A server whose log is not kept for replicas forgets its history. It was repaired
/// then, and any commit may be lost. So nothing tells what it and others have in common.
fn begin(db: &Db, mut state: State, is_followed: bool) -> Result<State> {
    let number = db.snapshot()?.number();
    match state.offset_at(number) {
        _ if !is_followed => {
            if state.primary.is_some() {
                Replica::begin(db.clone(), 0)?;
            }
            state.forget();
        }
        // The commit that stores the state has a number, and is no part of the history.
        Some(offset) => state.lead((number + 1, offset)),
        None => return Ok(state),
    }
    store(db, &state)?;
    Ok(state)
}

fn store(db: &Db, state: &State) -> Result<()> {
    let own = db.keyspace(OWN_KEYSPACE, Layout::sorted())?;
    own.put_with(STATE, state.encode(), Durability::Synced)
}

fn stored_state(db: &Db) -> Result<Option<State>> {
    let Some(own) = db.existing_keyspace(OWN_KEYSPACE) else {
        return Ok(None);
    };
    let stored = own.get(STATE)?;
    stored.map(|stored| State::decode(&stored)).transpose()
}

/// The offset of the last commit that was applied.
fn stored_offset(db: &Db) -> Result<u64> {
    let Some(own) = db.existing_keyspace(OWN_KEYSPACE) else {
        return Ok(0);
    };
    let stored = own.get(POSITION)?;
    let bytes = stored.and_then(|it| <[u8; 8]>::try_from(&*it).ok());
    Ok(bytes.map_or(0, u64::from_le_bytes))
}

/// Looks after the replicas and the log that is kept for them, until the server ends.
pub(crate) async fn run(server: Arc<Server>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        // An error comes again, to those who write.
        let _ = tokio::task::block_in_place(|| tend(&server));
    }
}

fn tend(server: &Server) -> Result<()> {
    let replication = &server.replication;
    let mut kept = lock(&replication.retention);
    if replication.replicas.count() > 0 || replication.is_replica() {
        *lock(&replication.alone_since) = clock::now();
    }
    if !replication.is_followed() || replication.is_loading() {
        return Ok(());
    }
    let (db, time) = (server.db(), server.config.replication.log_time());
    if !time.is_zero() && lock(&replication.alone_since).elapsed() > time {
        retention::end(&db)?;
        server.open_to(FOLLOWED);
        return Ok(());
    }
    kept.go_on(&db, Replication::log_bytes(server))
}
