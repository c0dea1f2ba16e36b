//! Runs `hedgerow bench`, the real binary, in small sizes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "reports are read with std::fs")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hedgerow"));
    command.arg("bench").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The results that a run prints, one object per line.
fn results(arguments: &[&str]) -> Vec<Value> {
    let output = bench(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_flag_is_in_force() {
    let dir = tempfile::tempdir().unwrap();
    let results = results(&[
        "fillrandom,readrandom,multireadrandom",
        "--db",
        path(dir.path()),
        "--keyspace",
        "measured",
        "--num",
        "2000",
        "--reads",
        "500",
        "--key-size",
        "24",
        "--value-size",
        "50",
        "--group-size",
        "10",
        "--threads",
        "2",
        "--batch-size",
        "16",
        "--sync",
        "--seed",
        "7",
        "--order",
        "sorted",
        "--partitions",
        "2",
        "--policy",
        "leveling:4",
        "--table",
        "block:2KiB",
        "--index",
        "fence",
        "--filter",
        "bloom:8",
        "--residency",
        "paged",
        "--io",
        "mmap",
        "--compression",
        "none",
        "--memtable-size",
        "64KiB",
        "--table-size",
        "32K",
        "--memory-budget",
        "16MiB",
        "--seek-nexts",
        "3",
        "--workers",
        "1",
        "--worker-queue",
        "9",
    ]);
    let [fill, read, multi] = &results[..] else {
        panic!("expected three results, found {results:?}")
    };
    assert_eq!(
        (&fill["ops"], &read["ops"], &multi["ops"]),
        (&2000.into(), &500.into(), &500.into())
    );
    let expected = serde_json::json!({
        "keyspace": "measured", "num": 2000, "reads": 500, "key_size": 24, "value_size": 50,
        "group_size": 10, "threads": 2, "batch_size": 16, "sync": true, "seed": 7, "seek_nexts": 3,
        "order": "sorted", "partitions": 2, "policy": "leveling:4", "table": "block:2048",
        "index": "fence", "filter": "bloom:8", "residency": "paged", "io": "mmap", "auto": false,
        "compression": "none", "memtable_size": 65536, "table_size": 32768,
        "memory_budget": 16 << 20, "window": null, "workers": 1, "worker_queue": 9,
    });
    assert_eq!(fill["settings"], expected);
    assert_eq!(fill["user_bytes"], 2000 * 74);
}

#[test]
fn calls_are_asynchronous_with_a_window() {
    let results = results(&[
        "fillrandom,readrandom,multireadrandom,seekrandom,updaterandom,deleterandom",
        "--num",
        "500",
        "--async=7",
        "--workers",
        "2",
        "--partitions",
        "hash:2",
    ]);
    for result in &results {
        assert_eq!(result["settings"]["window"], 7);
        assert_eq!(result["settings"]["workers"], 2);
    }
    assert!(results[0]["queue"]["calls"].as_f64().unwrap() > 0.0);
    let shown = bench(&["fillrandom", "--num", "500", "--async", "--workers", "1"]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("  queues: "), "{text}");
    let refused = bench(&["mixed", "--num", "500", "--async"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_database_is_read_again_and_not_filled_twice() {
    let dir = tempfile::tempdir().unwrap();
    let run = |workloads, more: &[&str]| {
        bench(&[&[workloads, "--db", path(dir.path()), "--num", "500"], more].concat())
    };
    assert!(run("fillseq", &[]).status.success());
    assert!(
        run("readrandom,readmissing,seekrandom", &[])
            .status
            .success()
    );
    let again = run("fillseq", &[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(
        text(&again.stderr).contains("expected an empty store for fillseq"),
        "{again:?}"
    );
    let other_seed = run("readrandom", &["--seed", "2"]);
    assert_eq!(other_seed.status.code(), Some(1));
    assert!(
        text(&other_seed.stderr).contains("found nothing"),
        "{other_seed:?}"
    );
}

#[test]
fn people_get_a_table() {
    let output = bench(&["ycsb-load,ycsb-a,ycsb-e", "--num", "300", "--reads", "200"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    let firsts: Vec<_> = stdout
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(firsts, ["workload", "ycsb-load", "ycsb-a", "ycsb-e"]);
    let lengths: Vec<_> = stdout.lines().map(str::len).collect();
    assert!(
        lengths.iter().all(|length| *length == lengths[0]),
        "{stdout}"
    );
}

#[test]
fn a_page_survives_a_workload_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let flags = [
        "--order",
        "hashed",
        "--num",
        "300",
        "--report",
        path(&report),
    ];
    let failed = bench(&[&["fillrandom,seekrandom,readrandom"], &flags[..]].concat());
    assert_eq!(failed.status.code(), Some(2), "{failed:?}");
    let stderr = text(&failed.stderr);
    assert!(
        stderr.starts_with("hedgerow: 1 of 3 workloads failed: seekrandom: "),
        "{stderr}"
    );
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    for part in [
        "<td>fillrandom</td>",
        "<td>readrandom</td>",
        "<p>seekrandom failed: ",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // The file of results has all three, and the page is drawn from it.
    let old = report.join("results.jsonl");
    let rows = fs::read_to_string(&old).unwrap();
    let rows: Vec<Value> = rows
        .lines()
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    let reason = rows[1]["error"].as_str().unwrap();
    assert!(stderr.contains(reason), "{reason}");
    assert_eq!(rows[1]["workload"], "seekrandom");
    assert_eq!(rows[1]["settings"]["order"], "hashed");
    let drawn = bench(&["--report", path(&report), "--from", path(&old)]);
    assert!(drawn.status.success(), "{drawn:?}");
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert!(page.contains(">failed: "), "{page}");
    // A run in which nothing succeeds leaves the page.
    let nothing = bench(&[&["seekrandom"], &flags[..]].concat());
    assert_eq!(nothing.status.code(), Some(2));
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 3);
    // The page of results in a file, with such a run.
    let more = [&["seekrandom", "--from", path(&old)], &flags[..]].concat();
    assert_eq!(bench(&more).status.code(), Some(2));
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    assert_eq!(page.matches("<p>seekrandom failed: ").count(), 2, "{page}");
}

#[test]
fn a_page_that_cannot_be_written_hides_no_workload_that_failed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let report = file.join("report");
    let run = |workloads| {
        let flags = ["--order", "hashed", "--num", "300", "--report"];
        bench(&[&[workloads], &flags[..], &[path(&report)]].concat())
    };
    let both = run("fillrandom,seekrandom");
    assert_eq!(both.status.code(), Some(2), "{both:?}");
    let stderr = text(&both.stderr);
    let rest = stderr.strip_prefix("hedgerow: 1 of 2 workloads failed: seekrandom: ");
    assert!(
        rest.is_some_and(|it| it.contains(path(&report))),
        "{stderr}"
    );
    let only_page = run("fillrandom");
    assert_eq!(only_page.status.code(), Some(1), "{only_page:?}");
    assert!(
        text(&only_page.stderr).contains(path(&report)),
        "{only_page:?}"
    );
}

#[test]
fn a_workload_does_not_read_what_a_failed_one_should_have_written() {
    let dir = tempfile::tempdir().unwrap();
    let run = |workloads, more: &[&str]| {
        bench(&[&[workloads, "--db", path(dir.path()), "--num", "300"], more].concat())
    };
    assert!(run("fillseq", &[]).status.success());
    // The database has keys, and a failed load has loaded nothing.
    let refused = run("fillrandom,readrandom", &["--json"]);
    assert_eq!(refused.status.code(), Some(2));
    let rows = text(&refused.stdout);
    let rows = rows.lines().map(|row| serde_json::from_str(row).unwrap());
    let reasons: Vec<Value> = rows.map(|row: Value| row["error"].clone()).collect();
    let [load, read] = &reasons[..] else {
        panic!("expected two rows, found {reasons:?}");
    };
    assert!(load.as_str().unwrap().contains("expected an empty store"));
    assert!(read.as_str().unwrap().contains("`fillrandom` should have"));
    let error: Value = serde_json::from_slice(&refused.stderr).unwrap();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("2 of 2 workloads failed: "),
        "{message}"
    );
    assert!(
        message.contains("expected what `fillrandom` should have written"),
        "{message}"
    );
    // A refused change has changed nothing.
    let read = run("readrandom,mixed,readrandom", &["--async"]);
    assert_eq!(read.status.code(), Some(2));
    let rows = text(&read.stdout);
    let rows = rows.lines().filter(|row| !row.contains("queues:"));
    let failed: Vec<bool> = rows.map(|row| row.contains(" failed: ")).collect();
    assert_eq!(failed, [false, false, true, false], "{read:?}");
}

#[test]
fn a_page_is_made_of_new_and_old_results() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report");
    let report = path(&report);
    let first = bench(&["fillseq,readhot", "--num", "300", "--report", report]);
    assert!(first.status.success(), "{first:?}");
    let old = format!("{report}/results.jsonl");
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 2);
    let both = bench(&[
        "deleterandom",
        "--num",
        "300",
        "--report",
        report,
        "--from",
        &old,
    ]);
    assert!(both.status.success(), "{both:?}");
    assert_eq!(fs::read_to_string(&old).unwrap().lines().count(), 3);
    let only_old = bench(&["--report", report, "--from", &old]);
    assert!(only_old.status.success(), "{only_old:?}");
    let page = fs::read_to_string(format!("{report}/index.html")).unwrap();
    for workload in ["fillseq", "readhot", "deleterandom"] {
        assert!(page.contains(&format!("<td>{workload}</td>")), "{workload}");
    }
    fs::write(&old, "{\"no\": 1}").unwrap();
    let no_result = bench(&["--report", report, "--from", &old]);
    assert!(
        text(&no_result.stderr).contains("expected a result with its workload"),
        "{no_result:?}"
    );
}

#[test]
fn wrong_arguments_are_told_what_was_expected() {
    for (arguments, expected) in [
        (
            &["fillrandm"][..],
            "expected a workload, one of fillseq, fillrandom,",
        ),
        (&[], "required"),
        (
            &["fillseq", "--order", "heap"],
            "expected a key order such as `sorted`, `semi-sorted:8`",
        ),
        (
            &["fillseq", "--policy", "tier"],
            "expected a merge policy such as `leveling:10`",
        ),
        (&["fillseq", "--levels", "1,1,8"], "found `1,1,8`"),
        (
            &["fillseq", "--table", "heap"],
            "expected a table format such as `block`",
        ),
        (
            &["fillseq", "--index", "hash"],
            "expected an index, one of fence, three-level, three-level:array; found `hash`",
        ),
        (
            &["fillseq", "--filter", "bloom"],
            "expected a filter such as `bloom:10`",
        ),
        (
            &["fillseq", "--io", "uring"],
            "expected `pread`, `mmap` or `direct`, found `uring`",
        ),
        (
            &["fillseq", "--compression", "zip"],
            "expected a compression, one of none, lz4, zstd;",
        ),
        (
            &["fillseq", "--memory-budget", "lots"],
            "expected a size such as `64MiB`",
        ),
        (
            &["fillseq", "--partitions", "0"],
            "expected 1 to 256 partitions, found 0",
        ),
        (
            &["fillseq", "--key-size", "4"],
            "expected 8 to 65536 bytes of a key, found 4",
        ),
        (
            &["fillseq", "--threads", "0"],
            "expected 1 to 1024 threads, found 0",
        ),
        (&["--from", "nothing"], "--report"),
    ] {
        let output = bench(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn orders_are_measured_with_the_scans_that_they_have() {
    for order in ["sorted", "semi-sorted:8", "hashed"] {
        let scan = if order == "hashed" {
            "readmissing"
        } else {
            "prefixscan"
        };
        let workloads = format!("fillrandom,readrandom,{scan}");
        let results = results(&[
            &workloads,
            "--num",
            "2000",
            "--reads",
            "300",
            "--group-size",
            "16",
            "--order",
            order,
            "--partitions",
            "2",
            "--memory-budget",
            "16MiB",
        ]);
        assert_eq!(results.len(), 3);
        assert_eq!(results[2]["settings"]["order"], order);
        assert_eq!(results[2]["settings"]["group_size"], 16);
    }
}

/// Lookups of absent keys search all runs of tiering without filters. So the next fill has another
/// design.
#[test]
fn a_keyspace_may_tune_itself_while_it_is_measured() {
    let policies = |auto: &[&str]| -> Vec<Value> {
        let common = "fillrandom,readmissing,overwrite --num 60000 --reads 80000 --value-size 400 \
                      --policy tiering:16 --filter none --memtable-size 256KiB --table-size 64KiB --memory-budget 8MiB";
        let arguments: Vec<&str> = common.split_whitespace().collect();
        let rows = results(&[&arguments, auto].concat());
        rows.iter()
            .for_each(|row| assert_eq!(row["settings"]["auto"], !auto.is_empty()));
        rows.iter()
            .map(|row| row["settings"]["policy"].clone())
            .collect()
    };
    assert_eq!(policies(&[]), ["tiering:16"; 3]);
    assert_ne!(policies(&["--auto"])[2], "tiering:16");
}
