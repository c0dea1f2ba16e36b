//! `shell`, `drop`, `clear`, `rename`, `largest`, `HEDGEROW_DB`, and loads that end early.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "input files are made with std::fs"
)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use hedgerow::{Db, Layout};
use rustix::process::{Pid, Signal, kill_process};
use support::{Place, command, fails_saying, hedgerow, stdout};

const NONE: [&str; 0] = [];

/// Runs the shell over a pipe.
fn shell(db: &Path, lines: &str, more: &[&str]) -> Output {
    let mut command = command(&["shell"]);
    command.env("HEDGEROW_DB", db).args(more);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(stdout(output).to_vec()).unwrap()
}

#[test]
fn a_pipe_of_commands_runs_on_one_database() {
    let place = Place::new();
    let lines = "\
# who was born when
put ada 1815
put 'grace hopper' 1906
get ada
use drafts
put note 'a \"quoted\" word'
scan
use default
scan --keys-only
exit
put never 1
";
    let output = shell(&place.db(), lines, &[]);
    assert_eq!(
        text(&output),
        "1815\nnote\ta \"quoted\" word\nada\ngrace hopper\n"
    );
    let json = text(&shell(&place.db(), "get ada", &["--json"]));
    assert!(json.contains("\"1815\""), "{json}");
}

#[test]
fn what_is_behind_dashes_is_no_flag() {
    let place = Place::new();
    let lines = "put -- --keyspace x\nget -- --keyspace\n";
    let output = shell(&place.db(), lines, &["--keyspace", "drafts"]);
    assert_eq!(text(&output), "x\n");
    let drafts = place.text("scan", &["--keyspace", "drafts"]);
    assert_eq!(drafts, "--keyspace\tx\n");
    let output = place.run("get", &["--keyspace", "drafts", "--", "--json"]);
    fails_saying(&output, 3, &["hedgerow: expected a value of `--json`"]);
}

#[test]
fn the_first_command_that_fails_ends_a_file() {
    let place = Place::new();
    let lines = "put ada 1815\n\nget bob\nput never 1\n";
    fails_saying(&shell(&place.db(), lines, &[]), 3, &["line 3: "]);
    fails_saying(
        &shell(&place.db(), "get 'ada", &[]),
        2,
        &["line 1: ", "closing quote"],
    );
    fails_saying(&shell(&place.db(), "shell", &[]), 2, &["line 1: "]);
    fails_saying(
        &shell(&place.db(), "fetch ada", &[]),
        2,
        &["line 1: ", "fetch"],
    );
    let help = shell(&place.db(), "help get\nget ada", &[]);
    assert!(text(&help).ends_with("1815\n"));
    assert_eq!(text(&shell(&place.db(), "count", &[])), "1\n");
}

#[test]
fn a_file_of_commands_runs_on_one_database() {
    let place = Place::new();
    let file = place.path("commands");
    let shell = |lines: &str| {
        fs::write(&file, lines).unwrap();
        place.run("shell", &[&file])
    };
    let said = text(&shell("use drafts\nput note 1\nscan\nquit\nput never 1\n"));
    assert_eq!(said, "note\t1\n");
    let failed = shell("use drafts\nput other 2\nget never\nput third 3\n");
    fails_saying(&failed, 3, &["line 3: ", "`never`"]);
    let kept = place.text("scan", &["--keyspace", "drafts"]);
    assert_eq!(kept, "note\t1\nother\t2\n");
}

#[test]
fn help_names_the_commands_of_the_shell_too() {
    let place = Place::new();
    for said in [
        shell(&place.db(), "help", &[]),
        hedgerow(&["shell", "--help"]),
    ] {
        let said = text(&said);
        for own in ["  use drafts", "  exit, quit"] {
            assert!(said.contains(own), "{said}");
        }
    }
    let said = text(&shell(&place.db(), "help get", &[]));
    assert!(!said.contains("quit"), "{said}");
}

#[test]
fn keyspaces_are_renamed_cleared_and_dropped() {
    let place = Place::new();
    let lines =
        "put a 1\nrename default people\nuse people\nget a\nclear people\ncount\ndrop people";
    let output = text(&shell(&place.db(), lines, &[]));
    assert_eq!(
        output,
        "renamed `default` to `people`\n1\ncleared `people`\n0\ndropped `people`\n"
    );
    for name in ["drop", "clear"] {
        let output = place.run(name, &["people"]);
        fails_saying(&output, 3, &["expected the keyspace `people`, found none"]);
    }
}

