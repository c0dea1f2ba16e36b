//! Transactions in the model: the reads of a snapshot with the transaction's own writes, and
//! whether somebody else came first.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use hedgerow::ErrorKind;

use super::{Answer, Expiring, Map, Model};
use crate::answer;
use crate::ops::{TransactionStep, Write};

/// The state of one transaction.
#[derive(Default)]
struct Running<'a> {
    /// The writes that were not rolled back.
    writes: Vec<&'a Write>,
    /// The keys read by generation; `None` is every key.
    reads: BTreeSet<(u32, Option<Vec<u8>>)>,
    /// The keys that others have written.
    changed: BTreeSet<(u32, Vec<u8>)>,
}

/// The contents and the times of expiry.
type State = (BTreeMap<u32, Arc<Map>>, BTreeMap<(u32, Vec<u8>), Expiring>);

impl Model {
    pub(super) fn transact(&mut self, steps: &[TransactionStep], commits: bool) -> Answer {
        let mut running = Running::default();
        let mut theirs = self.state();
        let mut saved = Vec::new();
        let mut lines = Vec::new();
        for step in steps {
            let line = match step {
                TransactionStep::Save => {
                    saved.push((self.state(), running.writes.len()));
                    Ok(answer::done())
                }
                TransactionStep::Back => {
                    if let Some((state, writes)) = saved.last() {
                        (self.live, self.expiring) = state.clone();
                        running.writes.truncate(*writes);
                    }
                    Ok(answer::done())
                }
                TransactionStep::Meanwhile {
                    keyspace,
                    key,
                    value,
                } => {
                    self.swap(&mut theirs);
                    let line = self.write(keyspace, key, Some(value.bytes()));
                    self.swap(&mut theirs);
                    if line.is_ok() {
                        let id = self.handles[keyspace.as_str()];
                        running.changed.insert((id, key.bytes()));
                    }
                    line
                }
                TransactionStep::Write(write) => {
                    let written = self.write_of(write);
                    if written.is_ok() {
                        running.writes.push(write);
                    }
                    Ok(answer::added(u32::from(written.is_ok())))
                }
                TransactionStep::Get { .. } | TransactionStep::All { .. } => {
                    self.read_in(step, &mut running)
                }
            };
            lines.push(line.unwrap_or_else(answer::error));
        }
        (self.live, self.expiring) = theirs;
        lines.push(match commits {
            false => answer::nothing(),
            true if running.conflicts() => answer::error(ErrorKind::Conflict),
            true => {
                // A keyspace that takes the write then takes it now.
                let writes = running.writes.iter();
                writes.for_each(|write| drop(self.write_of(write)));
                answer::done()
            }
        });
        Ok(lines.join(" ; "))
    }

    /// All that a transaction may change.
    fn state(&self) -> State {
        (self.live.clone(), self.expiring.clone())
    }

    fn swap(&mut self, other: &mut State) {
        mem::swap(&mut self.live, &mut other.0);
        mem::swap(&mut self.expiring, &mut other.1);
    }

    fn read_in(&self, step: &TransactionStep, running: &mut Running<'_>) -> Answer {
        let (TransactionStep::Get { keyspace, .. } | TransactionStep::All { keyspace }) = step
        else {
            unreachable!("{step} is no read");
        };
        let id = *self.handles.get(keyspace).ok_or(ErrorKind::Closed)?;
        // A snapshot does not know a keyspace that is gone.
        let map = self.live.get(&id).ok_or(ErrorKind::InvalidArgument)?;
        if let TransactionStep::Get { key, .. } = step {
            let key = self.checked(key)?;
            let line = answer::value(map.get(&key).map(|v| &**v));
            if !running
                .writes
                .iter()
                .any(|write| writes(write, keyspace, &key))
            {
                running.reads.insert((id, Some(key)));
            }
            return Ok(line);
        }
        running.reads.insert((id, None));
        let entries = map.iter().map(|(k, v)| (k.as_slice(), &**v));
        let digest = answer::digest(entries);
        Ok(answer::contents([(keyspace.as_str(), digest)].into_iter()))
    }
}

/// Returns true if a write decides about the value of a key.
fn writes(write: &Write, name: &str, key: &[u8]) -> bool {
    match write {
        Write::One {
            keyspace, key: of, ..
        } => keyspace == name && of.bytes() == key,
        // It is combined with the value below, which is read.
        Write::Merge { .. } => false,
        Write::DeleteRange { keyspace, keys } => keyspace == name && keys.holds(key),
    }
}

impl Running<'_> {
    fn conflicts(&self) -> bool {
        let is_read = |(id, key): &(u32, Vec<u8>)| {
            self.reads.contains(&(*id, None)) || self.reads.contains(&(*id, Some(key.clone())))
        };
        !self.writes.is_empty() && self.changed.iter().any(is_read)
    }
}
