//! `advise` and `explain design`: a recommended design can be opened, priced, measured and
//! explained.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "files are made with std::fs")]

mod support;

use std::fs;

use hedgerow::{Db, Design, Layout};
use serde_json::Value;
use support::{Place, command, fails_saying, failure, hedgerow, object, stdout};

const SMALL: [&str; 6] = [
    "--entries",
    "2e5",
    "--memory-budget",
    "16MiB",
    "--device",
    "nvme",
];

fn advise(more: &[&str]) -> Value {
    let arguments = [&["advise", "--json"], more].concat();
    object(&hedgerow(&arguments))
}

#[test]
fn designs_are_ranked_and_memory_has_a_price() {
    let found = advise(&[
        "--mix",
        "get=0.3,miss=0.1,scan=0.1,put=0.5",
        "--device",
        "nvme",
    ]);
    let costs: Vec<f64> = found["designs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|design| design["predicted"]["cost_us"].as_f64().unwrap())
        .collect();
    assert_eq!(costs.len(), 5);
    assert!(costs.is_sorted());
    let curve = found["curve"].as_array().unwrap();
    let costs: Vec<f64> = curve
        .iter()
        .filter_map(|it| it["cost_us"].as_f64())
        .collect();
    assert!(
        costs.first().unwrap() > &(10.0 * costs.last().unwrap()),
        "{costs:?}"
    );
    // The constraints are respected.
    let fewer = advise(&["--mix", "put=1", "--writes-max", "8", "--device", "nvme"]);
    for design in fewer["designs"].as_array().unwrap() {
        assert!(design["predicted"]["entry_writes"].as_f64().unwrap() <= 8.0);
    }
}

#[test]
fn people_see_designs_and_what_memory_buys() {
    let output = hedgerow(&["advise", "--device", "hdd", "--price", "leveling:10"]);
    let text = String::from_utf8(stdout(&output).to_vec()).unwrap();
    for part in [
        "Designs",
        "Cost against memory",
        "leveling:10",
        "hdd: 8000.0 us per random read",
        "Short forms",
        "`K4` at most 4 runs",
        "`F` fence pointers in memory",
        "`-` a paged index",
        "`B10.0` Bloom filters of 10.0 bits per key",
        "`~30%` of its data in memory",
        "`*` all of its data in memory",
        "`uniform` T everywhere",
        "reads/get are random reads",
        "`>` is --memory-budget",
        "\n>  256.0 MiB",
    ] {
        assert!(text.contains(part), "expected `{part}` in: {text}");
    }
    // Forms that no tree has are not explained.
    for part in ["cuckoo", "three-level", "\n* "] {
        assert!(!text.contains(part), "expected no `{part}` in: {text}");
    }
    // Those of a design that is only priced are.
    let place = Place::new();
    let file = place.path("cuckoo.design");
    let design = Design {
        filter: "cuckoo:12".parse().unwrap(),
        ..Design::default()
    };
    fs::write(&file, design.to_string()).unwrap();
    let output = hedgerow(&[
        "advise",
        "--device",
        "hdd",
        "--price",
        file.to_str().unwrap(),
    ]);
    let text = String::from_utf8(stdout(&output).to_vec()).unwrap();
    assert!(text.contains("`C12.0` cuckoo filters"), "{text}");
}

#[test]
fn a_recommended_design_is_opened_and_explained() {
    let place = Place::new();
    let file = place.path("best.design");
    let file_name = file.to_str().unwrap();
    let found = advise(&[&SMALL[..], &["--write", file_name]].concat());
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# For 200,000 entries of 16 + 100 bytes"),
        "{text}"
    );
    let design: Design = text.parse().unwrap();

    // The price of the design in the file is near that of its tree. They differ because the design
    // has integer ratios, and levels are half full on average.
    let priced = advise(&[&SMALL[..], &["--price", file_name]].concat());
    let cost = |object: &Value| object["predicted"]["cost_us"].as_f64().unwrap();
    let (searched, priced) = (cost(&found["designs"][0]), cost(&priced["priced"]));
    assert!(
        (0.3..2.0).contains(&(priced / searched)),
        "{priced} {searched}"
    );

    let line = |i: u32| format!("key {:05},value\n", i * 7919 % 5000);
    let lines: String = (0..5000).map(line).collect();
    let lines = format!("key,value\n{lines}");
    let loaded = place.run_with_input(
        "load",
        &["--format", "csv", "--design", file_name],
        lines.as_bytes(),
    );
    stdout(&loaded);
    let db = Db::open(place.db()).unwrap();
    let keyspace = db.existing_keyspace("default").unwrap();
    assert_eq!(keyspace.design(), design);
    keyspace.flush().unwrap();
    drop(keyspace);
    db.close().unwrap();

    let db = place.db();
    let explain = ["explain", "design", "--json", "--db", db.to_str().unwrap()];
    let explained = object(&hedgerow(&explain));
    assert_eq!(
        explained["design"]
            .as_str()
            .unwrap()
            .parse::<Design>()
            .unwrap(),
        design
    );
    let pairs = explained["pairs"].as_array().unwrap();
    let pair = |name: &str| pairs.iter().find(|pair| pair["name"] == name).unwrap();
    let measured = |name: &str| pair(name)["measured"].as_f64().unwrap();
    assert!(measured("writes of an entry") >= 1.0);
    assert!((measured("pages per get that finds") - 1.0).abs() < 0.2);
    assert!(measured("pages per get that does not") < 1.0);
}

