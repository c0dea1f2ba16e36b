//! `load` and `dump`: pairs from and to files and pipes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the files are made with std::fs")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use hedgerow::{Db, Expiry, Layout, MergeError, MergeOperator};
use proptest::prelude::*;
use serde_json::json;
use support::{Place, fails_saying, object, stdout};

const NONE: [&str; 0] = [];

fn contents(place: &Place) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let db = Db::builder(place.db()).read_only(true).open().unwrap();
    let keyspace = db.existing_keyspace("default").unwrap();
    let pairs = keyspace.scan::<&[u8]>(..).unwrap();
    pairs
        .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Any bytes, and bytes with a meaning in the formats.
fn bytes(min: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), min..40),
        prop::collection::vec(
            prop::sample::select(b",\"\\\r\n\t\x00\xff{}[]:x".to_vec()),
            min..8
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_dumped_is_loaded_exactly(
        pairs in prop::collection::btree_map(bytes(1), bytes(0), 0..60),
        name in prop::sample::select(vec!["pairs.jsonl", "pairs.csv"]),
        encoding in prop::sample::select(vec![None, Some("--hex"), Some("--base64")]),
        piped in any::<bool>(),
    ) {
        let (from, to) = (Place::new(), Place::new());
        from.fill(&pairs.clone().into_iter().collect::<Vec<_>>());
        let format = name.split_once('.').unwrap().1.replace("jsonl", "json");
        let mut flags = vec!["--format", &format];
        flags.extend(encoding);
        if piped {
            let dumped = from.run("dump", &flags);
            stdout(&to.run_with_input("load", &flags, stdout(&dumped)));
        } else {
            let file = from.path(name);
            let mut arguments: Vec<&str> = encoding.into_iter().collect();
            arguments.push(file.to_str().unwrap());
            let dumped = object(&from.run("dump", &[&["--json"], &*arguments].concat()));
            prop_assert_eq!(&dumped["entries"], &json!(pairs.len()));
            let loaded = object(&to.run("load", &[&["--json", "--sync"], &*arguments].concat()));
            prop_assert_eq!(&loaded["entries"], &json!(pairs.len()));
        }
        prop_assert_eq!(contents(&to), pairs);
    }
}

#[test]
fn later_pairs_replace_earlier_ones() {
    let place = Place::new();
    place.fill(&[("a", "before"), ("b", "before")]);
    let lines = [("b", "1"), ("c", "1"), ("c", "2"), ("a", "3"), ("c", "4")];
    let csv: String = lines
        .map(|(key, value)| format!("{key},{value}\n"))
        .concat();
    let input = format!("key,value\n{csv}");
    stdout(&place.run_with_input("load", &["--format", "csv"], input.as_bytes()));
    assert_eq!(place.text("scan", &NONE), "a\t3\nb\t1\nc\t4\n");
}

#[test]
fn files_of_other_programs_are_loaded() {
    let place = Place::new();
    fs::write(
        place.path("a.csv"),
        "\u{feff}key,value\r\nC:\\dir,\"say \"\"hi\"\"\"\r\n",
    )
    .unwrap();
    fs::write(
        place.path("b.ndjson"),
        "\n {\"value\": \"\\u00e9\\n\", \"key\": \"k\"} \r\n\n",
    )
    .unwrap();
    let text = place.text("load", &["a.csv", "b.ndjson"]);
    assert_eq!(text, "loaded 2 entries, 18 B, into `default`\n");
    let expected = [(r"C:\dir", "say \"hi\""), ("k", "é\n")];
    let expected = expected.map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()));
    assert_eq!(contents(&place), BTreeMap::from(expected));
}

#[test]
fn a_range_is_dumped() {
    let place = Place::new();
    place.fill(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let dumped = place.text("dump", &["--from", "b", "--format", "csv"]);
    assert_eq!(dumped, "key,value\nb,2\nc,3\n");
    let dumped = place.text("dump", &["--prefix", "a", "-"]);
    assert_eq!(dumped, "{\"key\":\"a\",\"value\":\"1\"}\n");
}

/// An operator that only its own program has.
struct Joined;

impl MergeOperator for Joined {
    fn name(&self) -> &'static str {
        "joined"
    }

    fn full(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        Ok(Some(
            [&[base.unwrap_or_default()], operands].concat().join(&b'+'),
        ))
    }
}

