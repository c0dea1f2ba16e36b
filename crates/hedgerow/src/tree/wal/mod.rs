//! The write-ahead log: encoding records, reading them, and writing the log.

pub(crate) mod log;
pub(crate) mod payload;
pub(crate) mod record;
pub(crate) mod segment_reader;

pub(crate) use log::{Log, Reservation, Tail};
