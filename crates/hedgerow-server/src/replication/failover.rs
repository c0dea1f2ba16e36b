//! FAILOVER: a primary hands over to a replica that has everything.
//!
//! 1. Writes are paused: commands, scripts, libraries of functions, expiry. Nobody gets an error.
//! 2. The server waits for a replica that has applied everything.
//! 3. It follows that replica, and asks it to become the primary. The replica does if it has
//!    exactly what the server has. Only then the new role is stored.
//! 4. Writes are let through again, and are refused: this is a replica now.
//!
//! If the replica refuses, or the time is over before step 3, the server stays what it was. In
//! step 3 a broken connection is no answer, so it asks again until there is one, or somebody
//! aborts. With FORCE the named replica is asked when the time is over, whatever it has; then this
//! server gets a copy of what is there, and loses what the replica did not have.

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
        let integer = |word: &[u8]| {
            let wrong = || error("ERR value is not an integer or out of range");
            number::integer(word).ok_or_else(wrong)
        };
        loop {
            rest = match rest {
                [] => return Ok(options),
                [word] if is(word, "ABORT") && args.len() == 2 => {
                    options.abort = true;
                    return Ok(options);
                }
                [word, host, port, behind @ ..] if is(word, "TO") && options.target.is_none() => {
                    options.target = Some(Primary {
                        host: String::from_utf8_lossy(host).into_owned(),
                        // No replica has the port 0.
                        port: u16::try_from(integer(port)?).unwrap_or(0),
                    });
                    behind
                }
                [word, behind @ ..] if is(word, "FORCE") && !options.force => {
                    options.force = true;
                    behind
                }
                [word, ms, behind @ ..] if is(word, "TIMEOUT") && options.timeout_ms.is_none() => {
                    let ms = u64::try_from(integer(ms)?).ok().filter(|it| *it > 0);
                    let wrong = || error("ERR FAILOVER timeout must be greater than 0");
                    options.timeout_ms = Some(ms.ok_or_else(wrong)?);
                    behind
                }
                _ => return Err(error("ERR syntax error")),
            }
        }
    }
}

/// The state that INFO shows.
pub(super) fn word(server: &Server) -> &'static str {
    match lock(&server.replication.failover).phase {
        Phase::None => "no-failover",
        Phase::Waiting => "waiting-for-sync",
        Phase::HandingOver => "failover-in-progress",
    }
}

/// FAILOVER: begins one, which continues in the background, or ends it.
pub(crate) async fn failover(server: &Arc<Server>, args: Args<'_>) -> Reply {
    let done = match Options::parse(args) {
        Ok(options) if options.abort => abort(server).await,
        Ok(options) => begin(server, options),
        Err(reply) => Err(reply),
    };
    done.map_or_else(|reply| reply, |()| Reply::OK)
}

/// Ends a failover. It is over when this returns.
async fn abort(server: &Server) -> Result<(), Reply> {
    {
        let mut state = lock(&server.replication.failover);
        if state.phase == Phase::None {
            return Err(error("ERR No failover in progress."));
        }
        state.is_aborted = true;
    }
    // One that begins later is not aborted.
    while lock(&server.replication.failover).is_aborted {
        tokio::time::sleep(PAUSE).await;
    }
    match server.replication.is_replica() {
        true => Err(error(
            "ERR expected a failover that can be aborted, found that the replica has taken over",
        )),
        false => Ok(()),
    }
}

fn begin(server: &Arc<Server>, options: Options) -> Result<(), Reply> {
    let replication = &server.replication;
    let mut state = lock(&replication.failover);
    let refused = |text: &str| Err(error(format!("ERR FAILOVER {text}")));
    if state.phase != Phase::None {
        return refused("already in progress.");
    }
    if replication.is_replica() {
        return refused("is not valid when server is a replica.");
    }
    if replication.replicas.count() == 0 {
        return refused("requires connected replicas.");
    }
    if options.force && (options.timeout_ms.is_none() || options.target.is_none()) {
        return refused("with force option requires both a timeout and target HOST and IP.");
    }
    if let Some(target) = &options.target {
        let replicas = replication.replicas.all();
        match replicas.iter().find(|it| is_at(it, target)) {
            None => return refused("target HOST and PORT is not a replica."),
            Some(replica) if !replica.is_online() => {
                return refused("target replica is not online.");
            }
            Some(_) => {}
        }
    }
    state.phase = Phase::Waiting;
    drop(state);
    // No write behind the reply is carried out.
    tokio::task::block_in_place(|| server.close_to(PAUSED));
    let server = server.clone();
    tokio::spawn(async move {
        server.hand_over(options).await;
        *lock(&server.replication.failover) = State::default();
        server.open_to(PAUSED);
    });
    Ok(())
}