#[test]
fn the_largest_keys_and_prefixes_come_first() {
    let place = Place::new();
    place.fill(&[
        ("a/1".to_owned(), "x"),
        ("a/2".to_owned(), "xxxxxxx"),
        ("b/1".to_owned(), "xxxxx"),
        ("none".to_owned(), "xxxxxx"),
    ]);
    let largest = |more: &[&str]| {
        let output = place.run("largest", more);
        let text = text(&output);
        let words = text.split_whitespace().map(str::to_owned);
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        largest(&["--top", "2"]),
        "value key 7 B a/2 6 B none bytes entries prefix 14 B 2 a/ 8 B 1 b/"
    );
    assert_eq!(
        largest(&["--top", "1", "--prefix-bytes", "3"]),
        "value key 7 B a/2 bytes entries prefix 10 B 1 a/2"
    );
    assert_eq!(
        largest(&["--top", "1", "--delimiter", ":"]),
        "value key 7 B a/2 no key has a `:`; `--delimiter` names another end of prefixes"
    );
    assert_eq!(
        largest(&["--top", "1", "--prefix-bytes", "99"]),
        "value key 7 B a/2 no key has 99 bytes or more"
    );
    assert_eq!(largest(&["--top", "0"]), "value key bytes entries prefix");
    assert_eq!(largest(&["--from", "x"]), "value key there are no keys");
}

#[test]
fn a_load_that_skips_more_than_its_input_has_fails() {
    let place = Place::new();
    let load = |skip| {
        let more = ["--format", "tsv", "--skip", skip];
        place.run_with_input("load", &more, b"a\t1\nb\t2\nc\t3\n")
    };
    stdout(&load("3"));
    fails_saying(
        &load("99"),
        2,
        &["at least 99 entries", "`--skip`", "found one of 3"],
    );
}

#[test]
fn a_load_resumes_at_a_malformed_line_among_those_it_skips() {
    let place = Place::new();
    let load = |skip, lines: &str| {
        let more = ["--format", "tsv", "--skip", skip];
        place.run_with_input("load", &more, lines.as_bytes())
    };
    let lines = "a\t1\nb\nc\t3\nd\t4\n";
    fails_saying(
        &load("3", lines),
        1,
        &["line 2", "`--skip 1` resumes there"],
    );
    fails_saying(&load("3", "b\nc\t3\n"), 1, &["nothing was loaded"]);
    // The last one that is passed over, and the first one that is not.
    fails_saying(&load("2", lines), 1, &["`--skip 1` resumes there"]);
    fails_saying(&load("1", lines), 1, &["`--skip 1` resumes there"]);
    let mended = lines.replace("b\n", "b\t2\n");
    stdout(&load("1", &mended));
    assert_eq!(place.text("scan", &NONE), "b\t2\nc\t3\nd\t4\n");
}

#[test]
fn a_load_that_ends_early_goes_on_where_it_ended() {
    let place = Place::new();
    let file = place.path("in.csv");
    let path = file.to_str().unwrap();
    // Both ways of a load: tables of sorted keys, and batches.
    for (name, entries) in [("sorted", 60_000), ("unsorted", 200)] {
        let line = |i: u32| match name {
            "sorted" => format!("{i:010},0123456789abcdef0123456789abcdef\n"),
            _ => format!("{:010},x\n", i.wrapping_mul(2_654_435_761)),
        };
        let (before, behind) = (0..entries / 2, entries / 2..entries);
        let [before, behind] = [before, behind].map(|part| part.map(line).collect::<String>());
        fs::write(&file, format!("key,value\n{before}bad\n{behind}")).unwrap();
        let line = format!("line {}: expected 2 fields, found 1", entries / 2 + 2);
        let skip = (entries / 2).to_string();
        let says = format!("`--skip {skip}` resumes there");
        let load = place.run("load", &["--keyspace", name, path]);
        fails_saying(&load, 1, &[&line, &says]);
        fs::write(&file, format!("key,value\n{before}{behind}")).unwrap();
        let rest = place.text("load", &["--skip", &skip, "--keyspace", name, path]);
        assert!(rest.starts_with(&format!("loaded {} entries", count(entries / 2))));
        let counted = place.text("count", &["--keyspace", name]);
        assert_eq!(counted.trim(), entries.to_string());
    }
}