#[test]
fn expiry_and_operands_are_dumped_and_loaded() {
    let from = Place::new();
    let db = Db::builder(from.db())
        .merge_operator(Joined)
        .open()
        .unwrap();
    let layout = Layout::sorted().merge_operator("joined");
    let sums = db.keyspace("default", layout).unwrap();
    let at = Expiry::At(UNIX_EPOCH + Duration::from_millis(33_000_000_000_123));
    sums.put_expiring("a", "1", at).unwrap();
    for (key, operand) in [("a", "2"), ("b", "3"), ("b", "4")] {
        sums.merge(key, operand).unwrap();
    }
    sums.put("c", "5").unwrap();
    db.close().unwrap();
    let dumped = from.text("dump", &NONE);
    let lines = [
        r#"{"expires":33000000000123,"key":"a","operands":["2"],"value":"1"}"#,
        r#"{"key":"b","operands":["3","4"]}"#,
        r#"{"key":"c","value":"5"}"#,
    ];
    assert_eq!(dumped.lines().collect::<Vec<_>>(), lines);
    fails_saying(
        &from.run("dump", &["--format", "csv"]),
        1,
        &["csv has no place for the expiry or the operands of `a`; use --format json"],
    );
    let other = Place::new();
    let refused = other.run_with_input("load", &["--merge-operator", "joined"], dumped.as_bytes());
    fails_saying(
        &refused,
        1,
        &["expected the merge operator `joined`, found that it is not registered"],
    );
    let to = Place::new();
    stdout(&to.run_with_input("load", &["--merge-operator", "append"], dumped.as_bytes()));
    let expected = [("a", "12"), ("b", "34"), ("c", "5")];
    let expected = expected.map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()));
    assert_eq!(contents(&to), BTreeMap::from(expected));
    assert_eq!(
        to.text("dump", &["--to", "b"]),
        "{\"expires\":33000000000123,\"key\":\"a\",\"value\":\"12\"}\n"
    );
}

#[test]
fn expiry_goes_with_sorted_lines_into_tables() {
    let lines = (0..30_000).map(|i| {
        let value = "x".repeat(40);
        match i % 3 {
            0 => format!("{{\"key\":\"{i:06}\",\"value\":\"{value}\"}}\n"),
            n => format!(
                "{{\"expires\":3300000000000{n},\"key\":\"{i:06}\",\"value\":\"{value}\"}}\n"
            ),
        }
    });
    let (lines, place) = (lines.collect::<String>(), Place::new());
    let loaded = object(&place.run_with_input("load", &["--json"], lines.as_bytes()));
    assert_eq!(loaded["bulk_loaded_entries"], 30_000);
    assert!(place.text("dump", &NONE) == lines);
}

#[test]
fn the_malformed_line_is_named_and_what_came_before_it_stays() {
    let place = Place::new();
    let mut lines: Vec<String> = (0..5000)
        .map(|i| format!("{{\"key\":\"{i:05}\",\"value\":\"{}\"}}\n", "x".repeat(50)))
        .collect();
    lines[4000] = "{\"key\":\"no value\"}\n".to_owned();
    fs::write(place.path("pairs.jsonl"), lines.concat()).unwrap();
    let parts = [
        "pairs.jsonl, line 4001: expected {\"key\": …, \"value\": …}, found no \"value\"",
        "loaded 4,000 entries before it",
    ];
    fails_saying(&place.run("load", &["pairs.jsonl"]), 1, &parts);
    assert_eq!(contents(&place).len(), 4000);

    let long = format!("key,value\na,b\n{},c\n", "k".repeat((64 << 10) + 1));
    let long_key = place.run_with_input("load", &["--format", "csv"], long.as_bytes());
    fails_saying(
        &long_key,
        1,
        &["standard input, line 3", "loaded 1 entry before it"],
    );
    let no_hex = place.run_with_input("load", &["--hex"], b"{\"key\":\"0g\",\"value\":\"\"}");
    fails_saying(
        &no_hex,
        1,
        &["line 1: \"key\": expected hexadecimal digits, found `0g`"],
    );
}

#[test]
fn a_refused_line_is_named_and_what_came_before_it_stays() {
    // Both ways of a load: tables of sorted keys, and batches.
    let entries = 30_000;
    let sorted = |i: u32| format!("{i:010},{}\n", "x".repeat(40));
    let unsorted = |i: u32| format!("{:010},x\n", i.wrapping_mul(2_654_435_761));
    for line in [&sorted as &dyn Fn(u32) -> String, &unsorted] {
        let place = Place::new();
        let before: String = (0..entries).map(line).collect();
        let csv = format!("key,value\n{before}short,x\n{}", line(entries));
        let load = ["--format", "csv", "--order", "semi-sorted:8"];
        let parts = [
            "standard input, line 30002: expected a key of at least its prefix, 8 bytes, found 5 bytes",
            "; loaded 30,000 entries before it; the same with `--skip 30000` resumes there",
        ];
        let refused = place.run_with_input("load", &load, csv.as_bytes());
        fails_saying(&refused, 1, &parts);
        assert_eq!(place.text("count", &NONE), "30000\n");
    }
    let place = Place::new();
    let lines =
        b"{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"1\",\"operands\":[\"2\"]}\n";
    let parts = [
        "standard input, line 2: expected a keyspace with a merge operator, found that `default` has \
         none: name one with `--merge-operator`; loaded 1 entry before it",
    ];
    fails_saying(&place.run_with_input("load", &NONE, lines), 1, &parts);
    assert_eq!(place.text("scan", &NONE), "a\t1\n");
}

