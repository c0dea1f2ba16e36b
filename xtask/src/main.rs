//! Development tasks, run as `cargo xtask NAME`.
#![allow(clippy::print_stdout, reason = "a command line tool")]

mod changelog;
mod figures;
mod lines;
mod patches;
mod public;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask tidy            check the rules of the code base that the compiler does not know
cargo xtask bless [ARGS..]  run the tests with HEDGEROW_BLESS=1, so that expected texts, golden
                            files and worked examples are rewritten; ARGS go to cargo test
cargo xtask patches [PARTS] bring each mended defect of crates/hedgerow-testkit/patches back, in a copy of
                            the tree, and see that the command of its patch finds it; only those
                            whose names have one of PARTS
cargo xtask lines           count the lines of code of each crate, without tests, comments and empty lines
cargo xtask changelog VERSION  move the lines of changes/ to CHANGELOG.md, under the version of a release
cargo xtask figures         recompute the numbers of README.md and docs from the raw rows that they name
cargo xtask help            show this";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("tidy") => tidy(),
        Some("bless") => bless(&args[1..]),
        Some("patches") => patches(&args[1..]),
        Some("lines") => lines(),
        Some("changelog") if args.len() == 2 => changelog(&args[1]),
        Some("figures") => figures(),
        Some("help") => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            println!("{HELP}");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    let sources = tidy::Sources::read(&root());
    let mut findings = tidy::check(&sources);
    findings.extend(public::check(&sources));
    findings.extend(patches::check(&root()));
    for finding in &findings {
        println!("{finding}");
    }
    println!("tidy: {} findings", findings.len());
    ExitCode::from(u8::from(!findings.is_empty()))
}

fn bless(args: &[String]) -> ExitCode {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["test", "--workspace"])
        .args(args)
        .env("HEDGEROW_BLESS", "1")
        .current_dir(root())
        .status();
    println!("read the difference (git diff) before you commit it");
    ExitCode::from(u8::from(!status.is_ok_and(|status| status.success())))
}

fn lines() -> ExitCode {
    let sources = tidy::Sources::read(&root());
    let counts = lines::count(&sources);
    for (name, lines) in &counts {
        println!("{name:24} {lines:6}");
    }
    let crates = counts.iter().filter(|(name, _)| !name.contains('/'));
    println!(
        "{:24} {:6}",
        "all",
        crates.map(|(_, lines)| lines).sum::<usize>()
    );
    let kinds = tidy::lines_with_kinds(&sources);
    println!("{:24} {:6}", "naming a kind elsewhere", kinds.len());
    ExitCode::SUCCESS
}

fn patches(parts: &[String]) -> ExitCode {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let tell = |line: &str| println!("{line}");
    match patches::run(&root(), &target.join("patches"), parts, tell) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            println!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

fn changelog(version: &str) -> ExitCode {
    match changelog::release(&root(), version) {
        Ok(lines) => {
            println!("moved {lines} lines to CHANGELOG.md");
            ExitCode::SUCCESS
        }
        Err(wrong) => {
            println!("{wrong}");
            ExitCode::FAILURE
        }
    }
}

fn figures() -> ExitCode {
    let findings = figures::check(&root(), false);
    for finding in &findings {
        println!("{finding}");
    }
    println!("figures: {} findings", findings.len());
    ExitCode::from(u8::from(!findings.is_empty()))
}

/// The workspace.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}
