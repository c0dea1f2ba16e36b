//! The loop of a connection: one read, all complete commands, their replies in order, one write.
//!
//! Neighbouring commands of data are run together ([`crate::execute`]). Between requests a
//! connection holds no buffer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use admission::is_of_http;

use crate::client::lock;
use crate::clock;
use crate::commands::{ALL_KEYS, Args, BLOCKING, Command, Run, Special, WRITE, find};
use crate::exclusion::Excluding;
use crate::execute::{Call, Caller};
use crate::resp::{Limits, Parser, Reply, Request, error};
use crate::server::Server;
use crate::session::{Queued, Replies, Session};
use crate::store::Effects;
use crate::stream::{READ_BYTES, Stream};

/// The commands behind whose reply a client expects no message of a channel that it has left.
const ENDS_SUBSCRIPTIONS: [&str; 3] = ["unsubscribe", "punsubscribe", "sunsubscribe"];
/// The memory of a queued command beside its arguments.
const QUEUED_BYTES: usize = 64;
/// The commands that are run together.
const CALLS_MAX: usize = 128;
/// The bytes of replies above which they are written before more commands are run.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 20;

/// Serves a client until either side ends.
pub(crate) async fn serve(server: Arc<Server>, mut stream: Stream) {
    let address =
        |it: io::Result<std::net::SocketAddr>| it.map_or(String::new(), |it| it.to_string());
    let client = server.clients.add(
        &server.buffers,
        server.acl.first().0,
        address(stream.peer_addr()),
        address(stream.local_addr()),
    );
    let mut connection = Connection {
        session: Session::new(server, client),
        parser: Parser::default(),
        input: Vec::new(),
        output: Vec::new(),
        held: 0,
        excluding: None,
    };
    // The other side is gone, or has sent what is no request; there is nobody to tell.
    let _ = connection.run(&mut stream).await;
    if connection.session.shuts_down {
        connection.session.server.end(stream);
    }
}

struct Connection {
    session: Session,
    parser: Parser,
    /// Bytes that were read and not executed.
    input: Vec<u8>,
    /// Bytes that are to be written.
    output: Vec<u8>,
    /// The bytes of requests that are executed, and of replies that are not in the output yet.
    held: usize,
    /// The exclusion of others by a transaction, and the changes that they are told of behind it.
    /// In a box: a connection that waits has none.
    excluding: Option<Box<(Excluding, Effects)>>,
}

impl Connection {
    async fn run(&mut self, stream: &mut Stream) -> io::Result<()> {
        let client = self.session.client.clone();
        loop {
            let wanted = self.parser.wanted(&self.input).clamp(READ_BYTES, 1 << 20);
            tokio::select! {
                // Else both are registered for each request, since the order is a random one.
                biased;
                read = stream.read(&mut self.input, wanted) => {
                    if read? == 0 {
                        return Ok(());
                    }
                    // On the heap only while it runs: most connections wait.
                    Box::pin(self.execute_input(stream)).await?;
                }
                () = client.wake.notified() => {}
                () = self.session.server.idle_too_long(&client) => return Ok(()),
            }
            self.output.append(&mut client.take_outbox());
            self.write(stream).await?;
            if self.session.ends || client.is_killed() {
                return Ok(());
            }
        }
    }

