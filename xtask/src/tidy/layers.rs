//! The layer rule of the engine: a module names only modules below it, or to its right in its own
//! row. Nothing calls back up. ARCHITECTURE.md draws the same table for people.

use std::collections::{BTreeMap, BTreeSet};

use super::Sources;
use super::rust::line_of;

const ENGINE: &str = "crates/hedgerow/src/";

/// The rows, from the top; in each the modules from left to right.
const ROWS: &[&[&str]] = &[
    // The API.
    &[
        "lib",
        "internals",
        "repair",
        "inspect",
        "db",
        "asynchronous",
        "snapshot",
        "batch",
        "keyspace",
    ],
    // The paths.
    &[
        "recover",
        "checkpoint",
        "verify",
        "bulk_load",
        "write",
        "flush",
        "self_tuning",
        "retune",
        "simulate",
        "scan",
        "compaction",
        "explain",
        "read",
    ],
    // What the paths work on.
    &["engine", "partition", "snapshot_list"],
    // What one tree consists of, and the log of all.
    &["version", "memtable", "wal"],
    // The shape that a tree is to have.
    &["advisor", "merge_policy"],
    // Tables.
    &["table", "memory", "page_cache"],
    // The parts of a table, and machinery without an opinion.
    &["block_index", "filter", "iter", "runtime"],
    // The words that all share.
    &[
        "slice",
        "key_order",
        "codec",
        "page",
        "entry",
        "stats",
        "options",
        "error",
    ],
];

/// Edges against the rule, each with its reason. One that is not used any more is a finding.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "keyspace",
        "db",
        "`clear` and `stats` of a keyspace are written beside what drops and counts all of them",
    ),
    (
        "compaction",
        "flush",
        "a merge that made room in a full level 0 lets the memtables that waited go on",
    ),
];

/// What decides is pure: these never see storage, locks or atomics.
const PURE: &[&str] = &[
    "advisor/",
    "merge_policy/",
    "compaction/planner/",
    "compaction/retain.rs",
    "simulate/",
    "block_index/",
    "filter/",
    "iter/",
    "key_order/",
    "codec/",
    "wal/record.rs",
    "version/edit.rs",
    "version/encoding.rs",
    "version/options_encoding.rs",
    "version/state.rs",
    "table/block_based/block",
    "table/htable/bucket",
];
const IMPURE: &[&str] = &[
    "hedgerow_io",
    "hedgerow_mem",
    "arc_swap",
    "Mutex",
    "RwLock",
    "Condvar",
    "Atomic",
];

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    let exports = exports(sources);
    for edge in edges(sources, &exports) {
        let Edge {
            path,
            line,
            from,
            to,
        } = &edge;
        let (Some(a), Some(b)) = (place(from), place(to)) else {
            let missing = if place(from).is_none() { from } else { to };
            findings.push(format!(
                "{path}:{line}: `{missing}` has no row in the layer rule"
            ));
            continue;
        };
        if a < b {
            continue;
        }
        match EXCEPTIONS.iter().position(|(f, t, _)| f == from && t == to) {
            Some(exception) => drop(used.insert(exception)),
            None => findings.push(format!(
                "{path}:{line}: `{from}` names `{to}`, which is above it"
            )),
        }
    }
    let has_engine = sources.texts.contains_key(&format!("{ENGINE}lib.rs"));
    for (i, (from, to, _)) in EXCEPTIONS.iter().enumerate() {
        if has_engine && !used.contains(&i) {
            findings.push(format!(
                "the exception `{from}` -> `{to}` of the layer rule is not needed"
            ));
        }
    }
    findings.extend(impure(sources));
    findings
}

/// The row and the place in it.
fn place(module: &str) -> Option<(usize, usize)> {
    ROWS.iter().enumerate().find_map(|(row, modules)| {
        let column = modules.iter().position(|m| *m == module)?;
        Some((row, column))
    })
}

fn impure(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, code) in sources.code_under(ENGINE) {
        let inside = &path[ENGINE.len()..];
        if !PURE.iter().any(|pure| inside.starts_with(pure)) {
            continue;
        }
        for word in IMPURE {
            if let Some(at) = code.find(word) {
                let line = line_of(code, at);
                findings.push(format!(
                    "{path}:{line}: `{word}` in a part that is to be pure"
                ));
            }
        }
    }
    findings
}

