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
    for (path, code) in sources.code_under(ENGINE) {
        let inside = path[ENGINE.len()..].trim_end_matches(".rs");
        let inside = inside.trim_end_matches("/mod");
        let (folder, name) = inside.rsplit_once('/').unwrap_or(("", inside));
        if !CONTRACTS.contains(&name) {
            let is_of_format = TABLE_FORMATS.contains(&folder) && OF_TABLE_FORMATS.contains(&name);
            modules.entry(name).or_default().push((path, is_of_format));
        }
        // The root groups what it shows.
        for name in inline(code).filter(|_| inside != "lib") {
            modules.entry(name).or_default().push((path, false));
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

/// The modules that are written in a file.
fn inline(code: &str) -> impl Iterator<Item = &str> {
    let begins = code.lines().filter_map(|line| line.strip_suffix(" {"));
    let named = begins.filter_map(|line| line.rsplit_once("mod "));
    let names = named.map(|(_, name)| name);
    names.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_') && *name != "tests")
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
        let mut files: Vec<(&str, &str)> = files.iter().map(|path| (path.as_str(), "")).collect();
        files[2].1 = "mod lines {\n}\npub(super) mod code {\n}\nfn f() {\n}\n";
        files[3].1 = "mod code {\n}\nmod tests {\n}\n";
        let found = check(&Sources::of(&files));
        let pairs = [
            ("b/conformance.rs", "c/conformance.rs"),
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
