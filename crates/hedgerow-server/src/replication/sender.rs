//! A connection to a replica: what it asks for, a copy if it needs one, then commits as they come.
//!
//! Everything that is sent is durable here, so a replica never has what its primary can lose.
//! Commits are looked for every 10 ms, and at once for those who wait for replicas: a look at the
//! log syncs it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hedgerow::{Db, Error, ErrorKind};
use hedgerow_copies::replica::send_commit;
use hedgerow_copies::transfer;
use tokio::net::TcpStream;

use super::feed::Feed;
use super::replicas::Replica;
use super::wire::{Message, Parts, Wire};
use super::{Replication, SENDING};
use crate::client::{Client, lock};
use crate::clock;
use crate::commands::Args;
use crate::directories::remove;
use crate::number;
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::store::engine_error;

/// The pause between two looks for commits.
const PAUSE: Duration = Duration::from_millis(10);
const PING_EACH: Duration = Duration::from_secs(1);
/// The bytes of commits that are sent together.
const SENT_BYTES: usize = 256 << 10;
const VERSION: i64 = 1;
/// The error for a replica that comes while the server changes itself.
const NO_LINK_TEXT: &str = "NOMASTERLINK Can't SYNC while not connected with my master";

/// The begin of the error for a server that would hand over.
pub(super) const REFUSED: &str = "-ERR FAILOVER: ";

/// The arguments of HEDGEROW.SYNC: `version id offset [EARLIER id] [PORT port] [IP ip]
/// [RUN run-id] [FAILOVER|FORCE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    id: String,
    /// An earlier history that is the same up to the offset.
    earlier: Option<String>,
    offset: u64,
    port: u16,
    ip: String,
    run_id: String,
    /// The sender was the primary, and hands over.
    hands_over: bool,
    /// It does so also to a replica that lacks something.
    forces: bool,
}

impl Request {
    pub(crate) fn parse(args: Args<'_>) -> Result<Request, Reply> {
        let wrong = || error("ERR expected HEDGEROW.SYNC version id offset and options");
        let [_, version, id, offset, rest @ ..] = args else {
            return Err(wrong());
        };
        if number::integer(version) != Some(VERSION) {
            let found = version.escape_ascii();
            return Err(error(format!(
                "ERR expected version {VERSION} of the replication, found {found}"
            )));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let whole = |bytes: &[u8]| number::integer(bytes).and_then(|it| u64::try_from(it).ok());
        let mut request = Request {
            id: text(id),
            earlier: None,
            offset: whole(offset).ok_or_else(wrong)?,
            port: 0,
            ip: String::new(),
            run_id: String::new(),
            hands_over: false,
            forces: false,
        };
        let mut rest = rest;
        loop {
            rest = match rest {
                [] => return Ok(request),
                [b"PORT", port, behind @ ..] => {
                    let port = whole(port).and_then(|it| u16::try_from(it).ok());
                    request.port = port.ok_or_else(wrong)?;
                    behind
                }
                [b"IP", ip, behind @ ..] if !text(ip).contains(char::is_whitespace) => {
                    request.ip = text(ip);
                    behind
                }
                [b"EARLIER", id, behind @ ..] => {
                    request.earlier = Some(text(id));
                    behind
                }
                [b"RUN", run_id, behind @ ..] => {
                    request.run_id = text(run_id);
                    behind
                }
                [b"FAILOVER", behind @ ..] => {
                    request.hands_over = true;
                    behind
                }
                [b"FORCE", behind @ ..] => {
                    (request.hands_over, request.forces) = (true, true);
                    behind
                }
                _ => return Err(wrong()),
            }
        }
    }
}

/// The answer to a replica.
enum Answer {
    Refuse(Reply),
    Continue(Box<Feed>),
    Copy,
}

/// Answers a replica, and sends what it needs as long as it is there. Returns the reply if that is
/// an error. One that hands over is cut off instead when the server has taken over: an error would
/// tell it to continue.
pub(crate) async fn serve(
    server: &Arc<Server>,
    client: &Arc<Client>,
    request: &Request,
    stream: &mut TcpStream,
) -> io::Result<Reply> {
    if request.run_id == server.run_id {
        return Ok(error("ERR a server cannot be a replica of itself"));
    }
    if request.hands_over
        && let Err(reply) = take_over(server, request).await
    {
        return Ok(reply);
    }
    tokio::task::block_in_place(|| {
        let (db, epoch) = (server.db(), server.replication.epoch());
        let answer = answer(server, &db, request);
        let is_over = || {
            let replication = &server.replication;
            let is_over = replication.is_over.load(Ordering::Acquire);
            is_over || client.is_killed() || replication.epoch() != epoch
        };
        let refuse = |reply| match request.hands_over {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(reply),
        };
        if is_over() {
            return refuse(error(NO_LINK_TEXT));
        }
        let patience = server.config.replication.timeout();
        let wire = Wire::new(stream, (Vec::new(), patience), &is_over);
        let answer = match answer.unwrap_or_else(|error| Answer::Refuse(engine_error(&error))) {
            Answer::Refuse(reply) => return refuse(reply),
            answer => answer,
        };
        let host = match request.ip.is_empty() {
            false => request.ip.clone(),
            true => host_of(&client.address),
        };
        let replica = Arc::new(Replica::new(client.clone(), host, request.port));
        client.is_replica.store(true, Ordering::Relaxed);
        server.replication.replicas.add(replica.clone());
        let sent = Sender {
            server,
            db: &db,
            wire,
            replica: &replica,
            is_over: &is_over,
            sent: None,
        }
        .run(answer, request);
        server.replication.replicas.remove(&replica);
        sent.map_err(io::Error::other)?;
        Ok(Reply::Several(Vec::new()))
    })
}

/// The host of an address.
fn host_of(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |it| it.0);
    host.trim_matches(['[', ']']).to_owned()
}

