//! The parts that all connections share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use hedgerow::{Builder, Db, ErrorKind};
use tokio::sync::{Notify, Semaphore};

use crate::acl::Acl;
use crate::buffers::Buffers;
use crate::client::{Client, Clients, lock};
use crate::clock;
use crate::cluster::Cluster;
use crate::commands::Args;
use crate::commands::config::{Config, Fsync};
use crate::commands::latency::Latencies;
use crate::commands::slow_log::SlowLog;
use crate::counters::CommandCounters;
use crate::directories::{LOST, is_there};
use crate::exclusion::Exclusion;
use crate::lookups::Lookups;
use crate::pause::Pause;
use crate::pubsub::PubSub;
use crate::replication::Replication;
use crate::resp::{Reply, error};
use crate::saves;
use crate::store::{Databases, Effects, Event, Found, Stripes, Txn, engine_error};
use crate::stream::Stream;
use crate::tracking::Tracking;
use crate::waiters::Waiters;
use crate::watches::Watches;

/// The least bound of the memory for what clients have sent and not read.
const BUFFER_BYTES_MIN: usize = 64 << 20;
/// The attempts that run at once where they may wait for the device. Each has a thread, and the
/// memory of a reply or the 256 MiB of a script. A queue of 32 reads keeps a device busy, and long
/// scripts gain nothing from more threads than processors. Other commands run meanwhile: SCRIPT
/// KILL among them.
const ON_DEVICE_MAX: usize = 32;
/// The attempts at once whose commits wait for the engine. It delays them together, so more would
/// only have more threads.
const DELAYED_MAX: usize = 4;
/// The most error codes that are told apart: scripts may make codes of their own.
const ERROR_CODES_MAX: usize = 128;

/// See the module.
pub(crate) struct Server {
    /// A replica exchanges them for those of a copy.
    databases: ArcSwap<Databases>,
    pub(crate) stripes: Stripes,
    pub(crate) on_device: Semaphore,
    /// The turns of attempts whose commits wait for the engine's flushes and merges.
    pub(crate) delayed: Semaphore,
    pub(crate) exclusion: Arc<Exclusion>,
    pub(crate) clients: Clients,
    /// The memory for bytes that clients have sent and not read.
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) pubsub: PubSub,
    pub(crate) watches: Watches,
    pub(crate) tracking: Tracking,
    pub(crate) pause: Pause,
    pub(crate) waiters: Waiters,
    pub(crate) config: Config,
    pub(crate) acl: Acl,
    /// The map of slots, if there is one.
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) replication: Replication,
    pub(crate) slow_log: SlowLog,
    pub(crate) latencies: Latencies,
    pub(crate) counters: CommandCounters,
    pub(crate) errors: AtomicU64,
    /// The errors by their code. Codes are few: others than those of commands count as `ERR`.
    pub(crate) error_codes: Mutex<BTreeMap<String, u64>>,
    pub(crate) connections: AtomicU64,
    /// The connections that were refused.
    pub(crate) rejected: AtomicU64,
    pub(crate) lookups: Lookups,
    /// The calls of the last second.
    pub(crate) calls_per_second: AtomicU64,
    /// The changes of keys since the last checkpoint.
    pub(crate) changes: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) expired_fields: AtomicU64,
    pub(crate) since: Instant,
    pub(crate) run_id: String,
    pub(crate) port: u16,
    pub(crate) dir: PathBuf,
    /// The time of the last checkpoint, in seconds since 1970.
    pub(crate) last_save: AtomicI64,
    saving: AtomicBool,
    /// The last SAVE or BGSAVE has failed.
    pub(crate) save_failed: AtomicBool,
    /// The last write or sync of the log has failed.
    pub(crate) log_failed: AtomicBool,
    /// The number of the engine at the last sync.
    synced: AtomicU64,
    /// The latest time that was told.
    now: AtomicU64,
    pub(crate) stop: Notify,
    /// The connections that end when the database is closed: those of SHUTDOWN.
    pub(crate) last: Arc<Mutex<Vec<Stream>>>,
}

