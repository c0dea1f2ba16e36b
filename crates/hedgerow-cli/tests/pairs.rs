//! `put`, `get`, `del`, `scan`, `count`, `keyspaces`: one pair, and ranges of them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Read;
use std::process::Stdio;

use hedgerow::{Db, Layout};
use serde_json::{Value, json};
use support::{Place, fails_saying, failure, object, stdout};

const NONE: [&str; 0] = [];

fn people() -> Place {
    let place = Place::new();
    place.fill(&[
        ("ada", "1815"),
        ("alan", "1912"),
        ("emmy", "1882"),
        ("grace", "1906"),
    ]);
    place
}

#[test]
fn what_is_put_can_be_got_until_it_is_deleted() {
    let place = Place::new();
    assert_eq!(place.text("put", &["ada", "1815"]), "");
    assert_eq!(place.text("put", &["ada", "1816"]), "");
    assert_eq!(place.text("get", &["ada"]), "1816\n");
    assert_eq!(
        object(&place.run("get", &["--json", "ada"])),
        json!({ "key": "ada", "value": "1816" })
    );
    let deleted = object(&place.run("del", &["--json", "ada", "never there"]));
    assert_eq!(deleted, json!({ "keyspace": "default", "deleted": 2 }));
    fails_saying(
        &place.run("get", &["ada"]),
        3,
        &["expected a value of `ada`, found none"],
    );
    assert_eq!(
        failure(&place.run("get", &["--json", "ada"]), 3)["kind"],
        "not-found"
    );
}

#[test]
fn keyspaces_are_apart() {
    let place = Place::new();
    place.text("put", &["--keyspace", "a", "key", "1"]);
    place.text("put", &["--keyspace", "b", "key", "2"]);
    assert_eq!(place.text("get", &["--keyspace", "a", "key"]), "1\n");
    assert_eq!(place.text("get", &["--keyspace", "b", "key"]), "2\n");
    let none = place.run("get", &["key"]);
    fails_saying(
        &none,
        3,
        &["expected the keyspace `default`, found `a`, `b`"],
    );
}

#[test]
fn a_keyspace_of_any_layout_is_written() {
    let place = Place::new();
    let db = Db::open(place.db()).unwrap();
    db.keyspace("default", Layout::sorted().hash(3)).unwrap();
    db.close().unwrap();
    place.text("put", &["key", "value"]);
    assert_eq!(place.text("scan", &NONE), "key\tvalue\n");
    let listed = object(&place.run("keyspaces", &["--json"]));
    assert_eq!(listed["partitions"], 3);
    assert_eq!(listed["layout"], "sorted hash:3");
}