/// Becomes the primary for the one that hands over, which has everything that this server has, and
/// no more. It asks again if it did not hear the answer.
async fn take_over(server: &Arc<Server>, request: &Request) -> Result<(), Reply> {
    let refused = |text: &str| Err(error(format!("{}{text}", &REFUSED[1..])));
    let state = lock(&server.replication.state).clone();
    let has_led = state
        .earlier
        .iter()
        .any(|(id, offset)| *id == request.id && (*offset == request.offset || request.forces));
    if has_led {
        return Ok(());
    }
    if state.primary.is_none() {
        return refused("expected a replica to take over, found a primary");
    }
    if state.id != request.id {
        return refused("expected the history of the primary, found another one");
    }
    let offset = tokio::task::block_in_place(|| server.offset());
    let offset = offset.map_err(|error| engine_error(&error))?;
    if offset != request.offset && !request.forces {
        let wanted = request.offset;
        return refused(&format!("expected offset {wanted}, found {offset}"));
    }
    let is_within_load = tokio::task::block_in_place(|| {
        let replica = hedgerow_copies::replica::Replica::open(server.db(), 0)?;
        Ok(replica.is_within_load())
    });
    if is_within_load.map_err(|error: Error| engine_error(&error))? {
        return refused("expected whole commits, found a part of a load");
    }
    let led = server.lead().await;
    led.map_err(|error| engine_error(&error))
}

