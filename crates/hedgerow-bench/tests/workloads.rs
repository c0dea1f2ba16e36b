//! Every workload in a small size, on Hedgerow and on faulty stores.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::{Compression, Design, Layout};
use hedgerow_bench::{
    Counters, Description, HedgerowStore, Open, OpenOptions, Part, RecordShape, Result, Session,
    Settings, Store, Workload,
};
use serde_json::{Value, json};

const NUM: u64 = 3000;

fn settings() -> Settings {
    Settings {
        records: RecordShape {
            num: NUM,
            key_bytes: 16,
            value_bytes: 100,
            group_size: 1,
            seed: 42,
        },
        reads: Some(1500),
        part: Part::WHOLE,
        threads: 2,
        batch_size: None,
        window: None,
        seek_nexts: 10,
        mix: Settings::MIX_EVEN,
    }
}

fn options(dir: &Path) -> OpenOptions {
    OpenOptions {
        memory_budget: 8 << 20,
        design: Design {
            compression: Compression::None,
            memtable_bytes: Some(128 << 10),
            table_bytes: Some(64 << 10),
            ..Design::default()
        },
        layout: Layout::sorted().merge_operator("add_i64"),
        ..OpenOptions::new(dir, &settings())
    }
}

fn hedgerow() -> Open {
    Box::new(|options| Ok(Box::new(HedgerowStore::open(options)?)))
}

/// Runs workloads on a new store and returns their results.
fn run(open: Open, settings: Settings, workloads: &[Workload]) -> Result<Vec<Value>> {
    let dir = tempfile::tempdir()?;
    let mut session = Session::new(open, options(dir.path()), settings)?;
    workloads
        .iter()
        .map(|workload| session.run(*workload, &|_| ()))
        .collect()
}

#[test]
fn every_workload_runs_and_counts_what_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(hedgerow(), options(dir.path()), settings()).unwrap();
    for workload in Workload::ALL {
        let advanced = AtomicU64::new(0);
        let result = session.run(workload, &|ops| {
            advanced.fetch_add(ops, Ordering::Relaxed);
        });
        let result = result.unwrap_or_else(|error| panic!("{workload}: {error}"));
        let ops = workload.ops(&settings());
        assert_eq!(result["workload"], workload.name());
        assert_eq!(result["ops"], ops, "{workload}");
        assert_eq!(advanced.into_inner(), ops, "{workload}");
        assert_eq!(result["threads"], 2);
        assert!(result["seconds"].as_f64().unwrap() > 0.0);
        if workload.loads() {
            let record = if workload == Workload::YcsbLoad {
                1000
            } else {
                116
            };
            let user_bytes = result["user_bytes"].as_u64().unwrap();
            assert!(
                (NUM * record..NUM * (record + 24)).contains(&user_bytes),
                "{result}"
            );
            // Every entry was flushed once and is in the log.
            assert!(
                result["flush_bytes"].as_u64().unwrap() > user_bytes / 2,
                "{result}"
            );
            assert!(
                result["log_bytes"].as_u64().unwrap() > user_bytes,
                "{result}"
            );
            assert!(
                result["write_amplification"].as_f64().unwrap() > 0.9,
                "{result}"
            );
        }
    }
}

/// `docs/benchmarks.md` names them; programs that read results rely on them.
const FIELDS: &str = "workload store version threads ops seconds ops_per_second latency_us level_bytes \
    background_ops user_bytes log_bytes flush_bytes merge_read_bytes merge_write_bytes filter_write_bytes \
    write_amplification space_amplification table_bytes block_reads device_reads entries_written filter_probes \
    filter_false_positives memtable_hits hits_by_level storage_read_bytes storage_write_bytes \
    stall_seconds stalls queue activities cpu_seconds settle_seconds settle_cpu_seconds memory settings";
const SETTINGS: &str = "auto num reads key_size value_size group_size threads batch_size seek_nexts seed \
    sync memory_budget keyspace order partitions policy table index filter residency io compression \
    memtable_size table_size window workers worker_queue";
const MEMORY: &str = "memtables page_cache indexes filters pinned merges tables resident";
/// Fields that are null on some systems, or for a workload without writes or asynchronous calls.
const NULLABLE: [&str; 4] = [
    "queue",
    "write_amplification",
    "storage_read_bytes",
    "storage_write_bytes",
];

fn sorted(names: &str) -> Vec<String> {
    let mut names: Vec<_> = names.split_whitespace().map(str::to_owned).collect();
    names.sort();
    names
}

