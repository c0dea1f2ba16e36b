//! The experiments of the papers, in small sizes.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::collections::BTreeSet;

use hedgerow::advisor::Device;
use hedgerow::io::ReadMode;
use hedgerow_bench::Result;
use hedgerow_bench::report::page;
use hedgerow_papers::experiments::{Paper, Runner, Size, autumn, ours, summary};
use serde_json::Value;

const SIZE: Size = Size {
    scale: 0.005,
    reads: Some(200),
    seed: 1,
    read_mode: ReadMode::Pread,
};

/// The scale for trees with thousands of memtables at scale 1.
const SMALL: Size = Size {
    scale: 0.001,
    ..SIZE
};

/// The rows of Hedgerow in an experiment of Autumn, for the trials with `only` in their label.
fn rows(size: &Size, number: u8, only: &str) -> Vec<Value> {
    rows_of(Paper::Autumn, size, number, only)
}

fn rows_of(paper: Paper, size: &Size, number: u8, only: &str) -> Vec<Value> {
    try_rows_of(paper, size, number, only).unwrap()
}

fn try_rows_of(paper: Paper, size: &Size, number: u8, only: &str) -> Result<Vec<Value>> {
    let dir = tempfile::tempdir().unwrap();
    let runner = Runner {
        dir: dir.path().to_owned(),
        rounds: 1,
        only: Some(only.to_owned()),
        trial_time_max: None,
        device: Device::nvme(),
        open: &ours,
    };
    let mut rows = Vec::new();
    let mut keep = |row| {
        rows.push(row);
        Ok(())
    };
    let ran = paper.run(size, number, &runner, &mut |_, _| (), &mut keep);
    assert_eq!(
        dir.path().read_dir().unwrap().count(),
        0,
        "stores are removed"
    );
    ran.map(|()| rows)
}

fn names<'a>(rows: &'a [Value], field: &str) -> BTreeSet<&'a str> {
    rows.iter()
        .map(|row| row[field].as_str().unwrap())
        .collect()
}

/// Checks that the page and the table have every design and workload.
fn expect_shown(rows: &[Value]) {
    let (page, table) = (page(rows).unwrap(), summary::table(rows));
    for field in ["design", "workload", "title"] {
        for name in names(rows, field) {
            assert!(page.contains(name), "{name} on the page");
            assert!(table.contains(name), "{name} in the table");
        }
    }
}

#[test]
fn figure_2_has_all_workloads_and_predicts_entry_writes() {
    let rows = rows(&SIZE, 1, "values of 100 bytes");
    let workloads = [
        "fillrandom",
        "fillseq",
        "readrandom",
        "seek",
        "seek+10",
        "seek+100",
    ];
    assert_eq!(names(&rows, "workload"), BTreeSet::from(workloads));
    assert_eq!(rows.len(), 8 * workloads.len());
    let fills: Vec<_> = { rows.iter() }
        .filter(|row| row["workload"] == "fillrandom")
        .collect();
    for row in &fills {
        assert_eq!(row["ops"], 10_000);
        for which in ["measured", "simulated", "closed_form"] {
            let writes = row["entry_writes"][which].as_f64().unwrap();
            assert!((1.0..60.0).contains(&writes), "{which}: {row}");
        }
        assert_eq!(row["filter_probes"], 0);
    }
    let writes = |design: &str| {
        let of = fills.iter().find(|row| row["design"] == design);
        of.unwrap()["entry_writes"]["measured"].as_f64().unwrap()
    };
    assert!(
        writes("leveling:10") != writes("leveling:2"),
        "designs are in force"
    );
    expect_shown(&rows);
}

#[test]
fn figure_3_goes_over_c_and_t() {
    let rows = rows(&SMALL, 2, "");
    let cases = names(&rows, "case");
    assert_eq!(
        cases,
        BTreeSet::from(["700 memtables", "T = 3", "T = 5", "c = 0.4", "c = 0.8"])
    );
    assert_eq!(names(&rows, "design").len(), 13 + 6 + 8);
    // Each tree is read at eight sizes while it doubles.
    let misses = rows
        .iter()
        .filter(|row| row["workload"] == "readmissing" && row["design"] == "garnering:2,0.4");
    let sizes: Vec<u64> = misses
        .map(|row| row["grown"]["entries"].as_f64().unwrap() as u64)
        .collect();
    assert_eq!(sizes, [1000, 1125, 1250, 1375, 1500, 1625, 1750, 1875]);
    expect_shown(&rows);
}

