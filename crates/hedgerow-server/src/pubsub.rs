//! Channels and who listens to them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use crate::client::{Client, lock};
use crate::glob;
use crate::resp::Reply;

type Listeners = HashMap<Vec<u8>, BTreeMap<u64, Arc<Client>>>;

#[derive(Default)]
pub(crate) struct PubSub {
    channels: Mutex<Listeners>,
    patterns: Mutex<Listeners>,
}

impl PubSub {
    fn listeners(&self, by_pattern: bool) -> &Mutex<Listeners> {
        if by_pattern {
            &self.patterns
        } else {
            &self.channels
        }
    }

    pub(crate) fn subscribe(&self, client: &Arc<Client>, name: &[u8], by_pattern: bool) {
        let mut listeners = lock(self.listeners(by_pattern));
        let of_name = listeners.entry(name.to_vec()).or_default();
        of_name.insert(client.id, client.clone());
    }

    pub(crate) fn unsubscribe(&self, client: &Client, name: &[u8], by_pattern: bool) {
        let mut listeners = lock(self.listeners(by_pattern));
        if let Some(of_name) = listeners.get_mut(name) {
            of_name.remove(&client.id);
            if of_name.is_empty() {
                listeners.remove(name);
            }
        }
    }

    /// The channels and patterns that a client listens to; true for patterns.
    pub(crate) fn names_of(&self, client: &Client) -> Vec<(Vec<u8>, bool)> {
        let of_kind = |by_pattern: bool| {
            let listeners = lock(self.listeners(by_pattern));
            let names = listeners
                .iter()
                .filter(|(_, of)| of.contains_key(&client.id));
            names
                .map(|(name, _)| (name.clone(), by_pattern))
                .collect::<Vec<_>>()
        };
        [of_kind(false), of_kind(true)].concat()
    }

    /// Sends a message.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8]) {
        if let Some(listeners) = lock(&self.channels).get(channel) {
            let parts = ["message".as_bytes(), channel, message].map(Reply::bulk);
            let push = Reply::Push(parts.to_vec());
            listeners.values().for_each(|client| client.send(&push));
        }
        for (pattern, listeners) in lock(&self.patterns).iter() {
            if glob::matches(pattern, channel, false) {
                let parts = ["pmessage".as_bytes(), pattern, channel, message].map(Reply::bulk);
                let push = Reply::Push(parts.to_vec());
                listeners.values().for_each(|client| client.send(&push));
            }
        }
    }

    /// The number of subscriptions that a message to this channel meets.
    pub(crate) fn receivers(&self, channel: &[u8]) -> usize {
        let patterns = lock(&self.patterns);
        let matching = patterns
            .iter()
            .filter(|(pattern, _)| glob::matches(pattern, channel, false))
            .map(|(_, listeners)| listeners.len());
        self.listeners_of(channel) + matching.sum::<usize>()
    }

    /// The channels that someone listens to.
    pub(crate) fn channels(&self, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let channels = lock(&self.channels);
        let matches = |name: &&Vec<u8>| pattern.is_none_or(|it| glob::matches(it, name, false));
        channels.keys().filter(matches).cloned().collect()
    }

    pub(crate) fn listeners_of(&self, channel: &[u8]) -> usize {
        lock(&self.channels).get(channel).map_or(0, BTreeMap::len)
    }

    pub(crate) fn patterns(&self) -> usize {
        lock(&self.patterns).len()
    }
}
