//! Workloads over any key-value store, measured the same way.
//!
//! An engine under test is a [`Store`]; [`HedgerowStore`] is ours, those of
//! others live in a workspace of their own.
#![forbid(unsafe_code)]

// What is run, and how.
mod session;
mod workload;

mod db_bench;
mod windowed;
mod ycsb;

mod permutation;
mod pool;
mod records;
mod zipfian;

// What is compared.
pub mod experiments;

// What is measured.
mod latency;
mod median;
mod outcome;
mod process;
mod threads;

// On which machine.
pub mod device;

// How it is shown.
pub mod report;

// On what.
mod hedgerow_store;
mod store;

pub use hedgerow_store::HedgerowStore;
pub use process::cpu_time_of_threads;
pub use records::RecordShape;
pub use report::read_results;
pub use session::{Open, Opened, Session};
pub use store::{
    Asynchronous, Begun, Counters, Description, Error, Found, OpenOptions, QueueCounters, Result,
    Store,
};
pub use workload::{Part, Settings, Workload};
