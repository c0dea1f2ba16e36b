//! The commands that await something or concern the transaction of the connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Connection;
use crate::commands::{Args, Command, NO_AUTH, Run, Special, WRITE, seconds_to_wait};
use crate::execute::{Call, Caller};
use crate::number;
use crate::replication;
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::session::{Queued, Watched};
use crate::store::{DATABASES, Databases, Mode, Stop, Txn};
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
            Special::Watch => self.watch(&args[1..]).await,
            Special::Exec => self.exec().await,
            Special::FlushDb | Special::FlushAll | Special::SwapDb => {
                self.session.has_written = true;
                server
                    .replace_databases(special, self.session.db, args)
                    .await
            }
            Special::Save => server.save(args).await,
            Special::Wait | Special::WaitAof => {
                // In a transaction nobody waits.
                let counted = self.wait_for_replicas(None, (special, args)).await;
                counted.unwrap_or_else(|e| error(format!("ERR {e}")))
            }
            #[cfg(feature = "lua")]
            Special::Function => {
                let (reply, wrote) = server.run_function(args).await;
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
    async fn watch(&mut self, keys: Args<'_>) -> Reply {
        let server = self.session.server.clone();
        for name in keys {
            let key = (self.session.db, name.to_vec());
            if self.session.watched.iter().any(|it| it.key == key) {
                continue;
            }
            // First the watch, then the look: no change between the two is missed.
            server.watches.add(&self.session.client, &key);
            let expires = server.expiry_of(&key).await;
            self.session.watched.push(Watched { key, expires });
        }
        Reply::OK
    }

    async fn exec(&mut self) -> Reply {
        let Some(queue) = self.session.queue.take() else {
            return error("ERR EXEC without MULTI");
        };
        let failed = self.session.queue_failed;
        let mut commands = queue.iter().map(|it| it.command);
        // The role may have changed since.
        let refused = commands.find_map(|it| self.session.server.allow_by_role(it).err());
        let reply = match (refused, self.place(&queue)) {
            _ if failed => error("EXECABORT Transaction discarded because of previous errors."),
            (Some(refused), _) => refused,
            (None, Err(text)) => error(text),
            (None, Ok(())) => self.run_queue(&queue).await,
        };
        self.session.discard();
        reply
    }

    /// Checks that all keys of a transaction are of one slot that is here, if there are slots.
    fn place(&self, queue: &[Queued]) -> Result<(), String> {
        let Some(cluster) = &self.session.server.cluster else {
            return Ok(());
        };
        let args: Vec<Vec<&[u8]>> = queue
            .iter()
            .map(|it| it.args.iter().map(Vec::as_slice).collect())
            .collect();
        let keys = queue.iter().zip(&args);
        let keys: Vec<&[u8]> = keys
            .flat_map(|(it, args)| it.command.keys.of(args))
            .collect();
        let reads = queue.iter().all(|it| !it.command.has(WRITE));
        cluster.check_keys(self.session.access, reads, &keys)
    }

    /// Runs a transaction. Its commands of data are one commit; those about the connection and the
    /// server follow.
    async fn run_queue(&mut self, queue: &[Queued]) -> Reply {
        let server = self.session.server.clone();
        let args: Vec<Vec<&[u8]>> = queue
            .iter()
            .map(|it| it.args.iter().map(Vec::as_slice).collect())
            .collect();
        let (calls, refused) = self.allowed(queue, &args);
        let client = self.session.client.clone();
        let expiring: Vec<u64> = self.session.watched.iter().map(|it| it.expires).collect();
        let watched: Vec<_> = self
            .session
            .watched
            .iter()
            .map(|it| it.key.clone())
            .collect();
        let is_unchanged = || {
            let now = server.now();
            let expired = expiring.iter().any(|at| *at > 0 && *at <= now);
            !client.is_dirty.load(Ordering::Acquire) && !expired
        };
        if !is_unchanged() {
            return Reply::NullArray;
        }
        let caller = Caller {
            atomic: Some(&is_unchanged),
            watched: &watched,
            ..self.caller()
        };
        let outcome = server.run(caller, &calls).await;
        if outcome.refused {
            return Reply::NullArray;
        }
        self.session.has_written |= outcome.wrote;
        let served = server.announce(outcome.effects).await;
        if let Err(reply) = server.make_durable(outcome.wrote || served).await {
            return reply;
        }
        self.session.select(outcome.db);
        let mut of_data = outcome.replies.into_iter();
        let mut replies = Vec::with_capacity(queue.len());
        for ((queued, args), refused) in queue.iter().zip(&args).zip(refused) {
            replies.push(match queued.command.run {
                _ if refused.is_some() => refused.unwrap_or(Reply::Null),
                Run::Data(_) => of_data.next().unwrap_or(Reply::Null),
                Run::Session(run) => run(&mut self.session, args),
                Run::Connection(special) => Box::pin(self.run_special(special, args)).await,
                Run::Refused => error(format!(
                    "ERR the command '{}' is refused: {}",
                    queued.command.name, queued.command.summary
                )),
            });
        }
        Reply::Array(replies)
    }

    /// The commands of data of a transaction that the user may run now, and the errors in the
    /// places of those that the user may not: the rules may have changed since.
    fn allowed<'a>(
        &self,
        queue: &[Queued],
        args: &'a [Vec<&'a [u8]>],
    ) -> (Vec<Call<'a>>, Vec<Option<Reply>>) {
        let (mut calls, mut refused) = (Vec::new(), Vec::new());
        for (queued, args) in queue.iter().zip(args) {
            let command = queued.command;
            let allowed = match command.has(NO_AUTH) {
                true => Ok(()),
                false => self.session.allow(command, args, "multi"),
            };
            if command.is_data() && allowed.is_ok() {
                calls.push(Call { command, args });
            }
            refused.push(allowed.err());
        }
        (calls, refused)
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
        client.is_waiting.store(true, Ordering::Release);
        // Something may have come before the others knew of the waiter.
        if let Some(served) = server.serve(&waiter).await {
            let written = server.announce(served.effects).await;
            server.make_durable(served.wrote || written).await.ok();
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
                    if waiter.give_up() {
                        reply = Some(nothing(command));
                    } else {
                        tokio::task::yield_now().await;
                    }
                }
                () = client.wake.notified() => {
                    self.output.append(&mut client.take_outbox());
                    reply = self.woken(&waiter, command);
                    if reply.is_none()
                        && let Err(error) = self.write(stream).await
                    {
                        result = Err(error);
                        // Whoever still served it would lose what it takes.
                        ends.set(tokio::time::sleep(Duration::ZERO));
                    }
                }
                read = read_more(stream, &mut self.input) => {
                    if !matches!(read, Ok(true)) && waiter.give_up() {
                        result = read.map(drop);
                        self.session.ends = true;
                        reply = Some(Reply::Several(Vec::new()));
                    }
                }
            }
        }
        client.is_waiting.store(false, Ordering::Release);
        server.waiters.remove(&waiter);
        result.map(|()| reply.unwrap_or(Reply::Null))
    }

    /// The reply to a client that another one has ended or unblocked.
    fn woken(&mut self, waiter: &Waiter, command: &Command) -> Option<Reply> {
        let client = &self.session.client;
        let unblocked = client.unblocked.load(Ordering::Acquire);
        if client.is_killed() && waiter.give_up() {
            self.session.ends = true;
            return Some(Reply::Several(Vec::new()));
        }
        (unblocked > 0 && waiter.give_up()).then(|| match unblocked {
            1 => nothing(command),
            _ => error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
        })
    }
}