/// A count as the program prints it.
fn count(n: u32) -> String {
    match n / 1000 {
        0 => n.to_string(),
        thousands => format!("{thousands},{:03}", n % 1000),
    }
}

/// Ctrl-C comes while the input has nothing more, or has a line that it has cut.
#[test]
fn ctrl_c_keeps_what_is_loaded() {
    // Both ways of a load: batches, and tables of sorted keys.
    let sorted = (0..20_000).map(|i| format!("a{i:010}\t{i:0100}\n"));
    for lines in ["a\t1\nb\t2\n".to_owned(), sorted.collect()] {
        for more in [None, Some(&b"c\t3"[..])] {
            load_and_interrupt(&lines, more);
        }
    }
}

fn load_and_interrupt(lines: &str, more: Option<&[u8]>) {
    let place = Place::new();
    let mut command = command(&["load", "--format", "tsv"]);
    command.env("HEDGEROW_DB", place.db()).stdin(Stdio::piped());
    let mut load = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut input = load.stdin.take().unwrap();
    // The command has read all but what a pipe holds.
    input.write_all(lines.as_bytes()).unwrap();
    input.flush().unwrap();
    // The command listens before it creates the database.
    while !place.db().join("MANIFEST").exists() {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&load), Signal::INT).unwrap();
    let open = match more {
        Some(more) => {
            let _ = input.write_all(more);
            drop(input);
            None
        }
        None => Some(input),
    };
    let output = load.wait_with_output().unwrap();
    drop(open);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(130), "{said}");
    let kept = place.text("scan", &NONE);
    assert!(lines.starts_with(&kept), "{kept}");
    // A load of tables begins at 1 MiB, and keeps at least that.
    assert!(lines.len() < 2 << 20 || kept.len() > 1 << 20, "{said}");
    let count = kept.lines().count();
    let says = match count {
        0 => "; nothing was loaded".to_owned(),
        _ => format!("`--skip {count}` resumes there"),
    };
    assert!(said.contains("ended by Ctrl-C"), "{said}");
    assert!(said.contains(&says), "{said}, {count}");
    let whole = format!("{lines}c\t33\n");
    let skip = ["--format", "tsv", "--skip", &count.to_string()];
    stdout(&place.run_with_input("load", &skip, whole.as_bytes()));
    assert!(place.text("scan", &NONE) == whole, "{said}");
}

/// Ctrl-C comes while `put -` waits for more, or has a value that it has cut.
#[test]
fn ctrl_c_leaves_no_part_of_a_value() {
    for is_open in [true, false] {
        let place = Place::new();
        let mut command = place.command("put", &["k", "-"]);
        let mut put = command
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = put.stdin.take().unwrap();
        // More than a pipe holds: the command has read some of it, so it listens.
        input.write_all(&[b'x'; 1 << 20]).unwrap();
        kill_process(Pid::from_child(&put), Signal::INT).unwrap();
        let open = is_open.then_some(input);
        let output = put.wait_with_output().unwrap();
        drop(open);
        fails_saying(&output, 130, &["ended by Ctrl-C"]);
        assert!(!place.db().exists());
    }
}

/// Ctrl-C ends the watch, which is no failure, and the shell that it runs in.
#[test]
fn ctrl_c_ends_a_watch_and_the_commands_after_it() {
    let place = Place::new();
    place.text("put", &["a", "1"]);
    let watch = ["stats", "--watch", "1000", "--json"];
    let mut alone = command(&watch);
    let (output, line) = watch_and_interrupt(alone.env("HEDGEROW_DB", place.db()), "");
    assert!(output.status.success(), "{output:?}");
    assert!(line.contains("\"keyspaces\""), "{line}");

    let lines = format!("{}\nput never 1\n", watch.join(" "));
    let mut shell = command(&["shell"]);
    let (output, line) = watch_and_interrupt(shell.env("HEDGEROW_DB", place.db()), &lines);
    fails_saying(&output, 130, &["line 1: ended by Ctrl-C"]);
    assert!(line.contains("\"keyspaces\""), "{line}");
    assert_eq!(place.text("scan", &NONE), "a\t1\n");
}

