//! Operands: changes of values that are written without reading them.

use super::Keyspace;
use crate::base::entry::Tag;
use crate::base::error::Result;
use crate::base::options::Durability;

/// # Operands
///
/// The merge operator of the keyspace ([`Layout::merge_operator`](crate::Layout::merge_operator))
/// combines the operands of a key with its value: in each read, and once for all in flushes and
/// merges, as far as snapshots allow.
impl Keyspace {
    /// Changes the value of a key by an operand of the keyspace's merge operator, buffered. The key
    /// need not have a value. Cost: that of a put. A read of the key costs a lookup for each
    /// operand that is not folded yet.
    ///
    /// ```
    /// # use hedgerow::{Db, Layout};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = Db::open(dir.path())?;
    /// let words = db.keyspace("words", Layout::sorted().merge_operator("append"))?;
    /// words.put("hedge", "hog")?;
    /// words.merge("hedge", "row")?;
    /// assert_eq!(words.get("hedge")?.unwrap(), "hogrow");
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `InvalidArgument` for an operand that the operator refuses;
    /// `Unsupported` if the keyspace has no operator, or one that is not registered.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, Durability::Buffered)
    }

    /// Merges as [`Keyspace::merge`] does, at this durability.
    ///
    /// # Errors
    /// As [`Keyspace::merge`].
    pub fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let operand = operand.as_ref();
        self.check_operand(operand)?;
        self.write(Tag::MERGE, key.as_ref(), operand, None, durability)
            .map(drop)
    }

    /// Checks that the merge operator accepts an operand.
    pub(crate) fn check_operand(&self, operand: &[u8]) -> Result<()> {
        self.cell.facts.merge_operator()?.check(operand)
    }
}
