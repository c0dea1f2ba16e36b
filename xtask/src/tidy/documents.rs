//! Documents and what they speak of: links lead somewhere, names of the code are in the code,
//! invariants that the code names are written down, words that the glossary replaces are not used,
//! test data is used.

use std::collections::BTreeSet;

use super::Sources;
use super::rust::{line_of, words};

const INVARIANTS: &str = "docs/invariants.md";
const GLOSSARY: &str = "docs/glossary.md";
/// The section of the glossary whose table has a word to avoid in each first cell.
const AVOIDED: &str = "## Words we do not use";

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let mut findings = links(sources);
    findings.extend(names(sources));
    findings.extend(invariants(sources));
    findings.extend(avoided_words(sources));
    findings.extend(unused_testdata(sources));
    findings
}

fn links(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    let exists = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        sources
            .texts
            .keys()
            .chain(&sources.testdata)
            .any(|p| p == path || p.starts_with(&folder))
    };
    for (path, text) in sources
        .texts
        .iter()
        .filter(|(path, _)| path.ends_with(".md"))
    {
        for (at, _) in text.match_indices("](") {
            let Some(end) = text[at..].find(')') else {
                continue;
            };
            let target = text[at + 2..at + end].split('#').next().unwrap_or("");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let resolved = resolve(path, target);
            // Licences have no ending, and so are not among the texts.
            if !exists(&resolved) && !resolved.starts_with("LICENSE-") {
                let line = line_of(text, at);
                findings.push(format!("{path}:{line}: the link to {target} leads nowhere"));
            }
        }
    }
    findings
}

/// A relative path from a file.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Documents that walk through the code name functions and types; a renamed one is found here.
fn names(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for path in ["ARCHITECTURE.md", INVARIANTS] {
        let text = sources.texts.get(path).map_or("", String::as_str);
        for (i, line) in text.lines().enumerate() {
            // Every second piece is between backticks.
            for quoted in line.split('`').skip(1).step_by(2) {
                let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                let name = quoted.rsplit("::").next().unwrap_or(quoted);
                let known = || {
                    let mut texts = sources.texts.iter().filter(|(p, _)| !p.ends_with(".md"));
                    texts.any(|(_, text)| words(text, name).next().is_some())
                };
                if quoted.chars().all(is_name) && !known() {
                    findings.push(format!("{path}:{}: the code has no `{quoted}`", i + 1));
                }
            }
        }
    }
    findings
}

fn invariants(sources: &Sources) -> Vec<String> {
    let Some(document) = sources.texts.get(INVARIANTS) else {
        return Vec::new();
    };
    let mut defined = BTreeSet::new();
    let mut findings = Vec::new();
    for (at, _) in document.match_indices("- **") {
        let name = document[at + 4..].split("**").next().unwrap_or("");
        if is_invariant(name) && !defined.insert(name) {
            let line = line_of(document, at);
            findings.push(format!("{INVARIANTS}:{line}: {name} is another one's name"));
        }
    }
    for (path, text) in sources
        .rust()
        .filter(|(path, _)| path.starts_with("crates/"))
    {
        for (i, line) in text.lines().enumerate() {
            let Some((_, comment)) = line.split_once("//") else {
                continue;
            };
            for word in comment.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_') {
                if is_invariant(word) && !defined.contains(word) {
                    findings.push(format!("{path}:{}: {word} is not in {INVARIANTS}", i + 1));
                }
            }
        }
    }
    findings
}

/// I3, P1, S6.
fn is_invariant(word: &str) -> bool {
    let number = word.strip_prefix(['I', 'P', 'S']).unwrap_or("");
    !number.is_empty() && number.len() <= 2 && number.chars().all(|c| c.is_ascii_digit())
}

