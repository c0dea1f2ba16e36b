//! Entries with all that they consist of: their expiry, and operands that cannot be combined.

use crate::base::error::Result;
use crate::base::expiry::Expiry;
use crate::base::slice::Slice;
use crate::tree::partition::ends::End;

use super::{At, Cursor, Scan, UnorderedScan};

/// A key with its value and what else a copy of it needs. Made by [`Scan::entries`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEntry {
    /// The key.
    pub key: Slice,
    /// The value; `None` if there are only operands.
    pub value: Option<Slice>,
    /// The expiry of the value.
    pub expiry: Expiry,
    /// The operands over the value, the oldest first, if they cannot be combined with it: the merge
    /// operator is not registered, or it fails.
    pub operands: Vec<Slice>,
}

/// The entries of a scan with their expiry. Made by [`Scan::entries`] and
/// [`UnorderedScan::entries`].
///
/// ```
/// # use hedgerow::{Db, Expiry, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Db::open(dir.path())?;
/// let sessions = db.keyspace("sessions", Layout::sorted())?;
/// sessions.put_expiring("ada", "token", Expiry::In(std::time::Duration::from_secs(60)))?;
/// let ada = sessions.scan_all()?.entries().next().unwrap()?;
/// assert!(ada.value.unwrap() == "token" && matches!(ada.expiry, Expiry::At(_)));
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug)]
pub struct Entries<S>(S);

impl Scan {
    /// Iterates over the entries with their expiry. Operands that cannot be combined are part of
    /// their entry, where the scan by itself would be an error.
    pub fn entries(mut self) -> Entries<Scan> {
        self.keeps_operands = true;
        Entries(self)
    }
}

impl UnorderedScan {
    /// Iterates over the entries as [`Scan::entries`] does.
    pub fn entries(mut self) -> Entries<UnorderedScan> {
        self.scan.keeps_operands = true;
        Entries(self)
    }
}

impl Iterator for Entries<Scan> {
    type Item = Result<StoredEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance(End::First, Cursor::stored_entry)
    }
}

impl Iterator for Entries<UnorderedScan> {
    type Item = Result<StoredEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance(Cursor::stored_entry, |entry| &entry.key)
    }
}

impl Cursor {
    fn stored_entry(&self) -> Result<Option<StoredEntry>> {
        let Some((key, expiry)) = self.owned_key()?.zip(self.expiry()) else {
            return Ok(None);
        };
        let (value, operands) = match &self.uncombined {
            Some(parts) if self.at == At::BehindOperands => (**parts).clone(),
            _ => (self.owned_value()?, Vec::new()),
        };
        Ok(Some(StoredEntry {
            key,
            value,
            expiry,
            operands,
        }))
    }
}
