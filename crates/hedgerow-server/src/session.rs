//! A connection's state between its commands.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::acl::{Denied, Refusal, User};
use crate::buffers::Counted;
use crate::client::{Client, lock};
use crate::cluster::Access;
use crate::commands::{Args, Command, NO_SCRIPT, full_name, subcommand, wrong_subcommand};
use crate::pubsub::{KINDS, Kind};
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::tracking::{Mode, Options};

/// The memory of a name beside its bytes: its places in the sets of the session and of the server.
const NAME_BYTES: usize = 320;

/// A queued command of a transaction.
pub(crate) struct Queued {
    pub(crate) command: &'static Command,
    pub(crate) args: Vec<Vec<u8>>,
}

/// The tracking of a client.
pub(crate) struct Tracked {
    id: u64,
    pub(crate) options: Options,
    /// CLIENT CACHING was called for the next command.
    pub(crate) caching: bool,
}

/// The replies that are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    SkipNext,
    SkipThis,
}

pub(crate) struct Session {
    pub(crate) server: Arc<Server>,
    pub(crate) client: Arc<Client>,
    pub(crate) user: Arc<User>,
    pub(crate) db: usize,
    pub(crate) resp3: bool,
    pub(crate) is_authenticated: bool,
    /// The connection ends after the replies are written.
    pub(crate) ends: bool,
    /// The server ends when the connection does.
    pub(crate) shuts_down: bool,
    pub(crate) replies: Replies,
    /// The bytes that count for the client: those of its connection, and of names.
    counted: Counted,
    /// The bytes of the connection's buffers.
    buffer_bytes: usize,
    /// The memory of the names that are kept: of channels and patterns, watched keys, prefixes.
    name_bytes: usize,
    /// The names of each kind that the client listens to.
    pub(crate) names: [BTreeSet<Vec<u8>>; KINDS.len()],
    pub(crate) queue: Option<Vec<Queued>>,
    /// The bytes of the queued commands.
    pub(crate) queued_bytes: usize,
    /// A command was refused when it was queued.
    pub(crate) queue_failed: bool,
    /// The keys that a transaction depends on, each with its time of expiry when it was watched, 0
    /// for none; a key that expires later has changed.
    pub(crate) watched: HashMap<(usize, Vec<u8>), u64>,
    pub(crate) tracked: Option<Tracked>,
    /// The wishes about slots that are elsewhere.
    pub(crate) access: Access,
    /// The client has written something since it last asked how many replicas have it.
    pub(crate) has_written: bool,
    /// The offset of what it had written then.
    pub(crate) written: u64,
}

impl Session {
    pub(crate) fn new(server: Arc<Server>, client: Arc<Client>) -> Session {
        let (user, is_authenticated) = server.acl.first();
        Session {
            is_authenticated,
            user,
            counted: server.buffers.count(),
            buffer_bytes: 0,
            name_bytes: 0,
            server,
            client,
            db: 0,
            resp3: false,
            ends: false,
            shuts_down: false,
            replies: Replies::On,
            names: Default::default(),
            queue: None,
            queued_bytes: 0,
            queue_failed: false,
            watched: HashMap::new(),
            tracked: None,
            access: Access::default(),
            has_written: false,
            written: 0,
        }
    }

    pub(crate) fn set_user(&mut self, user: Arc<User>, is_authenticated: bool) {
        *lock(&self.client.user) = user.clone();
        (self.user, self.is_authenticated) = (user, is_authenticated);
    }

    /// Checks that the user may make a call. What is refused is logged.
    pub(crate) fn allow(
        &self,
        command: &Command,
        args: Args<'_>,
        context: &'static str,
    ) -> Result<(), Reply> {
        let Err(denied) = self.user.check(command, args) else {
            return Ok(());
        };
        let is_unknown = args.len() > 1 && subcommand(command, args).is_none();
        if matches!(denied, Denied::Command) && command.has_subcommands() && is_unknown {
            // As in Redis: that it is not there, and not that it is not allowed.
            return Err(error(wrong_subcommand(args)));
        }
        let name = full_name(command, args);
        let text = match denied {
            Denied::Command => {
                format!("NOPERM this user has no permissions to run the '{name}' command")
            }
            Denied::Key(_) => "NOPERM this user has no permissions to access one of the keys used \
                               as arguments"
                .to_owned(),
            Denied::Channel(_) => "NOPERM this user has no permissions to access one of the \
                                   channels used as arguments"
                .to_owned(),
        };
        let refusal = Refusal::new(denied, context, &name, &self.user.name);
        self.server.note_refusal(refusal, &self.client);
        Err(error(text))
    }

