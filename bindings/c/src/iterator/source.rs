//! The engine's readers behind an iterator.

use engine::{Cursor, ErrorKind, Slice, UnorderedScan};
use hedgerow_bindings::Failure;

/// See the module.
pub(super) enum Source {
    Ordered(Cursor),
    /// The entries of a hashed keyspace, in the order of their hashes.
    Unordered {
        scan: Box<UnorderedScan>,
        entry: Option<(Slice, Slice)>,
    },
}

impl Source {
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self {
            Source::Ordered(cursor) => cursor.key(),
            Source::Unordered { entry, .. } => entry.as_ref().map(|(key, _)| key.as_bytes()),
        }
    }

    pub(super) fn value(&self) -> Result<Option<&[u8]>, Failure> {
        Ok(match self {
            Source::Ordered(cursor) => cursor.value()?,
            Source::Unordered { entry, .. } => entry.as_ref().map(|(_, value)| value.as_bytes()),
        })
    }

    pub(super) fn cursor(&mut self) -> Result<&mut Cursor, Failure> {
        match self {
            Source::Ordered(cursor) => Ok(cursor),
            Source::Unordered { .. } => Err(Failure::new(
                ErrorKind::Unsupported,
                "an iterator over a hashed keyspace goes forward only, from its beginning",
            )),
        }
    }
}
