//! The tests of Hedgerow that need more than one part of it: random operations against a model, one
//! script over many designs, crashes and faults on a simulated disk, and kills of a real process.
//!
//! * [`ops`]: the language of operations, with a text. [`blob`]: its keys and values.
//!   [`operator`]: the merge operator of its keyspaces. [`setup`]:
//!   the environment of a script.
//! * [`generate`]: scripts from a seed. [`model`]: their expected answers. [`run`]: their answers.
//!   [`simplify`]: a shorter script that still fails.
//! * [`metamorphic`]: the designs. [`crash`]: power cuts, kills and faults.
//! * [`serial`]: histories of transactions, and the search for a serial order of them.
//! * [`followers`]: a consumer of changes, a follower and a replica, each of which crashes.
//! * [`seeds`]: the seeds of a test, and the replay of a failure.
//!
//! Everything follows from a seed: a failure prints the line that repeats it.
#![forbid(unsafe_code)]

mod answer;
pub mod blob;
pub mod crash;
pub mod followers;
pub mod generate;
pub mod metamorphic;
pub mod model;
pub mod operator;
pub mod ops;
mod order;
pub mod random;
pub mod run;
pub mod seeds;
pub mod serial;
pub mod setup;
mod shifted_clock;
pub mod simplify;

/// The programs of the READMEs, which are compiled.
#[cfg(doctest)]
mod readmes {
    #[doc = include_str!("../../../README.md")]
    struct OfTheRepository;

    #[doc = include_str!("../../hedgerow/README.md")]
    struct OfTheEngine;
}