/// Measured writes belong to one period. A new manifest does not end it, a change of the design
/// does.
#[test]
fn measured_writes_are_those_since_the_design() {
    let place = Place::new();
    let fill = |round: u32| {
        let db = Db::open(place.db()).unwrap();
        let layout = Layout::sorted();
        let design = Design {
            memtable_bytes: Some(16 << 10),
            table_bytes: Some(16 << 10),
            policy: "leveling:4".parse().unwrap(),
            ..Design::default()
        };
        // A design that is named again would be in force again, after `retune` gave it another one.
        let keyspace = match round {
            0..2 => db.keyspace_with("default", layout, design).unwrap(),
            _ => db.existing_keyspace("default").unwrap(),
        };
        for i in 0..4000 {
            let key = format!("{:08}", (i + 4000 * round) * 7919 % 1_000_003);
            keyspace.put(key, [7; 40]).unwrap();
        }
        keyspace.flush().unwrap();
        keyspace.wait_until_merged().unwrap();
        let before = db.stats();
        drop(keyspace);
        db.close().unwrap();
        before.flush_entries + before.merge_entries
    };
    let db = place.db();
    let db = db.to_str().unwrap();
    let explain = || object(&hedgerow(&["explain", "design", "--json", "--db", db]));
    let text = || {
        let output = hedgerow(&["explain", "design", "--db", db]);
        String::from_utf8(stdout(&output).to_vec()).unwrap()
    };
    let writes = |explained: &Value| explained["pairs"][0]["measured"].as_f64();
    let written = fill(0) + fill(1);
    let explained = explain();
    assert_eq!(explained["written"]["added"], 8000);
    assert_eq!(explained["written"]["written"], written);
    assert_eq!(writes(&explained), Some(written as f64 / 8000.0));
    // The lookups that the command measures are not counted.
    for read in ["gets_found", "gets_missed", "seeks"] {
        assert_eq!(explained["operations"][read], 0, "{read}");
    }
    let said = "writes of an entry: since the keyspace got its design: 8,000 entries added, ";
    assert!(text().contains(said), "{}", text());

    // Merges to the new shape are output of what came before.
    stdout(&place.run("retune", &["--policy", "tiering:4"]));
    let explained = explain();
    assert_eq!(explained["written"]["initial"], 8000);
    assert_eq!(explained["written"]["added"], 0);
    assert_eq!(writes(&explained), None);
    let said = "not enough written yet: since the keyspace got its design: 0 entries added, ";
    assert!(text().contains(said), "{}", text());
    let written: u64 = (2..10).map(fill).sum();
    let explained = explain();
    assert_eq!(explained["written"]["added"], 32_000);
    // And those of the merges to the new shape.
    let counted = explained["written"]["written"].as_u64().unwrap();
    println!("{counted} {written}");
    assert!(
        written < 6 * 32_000,
        "stepped merge wrote {written} entries"
    );
    assert!(
        (written..=written + 16_000).contains(&counted),
        "{counted} of {written}"
    );
    assert_eq!(writes(&explained), Some(counted as f64 / 32_000.0));
}

