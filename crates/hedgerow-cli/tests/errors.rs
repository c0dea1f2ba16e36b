//! Errors and help: their exit codes, and the words of somebody who types.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "files are made with std::fs")]

mod support;

use std::fs;
use std::process::Output;

use support::{Place, command, fails_saying, stdout};

/// Runs a line of words in the folder of the place, whose database is `db`.
fn run(place: &Place, line: &str) -> Output {
    let mut command = command(&line.split(' ').collect::<Vec<_>>());
    command.env_remove("HEDGEROW_DB");
    command.current_dir(place.path("")).output().unwrap()
}

#[test]
fn whatever_is_named_and_does_not_exist_is_not_found() {
    let place = Place::new();
    place.fill(&[("a", "1")]);
    stdout(&run(&place, "backup create --db db backups"));
    fs::create_dir_all(place.path("empty")).unwrap();
    let lines = [
        "get --db none a",
        "get --db empty a",
        "get --db db b",
        "scan --db db --keyspace none",
        "drop --db db none",
        "rename --db db none other",
        "stats --db none",
        "explain get --db none a",
        "verify --db none",
        "repair --db none",
        "compact --db none",
        "checkpoint --db none copy",
        "retune --db none --filter none",
        "put --db db --design none a 1",
        "inspect manifest --db none",
        "inspect log --db none",
        "inspect log --db db 99",
        "inspect table db/tables/0000000099.table",
        "inspect filter db/filters/0000000099.filter",
        "inspect filter db/filters/0000000099.cluster",
        "largest --db none",
        "export --db none outside",
        "ingest --db db none.table",
        "ingest --db none none.table",
        "load --db db none.csv",
        "import --db db none",
        "dump --db none",
        "changes --db none --since 0",
        "changes --db db --slot none",
        "slot list --db none",
        "slot confirm --db db none 1",
        "slot drop --db db none",
        "backup create --db none backups",
        "backup list none",
        "backup verify none",
        "backup verify backups --backup 9",
        "backup restore none copy",
        "backup restore backups copy --backup 9",
        "backup prune none --keep 1",
        "bench readrandom --db none",
        "bench readrandom --db db --keyspace none",
        "bench --report page --from none",
        "shell --db db none",
        "tour none",
        "advise --db none",
    ];
    for line in lines {
        let output = run(&place, line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{line}: {said}");
        assert!(
            said.contains("none") || said.contains("99") || said.contains('9'),
            "{line}: {said}"
        );
    }
    let other = run(&place, "inspect filter db/MANIFEST");
    fails_saying(&other, 2, &["expected a filter"]);
    // A command that is refused makes nothing.
    for name in ["none", "copy", "outside", "page"] {
        assert!(!place.path(name).exists(), "{name}");
    }
}
