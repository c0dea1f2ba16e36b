//! The layer rule of the engine: a room, which is a folder, names only rooms below it. Nothing
//! calls back up. ARCHITECTURE.md draws the same table for people.

use std::collections::BTreeSet;

use super::Sources;
use super::rust::line_of;

const ENGINE: &str = "crates/hedgerow/src/";

/// The rooms, from the top.
const ROOMS: &[&str] = &[
    "lib",
    "api",
    "paths",
    "tree",
    "group_filter",
    "design",
    "table",
    "base",
];

/// Rooms beside each other that name no room but `base`, though others lie between.
const OVER_BASE_ALONE: &[&str] = &["design"];

/// Edges against the rule, each with its reason. One that is not used any more is a finding.
const EXCEPTIONS: &[(&str, &str, &str)] = &[];

/// The pure parts, which decide: they never see storage, locks or atomics.
const PURE: &[&str] = &[
    "design/",
    "paths/compaction/retain.rs",
    "table/block_index/",
    "table/filter/",
    "table/iter/",
    "group_filter/cluster/assemble.rs",
    "group_filter/cluster/columns.rs",
    "group_filter/cluster/directory.rs",
    "group_filter/cluster/mod.rs",
    "group_filter/cluster/filter_page.rs",
    "group_filter/multi_level_cuckoo/coverage.rs",
    "group_filter/multi_level_cuckoo/encoding.rs",
    "group_filter/multi_level_cuckoo/mod.rs",
    "group_filter/multi_level_cuckoo/ring.rs",
    "base/key_order/",
    "base/codec/",
    "tree/wal/record.rs",
    "tree/version/edit.rs",
    "tree/version/edit_encoding",
    "tree/version/options_encoding.rs",
    "tree/version/state",
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
    for edge in edges(sources) {
        let Edge {
            path,
            line,
            from,
            to,
        } = &edge;
        let (Some(a), Some(b)) = (place(from), place(to)) else {
            let missing = if place(from).is_none() { from } else { to };
            findings.push(format!(
                "{path}:{line}: `{missing}` is no room of the layer rule"
            ));
            continue;
        };
        if a < b {
            if OVER_BASE_ALONE.contains(&from.as_str()) && to != "base" {
                findings.push(format!(
                    "{path}:{line}: `{from}` names `{to}`, expected `base` alone"
                ));
            }
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

/// The place of a room, from the top.
fn place(room: &str) -> Option<usize> {
    ROOMS.iter().position(|it| *it == room)
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

/// Every naming of one room by another.
fn edges(sources: &Sources) -> Vec<Edge> {
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
                for to in first_names(rest) {
                    if to != from {
                        edges.push(Edge {
                            path: path.to_owned(),
                            line: line_of(code, at),
                            from: from.to_owned(),
                            to,
                        });
                    }
                }
            }
        }
    }
    edges
}

/// The next names of a path: one, or those of a group in braces.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        check(&Sources::of(files))
    }

    #[test]
    fn rooms_name_what_is_below_them() {
        let files = [
            (
                "crates/hedgerow/src/paths/read.rs",
                "use crate::table::{Query, Table};\nuse crate::{base, tree};",
            ),
            ("crates/hedgerow/src/paths/write.rs", "use super::flush;"),
            ("crates/hedgerow/src/table/mod.rs", "mod open;"),
        ];
        assert_eq!(findings(&files), Vec::<String>::new());
    }

    #[test]
    fn every_way_to_name_a_room_above_is_found() {
        let path = "crates/hedgerow/src/table/open.rs";
        for code in [
            "use crate::paths::get;",
            "use crate::{base::Error, paths};",
            "fn f() { crate::paths::get() }",
            "use super::super::paths;",
        ] {
            let found = findings(&[(path, code)]);
            assert_eq!(
                found,
                [format!(
                    "{path}:1: `table` names `paths`, which is above it"
                )],
                "{code}"
            );
        }
        let in_comments = [(
            path,
            "//! [`crate::paths`]\nfn f() -> &'static str { \"crate::paths\" }",
        )];
        assert_eq!(findings(&in_comments), Vec::<String>::new());
    }

    #[test]
    fn decisions_know_no_table() {
        let path = "crates/hedgerow/src/design/advisor/expected.rs";
        let files = [(path, "use crate::base::page;\nuse crate::table::format;")];
        assert_eq!(
            findings(&files),
            [format!(
                "{path}:2: `design` names `table`, expected `base` alone"
            )]
        );
    }

    /// Names come from where they are, not through the root, which gives them to users.
    #[test]
    fn nothing_is_named_through_the_root() {
        let path = "crates/hedgerow/src/paths/flush.rs";
        assert_eq!(
            findings(&[(path, "use crate::ErrorKind;")]),
            [format!(
                "{path}:1: `ErrorKind` is no room of the layer rule"
            )]
        );
    }

    #[test]
    fn the_planner_does_no_io() {
        let found = findings(&[(
            "crates/hedgerow/src/design/planner/mod.rs",
            "use hedgerow_io::Storage;",
        )]);
        assert_eq!(found.len(), 1);
    }
}