#[test]
fn numbers_come_from_a_database() {
    let place = Place::new();
    let pair = |i: u32| (format!("{i:08}"), "v".repeat(42));
    let pairs: Vec<(String, String)> = (0..120_000).map(pair).collect();
    place.fill(&pairs);
    let db = Db::open(place.db()).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let asked = [
        "--json",
        "--device",
        "nvme",
        "--mix",
        "get=1",
        "--memory-budget",
    ];
    let found = object(&place.run("advise", &[&asked[..], &["8MiB"]].concat()));
    assert_eq!(found["workload"]["entries"], 120_000.0);
    assert_eq!(found["workload"]["key_bytes"], 8.0);
    assert_eq!(found["workload"]["value_bytes"], 42.0);

    // The default mix is the recent operations, here of another process.
    let db = Db::open(place.db()).unwrap();
    let keyspace = db.existing_keyspace("default").unwrap();
    for i in 0..30_000 {
        keyspace.get(format!("{i:08}")).unwrap();
        keyspace.get(format!("{i:08}?")).unwrap();
        keyspace.scan(format!("{i:08}")..).unwrap().take(3).count();
    }
    drop(keyspace);
    db.close().unwrap();
    let counted = ["--json", "--device", "nvme", "--memory-budget", "8MiB"];
    let counted = object(&place.run("advise", &counted));
    let share = |name: &str| counted["workload"]["mix"][name].as_f64().unwrap();
    assert_eq!(
        (share("get"), share("miss")),
        (share("scan"), share("scan"))
    );
    assert!((share("put") - 120.0 / 210.0).abs() < 1e-9, "{counted}");
    assert_eq!(counted["workload"]["scan_entries"], 2.0);

    let retuned = object(&place.run("retune", &["--json", "--auto", "on"]));
    assert_eq!(retuned["self_tuning"], true);
    assert_eq!(retuned["design"], retuned["design_before"]);
    let stats = object(&place.run("stats", &["--json"]));
    assert_eq!(stats["keyspaces"][0]["self_tuning"], true);
    assert_eq!(stats["keyspaces"][0]["operations"]["puts"], 120_000);

    let why = failure(&place.run("advise", &[&asked[..], &["1GiB"]].concat()), 3);
    assert!(
        why["message"]
            .as_str()
            .unwrap()
            .contains("than two memtables hold"),
        "{why}"
    );
}

#[test]
fn a_picture_is_drawn() {
    let place = Place::new();
    let file = place.path("memory.svg");
    advise(&["--device", "nvme", "--picture", file.to_str().unwrap()]);
    let svg = fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("polyline"), "{svg}");
}

#[test]
fn a_device_is_measured_and_its_profile_used() {
    let place = Place::new();
    let settings = place.path("settings");
    let here = place.path(".");
    let mut measure = command(&[
        "advise",
        "--json",
        "--measure-size",
        "2MiB",
        "--measure-seconds",
        "0.05",
    ]);
    measure
        .arg("--measure-device")
        .arg(&here)
        .env("XDG_CONFIG_HOME", &settings);
    let output = measure.output().unwrap();
    if !output.status.success() {
        // A file system in memory may not support direct reads.
        fails_saying(&output, 1, &["direct reads"]);
        return;
    }
    assert!(object(&output)["device"]["read_us"].as_f64().unwrap() > 0.0);
    let mut later = command(&["advise", "--json"]);
    let later = later.env("XDG_CONFIG_HOME", &settings).output().unwrap();
    assert_eq!(object(&later)["device"]["name"], "measured");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |more: &[&str], code: i32, part: &str| {
        let arguments = [&["advise", "--json"], more].concat();
        let why = failure(&hedgerow(&arguments), code);
        let why = why["message"].as_str().unwrap();
        assert!(why.contains(part), "{why}");
    };
    refused(&["--mix", "swim=1"], 2, "expected a mix such as");
    refused(
        &["--device", "floppy"],
        3,
        "devices without a file are nvme, ssd, hdd, cloud",
    );
    refused(
        &["--device", "nvme", "--memory-budget", "1MiB"],
        3,
        "found too little in 1.0 MiB",
    );
    refused(
        &["--device", "nvme", "--price", "leveling:1"],
        2,
        "expected a ratio of levels",
    );
}

#[test]
fn semi_sorted_keys_are_advised_a_mixed_store_which_opens() {
    let place = Place::new();
    let file = place.path("mixed.design");
    let name = file.to_str().unwrap();
    let found = advise(&[
        "--order",
        "semi-sorted:8",
        "--mix",
        "get=0.5,miss=0.25,put=0.25",
        "--entries",
        "1e8",
        "--space-max",
        "10",
        "--device",
        "ssd",
        "--write",
        name,
    ]);
    let tree = found["designs"][0]["tree"].as_str().unwrap().to_owned();
    assert!(tree.contains("TM") && tree.contains("TB"), "{tree}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("mlcf:") && text.contains("three-level"),
        "{text}"
    );
    let bench = |order: &str| {
        let arguments = [
            "--order",
            order,
            "--num",
            "2000",
            "--group-size",
            "20",
            "--design",
            name,
        ];
        hedgerow(
            &[
                &["bench", "fillrandom,readrandom", "--json"],
                &arguments[..],
            ]
            .concat(),
        )
    };
    let rows = String::from_utf8(stdout(&bench("semi-sorted:8")).to_vec()).unwrap();
    assert_eq!(rows.lines().count(), 2, "{rows}");
    assert!(rows.contains("mlcf:"), "{rows}");
    failure(&bench("sorted"), 2);
}
