//! The log of refused calls and failed log-ins, for ACL LOG.

use std::collections::VecDeque;

use super::Denied;
use crate::clock;
use crate::resp::Reply;

/// Equal entries within this time, in milliseconds, are one that is counted.
const GROUPED_MILLIS: u64 = 60_000;

/// The reason and the place of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) context: &'static str,
    pub(crate) object: Vec<u8>,
    pub(crate) user: String,
}

impl Refusal {
    pub(crate) fn new(denied: Denied, context: &'static str, name: &str, user: &str) -> Refusal {
        let (reason, object) = match denied {
            Denied::Command => ("command", name.as_bytes().to_vec()),
            Denied::Key(key) => ("key", key),
            Denied::Channel(channel) => ("channel", channel),
        };
        let user = user.to_owned();
        Refusal {
            reason,
            context,
            object,
            user,
        }
    }
}

#[derive(Debug)]
struct Entry {
    number: u64,
    count: i64,
    refusal: Refusal,
    client: String,
    created: u64,
    updated: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Log {
    next: u64,
    /// The latest first.
    entries: VecDeque<Entry>,
}

impl Log {
    pub(crate) fn add(&mut self, refusal: Refusal, client: String, entries_max: usize) {
        let now = clock::unix_millis();
        let same = self.entries.iter().position(|it| {
            it.refusal == refusal && now.saturating_sub(it.updated) < GROUPED_MILLIS
        });
        let mut entry = same
            .and_then(|at| self.entries.remove(at))
            .unwrap_or_else(|| {
                self.next += 1;
                Entry {
                    number: self.next - 1,
                    count: 0,
                    refusal,
                    client: String::new(),
                    created: now,
                    updated: now,
                }
            });
        (entry.client, entry.updated) = (client, now);
        entry.count += 1;
        self.entries.push_front(entry);
        self.entries.truncate(entries_max);
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    /// The latest entries.
    pub(crate) fn reply(&self, count: usize) -> Reply {
        let now = clock::unix_millis();
        let entries = self.entries.iter().take(count).map(|entry| {
            let fact = |name: &str, value: Reply| (Reply::bulk(name), value);
            let refusal = &entry.refusal;
            let age = now.saturating_sub(entry.created) as f64 / 1_000.0;
            Reply::Map(vec![
                fact("count", Reply::Integer(entry.count)),
                fact("reason", Reply::bulk(refusal.reason)),
                fact("context", Reply::bulk(refusal.context)),
                fact("object", Reply::bulk(&refusal.object)),
                fact("username", Reply::bulk(&refusal.user)),
                fact("age-seconds", Reply::Double(age)),
                fact("client-info", Reply::bulk(&entry.client)),
                fact("entry-id", Reply::Integer(entry.number as i64)),
                fact("timestamp-created", Reply::Integer(entry.created as i64)),
                fact(
                    "timestamp-last-updated",
                    Reply::Integer(entry.updated as i64),
                ),
            ])
        });
        Reply::Array(entries.collect())
    }
}
