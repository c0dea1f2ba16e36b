//! Clients that wait for a key to have something. Each waits with its whole command, which the
//! client that changes the key runs for it: first come, first served.
//!
//! Commands that take what a list or a sorted set has are in a line each. If one of them finds
//! nothing, those behind it would find nothing either, so they are not run. Nobody waits beside an
//! element: who adds one runs them behind its commit, in their order, until one finds the key
//! empty; who begins to wait runs its own command once. If somebody else runs a command, whoever
//! wants to run it waits for the end of that run: an element does not pass a client that stood in
//! front. A client that leaves has no part in that.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::{MutexGuard, oneshot};

use crate::client::{Client, lock};
use crate::commands::Command;
use crate::resp::Reply;

pub(crate) type Key = (usize, Vec<u8>);

/// The lines of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line {
    /// Those who take elements of a list.
    Lists,
    /// Those who take members of a sorted set.
    SortedSets,
    /// Those who read streams: what one reads may be there for others.
    Streams,
}

pub(crate) const LINES: [Line; 3] = [Line::Lists, Line::SortedSets, Line::Streams];

/// The waiters of a line that are looked up together.
const PART: usize = 8;

/// A command that waits.
pub(crate) struct Waiter {
    pub(crate) command: &'static Command,
    pub(crate) args: Vec<Vec<u8>>,
    /// The client that waits, in whose name the command runs.
    pub(crate) client: Arc<Client>,
    pub(crate) db: usize,
    pub(crate) resp3: bool,
    keys: Vec<Key>,
    line: Line,
    /// Its place in the order of all, from when it is added.
    number: AtomicU64,
    /// Held by whoever runs the command. `None` if it needs to run no more: it has taken
    /// something, or the client has left.
    reply: tokio::sync::Mutex<Option<oneshot::Sender<Reply>>>,
}

impl Waiter {
    pub(crate) fn new(
        client: Arc<Client>,
        (command, args): (&'static Command, Vec<Vec<u8>>),
        (db, resp3): (usize, bool),
    ) -> (Arc<Waiter>, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let mut keys = command.keys.of(&words);
        let line = match command.name {
            "xread" | "xreadgroup" => Line::Streams,
            name if name.starts_with("bz") => Line::SortedSets,
            _ => Line::Lists,
        };
        if let "blmove" | "brpoplpush" = command.name {
            // Nobody waits for the list that they move to.
            keys.truncate(1);
        }
        let waiter = Arc::new(Waiter {
            command,
            keys: keys.into_iter().map(|it| (db, it.to_vec())).collect(),
            args,
            client,
            db,
            resp3,
            line,
            number: AtomicU64::new(0),
            reply: tokio::sync::Mutex::new(Some(sender)),
        });
        (waiter, receiver)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// The right to run the command, behind those who run it now. `None` if it needs to run no
    /// more. Whoever gets a reply from it takes what is returned, and sends it.
    pub(crate) async fn turn(&self) -> Option<MutexGuard<'_, Option<oneshot::Sender<Reply>>>> {
        let turn = self.reply.lock().await;
        turn.is_some().then_some(turn)
    }

    /// Ends the waiting behind those who run the command. `None` if it has a reply, or gets one as
    /// soon as what it has taken is durable.
    pub(crate) async fn leave(&self) -> Option<oneshot::Sender<Reply>> {
        self.reply.lock().await.take()
    }

    /// Ends the waiting with a reply, unless it has one.
    pub(crate) async fn redirect(&self, reply: Reply) {
        if let Some(sender) = self.leave().await {
            // Nobody receives it if the connection has ended.
            let _ = sender.send(reply);
        }
    }
}

/// The lines of a key, each by the numbers of its waiters.
type Lines = [VecDeque<Arc<Waiter>>; LINES.len()];

#[derive(Default)]
struct State {
    by_key: HashMap<Key, Lines>,
    numbers_before: u64,
}

#[derive(Default)]
pub(crate) struct Waiters {
    state: Mutex<State>,
    count: AtomicUsize,
}

/// The place in a line behind a number.
fn behind(line: &VecDeque<Arc<Waiter>>, number: u64) -> usize {
    line.partition_point(|it| it.number() <= number)
}

impl Waiters {
    pub(crate) fn add(&self, waiter: &Arc<Waiter>) {
        let mut state = lock(&self.state);
        state.numbers_before += 1;
        waiter.number.store(state.numbers_before, Ordering::Relaxed);
        for key in &waiter.keys {
            let lines = state.by_key.entry(key.clone()).or_default();
            lines[waiter.line as usize].push_back(waiter.clone());
        }
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn remove(&self, waiter: &Arc<Waiter>) {
        let mut state = lock(&self.state);
        for key in &waiter.keys {
            if let Some(lines) = state.by_key.get_mut(key) {
                let line = &mut lines[waiter.line as usize];
                // A key that was named twice is there twice.
                let from = behind(line, waiter.number() - 1);
                line.drain(from..behind(line, waiter.number()));
                if lines.iter().all(VecDeque::is_empty) {
                    state.by_key.remove(key);
                }
            }
        }
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// All keys that someone waits for.
    pub(crate) fn keys(&self) -> Vec<Key> {
        lock(&self.state).by_key.keys().cloned().collect()
    }

    /// Those who wait for a key.
    pub(crate) fn of(&self, key: &Key) -> Vec<Arc<Waiter>> {
        let state = lock(&self.state);
        let lines = state.by_key.get(key);
        lines.into_iter().flatten().flatten().cloned().collect()
    }

    /// Some of those who stand in a line of a key behind a number, in the order in which they came.
    pub(crate) fn next(&self, key: &Key, line: Line, number: u64) -> Vec<Arc<Waiter>> {
        if self.count() == 0 {
            return Vec::new();
        }
        let state = lock(&self.state);
        let Some(lines) = state.by_key.get(key) else {
            return Vec::new();
        };
        let line = &lines[line as usize];
        let part = line.range(behind(line, number)..).take(PART);
        part.cloned().collect()
    }
}

#[cfg(test)]
mod tests;
