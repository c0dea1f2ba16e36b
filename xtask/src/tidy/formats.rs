//! Bytes on disk are documented: a file that cites a document of `docs/format` has every number
//! and magic that it fixes in that document.

use std::collections::BTreeSet;

use super::Sources;
use super::rust::line_of;

const FORMATS: &str = "docs/format/";
/// Constants of these names choose; they fix nothing on disk.
const CHOICES: &[&str] = &[
    "ROTATE_BYTES_MIN",
    "ROTATE_GROWTH",
    "OP_OVERHEAD_BYTES_MAX",
    "TAIL_BYTES",
    "PIECE",
];

pub(crate) fn check(sources: &Sources) -> Vec<String> {
    let mut findings = Vec::new();
    let mut cited = BTreeSet::new();
    let rust: BTreeSet<&str> = sources
        .code_under("crates/")
        .map(|(path, _)| path)
        .collect();
    for (path, text) in sources
        .rust()
        .filter(|(path, _)| path.starts_with("crates/"))
    {
        let documents = citations(text);
        for document in &documents {
            if !sources.texts.contains_key(document) {
                findings.push(format!("{path}: cites {document}, which is not there"));
            }
        }
        cited.extend(documents.iter().cloned());
        let mut known: Vec<&String> = documents
            .iter()
            .filter_map(|d| sources.texts.get(d))
            .collect();
        if known.is_empty() || !rust.contains(path) {
            continue;
        }
        // The common part of all formats.
        known.extend(sources.texts.get("docs/format/README.md"));
        for constant in constants(text) {
            let written = constant
                .spellings
                .iter()
                .any(|s| known.iter().any(|d| mentions(d, s)));
            if !written && !is_choice(&constant.name) {
                let Constant {
                    line,
                    name,
                    spellings,
                } = constant;
                let value = &spellings[0];
                findings.push(format!(
                    "{path}:{line}: {name} = {value} is not in {}",
                    documents.iter().cloned().collect::<Vec<_>>().join(", ")
                ));
            }
        }
    }
    for document in sources
        .texts
        .keys()
        .filter(|path| path.starts_with(FORMATS))
    {
        if !document.ends_with("README.md") && !cited.contains(document) {
            findings.push(format!("{document}: no source cites it"));
        }
    }
    findings
}

/// Masks of what a reader knows follow from the flags and features that it lists.
fn is_choice(name: &str) -> bool {
    CHOICES.contains(&name) || name.contains("KNOWN")
}

/// The documents that a file names in its comments.
fn citations(text: &str) -> BTreeSet<String> {
    text.match_indices(FORMATS)
        .filter_map(|(at, _)| {
            let end = text[at..].find(".md")? + 3;
            let name = &text[at..at + end];
            (!name.contains(char::is_whitespace)).then(|| name.to_owned())
        })
        .collect()
}

struct Constant {
    line: usize,
    name: String,
    /// The value, in the ways that a document may write it.
    spellings: Vec<String>,
}

/// The constants of a file whose value is a literal.
fn constants(text: &str) -> Vec<Constant> {
    let mut constants = Vec::new();
    for (at, _) in text.match_indices("const ") {
        let item = text[at + "const ".len()..].lines().next().unwrap_or("");
        let item = item.trim_end_matches(';');
        let (Some((name, _)), Some((_, value))) = (item.split_once(':'), item.split_once(" = "))
        else {
            continue;
        };
        let spellings = spellings(value.trim());
        if !spellings.is_empty() {
            constants.push(Constant {
                line: line_of(text, at),
                name: name.to_owned(),
                spellings,
            });
        }
    }
    constants
}

fn spellings(value: &str) -> Vec<String> {
    if let Some(magic) = value.trim_start_matches('*').strip_prefix("b\"") {
        return vec![magic.trim_end_matches('"').to_owned()];
    }
    if let Some(name) = value.strip_prefix('"') {
        return vec![name.trim_end_matches('"').to_owned()];
    }
    let plain = value.replace('_', "");
    let number = match plain.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => match plain.split_once(" << ") {
            Some((base, shift)) => match (base.parse::<u64>(), shift.parse::<u32>()) {
                (Ok(base), Ok(shift)) => base.checked_shl(shift),
                _ => None,
            },
            None => plain.parse().ok(),
        },
    };
    let Some(number) = number else {
        return Vec::new();
    };
    let mut spellings = vec![
        number.to_string(),
        format!("{number}th"),
        grouped(number),
        format!("0x{number:x}"),
        format!("0x{number:X}"),
    ];
    for (shift, unit) in [(10, "KiB"), (20, "MiB"), (30, "GiB")] {
        if number > 0 && number.trailing_zeros() >= shift {
            spellings.push(format!("{} {unit}", number >> shift));
        }
    }
    let word = [
        "zero", "one", "two", "three", "four", "five", "six", "seven", "eight",
    ];
    spellings.extend(word.get(number as usize).map(|w| (*w).to_owned()));
    spellings
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns true if a document has a value that is not part of a longer one.
fn mentions(document: &str, value: &str) -> bool {
    let joined = |c: char| c.is_alphanumeric() || c == '_';
    document.match_indices(value).any(|(at, _)| {
        !document[..at].ends_with(joined) && !document[at + value.len()..].starts_with(joined)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "//! See `docs/format/page.md`.\nconst MAGIC: [u8; 8] = *b\"hedgePAG\";\npub(crate) const BYTES: usize = 4096;\nconst MASK: u8 = 0x1F;";

    #[test]
    fn what_is_documented_is_no_finding() {
        let document = (
            "docs/format/page.md",
            "`hedgePAG`, pages of 4,096 bytes, mask 0x1f",
        );
        let sources = Sources::of(&[("crates/a/src/page.rs", CODE), document]);
        assert_eq!(check(&sources), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_documented_is_found() {
        let sources = Sources::of(&[
            ("crates/a/src/page.rs", CODE),
            ("crates/a/src/gone.rs", "// docs/format/gone.md"),
            ("docs/format/page.md", "pages of 40960 bytes"),
            ("docs/format/old.md", ""),
        ]);
        let found = check(&sources);
        assert_eq!(found.len(), 5, "{found:#?}");
    }
}
