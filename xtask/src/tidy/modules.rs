//! No two modules of the engine have one name, so that a name says which module is meant.

use std::collections::BTreeMap;

use super::Sources;

const ENGINE: &str = "crates/hedgerow/src/";

/// The names of contracts, which every variant of a dimension has.
const CONTRACTS: &[&str] = &["mod", "conformance", "tests"];
/// The contract of a table format: each variant has its reader and its writer.
const TABLE_FORMATS: &[&str] = &["table/block_based", "table/htable"];
const OF_TABLE_FORMATS: &[&str] = &["reader", "writer"];

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let mut modules: BTreeMap<&str, Vec<(&str, bool)>> = BTreeMap::new();
    for (path, _) in sources.code_under(ENGINE) {
        let inside = path[ENGINE.len()..].trim_end_matches(".rs");
        let inside = inside.trim_end_matches("/mod");
        let (folder, name) = inside.rsplit_once('/').unwrap_or(("", inside));
        if !CONTRACTS.contains(&name) {
            let is_of_format = TABLE_FORMATS.contains(&folder) && OF_TABLE_FORMATS.contains(&name);
            modules.entry(name).or_default().push((path, is_of_format));
        }
    }
    let mut findings = Vec::new();
    for named in modules.into_values().filter(|named| named.len() > 1) {
        if named.iter().all(|(_, is_of_format)| *is_of_format) {
            continue;
        }
        let paths: Vec<&str> = named.into_iter().map(|(path, _)| path).collect();
        let (first, others) = (paths[0], paths[1..].join(", "));
        findings.push(format!("{first}:1: a module with the name of {others}"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_modules_of_one_name_are_found() {
        let path = |inside: &str| format!("{ENGINE}{inside}");
        let files = [
            "a/output.rs",
            "b/output/mod.rs",
            "b/conformance.rs",
            "c/conformance.rs",
            "table/htable/reader.rs",
            "table/block_based/reader.rs",
            "table/htable/writer.rs",
            "tree/writer.rs",
        ];
        let files = files.map(path);
        let files: Vec<(&str, &str)> = files.iter().map(|path| (path.as_str(), "")).collect();
        let found = check(&Sources::of(&files));
        let pairs = [
            ("a/output.rs", "b/output/mod.rs"),
            ("table/htable/writer.rs", "tree/writer.rs"),
        ];
        let expected = pairs.map(|(first, other)| {
            let (first, other) = (path(first), path(other));
            format!("{first}:1: a module with the name of {other}")
        });
        assert_eq!(found, expected);
    }
}
