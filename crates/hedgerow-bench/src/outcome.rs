//! The result of a workload as one object.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::commit::add_commit;
use crate::process;
use crate::store::{Counters, Description, Store};
use crate::threads::Done;
use crate::workload::Workload;

/// The counters of the store and of the process at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    counters: Counters,
    storage: Option<(u64, u64)>,
}

impl Moment {
    pub(crate) fn now(store: &dyn Store) -> Moment {
        Moment {
            counters: store.counters(),
            storage: process::storage_bytes(),
        }
    }
}

/// All facts about a workload that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Findings {
    pub(crate) workload: Workload,
    pub(crate) threads: usize,
    pub(crate) done: Done,
    pub(crate) cpu_seconds: f64,
    pub(crate) settle_seconds: f64,
    pub(crate) settle_cpu_seconds: f64,
    /// The counters when the workload began, when its threads had ended, and when the store had
    /// settled.
    pub(crate) before: Moment,
    pub(crate) ended: Moment,
    pub(crate) after: Moment,
    pub(crate) store: Description,
    /// The settings of the workload.
    pub(crate) settings: Map<String, Value>,
}

impl Findings {
    /// The object to print; `docs/benchmarks.md` describes each field.
    pub(crate) fn to_json(&self) -> Value {
        let (done, after) = (&self.done, &self.after.counters);
        let flush_bytes = self.grown(|c| c.flush_bytes);
        let merge_write_bytes = self.grown(|c| c.merge_write_bytes);
        let written = flush_bytes.zip(merge_write_bytes).map(|(f, m)| f + m);
        let stalled = self
            .before
            .counters
            .stalled
            .zip(self.ended.counters.stalled);
        let storage = self.before.storage.zip(self.after.storage);
        let mut result = json!({
            "workload": self.workload.name(),
            "store": self.store.name,
            "version": self.store.version,
            "threads": self.threads,
            "ops": done.ops,
            "seconds": done.seconds,
            "ops_per_second": over(done.ops as f64, done.seconds).unwrap_or(0.0).round(),
            "latency_us": done.latency.to_json(),
            "background_ops": done.background_ops,
            "user_bytes": done.user_bytes,
            "log_bytes": self.grown(|c| c.log_bytes),
            "flush_bytes": flush_bytes,
            "merge_read_bytes": self.grown(|c| c.merge_read_bytes),
            "merge_write_bytes": merge_write_bytes,
            "filter_write_bytes": self.grown(|c| c.filter_write_bytes),
            "entries_written": self.grown(|c| c.entries_written),
            "write_amplification": written.and_then(|w| over(w as f64, done.user_bytes as f64)),
            "space_amplification": after.space_amplification,
            "table_bytes": after.table_bytes,
            "level_bytes": after.level_bytes,
            "block_reads": self.grown(|c| c.block_reads),
            "device_reads": self.grown(|c| c.device_reads),
            "filter_probes": self.grown(|c| c.filter_probes),
            "filter_false_positives": self.grown(|c| c.filter_false_positives),
            "memtable_hits": self.grown(|c| c.memtable_hits),
            "hits_by_level": self.hits_by_level(),
            "storage_read_bytes": storage.map(|(before, after)| after.0 - before.0),
            "storage_write_bytes": storage.map(|(before, after)| after.1 - before.1),
            "stalls": self.ended.counters.stalls.zip(self.before.counters.stalls).map(|(e, b)| e - b),
            "stall_seconds": stalled.map(|(b, e)| e.saturating_sub(b).as_secs_f64()),
            "queue": self.queue(),
            "cpu_seconds": self.cpu_seconds,
            "activities": self.activities(),
            "settle_seconds": self.settle_seconds,
            "settle_cpu_seconds": self.settle_cpu_seconds,
            "memory": self.memory(),
            "settings": self.store.over(self.settings.clone()),
        });
        add_commit(&mut result);
        result
    }

    fn grown(&self, counter: impl Fn(&Counters) -> Option<u64>) -> Option<u64> {
        let (before, after) = (&self.before.counters, &self.after.counters);
        Some(counter(after)?.saturating_sub(counter(before)?))
    }

    /// Processor seconds of flushes, of merges, and of everything else, until the store had
    /// settled.
    fn activities(&self) -> Option<Value> {
        let took = |of: fn(&Counters) -> Option<Duration>| {
            let (before, after) = (of(&self.before.counters)?, of(&self.after.counters)?);
            Some(after.saturating_sub(before).as_secs_f64())
        };
        let (flush, merge) = (took(|c| c.flush_cpu)?, took(|c| c.merge_cpu)?);
        let all = self.cpu_seconds + self.settle_cpu_seconds;
        let foreground = (all - flush - merge).max(0.0);
        Some(json!({ "foreground": foreground, "flush": flush, "merge": merge }))
    }

    /// The counters of queues; `None` if no call went through a queue.
    fn queue(&self) -> Option<Value> {
        let (before, after) = (self.before.counters.queue?, self.ended.counters.queue?);
        let calls = (after.calls - before.calls) as f64;
        let waited = (after.waited.saturating_sub(before.waited)).as_secs_f64();
        Some(json!({
            "calls": calls,
            "calls_per_batch": over(calls, (after.batches - before.batches) as f64)?,
            "wait_us": over(waited * 1e6, calls)?,
        }))
    }

    fn hits_by_level(&self) -> Option<Vec<u64>> {
        let before = self.before.counters.hits_by_level.as_ref()?;
        let after = self.after.counters.hits_by_level.as_ref()?;
        let hits = after.iter().zip(before.iter().chain(std::iter::repeat(&0)));
        Some(
            hits.map(|(after, before)| after.saturating_sub(*before))
                .collect(),
        )
    }

    fn memory(&self) -> Value {
        let parts = self.after.counters.memory.iter();
        let mut memory: Map<_, _> = parts
            .map(|(p, bytes)| (p.to_string(), json!(bytes)))
            .collect();
        memory.insert("resident".to_owned(), json!(process::resident_bytes()));
        Value::Object(memory)
    }
}

fn over(a: f64, b: f64) -> Option<f64> {
    (b > 0.0).then_some(a / b)
}
