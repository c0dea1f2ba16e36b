//! The writes of a batch, in a script.

use std::fmt;

use super::{Keys, Words};
use crate::blob::Blob;

/// A write of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// Gives a key a value, or none.
    One {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Blob,
        /// The value; `None` deletes.
        value: Option<Blob>,
    },
    /// Changes a key's value by an operand.
    Merge {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Blob,
        /// The operand.
        operand: Blob,
    },
    /// Removes the values of the keys of a range.
    DeleteRange {
        /// The keyspace.
        keyspace: String,
        /// The keys.
        keys: Keys,
    },
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::One {
                keyspace,
                key,
                value: Some(value),
            } => write!(f, "put {keyspace} {key} {value}"),
            Write::One { keyspace, key, .. } => write!(f, "del {keyspace} {key}"),
            Write::Merge {
                keyspace,
                key,
                operand,
            } => write!(f, "merge {keyspace} {key} {operand}"),
            Write::DeleteRange { keyspace, keys } => keys.show(keyspace, f),
        }
    }
}

impl Words<'_> {
    pub(super) fn writes(&mut self) -> Result<Vec<Write>, String> {
        let mut writes = Vec::new();
        while let Some(word) = self.0.next() {
            writes.push(self.write(word)?);
            let _ = self.0.next_if_eq(&";");
        }
        Ok(writes)
    }

    pub(super) fn write(&mut self, word: &str) -> Result<Write, String> {
        let keyspace = self.name()?;
        Ok(match word {
            "put" => Write::One {
                keyspace,
                key: self.parse()?,
                value: Some(self.parse()?),
            },
            "del" => Write::One {
                keyspace,
                key: self.parse()?,
                value: None,
            },
            "merge" => Write::Merge {
                keyspace,
                key: self.parse()?,
                operand: self.parse()?,
            },
            "delrange" | "delprefix" => Write::DeleteRange {
                keyspace,
                keys: self.keys(word)?,
            },
            _ => return Err(format!("expected a write, found `{word}`")),
        })
    }
}
