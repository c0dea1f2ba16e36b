//! Work that is not done has an issue, not a mark in the code.

use super::Sources;
use super::rust::{line_of, words};

/// The marks, each in two parts, so that this file does not find itself.
const MARKS: &[(&str, &str)] = &[
    ("TO", "DO"),
    ("FIX", "ME"),
    ("XX", "X"),
    ("HA", "CK"),
    ("todo", "!("),
    ("unimplemented", "!("),
];

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    for (path, text) in &sources.texts {
        for (start, end) in MARKS {
            let mark = format!("{start}{end}");
            let at = if mark.ends_with('(') {
                text.find(&mark)
            } else {
                words(text, &mark).next()
            };
            if let Some(at) = at {
                findings.push(format!(
                    "{path}:{}: a mark of unfinished work, {mark}",
                    line_of(text, at)
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_as_words() {
        let text = format!(
            "// {}{}: later\n// {}{}S are fine\n",
            "TO", "DO", "TO", "DO"
        );
        let found = check(&Sources::of(&[("a.rs", &text)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs:1:"));
    }
}