impl Server {
    pub(crate) fn new(
        db: &Db,
        (dir, builder): (PathBuf, Builder),
        (port, memory_budget): (u16, u64),
        (config, acl): (Config, Acl),
    ) -> hedgerow::Result<Server> {
        let replication = Replication::open(db, (builder, dir.clone(), memory_budget))?;
        let found = match replication.is_replica() {
            true => Found::OfReplica,
            false if is_there(&dir.join(LOST)) => Found::Repaired,
            false => Found::Whole,
        };
        let databases = Databases::open(db, found)?;
        let buffer_bytes = (memory_budget / 4) as usize;
        #[cfg(feature = "lua")]
        crate::commands::functions::load_stored(&databases)?;
        let digits = (0..40).map(|_| char::from_digit(fastrand::u32(..16), 16));
        Ok(Server {
            databases: ArcSwap::from_pointee(databases),
            stripes: Stripes::new(),
            on_device: Semaphore::new(ON_DEVICE_MAX),
            delayed: Semaphore::new(DELAYED_MAX),
            exclusion: Arc::default(),
            clients: Clients::default(),
            buffers: Buffers::new(buffer_bytes.max(BUFFER_BYTES_MIN)),
            pubsub: PubSub::default(),
            watches: Watches::default(),
            tracking: Tracking::default(),
            pause: Pause::default(),
            waiters: Waiters::default(),
            slow_log: SlowLog::new(&config),
            latencies: Latencies::new(&config),
            config,
            acl,
            cluster: None,
            replication,
            counters: CommandCounters::default(),
            errors: AtomicU64::new(0),
            error_codes: Mutex::default(),
            connections: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            lookups: Lookups::default(),
            calls_per_second: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            expired: AtomicU64::new(0),
            expired_fields: AtomicU64::new(0),
            since: clock::now(),
            run_id: digits.flatten().collect(),
            port,
            dir,
            last_save: AtomicI64::new(clock::unix_millis() as i64 / 1_000),
            saving: AtomicBool::new(false),
            save_failed: AtomicBool::new(false),
            log_failed: AtomicBool::new(false),
            synced: AtomicU64::new(0),
            now: AtomicU64::new(0),
            stop: Notify::new(),
            last: Arc::default(),
        })
    }

    /// Ends the server. The client of the stream sees the end of its connection when the database
    /// is closed.
    pub(crate) fn end(&self, stream: Stream) {
        lock(&self.last).push(stream);
        self.stop.notify_one();
    }

