//! Filters over the runs of a group: one probe names the runs that may hold a key.

pub(crate) mod cluster;
pub(crate) mod clusters;
#[cfg_attr(
    not(test),
    allow(
        dead_code,
        reason = "a filter of the engine goes together with its oldest run"
    )
)]
pub(crate) mod multi_level_cuckoo;
pub(crate) mod probes;