/// The reply when the time is over.
fn nothing(command: &Command) -> Reply {
    match command.name {
        "blmove" | "brpoplpush" => Reply::Null,
        _ => Reply::NullArray,
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
    /// The time of expiry of a key, 0 for none.
    async fn expiry_of(&self, key: &(usize, Vec<u8>)) -> u64 {
        let read = || {
            let databases = self.databases();
            let mut txn = Txn::new(&databases, Mode::Device, self.now())?;
            let entry = txn.lookup_in(key.0, &key.1)?;
            Ok::<u64, Stop>(entry.expires())
        };
        tokio::task::block_in_place(read).unwrap_or(0)
    }

    /// FLUSHDB, FLUSHALL and SWAPDB: one write, while nobody else writes.
    async fn replace_databases(&self, special: Special, db: usize, args: Args<'_>) -> Reply {
        let (mut dbs, mut swapped) = (vec![db], None);
        match special {
            Special::FlushAll => dbs = (0..DATABASES).collect(),
            Special::SwapDb => {
                let number = |place: usize| number::integer(args[place]).is_some();
                if !number(1) {
                    return error("ERR invalid first DB index");
                }
                if !number(2) {
                    return error("ERR invalid second DB index");
                }
                let (Some(one), Some(other)) = (database(args[1]), database(args[2])) else {
                    return error("ERR DB index is out of range");
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
            return error("ERR syntax error");
        }
        loop {
            let done = tokio::task::block_in_place(|| self.try_to_replace(&dbs, swapped));
            match done {
                None => tokio::time::sleep(Duration::from_micros(100)).await,
                Some(Err(reply)) => return reply,
                Some(Ok(())) => break,
            }
        }
        if let Err(reply) = self.make_durable(true).await {
            return reply;
        }
        // Whoever waits looks again: a key may have come or gone.
        let effects = crate::store::Effects {
            ready: self.waiters.keys(),
            flushed: true,
            ..crate::store::Effects::default()
        };
        Box::pin(self.announce(effects)).await;
        Reply::OK
    }

    /// Replaces databases by one write; `None` if that has to wait.
    fn try_to_replace(
        &self,
        dbs: &[usize],
        swapped: Option<(usize, usize)>,
    ) -> Option<Result<(), Reply>> {
        let (databases, _held) = self.hold_all()?;
        if let Some(text) = self.write_refusal() {
            return Some(Err(error(text)));
        }
        let touched = self.watched_and_there(dbs, swapped);
        let result = match swapped {
            Some((one, other)) => databases.swap(one, other),
            None => databases.flush(dbs),
        };
        self.watches.touch(borrowed(&touched));
        Some(result.map_err(|error| crate::store::engine_error(&error)))
    }

    /// The databases, while nobody else writes. `None` if somebody does, or writes have to wait.
    fn hold_all(&self) -> Option<(Arc<Databases>, impl Sized + '_)> {
        let databases = self.databases();
        let held = self.stripes.try_hold_all()?;
        let waits = self.replication.is_loading() || self.replication.is_paused();
        (!waits).then_some((databases, held))
    }

    /// Runs a subcommand of FUNCTION; what writes runs while nobody else writes.
    #[cfg(feature = "lua")]
    async fn run_function(&self, args: Args<'_>) -> (Reply, bool) {
        use crate::commands::functions;
        if !functions::writes(args) {
            let run = || functions::function(&self.databases(), args);
            return tokio::task::block_in_place(run);
        }
        loop {
            let done = tokio::task::block_in_place(|| {
                let (databases, _held) = self.hold_all()?;
                Some(match self.write_refusal() {
                    Some(text) => (error(text), false),
                    None => functions::function(&databases, args),
                })
            });
            if let Some(done) = done {
                return done;
            }
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
    }

    /// The watched keys of these databases that are there, before or after.
    fn watched_and_there(
        &self,
        dbs: &[usize],
        swapped: Option<(usize, usize)>,
    ) -> Vec<(usize, Vec<u8>)> {
        let mut keys = self.watches.keys_of(dbs);
        keys.retain(|(db, key)| {
            let others = swapped.map(|(one, other)| if one == *db { other } else { one });
            [Some(*db), others].into_iter().flatten().any(|db| {
                let databases = self.databases();
                let txn = Txn::new(&databases, Mode::Device, self.now());
                let found = txn
                    .map_err(Stop::from)
                    .and_then(|mut txn| txn.lookup_in(db, key));
                found.is_ok_and(|entry| entry.exists())
            })
        });
        keys
    }
}
