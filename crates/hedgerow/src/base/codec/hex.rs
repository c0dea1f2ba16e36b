//! Worked examples in `docs/format`: the hex dump in a document must equal the bytes of the code.

use std::fmt::Write;
use std::path::PathBuf;

const START: &str = "```hexdump\n";
const END: &str = "\n```";

/// Fails unless the first hex dump of a document shows these bytes. `HEDGEROW_BLESS=1` writes it.
/// The remarks after `|` are kept.
#[allow(clippy::disallowed_methods, reason = "tests read the documents")]
pub(crate) fn check_documented(document: &str, bytes: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/format")
        .join(document);
    let text = std::fs::read_to_string(&path).unwrap();
    let start = text.find(START).unwrap() + START.len();
    let end = start + text[start..].find(END).unwrap();
    let shown = &text[start..end];
    let found: Vec<u8> = shown
        .lines()
        .flat_map(|line| line.split('|').next().unwrap().split_whitespace().skip(1))
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    if found == bytes {
        return;
    }
    if std::env::var_os("HEDGEROW_BLESS").is_none() {
        panic!(
            "{document} shows other bytes than are written; HEDGEROW_BLESS=1 rewrites it:\n{}",
            dump(bytes, shown)
        );
    }
    let blessed = format!("{}{}{}", &text[..start], dump(bytes, shown), &text[end..]);
    std::fs::write(&path, blessed).unwrap();
}

/// Cuts the lines as the old dump does, and keeps its remarks.
fn dump(bytes: &[u8], old: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    let mut lines = old.lines();
    while at < bytes.len() {
        let (shown, remark) = lines
            .next()
            .map_or(("", ""), |l| l.split_once('|').unwrap_or((l, "")));
        let count = shown.split_whitespace().count().saturating_sub(1);
        let count = if count == 0 { 16 } else { count };
        let line = &bytes[at..bytes.len().min(at + count)];
        let mut hex = format!("{at:04}:");
        for byte in line {
            write!(hex, " {byte:02x}").unwrap();
        }
        if !out.is_empty() {
            out.push('\n');
        }
        write!(
            out,
            "{}",
            format!("{hex:<54}|{remark}")
                .trim_end_matches('|')
                .trim_end()
        )
        .unwrap();
        at += line.len();
    }
    out
}
