//! The tests of Hedgerow that need more than one part of it: random operations against a model,
//! one script over many designs, crashes and faults on a simulated disk, and kills of a real
//! process.
//!
//! * [`ops`] the language of operations, with a text; [`blob`] keys and values in it;
//!   [`setup`] what a script runs on.
//! * [`generate`] scripts from a seed; [`model`] what they must answer; [`run`] what they answer;
//!   [`simplify`] a shorter script that fails as well.
//! * [`metamorphic`] the designs; [`crash`] power cuts, kills and faults.
//! * [`seeds`] which seeds a test runs, and how a failure is replayed.
//!
//! Everything follows from a seed: a failure prints the line that repeats it.
#![forbid(unsafe_code)]

mod answer;
pub mod blob;
pub mod crash;
pub mod generate;
pub mod metamorphic;
pub mod model;
pub mod ops;
mod order;
pub mod random;
pub mod run;
pub mod seeds;
pub mod setup;
pub mod simplify;
