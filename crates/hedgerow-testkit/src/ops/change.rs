//! The changes of updates, in a script.

use std::fmt;

use crate::blob::Blob;

/// The effect of an update on a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Appends. A value over 1,000 bytes begins anew.
    Append(Blob),
    /// Removes the value, or puts this one if there is none.
    Toggle(Blob),
    /// Removes the value.
    Remove,
    /// Writes the same value again.
    Keep,
}

impl Change {
    /// Returns the new value for the old one.
    pub fn apply(&self, old: Option<&[u8]>) -> Option<Vec<u8>> {
        match (self, old) {
            (Change::Append(more), None) => Some(more.bytes()),
            (Change::Append(more), Some(old)) if old.len() > 1000 => Some(more.bytes()),
            (Change::Append(more), Some(old)) => Some([old, &more.bytes()].concat()),
            (Change::Toggle(value), None) => Some(value.bytes()),
            (Change::Toggle(_), Some(_)) | (Change::Remove, _) => None,
            (Change::Keep, old) => old.map(<[u8]>::to_vec),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Append(value) => write!(f, "append {value}"),
            Change::Toggle(value) => write!(f, "toggle {value}"),
            Change::Remove => f.write_str("remove"),
            Change::Keep => f.write_str("keep"),
        }
    }
}
