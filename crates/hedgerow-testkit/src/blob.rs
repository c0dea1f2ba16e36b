//! Keys and values in a script. Short bytes are written out. Long ones are a head and a filler.

use std::fmt;
use std::str::FromStr;

use crate::random::{Random, hash};

/// A key or a value.
///
/// Its text is the head (letters, digits and `_/.-` as they are, the rest as `\xNN`, nothing as
/// `''`), followed by `~N` for N bytes in all that compress well, or `!N` for N that do not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blob {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The bytes after the head.
    pub filler: Filler,
}

/// The rest of a [`Blob`], with the length of the whole in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filler {
    /// No bytes.
    None,
    /// One repeated byte.
    Repeated(u32),
    /// Random bytes, determined by the head.
    Random(u32),
}

impl Blob {
    /// A blob of these bytes, without a filler.
    pub fn of(head: impl Into<Vec<u8>>) -> Blob {
        Blob {
            head: head.into(),
            filler: Filler::None,
        }
    }

    /// The bytes of the blob.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head.clone();
        match self.filler {
            Filler::None => {}
            Filler::Repeated(n) => bytes.resize((n as usize).max(bytes.len()), b'+'),
            Filler::Random(n) => {
                let mut random = Random::new(hash(&self.head));
                while bytes.len() < n as usize {
                    let left = n as usize - bytes.len();
                    let word = random.next().to_le_bytes();
                    bytes.extend_from_slice(&word[..left.min(8)]);
                }
            }
        }
        bytes
    }
}

/// Escapes bytes as in the text of a [`Blob`]'s head.
pub fn escape(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "''".to_owned();
    }
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'/' | b'.' | b'-' => {
                text.push(char::from(byte));
            }
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// Prints bytes for people: short ones in full, long ones as beginning, length and hash.
pub fn show(bytes: &[u8]) -> String {
    if bytes.len() <= 32 {
        return escape(bytes);
    }
    format!(
        "{}..{}#{:08x}",
        escape(&bytes[..16]),
        bytes.len(),
        hash(bytes) as u32
    )
}

impl fmt::Display for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.head))?;
        match self.filler {
            Filler::None => Ok(()),
            Filler::Repeated(n) => write!(f, "~{n}"),
            Filler::Random(n) => write!(f, "!{n}"),
        }
    }
}

impl FromStr for Blob {
    type Err = String;

    fn from_str(text: &str) -> Result<Blob, String> {
        let bad = || format!("expected bytes such as `key\\x00~300`, found `{text}`");
        let (head, filler) = if let Some((head, n)) = text.split_once('~') {
            (head, Filler::Repeated(n.parse().map_err(|_| bad())?))
        } else if let Some((head, n)) = text.split_once('!') {
            (head, Filler::Random(n.parse().map_err(|_| bad())?))
        } else {
            (text, Filler::None)
        };
        let mut bytes = Vec::new();
        let mut rest = if head == "''" { "" } else { head };
        while let Some(first) = rest.chars().next() {
            if let Some(code) = rest.strip_prefix("\\x") {
                let digits = code.get(..2).ok_or_else(bad)?;
                bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
                rest = &code[2..];
            } else {
                bytes.push(u8::try_from(first).map_err(|_| bad())?);
                rest = &rest[1..];
            }
        }
        Ok(Blob {
            head: bytes,
            filler,
        })
    }
}
