//! `import`: entries of databases of RocksDB, which its program `ldb` writes and reads, of a
//! database of LevelDB, and keys of RDB files. Copies of servers are tested by
//! `crates/hedgerow-server`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::disallowed_methods,
    reason = "input files are made with std::fs"
)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{Place, fails_saying};

/// Returns true if there is an `ldb` on this machine. `.ci/run` installs it, and says so: there its
/// absence is a failure.
fn has_ldb() -> bool {
    let has = Command::new("ldb").output().is_ok();
    let is_ci = std::env::var_os("HEDGEROW_CI").is_some();
    assert!(has || !is_ci, "expected the program `ldb`, found none");
    if !has {
        eprintln!("skipped: install rocksdb-tools to run this test");
    }
    has
}

/// Puts pairs into a database of RocksDB.
fn put_with_ldb(dir: &Path, pairs: &[(&str, &str)]) {
    for (key, value) in pairs {
        let mut command = Command::new("ldb");
        command.arg(format!("--db={}", dir.display()));
        command.args(["--create_if_missing", "put", key, value]);
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
    }
}

#[test]
fn a_database_of_rocksdb_is_copied_whole() {
    if !has_ldb() {
        return;
    }
    let place = Place::new();
    let rocks = place.path("rocks");
    put_with_ldb(&rocks, &[("ada", "1815"), ("x ==> y", "a\tb"), ("bob", "")]);
    place.text("import", &[&rocks]);
    assert_eq!(
        place.text("scan", &[] as &[&str]),
        "ada\t1815\nbob\t\nx ==> y\ta\\tb\n"
    );
    let refused = place.run(
        "import",
        &["--column-family=other", rocks.to_str().unwrap()],
    );
    fails_saying(&refused, 1, &["ldb failed", "other"]);
    fails_saying(
        &place.run("import", &[place.path("none")]),
        3,
        &["found none in"],
    );
}

/// The database that `testdata/leveldb/make.c` has made with LevelDB: a table, a table that
/// overwrites and deletes keys of it, and a log that does the same to both.
#[test]
fn a_database_of_leveldb_is_copied_with_its_log_and_without_what_was_deleted() {
    if !has_ldb() {
        return;
    }
    let place = Place::new();
    // A copy, since a reader must not change what others read.
    let source = place.path("level");
    fs::create_dir_all(&source).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/leveldb/db");
    for file in support::files(&golden) {
        fs::copy(&file, source.join(file.file_name().unwrap())).unwrap();
    }
    let imported = place.text("import", &[&source]);
    assert!(imported.contains("182 entries"), "{imported}");
    let mut expected = "\tno key\n\\x00\\xff\\n\t\n".to_owned();
    for i in 0..300 {
        let round = match i % 10 {
            0 => "third",
            3 | 4 | 7 | 8 | 9 => "first",
            // Deleted in the second table or in the log.
            _ => continue,
        };
        expected += &format!("key{i:04}\t{round} of {i} {:060}\n", 0);
    }
    assert_eq!(place.text("scan", &[] as &[&str]), expected);
    let files = |dir: &Path| {
        let mut files: Vec<_> = support::files(dir)
            .into_iter()
            .map(|it| (it.file_name().unwrap().to_owned(), fs::read(it).unwrap()))
            .collect();
        files.sort();
        files
    };
    assert!(files(&source) == files(&golden), "the source was changed");
}

