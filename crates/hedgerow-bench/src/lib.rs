//! Workloads over any key-value store, measured the same way.
//!
//! An engine under test is a [`Store`]. [`HedgerowStore`] is Hedgerow; the stores of other engines
//! are in a separate workspace.
#![forbid(unsafe_code)]

// Workloads.
mod session;
mod workload;

mod db_bench;
mod windowed;
mod ycsb;

mod permutation;
mod pool;
mod records;
mod zipfian;

// Measurements.
mod commit;
mod latency;
mod median;
mod outcome;
mod process;
mod threads;

// The machine.
pub mod device;

// Reports.
pub mod report;

// Stores.
mod hedgerow_store;
mod store;

pub use commit::add_commit;
pub use hedgerow_store::HedgerowStore;
pub use median::median;
pub use permutation::mix;
pub use process::{cpu_time, cpu_time_of_threads};
pub use records::RecordShape;
pub use report::read_results;
pub use session::{Open, Opened, Session};
pub use store::{
    Asynchronous, Begun, Counters, Description, Error, Found, OpenOptions, QueueCounters, Result,
    Store,
};
pub use workload::{Part, Settings, Workload};
