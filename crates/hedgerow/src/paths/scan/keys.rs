//! The keys of a scan without their values.

use crate::base::error::Result;
use crate::base::slice::Slice;
use crate::tree::partition::ends::End;

use super::{Cursor, Scan, ScanToken, UnorderedScan};

/// The keys of a scan without their values. Made by [`Scan::keys`] and [`UnorderedScan::keys`].
/// Cost: that of the scan, but the page of a long value is not read.
///
/// ```
/// # use hedgerow::{Db, Layout};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = Db::open(dir.path())?;
/// # let photos = db.keyspace("photos", Layout::sorted())?;
/// photos.put("cat", vec![7; 1 << 20])?;
/// photos.put("dog", vec![8; 1 << 20])?;
/// let names = photos.scan_all()?.keys().rev().collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(names, ["dog", "cat"]);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Debug)]
pub struct Keys<S>(S);

impl Scan {
    /// Iterates over the keys alone, without reading their values.
    pub fn keys(self) -> Keys<Scan> {
        Keys(self)
    }
}

impl UnorderedScan {
    /// Iterates over the keys alone, without reading their values.
    pub fn keys(self) -> Keys<UnorderedScan> {
        Keys(self)
    }
}

impl Iterator for Keys<Scan> {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance(End::First, Cursor::owned_key)
    }
}

impl DoubleEndedIterator for Keys<Scan> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.advance(End::Last, Cursor::owned_key)
    }
}

impl Keys<UnorderedScan> {
    /// The position of the scan, as [`UnorderedScan::token`] gives it.
    pub fn token(&self) -> ScanToken {
        self.0.token()
    }
}

impl Iterator for Keys<UnorderedScan> {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.advance(Cursor::owned_key, |key| key)
    }
}
