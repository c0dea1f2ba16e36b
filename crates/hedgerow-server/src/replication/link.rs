//! The connection of a replica to its primary, on a thread of its own: connect, ask for what is
//! missing, apply what comes, and begin again when the connection breaks.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hedgerow::{Error, ErrorKind};
use hedgerow_copies::replica::Replica;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::applied::{Changed, Durable};
use super::sender::REFUSED;
use super::state::Primary;
use super::stored_offset;
use super::wire::{Joined, Message, Wire};
use crate::client::{Client, lock};
use crate::clock;
use crate::server::Server;

/// The pause before another try, and between two looks if the link is over.
const PAUSE: Duration = Duration::from_millis(50);
/// The pauses before another try, after the first one.
const PAUSES_MAX: u32 = 20;
const CONNECT_MAX: Duration = Duration::from_secs(5);

const CONNECTING: u8 = 0;
const COPYING: u8 = 1;
const UP: u8 = 2;
const DOWN: u8 = 3;

/// The state of a link, as others see it.
pub(super) struct Status {
    pub(super) primary: Primary,
    phase: AtomicU8,
    is_over: AtomicBool,
    /// Something was heard of the primary.
    heard: Mutex<Instant>,
    down_since: Mutex<Instant>,
    /// The bytes of the copy that is received, and those of them that are there.
    pub(super) copy_bytes: AtomicU64,
    pub(super) received_bytes: AtomicU64,
    /// The data that was received does not go with the data that is here.
    needs_copy: AtomicBool,
    /// The reason why the link is down.
    pub(super) error: Mutex<String>,
    asks: Asks,
    /// The other server is asked to become the primary, until it has, and this is stored.
    pub(super) hands_over: AtomicBool,
    /// It was asked, and may have.
    was_asked: AtomicBool,
    /// It has refused.
    pub(super) is_refused: AtomicBool,
}

impl Status {
    pub(super) fn is_up(&self) -> bool {
        self.phase.load(Ordering::Acquire) == UP
    }

    pub(super) fn is_copying(&self) -> bool {
        self.phase.load(Ordering::Acquire) == COPYING
    }

    /// The state that ROLE shows.
    pub(super) fn word(&self) -> &'static str {
        match self.phase.load(Ordering::Acquire) {
            UP => "connected",
            COPYING => "sync",
            CONNECTING => "connecting",
            _ => "connect",
        }
    }

    pub(super) fn silent(&self) -> Duration {
        lock(&self.heard).elapsed()
    }

    pub(super) fn down(&self) -> Duration {
        lock(&self.down_since).elapsed()
    }

    fn enter(&self, phase: u8) {
        let before = self.phase.swap(phase, Ordering::AcqRel);
        if phase == DOWN && before != DOWN && before != CONNECTING {
            *lock(&self.down_since) = clock::now();
        }
    }
}

/// The question of a server that hands over, with the offset of its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// None: the other server is a primary.
    Nothing,
    /// To become the primary, if it has everything.
    Synced(u64),
    /// To become the primary whatever it has.
    Forced(u64),
}

/// A link that runs.
pub(super) struct Link {
    pub(super) status: Arc<Status>,
    task: JoinHandle<()>,
}

impl Link {
    /// Begins to follow a primary, which may have to be asked to become one first.
    pub(super) fn start(server: Arc<Server>, primary: Primary, asks: Asks) -> Link {
        let status = Arc::new(Status {
            primary,
            phase: AtomicU8::new(DOWN),
            is_over: AtomicBool::new(false),
            heard: Mutex::new(clock::now()),
            down_since: Mutex::new(clock::now()),
            copy_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            needs_copy: AtomicBool::new(false),
            error: Mutex::default(),
            asks,
            hands_over: AtomicBool::new(asks != Asks::Nothing),
            was_asked: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
        });
        let own = status.clone();
        let task = tokio::task::spawn_blocking(move || run(&server, &own));
        Link { status, task }
    }

