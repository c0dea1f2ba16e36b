//! FAILOVER: a primary hands over to a replica that has everything.
//!
//! 1. Writes are paused: commands, scripts, libraries of functions, expiry. Nobody gets an error.
//! 2. The server waits for a replica that has applied everything.
//! 3. It follows that replica, and asks it to become the primary. The replica does if it has
//!    exactly what the server has. Only then the new role is stored.
//! 4. Writes go on, and are refused: this is a replica now.
//!
//! If the replica refuses, or the time is over before step 3, the server stays what it was. In
//! step 3 a broken connection is no answer, so it asks again until there is one, or somebody
//! aborts.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::link::{Asks, Link};
use super::replicas::Replica;
use super::state::Primary;
use super::{PAUSED, READ_ONLY};
use crate::client::lock;
use crate::clock;
use crate::commands::Args;
use crate::number;
use crate::resp::{Reply, error};
use crate::server::Server;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// The progress of a failover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    None,
    Waiting,
    HandingOver,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct State {
    phase: Phase,
    is_aborted: bool,
    /// The offset of the data while the server hands over.
    offset: Option<u64>,
}

/// The arguments of FAILOVER.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Options {
    target: Option<Primary>,
    force: bool,
    abort: bool,
    timeout_ms: Option<u64>,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, Reply> {
        let mut options = Options::default();
        let mut rest = &args[1..];
        let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        loop {
            rest = match rest {
                [] => break,
                [word, behind @ ..] if is(word, "ABORT") && !options.abort => {
                    options.abort = true;
                    behind
                }
                [word, host, port, behind @ ..] if is(word, "TO") && options.target.is_none() => {
                    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
                    let address = Primary::parse(&format!("{} {}", text(host), text(port)));
                    options.target = Some(address.ok_or_else(|| error("ERR Invalid port"))?);
                    match behind {
                        [word, behind @ ..] if is(word, "FORCE") => {
                            options.force = true;
                            behind
                        }
                        behind => behind,
                    }
                }
                [word, ms, behind @ ..] if is(word, "TIMEOUT") && options.timeout_ms.is_none() => {
                    let ms = number::integer(ms);
                    let not_a_number = || error("ERR value is not an integer or out of range");
                    let ms = u64::try_from(ms.ok_or_else(not_a_number)?).ok();
                    let ms = ms.filter(|it| *it > 0);
                    let wrong = || error("ERR FAILOVER timeout must be greater than 0");
                    options.timeout_ms = Some(ms.ok_or_else(wrong)?);
                    behind
                }
                _ => return Err(error("ERR syntax error")),
            }
        }
        if options.abort
            && options
                != (Options {
                    abort: true,
                    ..Options::default()
                })
        {
            return Err(error("ERR syntax error"));
        }
        if options.force && options.timeout_ms.is_none() {
            return Err(error(
                "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
            ));
        }
        Ok(options)
    }
}

/// The offset that is asked for while the server hands over.
pub(super) fn offset(server: &Server) -> Option<u64> {
    lock(&server.replication.failover).offset
}

/// Others have nothing behind this offset either.
pub(super) fn go_back_to(server: &Server, offset: u64) {
    let mut state = lock(&server.replication.failover);
    state.offset = state.offset.map(|_| offset);
}

/// The state that INFO shows.
pub(super) fn word(server: &Server) -> &'static str {
    match lock(&server.replication.failover).phase {
        Phase::None => "no-failover",
        Phase::Waiting => "waiting-for-sync",
        Phase::HandingOver => "failover-in-progress",
    }
}

/// FAILOVER: begins one, which goes on in the background, or ends it.
pub(crate) fn begin(server: &Arc<Server>, args: Args<'_>) -> Reply {
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(reply) => return reply,
    };
    let mut state = lock(&server.replication.failover);
    if options.abort {
        if state.phase == Phase::None {
            return error("ERR No failover in progress.");
        }
        state.is_aborted = true;
        return Reply::OK;
    }
    if state.phase != Phase::None {
        return error("ERR FAILOVER already in progress.");
    }
    if server.replication.is_replica() {
        return error("ERR FAILOVER is not valid when server is a replica.");
    }
    if server.replication.replicas.count() == 0 {
        return error("ERR FAILOVER requires connected replicas.");
    }
    if let Some(target) = &options.target
        && !server
            .replication
            .replicas
            .all()
            .iter()
            .any(|it| is_at(it, target))
    {
        return error("ERR FAILOVER target HOST and PORT is not a replica.");
    }
    *state = State {
        phase: Phase::Waiting,
        ..State::default()
    };
    drop(state);
    let server = server.clone();
    tokio::spawn(async move {
        server.hand_over(options).await;
        *lock(&server.replication.failover) = State::default();
        server.open_to(PAUSED);
    });
    Reply::OK
}

