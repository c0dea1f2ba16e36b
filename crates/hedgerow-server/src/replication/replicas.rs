//! The connected replicas of a server, and what each of them has acknowledged.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::client::{Client, lock};
use crate::clock;
use crate::resp::Reply;

/// A connected replica.
pub(crate) struct Replica {
    pub(crate) client: Arc<Client>,
    /// The address at which it serves clients.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// It has its copy, and gets commits.
    pub(crate) is_online: AtomicBool,
    applied: AtomicU64,
    durable: AtomicU64,
    heard: Mutex<Instant>,
}

impl Replica {
    pub(crate) fn new(client: Arc<Client>, host: String, port: u16) -> Replica {
        Replica {
            client,
            host,
            port,
            is_online: AtomicBool::new(false),
            applied: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            heard: Mutex::new(clock::now()),
        }
    }

    /// The offset up to which it has applied commits.
    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    pub(super) fn note_heard(&self) {
        *lock(&self.heard) = clock::now();
    }

    /// The time since it was heard.
    pub(crate) fn silent(&self) -> Duration {
        lock(&self.heard).elapsed()
    }

    pub(super) fn is_online(&self) -> bool {
        self.is_online.load(Ordering::Acquire)
    }
}

/// See the module.
pub(crate) struct Replicas {
    connected: Mutex<Vec<Arc<Replica>>>,
    /// The number of them, so that nobody pays while there is none.
    count: AtomicUsize,
    /// The replicas that are asked to make durable what they have, counted.
    syncs: AtomicU64,
    /// The number of acknowledgements.
    acknowledged: watch::Sender<u64>,
}

impl Replicas {
    pub(super) fn new() -> Replicas {
        Replicas {
            connected: Mutex::default(),
            count: AtomicUsize::new(0),
            syncs: AtomicU64::new(0),
            acknowledged: watch::channel(0).0,
        }
    }

    pub(super) fn add(&self, replica: Arc<Replica>) {
        let mut connected = lock(&self.connected);
        connected.push(replica);
        self.count.store(connected.len(), Ordering::Release);
    }

    pub(super) fn remove(&self, replica: &Arc<Replica>) {
        let mut connected = lock(&self.connected);
        connected.retain(|it| !Arc::ptr_eq(it, replica));
        self.count.store(connected.len(), Ordering::Release);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Replica>> {
        lock(&self.connected).clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Notes what a replica has.
    pub(super) fn acknowledge(&self, replica: &Replica, applied: u64, durable: u64) {
        replica.applied.store(applied, Ordering::Release);
        replica.durable.store(durable, Ordering::Release);
        replica.note_heard();
        self.acknowledged.send_modify(|count| *count += 1);
    }

    /// Has those look again who wait for acknowledgements: the role has changed.
    pub(super) fn wake_waiting(&self) {
        self.acknowledged.send_modify(|count| *count += 1);
    }

    /// Changes with every acknowledgement.
    pub(crate) fn acknowledgements(&self) -> watch::Receiver<u64> {
        self.acknowledged.subscribe()
    }

    /// The replicas that have applied everything up to an offset, or have it durably.
    pub(crate) fn having(&self, offset: u64, durably: bool) -> usize {
        let has = |it: &&Arc<Replica>| {
            let reached = if durably { &it.durable } else { &it.applied };
            it.is_online() && reached.load(Ordering::Acquire) >= offset
        };
        lock(&self.connected).iter().filter(has).count()
    }

    /// The replicas that were heard within this time; any time if it is zero.
    pub(crate) fn heard_within(&self, lag: Duration) -> usize {
        let is_good = |it: &&Arc<Replica>| it.is_online() && (lag.is_zero() || it.silent() <= lag);
        lock(&self.connected).iter().filter(is_good).count()
    }

    /// Has commits sent now, and not in some milliseconds.
    pub(crate) fn hurry(&self) {
        let connected = self.all();
        connected.iter().for_each(|it| it.client.wake.notify_one());
    }

    /// Has replicas make durable what they have.
    pub(crate) fn sync(&self) {
        self.syncs.fetch_add(1, Ordering::AcqRel);
        self.hurry();
    }

    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Acquire)
    }

    /// Sends a message for the subscribers of replicas. One that gets a copy takes no messages.
    pub(crate) fn forward(&self, channel: &[u8], message: &[u8]) {
        if self.count() == 0 {
            return;
        }
        let message = Reply::bulks(["MESSAGE".as_bytes(), channel, message]);
        let online = self.all().into_iter().filter(|it| it.is_online());
        online.for_each(|it| it.client.send(&message));
    }
}
