//! Where there is no io_uring, or nobody asked for it.

use super::direct::DirectFile;
use crate::ReadInto;

#[derive(Debug, Default)]
pub(super) struct Rings;

impl Rings {
    /// Makes none of the reads.
    #[allow(clippy::unused_self, reason = "as where there are rings")]
    pub(super) fn read(&self, reads: &mut [(&DirectFile, &mut ReadInto<'_>)]) -> Vec<bool> {
        vec![false; reads.len()]
    }
}
