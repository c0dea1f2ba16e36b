//! Patches that bring mended defects back. The tests must find each of them. A test that passes
//! with its patch can no longer find the defect for which it was made.
//!
//! A patch is a unified diff. The lines before it say what it breaks. One of them is
//! `run: COMMAND`, a call of `cargo test` that must fail with the patch.
#![allow(clippy::disallowed_methods, reason = "a tool on the real file system")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

const FOLDER: &str = "crates/hedgerow-testkit/patches";
/// The longest time of a command, in seconds, without building.
const SECONDS_MAX: u32 = 300;

struct Patch {
    /// The path under the root.
    path: String,
    run: String,
}

/// The faults of the patches, found without running anything: a bad header, or a diff that does not
/// apply.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let patches = match read_all(root) {
        Ok(patches) => patches,
        Err(wrong) => return vec![wrong],
    };
    let check = |patch: &Patch| apply(root, patch, &["--check"]);
    let findings = patches.iter().map(check).filter_map(Result::err);
    findings.collect()
}

/// Runs the command of each patch whose path has one of `parts`, in a copy of the tree. It must
/// pass without the patch and fail with it. Reports each by `tell`. The build stays in `folder` for
/// the next run.
///
/// # Errors
/// A line for each patch that was not found; or what kept it from being tried.
pub(crate) fn run(
    root: &Path,
    folder: &Path,
    parts: &[String],
    tell: impl Fn(&str),
) -> Result<(), String> {
    let mut patches = read_all(root)?;
    patches.retain(|patch| parts.is_empty() || parts.iter().any(|it| patch.path.contains(it)));
    if patches.is_empty() {
        return Err(format!(
            "expected parts of names of patches, found {parts:?}"
        ));
    }
    let tree = copy(root, folder)?;
    // Without a patch, each command runs once.
    let mut passing = BTreeMap::new();
    for patch in &patches {
        if !passing.contains_key(&patch.run) {
            passing.insert(&patch.run, passes(&tree, patch));
        }
    }
    let mut wrong = Vec::new();
    for patch in &patches {
        tell(&format!("{}: {}", patch.path, patch.run));
        let found = passing[&patch.run].clone();
        match found.and_then(|()| is_found(&tree, patch)) {
            Ok(seconds) => tell(&format!("  found in {seconds} seconds")),
            Err(why) => {
                tell(&format!("  {why}"));
                wrong.push(format!("{}: {why}", patch.path));
            }
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

fn passes(tree: &Path, patch: &Patch) -> Result<(), String> {
    let (output, _) = test(tree, patch)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "the command fails without the patch:\n{}",
            text(&output)
        )),
    }
}

/// The seconds until the command has found the patch.
fn is_found(tree: &Path, patch: &Patch) -> Result<u64, String> {
    apply(tree, patch, &[])?;
    let with = test(tree, patch);
    apply(tree, patch, &["--reverse"])?;
    let (output, seconds) = with?;
    match output.status.code() {
        Some(0) => Err("not found: the command passes with the patch".to_owned()),
        Some(124) => Err(format!(
            "not found: the command takes more than {SECONDS_MAX} seconds"
        )),
        _ => Ok(seconds),
    }
}

/// Builds what the command runs, then runs it. Returns the seconds of the run, too.
fn test(tree: &Path, patch: &Patch) -> Result<(Output, u64), String> {
    let shell = |program: &str, args: &[&str], command: &str| {
        let run = Command::new(program)
            .args(args)
            .args(["-c", command])
            .env("CARGO_TARGET_DIR", tree.with_file_name("target"))
            .current_dir(tree)
            .output();
        run.map_err(|e| format!("{program}: {e}"))
    };
    let build = patch
        .run
        .replacen("cargo test", "cargo test --quiet --no-run", 1);
    let built = shell("sh", &[], &build)?;
    if !built.status.success() {
        return Err(format!("it does not build:\n{}", text(&built)));
    }
    let begun = Instant::now();
    let ran = shell("timeout", &[&SECONDS_MAX.to_string(), "sh"], &patch.run)?;
    Ok((ran, begun.elapsed().as_secs()))
}

