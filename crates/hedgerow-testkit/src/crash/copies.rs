//! Checkpoints in a run.

use hedgerow::Db;

use super::oracle::Oracle;
use super::reads::read_everything;
use super::{Harness, Round, Trouble};
use crate::operator::Notes;

impl Harness {
    /// Makes a checkpoint. It must have the current contents.
    pub(super) fn copy(&mut self, round: &mut Round) -> Result<(), String> {
        self.copies += 1;
        let dir = format!("/copy-{}", self.copies);
        let result = round.db.checkpoint(&dir);
        let is_made = result.is_ok();
        self.maintained(round, "checkpoint", result, true)?;
        if is_made && round.trouble == Trouble::Kill {
            let copy = Db::builder(&dir)
                .merge_operator(Notes)
                .environment(self.environment())
                .read_only(true)
                .open();
            let copy = copy.map_err(|e| format!("expected the copy to open, found {e}"))?;
            let known = Oracle::settled(self.live.clone());
            known.check(&read_everything(&copy)?, 0, self.hour)?;
        }
        Ok(())
    }
}
