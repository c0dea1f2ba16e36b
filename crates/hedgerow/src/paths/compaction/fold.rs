//! Folding: a merge or a flush combines the operands of a key with each other, and with the value
//! under them if it has it.
//!
//! Rule 3 of [`super::retain`]. Two versions are of one *stripe* if no snapshot sees the older one
//! only. Operands of one stripe, and the put or delete under them in the same stripe, become one
//! version with the number of the newest. *Proof that no answer changes*: a reader sees all of them
//! or none. One that sees all has combined them by itself, and the operator is associative. Nothing
//! lies between them, neither a snapshot nor a range tombstone: one that hides the older ones would
//! have removed them by rule 1. If nothing older of the key exists, the oldest stripe has no value
//! under its operands.

use crate::base::entry::{Kind, SeqNo, Tag, VALUE_BYTES_MAX, covered};
use crate::base::error::Result;
use crate::base::stats::Job;
use crate::paths::compaction::output::OutputTables;
use crate::paths::compaction::retain::Retain;
use crate::table::iter::{Entry, ValueSource};
use crate::tree::engine::Engine;
use crate::tree::partition::KeyspaceFacts;

/// Gathers the versions of a key with operands. See the module.
pub(crate) struct OperandFold<'a> {
    engine: &'a Engine,
    keyspace: &'a KeyspaceFacts,
    key: Vec<u8>,
    /// The retained versions of the key from its newest operand on, newest first.
    versions: Vec<Version>,
    /// True if a failure was told: once per merge.
    is_told: bool,
}

#[derive(Clone)]
struct Version {
    seqno: SeqNo,
    /// The number of the oldest version that it stands for.
    from: SeqNo,
    tag: Tag,
    value: Vec<u8>,
}

impl Version {
    /// Gives an operand the form in which it is stored. It covers others if some of these are left:
    /// `under` is the number of the newest version under it.
    fn store(&mut self, under: Option<SeqNo>) {
        self.tag = Tag::MERGE;
        if under.is_some_and(|under| under >= self.from) {
            self.tag = Tag::MERGE_COVERING;
            self.value = [&self.from.0.to_le_bytes()[..], &self.value].concat();
        }
    }
}