#[test]
fn a_keyspace_is_divided_as_it_is_said_when_it_is_made() {
    let place = Place::new();
    let by_range = r"range:h,q\x2c";
    for (key, value) in [("apple", "1"), ("i", "2"), ("q,", "3")] {
        place.text("put", &["--partitions", by_range, key, value]);
    }
    assert_eq!(place.text("scan", &NONE), "apple\t1\ni\t2\nq,\t3\n");
    let listed = object(&place.run("keyspaces", &["--json"]));
    assert_eq!(listed["partitions"], 3);
    assert_eq!(listed["layout"], r"sorted range:h,q\x2c");
    // The layout does not change.
    place.text("put", &["z", "4"]);
    let refused = place.run("put", &["--partitions", "hash:3", "z", "5"]);
    fails_saying(
        &refused,
        2,
        &["expected the keyspace `default` to have the layout sorted hash:3, found sorted range:h"],
    );
    let unknown = place.run("put", &["--partitions", "range:b,a", "z", "5"]);
    let text = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(2), "{text}");
    let expected = "expected ascending split keys, found `a` after `b`";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn bytes_can_be_given_and_shown_in_three_ways() {
    let place = Place::new();
    place.text("put", &["--hex", "00Ff0a", "5c"]);
    assert_eq!(place.text("get", &["--base64", "AP8K"]), "XA==\n");
    assert_eq!(place.text("get", &[r"\x00\xff\n"]), "\\\\\n");
    assert_eq!(place.text("scan", &NONE), "\\x00\\xff\\n\t\\\\\n");
    assert_eq!(place.text("scan", &["--hex"]), "00ff0a\t5c\n");
    assert_eq!(
        object(&place.run("scan", &["--json"])),
        json!({ "key": { "base64": "AP8K" }, "value": "\\" })
    );
    assert_eq!(place.text("count", &["--hex", "--prefix", "00"]), "1\n");

    fails_saying(
        &place.run("put", &["--hex", "0g", "00"]),
        2,
        &["hexadecimal", "`0g`"],
    );
    fails_saying(&place.run("put", &[r"C:\dir", ""]), 2, &[r"found `\d`"]);
    let both = place.run("put", &["--hex", "--base64", "00", "00"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn a_value_can_be_piped_in_and_out() {
    let place = Place::new();
    let value = b"\xff\\ two\nlines\n\x00";
    stdout(&place.run_with_input("put", &["key", "-"], value));
    assert_eq!(stdout(&place.run("get", &["--raw", "key"])), value);
    assert_eq!(
        place.text("get", &["key"]),
        "\\xff\\\\ two\\nlines\\n\\x00\n"
    );
}

#[test]
fn a_range_is_scanned_from_either_end() {
    let place = people();
    let keys = |more: &[&str]| {
        let text = place.text("scan", &[&["--keys-only"], more].concat());
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let reverse = place.text("scan", &[&["--keys-only", "--reverse"], more].concat());
        let mut reversed: Vec<String> = reverse.lines().map(str::to_owned).collect();
        reversed.reverse();
        assert_eq!(lines, reversed, "{more:?}");
        let count = place.text("count", more);
        assert_eq!(count, format!("{}\n", lines.len()), "{more:?}");
        lines.join(" ")
    };
    assert_eq!(keys(&[]), "ada alan emmy grace");
    assert_eq!(keys(&["--from", "alan"]), "alan emmy grace");
    assert_eq!(keys(&["--to", "emmy"]), "ada alan");
    assert_eq!(keys(&["--from", "ae", "--to", "f"]), "alan emmy");
    assert_eq!(keys(&["--from", "f", "--to", "b"]), "");
    assert_eq!(keys(&["--prefix", "a"]), "ada alan");
    assert_eq!(keys(&["--prefix", "adam"]), "");
    assert_eq!(
        place.text("scan", &["--limit", "1", "--reverse"]),
        "grace\t1906\n"
    );
    assert_eq!(place.text("scan", &["--limit", "0"]), "");
    assert_eq!(
        place
            .run("scan", &["--prefix", "a", "--to", "b"])
            .status
            .code(),
        Some(2)
    );
    let all = place.text("count", &NONE);
    assert_eq!(place.text("count", &["--from", ""]), all);
    assert_eq!(place.text("count", &["--prefix", ""]), all);
}

#[test]
fn a_range_is_deleted_and_nothing_beside_it() {
    let kept = |range: &[&str], keys: &[&str]| {
        let place = people();
        let words = [&["--json"], range, keys].concat();
        let deleted = object(&place.run("del", &words));
        let keys = keys.len();
        let expected = json!({ "keyspace": "default", "deleted": keys, "ranges_deleted": 1 });
        assert_eq!(deleted, expected, "{words:?}");
        place.text("scan", &NONE)
    };
    let emmy_and_grace = "emmy\t1882\ngrace\t1906\n";
    assert_eq!(kept(&["--prefix", "a"], &[]), emmy_and_grace);
    assert_eq!(kept(&["--prefix", "a"], &["grace"]), "emmy\t1882\n");
    assert_eq!(kept(&["--from", "alan"], &[]), "ada\t1815\n");
    assert_eq!(kept(&["--to", "emmy"], &[]), emmy_and_grace);
    let between = kept(&["--from", "alan", "--to", "grace"], &[]);
    assert_eq!(between, "ada\t1815\ngrace\t1906\n");
}

#[test]
fn json_streams_have_an_object_per_line() {
    let place = people();
    let text = place.text("scan", &["--json", "--prefix", "a"]);
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let expected = [
        json!({ "key": "ada", "value": "1815" }),
        json!({ "key": "alan", "value": "1912" }),
    ];
    assert_eq!(lines, expected);
    let keys = place.text("scan", &["--json", "--keys-only", "--limit", "1"]);
    assert_eq!(keys, "{\"key\":\"ada\"}\n");
    let count = object(&place.run("count", &["--json"]));
    assert_eq!(count, json!({ "keyspace": "default", "count": 4 }));
    let listed = object(&place.run("keyspaces", &["--json"]));
    assert_eq!(
        (&listed["name"], &listed["entries"]),
        (&json!("default"), &json!(4))
    );
    assert_eq!(listed["design"]["filter"], "monkey");
    let table = place.text("keyspaces", &NONE);
    assert!(
        table.lines().nth(1).unwrap().starts_with("default  sorted"),
        "{table}"
    );
}

#[test]
fn reading_works_beside_a_writer_and_writing_does_not() {
    let place = people();
    let writer = Db::open(place.db()).unwrap();
    assert_eq!(place.text("get", &["ada"]), "1815\n");
    assert_eq!(place.text("count", &NONE), "4\n");
    for (name, more) in [
        ("put", &["ada", "1"][..]),
        ("repair", &[]),
        ("bench", &["fillseq"]),
        ("serve", &["--port", "0"]),
    ] {
        let process = format!("process {}", std::process::id());
        fails_saying(&place.run(name, more), 5, &["the only writer", &process]);
    }
    assert_eq!(
        failure(&place.run("del", &["--json", "ada"]), 5)["kind"],
        "locked"
    );
    writer.close().unwrap();
}

#[test]
fn only_put_and_load_make_a_database() {
    let place = Place::new();
    for (name, more) in [
        ("get", &["key"][..]),
        ("del", &["key"]),
        ("scan", &[]),
        ("count", &[]),
        ("dump", &[]),
        ("keyspaces", &[]),
        ("verify", &[]),
        ("repair", &[]),
        ("compact", &[]),
        ("checkpoint", &["copy"]),
        ("stats", &[]),
        ("advise", &[]),
        ("largest", &[]),
        ("changes", &["--since", "0"]),
        ("clear", &["default"]),
        ("drop", &["default"]),
        ("rename", &["default", "other"]),
        ("retune", &["--policy", "leveling:4"]),
        ("export", &["file"]),
    ] {
        fails_saying(
            &place.run(name, more),
            3,
            &["expected a database, found none in"],
        );
        assert!(!place.db().exists(), "{name}");
    }
    std::fs::create_dir(place.db()).unwrap();
    std::fs::create_dir(place.db().join("letters")).unwrap();
    let refused = place.run("put", &["key", "value"]);
    fails_saying(&refused, 2, &["found other files"]);
}

#[test]
fn what_a_key_or_value_cannot_be_is_usage() {
    let place = people();
    let long = "x".repeat(hedgerow::KEY_BYTES_MAX + 1);
    fails_saying(&place.run("put", &[long.as_str(), "value"]), 2, &["key"]);
    fails_saying(&place.run("get", &[&long]), 2, &["key"]);
    let long = vec![b'x'; hedgerow::VALUE_BYTES_MAX + 1];
    fails_saying(
        &place.run_with_input("put", &["key", "-"], &long),
        2,
        &["value"],
    );
}

#[test]
fn the_empty_key_is_written_shown_and_streamed() {
    let place = Place::new();
    place.text("put", &["", "value"]);
    place.text("put", &["a", ""]);
    assert_eq!(place.text("get", &[""]), "value\n");
    assert_eq!(place.text("scan", &NONE), "\tvalue\na\t\n");
    assert_eq!(place.text("scan", &["--to", "a"]), "\tvalue\n");
    for format in ["json", "csv"] {
        let dumped = place.text("dump", &["--format", format]);
        let copy = Place::new();
        stdout(&copy.run_with_input("load", &["--format", format], dumped.as_bytes()));
        assert_eq!(copy.text("scan", &NONE), "\tvalue\na\t\n", "{format}");
    }
    place.text("del", &[""]);
    assert_eq!(place.text("scan", &NONE), "a\t\n");
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let place = Place::new();
    let pairs: Vec<_> = (0..20_000)
        .map(|i| (format!("{i:06}"), "x".repeat(40)))
        .collect();
    place.fill(&pairs);
    for (name, more) in [
        ("scan", &[][..]),
        ("scan", &["--json"]),
        ("dump", &["--format", "csv"]),
    ] {
        let mut command = place.command(name, more);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut beginning = [0; 10];
        child
            .stdout
            .take()
            .unwrap()
            .read_exact(&mut beginning)
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}");
        assert!(output.stderr.is_empty(), "{name}");
    }
}

#[test]
fn keys_without_an_order_are_scanned_by_prefix_and_as_a_whole() {
    let place = Place::new();
    let mut lines = "key,value\n".to_owned();
    for source in ["ada", "alan", "grace"] {
        for target in 0..5 {
            lines += &format!("{source}>{target},{target}\n");
        }
    }
    let order = "semi-sorted:delimiter=>";
    let load = ["--order", order, "--format", "csv"];
    stdout(&place.run_with_input("load", &load, lines.as_bytes()));
    place.text("put", &["alan>6", "6"]);
    assert_eq!(place.text("get", &["alan>6"]), "6\n");
    let listed = object(&place.run("keyspaces", &["--json"]));
    assert_eq!(listed["order"], order);
    assert_eq!(place.text("count", &NONE), "16\n");
    assert_eq!(place.text("count", &["--prefix", "alan"]), "6\n");
    let scanned = place.text("scan", &["--prefix", "ada", "--keys-only"]);
    let mut keys: Vec<&str> = scanned.lines().collect();
    keys.sort_unstable();
    assert_eq!(keys, ["ada>0", "ada>1", "ada>2", "ada>3", "ada>4"]);
    let mut explain = support::command(&["explain", "get", "--json", "--db"]);
    let explained = object(&explain.arg(place.db()).arg("ada>3").output().unwrap());
    assert_eq!(explained["value_bytes"], 1);

    // The whole keyspace, in pieces.
    let mut seen = Vec::new();
    let mut resume = Vec::new();
    loop {
        let mut arguments = vec!["--json", "--unordered", "--limit", "5"];
        arguments.extend(resume.iter().map(String::as_str));
        let text = place.text("scan", &arguments);
        let mut objects: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let token = objects.pop_if(|object| !object["resume"].is_null());
        seen.extend(
            objects
                .iter()
                .map(|o| o["key"].as_str().unwrap().to_owned()),
        );
        let Some(token) = token else { break };
        let token = token["resume"].as_str().unwrap().to_owned();
        resume = vec!["--resume".to_owned(), token];
    }
    seen.sort();
    assert_eq!(seen.len(), 16);
    seen.dedup();
    assert_eq!(seen.len(), 16);
    let told = place.run("scan", &["--unordered", "--limit", "5"]);
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.starts_with("there is more: --resume "), "{told}");

    // A dump loads again, in any order.
    place.text("dump", &["dumped.json"]);
    place.text(
        "load",
        &["--keyspace", "again", "--order", "hashed", "dumped.json"],
    );
    assert_eq!(place.text("count", &["--keyspace", "again"]), "16\n");

    let parts = ["use `--prefix`", "leave out the range", "second keyspace"];
    fails_saying(&place.run("scan", &["--from", "ada"]), 2, &parts);
    let parts = [&parts[..], &["--prefix and --unordered"]].concat();
    fails_saying(&place.run("scan", &NONE), 2, &parts);
    let short = place.run("put", &["ada", "1"]);
    fails_saying(&short, 2, &["expected a key with the delimiter 0x3e"]);
    let other = place.run("put", &["--order", "hashed", "ada>1", "1"]);
    assert_eq!(other.status.code(), Some(2));
    let wrong = place.run("scan", &["--unordered", "--resume", "00ff00ff00"]);
    fails_saying(
        &wrong,
        2,
        &["expected a token of a scan of the keyspace `default`"],
    );
}