    pub(super) async fn stop(self) {
        self.status.is_over.store(true, Ordering::Release);
        // It has ended, or has panicked.
        let _ = self.task.await;
    }
}

fn run(server: &Arc<Server>, status: &Arc<Status>) {
    let is_over = || {
        let ends = server.replication.is_over.load(Ordering::Acquire);
        ends || status.is_over.load(Ordering::Acquire)
    };
    let mut tries = 0;
    while !is_over() {
        let ended = Followed {
            server,
            status,
            is_over: &is_over,
        }
        .run();
        if status.is_up() {
            tries = 0;
        }
        status.enter(DOWN);
        if let Err(error) = ended {
            *lock(&status.error) = error.to_string();
        }
        for _ in 0..tries.min(PAUSES_MAX) + 1 {
            if !is_over() {
                Handle::current().block_on(tokio::time::sleep(PAUSE));
            }
        }
        tries += 1;
    }
}

/// The answer of a primary.
enum Answer {
    /// The commits behind this offset of this history follow.
    Continue(String, u64),
    /// A copy of this history follows.
    Copy(String),
}

/// One connection.
struct Followed<'a> {
    server: &'a Arc<Server>,
    status: &'a Status,
    is_over: &'a dyn Fn() -> bool,
}

fn unexpected(line: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("expected an answer of a primary, found `{line}`"),
    )
}

fn failed(doing: &'static str, primary: &Primary) -> impl Fn(io::Error) -> Error {
    let address = std::path::PathBuf::from(primary.to_string());
    move |error| Error::io(doing, &address, error)
}

