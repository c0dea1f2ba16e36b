//! Comments begin with a sentence or a noun phrase and fit the page, as STYLE.md says.

use super::Sources;

/// The longest comment line; rustfmt does not wrap comments.
const COLUMNS_MAX: usize = 100;
/// A comment that begins with one of these words is a fragment.
const FRAGMENTS: [&str; 8] = [
    "Of", "What", "How", "Whether", "Who", "Which", "When", "Where",
];

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let mut findings = long_lines(sources);
    for (path, text) in sources.rust() {
        let mut above = None;
        for (i, line) in text.lines().enumerate() {
            let comment = comment(line);
            let Some((marker, words)) = comment else {
                above = None;
                continue;
            };
            let first = words.split(|c: char| !c.is_alphanumeric()).next();
            let is_fragment = first.is_some_and(|first| FRAGMENTS.contains(&first));
            if above != Some(marker) && is_fragment {
                findings.push(format!(
                    "{path}:{}: a comment begins with a fragment: `{words}`",
                    i + 1
                ));
            }
            above = Some(marker);
        }
    }
    findings
}

/// The comment lines of any language that do not fit.
fn long_lines(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in &sources.texts {
        let (_, extension) = path.rsplit_once('.').unwrap_or_default();
        let markers: &[&str] = match extension {
            "rs" => &["//"],
            "c" | "cpp" | "h" | "hpp" | "java" | "js" | "ts" => &["//", "/*", "* "],
            "py" | "sh" => &["#"],
            _ => continue,
        };
        for (line, number) in text.lines().zip(1..) {
            let columns = line.chars().count();
            let begin = line.trim_start();
            if columns > COLUMNS_MAX && markers.iter().any(|marker| begin.starts_with(marker)) {
                findings.push(format!(
                    "{path}:{number}: a comment line of {columns} columns, at most {COLUMNS_MAX}"
                ));
            }
        }
    }
    findings
}

/// The marker and the words of a line that is a comment.
fn comment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let marker = ["///", "//!", "//"]
        .into_iter()
        .find(|marker| line.starts_with(marker))?;
    Some((marker, line[marker.len()..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_and_long_lines_are_found() {
        let long = format!("    // {}", "word ".repeat(20));
        let text = format!(
            "//! Of a file.\n//! What follows is fine.\n\n/// Offers.\n// How it works.\nlet a = 1;\n\
             /// The value.\n///\n/// Whether it is large.\n{long}\n\n\
             /// Whoever reads it.\n// When it is read.\n"
        );
        let java = format!("/**\n * {}\n */\n", "word ".repeat(20));
        assert_eq!(
            check(&Sources::of(&[("a/src/b.rs", &text), ("a/C.java", &java)])),
            [
                "a/C.java:2: a comment line of 103 columns, at most 100",
                "a/src/b.rs:10: a comment line of 107 columns, at most 100",
                "a/src/b.rs:1: a comment begins with a fragment: `Of a file.`",
                "a/src/b.rs:5: a comment begins with a fragment: `How it works.`",
                "a/src/b.rs:13: a comment begins with a fragment: `When it is read.`",
            ]
        );
    }
}
