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
use std::time::{Duration, Instant};

pub(crate) use announce::Served;
use hedgerow::Keyspace;
pub(crate) use notes::note_lookups;
use tokio::sync::Semaphore;
use turns::{back_off, takes_all};

use crate::client::{Client, lock};
use crate::clock;
use crate::commands::{Args, Command, Run, WRITE};
use crate::connection::REPLY_BYTES_MAX;
use crate::pubsub::Kind;
use crate::replication;
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::store::{
    Databases, Effects, Held, Mode, Room, Sizes, Stop, Stripes, Turn, Txn, WANTED_MAX, Wanted,
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
    /// The times that the commands took, for those with a reply.
    took: Vec<Duration>,
}

impl Outcome {
    fn begin(db: usize, count: usize) -> Outcome {
        Outcome {
            replies: Vec::with_capacity(count),
            effects: Effects::default(),
            db,
            wrote: false,
            refused: false,
            took: Vec::with_capacity(count),
        }
    }

    /// Takes back what an attempt has added.
    fn truncate(&mut self, count: usize) {
        self.replies.truncate(count);
        self.took.truncate(count);
    }
}

/// The manner in which an attempt is made.
#[derive(Clone, Copy)]
struct Manner {
    mode: Mode,
    /// It takes all locks, not only those of its keys.
    all_keys: bool,
    /// It keeps the gate of the stripes closed.
    closes: bool,
    /// It waits a little for a lock: an attempt before has found one taken.
    waits: bool,
    /// It takes a snapshot, whatever the table says of its commands.
    pins: bool,
    /// Its commit may wait for the engine's flushes and merges.
    is_delayed: bool,
    /// The time when its first command began, in this attempt or one before.
    began: Instant,
}

impl Manner {
    fn first() -> Manner {
        Manner {
            mode: Mode::Memory,
            all_keys: false,
            closes: false,
            waits: false,
            pins: false,
            is_delayed: false,
            began: clock::now(),
        }
    }
}