fn names(value: &Value) -> Vec<String> {
    value.as_object().unwrap().keys().cloned().collect()
}

/// The commit that is checked out. `None` outside of a checkout: a package has no build script.
fn head() -> Option<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !dir.join("build.rs").exists() {
        return None;
    }
    let mut git = Command::new("git");
    let output = git.args(["rev-parse", "HEAD"]).current_dir(dir).output();
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_result_names_the_commit_of_its_build() {
    let results = run(hedgerow(), settings(), &[Workload::FillRandom]).unwrap();
    let Some(head) = head() else {
        assert_eq!(results[0].get("commit"), None);
        return;
    };
    let commit = results[0]["commit"].as_str().unwrap();
    let hash = commit.strip_suffix("-dirty").unwrap_or(commit);
    assert!(hash.len() >= 7 && head.starts_with(hash), "{commit}");
}

#[test]
fn a_result_has_every_field() {
    let workloads = [
        Workload::FillRandom,
        Workload::ReadRandom,
        Workload::SeekRandom,
    ];
    for result in run(hedgerow(), settings(), &workloads).unwrap() {
        let mut found = names(&result);
        found.retain(|name| name != "commit");
        assert_eq!(found, sorted(FIELDS));
        assert_eq!(
            names(&result["latency_us"]),
            sorted("p50 p95 p99 p999 p9999 max max_stolen")
        );
        assert_eq!(names(&result["settings"]), sorted(SETTINGS));
        assert_eq!(names(&result["memory"]), sorted(MEMORY));
        for (name, value) in result.as_object().unwrap() {
            assert!(
                !value.is_null() || NULLABLE.contains(&name.as_str()),
                "{name}"
            );
        }
    }
}

#[test]
fn reads_are_counted_where_they_end() {
    let workloads = [
        Workload::FillRandom,
        Workload::ReadRandom,
        Workload::ReadMissing,
    ];
    let results = run(hedgerow(), settings(), &workloads).unwrap();
    let count = |result: &Value, name: &str| result[name].as_u64().unwrap();
    let [fill, random, missing] = &results[..] else {
        panic!("expected three results")
    };
    // A settled store answers from its tables.
    let hits = random["hits_by_level"].as_array().unwrap().iter();
    assert_eq!(
        hits.filter_map(Value::as_u64).sum::<u64>(),
        1500,
        "{random}"
    );
    assert_eq!(random["memtable_hits"], 0);
    assert_eq!(
        (count(random, "user_bytes"), count(random, "flush_bytes")),
        (0, 0)
    );
    assert!(count(random, "block_reads") >= 1500, "{random}");
    // Absent keys lie between present ones, few of them between two tables. So filters are probed
    // and rarely wrong.
    assert!(count(missing, "filter_probes") > 1400, "{missing}");
    assert!(count(missing, "filter_false_positives") < 60, "{missing}");
    assert_eq!(count(fill, "user_bytes"), NUM * 116);
}

#[test]
fn batches_and_groups_write_the_same_number_of_keys() {
    for (batch_size, group_size) in [(None, 1), (Some(7), 1), (Some(100), 25)] {
        let records = RecordShape {
            key_bytes: 24,
            group_size,
            ..settings().records
        };
        let settings = Settings {
            records,
            batch_size,
            ..settings()
        };
        let workloads = [
            Workload::FillRandom,
            Workload::SeekRandom,
            Workload::PrefixScan,
            Workload::MultiReadRandom,
        ];
        let results = run(hedgerow(), settings, &workloads).unwrap();
        assert_eq!(results[0]["user_bytes"], NUM * 124);
        assert_eq!(
            results[0]["settings"]["batch_size"],
            batch_size.unwrap_or(1)
        );
    }
}

#[test]
fn a_store_that_is_not_empty_is_not_filled() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = Session::new(hedgerow(), options(dir.path()), settings()).unwrap();
    first.run(Workload::FillSeq, &|_| ()).unwrap();
    // The session that filled the store may empty it.
    first.run(Workload::FillRandom, &|_| ()).unwrap();
    first.run(Workload::ReadRandom, &|_| ()).unwrap();
    drop(first);
    let mut second = Session::new(hedgerow(), options(dir.path()), settings()).unwrap();
    second.run(Workload::ReadRandom, &|_| ()).unwrap();
    let error = second
        .run(Workload::FillSeq, &|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("expected an empty store for fillseq, found the key `"),
        "{error}"
    );
    second.run(Workload::ReadRandom, &|_| ()).unwrap();
}

