//! The part of Rust's grammar that the rules need: comments, strings, `#[cfg(test)]`. The code is
//! formatted by rustfmt, which settles the rest.

/// A Rust file with comments, contents of strings and test-only items replaced by spaces.
#[derive(Debug)]
pub(crate) struct Stripped {
    pub(crate) code: String,
    /// Modules that the file declares for tests only.
    pub(crate) test_modules: Vec<String>,
    /// The lines of the items that are only compiled for tests.
    pub(crate) test_lines: usize,
}

/// Strips a file.
pub(crate) fn strip(text: &str) -> Stripped {
    let mut code = without_comments(text).into_bytes();
    let mut test_modules = Vec::new();
    let mut test_lines = 0;
    const ATTRIBUTE: &[u8] = b"#[cfg(test)]";
    let mut at = 0;
    while let Some(found) = find(&code[at..], ATTRIBUTE) {
        let start = at + found;
        let item = skip_attributes(&code, start + ATTRIBUTE.len());
        let end = item_end(&code, item);
        let words = String::from_utf8_lossy(&code[item..end]).into_owned();
        let mut words = words.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.clone().any(|word| word == "mod") && code[end - 1] == b';' {
            words.find(|word| *word == "mod");
            test_modules.extend(words.find(|word| !word.is_empty()).map(str::to_owned));
        }
        test_lines += code[start..end].split(|b| *b == b'\n').count();
        blank(&mut code[start..end]);
        at = end;
    }
    Stripped {
        code: String::from_utf8_lossy(&code).into_owned(),
        test_modules,
        test_lines,
    }
}

/// The folder where a file's submodules are.
pub(crate) fn child_folder(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    for root in ["/mod", "/lib", "/main"] {
        if let Some(folder) = stem.strip_suffix(root) {
            return format!("{folder}/");
        }
    }
    format!("{stem}/")
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

fn blank(bytes: &mut [u8]) {
    bytes
        .iter_mut()
        .filter(|b| **b != b'\n')
        .for_each(|b| *b = b' ');
}

fn skip_attributes(code: &[u8], mut at: usize) -> usize {
    loop {
        while at < code.len() && code[at].is_ascii_whitespace() {
            at += 1;
        }
        if !code[at..].starts_with(b"#[") {
            return at;
        }
        let mut depth = 0;
        while at < code.len() {
            match code[at] {
                b'[' => depth += 1,
                b']' => depth -= 1,
                _ => {}
            }
            at += 1;
            if depth == 0 && code[at - 1] == b']' {
                break;
            }
        }
    }
}

/// Behind the `;` or the closing brace of the item that begins here.
fn item_end(code: &[u8], start: usize) -> usize {
    let mut depth = 0;
    for (i, byte) in code.iter().enumerate().skip(start) {
        match byte {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return i + 1;
                }
            }
            b';' if depth == 0 => return i + 1,
            _ => {}
        }
    }
    code.len()
}

/// Replaces comments and what is inside strings and character literals by spaces.
fn without_comments(text: &str) -> String {
    let mut code = text.as_bytes().to_vec();
    let mut at = 0;
    while at < code.len() {
        let rest = &code[at..];
        let end = if rest.starts_with(b"//") {
            at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            at + find(rest, b"*/").map_or(rest.len(), |i| i + 2)
        } else if let Some(bytes) = raw_string(rest, at == 0 || !is_word(code[at - 1])) {
            at + bytes
        } else if rest[0] == b'"' {
            at + string(rest)
        } else if let Some(bytes) = character(rest) {
            at + bytes
        } else {
            at += 1;
            continue;
        };
        let quoted = matches!(code[at], b'"' | b'\'');
        if quoted && end - at >= 2 {
            blank(&mut code[at + 1..end - 1]);
        } else {
            blank(&mut code[at..end]);
        }
        at = end;
    }
    String::from_utf8_lossy(&code).into_owned()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of the raw string that begins here.
fn raw_string(rest: &[u8], begins_word: bool) -> Option<usize> {
    let prefix = if rest.starts_with(b"br") { 2 } else { 1 };
    if !begins_word || (rest[0] != b'r' && prefix == 1) {
        return None;
    }
    let hashes = rest[prefix..].iter().take_while(|b| **b == b'#').count();
    if rest.get(prefix + hashes) != Some(&b'"') {
        return None;
    }
    let closing: Vec<u8> = std::iter::once(b'"')
        .chain(std::iter::repeat_n(b'#', hashes))
        .collect();
    let body = prefix + hashes + 1;
    Some(find(&rest[body..], &closing).map_or(rest.len(), |i| body + i + closing.len()))
}

/// The length of the string that begins here.
fn string(rest: &[u8]) -> usize {
    let mut i = 1;
    while i < rest.len() && rest[i] != b'"' {
        i += if rest[i] == b'\\' { 2 } else { 1 };
    }
    (i + 1).min(rest.len())
}

/// The length of the character literal that begins here; a lifetime is none.
fn character(rest: &[u8]) -> Option<usize> {
    if rest[0] != b'\'' {
        return None;
    }
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(|b| *b == b'\'').map(|i| i + 4);
    }
    // One character of up to four bytes, then the quote.
    (2..=5)
        .find(|i| rest.get(*i) == Some(&b'\''))
        .filter(|i| std::str::from_utf8(&rest[1..*i]).is_ok_and(|s| s.chars().count() == 1))
        .map(|i| i + 1)
}

/// The line number of a place in a text.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
        + 1
}

/// The places where a word stands by itself.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let end = at + word.len();
            (at == 0 || !is_word(bytes[at - 1])) && bytes.get(end).is_none_or(|b| !is_word(*b))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked() {
        let code = without_comments("a /* b */ \"c // d\" 'e' '\\'' r#\"f\"g\"# &'h x // i\nj");
        assert_eq!(
            code.split_whitespace().collect::<String>(),
            "a\"\"''''&'hxj"
        );
    }

    #[test]
    fn items_for_tests_are_blanked() {
        let stripped = strip(
            "use a;\n#[cfg(test)]\n#[allow(x)]\nfn f() { g(); }\n#[cfg(test)]\npub(crate) mod m;\nuse b;",
        );
        assert_eq!(
            stripped.code.split_whitespace().collect::<String>(),
            "usea;useb;"
        );
        assert_eq!(stripped.test_modules, ["m"]);
        assert_eq!(stripped.test_lines, 5);
    }

    #[test]
    fn words_stand_alone() {
        assert_eq!(
            words("unsafe_code unsafe { }", "unsafe").collect::<Vec<_>>(),
            [12]
        );
    }
}