fn text(output: &Output) -> String {
    let [out, errors] = [&output.stdout, &output.stderr].map(|b| String::from_utf8_lossy(b));
    format!("{out}{errors}")
}

/// `git apply`, of the working tree, which may stand inside of another one.
fn apply(tree: &Path, patch: &Patch, args: &[&str]) -> Result<(), String> {
    let outside = tree.parent().unwrap_or(tree);
    let applied = git(Command::new("git")
        .arg("apply")
        .args(args)
        .arg(&patch.path)
        .env("GIT_CEILING_DIRECTORIES", outside)
        .current_dir(tree));
    applied
        .map(drop)
        .map_err(|e| format!("{}: it does not apply: {e}", patch.path))
}

fn git(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|e| format!("git: {e}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(text(&output).trim_end().to_owned()),
    }
}

/// Copies what git knows of, or would, as it is now.
fn copy(root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let files = git(Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root))?;
    let copy = || {
        let tree = folder.join("tree");
        if tree.exists() {
            std::fs::remove_dir_all(&tree)?;
        }
        std::fs::create_dir_all(&tree)?;
        for path in String::from_utf8_lossy(&files).split_terminator('\0') {
            let (source, target) = (root.join(path), tree.join(path));
            if source.is_file() {
                std::fs::create_dir_all(target.parent().unwrap_or(&tree))?;
                std::fs::copy(source, target)?;
            }
        }
        tree.canonicalize()
    };
    copy().map_err(|e: std::io::Error| format!("{}: {e}", folder.display()))
}

fn read_all(root: &Path) -> Result<Vec<Patch>, String> {
    let read = || {
        let entries = std::fs::read_dir(root.join(FOLDER))?;
        let mut patches = Vec::new();
        for entry in entries {
            let entry = entry?;
            let path = format!("{FOLDER}/{}", entry.file_name().to_string_lossy());
            patches.push((path, std::fs::read_to_string(entry.path())?));
        }
        patches.sort();
        Ok(patches)
    };
    let patches = read().map_err(|e: std::io::Error| format!("{FOLDER}: {e}"))?;
    let parse = |(path, text): (String, String)| match command(&text) {
        Ok(run) => Ok(Patch { path, run }),
        Err(wrong) => Err(format!("{path}: {wrong}")),
    };
    patches.into_iter().map(parse).collect()
}

/// The command of a patch.
fn command(patch: &str) -> Result<String, String> {
    let (header, _) = patch
        .split_once("\ndiff --git ")
        .ok_or("expected a line `diff --git`, found none")?;
    let lines = || header.lines().filter(|line| !line.trim().is_empty());
    let runs: Vec<_> = { lines() }
        .filter_map(|line| line.strip_prefix("run: "))
        .collect();
    if lines().count() == runs.len() {
        return Err("expected a line that says what it breaks, found none".to_owned());
    }
    match runs[..] {
        [run] if run.contains("cargo test ") => Ok(run.to_owned()),
        _ => Err(format!(
            "expected one line `run: cargo test ..`, found {runs:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_applies() {
        let findings = check(&crate::root());
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    }

    #[test]
    fn a_patch_says_what_it_breaks_and_what_finds_it() {
        let patch =
            |header: &str| command(&format!("{header}\n\ndiff --git a/b b/b\nrun: inside\n"));
        let run = "run: HEDGEROW_SEEDS=9 cargo test -p a";
        assert_eq!(
            patch(&format!("It loses keys.\n\n{run}")).unwrap(),
            run[5..]
        );
        let wrong = |header, text: &str| {
            let found = patch(header).unwrap_err();
            assert!(found.contains(text), "{found}");
        };
        wrong(run, "what it breaks");
        wrong("It loses keys.", "found []");
        wrong("It loses keys.\nrun: true", "found [\"true\"]");
        wrong(
            "It loses keys.\nrun: cargo test a\nrun: cargo test b",
            "\"cargo test b\"",
        );
        assert!(
            command("It loses keys.\n")
                .unwrap_err()
                .contains("diff --git")
        );
    }
}
