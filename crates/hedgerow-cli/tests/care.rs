//! `verify`, `repair`, `compact`, `checkpoint`, and the help and completions of all commands.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the damage is made with std::fs")]

mod support;

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hedgerow::{Db, Design, Layout};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use support::{Place, fails_saying, failure, files, hedgerow, object, stdout};

const NONE: [&str; 0] = [];

/// 2,000 keys in two tables, the older one hidden by the newer one, half of them deleted.
fn rewritten() -> Place {
    let place = Place::new();
    let pairs: Vec<_> = (0..2000).map(|i| (format!("key {i:04}"), "old")).collect();
    place.fill(&pairs);
    let db = Db::open(place.db()).unwrap();
    let keyspace = db.existing_keyspace("default").unwrap();
    db.flush().unwrap();
    for (i, (key, _)) in pairs.iter().enumerate() {
        match i % 2 {
            0 => keyspace.put(key, "new").unwrap(),
            _ => keyspace.delete(key).unwrap(),
        }
    }
    db.flush().unwrap();
    db.close().unwrap();
    place
}

fn flip_a_bit(path: &std::path::Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_whole_database_is_verified() {
    let place = rewritten();
    let report = object(&place.run("verify", &["--json"]));
    assert_eq!(report["damaged"], false);
    assert_eq!(report["entries"], 4000);
    assert!(
        place
            .text("verify", &NONE)
            .contains("4,000 entries in 2 tables")
    );
    let writer = Db::open(place.db()).unwrap();
    assert_eq!(object(&place.run("verify", &["--json"])), report);
    assert_eq!(report["log_entries"], 0);
    let keyspace = writer.existing_keyspace("default").unwrap();
    keyspace.put("only in the log", "1").unwrap();
    writer.sync().unwrap();
    let report = object(&place.run("verify", &["--json"]));
    assert_eq!(
        (&report["entries"], &report["log_entries"]),
        (&json!(4000), &json!(1))
    );
}

#[test]
fn a_database_that_is_open_is_backed_up_and_restored() {
    let place = Place::new();
    place.fill(&[("a", "1"), ("b", "2")]);
    let writer = Db::open(place.db()).unwrap();
    let keyspace = writer.existing_keyspace("default").unwrap();
    let (db, repository) = (place.db(), place.path("backups"));
    let [db, repository] = [&db, &repository].map(|path| path.to_str().unwrap());
    let backup = |more: &[&str]| hedgerow(&[&["backup"], more, &["--json"]].concat());
    for (number, value) in [(1, "3"), (2, "4")] {
        keyspace.put("c", value).unwrap();
        let made = object(&backup(&[
            "create", "--db", db, repository, "--rate", "1GiB",
        ]));
        assert_eq!(
            (&made["backup"], &made["last"]),
            (&json!(number), &json!(number + 2))
        );
    }
    let listed = object(&backup(&["list", repository]));
    assert_eq!(listed["backups"][1]["last"], json!(4));
    assert_eq!(object(&backup(&["verify", repository]))["backup"], 2);
    let restored = place.path("restored");
    let restored = restored.to_str().unwrap();
    let restore = ["restore", repository, restored, "--backup", "1"];
    assert_eq!(object(&backup(&restore))["backup"], 1);
    let get = hedgerow(&["get", "--db", restored, "c"]);
    assert_eq!(stdout(&get), b"3\n");
    let taken = failure(&backup(&restore), 2);
    assert!(
        taken["message"]
            .as_str()
            .unwrap()
            .contains("expected a new directory")
    );
    assert_eq!(
        object(&backup(&["prune", repository, "--keep", "1"]))["backups"],
        1
    );
    failure(&backup(&restore), 3);
    let quick = ["backup", "create", "--db", db, repository, "--quick"];
    let said = String::from_utf8(stdout(&hedgerow(&quick)).to_vec()).unwrap();
    assert!(said.starts_with("made backup 3: "), "{said}");
    let files = files(&place.path("backups/files"));
    flip_a_bit(
        files
            .iter()
            .max_by_key(|path| path.metadata().unwrap().len())
            .unwrap(),
    );
    fails_saying(
        &hedgerow(&["backup", "verify", repository]),
        4,
        &["checksum"],
    );
}

#[test]
fn a_keyspace_is_retuned_part_by_part() {
    let place = rewritten();
    let report = object(&place.run(
        "retune",
        &["--json", "--policy", "leveling:2", "--filter", "none"],
    ));
    assert_eq!(report["design_before"]["policy"], "leveling:6");
    assert_eq!(report["design"]["policy"], "leveling:2");
    assert_eq!(report["design"]["filter"], "none");
    assert_eq!(report["design"]["compression"], "lz4");
    assert_eq!(
        (&report["retuning"], &report["debt_bytes"]),
        (&json!(false), &json!(0))
    );
    let text = place.text("retune", &["--table", "block:1KiB", "--table-size", "1MiB"]);
    let line = "from leveling:2 none fence lz4 to leveling:2 none fence lz4";
    assert!(text.starts_with(line), "{text}");
    let report = object(&place.run("retune", &["--json", "--no-wait", "--table-size", "auto"]));
    assert_eq!(report["design_before"]["table_bytes"], 1 << 20);
    assert_eq!(report["design"]["table_bytes"], json!(null));
    assert_eq!(report["design"]["block_bytes"], 1024);

    let error = failure(
        &place.run("retune", &["--json", "--policy", "leveling:1"]),
        2,
    );
    assert_eq!(error["kind"], "usage");
    let error = failure(&place.run("retune", &["--json"]), 2);
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("--policy"), "{message}");
    let listed = object(&place.run("keyspaces", &["--json"]));
    assert_eq!(listed["design"], report["design"]);
    assert_eq!(object(&place.run("verify", &["--json"]))["damaged"], false);
}