    async fn write(&mut self, stream: &mut Stream) -> io::Result<()> {
        let output = std::mem::take(&mut self.output);
        if output.is_empty() {
            return Ok(());
        }
        let written = stream.try_write(&output)?;
        if written == output.len() {
            return Ok(());
        }
        self.count(output.len())?;
        let client = &self.session.client;
        let mut woken = false;
        let writing = stream.write_all(&output[written..]);
        tokio::pin!(writing);
        loop {
            tokio::select! {
                written = &mut writing => break written?,
                // A client that does not read can still be ended.
                () = client.wake.notified() => {
                    woken = true;
                    if client.is_killed() {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                }
            }
        }
        if woken {
            client.wake.notify_one();
        }
        self.count(0)
    }

    /// Counts what waits for the client or because of it, and output that it does not take at once.
    /// Fails if all together is too much.
    fn count(&mut self, output_bytes: usize) -> io::Result<()> {
        let bytes = self.input.capacity() + output_bytes + self.session.queued_bytes + self.held;
        match self.session.count_buffers(bytes) {
            true => Ok(()),
            false => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    async fn execute_input(&mut self, stream: &mut Stream) -> io::Result<()> {
        loop {
            let input = std::mem::take(&mut self.input);
            self.held = input.capacity();
            // Behind a request that logs the client in, other bounds hold.
            let (limits, count_max) = match self.session.is_authenticated {
                true => (self.session.server.config.limits(), usize::MAX),
                false => (Limits::UNAUTHENTICATED, 1),
            };
            let (requests, failure) = self.parser.requests(&input, limits, count_max);
            *lock(&self.session.client.last_used) = clock::now();
            self.execute_requests(stream, &requests, &input).await?;
            if let Some(failure) = failure {
                let text = format!("ERR Protocol error: {}", failure.0);
                error(text).write(&mut self.output, self.session.resp3);
                self.session.ends = true;
                return Ok(());
            }
            self.held = 0;
            // A command that waited has read more.
            let has_more = !self.input.is_empty();
            self.keep_rest(input);
            self.count(0)?;
            if self.input.len() > self.session.server.config.query_bytes_max() {
                self.session.ends = true;
            }
            if requests.len() < count_max && !has_more || self.session.ends {
                return Ok(());
            }
        }
    }

    async fn execute_requests(
        &mut self,
        stream: &mut Stream,
        requests: &[Request],
        input: &[u8],
    ) -> io::Result<()> {
        let (mut words, mut places) = (Vec::with_capacity(4 * requests.len()), Vec::new());
        for request in requests {
            let begin = words.len();
            request.add_words(input, &mut words);
            places.push(begin..words.len());
        }
        self.execute(stream, places.iter().map(|it| &words[it.clone()]))
            .await
    }

    /// Keeps what is not a whole request yet, before what was read meanwhile.
    fn keep_rest(&mut self, mut input: Vec<u8>) {
        let parsed = self.parser.parsed();
        if parsed < input.len() {
            input.drain(..parsed);
            input.append(&mut self.input);
            self.input = input;
        }
    }

    /// Executes requests in their order.
    async fn execute<'a>(
        &mut self,
        stream: &mut Stream,
        requests: impl Iterator<Item = Args<'a>>,
    ) -> io::Result<()> {
        let mut calls: Vec<Call<'_>> = Vec::new();
        for args in requests {
            if self.session.ends || self.session.client.is_killed() {
                break;
            }
            if self.is_paused(args) {
                self.run_calls(stream, &mut calls).await?;
                self.write(stream).await?;
                let client = self.session.client.clone();
                let pause = &self.session.server.pause;
                pause.wait(&client, || self.is_paused(args)).await;
            }
            if is_of_http(args[0]) {
                self.run_calls(stream, &mut calls).await?;
                self.session.ends = true;
                break;
            }
            let command = self.admit(args);
            let runs_together = |it: &'static Command| {
                it.is_data() && self.session.queue.is_none() && !it.has(BLOCKING)
            };
            match command {
                Ok(command) if runs_together(command) => {
                    // A command about all keys is run alone.
                    if command.has(ALL_KEYS) || self.session.tracks_alone(command) {
                        self.run_calls(stream, &mut calls).await?;
                    }
                    calls.push(Call { command, args });
                    let waiting = self.session.server.waiters.count() > 0 && command.has(WRITE);
                    let alone = command.has(ALL_KEYS) || self.session.tracks_alone(command);
                    if calls.len() >= CALLS_MAX || alone || waiting {
                        self.run_calls(stream, &mut calls).await?;
                    }
                }
                other => {
                    self.run_calls(stream, &mut calls).await?;
                    self.answer(stream, other, args).await?;
                }
            }
            if self.output.len() > REPLY_BYTES_MAX {
                self.run_calls(stream, &mut calls).await?;
                self.write(stream).await?;
            }
        }
        self.run_calls(stream, &mut calls).await
    }

    /// Runs a command that is not run together with others, and adds its reply to the output.
    async fn answer(
        &mut self,
        stream: &mut Stream,
        command: Result<&'static Command, Reply>,
        args: Args<'_>,
    ) -> io::Result<()> {
        let reply = match command {
            Ok(command) => {
                // On the heap, so that there is less of it for commands of data.
                let reply = Box::pin(self.run_alone(stream, command, args)).await?;
                if command.name != "client" && self.session.queue.is_none() {
                    self.session.set_caching(false);
                }
                if ENDS_SUBSCRIPTIONS.contains(&command.name) {
                    // Messages of before are not told behind the reply.
                    let mut messages = self.session.client.take_outbox();
                    self.output.append(&mut messages);
                }
                reply
            }
            Err(reply) => reply,
        };
        self.send(stream, &[reply]).await
    }

    /// Returns true if a request has to wait for the end of a pause.
    fn is_paused(&self, args: Args<'_>) -> bool {
        let pause = &self.session.server.pause;
        pause.is_on(false) && find(args[0]).is_some_and(|it| pause.stops(&self.session, it))
    }

    /// Adds replies to the output. A large one is alone there: both may be as large as is allowed.
    async fn send(&mut self, stream: &mut Stream, replies: &[Reply]) -> io::Result<()> {
        let held: usize = replies.iter().map(Reply::memory_bytes).sum();
        self.held += held;
        let small = replies.iter().map(Reply::bytes);
        let small = small.filter(|it| *it <= REPLY_BYTES_MAX);
        self.output.reserve(small.sum());
        for reply in replies {
            let bytes = reply.bytes();
            if bytes > REPLY_BYTES_MAX {
                self.write(stream).await?;
                self.output.reserve_exact(bytes);
            }
            self.reply(reply);
        }
        self.held -= held;
        Ok(())
    }

    fn reply(&mut self, reply: &Reply) {
        match self.session.replies {
            // Messages and subscriptions are told whatever replies are.
            _ if reply.is_push() => reply.write(&mut self.output, self.session.resp3),
            Replies::On => reply.write(&mut self.output, self.session.resp3),
            Replies::Off => {}
            Replies::SkipNext => self.session.replies = Replies::SkipThis,
            Replies::SkipThis => self.session.replies = Replies::On,
        }
    }

    fn caller(&self) -> Caller<'_> {
        Caller {
            db: self.session.db,
            resp3: self.session.resp3,
            excludes: self.excluding.is_some(),
            address: &self.session.client.address,
            client: Some(&self.session.client),
            ..Caller::default()
        }
    }

