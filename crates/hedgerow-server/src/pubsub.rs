//! Channels and who listens to them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use crate::client::{Client, lock};
use crate::glob;
use crate::resp::Reply;

/// The kinds of names that clients listen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel = 0,
    /// Each channel whose name matches.
    Pattern = 1,
    /// A channel of a shard: it has a slot, as keys have, and no pattern matches it.
    Shard = 2,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

/// A message, and where it goes.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) channel: Vec<u8>,
    pub(crate) text: Vec<u8>,
}

type Listeners = HashMap<Vec<u8>, BTreeMap<u64, Arc<Client>>>;

#[derive(Default)]
pub(crate) struct PubSub {
    listeners: [Mutex<Listeners>; KINDS.len()],
}

impl PubSub {
    fn listeners(&self, kind: Kind) -> &Mutex<Listeners> {
        &self.listeners[kind as usize]
    }

    pub(crate) fn subscribe(&self, client: &Arc<Client>, name: &[u8], kind: Kind) {
        let mut listeners = lock(self.listeners(kind));
        let of_name = listeners.entry(name.to_vec()).or_default();
        of_name.insert(client.id, client.clone());
    }

    pub(crate) fn unsubscribe(&self, client: &Client, name: &[u8], kind: Kind) {
        let mut listeners = lock(self.listeners(kind));
        if let Some(of_name) = listeners.get_mut(name) {
            of_name.remove(&client.id);
            if of_name.is_empty() {
                listeners.remove(name);
            }
        }
    }

    /// The names that a client listens to.
    pub(crate) fn names_of(&self, client: &Client) -> Vec<(Vec<u8>, Kind)> {
        let of_kind = |kind: Kind| {
            let listeners = lock(self.listeners(kind));
            let names = listeners
                .iter()
                .filter(|(_, of)| of.contains_key(&client.id));
            names
                .map(|(name, _)| (name.clone(), kind))
                .collect::<Vec<_>>()
        };
        KINDS.map(of_kind).concat()
    }

    /// Sends a message to a channel, and by patterns.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8]) {
        self.send_to(Kind::Channel, "message", (channel, message));
        for (pattern, listeners) in lock(self.listeners(Kind::Pattern)).iter() {
            if glob::matches(pattern, channel, false) {
                let parts = ["pmessage".as_bytes(), pattern, channel, message].map(Reply::bulk);
                let push = Reply::Push(parts.to_vec());
                listeners.values().for_each(|client| client.send(&push));
            }
        }
    }

    /// Sends a message to a channel of a shard.
    pub(crate) fn publish_to_shard(&self, channel: &[u8], message: &[u8]) {
        self.send_to(Kind::Shard, "smessage", (channel, message));
    }

    fn send_to(&self, kind: Kind, word: &str, (channel, message): (&[u8], &[u8])) {
        if let Some(listeners) = lock(self.listeners(kind)).get(channel) {
            let parts = [word.as_bytes(), channel, message].map(Reply::bulk);
            let push = Reply::Push(parts.to_vec());
            listeners.values().for_each(|client| client.send(&push));
        }
    }

    /// The number of subscriptions that a message to this channel meets.
    pub(crate) fn receivers(&self, kind: Kind, channel: &[u8]) -> usize {
        let direct = self.listeners_of(kind, channel);
        if kind == Kind::Shard {
            return direct;
        }
        let patterns = lock(self.listeners(Kind::Pattern));
        let matching = patterns
            .iter()
            .filter(|(pattern, _)| glob::matches(pattern, channel, false))
            .map(|(_, listeners)| listeners.len());
        direct + matching.sum::<usize>()
    }

    /// The names of a kind that someone listens to.
    pub(crate) fn names(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let listeners = lock(self.listeners(kind));
        let matches = |name: &&Vec<u8>| pattern.is_none_or(|it| glob::matches(it, name, false));
        listeners.keys().filter(matches).cloned().collect()
    }

    pub(crate) fn count(&self, kind: Kind) -> usize {
        lock(self.listeners(kind)).len()
    }

    pub(crate) fn listeners_of(&self, kind: Kind, channel: &[u8]) -> usize {
        let listeners = lock(self.listeners(kind));
        listeners.get(channel).map_or(0, BTreeMap::len)
    }

    /// Cuts off those who listen to a channel of a shard that is at another server now.
    pub(crate) fn end_listeners(&self, channel: &[u8]) {
        if let Some(listeners) = lock(self.listeners(Kind::Shard)).get(channel) {
            listeners.values().for_each(|client| client.kill());
        }
    }
}
