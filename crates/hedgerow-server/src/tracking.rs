//! Clients that keep copies of values and want to be told when these change: CLIENT TRACKING.
//!
//! A client is remembered with the keys that it reads *before* its attempt looks at the state of
//! the databases, and a change is told *after* its commit. So whoever has read a value from before
//! a change is told of it; the message may come although the value was read from after the change,
//! and then it follows the reply. A key is forgotten when its readers were told.
//!
//! One lock for all. While nobody tracks, a commit costs one load, and a read nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};

use crate::client::{Client, Clients, lock};
use crate::resp::Reply;

/// The places in the order of keys that may be out of date, at least.
const STALE_MAX: usize = 1 << 10;

/// The keys that a client is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those that it has read.
    Reads,
    /// Those that it has read behind CLIENT CACHING YES.
    OptIn,
    /// Those that it has read, but behind CLIENT CACHING NO.
    OptOut,
    /// Those with its prefixes.
    Broadcast,
}

/// The options of CLIENT TRACKING.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    /// The client that gets the messages; 0 for the client itself.
    pub(crate) redirect: u64,
    /// Its own changes are not told.
    pub(crate) no_loop: bool,
    pub(crate) prefixes: BTreeSet<Vec<u8>>,
}

/// A client that tracks, from when it begins until it ends that.
struct Tracker {
    client: Arc<Client>,
    options: Options,
}

/// The trackers that have read a key.
struct Readers {
    /// The number of the key's place in the order.
    place: u64,
    trackers: Vec<u64>,
}