/// Runs a command up to its first line of output, which it returns, and sends Ctrl-C then.
fn watch_and_interrupt(command: &mut Command, input: &str) -> (Output, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut watch = command.stderr(Stdio::piped()).spawn().unwrap();
    watch
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(watch.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    (watch.wait_with_output().unwrap(), line)
}

/// Ctrl-C comes while a command prints more than a pipe holds.
#[test]
fn ctrl_c_ends_what_reads_many_keys() {
    let place = Place::new();
    let db = Db::open(place.db()).unwrap();
    db.create_slot("index", 1 << 30).unwrap();
    let keyspace = db.keyspace("default", Layout::sorted()).unwrap();
    for i in 0..20_000 {
        keyspace
            .put(format!("key {i:06}"), "v".repeat(100))
            .unwrap();
    }
    db.close().unwrap();
    let lines = place.path("lines");
    fs::write(&lines, "scan\nput never 1\n").unwrap();
    for (words, says) in [
        (&["scan"][..], "ended by Ctrl-C"),
        (&["scan", "--unordered"], "ended by Ctrl-C"),
        (&["dump"], "ended by Ctrl-C"),
        (&["changes", "--slot", "index"], "ended by Ctrl-C"),
        (
            &["shell", lines.to_str().unwrap()],
            "line 1: ended by Ctrl-C",
        ),
    ] {
        let mut command = command(words);
        command.env("HEDGEROW_DB", place.db());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
        output.next().unwrap().unwrap();
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert!(output.count() < 19_000, "{words:?}");
        let said = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(130), "{words:?}: {text}");
        assert!(text.contains(says), "{words:?}: {text}");
        let token = text.contains("there is more: --resume ");
        assert_eq!(token, words.contains(&"--unordered"), "{text}");
    }
    assert_eq!(place.text("count", &NONE), "20000\n");
}

#[test]
fn no_command_takes_the_commands_of_a_shell_for_data() {
    let place = Place::new();
    for line in ["put k -", "load", "load -"] {
        let output = shell(&place.db(), &format!("put a 1\n{line}\nput b 2\n"), &[]);
        fails_saying(&output, 2, &["line 2: ", "the commands of this shell"]);
    }
    assert_eq!(place.text("scan", &NONE), "a\t1\n");
}

#[test]
fn an_empty_key_of_a_range_deletes_nothing() {
    let place = Place::new();
    place.text("put", &["a", "1"]);
    for range in [
        &["--prefix", ""][..],
        &["--from", ""],
        &["--to", ""],
        &["--from", "", "--to", "b"],
        &["--from", "a", "--to", ""],
    ] {
        let output = place.run("del", range);
        fails_saying(&output, 2, &["at least one byte", "`hedgerow clear NAME`"]);
    }
    assert_eq!(place.text("scan", &NONE), "a\t1\n");
}

#[test]
fn copies_lie_outside_of_their_database() {
    let place = Place::new();
    place.text("put", &["a", "1"]);
    let create = |db: &str, repository: &str| {
        let words = ["backup", "create", "--db", db, repository];
        command(&words).current_dir(place.db()).output().unwrap()
    };
    let db = place.db();
    let inside = db.join("backups");
    for repository in ["backups", "../db/backups", inside.to_str().unwrap()] {
        fails_saying(&create(".", repository), 2, &["outside of the database"]);
        let mut checkpoint = command(&["checkpoint", "--db", ".", repository]);
        let output = checkpoint.current_dir(place.db()).output().unwrap();
        fails_saying(&output, 2, &["outside of the database"]);
    }
    assert!(!inside.exists());
    stdout(&create(".", "../backups"));
    stdout(&create(db.to_str().unwrap(), "../backups"));
}

#[test]
fn a_locked_database_names_its_process() {
    let place = Place::new();
    let writer = Db::open(place.db()).unwrap();
    writer.keyspace("default", Layout::sorted()).unwrap();
    let process = format!("process {} (`", std::process::id());
    let output = place.run("put", &["a", "1"]);
    fails_saying(&output, 5, &[&process, "`scan`", "work beside it"]);
    stdout(&place.run("scan", &NONE));
}

#[test]
fn the_environment_names_the_database() {
    let place = Place::new();
    let output = command(&["put", "a", "1"])
        .env("HEDGEROW_DB", place.db())
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(place.text("get", &["a"]), "1\n");
    fails_saying(&hedgerow(&["get", "--db", "/none", "a"]), 3, &["/none"]);
}
