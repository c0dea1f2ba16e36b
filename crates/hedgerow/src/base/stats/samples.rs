//! The statistics as samples for monitoring: a name, labels and a number each.

use std::fmt::Write;

use super::{DbStats, KeyspaceStats};

/// One number of the statistics.
struct Sample {
    name: &'static str,
    help: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl DbStats {
    /// The statistics in the text format of Prometheus, version 0.0.4. A name that ends with
    /// `_total` is a counter since the database was opened; every other one is a gauge. Sizes are
    /// in bytes, times in seconds.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use hedgerow::{Db, Layout};
    ///
    /// let db = Db::open(dir.path())?;
    /// db.keyspace("users", Layout::sorted())?.put("ada", "1815")?;
    /// let text = db.stats().prometheus();
    /// assert!(text.contains("# TYPE hedgerow_puts_total counter\nhedgerow_puts_total 1\n"));
    /// assert!(text.contains("hedgerow_keyspace_entries{keyspace=\"users\"} 1\n"));
    /// # Ok::<(), hedgerow::Error>(())
    /// ```
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        let mut last = "";
        for sample in self.samples() {
            let name = sample.name;
            if name != last {
                let kind = match name.ends_with("_total") {
                    true => "counter",
                    false => "gauge",
                };
                let help = sample.help;
                // Writing to a string cannot fail.
                let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
                last = name;
            }
            let label = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value));
            let labels: Vec<String> = sample.labels.iter().map(label).collect();
            let _ = match labels.is_empty() {
                true => writeln!(text, "{name} {}", sample.value),
                false => writeln!(text, "{name}{{{}}} {}", labels.join(","), sample.value),
            };
        }
        text
    }

    /// Gives the statistics to the recorder that the `metrics` crate has: counters by their value
    /// since the database was opened, times and everything else as gauges. The names are those of
    /// [`DbStats::prometheus`]. Call it as often as the recorder is to have new numbers. Only in a
    /// build with the feature `metrics`.
    #[cfg(feature = "metrics")]
    pub fn record(&self) {
        for sample in self.samples() {
            let (name, help, value) = (sample.name, sample.help, sample.value);
            let labels = sample.labels.into_iter();
            let labels: Vec<_> = labels
                .map(|(name, value)| metrics::Label::new(name, value))
                .collect();
            if name.ends_with("_total") && !name.ends_with("_seconds_total") {
                metrics::describe_counter!(name, help);
                metrics::counter!(name, labels).absolute(value as u64);
            } else {
                metrics::describe_gauge!(name, help);
                metrics::gauge!(name, labels).set(value);
            }
        }
    }

    /// All samples; those of one name follow one another.
    fn samples(&self) -> Vec<Sample> {
        let work = self.work().into_iter();
        let plain = work.map(|(name, help, value)| Sample {
            name,
            help,
            labels: Vec::new(),
            value: value as f64,
        });
        plain
            .chain(self.memory_and_stalls())
            .chain(keyspaces(&self.keyspaces))
            .chain(self.workers.iter().map(|worker| Sample {
                name: "hedgerow_worker_queue",
                help: "Calls that wait for a worker.",
                labels: vec![("worker", worker.index.to_string())],
                value: (worker.queued + worker.in_line) as f64,
            }))
            .collect()
    }

    /// The numbers without labels.
    #[rustfmt::skip]
    fn work(&self) -> [(&'static str, &'static str, u64); 23] {
        [
            ("hedgerow_puts_total", "Puts and entries of bulk loads.", self.puts),
            ("hedgerow_deletes_total", "Deletes.", self.deletes),
            ("hedgerow_gets_total", "Point lookups.", self.gets),
            ("hedgerow_get_hits_total", "Lookups that found a value.", self.get_hits),
            ("hedgerow_seeks_total", "Positionings of cursors.", self.seeks),
            ("hedgerow_nexts_total", "Steps of cursors.", self.nexts),
            ("hedgerow_user_bytes_total", "Bytes that users wrote.", self.user_bytes),
            ("hedgerow_log_bytes_total", "Bytes of log records.", self.log_bytes),
            ("hedgerow_log_syncs_total", "Syncs of the log.", self.log_syncs),
            ("hedgerow_flushes_total", "Flushes.", self.flushes),
            ("hedgerow_flush_bytes_total", "Bytes of flushed tables.", self.flush_bytes),
            ("hedgerow_merges_total", "Merges.", self.merges),
            ("hedgerow_merge_read_bytes_total", "Bytes merged.", self.merge_read_bytes),
            ("hedgerow_merge_write_bytes_total", "Bytes of merges.", self.merge_write_bytes),
            ("hedgerow_moves_total", "Moves of tables.", self.moves),
            ("hedgerow_block_reads_total", "Pages that reads requested.", self.block_reads),
            ("hedgerow_device_reads_total", "Reads of the device.", self.device_reads),
            ("hedgerow_filter_probes_total", "Filter probes.", self.filter_probes),
            ("hedgerow_filter_false_positives_total", "Wrong passes.", self.filter_false_positives),
            ("hedgerow_log_live_bytes", "Bytes that recovery needs.", self.log_live_bytes),
            ("hedgerow_snapshots", "Open snapshots.", self.snapshots as u64),
            ("hedgerow_panics_total", "Jobs that panicked.", self.panics as u64),
            ("hedgerow_memory_budget_bytes", "The memory budget.", self.memory.budget),
        ]
    }

    fn memory_and_stalls(&self) -> impl Iterator<Item = Sample> {
        let memory = &self.memory;
        let parts = [
            ("memtables", memory.memtables),
            ("page_cache", memory.page_cache),
            ("indexes", memory.indexes),
            ("filters", memory.filters),
            ("pinned", memory.pinned),
            ("merges", memory.merges),
            ("tables", memory.tables),
        ];
        let parts = parts.into_iter().map(|(part, bytes)| Sample {
            name: "hedgerow_memory_bytes",
            help: "Use of the memory budget.",
            labels: vec![("part", part.to_owned())],
            value: bytes as f64,
        });
        let reasons = ["memtables", "level0", "merge_debt", "log"];
        let stalls = reasons.into_iter().zip(self.stalls.by_reason());
        parts.chain(stalls.map(|(reason, stall)| Sample {
            name: "hedgerow_stall_seconds_total",
            help: "Time that writers waited.",
            labels: vec![("reason", reason.to_owned())],
            value: stall.total.as_secs_f64(),
        }))
    }
}