#[test]
fn figure_4_tells_where_gets_were_answered() {
    let size = Size {
        scale: 0.001,
        ..SIZE
    };
    let rows = rows(&size, 3, "garnering:5,0.8 monkey");
    assert_eq!(rows.len(), 7);
    let gets = rows.iter().find(|row| row["workload"] == "ycsb-c").unwrap();
    let levels = gets["hits_by_level"].as_array().unwrap().iter();
    let hits: u64 = levels.map(|hits| hits.as_u64().unwrap()).sum();
    assert_eq!(hits + gets["memtable_hits"].as_u64().unwrap(), 200);
    assert!(rows[0]["stalls"].is_u64() && rows[0]["table_bytes"].as_u64() > Some(20_000_000));
    assert!(
        page(&rows)
            .unwrap()
            .contains("Gets by where they were answered")
    );
}

#[test]
fn figure_5_grows_and_filters_spare_probes_of_none() {
    let rows = rows(&SMALL, 4, "leveling:2");
    for row in rows
        .iter()
        .filter(|row| row["workload"] == "readmissing from 4/8")
    {
        let probes = row["filter_probes"].as_u64().unwrap();
        assert_eq!(probes > 0, row["design"] != "leveling:2", "{row}");
    }
    for (from, first) in [("1/8", 1000.0), ("2/8", 2000.0), ("4/8", 4000.0)] {
        let of_range = format!("seek+10 from {from}");
        let reads: Vec<_> = rows
            .iter()
            .filter(|row| row["workload"] == of_range)
            .collect();
        assert_eq!(reads.len(), 3 * 8, "three filters, eight sizes");
        assert_eq!(reads[0]["grown"]["entries"], first);
    }
    expect_shown(&rows);
}

#[test]
fn the_models_truth_is_told_of_each_mix() {
    let size = Size {
        scale: 0.002,
        ..SIZE
    };
    let experiment = autumn::experiment(&size, 5, &Device::nvme()).unwrap();
    assert_eq!(experiment.trials.len(), 24 + 5);
    let mut rows = rows(&size, 5, "leveling:5");
    rows.extend(self::rows(&size, 5, summary::ADVISED));
    let truths = summary::truths(&rows);
    assert_eq!(truths.len(), 2 * 5);
    for truth in truths {
        let has_all = truth.contains("over 2 designs") && truth.contains("the advisor's choice");
        assert!(has_all, "{truth}");
    }
    assert!(page(&rows).unwrap().contains("Predicted and measured cost"));
}

/// The number at a path of the row with this design, case and workload.
fn number(rows: &[Value], [design, case, workload]: [&str; 3], field: &str) -> f64 {
    let row = rows.iter().find(|row| {
        (row["design"] == design) && row["case"] == case && row["workload"] == workload
    });
    row.unwrap()[field].as_f64().unwrap()
}

#[test]
fn slimdb_1_measures_indexes() {
    let size = Size { scale: 0.1, ..SIZE };
    let rows = rows_of(Paper::SlimDb, &size, 1, "");
    assert_eq!(rows.len(), 4 * 6);
    let bits = |design| number(&rows, [design, "groups of 16", "locate"], "bits_per_key");
    assert!(bits("three-level") <= 1.0 && bits("three-level:array") <= 1.5);
    assert!(bits("three-level:array") < bits("fence") && bits("fence") < bits("leveldb"));
    assert!(bits("leveldb, fixed blocks") < bits("leveldb, keys compressed"));
    expect_shown(&rows);
}

#[test]
fn slimdb_2_measures_filters() {
    let rows = rows_of(Paper::SlimDb, &SIZE, 2, "50 % duplicates");
    assert_eq!(rows.len(), 4 * 5);
    let of = |design, workload, field| number(&rows, [design, "50 % duplicates", workload], field);
    for filter in ["bloom:16", "cuckoo:16", "mlcf:12", "mlcf:12,unique"] {
        assert!(of(filter, "insert", "bits_per_key") < 40.0);
        assert_eq!(of(filter, "present, 64 at a time", "ops"), 200.0);
        assert!(of(filter, "absent, one at a time", "false_positives") < 0.05);
    }
    expect_shown(&rows);
}

#[test]
fn slimdb_3_reads_one_page_per_hit() {
    let size = Size {
        scale: 0.001,
        ..SIZE
    };
    let case = "groups of 128, memory a third";
    let rows = rows_of(Paper::SlimDb, &size, 3, case);
    assert_eq!(rows.len(), 4 * 6);
    for design in ["stepped merge", "slimdb", "mixed"] {
        let pages = |workload| number(&rows, [design, case, workload], "block_reads") / 200.0;
        assert!(
            pages("readrandom") <= 1.1,
            "{design}: {}",
            pages("readrandom")
        );
    }
    assert!(names(&rows, "workload").contains("updaterandom"));
    expect_shown(&rows);
}

