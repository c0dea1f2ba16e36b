//! Telling everybody of committed changes: listeners, and those who wait for keys, whose commands
//! run then.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::{Call, Caller, Outcome};
use crate::pubsub::{Kind, Message};
use crate::resp::Reply;
use crate::server::Server;
use crate::store::Effects;

/// The keys behind which other connections have their turn.
const KEYS_IN_TURN: usize = 64;

impl Server {
    /// Tells everybody of committed changes: listeners, and those who wait for keys. What those
    /// write is durable as the reply to them asks for.
    pub(crate) async fn announce(&self, mut effects: Effects) {
        loop {
            if std::mem::take(&mut effects.flushed) {
                self.tracking.tell_all(&self.clients);
            }
            if !effects.changed.is_empty() {
                self.tracking.tell(&self.clients, &effects.changed);
                effects.changed.clear();
            }
            let fields = std::mem::take(&mut effects.expired_fields) as u64;
            if fields > 0 {
                self.expired_fields.fetch_add(fields, Ordering::Relaxed);
            }
            for (db, args) in effects.calls.drain(..) {
                let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                self.clients.monitor(db, "lua", &args);
            }
            for event in effects.events.drain(..) {
                self.notify(&event);
            }
            for message in effects.messages.drain(..) {
                self.send(&message);
            }
            if effects.ready.is_empty() || self.waiters.count() == 0 {
                return;
            }
            let mut served_keys = HashSet::new();
            for key in std::mem::take(&mut effects.ready) {
                let waiters = self.waiters.of(&key);
                // Whoever waits was asked once for all changes of the key.
                if !served_keys.insert(key) {
                    continue;
                }
                for waiter in waiters {
                    if let Some(served) = self.serve(&waiter).await {
                        // An element that was moved to another key is for those who wait there.
                        effects.append(served.effects);
                    }
                }
                if served_keys.len() % KEYS_IN_TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn send(&self, message: &Message) {
        let Message {
            kind,
            channel,
            text,
        } = message;
        if *kind == Kind::Shard {
            return self.pubsub.publish_to_shard(channel, text);
        }
        self.pubsub.publish(channel, text);
        self.replication.replicas.forward(channel, text);
    }

    /// Runs the command of a client that waits. Returns the outcome if it had a reply, which the
    /// client gets when the outcome is durable, and with it the change before.
    pub(crate) async fn serve(&self, waiter: &crate::waiters::Waiter) -> Option<Outcome> {
        // One that was told to end would lose what it takes.
        if waiter.client.is_killed() || !waiter.claim() {
            return None;
        }
        let args: Vec<&[u8]> = waiter.args.iter().map(Vec::as_slice).collect();
        let call = Call {
            command: waiter.command,
            args: &args,
        };
        let caller = Caller {
            db: waiter.db,
            resp3: waiter.resp3,
            is_waiting: true,
            client: Some(&waiter.client),
            ..Caller::default()
        };
        loop {
            let mut outcome = self.run(caller, &[call]).await;
            match outcome.replies.pop() {
                Some(Reply::Wait | Reply::WaitWith(_)) | None => {
                    if !waiter.release() {
                        return None;
                    }
                }
                Some(reply) => {
                    let synced = self.make_durable(outcome.wrote).await;
                    waiter.finish(synced.err().unwrap_or(reply));
                    return Some(outcome);
                }
            }
        }
    }
}
