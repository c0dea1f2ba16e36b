//! The steps of a transaction, in a script.

use std::fmt;

use super::{Words, Write};
use crate::blob::Blob;

/// A step of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactionStep {
    /// A write of the transaction.
    Write(Write),
    /// Reads the value of a key.
    Get {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Blob,
    },
    /// Reads everything in a keyspace.
    All {
        /// The keyspace.
        keyspace: String,
    },
    /// Takes a savepoint.
    Save,
    /// Rolls back to the last savepoint, if there is one.
    Back,
    /// Somebody else gives a key a value. Comes before all range deletes of the transaction: orders
    /// without ranges delete the keys that are there then.
    Meanwhile {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Blob,
        /// The value.
        value: Blob,
    },
}

impl fmt::Display for TransactionStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransactionStep::Write(write) => write!(f, "{write}"),
            TransactionStep::Get { keyspace, key } => write!(f, "get {keyspace} {key}"),
            TransactionStep::All { keyspace } => write!(f, "all {keyspace}"),
            TransactionStep::Save => write!(f, "save"),
            TransactionStep::Back => write!(f, "back"),
            TransactionStep::Meanwhile {
                keyspace,
                key,
                value,
            } => write!(f, "other {keyspace} {key} {value}"),
        }
    }
}

impl Words<'_> {
    pub(super) fn steps_of_transaction(&mut self) -> Result<Vec<TransactionStep>, String> {
        let mut steps = Vec::new();
        while let Some(word) = self.0.next() {
            steps.push(match word {
                "get" => TransactionStep::Get {
                    keyspace: self.name()?,
                    key: self.parse()?,
                },
                "all" => TransactionStep::All {
                    keyspace: self.name()?,
                },
                "save" => TransactionStep::Save,
                "back" => TransactionStep::Back,
                "other" => TransactionStep::Meanwhile {
                    keyspace: self.name()?,
                    key: self.parse()?,
                    value: self.parse()?,
                },
                word => TransactionStep::Write(self.write(word)?),
            });
            let _ = self.0.next_if_eq(&";");
        }
        Ok(steps)
    }
}
