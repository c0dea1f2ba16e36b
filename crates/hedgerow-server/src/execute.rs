//! Running commands of data: many at once, in order, as one commit.
//!
//! An *attempt* is one call without an await. It takes the stripes of all keys if any command
//! writes, looks at one state of the databases, runs the commands one after the other over it, and
//! commits all writes as one batch. If a command needs the device, what was done before it is
//! committed; the commands behind it are run only to learn what they will need, and undone. Then
//! all pages are read together, with no lock held, and the next attempt begins at that command.
//!
//! Cost of an attempt without the device: the searches in memory, and one record of the log if
//! anything was written. A snapshot if it only reads and a command reads several entries.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hedgerow::Keyspace;

use crate::acl::{Denied, Refusal};
use crate::client::{Client, lock};
use crate::clock;
use crate::commands::{ALL_KEYS, Args, Command, NO_SCRIPT, READ, Run, WRITE};
use crate::connection::REPLY_BYTES_MAX;
use crate::pubsub::Kind;
use crate::resp::Reply;
use crate::server::Server;
use crate::store::{
    Databases, Effects, Held, Mode, Room, Sizes, Stop, Stripes, Txn, WANTED_MAX, Wanted,
    engine_error,
};

/// The rounds of reads after which a command runs where it may wait for the device itself: the
/// pages do not stay in memory long enough.
const ROUNDS_MAX: u32 = 3;

/// A command with its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) command: &'static Command,
    pub(crate) args: Args<'a>,
}

impl Call<'_> {
    fn reads_once(&self) -> bool {
        self.command.reads_once(self.args)
    }
}

/// The view of a connection that commands depend on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Caller<'a> {
    pub(crate) db: usize,
    pub(crate) resp3: bool,
    /// The command runs for a client that waits: a key of another type is as good as none.
    pub(crate) is_waiting: bool,
    /// All commands are one transaction.
    pub(crate) atomic: Option<&'a (dyn Fn() -> bool + Sync)>,
    /// The keys that the transaction depends on.
    pub(crate) watched: &'a [(usize, Vec<u8>)],
    /// All others are excluded.
    pub(crate) excludes: bool,
    /// The bytes of the transaction's replies that there are already.
    pub(crate) replied: usize,
    pub(crate) address: &'a str,
    /// The client, whose user limits what scripts may do.
    pub(crate) client: Option<&'a Client>,
}

/// The outcome of running commands.
pub(crate) struct Outcome {
    pub(crate) replies: Vec<Reply>,
    pub(crate) effects: Effects,
    pub(crate) db: usize,
    pub(crate) wrote: bool,
    /// The transaction was refused, since something that it depends on has changed.
    pub(crate) refused: bool,
}

/// The manner in which an attempt is made.
#[derive(Clone, Copy)]
struct Manner {
    mode: Mode,
    /// It takes all locks, not only those of its keys.
    all_keys: bool,
    /// It waits a little for a lock: an attempt before has found one taken.
    waits: bool,
    /// It takes a snapshot, whatever the table says of its commands.
    pins: bool,
}

impl Manner {
    const FIRST: Manner = Manner {
        mode: Mode::Memory,
        all_keys: false,
        waits: false,
        pins: false,
    };
}

/// The next step after an attempt.
enum Next {
    Done,
    Read(Vec<Wanted>),
    Busy,
    Device,
    Database(usize),
    /// All keys have to be held.
    AllKeys,
    /// A command reads several entries.
    Snapshot,
    Refused,
}

