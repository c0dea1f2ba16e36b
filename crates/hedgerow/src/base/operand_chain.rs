//! The value of a key from its versions, the newest first: operands down to a put, a delete or the
//! end. Every read of a key with operands asks here which versions count.

use crate::base::entry::{EXPIRY_BYTES, Flags, Kind, SeqNo, Tag, covered};
use crate::base::error::{Error, Result};
use crate::base::expiry;
use crate::base::merge_operator::KeyspaceOperator;

/// A stored value, and the length of its front: the bytes before the value proper.
type ValueAndFront<V> = (V, usize);

/// The versions of a key so far, as they are stored. See the module.
pub(crate) struct OperandChain<V> {
    /// The newest first.
    operands: Vec<ValueAndFront<V>>,
    base: Option<ValueAndFront<V>>,
    /// The time of expiry of the base.
    expires: Option<u64>,
    /// Versions from this number on are part of the chain.
    from: SeqNo,
}

impl<V: AsRef<[u8]>> OperandChain<V> {
    pub(crate) fn new() -> OperandChain<V> {
        OperandChain {
            operands: Vec::new(),
            base: None,
            expires: None,
            from: SeqNo::MAX,
        }
    }

    /// Adds the next older version. Returns true if older ones count, too. `stored` is its stored
    /// value, which not every version needs; `now` is the time by which values have expired.
    pub(crate) fn add(
        &mut self,
        (seqno, tag): (SeqNo, Tag),
        stored: impl FnOnce() -> Result<V>,
        now: impl FnOnce() -> u64,
    ) -> Result<bool> {
        match tag.kind {
            Kind::Merge if seqno >= self.from => return Ok(true),
            Kind::Merge => {
                let stored = stored()?;
                let (from, operand) = covered(seqno, tag, stored.as_ref())?;
                let front = stored.as_ref().len() - operand.len();
                self.from = from;
                self.operands.push((stored, front));
                return Ok(true);
            }
            Kind::Put if tag.flags.has(Flags::EXPIRES) => {
                let stored = stored()?;
                let found = expiry::unexpired(stored.as_ref(), now())?;
                self.expires = found.map(|(at, _)| at);
                if found.is_some() {
                    self.base = Some((stored, EXPIRY_BYTES));
                }
            }
            Kind::Put => self.base = Some((stored()?, 0)),
            Kind::Delete | Kind::RangeDelete => {}
            Kind::ValueRef => return Err(tag.of_later_version()),
        }
        Ok(false)
    }

    /// Returns true if there are no operands.
    pub(crate) fn is_empty(&self) -> bool {
        self.operands.is_empty()
    }

    /// The number up to which older versions count.
    pub(crate) fn below(&self) -> Result<SeqNo> {
        self.from.0.checked_sub(1).map(SeqNo).ok_or_else(|| {
            Error::corruption("expected an operand numbered from 1 on, found number 0")
        })
    }

    /// Sets the value under the operands.
    pub(crate) fn set_base(&mut self, base: Option<V>) {
        self.base = base.map(|value| (value, 0));
    }

    /// The time of expiry of the value under the operands.
    pub(crate) fn expires(&self) -> Option<u64> {
        self.expires
    }

    /// The value of the key. The operator is asked for if there are operands.
    pub(crate) fn value<'o>(
        &self,
        key: &[u8],
        operator: impl FnOnce() -> Result<&'o KeyspaceOperator>,
    ) -> Result<Option<Vec<u8>>> {
        let (base, operands) = self.parts();
        match operands.is_empty() {
            true => Ok(base.map(<[u8]>::to_vec)),
            false => operator()?.full(key, base, &operands),
        }
    }

    /// The value under the operands, and these, the oldest first.
    pub(crate) fn parts(&self) -> (Option<&[u8]>, Vec<&[u8]>) {
        let operands = self.operands.iter().rev().map(proper);
        (self.base.as_ref().map(proper), operands.collect())
    }
}

/// The value proper.
fn proper<V: AsRef<[u8]>>((stored, front): &ValueAndFront<V>) -> &[u8] {
    &stored.as_ref()[*front..]
}