#[test]
fn slimdb_4_reads_while_it_writes() {
    let size = Size {
        scale: 0.0005,
        ..SIZE
    };
    let rows = rows_of(Paper::SlimDb, &size, 4, "stepped merge");
    let workloads = ["fillrandom", "readrandom", "readwhilewriting"];
    assert_eq!(names(&rows, "workload"), BTreeSet::from(workloads));
}

#[test]
fn slimdb_5_is_the_papers_model() {
    let rows = rows_of(Paper::SlimDb, &SIZE, 5, "");
    let cost = |mix, case| number(&rows, [mix, case, "model"], "cost_reads");
    assert!((cost("creation", "400 MiB") - 0.557).abs() < 0.001);
    assert!((cost("mix", "1250 MiB") - 0.53).abs() < 0.03);
    expect_shown(&rows);
}

#[test]
fn what_is_not_there_is_said() {
    let error = autumn::experiment(&SIZE, 6, &Device::nvme())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("expected an experiment of 1 to 5, found 6"),
        "{error}"
    );
    let none = Size { scale: 0.0, ..SIZE };
    let error = autumn::experiment(&none, 1, &Device::nvme())
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected a scale"), "{error}");
    let experiment = autumn::experiment(&SIZE, 2, &Device::nvme()).unwrap();
    let runner = Runner {
        dir: std::env::temp_dir(),
        rounds: 1,
        only: Some("leveling:7".to_owned()),
        trial_time_max: None,
        device: Device::nvme(),
        open: &ours,
    };
    let ran = runner.run(&experiment, &mut |_, _| (), &mut |_| Ok(()));
    let error = ran.unwrap_err().to_string();
    assert!(
        error.contains("expected `leveling:7` in one of the trials"),
        "{error}"
    );
}

#[test]
fn the_parallel_experiments_have_partitions_queues_and_activities() {
    let size = Size {
        scale: 0.0001,
        reads: Some(500),
        ..SIZE
    };
    let of = |number, only| rows_of(Paper::Parallel, &size, number, only);
    let rows = of(1, "");
    assert_eq!(names(&rows, "case").len(), 5);
    assert_eq!(
        names(&rows, "design"),
        BTreeSet::from(["whole levels", "default"])
    );
    let workloads = ["fillrandom", "readall", "readall, 16 per call", "updateall"];
    assert_eq!(names(&rows, "workload"), BTreeSet::from(workloads));
    for row in &rows {
        assert_eq!(row["threads"], 16);
        let parts = ["foreground", "flush", "merge"];
        let seconds = parts.map(|part| row["activities"][part].as_f64().unwrap());
        assert!(
            seconds.iter().all(|s| *s >= 0.0) && seconds[0] > 0.0,
            "{row}"
        );
        // Only single trees are simulated.
        let is_simulated = row["case"] == "1 partition" && row["workload"] == "fillrandom";
        assert_eq!(row["entry_writes"].is_object(), is_simulated, "{row}");
    }
    expect_shown(&rows);
    assert!(
        page(&rows)
            .unwrap()
            .contains("Processor seconds by activity")
    );

    let feeders = of(2, "16 partitions");
    assert_eq!(
        names(&feeders, "design"),
        BTreeSet::from(["direct calls", "2 workers"])
    );
    let orders = of(3, "");
    assert_eq!(
        names(&orders, "workload"),
        BTreeSet::from(["fillrandom", "fillseq"])
    );
    let left_out = [of(4, "client"), of(4, "queues")].concat();
    for row in &left_out {
        let design = row["design"].as_str().unwrap();
        let is_queued = row["workload"] != "readall" && !row["queue"].is_null();
        assert!(design != "direct calls" || !is_queued, "{row}");
        if design.starts_with("queues of ") {
            assert!(row["queue"]["wait_us"].as_f64() > Some(0.0), "{row}");
        }
    }
    expect_shown(&left_out);
    let both = of(5, "direct calls");
    assert_eq!(both.len(), 6);
    let told = summary::table(&[rows, feeders, left_out, both].concat());
    // Three steps of experiment 1, one of 2, two of 4, three of 5, and the longest calls.
    assert_eq!(told.matches("\ntarget ").count(), 10, "{told}");
}

