//! Copies of databases.
//!
//! [`backup`] keeps many moments of databases in one directory, each file once.
#![forbid(unsafe_code)]

pub mod backup;
