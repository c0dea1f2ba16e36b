//! One thread of a workload of `db_bench`.

use fastrand::Rng;

use crate::permutation::Permutation;
use crate::records::{PREFIX_BYTES, Records};
use crate::store::{Result, Store};
use crate::threads::Client;
use crate::workload::{Settings, Workload};
use crate::zipfian::Scrambled;

/// Steps of a long scan, as the advisor counts them.
const LONG_SCAN_NEXTS: u64 = 10_000;

/// The state that the threads of a workload share.
pub(crate) struct DbBench<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) settings: &'a Settings,
    pub(crate) records: Records,
    pub(crate) order: Permutation,
    /// The number of keys that fills have put, in that order.
    filled: u64,
    pub(crate) zipf: Scrambled,
}

impl<'a> DbBench<'a> {
    pub(crate) fn new(store: &'a dyn Store, settings: &'a Settings) -> Result<DbBench<'a>> {
        let shape = settings.records;
        Ok(DbBench {
            store,
            settings,
            records: Records::new(shape)?,
            order: Permutation::new(shape.num, shape.seed),
            filled: settings.part.places(shape.num).end,
            zipf: Scrambled::new(shape.num),
        })
    }

    pub(crate) fn client(&self, workload: Workload, rng: Rng) -> DbBenchClient<'_> {
        DbBenchClient {
            shared: self,
            workload,
            rng,
            entries: Vec::new(),
            keys: Vec::new(),
            indexes: Vec::new(),
            user_bytes: 0,
        }
    }
}

pub(crate) struct DbBenchClient<'a> {
    shared: &'a DbBench<'a>,
    workload: Workload,
    rng: Rng,
    // Reused, so that an operation allocates nothing.
    entries: Vec<(Vec<u8>, Vec<u8>)>,
    keys: Vec<Vec<u8>>,
    indexes: Vec<u64>,
    user_bytes: u64,
}

impl Client for DbBenchClient<'_> {
    fn call(&mut self, place: u64, count: u64) -> Result<()> {
        let num = self.shared.settings.records.num;
        match self.workload {
            Workload::FillSeq => self.put(count, |_, i| (place + i, 0)),
            Workload::FillRandom => {
                let order = self.shared.order;
                self.put(count, |_, i| (order.at(place + i), 0))
            }
            Workload::Overwrite => self.overwrite(num, count),
            Workload::UpdateAll => {
                let order = self.shared.order;
                self.put(count, |rng, i| (order.at(place + i), rng.u64(..)))
            }
            Workload::ReadAll => {
                let order = self.shared.order;
                match count {
                    1 => self.get_index(order.at(place)),
                    _ => self.multi_get(count, |_, i| order.at(place + i)),
                }
            }
            Workload::UpdateRandom => self.update(num),
            Workload::ReadMissing => self.get_missing(num),
            Workload::ReadHot => self.get(num.div_ceil(100)).map(drop),
            Workload::ReadZipf => {
                let index = self.shared.zipf.draw(&mut self.rng);
                self.get_index(index)
            }
            Workload::SeekRandom => self.seek(num, self.shared.settings.seek_nexts),
            Workload::PrefixScan => self.scan_prefix(num),
            Workload::Mixed => self.draw_operation(num),
            Workload::DeleteRandom => self.delete(num),
            Workload::PutRandom => {
                self.write(num, 8, |store, key| store.put(key, &1_i64.to_le_bytes()))
            }
            Workload::MergeRandom => self.write(num, 8, |store, key| store.add(key, 1)),
            Workload::MultiReadRandom => self.multi_get(count, |rng, _| rng.u64(..num)),
            _ => self.get(num).map(drop),
        }
    }

    fn user_bytes(&self) -> u64 {
        self.user_bytes
    }
}

