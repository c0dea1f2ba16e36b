//! The keys of a range delete, in a script.

use std::fmt;
use std::ops::{Bound, RangeBounds};

use super::{Range, Words};
use crate::blob::Blob;

/// The keys of a range delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// Those between two bounds.
    Range(Bound<Blob>, Bound<Blob>),
    /// Those that begin with these bytes.
    Prefix(Blob),
}

impl Keys {
    /// Returns true if a key is among them.
    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        match self {
            Keys::Range(lower, upper) => {
                let (lower, upper) = (
                    lower.as_ref().map(Blob::bytes),
                    upper.as_ref().map(Blob::bytes),
                );
                (lower, upper).contains(&key.to_vec())
            }
            Keys::Prefix(prefix) => key.starts_with(&prefix.bytes()),
        }
    }

    pub(super) fn show(&self, keyspace: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keys::Range(lower, upper) => write!(f, "delrange {keyspace} {}", Range(lower, upper)),
            Keys::Prefix(prefix) => write!(f, "delprefix {keyspace} {prefix}"),
        }
    }
}

impl Words<'_> {
    pub(super) fn keys(&mut self, first: &str) -> Result<Keys, String> {
        Ok(match first {
            "delrange" => Keys::Range(self.lower()?, self.upper()?),
            _ => Keys::Prefix(self.parse()?),
        })
    }
}
