//! One thread that makes asynchronous calls, several of which are under way at once.
//!
//! Gets, and writes that are synced, are in a window: when it is full, the oldest is waited for. Other
//! writes are given away, and a barrier ends them. The time of a call in the window is that from its
//! beginning until its result is taken; of a write that is given away, until it is in a queue.
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
/// A store that has none, and a workload of other calls or of batches.
pub(crate) fn check<'a>(
    store: &'a dyn Store,
    workload: Workload,
    settings: &Settings,
) -> Result<&'a dyn Asynchronous> {
    if !workload.may_be_asynchronous() || workload.ops_per_call(settings) > 1 {
        return Err(invalid(format!(
            "expected single gets, puts or deletes as asynchronous calls, found {workload} of {} per call",
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
    // Kept, so that they are not allocated again.
    key: Vec<u8>,
    value: Vec<u8>,
}

struct UnderWay<'a> {
    began: Instant,
    expected: Expected,
    rest: Begun<'a>,
}

/// What a call is to find.
enum Expected {
    /// It is a write.
    Nothing,
    /// A value of the key with this index.
    ValueOf(u64),
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
            value: Vec::new(),
        }
    }
}

impl Client for WindowedClient<'_> {
    fn call(&mut self, place: u64, _count: u64) -> Result<()> {
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
            Workload::ReadAll => self.get(self.shared.order.at(place)),
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
        self.begin_get(Expected::ValueOf(index))
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

    /// Waits for the call that was begun first, and checks what it found.
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
        let mut right = false;
        let found = rest(&mut |value| {
            right = matches!(expected, Expected::ValueOf(index) if records.is_value(index, value));
        })?;
        self.latency.record(began.elapsed());
        match expected {
            Expected::Nothing => Ok(()),
            Expected::ValueOf(index) => self.shared.expect(index, found, right),
            Expected::Missing(key) => expect_missing(&key, found),
        }
    }
}