#[derive(Default)]
struct State {
    trackers: HashMap<u64, Tracker>,
    trackers_before: u64,
    keys: HashMap<Arc<[u8]>, Readers>,
    /// The keys as they came. A key that was forgotten, and maybe came again, is out of date here.
    order: VecDeque<(Arc<[u8]>, u64)>,
    places_before: u64,
    /// The trackers of each prefix.
    prefixes: BTreeMap<Vec<u8>, BTreeSet<u64>>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Tracking {
    state: Mutex<State>,
    count: AtomicUsize,
}

/// Numbers for INFO.
pub(crate) struct Totals {
    pub(crate) clients: usize,
    pub(crate) keys: usize,
    /// The readers of all keys.
    pub(crate) items: usize,
    pub(crate) prefixes: usize,
}

impl Tracking {
    /// Returns true if some client may want to know of a change that was committed before.
    pub(crate) fn is_used(&self) -> bool {
        // With that of `begin`: who does not see the client has committed before it looks.
        fence(Ordering::SeqCst);
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Begins the tracking of a client. Returns its number.
    pub(crate) fn begin(&self, client: &Arc<Client>, options: Options) -> u64 {
        let mut state = lock(&self.state);
        state.trackers_before += 1;
        let id = state.trackers_before;
        state.set(id, client, options);
        self.count.store(state.trackers.len(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
        id
    }

    /// Gives a tracker other options.
    pub(crate) fn change(&self, id: u64, client: &Arc<Client>, options: Options) {
        lock(&self.state).set(id, client, options);
    }

    /// Ends the tracking of a client. Its keys go when they change, or when their time comes.
    pub(crate) fn end(&self, id: u64) {
        let mut state = lock(&self.state);
        state.trackers.remove(&id);
        state.prefixes.retain(|_, trackers| {
            trackers.remove(&id);
            !trackers.is_empty()
        });
        if state.trackers.is_empty() {
            let totals = state.trackers_before;
            *state = State {
                trackers_before: totals,
                ..State::default()
            };
        }
        self.count.store(state.trackers.len(), Ordering::Relaxed);
    }

    /// Remembers that a tracker reads keys. Returns those that it was not remembered with.
    pub(crate) fn remember<'a>(
        &self,
        clients: &Clients,
        (id, keys_max): (u64, usize),
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Vec<&'a [u8]> {
        let mut state = lock(&self.state);
        let new = keys.filter(|key| state.remember(id, key)).collect();
        state.limit(clients, keys_max);
        new
    }

    /// Undoes that a tracker was remembered with keys.
    pub(crate) fn forget(&self, id: u64, keys: &[&[u8]]) {
        let mut state = lock(&self.state);
        for key in keys {
            if let Some(readers) = state.keys.get_mut(*key) {
                readers.trackers.retain(|it| *it != id);
                if readers.trackers.is_empty() {
                    state.keys.remove(*key);
                }
            }
        }
    }

    /// Forgets keys until there are at most `keys_max`; their readers are told.
    pub(crate) fn limit(&self, clients: &Clients, keys_max: usize) {
        lock(&self.state).limit(clients, keys_max);
    }

    /// Tells of changed keys, each with the client that changed it.
    pub(crate) fn tell(&self, clients: &Clients, changed: &[(u64, Vec<u8>)]) {
        let mut state = lock(&self.state);
        for (writer, key) in changed {
            state.tell_readers(clients, *writer, key);
        }
        state.tell_prefixes(clients, changed);
    }

    /// Tells that all keys may have changed.
    pub(crate) fn tell_all(&self, clients: &Clients) {
        let mut state = lock(&self.state);
        state.keys.clear();
        state.order.clear();
        for tracker in state.trackers.values() {
            tracker.send(clients, Reply::Null);
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        let state = lock(&self.state);
        Totals {
            clients: state.trackers.len(),
            keys: state.keys.len(),
            items: state.keys.values().map(|it| it.trackers.len()).sum(),
            prefixes: state.prefixes.len(),
        }
    }
}

impl State {
    fn set(&mut self, id: u64, client: &Arc<Client>, options: Options) {
        for prefix in &options.prefixes {
            let trackers = self.prefixes.entry(prefix.clone()).or_default();
            trackers.insert(id);
        }
        let client = client.clone();
        self.trackers.insert(id, Tracker { client, options });
    }

    /// Returns true if the tracker was not remembered with the key.
    fn remember(&mut self, id: u64, key: &[u8]) -> bool {
        if let Some(readers) = self.keys.get_mut(key) {
            let is_new = !readers.trackers.contains(&id);
            if is_new {
                // Those that have ended give up their place.
                readers.trackers.retain(|it| self.trackers.contains_key(it));
                readers.trackers.push(id);
            }
            return is_new;
        }
        self.places_before += 1;
        let (key, place) = (Arc::<[u8]>::from(key), self.places_before);
        self.order.push_back((key.clone(), place));
        let trackers = vec![id];
        self.keys.insert(key, Readers { place, trackers });
        if self.order.len() > 2 * self.keys.len() + STALE_MAX {
            let keys = &self.keys;
            let is_present = |(key, place): &(Arc<[u8]>, u64)| {
                keys.get(key).is_some_and(|it| it.place == *place)
            };
            self.order.retain(is_present);
        }
        true
    }

    fn limit(&mut self, clients: &Clients, keys_max: usize) {
        while keys_max > 0 && self.keys.len() > keys_max {
            let Some((key, place)) = self.order.pop_front() else {
                return;
            };
            if self.keys.get(&key).is_some_and(|it| it.place == place) {
                self.tell_readers(clients, 0, &key);
            }
        }
    }

    /// Tells those who have read a key, and forgets it.
    fn tell_readers(&mut self, clients: &Clients, writer: u64, key: &[u8]) {
        let Some(readers) = self.keys.get_mut(key) else {
            return;
        };
        readers.trackers.retain(|id| {
            let Some(tracker) = self.trackers.get(id) else {
                return false;
            };
            let is_own = tracker.is_own(writer);
            if !is_own {
                tracker.send(clients, Reply::bulks([key]));
            }
            is_own
        });
        if readers.trackers.is_empty() {
            self.keys.remove(key);
        }
    }

    /// Tells those who want to know of prefixes, by one message for each.
    fn tell_prefixes(&self, clients: &Clients, changed: &[(u64, Vec<u8>)]) {
        for (prefix, trackers) in &self.prefixes {
            let of_prefix = |it: &&(u64, Vec<u8>)| it.1.starts_with(prefix);
            let matching: Vec<_> = changed.iter().filter(of_prefix).collect();
            if matching.is_empty() {
                continue;
            }
            for tracker in trackers.iter().filter_map(|id| self.trackers.get(id)) {
                let others = matching.iter().filter(|it| !tracker.is_own(it.0));
                let keys: BTreeSet<&[u8]> = others.map(|it| it.1.as_slice()).collect();
                if !keys.is_empty() {
                    tracker.send(clients, Reply::bulks(keys));
                }
            }
        }
    }
}

impl Tracker {
    /// Returns true if the tracker does not want to know of a change by this client.
    fn is_own(&self, writer: u64) -> bool {
        self.options.no_loop && writer == self.client.id
    }

    /// Sends the names of changed keys to whoever is to get them.
    fn send(&self, clients: &Clients, keys: Reply) {
        let redirected = match self.options.redirect {
            0 => None,
            id => match clients.find(id).filter(|it| !it.is_killed()) {
                Some(target) => Some(target),
                None => return self.break_redirection(id),
            },
        };
        let target = redirected.as_ref().unwrap_or(&self.client);
        let words: &[&str] = match target.resp3.load(Ordering::Relaxed) {
            true => &["invalidate"],
            false if redirected.is_some() && target.is_subscribed() => {
                &["message", "__redis__:invalidate"]
            }
            // Version 2 of the protocol has no messages but those of channels.
            false => return,
        };
        let words = words.iter().map(Reply::bulk);
        target.send(&Reply::Push(words.chain([keys]).collect()));
    }

    /// Tells the client that the one that was to get its messages is gone.
    fn break_redirection(&self, id: u64) {
        self.client
            .is_redirect_broken
            .store(true, Ordering::Relaxed);
        if self.client.resp3.load(Ordering::Relaxed) {
            let word = Reply::bulk("tracking-redir-broken");
            let push = Reply::Push(vec![word, Reply::Integer(id as i64)]);
            self.client.send(&push);
        }
    }
}