/// An import with a stand-in for `ldb` that runs a line of shell.
#[test]
fn an_import_that_lacks_entries_fails_and_goes_on_behind_them() {
    let place = Place::new();
    let bin = place.path("bin");
    fs::create_dir_all(&bin).unwrap();
    let rocks = place.path("rocks");
    fs::create_dir_all(&rocks).unwrap();
    fs::write(rocks.join("CURRENT"), "").unwrap();
    let import = |says: &str, more: &[&str]| {
        let program = bin.join("ldb");
        fs::write(&program, format!("#!/bin/sh\n{says}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = place.command("import", more);
        command
            .arg(&rocks)
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        command.output().unwrap()
    };
    // More warnings than a pipe holds, before the first entry.
    let warned = r"head -c 300000 /dev/zero >&2; printf '0x61 ==> 0x31\nKeys in range: 1\n'";
    assert!(import(warned, &[]).status.success());
    let short = import(r"printf '0x61 ==> 0x31\n'", &[]);
    fails_saying(&short, 1, &["expected `Keys in range: 1`", "`--skip 1`"]);
    let whole = r"printf '0x61 ==> 0x31\n0x62 ==> 0x32\nKeys in range: 2\n'";
    assert!(import(whole, &["--skip", "1"]).status.success());
    assert_eq!(place.text("scan", &[] as &[&str]), "a\t1\nb\t2\n");
    // Damage that `ldb` tells of in its own words.
    let damaged = import(
        r"printf '0x63 ==> 0x33\n'; echo 'Corruption: block' >&2; exit 1",
        &[],
    );
    let kept = "; loaded 1 entry before it; the same with `--skip 1` resumes there";
    fails_saying(&damaged, 1, &["ldb failed: Corruption: block", kept]);
    let nothing = import("echo 'Corruption: block' >&2; exit 1", &[]);
    let kept = "; nothing was loaded";
    fails_saying(&nothing, 1, &["ldb failed: Corruption: block", kept]);
    fs::remove_file(bin.join("ldb")).unwrap();
    let mut command = place.command("import", &[&rocks]);
    let missing = command.env("PATH", &bin).output().unwrap();
    fails_saying(
        &missing,
        1,
        &["expected the program `ldb`", "rocksdb-tools"],
    );
}

/// An RDB file without a checksum: two strings and a list.
const RDB: &[u8] = b"REDIS0010\xFE\x00\x00\x01a\x01x\x00\x01b\xC0\x05\xFE\x03\x01\x01l\x02\x01p\x01q\xFF\0\0\0\0\0\0\0\0";

#[test]
fn an_rdb_file_is_copied_whole() {
    let place = Place::new();
    let file = place.path("dump.rdb");
    fs::write(&file, RDB).unwrap();
    assert_eq!(place.text("import", &[&file]), "copied 3 keys\n");
    let keyspaces = place.text("keyspaces", &[] as &[&str]);
    assert!(keyspaces.contains("server"), "{keyspaces}");
    // Once more, and for programs.
    let output = place.run("import", &[file.to_str().unwrap(), "--json", "--restart"]);
    let expected = serde_json::json!({"keys": 3, "keys_before": 0, "libraries": 0});
    assert_eq!(support::object(&output), expected);
}

#[test]
fn what_is_no_redis_is_refused() {
    let place = Place::new();
    let file = place.path("dump.rdb");
    let path = file.to_str().unwrap();
    let import = |arguments: &[&str], code: i32, parts: &[&str]| {
        fails_saying(&place.run("import", arguments), code, parts);
    };
    fs::write(&file, &RDB[..30]).unwrap();
    import(&[path], 4, &["dump.rdb", "the end of the file at offset"]);
    fs::write(&file, b"REDIS0010\x07\x01k").unwrap();
    import(&[path], 1, &["dump.rdb", "type 7 of modules"]);
    fs::write(&file, b"something else").unwrap();
    import(
        &[path],
        4,
        &[
            "expected a file that begins with `REDIS`",
            "`hedgerow load` reads CSV",
        ],
    );
    import(&[path, "--keyspace=k"], 2, &["expected no `--keyspace`"]);
    import(&["rediss://h"], 2, &["expected redis://", "found rediss"]);
    import(
        &["redis://127.0.0.1:1"],
        1,
        &["cannot talk to redis://127.0.0.1:1"],
    );
    let place = Place::new();
    place.fill(&[("a", "1")]);
    let exported = place.run("export", &["redis://127.0.0.1:1"]);
    fails_saying(
        &exported,
        2,
        &["expected a database of a server", "`default`"],
    );
    let ranged = place.run("export", &["redis://127.0.0.1:1", "--from=a"]);
    fails_saying(&ranged, 2, &["expected no range"]);
}