fn avoided_words(sources: &Sources) -> Vec<String> {
    let Some((_, section)) = sources
        .texts
        .get(GLOSSARY)
        .and_then(|text| text.split_once(AVOIDED))
    else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let rows = section
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let avoided = rows.flat_map(|cell| cell.split(',')).map(str::trim);
    for word in
        avoided.filter(|word| !word.is_empty() && !word.starts_with("---") && *word != "not")
    {
        for (path, text) in sources
            .rust()
            .filter(|(path, _)| path.starts_with("crates/"))
        {
            let lower = text.to_lowercase();
            // In backquotes it is another program's word.
            let is_ours = |at: &usize| !lower[..*at].ends_with('`');
            for at in words(&lower, word).filter(is_ours) {
                let line = line_of(&lower, at);
                findings.push(format!(
                    "{path}:{line}: `{word}`: {GLOSSARY} has another word for it"
                ));
            }
        }
    }
    findings
}

fn unused_testdata(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for path in &sources.testdata {
        let Some((owner, inside)) = path.split_once("/testdata/") else {
            continue;
        };
        let name = inside.rsplit('/').next().unwrap_or(inside);
        // A test names the file, or a folder that it is in.
        let folders: Vec<String> = inside
            .match_indices('/')
            .map(|(end, _)| format!("testdata/{}", &inside[..end]))
            .filter(|folder| folder != "testdata/format")
            .collect();
        let used = sources
            .rust()
            .filter(|(p, _)| p.starts_with(owner))
            .any(|(_, text)| {
                text.contains(&format!("{name}\""))
                    || folders.iter().any(|folder| text.contains(folder.as_str()))
            });
        if !used {
            findings.push(format!("{path}: no test uses it"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found() {
        let sources = Sources::of(&[
            ("docs/a.md", "[b](b.md) [c](../c/) [d](https://e.f) [g](#h)"),
            ("docs/b.md", "[x](../gone.md)"),
            ("c/d.rs", ""),
        ]);
        assert_eq!(
            links(&sources),
            ["docs/b.md:1: the link to ../gone.md leads nowhere"]
        );
    }

    #[test]
    fn names_of_the_code_are_in_the_code() {
        let sources = Sources::of(&[
            ("ARCHITECTURE.md", "`Db::open` and `Db::close` in `db.rs`"),
            ("crates/a/src/db.rs", "impl Db { fn open() {} }"),
        ]);
        assert_eq!(
            names(&sources),
            ["ARCHITECTURE.md:1: the code has no `Db::close`"]
        );
    }

    #[test]
    fn invariants_that_the_code_names_are_written_down() {
        let sources = Sources::of(&[
            (
                INVARIANTS,
                "- **I1** something holds\n- **I1** another thing\n",
            ),
            (
                "crates/a/src/lib.rs",
                "// by I1 and I2, not S3-FIFO\nconst I9: u8 = 0;",
            ),
        ]);
        assert_eq!(
            invariants(&sources),
            [
                "docs/invariants.md:2: I1 is another one's name",
                "crates/a/src/lib.rs:1: I2 is not in docs/invariants.md"
            ]
        );
    }

    #[test]
    fn replaced_words_are_found() {
        let glossary = format!("{AVOIDED}\n\n| not | but |\n|---|---|\n| sstable, sst | table |\n");
        let sources = Sources::of(&[
            (GLOSSARY, &glossary),
            (
                "crates/hedgerow/src/lib.rs",
                "// An SSTable.\nfn master() {}",
            ),
        ]);
        assert_eq!(avoided_words(&sources).len(), 1);
    }

    #[test]
    fn test_data_is_named_by_a_test() {
        let sources = Sources::of(&[
            ("a/testdata/walked/x.txt", ""),
            ("a/testdata/one.bin", ""),
            ("a/testdata/old.bin", ""),
            (
                "a/src/tests.rs",
                "open(\"one.bin\"); walk(\"testdata/walked\")",
            ),
        ]);
        assert_eq!(
            unused_testdata(&sources),
            ["a/testdata/old.bin: no test uses it"]
        );
    }
}