    /// The place of a call, as ACL LOG names it.
    pub(crate) fn context(&self) -> &'static str {
        match self.queue {
            Some(_) => "multi",
            None => "toplevel",
        }
    }

    pub(crate) fn select(&mut self, db: usize) {
        self.db = db;
        self.client.db.store(db, Ordering::Relaxed);
    }

    pub(crate) fn set_resp3(&mut self, resp3: bool) {
        self.resp3 = resp3;
        self.client.resp3.store(resp3, Ordering::Relaxed);
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.names.iter().any(|it| !it.is_empty())
    }

    /// The subscriptions that are counted together with those of a kind.
    pub(crate) fn subscriptions(&self, kind: Kind) -> usize {
        let [channels, patterns, shards] = self.names.each_ref().map(BTreeSet::len);
        match kind {
            Kind::Channel | Kind::Pattern => channels + patterns,
            Kind::Shard => shards,
        }
    }

    /// Counts the bytes of the connection's buffers from now on. Returns false if there is no room.
    pub(crate) fn count_buffers(&mut self, bytes: usize) -> bool {
        self.buffer_bytes = bytes;
        self.counted.set(self.buffer_bytes + self.name_bytes)
    }

    /// Counts other memory of names in place of some. A client that takes more than there is room
    /// for is cut off; then it returns false, and nothing has changed.
    pub(crate) fn recount_names(&mut self, before: usize, bytes: usize) -> bool {
        let counted = self.name_bytes;
        self.name_bytes = counted - before + bytes;
        let is_kept = self.counted.set(self.buffer_bytes + self.name_bytes);
        if !is_kept {
            self.name_bytes = counted;
            self.counted.set(self.buffer_bytes + counted);
            self.client.kill();
        }
        is_kept
    }

    /// Adds or removes a subscription.
    pub(crate) fn subscribe(&mut self, name: &[u8], kind: Kind, on: bool) {
        let is_there = self.names[kind as usize].contains(name);
        let (before, bytes) = match on {
            _ if is_there == on => (0, 0),
            true => (0, memory_of(name)),
            false => (memory_of(name), 0),
        };
        if !self.recount_names(before, bytes) {
            return;
        }
        let names = &mut self.names[kind as usize];
        match on {
            true => names.insert(name.to_vec()),
            false => names.remove(name),
        };
        self.client.subscriptions[kind as usize].store(names.len(), Ordering::Relaxed);
        match on {
            true => self.server.pubsub.subscribe(&self.client, name, kind),
            false => self.server.pubsub.unsubscribe(&self.client, name, kind),
        }
    }

    /// Begins to track, or tracks with other options.
    pub(crate) fn track(&mut self, options: Options) {
        let before = self.tracked.as_ref().map(|it| &it.options);
        let before = before.map_or(0, prefix_bytes);
        if !self.recount_names(before, prefix_bytes(&options)) {
            return;
        }
        let (tracking, client) = (&self.server.tracking, &self.client);
        let id = match &self.tracked {
            None => tracking.begin(client, options.clone()),
            Some(Tracked { id, .. }) => {
                tracking.change(*id, client, options.clone());
                *id
            }
        };
        client
            .redirect
            .store(options.redirect as i64, Ordering::Relaxed);
        client.is_redirect_broken.store(false, Ordering::Relaxed);
        let broadcasts = options.mode == Mode::Broadcast;
        client.broadcasts.store(broadcasts, Ordering::Relaxed);
        self.tracked = Some(Tracked {
            id,
            options,
            caching: false,
        });
        self.set_caching(false);
    }

    pub(crate) fn end_tracking(&mut self) {
        if let Some(tracked) = self.tracked.take() {
            self.recount_names(prefix_bytes(&tracked.options), 0);
            self.server.tracking.end(tracked.id);
            self.client.redirect.store(-1, Ordering::Relaxed);
            self.client.remembers.store(0, Ordering::Relaxed);
            self.client.broadcasts.store(false, Ordering::Relaxed);
            self.client
                .is_redirect_broken
                .store(false, Ordering::Relaxed);
        }
    }

    /// Notes that CLIENT CACHING was called for the next command, or that this is over.
    pub(crate) fn set_caching(&mut self, caching: bool) {
        if let Some(tracked) = &mut self.tracked {
            tracked.caching = caching;
            let remembers = match tracked.options.mode {
                Mode::Reads => true,
                Mode::OptIn => caching,
                Mode::OptOut => !caching,
                Mode::Broadcast => false,
            };
            let id = if remembers { tracked.id } else { 0 };
            self.client.remembers.store(id, Ordering::Relaxed);
        }
    }

    /// Returns true if what a command reads is remembered in another way than what others read:
    /// behind CLIENT CACHING, and if it is a script.
    pub(crate) fn tracks_alone(&self, command: &Command) -> bool {
        let of = |it: &Tracked| it.caching || command.has(NO_SCRIPT);
        self.tracked.as_ref().is_some_and(of)
    }

    /// Lets the next transaction depend on a key. Returns false if it did already, or the client is
    /// cut off.
    pub(crate) fn watch(&mut self, key: (usize, Vec<u8>)) -> bool {
        if self.watched.contains_key(&key) || !self.recount_names(0, memory_of(&key.1)) {
            return false;
        }
        self.server.watches.add(&self.client, &key);
        self.watched.insert(key, 0);
        true
    }

    pub(crate) fn unwatch(&mut self) {
        for key in std::mem::take(&mut self.watched).into_keys() {
            self.server.watches.remove(&self.client, &key);
            self.recount_names(memory_of(&key.1), 0);
        }
        self.client.is_dirty.store(false, Ordering::Release);
    }

    /// Leaves the transaction, if there is one.
    pub(crate) fn discard(&mut self) {
        self.queue = None;
        self.queued_bytes = 0;
        self.queue_failed = false;
        self.client.queued.store(0, Ordering::Relaxed);
        self.unwatch();
    }

    /// Gives back everything that others keep for the connection.
    pub(crate) fn reset(&mut self) {
        self.discard();
        self.end_tracking();
        for kind in KINDS {
            for name in std::mem::take(&mut self.names[kind as usize]) {
                self.server.pubsub.unsubscribe(&self.client, &name, kind);
                self.recount_names(memory_of(&name), 0);
            }
            self.client.subscriptions[kind as usize].store(0, Ordering::Relaxed);
        }
        self.server.clients.end_monitor(&self.client);
    }
}

/// The memory of a name, which the session has and the server.
fn memory_of(name: &[u8]) -> usize {
    2 * name.len() + NAME_BYTES
}

fn prefix_bytes(options: &Options) -> usize {
    // The tracker has the options, too.
    let bytes = options.prefixes.iter().map(|it| memory_of(it) + it.len());
    bytes.sum()
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reset();
        self.server.clients.remove(&self.client);
    }
}
