//! One thread that makes asynchronous calls, several of them at once.
//!
//! Gets, scans, updates and synced writes are in a window. When the window is full, the thread
//! waits for the oldest call. Other writes are not awaited; a barrier ends them. The time of a call
//! in the window ends when its result is taken, that of another write when it is in a queue.
#![allow(
    clippy::disallowed_methods,
    reason = "a bench measures the time of the machine"
)]

use std::collections::VecDeque;
use std::time::Instant;

use fastrand::Rng;

use crate::db_bench::{DbBench, expect_missing};
use crate::latency::Latency;
use crate::store::{Asynchronous, Begun, Result, Store, invalid};
use crate::threads::Client;
use crate::workload::{Settings, Workload};

/// The asynchronous calls of a store, if the workload can be made of them.
///
/// # Errors
/// A store without asynchronous calls; a workload of other calls or of batches.
pub(crate) fn check<'a>(
    store: &'a dyn Store,
    workload: Workload,
    settings: &Settings,
) -> Result<&'a dyn Asynchronous> {
    let is_of_batches = workload.writes() && workload.ops_per_call(settings) > 1;
    if !workload.may_be_asynchronous() || is_of_batches {
        return Err(invalid(format!(
            "expected gets, scans, or single writes as asynchronous calls, found {workload} of {} per call",
            workload.ops_per_call(settings)
        )));
    }
    store.asynchronous().ok_or_else(|| {
        let name = store.describe().name;
        invalid(format!(
            "expected a store with asynchronous calls, found {name}"
        ))
    })
}

pub(crate) struct WindowedClient<'a> {
    shared: &'a DbBench<'a>,
    calls: &'a dyn Asynchronous,
    workload: Workload,
    rng: Rng,
    window: usize,
    under_way: VecDeque<UnderWay<'a>>,
    latency: Latency,
    user_bytes: u64,
    // Reused, so that they are allocated once.
    key: Vec<u8>,
    keys: Vec<Vec<u8>>,
    value: Vec<u8>,
}

struct UnderWay<'a> {
    began: Instant,
    expected: Expected,
    rest: Begun<'a>,
}

/// The result that a call must have.
enum Expected {
    /// No result: the call is a write.
    Nothing,
    /// A value of the key with this index, and this number of values of any later keys.
    ValueOf(u64, u64),
    /// A value of each key with one of these indexes.
    ValuesOf(Vec<u64>),
    /// No value of this key.
    Missing(Vec<u8>),
}

impl<'a> DbBench<'a> {
    pub(crate) fn windowed_client(
        &'a self,
        calls: &'a dyn Asynchronous,
        workload: Workload,
        rng: Rng,
        window: usize,
    ) -> WindowedClient<'a> {
        WindowedClient {
            shared: self,
            calls,
            workload,
            rng,
            window,
            under_way: VecDeque::with_capacity(window),
            latency: Latency::new(),
            user_bytes: 0,
            key: Vec::new(),
            keys: Vec::new(),
            value: Vec::new(),
        }
    }
}

impl Client for WindowedClient<'_> {
    fn call(&mut self, place: u64, count: u64) -> Result<()> {
        let num = self.shared.settings.records.num;
        match self.workload {
            Workload::FillSeq => self.put(place, 0),
            Workload::FillRandom => self.put(self.shared.order.at(place), 0),
            Workload::Overwrite => {
                let (index, version) = (self.rng.u64(..num), self.rng.u64(..));
                self.put(index, version)
            }
            Workload::UpdateAll => {
                let version = self.rng.u64(..);
                self.put(self.shared.order.at(place), version)
            }
            Workload::ReadAll if count > 1 => {
                let order = self.shared.order;
                self.multi_get(
                    (place..place + count)
                        .map(|place| order.at(place))
                        .collect(),
                )
            }
            Workload::ReadAll => self.get(self.shared.order.at(place)),
            Workload::MultiReadRandom => {
                let indexes = (0..count).map(|_| self.rng.u64(..num)).collect();
                self.multi_get(indexes)
            }
            Workload::UpdateRandom => self.update(num),
            Workload::SeekRandom => self.scan(num, self.shared.settings.seek_nexts),
            Workload::DeleteRandom => self.delete(num),
            Workload::ReadMissing => self.get_missing(num),
            Workload::ReadHot => {
                let index = self.rng.u64(..num.div_ceil(100));
                self.get(index)
            }
            _ => {
                let index = self.rng.u64(..num);
                self.get(index)
            }
        }
    }

    fn finish(&mut self) -> Result<()> {
        while !self.under_way.is_empty() {
            self.end_oldest()?;
        }
        match self.workload.writes() {
            true => self.calls.barrier(),
            false => Ok(()),
        }
    }

    fn latency(&mut self) -> Option<Latency> {
        Some(std::mem::replace(&mut self.latency, Latency::new()))
    }

    fn user_bytes(&self) -> u64 {
        self.user_bytes
    }
}

