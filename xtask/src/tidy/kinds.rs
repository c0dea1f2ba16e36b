//! The kinds of a design: its filters, indexes, table formats and merge policies. A line that names
//! one outside of the folder of its dimension is a line that a new kind may have to change. Such
//! lines are few; [`LINES_MAX`] holds the number. Whoever needs to know something of a kind asks
//! its option.

use super::Sources;
use super::rust::words;

/// The most lines of the engine that name a kind elsewhere.
const LINES_MAX: usize = 50;

/// The options whose variants are kinds.
const OPTIONS: &[&str] = &[
    "FilterSpec::",
    "Filter::",
    "IndexSpec::",
    "Index::",
    "TableSpec::",
    "PolicySpec::",
    "Geometry::",
];

/// The modules, types and functions of kinds that have other names.
const NAMES: &[&str] = &[
    "block_based",
    "bloom",
    "bloom_lines",
    "Bloom",
    "bucket_bloom",
    "BucketBlooms",
    "ClusterContents",
    "cuckoo",
    "Cuckoo",
    "CuckooContents",
    "fence_pointers",
    "FencePointers",
    "garnering",
    "garnering_paper",
    "HashMarks",
    "htable",
    "is_of_nodes",
    "multi_level_cuckoo",
    "MultiLevelCuckoo",
    "of_nodes",
    "run_hashes",
    "StoredCluster",
    "three_level",
    "ThreeLevel",
    "tiering",
    "trie",
    "Trie",
    "tries",
];

/// The homes of kinds: the folders of the dimensions, and the files that choose between them.
const HOMES: &[&str] = &[
    "base/options/filter_spec.rs",
    "base/options/index_spec.rs",
    "base/options/policy",
    "base/options/table_spec.rs",
    "design/merge_policy/",
    "group_filter/",
    "table/block_based/",
    "table/block_index/",
    "table/filter/",
    "table/format.rs",
    "table/htable/",
];

const ENGINE: &str = "crates/hedgerow/src/";

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let lines = lines(sources);
    if lines.len() <= LINES_MAX {
        return Vec::new();
    }
    let summary = format!(
        "{ENGINE}: expected at most {LINES_MAX} lines that name a kind outside of its folder, \
         found {}",
        lines.len()
    );
    std::iter::once(summary).chain(lines).collect()
}

/// The lines of the engine that name a kind outside of the folder of its dimension.
pub(crate) fn lines(sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    for (path, code) in sources.code_under(ENGINE) {
        let inside = &path[ENGINE.len()..];
        if HOMES.iter().any(|home| inside.starts_with(home)) {
            continue;
        }
        for (line, number) in code.lines().zip(1..) {
            if names_a_kind(line) {
                found.push(format!("{path}:{number}: names a kind: `{}`", line.trim()));
            }
        }
    }
    found
}

fn names_a_kind(line: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric());
    let names_option = OPTIONS.iter().any(|option| {
        line.match_indices(option).any(|(at, _)| {
            let rest = line[at + option.len()..].chars();
            let name: String = rest.take_while(|c| c.is_alphanumeric()).collect();
            // Neither a constant nor a function.
            let is_variant =
                name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
            begins(at) && (is_variant || !option.ends_with(':'))
        })
    });
    names_option || NAMES.iter().any(|name| words(line, name).next().is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_outside_of_their_homes() {
        let code = "use a::bloom;\nfn f() {\n    Filter::Bloom;\n    FilterSpec::default();\n    \
                    Index::OF_ALL;\n    bloomed();\n    // Filter::None\n}\n";
        let sources = Sources::of(&[
            ("crates/hedgerow/src/paths/a.rs", code),
            ("crates/hedgerow/src/table/filter/b.rs", code),
        ]);
        let found = lines(&sources);
        let path = "crates/hedgerow/src/paths/a.rs";
        assert_eq!(
            found,
            [
                format!("{path}:1: names a kind: `use a::bloom;`"),
                format!("{path}:3: names a kind: `Filter::Bloom;`"),
            ]
        );
        assert_eq!(check(&sources), Vec::<String>::new());
    }

    #[test]
    fn too_many_are_listed() {
        let code = "fn f() { Filter::Bloom }\n".repeat(LINES_MAX + 1);
        let sources = Sources::of(&[("crates/hedgerow/src/paths/a.rs", &code)]);
        assert_eq!(check(&sources).len(), LINES_MAX + 2);
    }
}