fn answer(server: &Server, db: &Db, request: &Request) -> hedgerow::Result<Answer> {
    let replication = &server.replication;
    if replication.is_loading() || replication.is_replica() && !server.is_linked() {
        return Ok(Answer::Refuse(error(NO_LINK_TEXT)));
    }
    server.keep_log(db)?;
    let offset = server.offset()?;
    let state = lock(&replication.state).clone();
    let mut ids = [&request.id].into_iter().chain(&request.earlier);
    let shares = ids.any(|id| state.shares(id, request.offset));
    if shares && request.offset <= offset {
        let feed = Feed::behind(db, &state.eras, request.offset)?;
        let unpassable = replication.unpassable.load(Ordering::Acquire);
        if let Some(feed) = feed.filter(|it| it.number() >= unpassable) {
            return Ok(Answer::Continue(Box::new(feed)));
        }
    } else if shares && state.primary.is_some() {
        // It has what this replica will have soon.
        return Ok(Answer::Refuse(error(NO_LINK_TEXT)));
    }
    if request.id != "?" {
        replication
            .counts
            .partial_refused
            .fetch_add(1, Ordering::Relaxed);
    }
    Ok(Answer::Copy)
}

struct Sender<'a> {
    server: &'a Server,
    db: &'a Db,
    wire: Wire<'a>,
    replica: &'a Arc<Replica>,
    is_over: &'a dyn Fn() -> bool,
    /// The number of the engine up to which everything was sent.
    sent: Option<u64>,
}

fn failed(error: io::Error) -> Error {
    Error::io("send to", std::path::Path::new("the replica"), error)
}

