//! Telling everybody of committed changes: listeners, and those who wait for keys, whose commands
//! run then.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use super::{Call, Caller};
use crate::pubsub::{Kind, Message};
use crate::resp::Reply;
use crate::server::Server;
use crate::store::Effects;
use crate::waiters::{Key, LINES, Line, Waiter};

/// The outcome of running the command of a client that waits.
pub(crate) enum Served {
    /// The effects, which are to be told.
    Replied(Box<Effects>),
    /// None of its keys has anything.
    Nothing,
    /// It has a reply already, or leaves.
    Over,
}

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
                // Whoever waits was asked once for all changes of the key.
                if !served_keys.contains(&key) {
                    for line in LINES {
                        self.serve_line(&key, line, &mut effects).await;
                    }
                    served_keys.insert(key);
                }
                if served_keys.len() % KEYS_IN_TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// Serves those who stand in a line of a key, until one of them finds the key empty.
    async fn serve_line(&self, key: &Key, line: Line, effects: &mut Effects) {
        let mut number = 0;
        loop {
            let waiters = self.waiters.next(key, line, number);
            let Some(last) = waiters.last() else {
                return;
            };
            number = last.number();
            for waiter in waiters {
                match self.serve(&waiter).await {
                    // An element that was moved to another key is for those who wait there.
                    Served::Replied(of_waiter) => effects.append(*of_waiter),
                    Served::Nothing if line != Line::Streams => return,
                    Served::Nothing | Served::Over => {}
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

    /// Runs the command of a client that waits. The client gets a reply when what it has taken is
    /// durable, and with it the change before.
    pub(crate) async fn serve(&self, waiter: &Waiter) -> Served {
        let Some(mut turn) = waiter.turn().await else {
            return Served::Over;
        };
        // One that was told to end would lose what it takes.
        if waiter.client.is_killed() {
            return Served::Over;
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
        let mut outcome = self.run(caller, &[call]).await;
        let reply = match outcome.replies.pop() {
            Some(Reply::Wait | Reply::WaitWith(_)) | None => return Served::Nothing,
            Some(reply) => reply,
        };
        // Those behind it need not wait until this is durable.
        let sender = turn.take();
        drop(turn);
        let synced = self.make_durable(outcome.wrote).await;
        // Nobody receives it if the connection has ended.
        let _ = sender.map(|it| it.send(synced.err().unwrap_or(reply)));
        Served::Replied(Box::new(outcome.effects))
    }
}