#[test]
fn a_quote_that_is_not_closed_swallows_no_line() {
    let place = Place::new();
    let csv = "key,value\nq1,x\nq2,\"open\nq3,x\n";
    let parts = [
        "line 3: expected a closing quote, found the end of the input",
        "; loaded 1 entry before it",
    ];
    let refused = place.run_with_input("load", &["--format", "csv"], csv.as_bytes());
    fails_saying(&refused, 1, &parts);
    assert_eq!(place.text("scan", &NONE), "q1\tx\n");
}

/// 30,000 sorted pairs, with more bytes than a bulk load needs to begin.
fn sorted_lines() -> Vec<String> {
    (0..30_000)
        .map(|i| format!("{i:06},{}\n", "x".repeat(40)))
        .collect()
}

fn load_csv(place: &Place, lines: &[String]) -> Output {
    let csv = format!("key,value\n{}", lines.concat());
    place.run_with_input("load", &["--json", "--format", "csv"], csv.as_bytes())
}

#[test]
fn sorted_input_is_bulk_loaded_up_to_the_first_key_out_of_order() {
    let mut lines = sorted_lines();
    let place = Place::new();
    let loaded = object(&load_csv(&place, &lines));
    assert_eq!(loaded["entries"], 30_000);
    assert_eq!(loaded["bulk_loaded_entries"], 30_000);
    let sorted = contents(&place);
    assert_eq!(sorted.len(), 30_000);

    // A repeated key has its last value; the pairs after it need not be sorted.
    lines[28_000] = "000007,again\n".to_owned();
    lines.push("000001,last\n".to_owned());
    for place in [place, Place::new()] {
        let loaded = object(&load_csv(&place, &lines));
        assert_eq!(loaded["entries"], 30_001);
        assert_eq!(loaded["bulk_loaded_entries"], 28_000);
        let contents = contents(&place);
        assert_eq!(contents[&b"000007"[..]], b"again");
        assert_eq!(contents[&b"000001"[..]], b"last");
        assert_eq!(contents[&b"029999"[..]], sorted[&b"029999"[..]]);
        assert!(contents.len() >= 29_999);
        place.text("verify", &NONE);
    }
    // Random input makes no tables.
    lines.reverse();
    assert_eq!(
        object(&load_csv(&Place::new(), &lines))["bulk_loaded_entries"],
        0
    );
}

#[test]
fn what_came_before_the_malformed_line_of_a_bulk_load_stays() {
    let mut lines = sorted_lines();
    lines[25_000] = "no value\n".to_owned();
    let place = Place::new();
    let output = load_csv(&place, &lines);
    fails_saying(
        &output,
        1,
        &["line 25002", "loaded 25,000 entries before it"],
    );
    assert_eq!(contents(&place).len(), 25_000);
}

#[test]
fn nothing_is_made_when_an_input_is_missing() {
    let place = Place::new();
    fails_saying(&place.run("load", &["missing.csv"]), 3, &["missing.csv"]);
    fails_saying(&place.run("load", &["pairs.txt"]), 2, &["--format"]);
    assert!(!place.db().exists());
    stdout(&place.run_with_input("load", &NONE, b""));
    assert_eq!(place.text("count", &NONE), "0\n");
}

