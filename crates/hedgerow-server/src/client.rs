//! The connected clients, as others see them: who they are, and a place for what they are sent
//! without asking.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::acl::User;
use crate::buffers::{Buffers, Counted};
use crate::clock;
use crate::commands::without_passwords;
use crate::pubsub::{KINDS, Kind};
use crate::resp::Reply;

/// The bytes that may wait for a client that does not read.
const OUTBOX_BYTES_MAX: usize = 32 << 20;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under these locks is whole or is none.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connected client.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) address: String,
    pub(crate) local_address: String,
    pub(crate) names: Mutex<Names>,
    pub(crate) user: Mutex<Arc<User>>,
    pub(crate) since: Instant,
    pub(crate) last_used: Mutex<Instant>,
    /// The index of its last command in the table.
    pub(crate) last_command: AtomicUsize,
    /// The subcommand of its last command that has some.
    pub(crate) last_subcommand: Mutex<String>,
    pub(crate) db: AtomicUsize,
    pub(crate) resp3: AtomicBool,
    /// The names of each kind that it listens to.
    pub(crate) subscriptions: [AtomicUsize; KINDS.len()],
    /// The commands that are queued in a transaction, and one.
    pub(crate) queued: AtomicUsize,
    pub(crate) is_waiting: AtomicBool,
    pub(crate) is_monitor: AtomicBool,
    /// The other side is a server: a replica, or the primary.
    pub(crate) is_replica: AtomicBool,
    pub(crate) is_primary: AtomicBool,
    /// A watched key has changed.
    pub(crate) is_dirty: AtomicBool,
    /// The number of its tracker if what it reads now is remembered, or 0.
    pub(crate) remembers: AtomicU64,
    /// The client that is told of changes for it, 0 for itself, −1 if it does not track.
    pub(crate) redirect: AtomicI64,
    pub(crate) broadcasts: AtomicBool,
    pub(crate) is_redirect_broken: AtomicBool,
    killed: AtomicBool,
    /// 1: end waiting as if the time were over. 2: end it with an error.
    pub(crate) unblocked: AtomicUsize,
    outbox: Mutex<(Vec<u8>, Counted)>,
    /// Wakes the connection: there is something in the outbox, or an end.
    pub(crate) wake: Notify,
}

/// The names that a client has given itself.
#[derive(Debug, Default, Clone)]
pub(crate) struct Names {
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) version: String,
}

impl Client {
    pub(crate) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Sends what the client has not asked for. A client that does not read is cut off.
    pub(crate) fn send(&self, reply: &Reply) {
        let mut outbox = lock(&self.outbox);
        let (bytes, counted) = &mut *outbox;
        reply.write(bytes, self.resp3.load(Ordering::Relaxed));
        if !counted.set(bytes.len()) || bytes.len() > OUTBOX_BYTES_MAX {
            *bytes = Vec::new();
            counted.set(0);
            self.killed.store(true, Ordering::Release);
        }
        drop(outbox);
        self.wake.notify_one();
    }

    pub(crate) fn take_outbox(&self) -> Vec<u8> {
        let mut outbox = lock(&self.outbox);
        outbox.1.set(0);
        std::mem::take(&mut outbox.0)
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        let is_some = |count: &AtomicUsize| count.load(Ordering::Relaxed) > 0;
        self.subscriptions.iter().any(is_some)
    }

    /// Returns true if the client is there to be told things, so that its silence means nothing.
    pub(crate) fn listens(&self) -> bool {
        self.is_subscribed() || self.is_monitor.load(Ordering::Relaxed)
    }

    /// The flags of CLIENT LIST.
    fn flags(&self) -> String {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let flags = [
            (is(&self.is_replica), 'S'),
            (is(&self.is_primary), 'M'),
            (is(&self.is_monitor), 'O'),
            (self.is_subscribed(), 'P'),
            (self.queued.load(Ordering::Relaxed) > 0, 'x'),
            (is(&self.is_waiting), 'b'),
            (self.redirect.load(Ordering::Relaxed) >= 0, 't'),
            (is(&self.is_redirect_broken), 'R'),
            (is(&self.broadcasts), 'B'),
        ];
        let flags: String = flags.iter().filter(|it| it.0).map(|it| it.1).collect();
        if flags.is_empty() {
            "N".to_owned()
        } else {
            flags
        }
    }