#[test]
fn reads_out_of_memory_stand_beside_the_devices_own() {
    let size = Size {
        scale: 0.0001,
        reads: Some(500),
        ..SIZE
    };
    let found = try_rows_of(Paper::Parallel, &size, 4, "2 workers, out of memory");
    let rows = match found {
        Ok(rows) => rows,
        // A file system in memory may not support direct reads.
        Err(error) => {
            assert!(error.to_string().contains("direct reads"), "{error}");
            return;
        }
    };
    assert_eq!(rows.len(), 2 * 6);
    for row in rows.iter().filter(|row| row["workload"] != "fillseq") {
        assert_eq!(row["settings"]["io"], "direct");
        assert!(row["device"]["depth_32"].as_f64() > Some(0.0), "{row}");
        let has_window = row["workload"].as_str().unwrap().contains("window");
        assert!(has_window || row["queue"].is_null(), "{row}");
    }
    let told = summary::table(&rows);
    let of_device = told.matches("asynchronous gets of 1 client over the device's");
    assert_eq!(of_device.count(), 2, "values of two sizes: {told}");
}

#[test]
fn the_lsm_trie_experiments_grow_read_and_start_cold() {
    let size = Size {
        scale: 0.0002,
        reads: Some(640),
        ..SIZE
    };
    let of = |number, only| rows_of(Paper::LsmTrie, &size, number, only);
    for (number, designs) in [
        (1, ["trie cluster:16", "leveling:10 bloom:16"]),
        (3, ["trie cluster:16", "trie:4 cluster:16"]),
    ] {
        let rows = of(number, "");
        assert_eq!(names(&rows, "design"), BTreeSet::from(designs));
        assert_eq!(rows.len(), 2 * 20);
        for (row, part) in rows.iter().zip((1..=20).cycle()) {
            assert_eq!(row["workload"], format!("fillrandom to {part}/20"));
            assert_eq!(row["grown"]["entries"], f64::from(40_000 * part / 20));
            assert!(row["grown"]["entry_writes"].as_f64() >= Some(1.0), "{row}");
        }
        expect_shown(&rows);
        let page = page(&rows).unwrap();
        assert!(page.contains("Write amplification as the store grows"));
    }
    let loads = of(2, "");
    let cases = names(&loads, "case");
    let expected = [
        "values of 50 bytes",
        "values of 400 bytes",
        "many overwrites",
        "many deletes",
    ];
    assert_eq!(cases, BTreeSet::from(expected));
    assert_eq!(loads.len(), 4 + 4 + 7 + 7);
    expect_shown(&loads);

    let gets = of(4, "");
    let workloads = [
        "fillrandom to 1/4",
        "fillrandom to 2/4",
        "fillrandom to 3/4",
        "fillrandom to 4/4",
        "readrandom",
        "readmissing",
        "readzipf",
        "cold start",
    ];
    assert_eq!(names(&gets, "workload"), BTreeSet::from(workloads));
    assert_eq!(gets.len(), 2 * workloads.len());
    for row in &gets {
        let filters = row["memory_per_terabyte"]["filters"].as_f64();
        let has_read = !row["workload"].as_str().unwrap().starts_with("fillrandom");
        assert_eq!(filters.is_some_and(|bytes| bytes > 0.0), has_read, "{row}");
        let p9999 = row["latency_us"]["p9999"].as_f64();
        assert_eq!(p9999.is_some(), row["workload"] != "cold start", "{row}");
    }
    for row in gets.iter().filter(|row| row["workload"] == "cold start") {
        assert_eq!(row["ops"], 640.0);
        let of = |field: &str| row["cold_start"][field].as_f64().unwrap();
        assert!((10.0..=640.0).contains(&of("gets")), "{row}");
        assert!(of("seconds") > 0.0 && of("read_bytes") >= 0.0, "{row}");
    }
    expect_shown(&gets);
}

#[test]
fn lsm_trie_5_has_the_entry_writes_of_terabytes() {
    let size = Size {
        scale: 0.01,
        ..SIZE
    };
    let modeled = rows_of(Paper::LsmTrie, &size, 5, "");
    assert_eq!(modeled.len(), 4 * 3);
    for row in &modeled {
        let writes = |which: &str| row["entry_writes"][which].as_f64().unwrap();
        assert!(writes("closed_form") >= 1.0, "{row}");
        if row["design"] != "leveling:10" {
            // Once per level, and by the flush; a level may be empty between two merges.
            let most = row["levels"].as_f64().unwrap() + 2.0;
            assert!((1.0..=most).contains(&writes("simulated")), "{row}");
        }
    }
    expect_shown(&modeled);
}
