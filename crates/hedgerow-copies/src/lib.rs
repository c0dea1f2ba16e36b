//! Copies of databases.
//!
//! [`backup`] keeps many moments of databases in one directory, each file once.
//! [`transfer`] copies a database over any transport.
//! [`replica`] keeps a database that follows another one over any transport.
#![forbid(unsafe_code)]

pub mod backup;
pub mod replica;
pub mod transfer;