#[derive(Debug)]
struct Edge {
    path: String,
    line: usize,
    from: String,
    to: String,
}

/// Every naming of one top-level module by another.
fn edges(sources: &Sources, exports: &BTreeMap<String, String>) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (path, code) in sources.code_under(ENGINE) {
        let inside = &path[ENGINE.len()..];
        let from = inside
            .split('/')
            .next()
            .unwrap_or(inside)
            .trim_end_matches(".rs");
        let is_root = inside.ends_with("/mod.rs") || inside == "lib.rs";
        let depth = inside.split('/').count() - usize::from(is_root);
        let up = "super::".repeat(depth);
        for root in ["crate::", up.as_str()]
            .into_iter()
            .filter(|root| !root.is_empty())
        {
            for (at, _) in code.match_indices(root) {
                let before = &code[..at];
                let longer = before.ends_with("super::")
                    || before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
                let rest = &code[at + root.len()..];
                if longer || rest.starts_with("super::") {
                    continue;
                }
                for name in first_names(rest) {
                    let to = exports.get(&name).unwrap_or(&name);
                    if to != from {
                        edges.push(Edge {
                            path: path.to_owned(),
                            line: line_of(code, at),
                            from: from.to_owned(),
                            to: to.clone(),
                        });
                    }
                }
            }
        }
    }
    edges
}

/// The names that a path goes on with: one, or those of a group in braces.
fn first_names(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let Some(group) = rest.strip_prefix('{') else {
        return vec![name(rest)];
    };
    let mut names = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(name(&group[start..i]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(name(&group[start..i]));
                start = i + 1;
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// What the crate's root gives out of its modules: a name, and the module that it is from.
fn exports(sources: &Sources) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    let root = format!("{ENGINE}lib.rs");
    for (_, code) in sources.code_under(&root) {
        for item in code.split(';') {
            let Some((_, path)) = item.split_once("pub use ") else {
                continue;
            };
            let Some((module, names)) = path.split_once("::") else {
                continue;
            };
            for name in names.trim_matches(|c| c == '{' || c == '}').split(',') {
                let name = name.trim().trim_end_matches('}').trim();
                exports.insert(name.to_owned(), module.trim().to_owned());
            }
        }
    }
    exports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Sources::of(files))
    }

    #[test]
    fn modules_name_what_is_below_them() {
        let files = [
            (
                "crates/hedgerow/src/read.rs",
                "use crate::table::{Query, Table};\nuse crate::{error, page};",
            ),
            ("crates/hedgerow/src/write.rs", "use crate::flush;"),
            ("crates/hedgerow/src/table/mod.rs", "mod open;"),
        ];
        assert_eq!(findings(&files), Vec::<String>::new());
    }

    #[test]
    fn every_way_to_name_a_module_above_is_found() {
        let path = "crates/hedgerow/src/table/open.rs";
        for code in [
            "use crate::read::get;",
            "use crate::{error::Error, read};",
            "fn f() { crate::read::get() }",
            "use super::super::read;",
        ] {
            let found = findings(&[(path, code)]);
            assert_eq!(
                found,
                [format!("{path}:1: `table` names `read`, which is above it")],
                "{code}"
            );
        }
        let in_comments = [(
            path,
            "//! [`crate::read`]\nfn f() -> &'static str { \"crate::read\" }",
        )];
        assert_eq!(findings(&in_comments), Vec::<String>::new());
    }

    #[test]
    fn a_name_given_out_by_the_root_counts_as_its_module() {
        let files = [
            (
                "crates/hedgerow/src/lib.rs",
                "pub use error::{Error, ErrorKind};\npub use db::Db;",
            ),
            (
                "crates/hedgerow/src/flush.rs",
                "use crate::ErrorKind;\nuse crate::Db;",
            ),
        ];
        let found = findings(&files);
        assert!(
            found[0].ends_with("flush.rs:2: `flush` names `db`, which is above it"),
            "{found:?}"
        );
        assert_eq!(found.len(), 1 + EXCEPTIONS.len());
    }

    #[test]
    fn the_planner_does_no_io() {
        let found = findings(&[(
            "crates/hedgerow/src/compaction/planner/mod.rs",
            "use hedgerow_io::Storage;",
        )]);
        assert_eq!(found.len(), 1);
    }
}
