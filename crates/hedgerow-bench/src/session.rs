//! Runs workloads one after another on one store.
#![allow(
    clippy::disallowed_methods,
    reason = "a bench measures the time of the machine"
)]

use std::time::Instant;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::commit::add_commit;
use crate::db_bench::DbBench;
use crate::outcome::{Findings, Moment};
use crate::permutation::mix;
use crate::process;
use crate::records::Records;
use crate::store::{Description, OpenOptions, Result, Store, invalid};
use crate::threads::{Client, Done, Work};
use crate::windowed;
use crate::workload::{Settings, Workload};
use crate::ycsb::Ycsb;

/// The function with which a [`Session`] opens a store of an engine.
pub type Open = Box<dyn Fn(&OpenOptions) -> Result<Box<dyn Store>>>;

/// The cost of reopening a store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Opened {
    /// True if the system dropped its cache of files.
    pub page_cache_dropped: bool,
    /// The time until the store was open.
    pub seconds: f64,
    /// The bytes that the storage layer read for it, if the system counts them.
    pub read_bytes: Option<u64>,
}

/// A store, and the workloads run on it so far.
pub struct Session {
    open: Open,
    options: OpenOptions,
    settings: Settings,
    store: Option<Box<dyn Store>>,
    /// The store as it was opened first, for results of workloads that have failed.
    described: Description,
    /// True if this session wrote everything in the store.
    loaded: bool,
    /// The number of workloads run; a repeated workload draws other keys.
    rounds: u64,
}

impl Session {
    /// Opens the store.
    ///
    /// # Errors
    /// Settings out of bounds; an error of opening.
    pub fn new(open: Open, options: OpenOptions, settings: Settings) -> Result<Session> {
        settings.check()?;
        Records::check(settings.records)?;
        let store = open(&options)?;
        Ok(Session {
            open,
            options,
            settings,
            described: store.describe(),
            store: Some(store),
            loaded: false,
            rounds: 0,
        })
    }

    /// Sets the settings of the next workloads, with the same records.
    ///
    /// # Errors
    /// Settings out of bounds.
    pub fn change(&mut self, change: impl FnOnce(&mut Settings)) -> Result<()> {
        let mut settings = self.settings;
        change(&mut settings);
        settings.records = self.settings.records;
        settings.check()?;
        self.settings = settings;
        Ok(())
    }

    /// Closes the store, makes the system drop its cache of files, and reopens the store.
    ///
    /// # Errors
    /// An error of opening.
    pub fn cool(&mut self) -> Result<Opened> {
        self.store = None;
        let page_cache_dropped = process::drop_page_cache();
        let (began, before) = (Instant::now(), process::storage_bytes());
        self.store = Some((self.open)(&self.options)?);
        let read = before.zip(process::storage_bytes());
        Ok(Opened {
            page_cache_dropped,
            seconds: began.elapsed().as_secs_f64(),
            read_bytes: read.map(|(before, after)| after.0 - before.0),
        })
    }

    /// Runs a workload, and waits until the store has settled if it writes. The threads call
    /// `advanced` with the number of operations done since the last call. The result is one object.
    ///
    /// # Errors
    /// A workload that loads needs an empty store, or one that this session has filled; others need
    /// the keys that they read. An error of the store.
    pub fn run(&mut self, workload: Workload, advanced: &(dyn Fn(u64) + Sync)) -> Result<Value> {
        let begins = workload.loads() && self.settings.part.index == 0;
        if begins && self.loaded {
            // Closes the store before it is reopened.
            self.store = None;
            self.store = Some((self.open)(&OpenOptions {
                fresh: true,
                ..self.options.clone()
            })?);
        }
        let Some(store) = self.store.as_deref() else {
            return Err("expected an open store, found one that could not be opened again".into());
        };
        if begins {
            expect_empty(store, workload)?;
            self.loaded = true;
        }
        self.rounds += 1;
        let seed = mix(self.settings.records.seed ^ mix(self.rounds));
        Ok(self.measure(store, workload, seed, advanced)?.to_json())
    }

    /// The result of a workload that has failed: an object with the reason as its `error`, and
    /// without measurements.
    pub fn failed(&self, workload: Workload, error: &str) -> Value {
        let mut result = json!({
            "workload": workload.name(),
            "store": self.described.name,
            "version": self.described.version,
            "threads": self.settings.threads,
            "error": error,
            "settings": self.described.over(self.describe(workload)),
        });
        add_commit(&mut result);
        result
    }

    fn measure(
        &self,
        store: &dyn Store,
        workload: Workload,
        seed: u64,
        advanced: &(dyn Fn(u64) + Sync),
    ) -> Result<Findings> {
        let before = Moment::now(store);
        let cpu_before = process::cpu_time();
        let done = self.run_threads(store, workload, seed, advanced)?;
        let cpu_ended = process::cpu_time();
        let ended = Moment::now(store);
        let began = Instant::now();
        if workload.writes() {
            store.settle()?;
        }
        Ok(Findings {
            workload,
            threads: self.settings.threads,
            done,
            cpu_seconds: (cpu_ended - cpu_before).as_secs_f64(),
            settle_seconds: began.elapsed().as_secs_f64(),
            settle_cpu_seconds: (process::cpu_time() - cpu_ended).as_secs_f64(),
            before,
            ended,
            after: Moment::now(store),
            store: store.describe(),
            settings: self.describe(workload),
        })
    }

    fn run_threads(
        &self,
        store: &dyn Store,
        workload: Workload,
        seed: u64,
        advanced: &(dyn Fn(u64) + Sync),
    ) -> Result<Done> {
        let rng = |thread: usize| Rng::with_seed(mix(seed ^ thread as u64));
        let threads = self.settings.threads;
        let work = |clients, background| Work {
            clients,
            background,
            places: workload.places(&self.settings),
            ops_per_call: workload.ops_per_call(&self.settings),
            advanced,
        };
        if let Some(window) = self.settings.window {
            let calls = windowed::check(store, workload, &self.settings)?;
            let db_bench = DbBench::new(store, &self.settings)?;
            let client = |i| {
                Box::new(db_bench.windowed_client(calls, workload, rng(i), window))
                    as Box<dyn Client + '_>
            };
            return work((0..threads).map(client).collect(), None).run();
        }
        if workload.is_ycsb() {
            let ycsb = Ycsb::new(store, workload, &self.settings);
            let client = |i| Box::new(ycsb.client(rng(i))) as Box<dyn Client + '_>;
            return work((0..threads).map(client).collect(), None).run();
        }
        let db_bench = DbBench::new(store, &self.settings)?;
        let client =
            |workload, i| Box::new(db_bench.client(workload, rng(i))) as Box<dyn Client + '_>;
        let writer =
            (workload == Workload::ReadWhileWriting).then(|| client(Workload::Overwrite, threads));
        work((0..threads).map(|i| client(workload, i)).collect(), writer).run()
    }

    fn describe(&self, workload: Workload) -> Map<String, Value> {
        let mut settings = self.settings.to_json(workload);
        settings.extend(self.options.to_json());
        settings
    }
}

fn expect_empty(store: &dyn Store, workload: Workload) -> Result<()> {
    match store.any_key()? {
        None => Ok(()),
        Some(key) => Err(invalid(format!(
            "expected an empty store for {workload}, found the key `{}`: name another directory or \
             keyspace",
            key.escape_ascii()
        ))),
    }
}
