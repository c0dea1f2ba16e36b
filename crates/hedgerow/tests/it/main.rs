//! The promises of the design, one test per sentence. Everything goes through the public API. Most
//! tests run the real engine on the simulated disk. There a crash, a fault or a full disk is one
//! call, and background work runs on the caller's thread in an order drawn from a seed.
//!
//! `HEDGEROW_FULL=1` makes the sweeps complete that are sampled otherwise.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it measured"
)]

mod support;
mod watched;

mod api;
mod asynchronous;
mod at_once;
mod bulk_load;
mod changes;
mod checkpoint;
mod clock;
mod clusters;
mod collisions;
mod compaction;
mod compaction_filters;
mod concurrency;
mod corruption;
mod crafted;
mod empty_key;
mod end_entries;
mod events;
mod expiry;
mod explain;
mod faults;
mod filter_files;
mod filters;
mod golden;
mod htable;
mod indexed_batch;
mod inspect;
mod level0;
mod level_paths;
mod loads;
mod log;
mod many_trees;
mod memory;
mod merges;
mod open_files;
mod operations;
mod orders;
mod outside_tables;
mod panics;
mod partitions;
mod range_deletes;
mod read_ahead;
mod read_only;
mod refused_repairs;
mod repair;
mod repaired;
mod retune;
mod self_tuning;
mod shared_filters;
mod simulate;
mod sweeps;
mod three_level;
mod transactions;
mod trie;
mod unfinished_repairs;
mod visits;
mod whole_databases;