#[test]
fn a_damaged_table_is_named_and_what_is_left_repaired() {
    let place = rewritten();
    let tables = files(&place.db().join("tables"));
    assert_eq!(tables.len(), 2);
    flip_a_bit(&tables[0]);
    let error = failure(&place.run("verify", &["--json"]), 4);
    assert_eq!(error["kind"], "corruption");
    assert_eq!(error["path"], tables[0].to_str().unwrap());

    let before = fs::read(&tables[0]).unwrap();
    let output = place.run("repair", &["--json"]);
    assert_eq!(output.status.code(), Some(4));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (
            &report["tables"],
            &report["salvaged"],
            &report["keyspaces_known"]
        ),
        (&json!(1), &json!(1), &json!(1))
    );
    let missing = report["missing"][0]["entries"].as_u64().unwrap();
    assert!((1..500).contains(&missing), "{report}");
    assert_eq!(report["entries"], 4000 - missing);
    assert_eq!(report["missing"][0]["keyspace"], "default");
    let range = &report["missing"][0]["ranges"][0];
    assert!(range["from"].as_str() < range["to"].as_str(), "{report}");
    let kept = report["lost"][0]["path"].as_str().unwrap();
    assert_eq!(fs::read(kept).unwrap(), before);
    assert_eq!(report["lost"].as_array().unwrap().len(), 1);
    assert_eq!(object(&place.run("verify", &["--json"]))["damaged"], false);
}

#[test]
fn a_lost_manifest_is_made_again() {
    let place = rewritten();
    fs::remove_file(place.db().join("MANIFEST")).unwrap();
    assert_eq!(
        failure(&place.run("scan", &["--json"]), 4)["kind"],
        "corruption"
    );
    let text = place.text("repair", &NONE);
    assert!(
        text.contains("recovered 4,000 entries from 2 tables"),
        "{text}"
    );
    let count = place.text("count", &["--keyspace", "keyspace-0"]);
    assert_eq!(count, "1000\n", "{}", place.text("keyspaces", &NONE));
}

