//! The things to do when the writes of commands are committed.

use crate::acl::Denied;
use crate::pubsub::Message;

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
    /// The database of each, and where it ends.
    ends: Vec<(usize, usize)>,
}

impl TouchedKeys {
    pub(crate) fn push(&mut self, db: usize, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push((db, self.bytes.len()));
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes
            .truncate(self.ends.last().map_or(0, |(_, end)| *end));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let keys = begins.zip(&self.ends);
        keys.map(|(begin, (db, end))| (*db, &self.bytes[begin..*end]))
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
}

impl Effects {
    pub(super) fn lengths(&self) -> [usize; 7] {
        [
            self.touched.len(),
            self.ready.len(),
            self.events.len(),
            self.messages.len(),
            self.denied.len(),
            self.expired_fields,
            self.calls.len(),
        ]
    }

    pub(super) fn truncate(&mut self, to: [usize; 7]) {
        self.touched.truncate(to[0]);
        self.ready.truncate(to[1]);
        self.events.truncate(to[2]);
        self.messages.truncate(to[3]);
        self.denied.truncate(to[4]);
        self.expired_fields = to[5];
        self.calls.truncate(to[6]);
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
