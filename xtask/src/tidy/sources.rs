//! The files of the workspace, in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::rust::{self, Stripped};

/// The text files that the rules look at, by their path under the workspace, `/` between parts.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) texts: BTreeMap<String, String>,
    /// Every file of a `testdata` folder, of any kind.
    pub(crate) testdata: BTreeSet<String>,
    /// Rust files without comments, contents of strings, and what is only compiled for tests.
    stripped: BTreeMap<String, Stripped>,
}

/// Folders that are not part of the source.
const SKIPPED: [&str; 7] = [
    "target",
    ".git",
    "artifacts",
    "coverage",
    "corpus",
    "runs",
    "node_modules",
];
const TEXTS: [&str; 13] = [
    "rs", "md", "toml", "sh", "txt", "c", "h", "cpp", "hpp", "java", "js", "py", "ts",
];

impl Sources {
    /// Reads the workspace.
    pub(crate) fn read(root: &Path) -> Sources {
        let mut sources = Sources::default();
        sources.read_dir(root, "");
        sources.strip();
        sources
    }

    /// A small tree for a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Sources {
        let mut sources = Sources::default();
        for (path, text) in files {
            sources.insert(path, (*text).to_owned());
        }
        sources.strip();
        sources
    }

    fn insert(&mut self, path: &str, text: String) {
        if path.contains("/testdata/") {
            self.testdata.insert(path.to_owned());
        } else {
            self.texts.insert(path.to_owned(), text);
        }
    }

    #[allow(clippy::disallowed_methods, reason = "a tool on the real file system")]
    fn read_dir(&mut self, dir: &Path, prefix: &str) {
        let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        for entry in entries {
            let entry = entry.unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let full = entry.path();
            if full.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    self.read_dir(&full, &format!("{path}/"));
                }
                continue;
            }
            let is_text =
                path == ".ci/run" || TEXTS.iter().any(|t| name.ends_with(&format!(".{t}")));
            if is_text || path.contains("/testdata/") {
                let bytes = std::fs::read(&full).unwrap_or_else(|e| panic!("{path}: {e}"));
                self.insert(&path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }

    fn strip(&mut self) {
        let files = self
            .rust()
            .map(|(path, text)| (path.to_owned(), rust::strip(text)));
        self.stripped = files.collect();
        let mut only_tests = BTreeSet::new();
        for (path, stripped) in &self.stripped {
            let folder = rust::child_folder(path);
            for module in &stripped.test_modules {
                only_tests.insert(format!("{folder}{module}.rs"));
                only_tests.insert(format!("{folder}{module}/"));
            }
        }
        self.stripped.retain(|path, _| {
            let in_test_folder = ["/tests/", "/benches/", "/examples/"].iter().any(|f| {
                let in_crate = path.splitn(3, '/').nth(2).unwrap_or("");
                format!("/{in_crate}").starts_with(f)
            });
            !in_test_folder
                && !only_tests
                    .iter()
                    .any(|t| path == t || (t.ends_with('/') && path.starts_with(t.as_str())))
        });
    }

    /// All Rust files with their texts.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// A file that is compiled outside of tests, stripped.
    pub(super) fn stripped(&self, path: &str) -> Option<&Stripped> {
        self.stripped.get(path)
    }

    /// The code compiled outside of tests in the files under a folder, without comments and
    /// contents of strings. Line numbers are those of the file.
    pub(crate) fn code_under<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.stripped
            .iter()
            .filter(move |(path, _)| path.starts_with(folder))
            .map(|(path, stripped)| (path.as_str(), stripped.code.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_compile_is_left_out() {
        let sources = Sources::of(&[
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/b.rs", "#[cfg(test)]\nmod model;\n"),
            ("crates/a/src/b/model.rs", ""),
            ("crates/a/src/tests.rs", ""),
            ("crates/a/src/tests/more.rs", ""),
            ("crates/a/tests/it.rs", ""),
        ]);
        let left: Vec<_> = sources
            .code_under("crates/")
            .map(|(path, _)| path)
            .collect();
        assert_eq!(left, ["crates/a/src/b.rs", "crates/a/src/lib.rs"]);
    }
}