impl WindowedClient<'_> {
    fn put(&mut self, index: u64, version: u64) -> Result<()> {
        let records = &self.shared.records;
        records.key(index, &mut self.key);
        records.value(index, version, &mut self.value);
        self.user_bytes += (self.key.len() + self.value.len()) as u64;
        let began = Instant::now();
        let begun = self.calls.begin_write(&self.key, Some(&self.value))?;
        self.written(began, begun)
    }

    fn update(&mut self, num: u64) -> Result<()> {
        let (index, version) = (self.rng.u64(..num), self.rng.u64(..));
        let records = &self.shared.records;
        records.key(index, &mut self.key);
        records.value(index, version, &mut self.value);
        self.user_bytes += (self.key.len() + self.value.len()) as u64;
        let began = Instant::now();
        let rest = self.calls.begin_update(&self.key, &self.value);
        self.enter(began, Expected::ValueOf(index, 0), rest)
    }

    fn multi_get(&mut self, indexes: Vec<u64>) -> Result<()> {
        self.keys.resize_with(indexes.len(), Vec::new);
        for (key, index) in self.keys.iter_mut().zip(&indexes) {
            self.shared.records.key(*index, key);
        }
        let began = Instant::now();
        let rest = self.calls.begin_multi_get(&self.keys);
        self.enter(began, Expected::ValuesOf(indexes), rest)
    }

    /// Seeks to a present key, and takes as many steps as there are keys.
    fn scan(&mut self, num: u64, nexts: u64) -> Result<()> {
        let index = self.rng.u64(..num);
        self.shared.records.key(index, &mut self.key);
        let nexts = nexts.min(num - index - 1);
        let began = Instant::now();
        let rest = self.calls.begin_scan(&self.key, nexts as usize + 1);
        self.enter(began, Expected::ValueOf(index, nexts), rest)
    }

    fn delete(&mut self, num: u64) -> Result<()> {
        let index = self.rng.u64(..num);
        self.shared.records.key(index, &mut self.key);
        self.user_bytes += self.key.len() as u64;
        let began = Instant::now();
        let begun = self.calls.begin_write(&self.key, None)?;
        self.written(began, begun)
    }

    fn get(&mut self, index: u64) -> Result<()> {
        self.shared.records.key(index, &mut self.key);
        self.begin_get(Expected::ValueOf(index, 0))
    }

    fn get_missing(&mut self, num: u64) -> Result<()> {
        let index = self.rng.u64(..num);
        self.shared.records.missing_key(index, &mut self.key);
        self.begin_get(Expected::Missing(self.key.clone()))
    }
}

impl<'a> WindowedClient<'a> {
    fn written(&mut self, began: Instant, begun: Option<Begun<'a>>) -> Result<()> {
        match begun {
            Some(rest) => self.enter(began, Expected::Nothing, rest),
            None => {
                self.latency.record(began.elapsed());
                Ok(())
            }
        }
    }

    fn begin_get(&mut self, expected: Expected) -> Result<()> {
        let began = Instant::now();
        let rest = self.calls.begin_get(&self.key);
        self.enter(began, expected, rest)
    }

    fn enter(&mut self, began: Instant, expected: Expected, rest: Begun<'a>) -> Result<()> {
        self.under_way.push_back(UnderWay {
            began,
            expected,
            rest,
        });
        match self.under_way.len() < self.window {
            true => Ok(()),
            false => self.end_oldest(),
        }
    }

    /// Waits for the oldest call and checks its result.
    fn end_oldest(&mut self) -> Result<()> {
        let Some(UnderWay {
            began,
            expected,
            rest,
        }) = self.under_way.pop_front()
        else {
            return Ok(());
        };
        let records = &self.shared.records;
        let (mut seen, mut right) = (0, 0);
        rest(&mut |place, value| {
            seen += 1;
            let index = match &expected {
                Expected::ValueOf(index, _) => (place == 0).then_some(*index),
                Expected::ValuesOf(indexes) => indexes.get(place).copied(),
                Expected::Nothing | Expected::Missing(_) => None,
            };
            right += u64::from(index.is_some_and(|index| records.is_value(index, value)));
        })?;
        self.latency.record(began.elapsed());
        let (index, wanted, nexts) = match &expected {
            Expected::Nothing => return Ok(()),
            Expected::Missing(key) => return expect_missing(key, seen > 0),
            Expected::ValueOf(index, nexts) => (*index, 1, *nexts),
            Expected::ValuesOf(indexes) => (indexes[0], indexes.len() as u64, 0),
        };
        self.shared.expect(index, seen > 0, right == wanted)?;
        if seen != wanted + nexts {
            return Err(
                format!("expected {} values of a call, found {seen}", wanted + nexts).into(),
            );
        }
        Ok(())
    }
}
