//! Checkpoints in a run.

use hedgerow::Db;
use hedgerow::io::Environment;

use super::oracle::Oracle;
use super::reads::read_everything;
use super::{Harness, Round, Trouble};

impl Harness {
    /// Makes a checkpoint. It must have the current contents.
    pub(super) fn copy(&mut self, round: &mut Round) -> Result<(), String> {
        self.copies += 1;
        let dir = format!("/copy-{}", self.copies);
        let result = round.db.checkpoint(&dir);
        let is_made = result.is_ok();
        self.maintained(round, "checkpoint", result, true)?;
        if is_made && round.trouble == Trouble::Kill {
            let environment = Environment::simulated(&self.disk, self.seed);
            let copy = Db::builder(&dir)
                .environment(environment)
                .read_only(true)
                .open();
            let copy = copy.map_err(|e| format!("expected the copy to open, found {e}"))?;
            Oracle::settled(self.live.clone()).check(&read_everything(&copy)?, 0)?;
        }
        Ok(())
    }
}
