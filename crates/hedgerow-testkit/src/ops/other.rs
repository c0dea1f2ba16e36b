//! Operands, and the operations about time, in a script.

use std::fmt;

use super::{Op, sync};

impl Op {
    /// Prints an operand, or an operation about time.
    pub(super) fn show_other(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::PutExpiring {
                keyspace,
                key,
                value,
                hours,
                synced,
            } => write!(f, "putx {keyspace} {key} {value} {hours}{}", sync(*synced)),
            Op::TimeToLive { keyspace, hours } => write!(f, "ttl {keyspace} {hours}"),
            Op::Wait { hours } => write!(f, "wait {hours}"),
            Op::Merge {
                keyspace,
                key,
                operand,
                synced,
            } => write!(f, "merge {keyspace} {key} {operand}{}", sync(*synced)),
            // By `Debug`: its `Display` would come here again.
            other => unreachable!("{other:?} is printed elsewhere"),
        }
    }
}
