//! The code that may reach the operating system, and the code that may have `unsafe`.

use super::Sources;
use super::rust::{line_of, words};

/// Library crates reach the machine through the traits of `hedgerow-io`.
const LIBRARIES: &[&str] = &["crates/hedgerow/src/", "crates/hedgerow-mem/src/"];
const OF_THE_SYSTEM: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::env",
    "std::thread",
    "Instant",
    "SystemTime",
];
/// The other places that name one of these, with their reasons.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "crates/hedgerow-mem/src/sync.rs",
        "std::thread",
        "`yield_now`, which loom replaces in its own build",
    ),
    (
        "crates/hedgerow/src/base/runtime/scheduler.rs",
        "std::thread",
        "tells its own threads from callers' by `ThreadId`; starts none",
    ),
];

/// Crates whose task it is to write what safe Rust cannot, the peers' C interfaces, and what other
/// languages call.
const UNSAFE: &[&str] = &[
    "crates/hedgerow-io/",
    "crates/hedgerow-mem/",
    "bench-peers/",
    "bindings/",
];
const FORBIDS: &str = "#![forbid(unsafe_code)]";

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, code) in LIBRARIES
        .iter()
        .flat_map(|folder| sources.code_under(folder))
    {
        for word in OF_THE_SYSTEM {
            let allowed = ALLOWED.iter().any(|(p, w, _)| *p == path && w == word);
            if let Some(at) = words(code, word).next().filter(|_| !allowed) {
                let line = line_of(code, at);
                findings.push(format!(
                    "{path}:{line}: `{word}`: the machine is reached through hedgerow-io"
                ));
            }
        }
    }
    for (path, text) in sources.rust() {
        if UNSAFE.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        let code = super::rust::strip(text).code;
        if let Some(at) = words(&code, "unsafe").next() {
            let line = line_of(&code, at);
            findings.push(format!(
                "{path}:{line}: `unsafe` outside of hedgerow-io and hedgerow-mem"
            ));
        }
    }
    let engine = "crates/hedgerow/src/lib.rs";
    if sources
        .texts
        .get(engine)
        .is_some_and(|text| !text.contains(FORBIDS))
    {
        findings.push(format!("{engine}:1: expected {FORBIDS}"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_is_named_in_hedgerow_io_only() {
        let sources = Sources::of(&[
            (
                "crates/hedgerow/src/lib.rs",
                "#![forbid(unsafe_code)]\nfn f() { std::fs::read(p) }",
            ),
            (
                "crates/hedgerow-io/src/os.rs",
                "fn f() { std::fs::read(p); unsafe {} }",
            ),
            (
                "crates/hedgerow-cli/src/main.rs",
                "fn f() { std::fs::read(p) }",
            ),
        ]);
        let found = check(&sources);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/hedgerow/src/lib.rs:2: `std::fs`"));
    }

    #[test]
    fn unsafe_has_its_crates() {
        let sources = Sources::of(&[
            ("crates/hedgerow/src/lib.rs", "//! unsafe in a comment"),
            ("crates/hedgerow-cli/src/main.rs", "fn f() { unsafe {} }"),
        ]);
        let found = check(&sources);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
