//! A server that speaks the protocol of Redis over a Hedgerow database: `hedgerow serve`.
//!
//! ```text
//! connection.rs   one read, all complete commands, one write
//! execute.rs      many commands as one commit: locks, state, commands, commit
//! acl/            users and what they may do
//! cluster/        which server has a key
//! commands/       a function for each command, by family; one table
//! store/          keys and elements as entries of the engine
//! rdb/            values and files as Redis writes them
//! replication/    copies and commits for replicas, roles
//! transfer/       all keys from and to a Redis
//! ```
//!
//! A GET: `connection::execute` → `execute::attempt` → `strings::get` → `Txn::lookup` →
//! `IndexedBatch::get_if_cached`. `docs/design/0030-server.md` has the decisions.
#![forbid(unsafe_code)]

mod acl;
mod active_expiry;
mod buffers;
mod client;
mod clock;
mod cluster;
mod commands;
mod connection;
mod counters;
mod decimal;
mod directories;
mod exclusion;
mod execute;
mod freed_memory;
mod glob;
mod lookups;
mod monitoring;
mod number;
mod pause;
mod pubsub;
mod rdb;
mod replication;
mod resp;
mod saves;
#[cfg(feature = "lua")]
mod scripting;
mod serve;
mod server;
mod session;
mod store;
mod stream;
mod striped;
#[cfg(test)]
mod testing;
#[cfg(feature = "tls")]
mod tls;
mod tracking;
mod transfer;
mod waiters;
mod watches;

pub use commands::config::Fsync;
pub use rdb::{is_rdb_file, is_value};
pub use resp::{Limits, Parser, ProtocolError, Request, is_parsed_alike};
pub use serve::{ClientCertificates, Options, Tls, serve};
pub use transfer::{Endpoint, Progress, TransferOptions, Transferred, Url, transfer};
