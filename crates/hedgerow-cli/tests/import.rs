//! `import`: entries of databases of RocksDB, which its program `ldb` writes and reads.
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

/// Puts pairs into a database of RocksDB. Returns false if there is no `ldb` on this machine.
fn put_with_ldb(dir: &Path, pairs: &[(&str, &str)]) -> bool {
    for (key, value) in pairs {
        let mut command = Command::new("ldb");
        command.arg(format!("--db={}", dir.display()));
        command.args(["--create_if_missing", "put", key, value]);
        match command.stdout(Stdio::null()).status() {
            Ok(status) => assert!(status.success()),
            Err(_) => return false,
        }
    }
    true
}

#[test]
fn a_database_of_rocksdb_is_copied_whole() {
    let place = Place::new();
    let rocks = place.path("rocks");
    if !put_with_ldb(&rocks, &[("ada", "1815"), ("x ==> y", "a\tb"), ("bob", "")]) {
        // `.ci/run` installs it.
        return eprintln!("skipped: install rocksdb-tools to run this test");
    }
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
    fails_saying(&damaged, 1, &["ldb failed: Corruption: block"]);
    fs::remove_file(bin.join("ldb")).unwrap();
    let mut command = place.command("import", &[&rocks]);
    let missing = command.env("PATH", &bin).output().unwrap();
    fails_saying(
        &missing,
        2,
        &["expected the program `ldb`", "rocksdb-tools"],
    );
}