impl<'a> OperandFold<'a> {
    pub(crate) fn new(engine: &'a Engine, keyspace: &'a KeyspaceFacts) -> OperandFold<'a> {
        OperandFold {
            engine,
            keyspace,
            key: Vec::new(),
            versions: Vec::new(),
            is_told: false,
        }
    }

    /// Returns true if a version belongs here: it is an operand, or one of its key came before.
    #[inline]
    pub(crate) fn takes(&self, tag: Tag) -> bool {
        tag.kind == Kind::Merge || !self.versions.is_empty()
    }

    /// Returns true if there are versions to write before the next key.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.versions.is_empty()
    }

    /// Adds the next older version of the key, which is retained. Tells `retain` what it covers.
    pub(crate) fn push(
        &mut self,
        entry: &Entry<'_>,
        value: &[u8],
        retain: &mut Retain,
    ) -> Result<()> {
        self.key.clear();
        self.key.extend_from_slice(entry.key);
        let (from, value) = match entry.tag.kind {
            Kind::Merge => covered(entry.seqno, entry.tag, value)?,
            _ => (entry.seqno, value),
        };
        if from < entry.seqno {
            retain.note_covering(entry.seqno, from);
        }
        self.versions.push(Version {
            seqno: entry.seqno,
            from,
            tag: entry.tag,
            value: value.to_vec(),
        });
        Ok(())
    }

    /// Folds the versions of the key and writes them. `nothing_older_below` is as for
    /// [`Retain::keep`].
    #[cold]
    pub(crate) fn write(
        &mut self,
        retain: &Retain,
        nothing_older_below: impl FnOnce(&[u8]) -> bool,
        output: &mut OutputTables<'_>,
    ) -> Result<()> {
        let versions = std::mem::take(&mut self.versions);
        let nothing_older = nothing_older_below(&self.key);
        // A reader who meets a covering operand skips the versions that it covers. So those that
        // are left are not combined with what this reader needs: an older version, or the absence
        // of one. They go with the snapshots that see them.
        let covers = |pair: &[Version]| (pair[1].seqno >= pair[0].from).then(|| pair[0].clone());
        let covering: Vec<Version> = versions.windows(2).filter_map(covers).collect();
        let is_covered = |version: &Version| {
            let covers = |it: &Version| it.from <= version.seqno && version.seqno < it.seqno;
            covering.iter().any(covers)
        };
        let is_one = |newer: &Version, older: &Version| {
            retain.is_one_stripe(older.seqno, newer.seqno) && is_covered(newer) == is_covered(older)
        };
        let mut stripes = versions.chunk_by(is_one).peekable();
        while let Some(stripe) = stripes.next() {
            let under = stripes.peek().and_then(|stripe| stripe.first());
            let nothing_under = nothing_older && under.is_none() && !is_covered(&stripe[0]);
            for mut version in self.folded(stripe, nothing_under) {
                let is_needless = version.tag.kind == Kind::Delete
                    && nothing_under
                    && retain.is_seen_by_all(version.seqno);
                if is_needless {
                    continue;
                }
                if version.tag.kind == Kind::Merge {
                    version.store(under.map(|it| it.seqno));
                }
                let entry = Entry {
                    key: &self.key,
                    seqno: version.seqno,
                    tag: version.tag,
                    value: ValueSource::Inline(&version.value),
                };
                output.add(&entry, &version.value)?;
            }
        }
        Ok(())
    }

    /// The versions of one stripe, folded as far as the operator can.
    fn folded(&mut self, stripe: &[Version], nothing_under: bool) -> Vec<Version> {
        let is_operand = |version: &&Version| version.tag.kind == Kind::Merge;
        let (operands, under) = stripe.split_at(stripe.iter().take_while(is_operand).count());
        let base = match under {
            // One that expires later stays apart: the operands outlive it.
            [Version { tag, value, .. }] if *tag == Tag::PUT => Some(value.as_slice()),
            [Version { tag, .. }] if tag.kind == Kind::Delete => None,
            [] if nothing_under => None,
            _ => return [self.paired(operands), under.to_vec()].concat(),
        };
        let (Some(newest), Ok(operator)) = (operands.first(), self.keyspace.merge_operator())
        else {
            return stripe.to_vec();
        };
        let oldest_first: Vec<&[u8]> = operands.iter().rev().map(|it| &*it.value).collect();
        let key = self.keyspace.order.decode(&self.key);
        let (tag, value) = match operator.full(key, base, &oldest_first) {
            Ok(Some(value)) if value.len() <= VALUE_BYTES_MAX => (Tag::PUT, value),
            Ok(None) => (Tag::DELETE, Vec::new()),
            // It is too long for a value, so it stays in parts.
            Ok(Some(_)) => return stripe.to_vec(),
            Err(error) => {
                if !std::mem::replace(&mut self.is_told, true) {
                    self.engine.report_failure(Job::FoldOperands, error);
                }
                return stripe.to_vec();
            }
        };
        vec![Version {
            seqno: newest.seqno,
            from: newest.seqno,
            tag,
            value,
        }]
    }

    /// Operands, newest first, with neighbours combined where the operator can: in rounds, so that
    /// a byte of a long chain is copied once per round and not once per operand.
    fn paired(&self, operands: &[Version]) -> Vec<Version> {
        let mut folded = operands.to_vec();
        let Ok(operator) = self.keyspace.merge_operator() else {
            return folded;
        };
        let key = self.keyspace.order.decode(&self.key);
        loop {
            let before = folded.len();
            let mut round = Vec::with_capacity(before.div_ceil(2));
            let mut rest = folded.into_iter();
            while let Some(newer) = rest.next() {
                let Some(older) = rest.next() else {
                    round.push(newer);
                    break;
                };
                match operator.partial(key, &older.value, &newer.value) {
                    Some(value) => round.push(Version {
                        from: older.from,
                        value,
                        ..newer
                    }),
                    None => round.extend([newer, older]),
                }
            }
            folded = round;
            if folded.len() == before {
                return folded;
            }
        }
    }
}