fn is_at(replica: &Replica, address: &Primary) -> bool {
    replica.port == address.port && replica.host == address.host
}

impl Server {
    pub(super) fn is_failing_over(&self) -> bool {
        lock(&self.replication.failover).phase != Phase::None
    }

    async fn hand_over(self: &Arc<Server>, options: Options) {
        let began = clock::now();
        let offset = tokio::task::block_in_place(|| {
            self.close_to(PAUSED);
            self.offset()
        });
        let Ok(offset) = offset else {
            return;
        };
        self.replication.replicas.hurry();
        let Some((target, asks)) = self.synced_replica(&options, (offset, began)).await else {
            return;
        };
        let _one = self.replication.changing.lock().await;
        if self.replication.is_replica() {
            return;
        }
        let before = lock(&self.replication.state).clone();
        {
            let mut state = lock(&self.replication.failover);
            (state.phase, state.offset) = (Phase::HandingOver, Some(offset));
        }
        self.close_to(READ_ONLY);
        let followed = tokio::task::block_in_place(|| self.begin_following(target.clone()));
        if followed.is_err() {
            return self.take_back(before);
        }
        self.replication.epoch.fetch_add(1, Ordering::AcqRel);
        let link = Link::start(self.clone(), target, asks);
        let status = link.status.clone();
        *lock(&self.replication.link) = Some(link);
        loop {
            if !status.hands_over.load(Ordering::Acquire) {
                self.tell_role();
                self.end_waiting();
                return;
            }
            let is_aborted = lock(&self.replication.failover).is_aborted;
            let is_over = self.replication.is_over.load(Ordering::Acquire);
            if is_aborted || is_over || status.is_refused.load(Ordering::Acquire) {
                self.stop_link().await;
                // The other one may have taken over meanwhile.
                if status.hands_over.load(Ordering::Acquire) {
                    self.take_back(before);
                }
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The address of a replica that has everything, or is forced to take over without.
    async fn synced_replica(
        &self,
        options: &Options,
        (offset, began): (u64, Instant),
    ) -> Option<(Primary, Asks)> {
        loop {
            let all = self.replication.replicas.all();
            let is_target = |it: &&Arc<Replica>| {
                let target = options.target.as_ref();
                target.is_none_or(|target| is_at(it, target))
            };
            let synced = all
                .iter()
                .filter(is_target)
                .find(|it| it.applied() >= offset);
            if let Some(replica) = synced {
                let host = replica.host.clone();
                let port = replica.port;
                return Some((Primary { host, port }, Asks::Synced));
            }
            if lock(&self.replication.failover).is_aborted
                || self.replication.is_over.load(Ordering::Acquire)
            {
                return None;
            }
            let timeout = options.timeout_ms.map(Duration::from_millis);
            if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                let target = options.target.clone().filter(|_| options.force);
                return target.map(|target| (target, Asks::Forced));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options, Reply> {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_are_parsed() {
        let options = parse("FAILOVER TO h 1 FORCE TIMEOUT 5").unwrap();
        assert_eq!(options.target, Primary::parse("h:1"));
        assert_eq!((options.force, options.timeout_ms), (true, Some(5)));
        assert!(parse("FAILOVER ABORT").unwrap().abort);
        for wrong in [
            "FAILOVER TO h",
            "FAILOVER TO h 0",
            "FAILOVER TO h 1 FORCE",
            "FAILOVER TIMEOUT 0",
            "FAILOVER ABORT TIMEOUT 5",
            "FAILOVER ABORT ABORT",
            "FAILOVER FORCE",
        ] {
            parse(wrong).unwrap_err();
        }
    }
}