impl Followed<'_> {
    fn run(&self) -> hedgerow::Result<()> {
        self.status.enter(CONNECTING);
        let primary = &self.status.primary;
        let patience = self.server.config.replication.timeout();
        let connected = Handle::current().block_on(async {
            tokio::select! {
                connected = TcpStream::connect((primary.host.as_str(), primary.port)) => connected,
                () = tokio::time::sleep(patience.min(CONNECT_MAX)) => {
                    Err(io::ErrorKind::TimedOut.into())
                }
                () = self.over() => Err(io::ErrorKind::Interrupted.into()),
            }
        });
        let mut stream = connected.map_err(failed("connect to", primary))?;
        let _ = stream.set_nodelay(true);
        let address =
            |it: io::Result<std::net::SocketAddr>| it.map_or(String::new(), |it| it.to_string());
        let addresses = (address(stream.peer_addr()), address(stream.local_addr()));
        let client = self.server.clients.add(
            &self.server.buffers,
            self.server.acl.first().0,
            addresses.0,
            addresses.1,
        );
        client.is_primary.store(true, Ordering::Relaxed);
        let is_over = || (self.is_over)() || client.is_killed();
        let mut wire = Wire::new(&mut stream, (Vec::new(), patience), &is_over);
        let followed = self.follow(&mut wire, &client);
        self.server.clients.remove(&client);
        followed
    }

    /// Returns when the link is over.
    async fn over(&self) {
        while !(self.is_over)() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn follow(&self, wire: &mut Wire<'_>, client: &Client) -> hedgerow::Result<()> {
        let needs_copy = self.status.needs_copy.load(Ordering::Acquire);
        let answer = self.ask(wire, needs_copy)?;
        match answer {
            Answer::Continue(id, offset) => self.continue_in(&id, offset)?,
            Answer::Copy(id) => self.receive_copy(wire, &id)?,
        }
        lock(&self.status.error).clear();
        self.status.enter(UP);
        let db = self.server.db();
        let mut replica = Replica::open(db.clone(), 0)?;
        let is_untold = &self.server.replication.is_untold;
        if is_untold.load(Ordering::Acquire) {
            Changed::everything(self.server).tell()?;
            is_untold.store(false, Ordering::Release);
        }
        let mut durable = Durable::new(self.server, &db, replica.position());
        durable.acknowledge(wire, &replica)?;
        loop {
            let message = self.next(wire)?;
            *lock(&self.status.heard) = clock::now();
            *lock(&client.last_used) = clock::now();
            match &message[..] {
                [word, channel, text] if word == b"MESSAGE" => {
                    self.server.pubsub.publish(channel, text);
                    self.server.replication.replicas.forward(channel, text);
                }
                [word] if word == b"SYNC" => durable.sync(&replica)?,
                [word] if word == b"PING" => {}
                _ => self.apply(wire, message, &mut replica)?,
            }
            durable.sync_if_due(&replica)?;
            durable.acknowledge(wire, &replica)?;
        }
    }

    fn next(&self, wire: &mut Wire<'_>) -> hedgerow::Result<Message> {
        wire.next()
            .map_err(failed("read from", &self.status.primary))
    }

    /// Logs in and asks for commits; `anew` asks for a copy.
    fn ask(&self, wire: &mut Wire<'_>, anew: bool) -> hedgerow::Result<Answer> {
        let failed = failed("ask", &self.status.primary);
        let (user, password) = self.server.config.replication.login();
        if !password.is_empty() {
            let words: &[&[u8]] = match user.is_empty() {
                true => &[b"AUTH", password.as_bytes()],
                false => &[b"AUTH", user.as_bytes(), password.as_bytes()],
            };
            wire.send(words).map_err(&failed)?;
            let line = wire.line().map_err(&failed)?;
            if line != "+OK" {
                let was_asked = self.status.was_asked.load(Ordering::Acquire);
                return Err(self.refused(&line, was_asked));
            }
        }
        let hands_over = self.status.hands_over.load(Ordering::Acquire);
        if hands_over {
            // A server that stands still must not take over later, when this one has given up. Any
            // answer tells that it runs.
            wire.send(&[b"PING"]).map_err(&failed)?;
            wire.line().map_err(&failed)?;
        }
        let question = self.question(anew)?;
        let words: Vec<&[u8]> = question.iter().map(String::as_bytes).collect();
        let was_asked = self.status.was_asked.swap(hands_over, Ordering::AcqRel);
        wire.send(&words).map_err(&failed)?;
        let line = wire.line().map_err(&failed)?;
        let parts: Vec<&str> = line.split(' ').collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| unexpected(&line));
        let answer = match parts[..] {
            ["+CONTINUE", id, offset] => Answer::Continue(id.to_owned(), number(offset)?),
            ["+COPY", id] => Answer::Copy(id.to_owned()),
            _ => return Err(self.refused(&line, was_asked)),
        };
        if hands_over {
            // The other server leads now. This one is its replica, also after a restart.
            self.server.store_position(self.asked_offset()?)?;
            self.status.hands_over.store(false, Ordering::Release);
        }
        Ok(answer)
    }

    /// The error for an answer that is none. A server that is to take over has refused by it. If it
    /// was asked before, an error that is about something else tells nothing of that.
    fn refused(&self, line: &str, was_asked: bool) -> Error {
        let is_refusal = line.starts_with('-') && !was_asked || line.starts_with(REFUSED);
        if is_refusal && self.status.hands_over.load(Ordering::Acquire) {
            self.status.is_refused.store(true, Ordering::Release);
        }
        unexpected(line)
    }

    /// The words of HEDGEROW.SYNC.
    fn question(&self, anew: bool) -> hedgerow::Result<Vec<String>> {
        let offset = self.asked_offset()?;
        let (id, earlier) = match anew {
            true => ("?".to_owned(), None),
            false => {
                let state = lock(&self.server.replication.state);
                // The oldest one is known to those that were away for long.
                (state.id.clone(), state.oldest_at(offset).map(str::to_owned))
            }
        };
        let offset = offset.to_string();
        let (ip, port) = self.server.config.replication.announced();
        let port = if port > 0 { port } else { self.server.port };
        let mut words = vec!["HEDGEROW.SYNC".to_owned(), "1".to_owned(), id, offset];
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        option("PORT", port.to_string());
        option("RUN", self.server.run_id.clone());
        if let Some(earlier) = earlier {
            option("EARLIER", earlier);
        }
        if !ip.is_empty() {
            option("IP", ip);
        }
        if self.status.hands_over.load(Ordering::Acquire) {
            words.extend(match self.status.asks {
                Asks::Nothing => None,
                Asks::Synced(_) => Some("FAILOVER".to_owned()),
                Asks::Forced(_) => Some("FORCE".to_owned()),
            });
        }
        Ok(words)
    }

    /// The offset to continue from. One that hands over has none stored yet.
    fn asked_offset(&self) -> hedgerow::Result<u64> {
        match self.status.asks {
            Asks::Synced(offset) | Asks::Forced(offset)
                if self.status.hands_over.load(Ordering::Acquire) =>
            {
                Ok(offset)
            }
            _ => stored_offset(&self.server.db()),
        }
    }

    /// Stores what has changed. The position is left alone if it is right: it may be within a load.
    fn continue_in(&self, id: &str, offset: u64) -> hedgerow::Result<()> {
        let db = self.server.db();
        let is_other = id != self.server.replication.id();
        if is_other && Replica::open(db.clone(), 0)?.is_within_load() {
            self.status.needs_copy.store(true, Ordering::Release);
            return Err(Error::new(
                ErrorKind::Unsupported,
                "expected to continue a load that was begun, found a history that may lack it",
            ));
        }
        let position = stored_offset(&db)?;
        let before = {
            let mut state = lock(&self.server.replication.state);
            let before = (state.id != id).then(|| state.clone());
            state.continue_in(id, offset);
            if before.is_some() {
                self.server.replication.end_sending();
            }
            before
        };
        let stored = if position != offset {
            self.server.store_position(offset)
        } else if before.is_some() {
            self.server.store_state(&db)
        } else {
            Ok(())
        };
        if let (Err(_), Some(before)) = (&stored, before) {
            // The next try stores it.
            *lock(&self.server.replication.state) = before;
            self.server.replication.end_sending();
        }
        // The first acknowledgement says that all of it is durable.
        stored.and_then(|()| db.sync())
    }

    fn receive_copy(&self, wire: &mut Wire<'_>, id: &str) -> hedgerow::Result<()> {
        self.status.enter(COPYING);
        self.status.received_bytes.store(0, Ordering::Relaxed);
        let first = self.next(wire)?;
        let mut joined =
            Joined::new(wire, first).map_err(failed("read from", &self.status.primary))?;
        let copy = super::install::receive(self.server, &mut joined, |progress| {
            let done = &self.status.received_bytes;
            self.status
                .copy_bytes
                .store(progress.total_bytes, Ordering::Relaxed);
            done.store(progress.done_bytes, Ordering::Relaxed);
            *lock(&self.status.heard) = clock::now();
            !(self.is_over)()
        })?;
        super::install::install(self.server, copy, (id, &self.status.primary))?;
        self.status.needs_copy.store(false, Ordering::Release);
        self.server
            .replication
            .counts
            .copies_received
            .fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn apply(
        &self,
        wire: &mut Wire<'_>,
        message: Message,
        replica: &mut Replica,
    ) -> hedgerow::Result<()> {
        let mut joined =
            Joined::new(wire, message).map_err(failed("read from", &self.status.primary))?;
        let mut changed = Changed::new(self.server);
        let applied = replica.apply(&mut joined, |change| changed.note(change));
        // Also what was applied before an error is told.
        changed.tell().inspect_err(|_| {
            let is_untold = &self.server.replication.is_untold;
            is_untold.store(true, Ordering::Release);
        })?;
        applied.map(drop).inspect_err(|error| {
            if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Gap { .. }) {
                self.status.needs_copy.store(true, Ordering::Release);
            }
        })
    }
}