    /// The mode in which clients have to talk.
    pub(crate) fn mode(&self) -> &'static str {
        match self.cluster {
            Some(_) => "cluster",
            None => "standalone",
        }
    }

    pub(crate) fn databases(&self) -> Arc<Databases> {
        self.databases.load_full()
    }

    pub(crate) fn set_databases(&self, databases: Databases) {
        self.databases.store(Arc::new(databases));
    }

    pub(crate) fn db(&self) -> Db {
        self.databases.load().db().clone()
    }

    /// Milliseconds since 1970. Never goes back, so that what has expired stays so.
    pub(crate) fn now(&self) -> u64 {
        let (now, last) = (clock::unix_millis(), self.now.load(Ordering::Relaxed));
        // All threads read it for each attempt: it is written once in a millisecond.
        match now > last {
            true => self.now.fetch_max(now, Ordering::Relaxed).max(now),
            false => last,
        }
    }

    /// Tells those who listen to changes of keys, as `notify-keyspace-events` says.
    pub(crate) fn notify(&self, event: &Event) {
        if event.name == "expired" {
            self.expired.fetch_add(1, Ordering::Relaxed);
        }
        let classes = self.config.events();
        if !classes.contains(&event.class) {
            return;
        }
        if classes.contains(&b'K') {
            let channel = [format!("__keyspace@{}__:", event.db).as_bytes(), &event.key].concat();
            self.pubsub.publish(&channel, event.name.as_bytes());
        }
        if classes.contains(&b'E') {
            let channel = format!("__keyevent@{}__:{}", event.db, event.name);
            self.pubsub.publish(channel.as_bytes(), &event.key);
        }
    }

    pub(crate) fn note_error(&self, reply: &Reply) {
        if reply.is_error() {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        if let Reply::Error(text) = reply {
            let code = text.split(' ').next().unwrap_or("ERR");
            let mut codes = lock(&self.error_codes);
            let code = match codes.len() < ERROR_CODES_MAX || codes.contains_key(code) {
                true => code,
                false => "ERR",
            };
            *codes.entry(code.to_owned()).or_insert(0) += 1;
        }
    }

    /// Waits until what was written is as durable as was asked for.
    pub(crate) async fn make_durable(&self, wrote: bool) -> Result<(), Reply> {
        if wrote && self.config.fsync() == Fsync::Always {
            let synced = self.sync().await;
            return synced.map_err(|error| engine_error(&error));
        }
        Ok(())
    }

    /// Makes everything durable that was written since the last time.
    pub(crate) async fn sync_if_written(&self) -> hedgerow::Result<()> {
        if self.config.fsync() == Fsync::Never {
            return Ok(());
        }
        // Everything that was written has one up to this.
        let number = self.db().snapshot()?.number();
        if self.synced.load(Ordering::Relaxed) == number {
            return Ok(());
        }
        self.sync().await?;
        self.synced.store(number, Ordering::Relaxed);
        Ok(())
    }

    async fn sync(&self) -> hedgerow::Result<()> {
        let began = clock::now();
        let synced = self.db().sync_async().await;
        self.latencies.note("aof-fsync-always", began.elapsed());
        self.note_logged(true, synced)
    }

    /// Commits what commands have done, and counts the keys that they have looked up.
    pub(crate) fn commit(&self, txn: Txn<'_>) -> hedgerow::Result<Effects> {
        self.lookups.add(txn.looked_up);
        self.note_logged(txn.has_writes(), txn.commit())
    }

    /// Remembers if the log has taken what was written or synced last. Returns what was done.
    fn note_logged<T>(&self, wrote: bool, done: hedgerow::Result<T>) -> hedgerow::Result<T> {
        let is_of_log = |kind| {
            matches!(
                kind,
                ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::Poisoned
            )
        };
        let failed = done.as_ref().is_err_and(|it| is_of_log(it.kind()));
        // All threads read it, and it changes seldom.
        if wrote && self.log_failed.load(Ordering::Relaxed) != failed {
            self.log_failed.store(failed, Ordering::Relaxed);
        }
        done
    }

    /// The number of calls of all commands.
    pub(crate) fn calls(&self) -> u64 {
        self.counters.calls()
    }

    /// SAVE and BGSAVE: a checkpoint beside the database, in place of the last one.
    pub(crate) async fn save(&self, args: Args<'_>) -> Reply {
        if self.saving.swap(true, Ordering::AcqRel) {
            return error("ERR Background save already in progress");
        }
        let made = saves::make(&self.db(), &self.dir).await;
        self.saving.store(false, Ordering::Release);
        self.save_failed.store(made.is_err(), Ordering::Relaxed);
        match made {
            Err(failure) => error(format!("ERR {failure}")),
            Ok(()) => {
                let now = clock::unix_millis() as i64 / 1_000;
                self.last_save.store(now, Ordering::Release);
                self.changes.store(0, Ordering::Relaxed);
                match args[0].eq_ignore_ascii_case(b"SAVE") {
                    true => Reply::OK,
                    false => Reply::Status("Background saving started"),
                }
            }
        }
    }

    /// Ends when a client has been silent for longer than the configuration allows.
    pub(crate) async fn idle_too_long(&self, client: &Client) {
        let seconds = self.config.timeout();
        if seconds == 0 || client.listens() {
            return std::future::pending().await;
        }
        let silent = lock(&client.last_used).elapsed();
        let allowed = Duration::from_secs(seconds);
        tokio::time::sleep(allowed.saturating_sub(silent)).await;
    }
}