impl DbBenchClient<'_> {
    /// Puts `count` entries with the indexes and versions that `choose` returns.
    fn put(&mut self, count: u64, choose: impl Fn(&mut Rng, u64) -> (u64, u64)) -> Result<()> {
        self.entries.resize_with(count as usize, Default::default);
        for (i, (key, value)) in self.entries.iter_mut().enumerate() {
            let (index, version) = choose(&mut self.rng, i as u64);
            self.shared.records.key(index, key);
            self.shared.records.value(index, version, value);
            self.user_bytes += (key.len() + value.len()) as u64;
        }
        match &self.entries[..] {
            [(key, value)] => self.shared.store.put(key, value),
            entries => self.shared.store.write_batch(entries),
        }
    }

    fn overwrite(&mut self, num: u64, count: u64) -> Result<()> {
        self.put(count, |rng, _| (rng.u64(..num), rng.u64(..)))
    }

    fn update(&mut self, num: u64) -> Result<()> {
        let index = self.get(num)?;
        self.put(1, |rng, _| (index, rng.u64(..)))
    }

    fn draw_operation(&mut self, num: u64) -> Result<()> {
        let Settings {
            mix, seek_nexts, ..
        } = *self.shared.settings;
        let mut place = self.rng.f64();
        let mut is_drawn = |share: f64| {
            place -= share;
            place < 0.0
        };
        match () {
            () if is_drawn(mix.get) => self.get(num).map(drop),
            () if is_drawn(mix.miss) => self.get_missing(num),
            () if is_drawn(mix.scan) => self.seek(num, seek_nexts),
            () if is_drawn(mix.long_scan) => self.seek(num, LONG_SCAN_NEXTS),
            () => self.overwrite(num, 1),
        }
    }

    fn delete(&mut self, num: u64) -> Result<()> {
        self.write(num, 0, |store, key| store.delete(key))
    }

    /// Writes to a drawn key.
    fn write(
        &mut self,
        num: u64,
        value_bytes: u64,
        write: impl FnOnce(&dyn Store, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let index = self.rng.u64(..num);
        let DbBench { store, records, .. } = self.shared;
        let key = one(&mut self.keys);
        records.key(index, key);
        self.user_bytes += key.len() as u64 + value_bytes;
        write(*store, key)
    }

    /// Draws the index of a key that fills have put.
    fn draw(&mut self, num: u64) -> u64 {
        let DbBench { filled, order, .. } = *self.shared;
        if filled == self.shared.settings.records.num {
            return self.rng.u64(..num);
        }
        order.at(self.rng.u64(..filled))
    }

    /// The index of the key.
    fn get(&mut self, num: u64) -> Result<u64> {
        let index = self.draw(num);
        self.get_index(index).map(|()| index)
    }

    fn get_index(&mut self, index: u64) -> Result<()> {
        let DbBench { store, records, .. } = self.shared;
        let key = one(&mut self.keys);
        records.key(index, key);
        let mut right = false;
        let found = store.get(key, &mut |value| right = records.is_value(index, value))?;
        self.expect(index, found, right)
    }

    fn get_missing(&mut self, num: u64) -> Result<()> {
        let index = self.rng.u64(..num);
        let DbBench { store, records, .. } = self.shared;
        let key = one(&mut self.keys);
        records.missing_key(index, key);
        expect_missing(key, store.get(key, &mut |_| ())?)
    }

    fn multi_get(&mut self, count: u64, choose: impl Fn(&mut Rng, u64) -> u64) -> Result<()> {
        let num = self.shared.settings.records.num;
        let DbBench { store, records, .. } = self.shared;
        self.keys.resize_with(count as usize, Vec::new);
        self.indexes.clear();
        for (key, i) in self.keys.iter_mut().zip(0..) {
            let index = choose(&mut self.rng, i);
            records.key(index, key);
            self.indexes.push(index);
        }
        // A found key is marked by the complement of its index.
        let indexes = &mut self.indexes;
        let mut wrong = None;
        store.multi_get(&self.keys, &mut |i, value| {
            if records.is_value(indexes[i], value) {
                indexes[i] = !indexes[i];
            } else {
                wrong = Some(indexes[i]);
            }
        })?;
        let missing = self.indexes.iter().find(|index| **index < num);
        match (wrong, missing) {
            (Some(index), _) => self.expect(index, true, false),
            (None, Some(index)) => self.expect(*index, false, false),
            (None, None) => Ok(()),
        }
    }

    /// Seeks to a present key, and takes as many of the steps as there are keys.
    fn seek(&mut self, num: u64, nexts: u64) -> Result<()> {
        let index = self.draw(num);
        let DbBench { store, records, .. } = self.shared;
        let key = one(&mut self.keys);
        records.key(index, key);
        let limit = nexts.saturating_add(1);
        let (mut seen, mut right) = (0, true);
        store.scan(key, limit as usize, &mut |found, value| {
            if seen == 0 {
                right = found == key && records.is_value(index, value);
            }
            seen += 1;
        })?;
        self.expect(index, seen > 0 && right, right)?;
        let expected = limit.min(num - index);
        if seen != expected && self.shared.filled == num {
            return Err(format!("expected {expected} entries from a seek, found {seen}").into());
        }
        Ok(())
    }

    /// Scans the group of a present key; the whole group must be found, in any order.
    fn scan_prefix(&mut self, num: u64) -> Result<()> {
        let index = self.rng.u64(..num);
        let DbBench { store, records, .. } = self.shared;
        let key = one(&mut self.keys);
        records.key(index, key);
        let group = records.group(index);
        let expected = (group.end - group.start) as usize;
        let (mut seen, mut right) = (0, false);
        store.scan_prefix(&key[..PREFIX_BYTES], expected, &mut |found, value| {
            if found == key {
                right = records.is_value(index, value);
            }
            seen += 1;
        })?;
        self.expect(index, seen > 0, right)?;
        if seen != expected {
            return Err(format!("expected {expected} keys of a prefix, found {seen}").into());
        }
        Ok(())
    }

    fn expect(&self, index: u64, found: bool, right: bool) -> Result<()> {
        self.shared.expect(index, found, right)
    }
}

impl DbBench<'_> {
    /// Checks that a get of a written key has `found` a value that is `right`.
    pub(crate) fn expect(&self, index: u64, found: bool, right: bool) -> Result<()> {
        if found && right {
            return Ok(());
        }
        let mut key = Vec::new();
        self.records.key(index, &mut key);
        let found = if found { "another one" } else { "nothing" };
        Err(format!(
            "expected the value that was written to the key `{}`, found {found}: the store must have \
             been filled by fillseq or fillrandom with the same num, key size, value size, group size \
             and seed, and nothing may have been deleted since",
            key.escape_ascii()
        )
        .into())
    }
}

/// Checks that a get of a key that was never written has found nothing.
pub(crate) fn expect_missing(key: &[u8], found: bool) -> Result<()> {
    if !found {
        return Ok(());
    }
    let key = key.escape_ascii();
    Err(format!("expected nothing, found a value: key `{key}` of no write").into())
}

/// The buffer for a single key.
fn one(keys: &mut Vec<Vec<u8>>) -> &mut Vec<u8> {
    if keys.is_empty() {
        keys.push(Vec::new());
    }
    &mut keys[0]
}
