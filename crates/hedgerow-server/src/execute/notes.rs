//! An attempt tells others of itself: those who watch and track keys, and the counters.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Call, Caller, Outcome};
use crate::acl::{Denied, Refusal};
use crate::client::{Client, lock};
use crate::commands::{Args, Command, FAST, NO_SCRIPT, READ};
use crate::resp::Reply;
use crate::server::Server;
use crate::store::{Effects, Txn};
use crate::watches::borrowed;

/// Counts the keys that a command has looked up, and tells of those that it has missed.
pub(crate) fn note_lookups(txn: &mut Txn<'_>, command: &Command, args: Args<'_>) {
    txn.count_lookups(command.has(READ));
    if txn.misses.are_told && command.tells_misses(args) {
        txn.tell_misses();
    }
}

impl Server {
    /// Tells those whose own commands depend on it of a commit, while the keys are still held.
    pub(super) fn note_committed(
        &self,
        caller: Caller<'_>,
        effects: &mut Effects,
        of_scripts: &[&[u8]],
    ) {
        for (denied, name) in effects.denied.drain(..) {
            self.note_denied(caller, denied, &name);
        }
        let touched = std::mem::take(&mut effects.touched);
        if touched.len() > 0 {
            self.watches.touch(touched.of_watchers());
            self.changes
                .fetch_add(touched.len() as u64, Ordering::Relaxed);
        }
        let flushed = std::mem::take(&mut effects.flushed_dbs);
        if !flushed.is_empty() {
            // A look for those keys that were there could miss who begins to watch meanwhile: those
            // who watch a key that was not there are marked, too.
            self.watches
                .touch(borrowed(&self.watches.keys_of(&flushed)));
            effects.ready.extend(self.waiters.keys());
            effects.flushed = true;
        }
        let client = caller.client;
        if !of_scripts.is_empty() && !effects.script_reads {
            let tracker = client.map_or(0, |it| it.remembers.load(Ordering::Relaxed));
            self.tracking.forget(tracker, of_scripts);
        }
        if self.tracking.is_used() {
            let writer = client.map_or(0, |it| it.id);
            let changed = touched.iter().map(|(_, key)| (writer, key.to_vec()));
            effects.changed.extend(changed);
        }
    }

    /// Remembers a client that tracks keys with those that it reads. Returns the keys of scripts,
    /// which may turn out to read nothing.
    pub(super) fn remember_reads<'a>(
        &self,
        caller: Caller<'_>,
        calls: &[Call<'a>],
    ) -> Vec<&'a [u8]> {
        let tracker = caller
            .client
            .map_or(0, |it| it.remembers.load(Ordering::Relaxed));
        if tracker == 0 {
            return Vec::new();
        }
        let keys_max = self.config.tracked_keys_max();
        let remember = |calls: &mut dyn Iterator<Item = &Call<'a>>| {
            let keys = calls.flat_map(|it| it.command.keys.of(it.args));
            self.tracking
                .remember(&self.clients, (tracker, keys_max), keys)
        };
        let is_script = |it: &&Call<'_>| it.command.has(NO_SCRIPT);
        // PFCOUNT writes what it has counted.
        let reads = |it: &&Call<'_>| it.command.has(READ) || it.command.name == "pfcount";
        remember(&mut calls.iter().filter(|it| reads(it) && !is_script(it)));
        let mut scripts = calls.iter().filter(is_script).peekable();
        match scripts.peek() {
            None => Vec::new(),
            Some(_) => remember(&mut scripts),
        }
    }

    /// Remembers what a script was refused.
    fn note_denied(&self, caller: Caller<'_>, denied: Denied, name: &str) {
        if let Some(client) = caller.client {
            let user = lock(&client.user).name.clone();
            self.note_refusal(Refusal::new(denied, "lua", name, &user), client);
        }
    }

    /// Counts the commands of an attempt, whose replies are those of the outcome from a place on.
    pub(super) fn count_all(
        &self,
        caller: Caller<'_>,
        calls: &[Call<'_>],
        (before, outcome): (usize, &Outcome),
    ) {
        // The server's own calls, and further tries of those who wait, have no address.
        let Some(client) = caller.client.filter(|_| !caller.address.is_empty()) else {
            return;
        };
        let ended = outcome.replies[before..]
            .iter()
            .zip(&outcome.took[before..]);
        for (call, (reply, took)) in calls.iter().zip(ended) {
            self.count(call, reply, *took, client);
        }
    }

    /// Counts a command, and remembers it if it was slow.
    pub(crate) fn count(&self, call: &Call<'_>, reply: &Reply, took: Duration, client: &Client) {
        let micros = took.as_micros() as u64;
        self.counters.note(call.command, micros, reply.is_error());
        self.slow_log.note(micros, call.args, client);
        let event = match call.command.has(FAST) {
            true => "fast-command",
            false => "command",
        };
        self.latencies.note(event, took);
    }
}
