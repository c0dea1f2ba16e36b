//! `stats`, `explain` and `inspect` report the real contents.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the damage is made with std::fs")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use hedgerow::{Db, Design, Layout};
use serde_json::{Value, json};
use support::{Place, command, failure, files, hedgerow, object, stdout};

const NONE: [&str; 0] = [];

/// 3,000 keys in two levels, some deleted, and one entry that is only in the log.
fn filled() -> Place {
    let place = Place::new();
    let db = Db::open(place.db()).unwrap();
    let design = Design {
        memtable_bytes: Some(64 << 10),
        ..Design::default()
    };
    let keyspace = db
        .keyspace_with("default", Layout::sorted(), design)
        .unwrap();
    // Not in key order, because then tables would only move down.
    for i in (0..3000).map(|i| i * 7 % 3000) {
        keyspace.put(format!("key {i:04}"), "v".repeat(30)).unwrap();
    }
    keyspace.compact::<&[u8]>(..).unwrap();
    for i in (0..3000).step_by(100) {
        keyspace.delete(format!("key {i:04}")).unwrap();
    }
    keyspace.flush().unwrap();
    keyspace.put("key 0500", "new").unwrap();
    db.close().unwrap();
    place
}

/// One object per line.
fn objects(output: &std::process::Output) -> Vec<Value> {
    let lines = output.stdout.split(|&byte| byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn tables(place: &Place) -> Vec<PathBuf> {
    let mut tables = files(&place.db().join("tables"));
    tables.sort();
    tables
}

#[test]
fn stats_tell_trees_writing_and_memory() {
    let place = filled();
    let stats = object(&place.run("stats", &["--json"]));
    assert_eq!(stats["sequence_number"], 3031);
    let keyspace = &stats["keyspaces"][0];
    assert_eq!(keyspace["name"], "default");
    assert_eq!(keyspace["entries"], 3000 + 30 + 1);
    let rows = keyspace["rows"].as_array().unwrap();
    let level0 = &rows[1];
    assert_eq!(
        (&level0["name"], &level0["entries"]),
        (&json!("level 0"), &json!(30))
    );
    assert_eq!(level0["tombstones"], 30);
    let bytes: u64 = tables(&place)
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    assert_eq!(keyspace["table_bytes"], bytes);
    assert_eq!(rows[0]["entries"], 1);

    let written = &stats["written"];
    assert!(written["flushes"].as_u64().unwrap() >= 2, "{written}");
    assert!(written["merges"].as_u64().unwrap() >= 1);
    // The keys were flushed and compacted, the deletes flushed.
    assert!(
        keyspace["entry_writes"].as_f64().unwrap() > 1.5,
        "{keyspace}"
    );
    let memory = &stats["memory"];
    assert!(memory["total"].as_u64() <= memory["budget"].as_u64());

    let text = place.text("stats", &NONE);
    for part in [
        "level 0",
        "writes of an entry",
        "merge debt",
        "page cache",
        "Db::stats",
    ] {
        assert!(text.contains(part), "expected `{part}` in: {text}");
    }
    // The same output beside a writer.
    let _writer = Db::open(place.db()).unwrap();
    assert_eq!(
        object(&place.run("stats", &["--json"]))["keyspaces"][0]["entries"],
        3031
    );
}

/// Each process that opens the database begins a manifest, the last one with a large merge and a
/// flush of one entry.
#[test]
fn the_writes_of_an_entry_are_those_of_all_processes() {
    let place = Place::new();
    let pairs: Vec<_> = (0..2000)
        .map(|i| (format!("key {:04}", i * 7 % 2000), "v"))
        .collect();
    place.fill(&pairs);
    place.text("compact", &NONE);
    place.text("put", &["key 1000", "w"]);
    place.text("compact", &NONE);
    let db = place.db();
    let design = command(&["explain", "design", "--json", "--db"])
        .arg(&db)
        .output();
    let expected = object(&design.unwrap())["pairs"][0]["measured"].clone();
    assert!(
        (1.0..4.0).contains(&expected.as_f64().unwrap()),
        "{expected}"
    );
    let stats = object(&place.run("stats", &["--json"]));
    assert_eq!(stats["keyspaces"][0]["entry_writes"], expected);
    let said = format!(
        "writes of an entry {:.2}, since",
        expected.as_f64().unwrap()
    );
    let text = place.text("stats", &NONE);
    assert!(text.contains(&said), "{text}");
    assert!(!text.contains("write amplification"), "{text}");
}

#[test]
fn a_watch_tells_what_changed_and_ends_with_its_reader() {
    let place = filled();
    let db = Db::open(place.db()).unwrap();
    let keyspace = db.existing_keyspace("default").unwrap();
    let mut watch = place
        .command("stats", &["--json", "--watch", "0.05"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert_eq!(next()["change"], Value::Null);
    for i in 0..50 {
        keyspace.put(format!("more {i}"), "v").unwrap();
    }
    keyspace.flush().unwrap();
    let (mut writes, mut flushes) = (0, 0);
    while flushes == 0 {
        let change = next()["change"].take();
        writes += change["writes"].as_u64().unwrap();
        flushes += change["written"]["flushes"].as_u64().unwrap();
    }
    assert_eq!(writes, 50);
    drop(lines);
    assert!(watch.wait().unwrap().success());
    failure(&place.run("stats", &["--json", "--watch", "never"]), 2);
}

#[test]
fn an_explanation_tells_the_place_that_answers() {
    let place = filled();
    let get = |key: &str, more: &[&str]| {
        let db = place.db();
        let mut command = command(&["explain", "get", "--json", "--db"]);
        object(&command.arg(db).arg(key).args(more).output().unwrap())
    };
    let in_memtable = get("key 0500", &[]);
    assert_eq!(
        (&in_memtable["runs"], &in_memtable["pages"]),
        (&json!([]), &json!(0))
    );
    assert_eq!(
        in_memtable["found"],
        json!({ "sequence_number": 3031, "kind": "put" })
    );
    assert_eq!(in_memtable["value_bytes"], 3);

    let deleted = get("key 0100", &[]);
    assert_eq!(deleted["found"]["kind"], "delete");
    assert_eq!(deleted["runs"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&deleted["value_bytes"], &deleted["reads"]),
        (&Value::Null, &json!(1))
    );

    let deep = get("key 0101", &[]);
    let runs = deep["runs"].as_array().unwrap();
    assert!(runs.len() > 1 && runs.last().unwrap()["level"].as_u64().unwrap() > 0);
    let table = &runs.last().unwrap()["table"];
    // A merge drops the sequence number of a put that every reader sees.
    let number = table["found"]["sequence_number"].as_u64().unwrap();
    assert!([102, 1].contains(&number), "{number}");
    assert_eq!(table["pages"][0]["class"], "data");
    assert_eq!(table["pages"][0]["cached"], false);
    let warm = get("key 0101", &["--warm"]);
    assert_eq!(
        (&warm["pages"], &warm["reads"]),
        (&deep["pages"], &json!(0))
    );

    let nowhere = get("key 0101x", &[]);
    assert_eq!(nowhere["found"], Value::Null);
    for told in [&in_memtable, &deleted, &deep, &nowhere] {
        let tables = told["runs"].as_array().unwrap().iter();
        let tables = tables.map(|run| &run["table"]);
        let probed = tables.filter(|table| table["filter"].is_string());
        assert_eq!(told["filters"], probed.clone().count(), "{told}");
        let passed = probed.filter(|table| table["filter"] == "maybe" && table["found"].is_null());
        assert_eq!(told["filter_false_positives"], passed.count(), "{told}");
    }
    assert!(deep["filters"].as_u64().unwrap() > 0, "{deep}");
    assert_eq!(get("6b65792030313031", &["--hex"])["found"], deep["found"]);
    let db = place.db();
    let output = command(&["explain", "get", "--db"])
        .arg(&db)
        .arg("key 0101")
        .output();
    let text = String::from_utf8(stdout(&output.unwrap()).to_vec()).unwrap();
    assert!(text.contains("a value of 30 B"), "{text}");
    let cost = format!("1 page, 1 of them read; {} filter", deep["filters"]);
    assert!(text.contains(&cost), "{text}");
    let dir = format!("    in {}\n", db.join("tables").display());
    assert!(text.contains(&dir), "{text}");
}

/// Three levels that hold tables: all keys are in the last one, some again in the one above it, and
/// some again in level 0.
fn filled_levels() -> Place {
    let place = Place::new();
    let db = Db::open(place.db()).unwrap();
    let design = Design {
        policy: "leveling:2".parse().unwrap(),
        memtable_bytes: Some(64 << 10),
        table_bytes: Some(32 << 10),
        compression: hedgerow::Compression::None,
        ..Design::default()
    };
    let keyspace = db
        .keyspace_with("default", Layout::sorted(), design)
        .unwrap();
    let put = |keys: std::ops::Range<u32>| {
        for i in keys {
            let key = format!("key {:04}", i * 7 % 8000);
            keyspace.put(key, format!("{i:080}")).unwrap();
        }
        keyspace.flush().unwrap();
    };
    put(0..8000);
    keyspace.compact::<&[u8]>(..).unwrap();
    // Four runs in level 0 are merged into the next level.
    (0..4).for_each(|i| put(i * 600..(i + 1) * 600));
    keyspace.wait_until_merged().unwrap();
    put(0..100);
    db.close().unwrap();
    place
}

#[test]
fn all_commands_count_levels_alike() {
    let place = filled_levels();
    let db = place.db();
    let told = |words: &[&str]| {
        let output = command(&[words, &["--json", "--db"][..]].concat())
            .arg(&db)
            .output();
        let output = output.unwrap();
        stdout(&output);
        objects(&output)
    };
    let manifest = told(&["inspect", "manifest"]);
    let state = manifest.last().unwrap()["state"].as_array().unwrap();
    let tree = state.iter().find(|it| it["change"] == "tree").unwrap();
    let tables = tree["added"].as_array().unwrap();
    let mut levels: BTreeMap<u64, (u64, BTreeSet<u64>)> = BTreeMap::new();
    for table in tables {
        let (bytes, runs) = levels.entry(table["level"].as_u64().unwrap()).or_default();
        *bytes += table["bytes"].as_u64().unwrap();
        runs.insert(table["run"].as_u64().unwrap());
    }
    assert!(levels.len() >= 3 && levels.contains_key(&0), "{levels:?}");
    let sizes = |it: &Value| [&it["bytes"], &it["runs"]].map(|it| it.as_u64().unwrap());
    let expected: Vec<(String, [u64; 2])> = levels
        .iter()
        .map(|(level, (bytes, runs))| (format!("level {level}"), [*bytes, runs.len() as u64]))
        .collect();
    // The memtable comes first, and a level may be empty.
    let held = |rows: &Value, name: &dyn Fn(&Value) -> String| -> Vec<(String, [u64; 2])> {
        let rows = rows.as_array().unwrap().iter();
        let rows = rows.filter(|row| row["bytes"].as_u64() > Some(0));
        rows.map(|row| (name(row), sizes(row))).collect()
    };
    let stats = told(&["stats"]);
    let by_name = |row: &Value| row["name"].as_str().unwrap().to_owned();
    assert_eq!(held(&stats[0]["keyspaces"][0]["rows"], &by_name), expected);
    let design = told(&["explain", "design"]);
    let by_number = |row: &Value| format!("level {}", row["level"]);
    assert_eq!(held(&design[0]["levels"], &by_number), expected);

    // A get of a table's first key meets the table in its level.
    for table in tables {
        let key = table["smallest_key"].as_str().unwrap();
        let explained = &told(&["explain", "get", key])[0];
        for run in explained["runs"].as_array().unwrap() {
            let level = run["level"].as_u64().unwrap();
            assert!(levels.contains_key(&level), "{explained}");
            let Some(number) = run["table"]["number"].as_u64() else {
                continue;
            };
            let its = tables.iter().find(|it| it["table"] == number).unwrap();
            assert_eq!(its["level"], level, "{explained}");
        }
        let last = explained["runs"].as_array().unwrap().last().unwrap();
        let found = &last["table"]["found"];
        assert!(!found.is_null(), "{explained}");
    }
}

#[test]
fn the_design_of_a_keyspace_is_told_beside_others() {
    let place = filled();
    let db = Db::open(place.db()).unwrap();
    let few = db.keyspace("few", Layout::sorted()).unwrap();
    for key in ["a", "long key"] {
        few.put(key, "").unwrap();
    }
    few.flush().unwrap();
    let fresh = db.keyspace("fresh", Layout::sorted()).unwrap();
    fresh.put("zz", "1").unwrap();
    db.close().unwrap();
    let db = place.db();
    let told = |keyspace: &str| {
        let mut command = command(&["explain", "design", "--json", "--keyspace", keyspace]);
        command.env("HEDGEROW_DB", &db).output().unwrap()
    };
    let measured = |design: &Value, name: &str| {
        let pairs = design["pairs"].as_array().unwrap();
        let pair = pairs.iter().find(|it| it["name"] == name).unwrap();
        pair["measured"].as_f64().unwrap()
    };
    let design = object(&told("few"));
    // Both keys are in the only table, the sample of which has no keys of other keyspaces.
    assert_eq!(measured(&design, "pages per get that finds"), 1.0);
    assert!(measured(&design, "filters, all keyspaces") > 0.0);
    object(&told("default"));
    let error = failure(&told("fresh"), 3);
    assert_eq!(error["message"], "expected tables in `fresh`, found none");
}

#[test]
fn files_are_told_to_the_last_entry() {
    let place = filled();
    let mut entries = 0;
    for table in tables(&place) {
        let output = hedgerow(&[
            "inspect",
            "table",
            "--json",
            "--entries",
            table.to_str().unwrap(),
        ]);
        stdout(&output);
        let pages = objects(&output);
        assert_eq!(pages[0]["bytes"], fs::metadata(&table).unwrap().len());
        let blocks = pages.iter().filter(|page| page["part"] == "block");
        let all: Vec<&Value> = blocks
            .flat_map(|page| page["entries"].as_array().unwrap())
            .collect();
        assert_eq!(pages[0]["properties"]["entries"], all.len());
        assert_eq!(pages[0]["properties"]["smallest_key"], all[0]["key"]);
        entries += all.len();
    }
    assert_eq!(entries, 3030);

    let db = place.db();
    let db = db.to_str().unwrap();
    let log = hedgerow(&["inspect", "log", "--json", "--operations", "--db", db]);
    stdout(&log);
    let log = objects(&log);
    let last = log.iter().rfind(|o| o["operations"].is_array()).unwrap();
    assert_eq!(last["first_sequence_number"], 3031);
    assert_eq!(last["operations"][0]["key"], "key 0500");
    assert_eq!(last["operations"][0]["value"], "new");

    let manifest = hedgerow(&["inspect", "manifest", "--json", "--db", db]);
    stdout(&manifest);
    let manifest = objects(&manifest);
    let state = manifest.last().unwrap()["state"].as_array().unwrap();
    let created = state
        .iter()
        .find(|c| c["change"] == "create keyspace")
        .unwrap();
    assert_eq!(created["name"], "default");
    let tree = state.iter().find(|c| c["change"] == "tree").unwrap();
    let added = tree["added"].as_array().unwrap();
    assert_eq!(added.len(), tables(&place).len());

    for what in ["manifest", "log"] {
        let output = hedgerow(&["inspect", what, "--db", db]);
        assert!(!stdout(&output).is_empty());
        let missing = hedgerow(&["inspect", what, "--json", "--db", "/nowhere/at/all"]);
        failure(&missing, 3);
    }
    let text = hedgerow(&["inspect", "table", tables(&place)[0].to_str().unwrap()]);
    let text = String::from_utf8(stdout(&text).to_vec()).unwrap();
    assert!(text.contains("index top"), "{text}");
}

#[test]
fn damage_is_told_in_its_place_and_by_the_exit_code() {
    let place = filled();
    let table = tables(&place).pop().unwrap();
    let mut bytes = fs::read(&table).unwrap();
    bytes[3] ^= 1;
    fs::write(&table, &bytes).unwrap();
    let output = hedgerow(&["inspect", "table", "--json", table.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
    let told = objects(&output);
    let damage = told.iter().find(|o| o["damage"].is_string()).unwrap();
    assert_eq!(
        (&damage["offset"], &damage["path"]),
        (&json!(0), &json!(table.to_str()))
    );
    assert!(told.iter().any(|o| o["part"] == "facts"), "it continues");

    // A table that is cut within its footer shows nothing.
    fs::write(&table, &bytes[..50]).unwrap();
    failure(
        &hedgerow(&["inspect", "table", "--json", table.to_str().unwrap()]),
        4,
    );

    let manifest = place.db().join("MANIFEST");
    let mut bytes = fs::read(&manifest).unwrap();
    let whole = bytes.len();
    bytes.extend([7; 9]);
    fs::write(&manifest, &bytes).unwrap();
    let db = place.db();
    let db = db.to_str().unwrap();
    let torn = hedgerow(&["inspect", "manifest", "--json", "--db", db]);
    stdout(&torn);
    let is_torn = |o: &Value| o["torn"] == whole && o["bytes"] == 9;
    assert!(objects(&torn).iter().any(is_torn));
}

#[test]
fn simulate_tells_levels_and_amplification_and_draws_them() {
    let place = Place::new();
    fs::create_dir_all(place.db()).unwrap();
    let picture = place.db().join("growth.svg");
    let arguments = [
        "simulate",
        "--entries",
        "1e7",
        "--memory-budget",
        "16MiB",
        "--json",
    ];
    let output = command(&arguments)
        .arg("--picture")
        .arg(&picture)
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let end = report["points"].as_array().unwrap().last().unwrap();
    assert_eq!(end["entries"], json!(10_000_000));
    assert!(end["write_amplification"].as_f64().unwrap() > 5.0);
    assert!(fs::read_to_string(picture).unwrap().starts_with("<svg"));
    let output = command(&["simulate", "--entries", "1e6"]).output().unwrap();
    let text = String::from_utf8(stdout(&output).to_vec()).unwrap();
    assert!(
        text.contains(" 1 run ") && !text.contains(" 1 runs"),
        "{text}"
    );
    let refused = command(&["simulate", "--entries", "1e7", "--deletes", "0.6"]);
    let mut refused = refused;
    assert_eq!(refused.output().unwrap().status.code(), Some(2));
}

#[test]
fn simulate_compares_leveling_and_garnering_of_many_ratios() {
    let mut of_sizes = command(&["simulate", "--entries", "2e5", "--memtable-size", "32KiB"]);
    let output = of_sizes
        .args(["--table-size", "64KiB", "--front", "--json"])
        .output()
        .unwrap();
    let points = objects(&output);
    let number = |point: &Value, field: &str| point[field].as_f64().unwrap();
    assert!(points.iter().any(|point| point["policy"] == "leveling:10"));
    assert!(
        points
            .iter()
            .any(|point| point["policy"] == "garnering:2,0.4")
    );
    let on_front = points.iter().filter(|point| point["on_front"] == true);
    let front: Vec<&Value> = on_front.collect();
    assert!(front.len() > 1 && front.len() < points.len());
    for pair in front.windows(2) {
        assert!(number(pair[0], "entry_writes") <= number(pair[1], "entry_writes"));
        assert!(number(pair[0], "runs") >= number(pair[1], "runs"));
    }
}

#[test]
fn a_filter_over_runs_tells_its_tables() {
    let place = Place::new();
    let db = Db::open(place.db()).unwrap();
    let design = Design {
        policy: "0=runs:8;1=leveling:10".parse().unwrap(),
        filter: "mlcf:12".parse().unwrap(),
        ..Design::default()
    };
    let keyspace = db
        .keyspace_with("default", Layout::sorted(), design)
        .unwrap();
    for run in 0..2 {
        for i in 0..100 {
            keyspace.put(format!("key {run} {i:04}"), "v").unwrap();
        }
        keyspace.flush().unwrap();
    }
    keyspace.wait_until_merged().unwrap();
    db.close().unwrap();
    let files = files(&place.db().join("filters"));
    let path = files.last().unwrap().to_str().unwrap();
    let filter = object(&hedgerow(&["inspect", "filter", "--json", path]));
    // The filter hashes by a seed of chance. Two of the 200 keys may share their hash, and share
    // an entry then.
    let entries = filter["entries"].as_u64().unwrap();
    assert!((190..=200).contains(&entries), "{filter}");
    let runs = filter["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        assert_eq!(run["tables"].as_array().unwrap().len(), 1, "{run}");
    }
    let output = hedgerow(&["inspect", "filter", path]);
    let text = String::from_utf8_lossy(stdout(&output));
    assert!(text.contains(&format!("{entries} of")), "{text}");
    let verified = object(&place.run("verify", &["--json"]));
    assert_eq!(verified["filters"], files.len());

    let mut bytes = fs::read(path).unwrap();
    bytes[200] ^= 1;
    fs::write(path, bytes).unwrap();
    failure(&hedgerow(&["inspect", "filter", "--json", path]), 4);
}
