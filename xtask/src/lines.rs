//! Lines of code: what is neither a comment, nor empty, nor compiled for tests only.

use std::collections::BTreeMap;

use crate::tidy::Sources;

/// The lines of each crate, and of each room of the engine.
pub(crate) fn count(sources: &Sources) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for (path, code) in sources.code_under("crates/") {
        let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
        let parts: Vec<&str> = path.split('/').collect();
        *counts.entry(parts[1].to_owned()).or_default() += lines;
        if parts[1] == "hedgerow" && parts.len() > 4 {
            *counts.entry(format!("hedgerow/{}", parts[3])).or_default() += lines;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_tests_and_empty_lines_do_not_count() {
        let sources = Sources::of(&[
            (
                "crates/hedgerow/src/base/a.rs",
                "//! A.\n\nfn a() {\n    // b\n}\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n",
            ),
            ("crates/hedgerow/src/lib.rs", "mod base;\n"),
            ("crates/hedgerow/tests/it.rs", "fn t() {}\n"),
        ]);
        let counts: Vec<_> = count(&sources).into_iter().collect();
        let expected = [("hedgerow", 3), ("hedgerow/base", 2)];
        assert_eq!(
            counts,
            expected.map(|(name, lines)| (name.to_owned(), lines))
        );
    }
}