#[test]
fn reading_with_another_seed_fails() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = Session::new(hedgerow(), options(dir.path()), settings()).unwrap();
    session.run(Workload::FillSeq, &|_| ()).unwrap();
    drop(session);
    let records = RecordShape {
        seed: 43,
        ..settings().records
    };
    let other = Settings {
        records,
        ..settings()
    };
    let mut session = Session::new(hedgerow(), options(dir.path()), other).unwrap();
    let error = session
        .run(Workload::ReadRandom, &|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("found nothing") && error.contains("seed"),
        "{error}"
    );
}

#[test]
fn settings_out_of_bounds_are_refused() {
    for (settings, expected) in [
        (
            Settings {
                threads: 0,
                ..settings()
            },
            "expected 1 to 1024 threads, found 0",
        ),
        (
            Settings {
                batch_size: Some(0),
                ..settings()
            },
            "expected 1 to 1048576 entries per batch",
        ),
        (
            Settings {
                reads: Some(0),
                ..settings()
            },
            "operations that read, found 0",
        ),
    ] {
        let error = run(hedgerow(), settings, &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn names_are_read_as_they_are_printed() {
    for workload in Workload::ALL {
        assert_eq!(workload.to_string().parse::<Workload>().unwrap(), workload);
    }
    let error = "fillrandm".parse::<Workload>().unwrap_err().to_string();
    assert!(
        error.contains("one of fillseq, fillrandom") && error.contains("`fillrandm`"),
        "{error}"
    );
}

/// The fault of a store.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lie {
    Nothing,
    /// Forgets each fourth key that is put.
    Forgets,
    /// Flips a bit in each fourth value.
    Flips,
    /// Returns a value for every key.
    Invents,
    /// Leaves out the second entry of a scan.
    Skips,
    /// Refuses each fourth write.
    Fails,
}

struct Liar {
    lie: Lie,
    map: RwLock<BTreeMap<Vec<u8>, Vec<u8>>>,
    calls: AtomicU64,
}

impl Liar {
    fn open(lie: Lie) -> Open {
        Box::new(move |_| {
            Ok(Box::new(Liar {
                lie,
                map: RwLock::default(),
                calls: AtomicU64::new(0),
            }))
        })
    }

    fn lies(&self, lie: Lie) -> bool {
        self.lie == lie && self.calls.fetch_add(1, Ordering::Relaxed) % 4 == 3
    }

    fn shown(&self, value: &[u8]) -> Vec<u8> {
        let mut value = value.to_vec();
        if self.lies(Lie::Flips) {
            let middle = value.len() / 2;
            value[middle] ^= 1;
        }
        value
    }
}

impl Store for Liar {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.lies(Lie::Fails) {
            return Err("the disk is on fire".into());
        }
        if !self.lies(Lie::Forgets) {
            self.map
                .write()
                .unwrap()
                .insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.map.write().unwrap().remove(key);
        Ok(())
    }

    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        entries
            .iter()
            .try_for_each(|(key, value)| self.put(key, value))
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let map = self.map.read().unwrap();
        if let Some(value) = map.get(key) {
            found(&self.shown(value));
        }
        Ok(map.contains_key(key) || self.lie == Lie::Invents)
    }

    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let map = self.map.read().unwrap();
        for (i, (key, value)) in map.range(from.to_vec()..).take(limit).enumerate() {
            if i != 1 || !self.lies(Lie::Skips) {
                found(key, &self.shown(value));
            }
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }

    fn describe(&self) -> Description {
        Description {
            name: "liar".to_owned(),
            version: "1".to_owned(),
            settings: json!({ "compression": "whatever" }),
        }
    }
}

#[test]
fn a_store_that_counts_nothing_is_measured_all_the_same() {
    let results = run(Liar::open(Lie::Nothing), settings(), &Workload::ALL).unwrap();
    for result in results {
        let unknown = [
            "log_bytes",
            "write_amplification",
            "hits_by_level",
            "stall_seconds",
        ];
        assert!(
            unknown.iter().all(|name| result[name].is_null()),
            "{result}"
        );
        // The store's own description replaces the requested options.
        assert_eq!(result["settings"]["compression"], "whatever");
        assert_eq!(result["settings"]["filter"], "monkey");
    }
}

#[test]
fn every_lie_is_noticed() {
    use Workload::{
        FillRandom, MultiReadRandom, PrefixScan, ReadHot, ReadMissing, ReadRandom,
        ReadWhileWriting, SeekRandom, YcsbA, YcsbC, YcsbD, YcsbE, YcsbF, YcsbLoad,
    };
    let hits = [
        ReadRandom,
        ReadHot,
        MultiReadRandom,
        SeekRandom,
        PrefixScan,
        ReadWhileWriting,
    ];
    let records = [YcsbA, YcsbC, YcsbD, YcsbE, YcsbF];
    for lie in [Lie::Forgets, Lie::Flips] {
        let of_db_bench = hits.map(|workload| (FillRandom, workload));
        let of_ycsb = records.map(|workload| (YcsbLoad, workload));
        for (fill, workload) in of_db_bench.into_iter().chain(of_ycsb) {
            // Writers would restore the forgotten keys.
            let settings = Settings {
                reads: Some(6000),
                ..settings()
            };
            let error = run(Liar::open(lie), settings, &[fill, workload]);
            let error = error
                .expect_err(&format!("{workload}, {lie:?}"))
                .to_string();
            assert!(
                error.starts_with("expected the "),
                "{workload}, {lie:?}: {error}"
            );
        }
    }
    let invents = run(
        Liar::open(Lie::Invents),
        settings(),
        &[FillRandom, ReadMissing],
    );
    assert!(
        invents
            .unwrap_err()
            .to_string()
            .starts_with("expected nothing, found a value")
    );
    let skips = run(
        Liar::open(Lie::Skips),
        settings(),
        &[FillRandom, SeekRandom],
    );
    assert!(
        skips
            .unwrap_err()
            .to_string()
            .starts_with("expected 11 entries from a seek, found 10")
    );
    let fails = run(Liar::open(Lie::Fails), settings(), &[FillRandom]);
    assert_eq!(fails.unwrap_err().to_string(), "the disk is on fire");
}

#[test]
fn asynchronous_calls_do_the_same() {
    for (workers, sync) in [(0, false), (2, false), (2, true)] {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions {
            workers,
            worker_queue: Some(8),
            sync,
            layout: Layout::sorted().hash(3),
            ..options(dir.path())
        };
        let settings = Settings {
            window: Some(5),
            ..settings()
        };
        let mut session = Session::new(hedgerow(), options, settings).unwrap();
        for workload in [
            Workload::FillRandom,
            Workload::ReadRandom,
            Workload::ReadMissing,
            Workload::Overwrite,
            Workload::ReadHot,
            Workload::MultiReadRandom,
            Workload::SeekRandom,
            Workload::UpdateRandom,
            Workload::FillSeq,
            Workload::ReadRandom,
            Workload::DeleteRandom,
        ] {
            let result = session.run(workload, &|_| ()).unwrap();
            let ops = workload.ops(&settings);
            assert_eq!(result["ops"], ops, "{workload}");
            assert_eq!(result["settings"]["workers"], workers);
            assert_eq!(result["settings"]["window"], 5);
            // The caller may answer a get itself, and several keys are one task of a worker.
            if ![
                Workload::ReadRandom,
                Workload::ReadMissing,
                Workload::ReadHot,
                Workload::MultiReadRandom,
            ]
            .contains(&workload)
            {
                let calls = result["queue"]["calls"].as_f64().unwrap();
                // A batch is counted at its end, and the last one may hold the barrier.
                assert!(calls >= ops as f64 / 2.0, "{workload}: {result}");
            }
        }
        // Gets of deleted keys are misses.
        let error = session.run(Workload::ReadRandom, &|_| ()).unwrap_err();
        assert!(error.to_string().contains("found nothing"), "{error}");
    }
}

#[test]
fn calls_that_cannot_be_asynchronous_are_refused() {
    let settings = Settings {
        window: Some(4),
        ..settings()
    };
    let refused = |settings, workload| {
        let error = run(hedgerow(), settings, &[Workload::FillRandom, workload]);
        error.unwrap_err().to_string()
    };
    let error = refused(settings, Workload::Mixed);
    assert!(error.contains("found mixed"), "{error}");
    let batches = Settings {
        batch_size: Some(8),
        ..settings
    };
    let error = refused(batches, Workload::Overwrite);
    assert!(error.contains("of 8 per call"), "{error}");
    let none = Settings {
        window: Some(0),
        ..settings
    };
    assert!(refused(none, Workload::ReadRandom).contains("found 0"));
}
