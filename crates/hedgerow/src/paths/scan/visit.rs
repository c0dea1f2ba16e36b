//! A visit of many entries by one call: a step and a look at its entry in one.
//!
//! Nearly all entries are plain: a put with its value in the block, visible, of another key than
//! the entry before. The iterator below hands these out without coming back between them. The
//! others go through the steps of the cursor.

use crate::base::entry::Tag;
use crate::base::error::Result;
use crate::table::iter::ValueSource;

use super::{At, COUNTED_STEPS, Cursor, is_same_key};

impl Cursor {
    /// Calls `see` with the key and the value here and with those that follow, in order, until it
    /// returns false. Returns true then: the cursor is on the entry that `see` refused. Returns
    /// false if there are no more entries, or if the cursor has no position. Cost: less than
    /// that of steps.
    ///
    /// # Errors
    /// `Corruption`, `Io`, `Closed`; the cursor has no position then. The entries before the error
    /// were seen.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let files = db.keyspace("files", Layout::sorted())?;
    /// for (name, bytes) in [("a", "700"), ("b", "600"), ("c", "500")] {
    ///     files.put(name, bytes)?;
    /// }
    /// let mut cursor = files.cursor()?;
    /// cursor.seek_first()?;
    /// // As many names as there is room for.
    /// let mut names = Vec::new();
    /// let there_are_more = cursor.visit(|name, _| {
    ///     let has_room = names.len() < 2;
    ///     if has_room {
    ///         names.push(name.to_vec());
    ///     }
    ///     has_room
    /// })?;
    /// assert!(there_are_more && names == [b"a", b"b"]);
    /// assert_eq!(cursor.key(), Some(&b"c"[..]));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn visit(&mut self, mut see: impl FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        let added_bytes = self.view.state.facts.order.added_bytes();
        self.visit_order(|order_key, value| {
            see(order_key.get(added_bytes..).unwrap_or_default(), value)
        })
    }

    /// As [`Cursor::visit`], with order keys.
    pub(super) fn visit_order(
        &mut self,
        mut see: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        while let Some((key, value)) = self.here()? {
            if !see(key, value) {
                return Ok(true);
            }
            if self.at != At::OnKey {
                self.next()?;
            } else if self.visit_plain(&mut see)? {
                return Ok(true);
            } else {
                self.settle_forward(true)?;
            }
        }
        Ok(false)
    }

    /// The order key and the value here. After an error the cursor has no position.
    fn here(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if let Err(error) = self.value() {
            self.leave();
            return Err(error);
        }
        Ok(self.order_key().zip(self.value()?))
    }

    /// Visits the plain entries behind this one. Returns true if `see` refused one: the cursor is
    /// on it. Otherwise the cursor has no position, and the merged iterator is at the next entry.
    fn visit_plain(&mut self, see: &mut impl FnMut(&[u8], &[u8]) -> bool) -> Result<bool> {
        self.leave();
        loop {
            self.view.engine.check_open()?;
            let (mut steps, mut is_plain, mut is_refused) = (0, true, false);
            let (key, seqno) = (&mut self.key, self.view.seqno);
            let advanced = self.merged.advance_while(&mut |entry| {
                steps += 1;
                let ValueSource::Inline(value) = entry.value else {
                    is_plain = false;
                    return false;
                };
                is_plain =
                    entry.tag == Tag::PUT && entry.seqno <= seqno && !is_same_key(entry.key, key);
                if !is_plain {
                    return false;
                }
                key.clear();
                key.extend_from_slice(entry.key);
                is_refused = !see(entry.key, value);
                !is_refused && steps < COUNTED_STEPS
            });
            self.steps += steps;
            if self.steps >= COUNTED_STEPS {
                self.count_steps();
            }
            advanced?;
            if is_refused {
                self.at = At::OnKey;
            }
            if is_refused || !is_plain || !self.merged.is_at_entry() {
                return Ok(is_refused);
            }
        }
    }
}
