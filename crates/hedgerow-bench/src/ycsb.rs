//! YCSB's core workloads: Cooper, Silberstein, Tam, Ramakrishnan, Sears, "Benchmarking cloud
//! serving systems with YCSB", 2010, with the generators and the record shape of its
//! `CoreWorkload`.
//!
//! A record is 10 fields of 100 bytes under a key such as `user6284781860667377211`, a hash of its
//! number. An update replaces the record without reading it (YCSB's `writeallfields=true`, because
//! the store has no fields). A read-modify-write replaces one field of the record that it has read.
//! Inserts begin after the loaded records, in every run of a workload.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

use crate::permutation::mix;
use crate::pool::Pool;
use crate::store::{Result, Store};
use crate::threads::Client;
use crate::workload::{Settings, Workload};
use crate::zipfian::{Scrambled, Zipfian, fnv_hash};

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
const SCAN_RECORDS_MAX: u64 = 100;

#[derive(Debug, Clone, Copy)]
enum Operation {
    Read,
    Update,
    Insert,
    Scan,
    ReadModifyWrite,
}

/// The operations of a workload with their shares in per cent; the last one has the rest.
fn mix_of(workload: Workload) -> (u8, Operation, Operation) {
    use Operation::{Insert, Read, ReadModifyWrite, Scan, Update};
    match workload {
        Workload::YcsbA => (50, Read, Update),
        Workload::YcsbB => (95, Read, Update),
        Workload::YcsbD => (95, Read, Insert),
        Workload::YcsbE => (95, Scan, Insert),
        Workload::YcsbF => (50, Read, ReadModifyWrite),
        _ => (100, Read, Read),
    }
}

/// The state that the threads of a workload share.
pub(crate) struct Ycsb<'a> {
    store: &'a dyn Store,
    workload: Workload,
    seed: u64,
    pool: Pool,
    inserts: Inserts,
    scrambled: Scrambled,
    /// The generator for the latest records.
    latest: Option<Zipfian>,
}

impl<'a> Ycsb<'a> {
    pub(crate) fn new(store: &'a dyn Store, workload: Workload, settings: &Settings) -> Ycsb<'a> {
        let loaded = settings.records.num;
        // Like YCSB, leaves room for twice the expected inserts.
        let inserted = match workload {
            Workload::YcsbD | Workload::YcsbE => workload.ops(settings).div_ceil(10),
            _ => 0,
        };
        Ycsb {
            store,
            workload,
            seed: settings.records.seed,
            pool: Pool::new(FIELD_BYTES),
            inserts: Inserts::new(loaded),
            scrambled: Scrambled::new(loaded + inserted),
            latest: (workload == Workload::YcsbD).then(|| Zipfian::new(loaded)),
        }
    }

    pub(crate) fn client(&self, rng: Rng) -> YcsbClient<'_> {
        YcsbClient {
            shared: self,
            latest: self.latest.clone(),
            rng,
            key: Vec::new(),
            record: Vec::new(),
            user_bytes: 0,
        }
    }

    fn mark(&self, record: u64, field: usize) -> u64 {
        mix(mix(record ^ self.seed.rotate_left(32)) ^ field as u64)
    }

    /// Returns true if every field belongs to this record.
    fn is_record(&self, record: u64, bytes: &[u8]) -> bool {
        let fields = bytes.chunks(FIELD_BYTES).enumerate();
        bytes.len() == FIELDS * FIELD_BYTES && { fields }
            .all(|(field, bytes)| self.pool.holds(self.mark(record, field), bytes))
    }
}

pub(crate) struct YcsbClient<'a> {
    shared: &'a Ycsb<'a>,
    latest: Option<Zipfian>,
    rng: Rng,
    // Reused, so that an operation allocates nothing.
    key: Vec<u8>,
    record: Vec<u8>,
    user_bytes: u64,
}

impl Client for YcsbClient<'_> {
    fn call(&mut self, place: u64, _: u64) -> Result<()> {
        if self.shared.workload == Workload::YcsbLoad {
            return self.write_new(place);
        }
        let (percent, often, else_) = mix_of(self.shared.workload);
        let operation = if self.rng.u8(..100) < percent {
            often
        } else {
            else_
        };
        match operation {
            Operation::Insert => self.insert(),
            Operation::Scan => self.scan(),
            Operation::Read => {
                let record = self.draw();
                self.read(record)
            }
            Operation::Update => {
                let record = self.draw();
                self.write_new(record)
            }
            Operation::ReadModifyWrite => {
                let record = self.draw();
                self.read(record)?;
                self.modify(record);
                self.write()
            }
        }
    }

    fn user_bytes(&self) -> u64 {
        self.user_bytes
    }
}

