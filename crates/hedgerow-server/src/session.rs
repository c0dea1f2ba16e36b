//! A connection's state between its commands.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::acl::{Denied, Refusal, User};
use crate::client::{Client, lock};
use crate::cluster::Access;
use crate::commands::{Args, Command, NO_SCRIPT, full_name, subcommand, wrong_subcommand};
use crate::pubsub::{KINDS, Kind};
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::tracking::{Mode, Options};

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

    /// Adds or removes a subscription.
    pub(crate) fn subscribe(&mut self, name: &[u8], kind: Kind, on: bool) {
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

    pub(crate) fn unwatch(&mut self) {
        for key in std::mem::take(&mut self.watched).into_keys() {
            self.server.watches.remove(&self.client, &key);
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
            }
            self.client.subscriptions[kind as usize].store(0, Ordering::Relaxed);
        }
        self.server.clients.end_monitor(&self.client);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.reset();
        self.server.clients.remove(&self.client);
    }
}