impl Server {
    /// Runs commands in their order. Others see each of them whole; with `atomic`, all of them.
    /// Otherwise it ends early behind much to reply: the caller runs those that have no reply yet.
    pub(crate) async fn run(&self, caller: Caller<'_>, calls: &[Call<'_>]) -> Outcome {
        let mut outcome = Outcome {
            replies: Vec::with_capacity(calls.len()),
            effects: Effects::default(),
            db: caller.db,
            wrote: false,
            refused: false,
        };
        let (mut manner, mut rounds, mut busy) = (Manner::FIRST, 0, 0);
        while !is_over(&outcome.replies, calls.len(), caller) {
            let before = outcome.replies.len();
            let caller = Caller {
                db: outcome.db,
                ..caller
            };
            manner.waits = busy > 0;
            let part = part(&calls[before..], manner.mode, caller);
            let mut attempt = || self.attempt(caller, part, manner, &mut outcome);
            let next = match manner.mode {
                Mode::Memory => attempt(),
                Mode::Device => self.in_turn(caller.excludes, attempt).await,
            };
            if outcome.replies.len() > before {
                (manner, rounds) = (Manner::FIRST, 0);
            }
            match next {
                Next::Done => {}
                Next::Refused => {
                    outcome.refused = true;
                    return outcome;
                }
                Next::Busy => {
                    busy += 1;
                    back_off(busy).await;
                }
                Next::Device => manner.mode = Mode::Device,
                Next::AllKeys => manner.all_keys = true,
                Next::Snapshot => manner.pins = true,
                Next::Read(_) if rounds >= ROUNDS_MAX => manner.mode = Mode::Device,
                Next::Read(wanted) => {
                    rounds += 1;
                    read(wanted).await;
                }
                Next::Database(db) => {
                    let made = tokio::task::block_in_place(|| self.create(db));
                    match made {
                        None => back_off(busy).await,
                        Some(Ok(())) => {}
                        Some(Err(error)) => {
                            let error = engine_error(&error);
                            outcome.replies.resize(calls.len(), error);
                        }
                    }
                }
            }
        }
        outcome
    }

    fn attempt(
        &self,
        caller: Caller<'_>,
        calls: &[Call<'_>],
        manner: Manner,
        outcome: &mut Outcome,
    ) -> Next {
        let epoch = self.exclusion.epoch();
        let databases = self.databases();
        let writes = calls.iter().any(|it| it.command.has(WRITE));
        let holds = writes || caller.atomic.is_some();
        let (_guards, held) = if holds {
            let Some((guards, held)) = self.hold(&databases, caller, (calls, manner)) else {
                return Next::Busy;
            };
            (Some(guards), held)
        } else {
            (None, Held::Some(Vec::new()))
        };
        // Behind the locks and the databases: who sets a flag waits for both.
        let waits = self.replication.is_loading() || writes && self.replication.is_paused();
        if waits || epoch.is_none() && !caller.excludes {
            return Next::Busy;
        }
        if caller.atomic.is_some_and(|is_unchanged| !is_unchanged()) {
            return Next::Refused;
        }
        // Before the state is looked at: no change between the two is missed.
        let of_scripts = self.remember_reads(caller, calls);
        let listeners = |kind: Kind, channel: &[u8]| self.pubsub.receivers(kind, channel);
        let mut txn = Txn::of_present(&databases, manner.mode, self.now());
        let reads_once = !holds && !manner.pins && calls.iter().all(Call::reads_once);
        self.look(&mut txn, reads_once, holds);
        let is_excluded = || self.exclusion.epoch() != epoch && !caller.excludes;
        if is_excluded() {
            return Next::Busy;
        }
        self.prepare(&mut txn, caller, (held, writes));
        txn.listeners = Some(&listeners);
        let before = outcome.replies.len();
        let next = self.run_over(&mut txn, caller, calls, &mut outcome.replies);
        // Without a snapshot they have read until now.
        let is_late = reads_once && (is_excluded() || !txn.has_present_map());
        let next = if is_late { Next::Busy } else { next };
        if is_late || caller.atomic.is_some() && !matches!(next, Next::Done) {
            outcome.replies.truncate(before);
            return next;
        }
        self.conclude(txn, caller, (&of_scripts, before), outcome);
        next
    }

    /// Chooses the state that an attempt reads.
    fn look(&self, txn: &mut Txn<'_>, reads_once: bool, holds: bool) {
        if reads_once {
            txn.read_once();
        } else if !holds || self.replication.is_replica() {
            // The commits of a primary are applied whatever is held.
            txn.pin();
        }
    }

    /// Commits what commands have done. Their replies are those of the outcome from a place on.
    fn conclude(
        &self,
        txn: Txn<'_>,
        caller: Caller<'_>,
        (of_scripts, before): (&[&[u8]], usize),
        outcome: &mut Outcome,
    ) {
        let (db, wrote) = (txn.db, txn.has_writes());
        match self.commit(txn) {
            Ok(mut effects) => {
                self.note_committed(caller, &mut effects, of_scripts);
                outcome.effects.append(effects);
                outcome.db = db;
                outcome.wrote |= wrote;
            }
            Err(error) => outcome.replies[before..].fill(engine_error(&error)),
        }
    }

    /// Tells a transaction of its caller, and of those who may want to know of it.
    fn prepare<'a>(&'a self, txn: &mut Txn<'a>, caller: Caller<'_>, (held, writes): (Held, bool)) {
        (txn.held, txn.refusal) = (held, self.refusal_of(writes, caller.client.is_some()));
        (txn.db, txn.resp3, txn.is_waiting) = (caller.db, caller.resp3, caller.is_waiting);
        txn.rules = caller.client.and_then(|it| lock(&it.user).limits());
        let is_shared = caller.atomic.is_some();
        txn.room = Room::behind(self.buffers.bytes_max(), caller.replied, is_shared);
        (txn.cluster, txn.tells_events) =
            (self.cluster.as_deref(), !self.config.events().is_empty());
        txn.is_followed = self.replication.is_followed();
        txn.shows_calls = self.clients.monitors.load(Ordering::Relaxed) > 0;
    }

    /// Tells those whose own commands depend on it of a commit, while the keys are still held.
    fn note_committed(&self, caller: Caller<'_>, effects: &mut Effects, of_scripts: &[&[u8]]) {
        for (denied, name) in effects.denied.drain(..) {
            self.note_denied(caller, denied, &name);
        }
        let touched = std::mem::take(&mut effects.touched);
        if touched.len() > 0 {
            self.watches.touch(touched.iter());
            self.changes
                .fetch_add(touched.len() as u64, Ordering::Relaxed);
        }
        let client = caller.client;
        if !of_scripts.is_empty() && !effects.script_reads {
            let tracker = client.map_or(0, |it| it.remembers.load(Ordering::Relaxed));
            self.tracking.forget(tracker, of_scripts);
        }
        if self.tracking.is_used() {
            let writer = client.map_or(0, |it| it.id);
            let changed = touched.iter().map(|(_, key)| (writer, key.to_vec()));
            effects.changed.extend(changed);
        }
    }

    /// Remembers a client that tracks keys with those that it reads. Returns the keys of scripts,
    /// which may turn out to read nothing.
    fn remember_reads<'a>(&self, caller: Caller<'_>, calls: &[Call<'a>]) -> Vec<&'a [u8]> {
        let tracker = caller
            .client
            .map_or(0, |it| it.remembers.load(Ordering::Relaxed));
        if tracker == 0 {
            return Vec::new();
        }
        let keys_max = self.config.tracked_keys_max();
        let remember = |calls: &mut dyn Iterator<Item = &Call<'a>>| {
            let keys = calls.flat_map(|it| it.command.keys.of(it.args));
            self.tracking
                .remember(&self.clients, (tracker, keys_max), keys)
        };
        let is_script = |it: &&Call<'_>| it.command.has(NO_SCRIPT);
        // PFCOUNT writes what it has counted.
        let reads = |it: &&Call<'_>| it.command.has(READ) || it.command.name == "pfcount";
        remember(&mut calls.iter().filter(|it| reads(it) && !is_script(it)));
        let mut scripts = calls.iter().filter(is_script).peekable();
        match scripts.peek() {
            None => Vec::new(),
            Some(_) => remember(&mut scripts),
        }
    }

    /// Runs commands until one cannot. The ones behind it are run and undone.
    fn run_over(
        &self,
        txn: &mut Txn<'_>,
        caller: Caller<'_>,
        calls: &[Call<'_>],
        replies: &mut Vec<Reply>,
    ) -> Next {
        let (mut next, mut began, mut reply_bytes) = (Next::Done, clock::now(), 0);
        let reply_bytes_max = caller.atomic.map_or(REPLY_BYTES_MAX, |_| usize::MAX);
        for call in calls {
            let Run::Data(run) = call.command.run else {
                continue;
            };
            let looks_ahead = !matches!(next, Next::Done);
            if reply_bytes > reply_bytes_max || looks_ahead && txn.wanted.len() >= WANTED_MAX {
                break;
            }
            txn.begin();
            let refused = self.refused(call.command, txn.refusal);
            let answer = match refused.map_or_else(|| run(txn, call.args), Ok) {
                Ok(_) if looks_ahead => Err(Stop::Read),
                answer => answer.and_then(|reply| txn.room.hold(reply)),
            };
            let reply = match answer {
                Ok(reply) => reply,
                Err(stop) => {
                    if let Err(error) = txn.undo() {
                        replies.push(engine_error(&error));
                        continue;
                    }
                    match stop {
                        _ if looks_ahead => continue,
                        Stop::Reply(text) => Reply::Error(text),
                        Stop::Engine(error) => engine_error(&error),
                        Stop::Read => {
                            next = Next::Read(Vec::new());
                            continue;
                        }
                        Stop::Device => return Next::Device,
                        Stop::Database(db) => return Next::Database(db),
                        Stop::AllKeys => return Next::AllKeys,
                        Stop::Snapshot => return Next::Snapshot,
                    }
                }
            };
            let ended = clock::now();
            // The server's own calls, and further tries of those who wait, have no address.
            if let Some(client) = caller.client.filter(|_| !caller.address.is_empty()) {
                self.count(call, &reply, ended - began, client);
            }
            began = ended;
            txn.count_lookups(call.command.has(READ));
            reply_bytes += reply.bytes();
            replies.push(reply);
        }
        match next {
            Next::Read(_) => Next::Read(std::mem::take(&mut txn.wanted)),
            next => next,
        }
    }

    /// Remembers what a script was refused.
    fn note_denied(&self, caller: Caller<'_>, denied: Denied, name: &str) {
        if let Some(client) = caller.client {
            let user = lock(&client.user).name.clone();
            self.note_refusal(Refusal::new(denied, "lua", name, &user), client);
        }
    }

    /// Makes the keyspaces of a database. `None` if that has to wait.
    fn create(&self, db: usize) -> Option<hedgerow::Result<()>> {
        let databases = self.databases();
        let _held = self.stripes.try_hold(&mut vec![0])?;
        let waits = self.replication.is_loading() || self.replication.is_paused();
        if waits || self.replication.is_replica() {
            return None;
        }
        Some(databases.create(db))
    }

    /// Takes the locks of all keys of these calls.
    fn hold<'a>(
        &'a self,
        databases: &Databases,
        caller: Caller<'_>,
        (calls, manner): (&[Call<'_>], Manner),
    ) -> Option<(impl Sized + use<'a>, Held)> {
        let is_of_all = |it: &Call<'_>| it.command.has(ALL_KEYS);
        if manner.all_keys || calls.iter().any(is_of_all) && caller.atomic.is_some() {
            return Some((self.stripes.try_hold_all()?, Held::All));
        }
        let of_key = |key: &[u8]| Stripes::of(databases.hash(key));
        let mut stripes = Vec::with_capacity(calls.len());
        for call in calls {
            let keys = call.command.keys;
            keys.each(call.args, |key| stripes.push(of_key(key)));
        }
        stripes.extend(caller.watched.iter().map(|(_, key)| of_key(key)));
        let guards = match manner.waits {
            true => self.stripes.hold_soon(&mut stripes),
            false => self.stripes.try_hold(&mut stripes),
        };
        Some((guards?, Held::Some(stripes)))
    }

    /// Counts a command, and remembers it if it was slow.
    pub(crate) fn count(&self, call: &Call<'_>, reply: &Reply, took: Duration, client: &Client) {
        let micros = took.as_micros() as u64;
        self.counters.note(call.command, micros, reply.is_error());
        self.slow_log.note(micros, call.args, client);
    }
}

/// The calls of the next attempt. Where commands wait for the device, they do so one by one: those
/// behind a walk need not, unless they are walks of the same command.
fn part<'a, 'b>(left: &'a [Call<'b>], mode: Mode, caller: Caller<'_>) -> &'a [Call<'b>] {
    if mode == Mode::Memory || caller.atomic.is_some() {
        return left;
    }
    let is_same = |it: &&Call<'_>| std::ptr::eq(it.command, left[0].command);
    &left[..left.iter().take_while(is_same).count()]
}

/// Returns true if there are all replies, or many bytes, which are to be sent before more are made.
fn is_over(replies: &[Reply], count: usize, caller: Caller<'_>) -> bool {
    let bytes = || replies.iter().map(Reply::bytes).sum::<usize>();
    replies.len() == count || caller.atomic.is_none() && bytes() > REPLY_BYTES_MAX
}

/// Lets others run who hold a stripe. They hold it for microseconds, or while they read.
async fn back_off(tries: u32) {
    if tries < 8 {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(Duration::from_micros(u64::from(tries.min(100)) * 20)).await;
    }
}

/// Reads keys, so that their pages are in memory: in parts, and not those behind many bytes. What
/// is missing then is asked for again.
async fn read(wanted: Vec<Wanted>) {
    let (mut sizes, mut left) = (Sizes::default(), &wanted[..]);
    while !left.is_empty() && !sizes.are_many() {
        let (part, behind) = sizes.next(left);
        read_together(part, &mut sizes).await;
        left = behind;
    }
}

/// Reads some keys. The reads of a keyspace overlap.
async fn read_together(wanted: &[Wanted], sizes: &mut Sizes) {
    let mut by_keyspace: BTreeMap<String, (&Keyspace, Vec<&[u8]>)> = BTreeMap::new();
    for (keyspace, key) in wanted {
        let of_keyspace = by_keyspace.entry(keyspace.name());
        of_keyspace
            .or_insert_with(|| (keyspace, Vec::new()))
            .1
            .push(key);
    }
    let pending = by_keyspace
        .values()
        .map(|(keyspace, keys)| keyspace.multi_get_async(keys));
    for pending in pending.collect::<Vec<_>>() {
        // An error comes again when the command reads the key.
        let values = pending.await.unwrap_or_default();
        values.iter().for_each(|it| sizes.note(it.as_ref()));
    }
}

mod announce;
