//! The workloads of a run that failed: what the others lack by it, and the end of the command.

use hedgerow_bench::Workload;

use crate::exit::{Exit, Failure};

/// The workloads that failed, in their order.
#[derive(Debug, Default)]
pub(super) struct Failed {
    all: Vec<(Workload, Failure)>,
    /// The workload that should have written what the next ones need.
    writer: Option<Workload>,
}

impl Failed {
    /// Returns the reason not to run a workload: what it needs is not there, or only in part. A
    /// workload that loads begins anew.
    pub(super) fn lacks(&self, workload: Workload) -> Option<Failure> {
        let writer = self.writer.filter(|_| !workload.loads())?;
        let message = format!("expected what `{writer}` should have written; it has failed");
        Some(Failure::new(Exit::Failure, message))
    }

    pub(super) fn remove_lack(&mut self, done: Workload) {
        if done.loads() {
            self.writer = None;
        }
    }

    pub(super) fn add(&mut self, workload: Workload, failure: Failure) {
        // A refused change has changed nothing; a refused load has loaded nothing.
        if workload.loads() || (workload.writes() && !failure.is_usage()) {
            self.writer.get_or_insert(workload);
        }
        self.all.push((workload, failure));
    }

    /// Returns the failure of a run of `count` workloads, with the exit code of the first one.
    pub(super) fn end(mut self, count: usize) -> Result<(), Failure> {
        let said = self.all.iter();
        let said = said.map(|(workload, failure)| format!("{workload}: {failure}"));
        let said = said.collect::<Vec<_>>().join("; ");
        let failed = self.all.len();
        match self.all.drain(..).next() {
            None => Ok(()),
            Some((_, only)) if count == 1 => Err(only),
            Some((_, first)) => {
                Err(first.saying(format!("{failed} of {count} workloads failed: {said}")))
            }
        }
    }
}