fn is_at(replica: &Replica, address: &Primary) -> bool {
    replica.port == address.port && replica.host.eq_ignore_ascii_case(&address.host)
}

impl Server {
    pub(super) fn is_failing_over(&self) -> bool {
        lock(&self.replication.failover).phase != Phase::None
    }

    /// Somebody wants the failover to end.
    fn is_aborted(&self) -> bool {
        let is_over = self.replication.is_over.load(Ordering::Acquire);
        is_over || lock(&self.replication.failover).is_aborted
    }

    async fn hand_over(self: &Arc<Server>, options: Options) {
        let began = clock::now();
        let Ok(offset) = tokio::task::block_in_place(|| self.offset()) else {
            return;
        };
        self.replication.replicas.hurry();
        let Some((target, asks)) = self.synced_replica(&options, (offset, began)).await else {
            return;
        };
        let _one = self.replication.changing.lock().await;
        if self.replication.is_replica() || self.is_aborted() {
            return;
        }
        let before = lock(&self.replication.state).clone();
        lock(&self.replication.failover).phase = Phase::HandingOver;
        self.close_to(READ_ONLY);
        let followed = tokio::task::block_in_place(|| self.begin_following(target.clone()));
        if followed.is_err() {
            return self.take_back(before);
        }
        let link = Link::start(self.clone(), target, asks);
        let status = link.status.clone();
        *lock(&self.replication.link) = Some(link);
        while status.hands_over.load(Ordering::Acquire) {
            if self.is_aborted() || status.is_refused.load(Ordering::Acquire) {
                self.stop_link().await;
                if status.hands_over.load(Ordering::Acquire) {
                    return self.take_back(before);
                }
                // The other one has taken over meanwhile.
                self.start_link();
            } else {
                tokio::time::sleep(PAUSE).await;
            }
        }
        self.tell_role();
        self.end_waiting().await;
    }

    /// A replica that has everything, or is forced to take over without; `None` if the time is over
    /// before, or somebody aborts.
    async fn synced_replica(
        &self,
        options: &Options,
        (offset, began): (u64, Instant),
    ) -> Option<(Primary, Asks)> {
        let timeout = options.timeout_ms.map(Duration::from_millis);
        while !self.is_aborted() {
            let is_target = |it: &Replica| {
                let target = options.target.as_ref();
                target.is_none_or(|target| is_at(it, target))
            };
            let all = self.replication.replicas.all();
            let mut all = all.iter();
            let synced = all.find(|it| is_target(it) && it.is_online() && it.applied() >= offset);
            if let Some(replica) = synced {
                let host = replica.host.clone();
                let port = replica.port;
                return Some((Primary { host, port }, Asks::Synced(offset)));
            }
            if timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                let target = options.target.clone().filter(|_| options.force);
                return target.map(|target| (target, Asks::Forced(offset)));
            }
            tokio::time::sleep(PAUSE).await;
        }
        None
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
        for words in [
            "FAILOVER TO h 1 FORCE TIMEOUT 5",
            "FAILOVER force timeout 5 to h 1",
        ] {
            let options = parse(words).unwrap();
            assert_eq!(options.target, Primary::parse("h:1"));
            assert_eq!((options.force, options.timeout_ms), (true, Some(5)));
        }
        assert!(parse("FAILOVER ABORT").unwrap().abort);
        for wrong in [
            "FAILOVER TO h",
            "FAILOVER TO h x",
            "FAILOVER TIMEOUT 0",
            "FAILOVER TIMEOUT",
            "FAILOVER ABORT TIMEOUT 5",
            "FAILOVER TIMEOUT 5 ABORT",
            "FAILOVER ABORT ABORT",
            "FAILOVER FORCE FORCE",
            "FAILOVER TO h 1 TO h 1",
        ] {
            parse(wrong).unwrap_err();
        }
    }
}
