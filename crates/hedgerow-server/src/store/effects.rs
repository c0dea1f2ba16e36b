//! The things to do when the writes of commands are committed.

use super::entry::Entry;
use super::room::BATCH_BYTES_MAX;
use super::txn::Txn;
use super::{Answer, Stop};
use crate::acl::Denied;
use crate::pubsub::{self, Message};

/// A change that others may be told of.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) db: usize,
    /// The class, a letter of `notify-keyspace-events`.
    pub(crate) class: u8,
    pub(crate) name: &'static str,
    pub(crate) key: Vec<u8>,
}

/// Keys with their databases, one behind the other: every write adds one.
#[derive(Debug, Default)]
pub(crate) struct TouchedKeys {
    bytes: Vec<u8>,
    ends: Vec<Touched>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
struct Touched {
    db: u32,
    /// It was removed behind its time of expiry. That is no change for those who watch it: for them
    /// it has gone at that time.
    had_expired: bool,
    /// The place where its bytes end.
    end: usize,
}

impl TouchedKeys {
    pub(crate) fn push(&mut self, db: usize, key: &[u8], had_expired: bool) {
        self.bytes.extend_from_slice(key);
        self.ends.push(Touched {
            db: db as u32,
            had_expired,
            end: self.bytes.len(),
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().map_or(0, |it| it.end));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        self.all().map(|(_, db, key)| (db, key))
    }

    /// The keys that have changed for those who watch them.
    pub(crate) fn of_watchers(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let changed = self.all().filter(|it| !it.0);
        changed.map(|(_, db, key)| (db, key))
    }

    fn all(&self) -> impl Iterator<Item = (bool, usize, &[u8])> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|it| it.end));
        let keys = begins.zip(&self.ends);
        keys.map(|(begin, it)| {
            let key = &self.bytes[begin..it.end];
            (it.had_expired, it.db as usize, key)
        })
    }
}

/// The things to do when a command's writes are committed.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Messages for channels.
    pub(crate) messages: Vec<Message>,
    /// The keys that have changed, for those who watch them.
    pub(crate) touched: TouchedKeys,
    /// The keys that have something for those who wait.
    pub(crate) ready: Vec<(usize, Vec<u8>)>,
    pub(crate) events: Vec<Event>,
    /// The calls of scripts with their databases, for those who watch all calls.
    pub(crate) calls: Vec<(usize, Vec<Vec<u8>>)>,
    /// The calls of scripts that the user may not make, with the names of the commands.
    pub(crate) denied: Vec<(Denied, String)>,
    /// The fields that were removed since they had expired.
    pub(crate) expired_fields: usize,
    /// A script has called a command that reads.
    pub(crate) script_reads: bool,
    /// The changed keys, each with the client that changed it, for those who track keys.
    pub(crate) changed: Vec<(u64, Vec<u8>)>,
    /// All keys may have changed.
    pub(crate) flushed: bool,
    /// The databases that a script has flushed.
    pub(crate) flushed_dbs: Vec<usize>,
}

impl Effects {
    pub(super) fn lengths(&self) -> [usize; 8] {
        [
            self.touched.len(),
            self.ready.len(),
            self.events.len(),
            self.messages.len(),
            self.denied.len(),
            self.expired_fields,
            self.calls.len(),
            self.flushed_dbs.len(),
        ]
    }

    pub(super) fn truncate(&mut self, to: [usize; 8]) {
        self.touched.truncate(to[0]);
        self.ready.truncate(to[1]);
        self.events.truncate(to[2]);
        self.messages.truncate(to[3]);
        self.denied.truncate(to[4]);
        self.expired_fields = to[5];
        self.calls.truncate(to[6]);
        self.flushed_dbs.truncate(to[7]);
    }

    /// Adds those of another commit, whose keys were told of already.
    pub(crate) fn append(&mut self, mut other: Effects) {
        self.ready.append(&mut other.ready);
        self.events.append(&mut other.events);
        self.messages.append(&mut other.messages);
        self.calls.append(&mut other.calls);
        self.expired_fields += other.expired_fields;
        self.changed.append(&mut other.changed);
        self.flushed |= other.flushed;
    }
}

impl Txn<'_> {
    /// Notes that a key has changed.
    pub(super) fn touch(&mut self, entry: &Entry) {
        self.effects.touched.push(entry.db, entry.key(), false);
    }

    /// Notes that elements of a key have changed. Its entry has not. A replica finds a changed key
    /// by its entry, so the entry is written while there are replicas.
    pub(crate) fn touch_elements(&mut self, entry: &Entry) -> Answer<()> {
        if self.is_followed
            && let Some(meta) = entry.meta()
        {
            self.write_meta(entry, meta)?;
        }
        self.touch(entry);
        Ok(())
    }

    /// Notes that a key may have something for those who wait.
    pub(crate) fn ready(&mut self, entry: &Entry) {
        let key = entry.key().to_vec();
        self.effects.ready.push((entry.db, key));
    }

    pub(crate) fn notify(&mut self, db: usize, class: u8, name: &'static str, key: &[u8]) {
        // Expired keys are counted, also if nobody listens.
        if !self.tells_events && class != b'x' {
            return;
        }
        let key = key.to_vec();
        self.effects.events.push(Event {
            db,
            class,
            name,
            key,
        });
    }

    /// Sends a message when the writes are committed. Returns how many listen now.
    pub(crate) fn publish(
        &mut self,
        kind: pubsub::Kind,
        channel: &[u8],
        text: &[u8],
    ) -> Answer<usize> {
        self.message_bytes += channel.len() + text.len();
        if self.message_bytes > BATCH_BYTES_MAX {
            return Err(Stop::reply(format!(
                "ERR the messages of one commit take more than {BATCH_BYTES_MAX} bytes"
            )));
        }
        let (to, text) = (channel.to_vec(), text.to_vec());
        self.effects.messages.push(Message {
            kind,
            channel: to,
            text,
        });
        Ok(self.listeners.map_or(0, |count| count(kind, channel)))
    }

    /// Notes an event of an entry's key.
    pub(crate) fn event(&mut self, entry: &Entry, class: u8, name: &'static str) {
        self.notify(entry.db, class, name, entry.key());
    }
}
