//! The native part of the npm package `hedgerow-level`.
//!
//! JavaScript holds [handles](handles): numbers, never pointers. Keys and values cross the boundary
//! [packed](packed), many in one buffer. A function that memory can answer answers at once, on the
//! thread of the event loop. Everything else is a [call](call): a thread of the pool of Node makes
//! it, and a promise has its result. So the event loop never waits for a file, a lock of a commit
//! or a merge.
//!
//! No panic leaves a function, and no number or buffer that JavaScript passes makes one.
#![allow(
    unreachable_pub,
    reason = "napi registers public functions of private modules"
)]
#![cfg_attr(test, allow(dead_code, reason = "napi registers no function in tests"))]

mod abort;
mod call;
mod database;
mod failure;
mod handles;
mod iterator;
mod maintenance;
mod opened;
mod options;
mod packed;
mod reads;
mod writes;
