//! The write-ahead log: the bytes of records, reading them back, and the log being written.

pub(crate) mod log;
pub(crate) mod reader;
pub(crate) mod record;

pub(crate) use log::{Log, Reservation, Tail};
