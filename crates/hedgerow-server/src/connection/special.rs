//! The commands that await something or concern the connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Connection;
use crate::commands::{Args, Command, Special, seconds_to_wait};
use crate::execute::Served;
use crate::number;
use crate::replication;
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::store::{DATABASES, Databases, Effects, Mode, Space, Txn};
use crate::stream::{READ_BYTES, Stream};
use crate::waiters::Waiter;
use crate::watches::borrowed;

impl Connection {
    pub(super) async fn run_special(&mut self, special: Special, args: Args<'_>) -> Reply {
        let server = self.session.server.clone();
        match special {
            Special::Multi if self.session.queue.is_some() => {
                error("ERR MULTI calls can not be nested")
            }
            Special::Multi => {
                self.session.queue = Some(Vec::new());
                self.session.client.queued.store(1, Ordering::Relaxed);
                Reply::OK
            }
            Special::Discard if self.session.queue.is_none() => error("ERR DISCARD without MULTI"),
            Special::Discard => {
                self.session.discard();
                Reply::OK
            }
            Special::Watch if self.session.queue.is_some() => {
                error("ERR WATCH inside MULTI is not allowed")
            }
            Special::Watch => self.watch(&args[1..]),
            Special::Exec => self.exec().await,
            Special::FlushDb | Special::FlushAll | Special::SwapDb => {
                self.session.has_written = true;
                let excludes = self.excluding.is_some();
                let whose = (self.session.db, excludes);
                match server.replace_databases(special, whose, args).await {
                    Ok(effects) => {
                        Box::pin(self.announce(effects)).await;
                        Reply::OK
                    }
                    Err(reply) => reply,
                }
            }
            Special::Save => server.save(args).await,
            Special::Wait | Special::WaitAof => {
                // In a transaction nobody waits.
                let counted = self.wait_for_replicas(None, (special, args)).await;
                counted.unwrap_or_else(|e| error(format!("ERR {e}")))
            }
            #[cfg(feature = "lua")]
            Special::Function => {
                let excludes = self.excluding.is_some();
                let (reply, wrote) = server.run_function(args, excludes).await;
                self.session.has_written |= wrote;
                server.make_durable(wrote).await.err().unwrap_or(reply)
            }
            Special::ReplicaOf => replication::replica_of(&server, args).await,
            Special::Failover => replication::failover(&server, args).await,
            Special::Sync => error("ERR HEDGEROW.SYNC is not possible in a transaction"),
            Special::Shutdown => self.shut_down(args),
            Special::Debug => debug(args).await,
        }
    }

    /// SHUTDOWN: the end of the connection is the reply, when the database is closed. SAVE, NOSAVE,
    /// NOW and FORCE change nothing: everything is durable at the end, and nobody is waited for.
    fn shut_down(&mut self, args: Args<'_>) -> Reply {
        let count = |word: &str| {
            let is = |it: &&&[u8]| it.eq_ignore_ascii_case(word.as_bytes());
            args[1..].iter().filter(is).count()
        };
        let [save, nosave, now, force, abort] =
            ["SAVE", "NOSAVE", "NOW", "FORCE", "ABORT"].map(count);
        let known = save + nosave + now + force + abort == args.len() - 1;
        if !known || save > 0 && nosave > 0 || abort > 0 && args.len() > 2 {
            return error("ERR syntax error");
        }
        if abort > 0 {
            return error("ERR No shutdown in progress.");
        }
        self.session.shuts_down = true;
        self.session.ends = true;
        Reply::Several(Vec::new())
    }

    /// Remembers the keys that the next transaction depends on.
    fn watch(&mut self, keys: Args<'_>) -> Reply {
        let session = &mut self.session;
        let (server, db) = (session.server.clone(), session.db);
        let mut new = Vec::new();
        for name in keys {
            // First the watch, then the look: no change between the two is missed.
            if session.watch((db, name.to_vec())) {
                new.push(*name);
            }
            if session.client.is_killed() {
                break;
            }
        }
        for (name, expires) in new.iter().zip(server.expiries_of(db, &new)) {
            session.watched.insert((db, name.to_vec()), expires);
        }
        Reply::OK
    }