impl Sender<'_> {
    fn run(&mut self, answer: Answer, request: &Request) -> hedgerow::Result<()> {
        let replication = &self.server.replication;
        let id = replication.id();
        let feed = match answer {
            Answer::Continue(feed) => {
                replication.counts.partial.fetch_add(1, Ordering::Relaxed);
                let line = format!("+CONTINUE {id} {}\r\n", request.offset);
                self.wire.write(line.as_bytes()).map_err(failed)?;
                *feed
            }
            _ => {
                replication.counts.copies.fetch_add(1, Ordering::Relaxed);
                let line = format!("+COPY {id}\r\n");
                self.wire.write(line.as_bytes()).map_err(failed)?;
                let last = self.send_copy()?;
                // It could not answer meanwhile, and puts the copy in its place now.
                self.replica.note_heard();
                Feed::behind_number(self.db, &lock(&replication.state).eras, last)?
            }
        };
        self.replica.is_online.store(true, Ordering::Release);
        self.send_all(feed)
    }

    /// Returns the number of the last commit of the copy. The files of a checkpoint are sent, since
    /// those of the database may go meanwhile: a flush makes segments of the log superfluous.
    fn send_copy(&mut self) -> hedgerow::Result<u64> {
        let replication = &self.server.replication;
        let name = self.replica.client.id.to_string();
        let dir = replication.dir.join(SENDING).join(name);
        let builder = match self.db.checkpoint(&dir) {
            Ok(()) => Db::builder(&dir),
            // A disk without room for a checkpoint is a reason for a replica. Another fault shows
            // again in the files.
            Err(_) => {
                let _ = remove(&dir);
                replication.builder.clone()
            }
        };
        // The look at the files beside the database needs little memory.
        let builder = builder.memory_budget(Replication::beside_bytes(self.server));
        let is_over = self.is_over;
        let mut parts = Parts::new(&mut self.wire);
        let sent = transfer::send(&builder, &mut parts, |_| !is_over());
        // The server removes the rest when it begins again.
        let _ = remove(&dir);
        let last = sent?;
        parts.end().map_err(failed)?;
        Ok(last)
    }

    /// Sends commits, and messages in their order, until the replica is gone.
    fn send_all(&mut self, mut feed: Feed) -> hedgerow::Result<()> {
        let replicas = &self.server.replication.replicas;
        let (mut pinged, mut syncs) = (clock::now(), replicas.syncs());
        let patience = self.wire.patience;
        while !(self.is_over)() {
            // The commits that these messages are about are sent before them.
            let messages = self.replica.client.take_outbox();
            let wanted = replicas.syncs();
            self.send_commits(&mut feed)?;
            self.wire.write(&messages).map_err(failed)?;
            if wanted != syncs {
                syncs = wanted;
                self.wire.send(&[b"SYNC"]).map_err(failed)?;
            }
            self.ping_if_due(&mut pinged)?;
            self.take_acknowledgements(PAUSE)?;
            if self.replica.silent() > patience {
                return Err(failed(io::ErrorKind::TimedOut.into()));
            }
        }
        Ok(())
    }

    fn ping_if_due(&mut self, pinged: &mut Instant) -> hedgerow::Result<()> {
        if pinged.elapsed() < PING_EACH {
            return Ok(());
        }
        *pinged = clock::now();
        self.wire.send(&[b"PING"]).map_err(failed)
    }

    /// Sends everything that is committed now, unless the role changes meanwhile. What comes later
    /// is not waited for, so messages do not wait for ever.
    fn send_commits(&mut self, feed: &mut Feed) -> hedgerow::Result<()> {
        let number = self.db.snapshot()?.number();
        if self.sent == Some(number) {
            return Ok(());
        }
        loop {
            let mut parts = Parts::new(&mut self.wire);
            let mut is_all = false;
            while parts.waiting() < SENT_BYTES {
                let passed = feed.next().inspect_err(|error| {
                    if error.kind() == ErrorKind::Unsupported {
                        let unpassable = &self.server.replication.unpassable;
                        unpassable.fetch_max(feed.number(), Ordering::AcqRel);
                    }
                })?;
                // A commit of the next role would have an offset that its number does not tell.
                if (self.is_over)() {
                    return Ok(());
                }
                let Some(passed) = passed else {
                    is_all = true;
                    break;
                };
                send_commit(passed.offsets, &passed.changes, &mut parts)?;
                if passed.number >= number {
                    is_all = true;
                    break;
                }
            }
            if is_all && let Some(offsets) = feed.move_to(number) {
                send_commit(offsets, &[], &mut parts)?;
            }
            parts.end_if_any().map_err(failed)?;
            if is_all {
                self.sent = Some(number);
                return Ok(());
            }
            self.take_acknowledgements(Duration::ZERO)?;
        }
    }

    /// Takes those that come in this time, and those that are there then.
    fn take_acknowledgements(&mut self, at_most: Duration) -> hedgerow::Result<()> {
        let wake = &self.replica.client.wake;
        let mut received = self.wire.receive(at_most, Some(wake));
        while let Some(message) = received.map_err(failed)? {
            self.acknowledge(&message)?;
            received = self.wire.receive(Duration::ZERO, None);
        }
        Ok(())
    }

    fn acknowledge(&self, message: &Message) -> hedgerow::Result<()> {
        let number = |word: &[u8]| number::integer(word).and_then(|it| u64::try_from(it).ok());
        let numbers = match &message[..] {
            [word, applied, durable] if word == b"ACK" => number(applied).zip(number(durable)),
            _ => None,
        };
        let Some((applied, durable)) = numbers else {
            let text = "expected ACK and two offsets, found another message";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidData, text)));
        };
        let replicas = &self.server.replication.replicas;
        replicas.acknowledge(self.replica, applied, durable);
        *lock(&self.replica.client.last_used) = clock::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_parsed() {
        let parse =
            |words: &str| Request::parse(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let request = parse("HEDGEROW.SYNC 1 ? 0 PORT 7000 IP ::1 RUN ab FAILOVER").unwrap();
        assert_eq!((request.port, request.ip.as_str()), (7_000, "::1"));
        assert!(request.hands_over);
        for wrong in [
            "S 1 ?",
            "S 2 ? 0",
            "S 1 ? -1",
            "S 1 ? 0 PORT",
            "S 1 ? 0 PORT 70000",
            "S 1 ? 0 IP a\tb",
            "S 1 ? 0 X",
        ] {
            parse(wrong).unwrap_err();
        }
        assert_eq!(host_of("[::1]:80"), "::1");
        assert_eq!(host_of("10.0.0.1:80"), "10.0.0.1");
    }
}