/// The next step after an attempt.
enum Next {
    Done,
    Read(Vec<Wanted>),
    /// A stripe is taken, or somebody takes all.
    Taken,
    Busy,
    /// The commit would wait, since the engine's flushes or merges are behind.
    Delayed,
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
        let mut outcome = Outcome::begin(caller.db, calls.len());
        let (mut manner, mut rounds, mut busy, mut turn) = (Manner::first(), 0, 0, None);
        while !is_over(&outcome.replies, calls.len(), caller) {
            let before = outcome.replies.len();
            let caller = Caller {
                db: outcome.db,
                ..caller
            };
            manner.waits = busy > 0;
            manner.closes = turn.as_ref().is_some_and(Turn::closes);
            let part = part(&calls[before..], manner.mode, caller);
            let takes_all = takes_all(caller, part, manner) && !caller.excludes;
            let mut attempt = || self.attempt(caller, part, manner, &mut outcome);
            let turns = match manner.mode {
                _ if manner.is_delayed => Some(&self.delayed),
                Mode::Device => Some(&self.on_device),
                Mode::Memory => None,
            };
            let next = match turns {
                Some(turns) => in_turn(turns, caller.excludes || manner.closes, attempt).await,
                None => attempt(),
            };
            if outcome.replies.len() > before && !matches!(next, Next::Done) {
                (manner, rounds) = (Manner::first(), 0);
            }
            // The waits below may be for somebody who needs stripes.
            turn = turn.filter(|_| matches!(next, Next::Taken));
            match next {
                Next::Done => manner = Manner::first(),
                Next::Refused => {
                    outcome.refused = true;
                    return outcome;
                }
                Next::Taken => {
                    busy += 1;
                    turn = self.line_up(turn, takes_all, busy).await;
                }
                Next::Busy => {
                    busy += 1;
                    back_off(busy).await;
                }
                Next::Delayed => manner.is_delayed = true,
                Next::Device => manner.mode = Mode::Device,
                Next::AllKeys => manner.all_keys = true,
                Next::Snapshot => manner.pins = true,
                Next::Read(_) if rounds >= ROUNDS_MAX => manner.mode = Mode::Device,
                Next::Read(wanted) => {
                    rounds += 1;
                    read(wanted).await;
                }
                Next::Database(db) => {
                    if let Err(error) = self.create(db, busy).await {
                        outcome.replies.resize(calls.len(), engine_error(&error));
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
        if epoch.is_none() && !caller.excludes {
            return Next::Busy;
        }
        let (_guards, held) = if holds {
            let Some((guards, held)) = self.hold(&databases, caller, (calls, manner)) else {
                return Next::Taken;
            };
            (Some(guards), held)
        } else {
            (None, Held::Some(Vec::new()))
        };
        // Behind the locks and the databases: who sets a flag waits for both.
        let waits = self.replication.is_loading() || writes && self.replication.is_paused();
        if waits {
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
        let next = self.run_over(&mut txn, caller, (calls, manner.began), outcome);
        // Without a snapshot they have read until now.
        let is_late = reads_once && (is_excluded() || !txn.has_present_map());
        let is_whole = caller.atomic.is_none() || matches!(next, Next::Done);
        let ended = match next {
            _ if is_late => Err(Next::Busy),
            next if !is_whole => Err(next),
            _ if !manner.is_delayed && txn.is_delayed() => Err(Next::Delayed),
            next => Ok(next),
        };
        match ended {
            Ok(_) => self.conclude(txn, caller, (calls, &of_scripts, before), outcome),
            Err(_) => outcome.truncate(before),
        }
        ended.unwrap_or_else(|next| next)
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

    /// Commits what commands have done, and counts them. Their replies are those of the outcome
    /// from a place on.
    fn conclude(
        &self,
        txn: Txn<'_>,
        caller: Caller<'_>,
        (calls, of_scripts, before): (&[Call<'_>], &[&[u8]], usize),
        outcome: &mut Outcome,
    ) {
        let (db, wrote) = (txn.db, txn.has_writes());
        let began = clock::now();
        let committed = self.commit(txn);
        if let Some(last) = outcome.took.last_mut().filter(|_| wrote) {
            *last += began.elapsed();
        }
        match committed {
            Ok(mut effects) => {
                self.note_committed(caller, &mut effects, of_scripts);
                outcome.effects.append(effects);
                outcome.db = db;
                outcome.wrote |= wrote;
            }
            Err(error) => outcome.replies[before..].fill(engine_error(&error)),
        }
        self.count_all(caller, calls, (before, outcome));
    }

    /// Tells a transaction of its caller, and of those who may want to know of it.
    fn prepare<'a>(&'a self, txn: &mut Txn<'a>, caller: Caller<'_>, (held, writes): (Held, bool)) {
        (txn.held, txn.refusal) = (held, self.refusal_of(writes, caller.client.is_some()));
        (txn.db, txn.resp3, txn.is_waiting) = (caller.db, caller.resp3, caller.is_waiting);
        txn.rules = caller.client.and_then(|it| lock(&it.user).limits());
        let is_shared = caller.atomic.is_some();
        txn.room = Room::behind(self.buffers.bytes_max(), caller.replied, is_shared);
        let events = self.config.events();
        (txn.cluster, txn.tells_events) = (self.cluster.as_deref(), !events.is_empty());
        // Whoever waits was told when it began to.
        txn.misses.are_told = events.contains(&b'm') && !caller.is_waiting;
        txn.is_followed = self.replication.is_followed();
        txn.shows_calls = self.clients.monitors.load(Ordering::Relaxed) > 0;
    }

    /// Runs commands until one cannot. The ones behind it are run and undone.
    fn run_over(
        &self,
        txn: &mut Txn<'_>,
        caller: Caller<'_>,
        (calls, mut began): (&[Call<'_>], Instant),
        outcome: &mut Outcome,
    ) -> Next {
        let Outcome { replies, took, .. } = outcome;
        let (mut next, mut reply_bytes) = (Next::Done, 0);
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
            let refused = replication::refused(call.command, txn.refusal);
            let answer = match refused.map_or_else(|| run(txn, call.args), |text| Ok(error(text))) {
                Ok(_) if looks_ahead => Err(Stop::Read),
                answer => answer.and_then(|reply| txn.room.hold(reply)),
            };
            let reply = match answer {
                Ok(reply) => reply,
                Err(stop) => {
                    if let Err(error) = txn.undo() {
                        replies.push(engine_error(&error));
                        took.push(began.elapsed());
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
            took.push(ended - began);
            began = ended;
            note_lookups(txn, call.command, call.args);
            reply_bytes += reply.bytes();
            replies.push(reply);
        }
        match next {
            Next::Read(_) => Next::Read(std::mem::take(&mut txn.wanted)),
            next => next,
        }
    }

    /// Makes the keyspaces of a database, or waits a little if that is not possible now.
    async fn create(&self, db: usize, busy: u32) -> hedgerow::Result<()> {
        let create = || {
            let databases = self.databases();
            let _held = self.stripes.try_hold(&mut vec![0])?;
            let waits = self.replication.is_loading() || self.replication.is_paused();
            let waits = waits || self.replication.is_replica();
            (!waits).then(|| databases.create(db))
        };
        match tokio::task::block_in_place(create) {
            Some(created) => created,
            None => {
                back_off(busy).await;
                Ok(())
            }
        }
    }

    /// Takes the locks of all keys of these calls.
    fn hold<'a>(
        &'a self,
        databases: &Databases,
        caller: Caller<'_>,
        (calls, manner): (&[Call<'_>], Manner),
    ) -> Option<(impl Sized + use<'a>, Held)> {
        // Whoever closes the gate waits for the one that excludes all others.
        if self.stripes.gate.is_closed() && !manner.closes && !caller.excludes {
            return None;
        }
        if takes_all(caller, calls, manner) {
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

/// Runs an attempt where it may wait. Few do at once. Nothing is held while it waits for its turn.
/// So whoever excludes all others or keeps the gate closed, who is one each, does not wait.
async fn in_turn<T>(turns: &Semaphore, is_alone: bool, attempt: impl FnOnce() -> T) -> T {
    // Nobody closes the semaphore.
    let _turn = match is_alone {
        true => None,
        false => turns.acquire().await.ok(),
    };
    tokio::task::block_in_place(attempt)
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
mod notes;
mod turns;

#[cfg(test)]
mod tests;
