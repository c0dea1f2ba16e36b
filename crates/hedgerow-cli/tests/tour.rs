//! Runs the real binary's tour on a small tree with every kind of odd entry.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "the tree that is walked, and the damage, are made with std::fs"
)]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tempfile::TempDir;

mod support;
use support::{failure, files, hedgerow, object};

const FILES_PER_DIRECTORY: u64 = 60;
const DIRECTORIES: u64 = 120;
const DEPTH: u64 = 50;

/// The number of entries that [`odd_tree`] makes, with the root.
const TREE_DIRECTORIES: u64 = 1 + DIRECTORIES + DEPTH + 2;
const TREE_FILES: u64 = DIRECTORIES * FILES_PER_DIRECTORY + 1 + 4 + 1;
const TREE_LINKS: u64 = 2;

/// Makes many small directories, a deep one, empty ones, links, a hard link, and odd names.
fn odd_tree() -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path();
    for d in 0..DIRECTORIES {
        let dir = root.join(format!("directory {d}"));
        fs::create_dir(&dir).unwrap();
        for f in 0..FILES_PER_DIRECTORY {
            fs::write(
                dir.join(format!("file-{f:03}.txt")),
                vec![b'x'; (d * f) as usize],
            )
            .unwrap();
        }
    }
    let mut deep = root.to_path_buf();
    for level in 0..DEPTH {
        deep = deep.join(format!("level-{level}"));
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("bottom"), "deep").unwrap();
    fs::create_dir_all(root.join("empty/also empty")).unwrap();
    for name in [
        &b"two\nlines"[..],
        b"not \xFF\xFE UTF-8",
        b"-n --json",
        b"\x1b[31mred",
    ] {
        fs::write(root.join(OsStr::from_bytes(name)), "odd").unwrap();
    }
    symlink("nowhere/at all", root.join("dangling")).unwrap();
    symlink("..", root.join("cycle")).unwrap();
    fs::hard_link(root.join("directory 7/file-001.txt"), root.join("hard")).unwrap();
    tree
}

fn tour(tree: &Path, more: &[&str]) -> Output {
    let mut arguments = vec![OsStr::new("tour"), tree.as_os_str()];
    arguments.extend(more.iter().map(OsStr::new));
    hedgerow(&arguments)
}

