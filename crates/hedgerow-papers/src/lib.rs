//! The publications that Hedgerow follows: their experiments, their formulas, and the rows of runs.
//!
//! The program `hedgerow-papers` runs the experiments on Hedgerow; `bench-peers` runs them on other
//! engines, too, with the same [`arguments`]. `runs/` holds the raw rows behind the numbers of the
//! documents.
#![forbid(unsafe_code)]

pub mod arguments;
pub mod experiments;
pub mod formulas;
pub mod tables;
