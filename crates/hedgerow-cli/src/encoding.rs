//! The encodings in which keys and values, which are any bytes, are given and shown.
//!
//! The default is text: UTF-8 stands for itself, but a backslash is `\\`, control characters are
//! `\n`, `\r`, `\t` or `\xNN`, and bytes that are not UTF-8 are `\xNN`. So each key and value is on
//! one line, no two look alike, and the shown form can be given back.
//!
//! A JSON string is the text itself, without these escapes; bytes that are not UTF-8 are an object
//! `{"base64": "…"}`. `--hex` and `--base64` apply to every key and value, in JSON too.

use std::ffi::OsStr;
use std::fmt::Write;

use data_encoding::{BASE64, DecodeError, HEXLOWER, HEXLOWER_PERMISSIVE};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};

/// The part of the help about the encoding of keys and values.
pub(crate) const HELP: &str =
    r"Keys and values are text, in which \\, \n, \r, \t and \xNN stand for bytes.";

#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct EncodingArguments {
    /// Takes and shows keys and values in hexadecimal.
    #[arg(long, conflicts_with = "base64")]
    hex: bool,

    /// Takes and shows keys and values in base64.
    #[arg(long)]
    base64: bool,
}

impl EncodingArguments {
    pub(crate) fn choice(self) -> Encoding {
        match self {
            EncodingArguments { hex: true, .. } => Encoding::Hex,
            EncodingArguments { base64: true, .. } => Encoding::Base64,
            _ => Encoding::Text,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Text,
    Hex,
    Base64,
}

impl Encoding {
    /// Decodes a key or value that is an argument.
    pub(crate) fn argument(self, argument: &OsStr) -> Result<Vec<u8>, Failure> {
        let decoded = self.decode(argument.as_encoded_bytes());
        decoded.map_err(|problem| Failure::new(Exit::Usage, problem))
    }

    pub(crate) fn encode(self, bytes: &[u8]) -> String {
        match self {
            Encoding::Text => escape(bytes),
            Encoding::Hex => HEXLOWER.encode(bytes),
            Encoding::Base64 => BASE64.encode(bytes),
        }
    }

    /// The inverse of [`Encoding::encode`]. An error says what was expected and found.
    pub(crate) fn decode(self, text: &[u8]) -> Result<Vec<u8>, String> {
        let found = |name, error: DecodeError| {
            let text = String::from_utf8_lossy(text);
            format!("expected {name}, found `{text}`: {error}")
        };
        match self {
            Encoding::Text => unescape(text),
            Encoding::Hex => HEXLOWER_PERMISSIVE
                .decode(text)
                .map_err(|error| found("hexadecimal digits", error)),
            Encoding::Base64 => BASE64.decode(text).map_err(|error| found("base64", error)),
        }
    }

    pub(crate) fn encode_json(self, bytes: &[u8]) -> Value {
        match (self, std::str::from_utf8(bytes)) {
            (Encoding::Text, Ok(text)) => json!(text),
            (Encoding::Text, Err(_)) => json!({ "base64": BASE64.encode(bytes) }),
            _ => json!(self.encode(bytes)),
        }
    }

    /// The inverse of [`Encoding::encode_json`]. An error says what was expected and found.
    pub(crate) fn decode_json(self, value: Value) -> Result<Vec<u8>, String> {
        match value {
            Value::String(text) if self == Encoding::Text => Ok(text.into_bytes()),
            Value::String(text) => self.decode(text.as_bytes()),
            Value::Object(object) => match object.get("base64") {
                Some(Value::String(text)) if object.len() == 1 => {
                    Encoding::Base64.decode(text.as_bytes())
                }
                _ => Err(unexpected(&Value::Object(object))),
            },
            other => Err(unexpected(&other)),
        }
    }
}

fn unexpected(value: &Value) -> String {
    format!("expected a string or {{\"base64\": \"…\"}}, found {value}")
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str(r"\\"),
                '\n' => text.push_str(r"\n"),
                '\r' => text.push_str(r"\r"),
                '\t' => text.push_str(r"\t"),
                c if c.is_control() => push_hex(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => text.push(c),
            }
        }
        push_hex(&mut text, chunk.invalid());
    }
    text
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, r"\x{byte:02x}");
    }
}

fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        bytes.extend_from_slice(&rest[..at]);
        let (byte, length) = escaped(&rest[at..])?;
        bytes.push(byte);
        rest = &rest[at + length..];
    }
    bytes.extend_from_slice(rest);
    Ok(bytes)
}

/// Decodes the escape at the beginning of `text`. Returns its byte and its length.
fn escaped(text: &[u8]) -> Result<(u8, usize), String> {
    match text {
        [_, b'\\', ..] => Ok((b'\\', 2)),
        [_, b'n', ..] => Ok((b'\n', 2)),
        [_, b'r', ..] => Ok((b'\r', 2)),
        [_, b't', ..] => Ok((b'\t', 2)),
        [_, b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
            Ok((digit(*high) << 4 | digit(*low), 4))
        }
        _ => {
            let length = if text.get(1) == Some(&b'x') { 4 } else { 2 };
            let found = String::from_utf8_lossy(&text[..length.min(text.len())]);
            Err(format!(
                r"expected \\, \n, \r, \t or \xNN, found `{found}`; a backslash is written `\\`"
            ))
        }
    }
}

#[cfg(test)]
mod tests;