#[test]
fn an_exported_range_is_ingested() {
    let place = Place::new();
    place.fill(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let files = object(&place.run("export", &["--json", "tables", "--from", "b"]));
    assert_eq!(files["files"], json!(["tables/000001.table"]));
    place.run("del", &["b", "c"]);
    let ingest = place.run("ingest", &["--json", "tables/000001.table"]);
    assert_eq!(object(&ingest)["entries"], 2);
    assert_eq!(place.text("get", &["c"]), "3\n");
    let again = place.run("export", &["tables", "--from", "b"]);
    fails_saying(&again, 1, &["cannot create", "000001.table"]);
    let text = place.text("ingest", &["tables/000001.table"]);
    assert!(text.starts_with("ingested 2 entries as 1 table"), "{text}");
    let twice = ["tables/000001.table"; 2];
    fails_saying(
        &place.run("ingest", &twice),
        2,
        &["ascending", "`b` after `c`"],
    );
}

#[test]
fn changes_are_lines_that_resume_where_a_slot_or_a_reader_was() {
    let place = Place::new();
    place.fill(&[("a", "0")]);
    let lines = |more: &[&str]| {
        let text = place.text("changes", more);
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        text.lines().map(parse).collect::<Vec<_>>()
    };
    let slot = |more: &[&str]| {
        let (first, rest) = more.split_first().unwrap();
        let db = place.db();
        let db = db.to_str().unwrap();
        support::hedgerow(&[&["slot", *first, "--db", db], rest].concat())
    };
    fails_saying(
        &place.run("changes", &["--since", "0"]),
        1,
        &["expected a database with a slot", "`hedgerow slot create`"],
    );
    let created = object(&slot(&["create", "index", "--json"]));
    assert_eq!(created["limit"], 1 << 30);
    let writer = Db::open(place.db()).unwrap();
    let keyspace = writer.existing_keyspace("default").unwrap();
    keyspace.put("a", "1").unwrap();
    keyspace
        .bulk_load([("b", "2"), ("c", "3")].map(Ok::<_, hedgerow::Error>))
        .unwrap();
    keyspace.delete_range("b"..).unwrap();
    keyspace.clear().unwrap();
    keyspace
        .put_expiring(
            "e",
            "4",
            Expiry::At(UNIX_EPOCH + Duration::from_secs(1 << 33)),
        )
        .unwrap();
    let layout = Layout::sorted().merge_operator("append");
    writer.keyspace("default", layout).unwrap();
    keyspace.merge("e", "5").unwrap();
    keyspace
        .set_time_to_live(Some(Duration::from_secs(60)))
        .unwrap();
    // The writer has it open.
    let all = lines(&["--slot", "index"]);
    let ops: Vec<_> = all
        .iter()
        .map(|line| line["op"].as_str().unwrap())
        .collect();
    let edits = ["set-merge-operator", "merge", "set-time-to-live"];
    let expected = ["put", "put", "put", "delete-range", "clear", "put"];
    assert_eq!(ops, [&expected[..], &edits].concat());
    assert_eq!(all[5]["expires"], (1_u64 << 33) * 1000);
    assert_eq!(
        (&all[7]["key"], &all[7]["operand"]),
        (&json!("e"), &json!("5"))
    );
    assert_eq!(all[8]["milliseconds"], 60_000);
    assert_eq!(
        all[1],
        json!({ "commit": all[2]["commit"], "keyspace": "default", "op": "put", "key": "b", "value": "2" })
    );
    assert_eq!(all[2]["ends"], true);
    assert_eq!(all[3]["to"], json!(null));
    let number = all[2]["commit"].to_string();
    assert_eq!(lines(&["--since", &number]), all[3..]);
    let last = all[8]["commit"].to_string();
    assert_eq!(lines(&["--since", &last]), all[9..]);
    fails_saying(
        &place.run("changes", &["--since", "99999999"]),
        2,
        &["expected `--since` of at most ", &last, "found 99999999"],
    );
    let neither = place.run("changes", &NONE);
    let said = String::from_utf8_lossy(&neither.stderr);
    assert!(said.contains("<--since <NUMBER>|--slot <NAME>>"), "{said}");
    writer.close().unwrap();
    stdout(&slot(&["confirm", "index", &number]));
    assert_eq!(lines(&["--slot", "index"]), all[3..]);
    let listed = stdout(&slot(&["list"])).to_vec();
    let listed = String::from_utf8(listed).unwrap();
    assert!(
        listed.starts_with(&format!("index: behind {number}, at most 1.0 GiB")),
        "{listed}"
    );
    stdout(&slot(&["drop", "index"]));
    fails_saying(
        &place.run("changes", &["--slot", "index"]),
        3,
        &["none named `index`"],
    );
}

#[test]
fn changes_that_are_followed_come_when_they_are_made() {
    let place = Place::new();
    place.fill(&[("a", "0")]);
    let writer = Db::open(place.db()).unwrap();
    let begin = writer.create_slot("index", 1 << 20).unwrap();
    let mut command = place.command("changes", &["--since", &begin.to_string(), "--follow"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let keyspace = writer.existing_keyspace("default").unwrap();
    // The writer has it open, and makes each change when the one before was read.
    let mut lines = lines.map(Result::unwrap);
    for value in ["1", "2", "3"] {
        keyspace.put("a", value).unwrap();
        let line: serde_json::Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!(line["value"], value);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
