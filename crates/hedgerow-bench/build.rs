//! Tells the crate the commit that it is built from, which results name. Published packages are
//! without this file; their results name no commit.

use std::path::Path;
use std::process::Command;

/// The sources that decide what a result measures, from the root of the checkout.
const SOURCES: [&str; 8] = [
    "Cargo.toml",
    "Cargo.lock",
    "crates/hedgerow/src",
    "crates/hedgerow-io/src",
    "crates/hedgerow-mem/src",
    "crates/hedgerow-bench/src",
    "crates/hedgerow-papers/src",
    "bench-peers/src",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let root = git(&["rev-parse", "--show-toplevel"]);
    let hash = git(&["rev-parse", "--short", "HEAD"]);
    let (Some(root), Some(hash)) = (root, hash) else {
        return;
    };
    // HEAD names a branch, unless it is detached. A commit changes the file of the branch.
    let of_git = ["HEAD", "refs/heads"].map(|path| git(&["rev-parse", "--git-path", path]));
    let sources = SOURCES.map(|path| format!("{root}/{path}"));
    for path in of_git.into_iter().flatten().chain(sources) {
        // Cargo takes a missing path as changed in every build.
        if Path::new(&path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let mut changed = vec!["-C", &root, "diff", "--name-only", "HEAD", "--"];
    changed.extend(SOURCES);
    let dirty = if git(&changed).is_some() {
        "-dirty"
    } else {
        ""
    };
    println!("cargo:rustc-env=HEDGEROW_COMMIT={hash}{dirty}");
}

/// The output of a command of git. `None` if it fails or says nothing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