#[test]
fn a_repair_counts_what_only_the_log_has() {
    let place = Place::new();
    place.fill(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]);
    let text = place.text("repair", &NONE);
    assert_eq!(
        text,
        "recovered 0 entries from 0 tables, 4 entries only in the log; 1 keyspace with its name, 0 \
         only from tables\n"
    );
    let report = object(&place.run("repair", &["--json"]));
    let verified = object(&place.run("verify", &["--json"]));
    assert_eq!(report["log_entries"], 4);
    assert_eq!(verified["log_entries"], 4);
}

#[test]
fn compacting_leaves_what_is_alive() {
    let place = rewritten();
    let part = object(&place.run("compact", &["--json", "--to", "key 0100"]));
    assert_eq!(part["entries_before"], 4000);
    let whole = object(&place.run("compact", &["--json"]));
    assert_eq!(whole["entries"], 1000, "{whole}");
    assert!(whole["table_bytes"].as_u64() < part["table_bytes_before"].as_u64());
    assert_eq!(place.text("count", &NONE), "1000\n");
    assert!(place.text("compact", &NONE).contains("of tables"));
}

/// Returns true if a process has a handler for Ctrl-C, the second signal, as Linux tells.
fn listens(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|it| it.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught & 0b10 != 0
}

#[test]
fn ctrl_c_ends_a_repair_that_says_what_is_kept() {
    let place = Place::new();
    place.fill(&[("a", "1")]);
    let (manifest, kept) = (place.db().join("MANIFEST"), place.path("kept"));
    fs::rename(&manifest, &kept).unwrap();
    // The repair waits for a writer of this pipe.
    let made = Command::new("mkfifo").arg(&manifest).status().unwrap();
    assert!(made.success());
    let mut command = place.command("repair", &NONE);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..500 {
        if listens(&child) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let says = [
        "ended by Ctrl-C; every file is kept",
        "`hedgerow repair` again",
    ];
    fails_saying(&output, 130, &says);
    fs::rename(&kept, &manifest).unwrap();
    assert_eq!(place.text("get", &["a"]), "1\n");
    // The mark of a repair that has begun.
    fs::create_dir_all(place.db().join("lost")).unwrap();
    fs::copy(&manifest, place.db().join("lost/MANIFEST.before")).unwrap();
    let says = "(`repair` ends one that was stopped), found the mark of one under way in ";
    fails_saying(&place.run("get", &["a"]), 4, &[says]);
    place.text("repair", &NONE);
    assert_eq!(place.text("get", &["a"]), "1\n");
}

#[test]
fn ctrl_c_ends_a_compaction_between_two_steps() {
    let interrupted = (0..20).any(|_| {
        let place = Place::new();
        let pairs = many_small_tables(&place);
        let tables = place.db().join("tables");
        let before = files(&tables);
        let mut command = place.command("compact", &["--json"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The command listens before it opens the database and writes tables.
        while child.try_wait().unwrap().is_none() && files(&tables) == before {}
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(place.text("count", &NONE), format!("{pairs}\n"));
        // The command may already have finished.
        let ended = !output.status.success();
        if ended {
            let failure = failure(&output, 130);
            assert_eq!(failure["kind"], "interrupted");
            assert_eq!(failure["message"], "ended by Ctrl-C");
        }
        ended
    });
    assert!(interrupted);
}

/// Puts keys in level 0 that overlap, so that a compaction takes many steps. Returns their number.
fn many_small_tables(place: &Place) -> u64 {
    let db = Db::open(place.db()).unwrap();
    let design = Design {
        table_bytes: Some(4 << 10),
        memtable_bytes: Some(1 << 20),
        ..Design::default()
    };
    let keyspace = db
        .keyspace_with("default", Layout::sorted(), design)
        .unwrap();
    for round in 0..2 {
        for i in 0..20_000 {
            keyspace
                .put(format!("{i:06}"), format!("{i} in {round}"))
                .unwrap();
        }
        db.flush().unwrap();
    }
    db.close().unwrap();
    20_000
}

#[test]
fn a_checkpoint_opens_like_any_other() {
    let place = rewritten();
    let before = place.text("scan", &NONE);
    let copy = place.path("copy");
    let made = object(&place.run("checkpoint", &["--json", copy.to_str().unwrap()]));
    assert_eq!(made["checkpoint"], copy.to_str().unwrap());
    place.text("put", &["later", "1"]);
    let scanned = hedgerow(&["scan", "--db", copy.to_str().unwrap()]);
    assert_eq!(stdout(&scanned), before.as_bytes());
    let again = place.run("checkpoint", &[&copy]);
    fails_saying(&again, 2, &["expected a new or empty directory"]);
}

#[test]
fn changing_commands_wait_for_nobody() {
    let place = rewritten();
    let writer = Db::open(place.db()).unwrap();
    for (name, more) in [
        ("repair", &[][..]),
        ("compact", &[]),
        ("retune", &["--filter", "none"]),
        ("checkpoint", &["copy"]),
    ] {
        assert_eq!(place.run(name, more).status.code(), Some(5), "{name}");
    }
    writer.close().unwrap();
}

#[test]
fn every_command_has_help_with_an_example() {
    let help = stdout(&hedgerow(&["--help"])).to_vec();
    let help = String::from_utf8(help).unwrap();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Longer lines about a command continue further on the right.
    let names: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.len() >= 14, "{names:?}");
    for name in names {
        for flag in ["-h", "--help"] {
            let text = String::from_utf8(stdout(&hedgerow(&[name, flag])).to_vec()).unwrap();
            assert!(text.contains("Example"), "{name}: {text}");
            assert!(text.contains(&format!("hedgerow {name}")), "{name}: {text}");
            assert!(text.contains("--json"), "{name}: {text}");
        }
    }
}

#[test]
fn shells_can_complete_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script =
            String::from_utf8(stdout(&hedgerow(&["completions", shell])).to_vec()).unwrap();
        for word in ["checkpoint", "keyspaces", "memory-budget"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let output = hedgerow(&["completions", "--json", shell]);
        assert_eq!(object(&output)["shell"], shell);
    }
    assert_eq!(hedgerow(&["completions", "none"]).status.code(), Some(2));
}

#[test]
fn levels_have_directories_of_their_own() {
    let place = Place::new();
    let slow = place.db().with_file_name("slow");
    let paths = format!("0-={};log={}", slow.display(), slow.display());
    place.text("put", &["--level-paths", &paths, "key", "value"]);
    // The directory is stored in the database.
    place.text("put", &["other", "value"]);
    place.text("compact", &NONE);
    place.text("verify", &NONE);
    assert!(files(&slow.join("tables")).len() == 1 && !files(&slow.join("log")).is_empty());
    assert!(files(&place.db().join("tables")).is_empty());
    let db = place.db();
    let manifest = hedgerow(&["inspect", "manifest", "--db", db.to_str().unwrap()]);
    let manifest = String::from_utf8_lossy(stdout(&manifest)).into_owned();
    assert!(manifest.contains(&format!("levels 0 to 31 in {}", slow.display())));
    assert!(manifest.contains(", place 1: "), "{manifest}");

    // The database reports a directory that was moved, and opens with its new path.
    let moved = place.db().with_file_name("moved");
    fs::rename(&slow, &moved).unwrap();
    let refused = place.run("get", &["key"]);
    fails_saying(&refused, 2, &["expected a directory of the database"]);
    let paths = paths.replace("slow", "moved");
    assert_eq!(
        place.text("get", &["--level-paths", &paths, "key"]).trim(),
        "value"
    );
    place.text("repair", &["--level-paths", &paths]);
    assert_eq!(place.text("get", &["key"]).trim(), "value");
}
