//! Merges and flushes in a run.

use super::{Ended, Harness, Round};
use crate::run::ask_often;

impl Harness {
    /// Merges a keyspace, or waits until it is merged.
    pub(super) fn merge(&mut self, round: &mut Round) -> Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        let result = match self.random.one_in(2) {
            true => keyspace.compact::<&[u8]>(..),
            false => keyspace.wait_until_merged(),
        };
        self.maintained(round, &format!("merge {name}"), result, false)
    }

    /// Flushes a keyspace, sometimes after reads that make it tune itself.
    pub(super) fn flush(&mut self, round: &mut Round) -> Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        if self.setup.self_tuning
            && self.random.one_in(2)
            && let Err(error) = ask_often(&keyspace)
        {
            self.allowed(round, &error)?;
        }
        let result = keyspace.flush();
        self.maintained(round, &format!("flush {name}"), result, false)
    }

    /// Checks the result of a call that changes no contents. It may make all of them durable.
    pub(super) fn maintained(
        &mut self,
        round: &mut Round,
        what: &str,
        result: hedgerow::Result<()>,
        all_durable: bool,
    ) -> Result<(), String> {
        if let Ended::Done = self.ended(round, what, result)?
            && all_durable
        {
            self.oracle.everything_is_durable();
        }
        Ok(())
    }
}
