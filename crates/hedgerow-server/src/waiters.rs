//! Clients that wait for a key to have something. Each waits with its whole command, which the
//! client that changes the key runs for it: first come, first served.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::client::{Client, lock};
use crate::commands::Command;
use crate::resp::Reply;

type Key = (usize, Vec<u8>);

/// The state of a waiter, which decides if a thread may run its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Running,
    /// Running, and a key has changed since it began.
    Changed,
    Done,
}

/// A command that waits.
pub(crate) struct Waiter {
    pub(crate) command: &'static Command,
    pub(crate) args: Vec<Vec<u8>>,
    /// The client that waits, in whose name the command runs.
    pub(crate) client: Arc<Client>,
    pub(crate) db: usize,
    pub(crate) resp3: bool,
    keys: Vec<Key>,
    state: Mutex<State>,
    reply: Mutex<Option<oneshot::Sender<Reply>>>,
}

impl Waiter {
    pub(crate) fn new(
        client: Arc<Client>,
        (command, args): (&'static Command, Vec<Vec<u8>>),
        (db, resp3): (usize, bool),
    ) -> (Arc<Waiter>, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let keys = command.keys.of(&words);
        let waiter = Arc::new(Waiter {
            command,
            keys: keys.into_iter().map(|it| (db, it.to_vec())).collect(),
            args,
            client,
            db,
            resp3,
            state: Mutex::new(State::Idle),
            reply: Mutex::new(Some(sender)),
        });
        (waiter, receiver)
    }

    /// Returns true if the caller may run the command. If another one runs it, it will run again.
    pub(crate) fn claim(&self) -> bool {
        let mut state = lock(&self.state);
        match *state {
            State::Idle => {
                *state = State::Running;
                true
            }
            State::Running => {
                *state = State::Changed;
                false
            }
            State::Changed | State::Done => false,
        }
    }

    /// Ends a run that found nothing. Returns true if it has to run again.
    pub(crate) fn release(&self) -> bool {
        let mut state = lock(&self.state);
        let again = *state == State::Changed;
        *state = if again { State::Running } else { State::Idle };
        again
    }

    /// Ends the waiting with a reply.
    pub(crate) fn finish(&self, reply: Reply) {
        *lock(&self.state) = State::Done;
        if let Some(sender) = lock(&self.reply).take() {
            // Nobody receives it if the connection has ended.
            let _ = sender.send(reply);
        }
    }

    /// Ends the waiting with a reply, unless the command runs. Returns false then.
    pub(crate) fn redirect(&self, reply: Reply) -> bool {
        let is_idle = self.give_up();
        if is_idle {
            self.finish(reply);
        }
        is_idle || *lock(&self.state) == State::Done
    }

    /// Ends the waiting, unless the command runs or has a reply.
    pub(crate) fn give_up(&self) -> bool {
        let mut state = lock(&self.state);
        let is_idle = *state == State::Idle;
        if is_idle {
            *state = State::Done;
        }
        is_idle
    }
}

#[derive(Default)]
pub(crate) struct Waiters {
    by_key: Mutex<HashMap<Key, VecDeque<Arc<Waiter>>>>,
    count: AtomicUsize,
}

impl Waiters {
    pub(crate) fn add(&self, waiter: &Arc<Waiter>) {
        let mut by_key = lock(&self.by_key);
        for key in &waiter.keys {
            by_key
                .entry(key.clone())
                .or_default()
                .push_back(waiter.clone());
        }
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn remove(&self, waiter: &Arc<Waiter>) {
        let mut by_key = lock(&self.by_key);
        for key in &waiter.keys {
            if let Some(of_key) = by_key.get_mut(key) {
                of_key.retain(|it| !Arc::ptr_eq(it, waiter));
                if of_key.is_empty() {
                    by_key.remove(key);
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
        lock(&self.by_key).keys().cloned().collect()
    }

    /// Those who wait for a key, in the order in which they came.
    pub(crate) fn of(&self, key: &Key) -> Vec<Arc<Waiter>> {
        if self.count() == 0 {
            return Vec::new();
        }
        let by_key = lock(&self.by_key);
        by_key
            .get(key)
            .map(|it| it.iter().cloned().collect())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