    /// A line of CLIENT LIST.
    pub(crate) fn line(&self) -> String {
        let names = lock(&self.names).clone();
        let last_used = *lock(&self.last_used);
        let commands = crate::commands::COMMANDS;
        let command = commands.get(self.last_command.load(Ordering::Relaxed));
        let command = match command {
            None => "NULL".to_owned(),
            Some(command) if command.has_subcommands() => {
                format!("{}|{}", command.name, lock(&self.last_subcommand))
            }
            Some(command) => command.name.to_owned(),
        };
        let count = |kind: Kind| self.subscriptions[kind as usize].load(Ordering::Relaxed);
        let queued = self.queued.load(Ordering::Relaxed) as i64 - 1;
        format!(
            "id={} addr={} laddr={} fd=0 name={} age={} idle={} flags={} db={} sub={} psub={} ssub={} \
             multi={queued} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 \
             oll=0 omem=0 tot-mem=0 events=r cmd={} user={} redir={} resp={} lib-name={} \
             lib-ver={}",
            self.id,
            self.address,
            self.local_address,
            names.name,
            self.since.elapsed().as_secs(),
            last_used.elapsed().as_secs(),
            self.flags(),
            self.db.load(Ordering::Relaxed),
            count(Kind::Channel),
            count(Kind::Pattern),
            count(Kind::Shard),
            command,
            lock(&self.user).name,
            self.redirect.load(Ordering::Relaxed),
            if self.resp3.load(Ordering::Relaxed) {
                3
            } else {
                2
            },
            names.library,
            names.version,
        )
    }
}

/// All connected clients, by number.
#[derive(Default)]
pub(crate) struct Clients {
    next: AtomicU64,
    open: Mutex<BTreeMap<u64, Arc<Client>>>,
    pub(crate) monitors: AtomicUsize,
}

impl Clients {
    pub(crate) fn add(
        &self,
        buffers: &Arc<Buffers>,
        user: Arc<User>,
        address: String,
        local_address: String,
    ) -> Arc<Client> {
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Ordering::Relaxed) + 1,
            address,
            local_address,
            names: Mutex::default(),
            user: Mutex::new(user),
            since: clock::now(),
            last_used: Mutex::new(clock::now()),
            last_command: AtomicUsize::new(usize::MAX),
            last_subcommand: Mutex::default(),
            db: AtomicUsize::new(0),
            resp3: AtomicBool::new(false),
            subscriptions: Default::default(),
            queued: AtomicUsize::new(0),
            is_waiting: AtomicBool::new(false),
            is_monitor: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            is_primary: AtomicBool::new(false),
            is_dirty: AtomicBool::new(false),
            remembers: AtomicU64::new(0),
            redirect: AtomicI64::new(-1),
            broadcasts: AtomicBool::new(false),
            is_redirect_broken: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            unblocked: AtomicUsize::new(0),
            outbox: Mutex::new((Vec::new(), buffers.count())),
            wake: Notify::new(),
        });
        lock(&self.open).insert(client.id, client.clone());
        client
    }

    pub(crate) fn remove(&self, client: &Client) {
        self.end_monitor(client);
        lock(&self.open).remove(&client.id);
    }

    /// The client is shown no commands any more. A second call does nothing.
    pub(crate) fn end_monitor(&self, client: &Client) {
        if client.is_monitor.swap(false, Ordering::Relaxed) {
            self.monitors.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Those that were not told to end.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        let open = lock(&self.open);
        open.values()
            .filter(|it| !it.is_killed())
            .cloned()
            .collect()
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.open).len()
    }

    pub(crate) fn find(&self, id: u64) -> Option<Arc<Client>> {
        lock(&self.open).get(&id).cloned()
    }

    /// Tells those who watch all commands of one.
    pub(crate) fn monitor(&self, db: usize, address: &str, args: &[&[u8]]) {
        let micros = clock::unix_micros();
        let words = without_passwords(args).into_iter();
        let quoted = words.map(quoted);
        let quoted: Vec<String> = quoted.collect();
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        let line = format!("{seconds}.{rest:06} [{db} {address}] {}", quoted.join(" "));
        let line = Reply::Line(line);
        for client in self.all() {
            if client.is_monitor.load(Ordering::Relaxed) {
                client.send(&line);
            }
        }
    }
}

/// A word between double quotes, as Redis shows it: `'` is itself.
fn quoted(word: &[u8]) -> String {
    let mut text = String::with_capacity(word.len() + 2);
    text.push('"');
    for byte in word {
        match byte {
            b'\\' | b'"' => text.extend(['\\', char::from(*byte)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(*byte)),
            // Writing to a string does not fail.
            other => drop(write!(text, "\\x{other:02x}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_as_redis_quotes_them() {
        let word = b"it's \"a\\b\"\r\n\t\x07\x08\0\x7f\xff~";
        let expected = r#""it's \"a\\b\"\r\n\t\a\b\x00\x7f\xff~""#;
        assert_eq!(quoted(word), expected);
    }
}
