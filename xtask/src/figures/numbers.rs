//! Numbers in texts: finds them, matches them by patterns, and writes them alike.

use std::ops::Range;

/// Finds numbers that stand by themselves outside of code: not those of `p99` or `leveling:10`.
pub(super) fn numbers(text: &str, offset: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut at, mut before, mut is_code) = (0, ' ', false);
    while let Some(c) = text[at..].chars().next() {
        is_code ^= c == '`';
        let length = number_length(&text[at..]);
        let is_part = before.is_alphanumeric() || matches!(before, '.' | '_' | ':');
        if length > 0 && !is_part && !is_code {
            found.push(offset + at..offset + at + length);
        }
        let step = length.max(c.len_utf8());
        before = text[at..at + step].chars().last().unwrap_or(' ');
        at += step;
    }
    found
}

/// The length of a number such as `12`, `-0.5` or `1,234,567.8` that a text begins with, or 0.
fn number_length(text: &str) -> usize {
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let sign = usize::from(text.starts_with('-'));
    let mut length = digits(&text[sign..]);
    if length == 0 {
        return 0;
    }
    length += sign;
    while text[length..].starts_with(',') && digits(&text[length + 1..]) == 3 {
        length += 4;
    }
    let decimals = text[length..].strip_prefix('.').map_or(0, digits);
    if decimals > 0 {
        length + 1 + decimals
    } else {
        length
    }
}

/// The places of the numbers of a pattern, if the text at a place is as it says.
pub(super) fn matched(text: &str, start: usize, pattern: &str) -> Option<Vec<Range<usize>>> {
    let (mut at, mut spans) = (start, Vec::new());
    let mut letters = pattern.chars().peekable();
    while let Some(wanted) = letters.next() {
        if wanted == '#' {
            let length = number_length(&text[at..]);
            let is_rest =
                at == start && text[..at].ends_with(|c| matches!(c, '0'..='9' | '.' | ','));
            if length == 0 || is_rest {
                return None;
            }
            spans.push(at..at + length);
            at += length;
        } else if wanted.is_whitespace() {
            while letters.next_if(|c| c.is_whitespace()).is_some() {}
            let rest = text[at..].trim_start();
            if rest.len() == text.len() - at {
                return None;
            }
            at = text.len() - rest.len();
        } else {
            at += text[at..]
                .chars()
                .next()
                .filter(|found| *found == wanted)?
                .len_utf8();
        }
    }
    Some(spans)
}

/// Writes a number with the decimals of another, and a comma after thousands.
pub(super) fn like(printed: &str, value: f64) -> String {
    let decimals = printed
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let number = format!("{value:.decimals$}");
    let (sign, number) = number
        .strip_prefix('-')
        .map_or(("", &number[..]), |it| ("-", it));
    let (whole, decimals) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut divided = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            divided.push(',');
        }
        divided.push(digit);
    }
    format!("{sign}{divided}{decimals}")
}
