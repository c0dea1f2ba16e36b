//! Errors and help: their exit codes, and the words of somebody who types.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "files are made with std::fs")]

mod support;

use std::fs;
use std::process::Output;

use hedgerow::{Db, Layout, MergeError, MergeOperator, PrefixRule};
use serde_json::Value;
use support::{Place, command, fails_saying, failure, hedgerow, stdout};

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
        "explain design --db none",
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
        "slot create --db none index",
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
        "serve --db db --port 0 --acl-file none",
        "serve --db db --port 0 --cluster-map none --cluster-node one",
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
    let table = run(&place, "inspect table none");
    fails_saying(&table, 3, &["cannot open none: "]);
    let other = run(&place, "inspect filter db/MANIFEST");
    fails_saying(&other, 2, &["expected a filter"]);
    // A command that is refused makes nothing.
    for name in ["none", "copy", "outside", "page"] {
        assert!(!place.path(name).exists(), "{name}");
    }
}

/// An operator that only its own program has.
struct Own;

impl MergeOperator for Own {
    fn name(&self) -> &'static str {
        "own"
    }

    fn full(&self, _: &[u8], _: Option<&[u8]>, _: &[&[u8]]) -> Result<Option<Vec<u8>>, MergeError> {
        Ok(None)
    }
}

#[test]
fn errors_of_the_engine_name_flags_and_commands() {
    let place = Place::new();
    let db = Db::builder(place.db()).merge_operator(Own).open().unwrap();
    for (name, layout) in [
        ("sorted", Layout::sorted()),
        ("semi", Layout::semi_sorted(PrefixRule::Bytes(4))),
        ("hashed", Layout::hashed()),
        ("own", Layout::sorted().merge_operator("own")),
    ] {
        let keyspace = db.keyspace(name, layout).unwrap();
        keyspace.put("aaaab", "1").unwrap();
    }
    let own = db.existing_keyspace("own").unwrap();
    own.merge("aaaab", "2").unwrap();
    db.close().unwrap();
    for (line, says) in [
        (
            "get --db db --memory-budget 1 a",
            "expected `--memory-budget` of ",
        ),
        (
            "scan --db db --keyspace semi --from a",
            "use `--prefix`, or leave out the range",
        ),
        (
            "scan --db db --keyspace hashed --from a",
            "leave out the range",
        ),
        (
            "scan --db db --keyspace hashed --prefix a",
            "leave out the range",
        ),
        (
            "del --db db --keyspace semi --from a",
            "use `--prefix` for the keys of a prefix, or `hedgerow clear`",
        ),
        (
            "del --db db --keyspace hashed --from a",
            "use `hedgerow clear` for all keys",
        ),
        (
            "get --db db --keyspace own aaaab",
            "only programs that bring it",
        ),
        (
            "retune --db db --keyspace sorted --table block:1",
            "expected blocks (`--table block:BYTES`) of 512 ",
        ),
        (
            "retune --db db --keyspace sorted --table-size 1",
            "expected `--table-size` of ",
        ),
        (
            "retune --db db --keyspace sorted --memtable-size 1",
            "expected `--memtable-size` of ",
        ),
        (
            "retune --db db --keyspace sorted --filter cuckoo:1",
            "expected fingerprints (`--filter cuckoo:BITS` or `mlcf:BITS`) of 4 ",
        ),
        (
            "bench fillrandom --num 9 --order hashed --table htable:200000",
            "expected buckets (`--table htable:BYTES`) of ",
        ),
        (
            "bench fillrandom --num 9 --workers 9999",
            "expected `--workers` of ",
        ),
        (
            "bench fillrandom --num 9 --workers 1 --worker-queue 0",
            "expected `--worker-queue` of ",
        ),
    ] {
        let output = run(&place, line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && said.contains(says),
            "{line}: {said}"
        );
    }
    assert!(
        run(&place, "compact --db db --keyspace sorted")
            .status
            .success()
    );
    let tables = support::files(&place.db().join("tables"));
    let table = tables[0].to_str().unwrap();
    let output = place.run("ingest", &["--keyspace", "sorted", table]);
    fails_saying(
        &output,
        2,
        &["expected a table of `hedgerow export`, found table"],
    );
}

#[test]
fn a_key_with_the_name_of_a_call_stays_as_it_is() {
    let place = Place::new();
    for name in ["workers", "memory_budget", "scan_prefix", "clear"] {
        fails_saying(&place.run("drop", &[name]), 3, &["expected a database"]);
    }
    place.text("put", &["a", "1"]);
    for name in ["workers", "memory_budget", "scan_prefix", "clear"] {
        let output = place.run("drop", &[name]);
        fails_saying(&output, 3, &[&format!("expected the keyspace `{name}`")]);
    }
}

#[test]
fn a_database_that_is_not_named_may_be_in_the_environment() {
    let place = Place::new();
    for line in ["get a", "shell", "serve", "slot list"] {
        let output = run(&place, line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(
            said.contains("--db <DIR>") && said.contains("HEDGEROW_DB"),
            "{line}: {said}"
        );
    }
    let error: Value = failure(&run(&place, "get a --json"), 2);
    assert!(
        error["message"].as_str().unwrap().contains("HEDGEROW_DB"),
        "{error}"
    );
    let output = command(&["get", "a"]).env("HEDGEROW_DB", "").output();
    fails_saying_usage(&output.unwrap(), "HEDGEROW_DB, which names it, is empty");
    let unset = run(&place, "get --db= a").stderr;
    assert!(!String::from_utf8_lossy(&unset).contains("HEDGEROW_DB"));
    // Another argument is missing.
    let said = run(&place, "get --db db").stderr;
    assert!(!String::from_utf8_lossy(&said).contains("HEDGEROW_DB"));
}

#[test]
fn a_keyspace_by_a_flag_is_told_its_place() {
    let place = Place::new();
    place.fill(&[("a", "1")]);
    for (command, words) in [("clear", "NAME"), ("drop", "NAME"), ("rename", "FROM TO")] {
        let line = format!("{command} --db db --keyspace default");
        let says = format!("takes names without a flag: `hedgerow {command} {words}`");
        fails_saying_usage(&run(&place, &line), &says);
        let error: Value = failure(&run(&place, &format!("{line} --json")), 2);
        let message = error["message"].as_str().unwrap();
        assert!(message.ends_with(&says), "{message}");
    }
    // Other commands have no such word.
    let other = run(&place, "keyspaces --db db --keyspace default");
    assert!(!String::from_utf8_lossy(&other.stderr).contains("without a flag"));
    assert_eq!(place.text("get", &["a"]), "1\n");
}

#[test]
fn the_help_of_a_command_has_the_formats_that_it_takes() {
    let help =
        |command| String::from_utf8(stdout(&hedgerow(&[command, "--help"])).to_vec()).unwrap();
    let (dump, load) = (help("dump"), help("load"));
    for format in ["  json  ", "  csv  ", "  tsv  "] {
        assert!(dump.contains(format) && load.contains(format), "{format}");
    }
    let escapes = r"\\, \n, \r, \t and \xNN";
    assert!(dump.contains(escapes) && load.contains(escapes), "{dump}");
    for part in ["ldb", "--columns"] {
        assert!(!dump.contains(part) && load.contains(part), "{part}");
    }
    let place = Place::new();
    place.fill(&[("a", "1")]);
    fails_saying_usage(
        &place.run("dump", &["--format", "ldb"]),
        "[possible values: json, csv, tsv]",
    );
    assert_eq!(place.text("dump", &["--format", "tsv"]), "a\t1\n");
}

fn fails_saying_usage(output: &Output, part: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(part), "{said}");
}
