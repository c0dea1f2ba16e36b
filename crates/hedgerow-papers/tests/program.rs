//! The program, run as users run it.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hedgerow-papers"));
    command.args(arguments).output().unwrap()
}

/// The output of a run, which must succeed.
fn text(arguments: &[&str]) -> String {
    let output = run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_papers_tables_are_printed() {
    let object = |table| -> Value {
        let printed = text(&["tables", table, "--device", "nvme", "--json"]);
        serde_json::from_str(&printed).unwrap()
    };
    let autumn = object("autumn");
    let garnering = &autumn["policies"][4];
    assert_eq!(garnering["policy"], "garnering:2,0.8");
    let levels: Vec<u64> = garnering["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["levels"].as_u64().unwrap())
        .collect();
    assert_eq!(levels, [3, 5, 6, 7, 8, 9]);
    let slimdb = object("slimdb");
    let row = &slimdb["figures"][0]["rows"][5];
    assert_eq!(row["memory_mib"], 300.0);
    assert!((row["costs"][3].as_f64().unwrap() - 0.7825).abs() < 1e-4);
    let printed = text(&["tables", "slimdb"]);
    assert!(printed.starts_with("SlimDB, Table 1: costs"), "{printed}");
}

#[test]
fn rows_are_printed_and_shown_again() {
    let dir = tempfile::tempdir().unwrap();
    let (rows, page) = (dir.path().join("rows.jsonl"), dir.path().join("page"));
    let printed = text(&["slimdb", "--experiment", "5", "--device", "nvme", "--json"]);
    assert_eq!(printed.lines().count(), 4 * 12);
    #[allow(clippy::disallowed_methods, reason = "a file of rows, not of a store")]
    std::fs::write(&rows, printed).unwrap();
    let (rows, page) = (rows.to_str().unwrap(), page.to_str().unwrap());
    let table = text(&["slimdb", "--from", rows, "--report", page]);
    assert!(table.contains("SlimDB 5. Figure 9"), "{table}");
    let html = std::fs::read_to_string(format!("{page}/index.html")).unwrap();
    assert!(html.contains("SlimDB 5. Figure 9"));
}

#[test]
fn a_device_that_is_none_is_refused() {
    let output = run(&["tables", "slimdb", "--device", "floppy"]);
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.starts_with("hedgerow-papers: floppy: "), "{why}");
}