    /// Waits with a command.
    pub(super) async fn wait(
        &mut self,
        stream: &mut Stream,
        server: &Arc<Server>,
        command: &'static Command,
        args: Vec<Vec<u8>>,
    ) -> io::Result<Reply> {
        let client = self.session.client.clone();
        let seconds = seconds_to_wait(&args);
        let whose = (self.session.db, self.session.resp3);
        let (waiter, mut receiver) = Waiter::new(client.clone(), (command, args), whose);
        client.unblocked.store(0, Ordering::Release);
        server.waiters.add(&waiter);
        // Something may have come before the others knew of the waiter.
        match server.serve(&waiter).await {
            Served::Replied(effects) => server.announce(*effects).await,
            // Whoever sees it wait sees it stand in its place: it takes nothing by itself any more.
            _ => client.is_waiting.store(true, Ordering::Release),
        }
        let seconds = if seconds > 0.0 { seconds } else { 1e9 };
        let ends = tokio::time::sleep(Duration::from_secs_f64(seconds));
        tokio::pin!(ends);
        let mut reply = None;
        let mut result = Ok(());
        while reply.is_none() {
            tokio::select! {
                biased;
                received = &mut receiver => reply = Some(received.unwrap_or(Reply::Null)),
                () = &mut ends => {
                    reply = Some(leave(&waiter, &mut receiver, Reply::NullArray).await);
                }
                () = client.wake.notified() => {
                    self.output.append(&mut client.take_outbox());
                    if let Some(instead) = self.woken() {
                        reply = Some(leave(&waiter, &mut receiver, instead).await);
                    }
                    if reply.is_none()
                        && let Err(error) = self.write(stream).await
                    {
                        result = Err(error);
                        // Whoever still served it would lose what it takes.
                        ends.set(tokio::time::sleep(Duration::ZERO));
                    }
                }
                read = read_more(stream, &mut self.input) => {
                    if !matches!(read, Ok(true)) {
                        result = read.map(drop);
                        self.session.ends = true;
                        reply = Some(leave(&waiter, &mut receiver, Reply::Several(Vec::new())).await);
                    }
                }
            }
        }
        client.is_waiting.store(false, Ordering::Release);
        server.waiters.remove(&waiter);
        result.map(|()| reply.unwrap_or(Reply::Null))
    }

    /// The reply to a client that another one has ended or unblocked.
    fn woken(&mut self) -> Option<Reply> {
        let client = &self.session.client;
        if client.is_killed() {
            self.session.ends = true;
            return Some(Reply::Several(Vec::new()));
        }
        match client.unblocked.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Reply::NullArray),
            _ => Some(error("UNBLOCKED client unblocked via CLIENT UNBLOCK")),
        }
    }
}

/// Ends the waiting of a client with a reply, or with the one that its command has got.
async fn leave(
    waiter: &Waiter,
    receiver: &mut tokio::sync::oneshot::Receiver<Reply>,
    instead: Reply,
) -> Reply {
    match waiter.leave().await {
        Some(_) => instead,
        None => receiver.await.unwrap_or(Reply::Null),
    }
}

/// Reads what a waiting client sends. Returns false at the end.
pub(super) async fn read_more(stream: &mut Stream, input: &mut Vec<u8>) -> io::Result<bool> {
    // A client that sends much while it waits is read later.
    if input.len() >= super::REPLY_BYTES_MAX {
        std::future::pending::<()>().await;
    }
    Ok(stream.read(input, READ_BYTES).await? > 0)
}

/// The database with this number.
fn database(argument: &[u8]) -> Option<usize> {
    let number = usize::try_from(number::integer(argument)?).ok()?;
    Some(number).filter(|it| *it < DATABASES)
}

async fn debug(args: Args<'_>) -> Reply {
    let is = |word: &str| args[1].eq_ignore_ascii_case(word.as_bytes());
    match args.get(2).and_then(|it| number::parse_float(it)) {
        Some(seconds) if is("SLEEP") && (0.0..1e6).contains(&seconds) => {
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            Reply::OK
        }
        _ if is("ERROR") && args.len() == 3 => error(String::from_utf8_lossy(args[2])),
        _ => error("ERR DEBUG knows SLEEP with a number of seconds, and ERROR with a text"),
    }
}

