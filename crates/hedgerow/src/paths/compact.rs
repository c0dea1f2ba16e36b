//! The path of a compaction that a user requests: merges a key range into the deepest level, on the
//! caller's thread, beside the merges of the background.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::error::{Error, ErrorKind, Result};
use crate::design::planner::Manual;
use crate::paths::background;
use crate::paths::compaction;
use crate::paths::compaction::MergeStep;
use crate::tree::engine::Engine;
use crate::tree::partition::Partition;

/// The progress of a manual compaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Bytes of tables rewritten or moved so far.
    pub done_bytes: u64,
    /// The approximate total: the bytes of the range when the compaction began, once for every
    /// level but the deepest, and those that they are merged into.
    pub total_bytes: u64,
}

/// Merges everything of a key range into the deepest level. `go_on` receives the progress after
/// every step, and may end the work.
pub(crate) fn compact(
    engine: &Arc<Engine>,
    partition: &Arc<Partition>,
    (lower, upper): &(Bound<Vec<u8>>, Bound<Vec<u8>>),
    progress: &mut CompactProgress,
    go_on: &mut dyn FnMut(CompactProgress) -> bool,
) -> Result<()> {
    let through = engine.writer()?.ids.next_table();
    let is_filtered = partition.keyspace.compaction_filter().is_some();
    let mut manual = Manual::new(lower.clone(), upper.clone(), through)
        .rewriting(engine.held().expired, is_filtered);
    loop {
        if !go_on(*progress) {
            return Err(Error::new(
                ErrorKind::Cancelled,
                "the compaction was ended by its caller",
            ));
        }
        engine.writer()?;
        match compaction::step(engine.oldest_read(), partition, &mut manual) {
            MergeStep::Run(merge) => {
                progress.done_bytes += background::carry_out_step(engine, partition, &merge)?;
                engine.remove_obsolete();
            }
            MergeStep::Wait(running) => drop(engine.scheduler.wait_until(|| {
                partition.work().running.len() < running || engine.check_open().is_err()
            })),
            MergeStep::Done => break,
        }
    }
    background::settle(engine, partition);
    Ok(())
}
