//! CLIENT PAUSE: for a time no command of a client runs, or none that may write. Nothing expires
//! meanwhile.
//!
//! A connection asks before each command, which costs a load while there is no pause. Replicas are
//! not paused: they follow.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, lock};
use crate::clock;
use crate::commands::{Command, WRITE};
use crate::session::Session;

/// The time after which a paused connection looks again if the pause is over, or the client gone.
const LOOK: Duration = Duration::from_millis(10);

/// Commands that may change something, or tell others something, beside those that write.
const TELLING: [&str; 6] = ["eval", "evalsha", "fcall", "pfcount", "publish", "spublish"];

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    is_on: AtomicBool,
    /// The end, and true if all commands are paused.
    state: Mutex<Option<(Instant, bool)>>,
}

impl Pause {
    /// Begins a pause. If there is one, the later end and the stricter kind count.
    pub(crate) fn begin(&self, time: Duration, of_all: bool) {
        let Some(mut end) = clock::now().checked_add(time) else {
            return;
        };
        let (mut state, mut of_all) = (lock(&self.state), of_all);
        if let Some((before, was_of_all)) = *state {
            (end, of_all) = (end.max(before), of_all || was_of_all);
        }
        *state = Some((end, of_all));
        self.is_on.store(true, Ordering::Release);
    }

    pub(crate) fn end(&self) {
        *lock(&self.state) = None;
        self.is_on.store(false, Ordering::Release);
    }

    /// Returns true during a pause. `of_all` asks for one of all commands.
    pub(crate) fn is_on(&self, of_all: bool) -> bool {
        if !self.is_on.load(Ordering::Acquire) {
            return false;
        }
        let mut state = lock(&self.state);
        match *state {
            Some((end, all)) if clock::now() < end => all || !of_all,
            _ => {
                *state = None;
                self.is_on.store(false, Ordering::Release);
                false
            }
        }
    }

    /// Returns true if a command of this session has to wait.
    pub(crate) fn stops(&self, session: &Session, command: &Command) -> bool {
        let may_write = |it: &Command| it.has(WRITE) || TELLING.contains(&it.name);
        let mut queued = session.queue.iter().flatten();
        let writes = match command.name {
            "exec" => queued.any(|it| may_write(it.command)),
            "hedgerow.sync" => return false,
            _ => may_write(command),
        };
        self.is_on(!writes)
    }

    /// Waits until a pause is over, or the client is to be ended.
    pub(crate) async fn wait(&self, client: &Client, is_stopped: impl Fn() -> bool) {
        client.is_waiting.store(true, Ordering::Release);
        while !client.is_killed() && is_stopped() {
            tokio::time::sleep(LOOK).await;
        }
        client.is_waiting.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_end_and_the_stricter_kind_count() {
        let pause = Pause::default();
        assert!(!pause.is_on(false));
        pause.begin(Duration::from_secs(100), false);
        assert!(pause.is_on(false) && !pause.is_on(true));
        pause.begin(Duration::from_millis(1), true);
        assert!(pause.is_on(true));
        pause.begin(Duration::ZERO, false);
        assert!(pause.is_on(true));
        pause.end();
        assert!(!pause.is_on(false));
        pause.begin(Duration::ZERO, true);
        assert!(!pause.is_on(false));
    }
}
