//! Patterns with `*`, `?`, `[a-z]`, `[^x]` and escapes, over bytes.

/// Returns true if the whole text matches. Time: the product of both lengths at worst.
pub(crate) fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // The place behind the last star, and the text that it has taken up to now.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        let Some(byte) = text.get(t) else {
            return p == pattern.len();
        };
        if let Some(next) = one(&pattern[p..], *byte, ignore_case) {
            (p, t) = (p + next, t + 1);
            continue;
        }
        // The last star takes one byte more.
        let Some((behind, taken)) = star else {
            return false;
        };
        (p, t) = (behind, taken + 1);
        star = Some((behind, taken + 1));
    }
}

/// The length of the element of the pattern that matches one byte; `None` if it does not.
fn one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let fold = |byte: u8| {
        if ignore_case {
            byte.to_ascii_lowercase()
        } else {
            byte
        }
    };
    let is = |other: u8| fold(other) == fold(byte);
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => is(*escaped).then_some(2),
        [b'[', class @ ..] => {
            let negated = class.first() == Some(&b'^');
            let mut at = usize::from(negated);
            let mut found = false;
            loop {
                match &class[at.min(class.len())..] {
                    [] => break,
                    [b']', ..] => {
                        at += 1;
                        break;
                    }
                    [b'\\', escaped, ..] => {
                        found |= is(*escaped);
                        at += 2;
                    }
                    [from, b'-', to, ..] => {
                        let (from, to) = (fold(*from), fold(*to));
                        found |= (from.min(to)..=from.max(to)).contains(&fold(byte));
                        at += 3;
                    }
                    [single, ..] => {
                        found |= is(*single);
                        at += 1;
                    }
                }
            }
            (found != negated).then_some(1 + at)
        }
        [literal, ..] => is(*literal).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h*llo", "heeello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[a-c]llo", "hbllo", true),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("a*b*c", "aXbYbZc", true),
            ("[", "[", false),
            ("", "x", false),
            ("*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaa", false),
        ] {
            let found = matches(pattern.as_bytes(), text.as_bytes(), false);
            assert_eq!(found, expected, "{pattern} {text}");
        }
        assert!(matches(b"GET*", b"getex", true));
    }
}
