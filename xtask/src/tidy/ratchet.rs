//! Files and functions that are long may stay so, but may not grow.
//!
//! `xtask/ratchet.txt` records each file and each function above the limits with its length. A new
//! one is a finding, and so is one that grew, or that is shorter than its record: then the record
//! goes down with it. A record that is not needed is a finding, too, so the list only shrinks. A
//! long file usually has two nouns: divide it by noun, not by line.

use std::collections::BTreeMap;

use super::Sources;

/// Physical lines, comments included, but for what is only compiled for tests.
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 60;
/// The limits of tests. A file of code with its tests has the limit of tests, too.
const TEST_FILE_LINES_MAX: usize = 800;
const TEST_FUNCTION_LINES_MAX: usize = 100;
const RECORD: &str = "xtask/ratchet.txt";

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let empty = String::new();
    let record = sources.texts.get(RECORD).unwrap_or(&empty);
    let mut recorded: BTreeMap<&str, usize> = BTreeMap::new();
    for line in record
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let Some((what, lines)) = line.rsplit_once(' ') else {
            return vec![format!(
                "{RECORD}: expected `path lines` or `path function lines`: {line}"
            )];
        };
        recorded.insert(what, lines.parse().unwrap_or(0));
    }
    let mut findings = Vec::new();
    for (what, lines) in long(sources) {
        match recorded.remove(what.as_str()) {
            None => findings.push(format!(
                "{what}: {lines} lines are too many; divide it by noun"
            )),
            Some(before) if lines > before => {
                findings.push(format!("{what}: grew from {before} to {lines} lines"));
            }
            Some(before) if lines < before => {
                findings.push(format!(
                    "{what}: shrank; record {lines} instead of {before} in {RECORD}"
                ));
            }
            Some(_) => {}
        }
    }
    findings.extend(
        recorded
            .keys()
            .map(|what| format!("{RECORD}: `{what}` is not long any more")),
    );
    findings
}

/// The files and functions over a limit, with their lengths.
fn long(sources: &Sources) -> Vec<(String, usize)> {
    let mut long = Vec::new();
    for (path, text) in sources.rust() {
        let stripped = sources.stripped(path);
        let lines = text.lines().count();
        let code_lines = stripped.map_or(0, |code| lines - code.test_lines);
        if code_lines > FILE_LINES_MAX {
            long.push((path.to_owned(), code_lines));
        } else if lines > TEST_FILE_LINES_MAX {
            long.push((path.to_owned(), lines));
        }
        let code: Vec<&str> = stripped.map_or(Vec::new(), |it| it.code.lines().collect());
        for (name, first, lines) in functions(text) {
            let is_code = code.get(first).is_some_and(|line| !line.trim().is_empty());
            let max = match is_code {
                true => FUNCTION_LINES_MAX,
                false => TEST_FUNCTION_LINES_MAX,
            };
            if lines > max {
                long.push((format!("{path} {name}"), lines));
            }
        }
    }
    long
}

/// The functions of a formatted file with their first lines, from 0, and their lengths: a function
/// ends at the brace that is indented like its first line.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some(name) = function_name(code) else {
            continue;
        };
        let closing = format!("{}}}", &line[..line.len() - code.len()]);
        // A method of a trait may have no body.
        let declared = format!("{})", &line[..line.len() - code.len()]);
        let ends = |l: &&str| {
            **l == closing || l.ends_with(';') && (l == line || l.starts_with(&declared))
        };
        let end = lines[i..].iter().position(ends);
        let lines = if code.ends_with('}') {
            1
        } else {
            end.map_or(1, |end| end + 1)
        };
        functions.push((name.to_owned(), i, lines));
    }
    functions
}

fn function_name(code: &str) -> Option<&str> {
    let (before, rest) = code.split_once("fn ")?;
    let qualifiers = [
        "pub",
        "pub(crate)",
        "pub(super)",
        "const",
        "async",
        "unsafe",
        "extern",
        "\"C\"",
    ];
    let is_item = before
        .split_whitespace()
        .all(|word| qualifiers.contains(&word));
    let end = rest.find(['(', '<'])?;
    is_item.then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!(
            "impl A {{\n    pub(crate) fn f(\n        x: u8,\n    ) {{\n{}    }}\n}}\n",
            "        x;\n".repeat(lines - 4)
        )
    }

    #[test]
    fn functions_are_measured() {
        assert_eq!(functions(&function(120)), [("f".to_owned(), 1, 120)]);
        assert_eq!(
            functions("trait T {\n    fn g(&self);\n    fn h(&self) {}\n}\n")
                .iter()
                .map(|f| f.2)
                .max(),
            Some(1)
        );
        let declared =
            "trait T {\n    fn g(\n        &self,\n    ) -> u8;\n\n    fn h(&self) {}\n}\n";
        assert_eq!(functions(declared)[0], ("g".to_owned(), 1, 3));
    }

    #[test]
    fn the_ratchet_only_goes_down() {
        let text = function(120);
        let check_with =
            |record: &str| check(&Sources::of(&[("a/src/b.rs", &text), (RECORD, record)]));
        assert_eq!(check_with("").len(), 1);
        assert_eq!(
            check_with("# why\na/src/b.rs f 120\n"),
            Vec::<String>::new()
        );
        assert!(check_with("a/src/b.rs f 119\n")[0].contains("grew"));
        assert!(check_with("a/src/b.rs f 121\n")[0].contains("shrank"));
        assert_eq!(check_with("a/src/b.rs f 120\na/src/c.rs 900\n").len(), 1);
    }

    #[test]
    fn tests_may_be_longer_than_code() {
        let found = |files: &[(&str, &str)]| check(&Sources::of(files)).len();
        let (code, short) = (function(61), "    x;\n".repeat(490));
        let tests = format!("{short}#[cfg(test)]\nmod tests {{\n{code}\n}}\n");
        assert_eq!(found(&[("crates/a/src/b.rs", &code)]), 1);
        assert_eq!(found(&[("crates/a/tests/b.rs", &code)]), 0);
        assert_eq!(found(&[("crates/a/src/b.rs", &tests)]), 0);
        assert_eq!(
            found(&[("crates/a/src/b.rs", &tests.replace("#[cfg(test)]", ""))]),
            2
        );
    }
}
