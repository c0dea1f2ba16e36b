//! The value of a key from several of its versions: operands with what is under them, values that
//! may have expired, and the newest version when a cursor goes backward.

use super::{At, Cursor, CursorValue, is_same_key};
use crate::base::entry::{EXPIRY_BYTES, Flags, Kind, SeqNo, covered};
use crate::base::error::Result;
use crate::base::expiry;
use crate::base::operand_chain::OperandChain;
use crate::base::slice::Slice;
use crate::table::iter::ValueSource;

impl Cursor {
    /// Combines the operands here and the value under them. Returns true if the key has a value
    /// then.
    #[cold]
    pub(super) fn combine_forward(&mut self) -> Result<bool> {
        let mut chain = OperandChain::new();
        while let Some(entry) = self.merged.entry().filter(|entry| entry.key == self.key) {
            // Above the snapshot of a batch, and below the writes of the batch itself.
            if entry.seqno > self.view.seqno && self.view.hides(&entry)? {
                self.merged.advance()?;
                continue;
            }
            let version = (entry.seqno, entry.tag);
            let stored = || self.bytes_of(entry.value);
            if !chain.add(version, stored, || self.view.time())? {
                break;
            }
            self.merged.advance()?;
        }
        let facts = &self.view.state.facts;
        let value = chain.value(facts.order.decode(&self.key), || facts.merge_operator());
        self.uncombined = None;
        let value = match value {
            Err(_) if self.keeps_operands => {
                let (base, operands) = chain.parts();
                let operands = operands.into_iter().map(Slice::copy_from).collect();
                self.uncombined = Some(Box::new((base.map(Slice::copy_from), operands)));
                Some(Vec::new())
            }
            value => value?,
        };
        self.expires = chain.expires().filter(|_| value.is_some());
        self.at = match value {
            Some(_) => At::BehindOperands,
            None => At::Nowhere,
        };
        Ok(self.keep(value))
    }

    /// The value of the key here with these operands, the oldest first.
    #[cold]
    fn combined(&self, base: Option<Vec<u8>>, operands: &[Vec<u8>]) -> Result<Option<Vec<u8>>> {
        let facts = &self.view.state.facts;
        let key = facts.order.decode(&self.key);
        facts.merge_operator()?.full(key, base.as_deref(), operands)
    }

    /// Keeps the value of the key. Returns true if it has one.
    fn keep(&mut self, value: Option<Vec<u8>>) -> bool {
        let has_value = value.is_some();
        self.value = value.map_or(CursorValue::Here, CursorValue::Inline);
        has_value
    }

    /// The value of a put that expires, and its time; `None` if it has expired.
    #[cold]
    pub(super) fn unexpired(&self, stored: ValueSource<'_>) -> Result<Option<(u64, Vec<u8>)>> {
        let mut stored = self.bytes_of(stored)?;
        let found = expiry::unexpired(&stored, self.view.time())?;
        Ok(found.map(|(at, _)| at).map(|at| {
            stored.drain(..EXPIRY_BYTES);
            (at, stored)
        }))
    }

    fn bytes_of(&self, value: ValueSource<'_>) -> Result<Vec<u8>> {
        Ok(match value {
            ValueSource::Inline(bytes) => bytes.to_vec(),
            ValueSource::OutOfLine { page, bytes } => self.read(page, bytes)?.into(),
        })
    }

    /// Moves backward to the newest visible version of the key before that has a value. Backward,
    /// the versions of a key come oldest first, so the last visible one is the newest.
    pub(super) fn settle_backward(&mut self) -> Result<bool> {
        self.leave();
        let mut candidate = None;
        // Those above the candidate, oldest first.
        let mut operands = Vec::new();
        while let Some(entry) = self.merged.entry() {
            let has_versions = candidate.is_some() || !operands.is_empty();
            if has_versions && !is_same_key(entry.key, &self.key) {
                candidate = self.under(candidate, &mut operands)?;
                if candidate.is_some() {
                    break;
                }
            } else if entry.seqno > self.view.seqno && self.view.hides(&entry)? {
                self.merged.retreat()?;
            } else {
                self.key.clear();
                self.key.extend_from_slice(entry.key);
                match entry.tag.kind {
                    Kind::Merge => {
                        let value = self.bytes_of(entry.value)?;
                        let (from, operand) = covered(entry.seqno, entry.tag, &value)?;
                        operands.retain(|(seqno, _)| *seqno < from);
                        operands.push((entry.seqno, operand.to_vec()));
                    }
                    Kind::Put if entry.tag.flags.has(Flags::EXPIRES) => {
                        operands.clear();
                        let found = self.unexpired(entry.value)?;
                        self.skipped += u64::from(found.is_none());
                        let (at, value) = found.unzip();
                        self.expires = at;
                        candidate = value.map(CursorValue::Inline);
                    }
                    Kind::Put => {
                        operands.clear();
                        self.expires = None;
                        candidate = Some(kept(candidate, entry.value));
                    }
                    Kind::Delete | Kind::RangeDelete => {
                        operands.clear();
                        self.expires = None;
                        candidate = None;
                        self.skipped += 1;
                    }
                    Kind::ValueRef => return Err(entry.tag.of_later_version()),
                }
                self.merged.retreat()?;
            }
        }
        let Some(found) = self.under(candidate, &mut operands)? else {
            return Ok(false);
        };
        self.value = found;
        self.at = At::BeforeKey;
        Ok(true)
    }

    /// The value of the key with its operands, oldest first, over its newest put.
    fn under(
        &mut self,
        candidate: Option<CursorValue>,
        operands: &mut Vec<(SeqNo, Vec<u8>)>,
    ) -> Result<Option<CursorValue>> {
        if operands.is_empty() {
            return Ok(candidate);
        }
        let base = match candidate {
            Some(CursorValue::Inline(bytes)) => Some(bytes),
            Some(CursorValue::OutOfLine(page, bytes)) => Some(self.read(page, bytes)?.into()),
            Some(CursorValue::Here) | None => None,
        };
        let operands: Vec<_> = operands.drain(..).map(|(_, operand)| operand).collect();
        let value = self.combined(base, &operands)?;
        if value.is_none() {
            self.expires = None;
        }
        Ok(value.map(CursorValue::Inline))
    }
}

/// A value that is kept while the cursor moves on, in the memory of the one before.
fn kept(before: Option<CursorValue>, value: ValueSource<'_>) -> CursorValue {
    match value {
        ValueSource::Inline(bytes) => {
            let mut kept = match before {
                Some(CursorValue::Inline(kept)) => kept,
                _ => Vec::new(),
            };
            kept.clear();
            kept.extend_from_slice(bytes);
            CursorValue::Inline(kept)
        }
        ValueSource::OutOfLine { page, bytes } => CursorValue::OutOfLine(page, bytes),
    }
}