impl YcsbClient<'_> {
    /// Draws a present record.
    fn draw(&mut self) -> u64 {
        let count = self.shared.inserts.acknowledged();
        if let Some(latest) = &mut self.latest {
            latest.grow(count);
            return (count - 1).saturating_sub(latest.draw(&mut self.rng));
        }
        loop {
            let record = self.shared.scrambled.draw(&mut self.rng);
            if record < count {
                return record;
            }
        }
    }

    fn set_key(&mut self, record: u64) {
        self.key.clear();
        // Writing to a vector cannot fail.
        let _ = write!(self.key, "user{}", fnv_hash(record));
    }

    /// Writes a whole record without reading the old one.
    fn write_new(&mut self, record: u64) -> Result<()> {
        self.set_key(record);
        self.record.clear();
        let version = self.rng.u64(..);
        for field in 0..FIELDS {
            let mark = self.shared.mark(record, field);
            self.shared
                .pool
                .append(mark, version, FIELD_BYTES, &mut self.record);
        }
        self.write()
    }

    /// Replaces one field of the record that was read.
    fn modify(&mut self, record: u64) {
        let field = self.rng.usize(..FIELDS);
        let (mark, version) = (self.shared.mark(record, field), self.rng.u64(..));
        let end = self.record.len();
        self.shared
            .pool
            .append(mark, version, FIELD_BYTES, &mut self.record);
        self.record.copy_within(end.., field * FIELD_BYTES);
        self.record.truncate(end);
    }

    fn write(&mut self) -> Result<()> {
        self.user_bytes += (self.key.len() + self.record.len()) as u64;
        self.shared.store.put(&self.key, &self.record)
    }

    fn insert(&mut self) -> Result<()> {
        let record = self.shared.inserts.begin();
        self.write_new(record)?;
        self.shared.inserts.acknowledge(record);
        Ok(())
    }

    fn read(&mut self, record: u64) -> Result<()> {
        self.set_key(record);
        let bytes = &mut self.record;
        bytes.clear();
        let found = self
            .shared
            .store
            .get(&self.key, &mut |value| bytes.extend_from_slice(value))?;
        self.expect(found && self.shared.is_record(record, &self.record))
    }

    fn scan(&mut self) -> Result<()> {
        let record = self.draw();
        self.set_key(record);
        let limit = self.rng.u64(1..=SCAN_RECORDS_MAX) as usize;
        let (mut seen, mut right) = (0, false);
        self.shared
            .store
            .scan(&self.key, limit, &mut |key, value| {
                if seen == 0 {
                    right = key == self.key && self.shared.is_record(record, value);
                }
                seen += 1;
            })?;
        self.expect(right && seen <= limit)
    }

    fn expect(&self, right: bool) -> Result<()> {
        if right {
            return Ok(());
        }
        Err(format!(
            "expected the record that was written to `{}`, found nothing or another one: the store \
             must have been filled by ycsb-load with the same num and seed",
            self.key.escape_ascii()
        )
        .into())
    }
}

/// The present records while several threads insert.
struct Inserts {
    next: AtomicU64,
    /// All records below this one are present.
    acknowledged: AtomicU64,
    /// The present records above it.
    above: Mutex<BTreeSet<u64>>,
}

impl Inserts {
    fn new(loaded: u64) -> Inserts {
        Inserts {
            next: AtomicU64::new(loaded),
            acknowledged: AtomicU64::new(loaded),
            above: Mutex::default(),
        }
    }

    fn begin(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire)
    }

    fn acknowledge(&self, record: u64) {
        let mut above = self
            .above
            .lock()
            .expect("nothing panics while it is locked");
        above.insert(record);
        let mut end = self.acknowledged.load(Ordering::Relaxed);
        while above.remove(&end) {
            end += 1;
        }
        self.acknowledged.store(end, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_there_when_all_before_it_are() {
        let inserts = Inserts::new(10);
        let (a, b, c) = (inserts.begin(), inserts.begin(), inserts.begin());
        assert_eq!((a, b, c), (10, 11, 12));
        inserts.acknowledge(b);
        assert_eq!(inserts.acknowledged(), 10);
        inserts.acknowledge(a);
        assert_eq!(inserts.acknowledged(), 12);
        inserts.acknowledge(c);
        assert_eq!(inserts.acknowledged(), 13);
    }
}