impl Server {
    /// The times of expiry of keys in one state, 0 for none. A key that cannot be read is as one
    /// that expires at once: EXEC is refused then.
    fn expiries_of(&self, db: usize, keys: Args<'_>) -> Vec<u64> {
        let read = || {
            let databases = self.databases();
            let mut txn = Txn::new(&databases, Mode::Device, self.now())?;
            if keys.len() > 1 {
                // The reads overlap here. An error comes again below.
                let stored = keys.iter().map(|key| [&txn.place(key), *key].concat());
                let stored: Vec<_> = stored.collect();
                let _ = txn.get_all((db, Space::Meta), &stored, |_| Ok(()));
            }
            let of_key = |key: &&[u8]| txn.lookup_in(db, key).map_or(1, |it| it.expires());
            Ok::<_, hedgerow::Error>(keys.iter().map(of_key).collect())
        };
        tokio::task::block_in_place(read).unwrap_or_else(|_| vec![1; keys.len()])
    }

    /// FLUSHDB, FLUSHALL and SWAPDB: one write, while nobody else writes.
    async fn replace_databases(
        &self,
        special: Special,
        (db, excludes): (usize, bool),
        args: Args<'_>,
    ) -> Result<Effects, Reply> {
        let (mut dbs, mut swapped) = (vec![db], None);
        match special {
            Special::FlushAll => dbs = (0..DATABASES).collect(),
            Special::SwapDb => {
                let number = |place: usize| number::integer(args[place]).is_some();
                if !number(1) {
                    return Err(error("ERR invalid first DB index"));
                }
                if !number(2) {
                    return Err(error("ERR invalid second DB index"));
                }
                let (Some(one), Some(other)) = (database(args[1]), database(args[2])) else {
                    return Err(error("ERR DB index is out of range"));
                };
                dbs = vec![one, other];
                swapped = Some((one, other));
            }
            _ => {}
        }
        let is_mode = |it: &[u8]| {
            ["ASYNC", "SYNC"]
                .iter()
                .any(|mode| it.eq_ignore_ascii_case(mode.as_bytes()))
        };
        if swapped.is_none() && !(args.len() == 1 || args.len() == 2 && is_mode(args[1])) {
            return Err(error("ERR syntax error"));
        }
        let replace = |databases: &_| self.replace(databases, &dbs, swapped);
        self.alone(excludes, replace).await?;
        self.make_durable(true).await?;
        // Whoever waits looks again: a key may have come or gone.
        Ok(Effects {
            ready: self.waiters.keys(),
            flushed: true,
            ..Effects::default()
        })
    }

    /// Replaces databases by one write, while nobody else writes.
    fn replace(
        &self,
        databases: &Arc<Databases>,
        dbs: &[usize],
        swapped: Option<(usize, usize)>,
    ) -> Result<(), Reply> {
        if let Some(text) = self.write_refusal() {
            return Err(error(text));
        }
        let touched = self.watched_and_there(dbs, swapped);
        let result = match swapped {
            Some((one, other)) => databases.swap(one, other),
            None => databases.flush(dbs),
        };
        self.watches.touch(borrowed(&touched));
        result.map_err(|error| crate::store::engine_error(&error))
    }

    /// Runs a subcommand of FUNCTION; what writes runs while nobody else writes.
    #[cfg(feature = "lua")]
    async fn run_function(&self, args: Args<'_>, excludes: bool) -> (Reply, bool) {
        use crate::commands::functions;
        if !functions::writes(args) {
            let run = || functions::function(&self.databases(), args);
            return tokio::task::block_in_place(run);
        }
        let run = |databases: &Arc<Databases>| match self.write_refusal() {
            Some(text) => (error(text), false),
            None => functions::function(databases, args),
        };
        self.alone(excludes, run).await
    }

    /// The watched keys of these databases that are there, before or after.
    fn watched_and_there(
        &self,
        dbs: &[usize],
        swapped: Option<(usize, usize)>,
    ) -> Vec<(usize, Vec<u8>)> {
        let mut keys = self.watches.keys_of(dbs);
        let databases = self.databases();
        let Ok(mut txn) = Txn::new(&databases, Mode::Device, self.now()) else {
            return Vec::new();
        };
        keys.retain(|(db, key)| {
            let others = swapped.map(|(one, other)| if one == *db { other } else { one });
            let mut dbs = [Some(*db), others].into_iter().flatten();
            dbs.any(|db| txn.lookup_in(db, key).is_ok_and(|entry| entry.exists()))
        });
        keys
    }
}
