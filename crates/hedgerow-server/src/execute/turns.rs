//! The turns of commands at the stripes: those that take all, and those that come meanwhile.

use std::sync::Arc;
use std::time::Duration;

use super::{Call, Caller, Manner};
use crate::commands::ALL_KEYS;
use crate::server::Server;
use crate::store::{Databases, Turn};

/// The time after which is tried again what somebody else is in the way of.
const PAUSE: Duration = Duration::from_micros(100);

/// The time for which the gate stays open for others while somebody holds a stripe for long.
const OPEN: Duration = Duration::from_millis(500);

/// The reason why a command may not change all keys now.
enum Hindrance {
    /// Somebody holds a stripe.
    Taken,
    /// Writes have to wait for something else, which may need stripes.
    Waits,
}

/// Returns true if an attempt at these calls takes all stripes.
pub(super) fn takes_all(caller: Caller<'_>, calls: &[Call<'_>], manner: Manner) -> bool {
    let is_of_all = |it: &Call<'_>| it.command.has(ALL_KEYS);
    manner.all_keys || caller.atomic.is_some() && calls.iter().any(is_of_all)
}

/// Lets others run who hold a stripe. They hold it for microseconds, or while they read.
pub(super) async fn back_off(tries: u32) {
    if tries < 8 {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(Duration::from_micros(u64::from(tries.min(100)) * 20)).await;
    }
}

impl Server {
    /// Waits for the next attempt of a command that has found a stripe taken, or the gate closed.
    /// Whoever takes all stripes keeps the gate closed until it has had them, or others have waited
    /// long enough.
    pub(super) async fn line_up<'a>(
        &'a self,
        turn: Option<Turn<'a>>,
        takes_all: bool,
        tries: u32,
    ) -> Option<Turn<'a>> {
        let gate = &self.stripes.gate;
        let Some(turn) = turn else {
            if takes_all {
                return Some(gate.close().await);
            }
            if gate.is_closed() {
                return Some(gate.pass().await);
            }
            back_off(tries).await;
            return None;
        };
        let closes = turn.closes();
        let turn = turn.after_attempt();
        match turn.is_none() && closes {
            true => tokio::time::sleep(OPEN).await,
            false => back_off(tries).await,
        }
        turn
    }

    /// Runs something while nobody else holds a stripe, and writes have not to wait.
    pub(crate) async fn alone<T>(
        &self,
        excludes: bool,
        mut run: impl FnMut(&Arc<Databases>) -> T,
    ) -> T {
        let (mut turn, mut tries) = (None, 0);
        loop {
            let lines_up = turn.is_none() && !excludes;
            let attempt = || match lines_up && self.stripes.gate.is_closed() {
                true => Err(Hindrance::Taken),
                false => self.try_alone(excludes, &mut run),
            };
            match tokio::task::block_in_place(attempt) {
                Ok(done) => return done,
                // Those who are excluded take no stripes.
                Err(Hindrance::Taken) if !excludes => {
                    tries += 1;
                    turn = self.line_up(turn, true, tries).await;
                }
                Err(_) => {
                    turn = None;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn try_alone<T>(
        &self,
        excludes: bool,
        run: impl FnOnce(&Arc<Databases>) -> T,
    ) -> Result<T, Hindrance> {
        let databases = self.databases();
        let _held = self.stripes.try_hold_all().ok_or(Hindrance::Taken)?;
        let waits = self.replication.is_loading() || self.replication.is_paused();
        match waits || !excludes && self.exclusion.epoch().is_none() {
            true => Err(Hindrance::Waits),
            false => Ok(run(&databases)),
        }
    }
}