/// The numbers of keyspaces, and those of their levels.
fn keyspaces(keyspaces: &[KeyspaceStats]) -> Vec<Sample> {
    type Number = fn(&KeyspaceStats) -> u64;
    #[rustfmt::skip]
    let numbers: [(&str, &str, Number); 6] = [
        ("hedgerow_keyspace_entries", "Entries, old ones too.", |it| it.entries()),
        ("hedgerow_keyspace_table_bytes", "Bytes of tables.", |it| it.table_bytes()),
        ("hedgerow_keyspace_memtable_bytes", "Bytes of memtables.", |it| it.memtable_bytes),
        ("hedgerow_keyspace_memtable_tombstones", "In memory.", |it| it.memtable_tombstones),
        ("hedgerow_keyspace_debt_bytes", "Bytes that merges owe.", |it| it.debt_bytes),
        ("hedgerow_keyspace_skipped_total", "Entries that scans skipped.", |it| it.skipped),
    ];
    let mut samples = Vec::new();
    for (name, help, number) in numbers {
        samples.extend(keyspaces.iter().map(|keyspace| Sample {
            name,
            help,
            labels: vec![("keyspace", keyspace.name.clone())],
            value: number(keyspace) as f64,
        }));
    }
    for keyspace in keyspaces {
        samples.extend(keyspace.levels.iter().map(|level| Sample {
            name: "hedgerow_level_bytes",
            help: "Bytes of the tables of a level.",
            labels: vec![
                ("keyspace", keyspace.name.clone()),
                ("level", level.level.to_string()),
            ],
            value: level.bytes as f64,
        }));
    }
    samples
}

/// The value of a label between its quotation marks.
fn escaped(value: &str) -> String {
    let value = value.replace('\\', r"\\");
    value.replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each name is described once, before its samples. Names of keyspaces are any text.
    #[test]
    fn every_sample_has_a_description_and_its_labels_are_escaped() {
        let keyspace = |name: &str| KeyspaceStats {
            name: name.to_owned(),
            skipped: 7,
            ..KeyspaceStats::default()
        };
        let stats = DbStats {
            keyspaces: vec![keyspace("a"), keyspace("\"\\\n")],
            ..DbStats::default()
        };
        let text = stats.prometheus();
        let mut described = std::collections::BTreeSet::new();
        let mut name = "";
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(rest) => {
                    name = rest.split(' ').next().unwrap_or_default();
                    assert!(described.insert(name), "{name} is described twice");
                }
                None if line.starts_with('#') => {}
                None => assert!(line.starts_with(name), "{line} behind {name}"),
            }
        }
        assert!(described.len() > 30);
        let skipped = r#"hedgerow_keyspace_skipped_total{keyspace="\"\\\n"} 7"#;
        assert!(text.lines().any(|line| line == skipped), "{text}");
    }

    #[cfg(feature = "metrics")]
    mod recorded {
        use std::sync::atomic::{AtomicU64, Ordering};
        use std::sync::{Arc, Mutex};

        use metrics::{
            Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
        };

        use super::*;

        type Recorded = Vec<(String, Arc<AtomicU64>)>;

        /// Keeps each metric under its name and labels.
        #[derive(Default)]
        struct Kept(Mutex<Recorded>);

        impl Kept {
            fn cell(&self, key: &Key) -> Arc<AtomicU64> {
                let labels = key.labels().map(|label| format!(" {}", label.value()));
                let name = key.name().to_owned() + &labels.collect::<String>();
                let cell = Arc::new(AtomicU64::new(0));
                self.0.lock().unwrap().push((name, cell.clone()));
                cell
            }
        }

        impl Recorder for Kept {
            fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
                Counter::from_arc(self.cell(key))
            }
            fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
                Gauge::from_arc(self.cell(key))
            }
            fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
                Histogram::noop()
            }
        }

        #[test]
        fn the_recorder_gets_counters_and_gauges() {
            let stats = DbStats {
                puts: 12,
                keyspaces: vec![KeyspaceStats {
                    name: "users".to_owned(),
                    memtable_bytes: 3,
                    ..KeyspaceStats::default()
                }],
                ..DbStats::default()
            };
            let kept = Kept::default();
            metrics::with_local_recorder(&kept, || stats.record());
            let kept = kept.0.into_inner().unwrap();
            let of = |name: &str| {
                let found = kept.iter().find(|(kept, _)| kept == name);
                found.map(|(_, cell)| cell.load(Ordering::Relaxed))
            };
            assert_eq!(of("hedgerow_puts_total"), Some(12));
            let bytes = of("hedgerow_keyspace_memtable_bytes users");
            assert_eq!(bytes.map(f64::from_bits), Some(3.0));
        }
    }
}
