//! The parts that the bindings of all languages share.
//!
//! Foreign code holds [`Handles`]: numbers that name an object and the time of its making. A number
//! that names nothing is an error, never a crash. [`run`] calls the engine for foreign code, and
//! turns a panic into a [`Failure`].

mod exclusive;
pub mod explain;
mod failure;
pub mod feed;
pub mod foreign;
pub mod fork;
mod handles;
pub mod load;
pub mod repair;
pub mod stats;
pub mod text;
mod waiting;

pub use exclusive::{Exclusive, InUse};
pub use failure::{Failure, message_of, run};
pub use handles::{Handles, Held, Removed};
pub use waiting::{ASK_EVERY, Report, left, wait_for};