fn levels_in_use(keyspace: &Value) -> Vec<String> {
    let rows = keyspace["rows"].as_array().unwrap().iter();
    let used = rows.filter(|row| row["entries"].as_u64().unwrap() > 0);
    used.map(|row| row["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_entry_is_stored_and_every_answer_right() {
    let tree = odd_tree();
    let result = object(&tour(tree.path(), &["--json"]));
    assert_eq!(result["passed"], true, "{result:#}");
    let load = &result["load"];
    assert_eq!(load["entries"], TREE_DIRECTORIES + TREE_FILES + TREE_LINKS);
    assert_eq!(load["directories"], TREE_DIRECTORIES);
    assert_eq!(load["files"], TREE_FILES);
    assert_eq!(load["links"], TREE_LINKS);
    assert_eq!(load["hard_links"], 1);
    // The hard link adds no bytes.
    let sum = |n: u64| n * (n - 1) / 2;
    let bytes = sum(DIRECTORIES) * sum(FILES_PER_DIRECTORY) + 4 + 4 * 3;
    assert_eq!(load["file_bytes"], bytes);

    // The sample of a tree this small is the whole tree.
    assert_eq!(result["stat"]["comparison"]["equal"], load["entries"]);
    assert_eq!(result["list"]["root_entries"], DIRECTORIES + 2 + 4 + 2 + 1);
    let by_bytes = &result["largest"]["by_bytes"][0];
    assert_eq!(by_bytes["path"], "directory 119");
    assert_eq!(by_bytes["bytes"], 119 * sum(FILES_PER_DIRECTORY));
    let by_entries = &result["largest"]["by_entries"][0];
    assert_eq!(by_entries["entries"], FILES_PER_DIRECTORY);

    let changes = &result["changes"];
    assert!(changes["touched"].as_u64().unwrap() > TREE_FILES / 25);
    assert_eq!(changes["entries_in_snapshot"], load["entries"]);
    let after = load["entries"].as_u64().unwrap() - changes["deleted"].as_u64().unwrap();
    assert!(changes["deleted"].as_u64().unwrap() > 0);
    for then in ["checkpoint", "reopen"] {
        assert_eq!(result[then]["entries"], after, "{then}");
    }
    assert!(!Path::new(result["settings"]["database"].as_str().unwrap()).exists());
}

#[test]
fn a_modest_tree_spans_memtable_level_0_and_two_levels() {
    let tree = odd_tree();
    for partitions in ["1", "3"] {
        let result = object(&tour(tree.path(), &["--json", "--partitions", partitions]));
        assert_eq!(result["passed"], true, "{result:#}");
        if partitions == "1" {
            let used = levels_in_use(&result["after_loading"]["entries"]);
            assert!(used.len() >= 4, "{used:?}");
            assert_eq!(used[..2], ["memtable", "level 0"]);
        }
    }
}

#[test]
fn tiny_and_empty_trees_are_fine() {
    let tree = tempfile::tempdir().unwrap();
    let result = object(&tour(tree.path(), &["--json"]));
    assert_eq!(result["load"]["entries"], 1);
    assert_eq!(result["passed"], true, "{result:#}");
    fs::write(tree.path().join("file"), "x").unwrap();
    let result = object(&tour(tree.path(), &["--json"]));
    assert_eq!(result["load"]["entries"], 2);
    assert_eq!(result["passed"], true, "{result:#}");
}

#[test]
fn people_get_text_on_one_line_each() {
    let tree = odd_tree();
    let output = tour(tree.path(), &[]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("level 0"), "{text}");
    assert!(text.contains("checks passed"), "{text}");
    assert!(!text.contains("FAILED"), "{text}");
    assert!(
        !text.contains('\x1b'),
        "no colours where there is no terminal"
    );
    assert!(
        output.stderr.is_empty(),
        "no progress where there is no terminal"
    );
}

#[test]
fn an_earlier_tours_database_is_used_again() {
    let tree = odd_tree();
    let place = tempfile::tempdir().unwrap();
    // A database inside the walked tree is left out of the walk.
    for db in [place.path().join("new"), tree.path().join("inside")] {
        let flags = ["--json", "--db", db.to_str().unwrap()];
        let first = object(&tour(tree.path(), &flags));
        let second = object(&tour(tree.path(), &flags));
        assert_eq!(first["load"]["entries"], second["load"]["entries"]);
        assert_eq!(second["passed"], true);
        assert!(db.exists());
        assert!(!db.with_extension("checkpoint").exists());
    }
}

#[test]
fn anything_else_in_the_place_of_the_database_is_refused() {
    let tree = odd_tree();
    let place = tempfile::tempdir().unwrap();
    let db = place.path().to_str().unwrap();
    fs::write(place.path().join("letter"), "to a friend").unwrap();
    let error = failure(&tour(tree.path(), &["--json", "--db", db]), 2);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("holds no database"),
        "{error}"
    );
    assert_eq!(
        fs::read_dir(place.path()).unwrap().count(),
        1,
        "nothing was made there"
    );

    let error = failure(&tour(place.path(), &["--json", "--db", db]), 2);
    assert!(
        error["message"]
            .as_str()
            .unwrap()
            .contains("cannot be the directory"),
        "{error}"
    );

    let other = place.path().join("other");
    let database = hedgerow::Db::open(&other).unwrap();
    let entries = database
        .keyspace("entries", hedgerow::Layout::sorted())
        .unwrap();
    entries.put("precious", "1").unwrap();
    database.close().unwrap();
    drop(entries);
    let error = failure(
        &tour(tree.path(), &["--json", "--db", other.to_str().unwrap()]),
        2,
    );
    assert!(
        error["message"].as_str().unwrap().contains("not a tour's"),
        "{error}"
    );
    let database = hedgerow::Db::open(&other).unwrap();
    let entries = database.existing_keyspace("entries").unwrap();
    assert!(entries.contains_key("precious").unwrap());
}

#[test]
fn what_is_wrong_is_in_the_exit_code() {
    let tree = odd_tree();
    let missing = tree.path().join("missing");
    let error = failure(&tour(&missing, &["--json"]), 3);
    assert_eq!(error["kind"], "not-found");
    assert!(error["message"].as_str().unwrap().contains("missing"));

    failure(&tour(&tree.path().join("hard"), &["--json"]), 2);
    failure(&tour(tree.path(), &["--json", "--no-such-flag"]), 2);
    failure(&tour(tree.path(), &["--json", "--policy", "piling:3"]), 2);
    failure(
        &tour(tree.path(), &["--json", "--memory-budget", "much"]),
        2,
    );
    failure(
        &tour(tree.path(), &["--json", "--memory-budget", "1KiB"]),
        2,
    );

    let text = tour(&missing, &[]);
    let sentence = String::from_utf8(text.stderr).unwrap();
    assert_eq!(text.status.code(), Some(3));
    assert_eq!(sentence.lines().count(), 1, "{sentence}");
}

#[test]
fn a_locked_and_a_damaged_database_are_told_apart() {
    let tree = odd_tree();
    let place = tempfile::tempdir().unwrap();
    let db = place.path().join("db");
    let flags = ["--json", "--db", db.to_str().unwrap()];
    object(&tour(tree.path(), &flags));

    let holder = hedgerow::Db::open(&db).unwrap();
    let error = failure(&tour(tree.path(), &flags), 5);
    assert_eq!(error["kind"], "locked");
    holder.close().unwrap();

    let manifest = files(&db).into_iter().find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().to_lowercase().contains("manifest"))
    });
    let manifest = manifest.expect("a database has a manifest");
    let mut bytes = fs::read(&manifest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&manifest, bytes).unwrap();
    let error = failure(&tour(tree.path(), &flags), 4);
    assert_eq!(error["kind"], "corruption");
    assert_eq!(error["path"], manifest.to_str().unwrap());
}

#[test]
fn help_shows_an_example() {
    let output = hedgerow(&[OsStr::new("tour"), OsStr::new("--help")]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("hedgerow tour /usr"), "{text}");
    let output = hedgerow(&[OsStr::new("--help")]);
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("Exit codes")
    );
}