    /// Runs commands of data together. Much is written before more commands are run.
    async fn run_calls(
        &mut self,
        stream: &mut Stream,
        calls: &mut Vec<Call<'_>>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < calls.len() {
            let server = &self.session.server;
            let mut outcome = server.run(self.caller(), &calls[done..]).await;
            done += outcome.replies.len();
            self.session.set_caching(false);
            self.session.select(outcome.db);
            self.session.has_written |= outcome.wrote;
            let server = &self.session.server;
            server.announce(outcome.effects).await;
            outcome.replies.iter().for_each(|it| server.note_error(it));
            if let Err(error) = server.make_durable(outcome.wrote).await {
                outcome.replies.fill(error);
            }
            self.send(stream, &outcome.replies).await?;
            drop(outcome.replies);
            if self.output.len() > REPLY_BYTES_MAX {
                self.write(stream).await?;
            }
        }
        calls.clear();
        Ok(())
    }

    /// Runs a command that is not run together with others.
    async fn run_alone(
        &mut self,
        stream: &mut Stream,
        command: &'static Command,
        args: Args<'_>,
    ) -> io::Result<Reply> {
        let ends_queue = matches!(
            command.run,
            Run::Connection(Special::Exec | Special::Discard | Special::Multi | Special::Watch)
        ) || matches!(command.name, "reset" | "quit");
        if let (Some(queue), false) = (&mut self.session.queue, ends_queue) {
            self.session.queued_bytes +=
                args.iter().map(|it| it.len() + 32).sum::<usize>() + QUEUED_BYTES;
            let args = args.iter().map(|it| it.to_vec()).collect();
            queue.push(Queued { command, args });
            self.session
                .client
                .queued
                .store(queue.len() + 1, Ordering::Relaxed);
            return Ok(Reply::Status("QUEUED"));
        }
        let began = clock::now();
        let reply = match command.run {
            Run::Refused => error(format!(
                "ERR the command '{}' is refused: {}",
                command.name, command.summary
            )),
            Run::Session(run) => run(&mut self.session, args),
            Run::Connection(special @ (Special::Wait | Special::WaitAof)) => {
                self.wait_for_replicas(Some(stream), (special, args))
                    .await?
            }
            Run::Connection(Special::Sync) => self.replicate(stream, args).await?,
            Run::Connection(special) => self.run_special(special, args).await,
            Run::Data(_) => return self.run_waiting(stream, command, args).await,
        };
        let call = Call { command, args };
        let took = match command.run {
            // The time in which they wait for others does not count.
            Run::Connection(Special::Wait | Special::WaitAof | Special::Sync) => Duration::ZERO,
            _ => began.elapsed(),
        };
        let session = &self.session;
        session.server.count(&call, &reply, took, &session.client);
        self.session.server.note_error(&reply);
        Ok(reply)
    }

    /// Runs a command that waits until a key has something, the time is over, or the client is
    /// gone.
    async fn run_waiting(
        &mut self,
        stream: &mut Stream,
        command: &'static Command,
        args: Args<'_>,
    ) -> io::Result<Reply> {
        let server = self.session.server.clone();
        let call = Call { command, args };
        let mut outcome = server.run(self.caller(), &[call]).await;
        let reply = outcome.replies.pop().unwrap_or(Reply::Null);
        let args = match reply {
            Reply::Wait => args.iter().map(|it| it.to_vec()).collect(),
            Reply::WaitWith(args) => args,
            reply => {
                self.session.has_written |= outcome.wrote;
                server.announce(outcome.effects).await;
                let synced = server.make_durable(outcome.wrote).await;
                let reply = synced.err().unwrap_or(reply);
                server.note_error(&reply);
                return Ok(reply);
            }
        };
        // Replies to the commands before must not wait.
        self.write(stream).await?;
        let reply = self.wait(stream, &server, command, args).await?;
        self.session.has_written |= command.has(WRITE);
        server.note_error(&reply);
        if reply.is_error() {
            server.counters.note_failure(command);
        }
        Ok(reply)
    }
}

mod admission;
mod replicas;
mod special;
mod transaction;

#[cfg(test)]
mod tests;
