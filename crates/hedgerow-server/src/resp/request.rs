//! Requests: arrays of byte strings, or inline commands. The parser keeps its place between reads,
//! so a long request is looked at once. No bytes make it panic.

use std::ops::Range;

use crate::number;

/// The bytes of an inline command, or of a line with a length.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The bounds of a request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The bytes of one argument.
    pub argument_bytes: usize,
    /// The number of arguments.
    pub arguments: usize,
}

impl Limits {
    /// The bounds of what a client sends before it has given the password.
    pub(crate) const UNAUTHENTICATED: Limits = Limits {
        argument_bytes: 16 << 10,
        arguments: 10,
    };

    fn are_before_login(self) -> bool {
        self.arguments <= Limits::UNAUTHENTICATED.arguments
    }
}

/// The errors of a line with a length.
struct Texts {
    /// It is no number, or too large.
    invalid: &'static str,
    /// It is too large for a client that has not given the password.
    unauthenticated: &'static str,
    /// It has no end.
    endless: &'static str,
}

const MULTIBULK: Texts = Texts {
    invalid: "invalid multibulk length",
    unauthenticated: "unauthenticated multibulk length",
    endless: "too big mbulk count string",
};

const BULK: Texts = Texts {
    invalid: "invalid bulk length",
    unauthenticated: "unauthenticated bulk length",
    endless: "too big bulk count string",
};

/// A request, as places in the bytes that were parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The places of the arguments.
    Array(Vec<Range<usize>>),
    /// The arguments of an inline command, which may have had quotes.
    Inline(Vec<Vec<u8>>),
}

impl Request {
    /// Appends the arguments; `bytes` are those that were parsed.
    pub(crate) fn add_words<'a>(&'a self, bytes: &'a [u8], to: &mut Vec<&'a [u8]>) {
        match self {
            Request::Array(places) => to.extend(places.iter().map(|it| &bytes[it.clone()])),
            Request::Inline(words) => to.extend(words.iter().map(Vec::as_slice)),
        }
    }
}

/// The reason why bytes are no request; nothing behind them can be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError(pub String);

/// A parser of the bytes of one connection.
#[derive(Debug, Default)]
pub struct Parser {
    /// Everything before it was parsed.
    at: usize,
    /// The beginning of the array that is not complete.
    begin: usize,
    /// The arguments that an array still lacks; `None` between requests.
    missing: Option<usize>,
    /// The length of the argument that is being read.
    argument: Option<usize>,
    arguments: Vec<Range<usize>>,
}

impl Parser {
    /// The next request of `bytes`, which are those of the call before and possibly more. `None` if
    /// it is not complete.
    ///
    /// # Errors
    /// The first bytes that no request can have.
    pub fn next(&mut self, bytes: &[u8], limits: Limits) -> Result<Option<Request>, ProtocolError> {
        loop {
            let Some(missing) = self.missing else {
                match bytes.get(self.at) {
                    None => return Ok(None),
                    Some(b'*') => {
                        self.begin = self.at;
                        let bound = (limits.arguments, limits.are_before_login());
                        let Some(count) = self.length(bytes, bound, &MULTIBULK)? else {
                            return Ok(None);
                        };
                        // An empty request has no reply.
                        if let Some(count) = count.filter(|count| *count > 0) {
                            self.missing = Some(count);
                            self.arguments = Vec::with_capacity(count.min(64));
                        }
                    }
                    Some(_) => match self.inline(bytes)? {
                        Some(arguments) if arguments.is_empty() => {}
                        other => return Ok(other.map(Request::Inline)),
                    },
                }
                continue;
            };
            if missing == 0 {
                self.missing = None;
                return Ok(Some(Request::Array(std::mem::take(&mut self.arguments))));
            }
            if !self.argument(bytes, limits)? {
                return Ok(None);
            }
            self.missing = Some(missing - 1);
        }
    }

    /// The complete requests of `bytes` as [`Parser::next`] finds them, up to `count_max`, and the
    /// error behind them.
    pub(crate) fn requests(
        &mut self,
        bytes: &[u8],
        limits: Limits,
        count_max: usize,
    ) -> (Vec<Request>, Option<ProtocolError>) {
        let mut requests = Vec::new();
        while requests.len() < count_max {
            match self.next(bytes, limits) {
                Ok(Some(request)) => requests.push(request),
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
        (requests, None)
    }

    /// Forgets the bytes of whole requests, so that they are to be removed. Returns their number.
    pub fn parsed(&mut self) -> usize {
        let parsed = match self.missing {
            None => self.at,
            Some(_) => self.begin,
        };
        self.at -= parsed;
        self.begin = 0;
        if parsed > 0 {
            for place in &mut self.arguments {
                *place = place.start - parsed..place.end - parsed;
            }
        }
        parsed
    }

    /// The bytes that the present argument needs behind those that are there.
    pub fn wanted(&self, bytes: &[u8]) -> usize {
        let end = self.argument.map_or(0, |length| self.at + length + 2);
        end.saturating_sub(bytes.len())
    }

    /// Reads one argument. Returns true if it was complete.
    fn argument(&mut self, bytes: &[u8], limits: Limits) -> Result<bool, ProtocolError> {
        if self.argument.is_none() {
            match bytes.get(self.at) {
                None => return Ok(false),
                Some(b'$') => {}
                Some(other) => {
                    let found = other.escape_ascii();
                    return Err(ProtocolError(format!("expected '$', got '{found}'")));
                }
            }
            let bound = (limits.argument_bytes, limits.are_before_login());
            let Some(length) = self.length(bytes, bound, &BULK)? else {
                return Ok(false);
            };
            let length = length.ok_or_else(|| ProtocolError(BULK.invalid.to_owned()))?;
            self.argument = Some(length);
        }
        let Some(length) = self.argument else {
            return Ok(false);
        };
        let end = self.at + length;
        if bytes.len() < end + 2 {
            return Ok(false);
        }
        self.arguments.push(self.at..end);
        self.at = end + 2;
        self.argument = None;
        Ok(true)
    }

    /// The number behind a `*` or `$`; `Some(None)` for a negative one.
    #[allow(clippy::option_option, reason = "not complete, negative, a length")]
    fn length(
        &mut self,
        bytes: &[u8],
        (max, is_before_login): (usize, bool),
        texts: &Texts,
    ) -> Result<Option<Option<usize>>, ProtocolError> {
        let Some(line) = self.line(&bytes[self.at..], texts.endless)? else {
            return Ok(None);
        };
        // Two parsers that read `01` or `+1` differently see different requests.
        let number =
            number::integer(&line[1..]).ok_or_else(|| ProtocolError(texts.invalid.to_owned()))?;
        self.at += line.len() + 2;
        let Ok(length) = usize::try_from(number) else {
            return Ok(Some(None));
        };
        if length > max {
            // Redis takes no count above this one, whoever the client is.
            let text = match is_before_login && number <= i64::from(i32::MAX) {
                true => texts.unauthenticated,
                false => texts.invalid,
            };
            return Err(ProtocolError(text.to_owned()));
        }
        Ok(Some(Some(length)))
    }

    /// The bytes up to a line's end, without it.
    fn line<'a>(&self, rest: &'a [u8], too_long: &str) -> Result<Option<&'a [u8]>, ProtocolError> {
        let within = &rest[..rest.len().min(LINE_BYTES_MAX)];
        match within.iter().position(|byte| *byte == b'\r') {
            // The byte behind it is a newline, whatever it is.
            Some(end) if end + 1 < rest.len() => Ok(Some(&rest[..end])),
            Some(_) => Ok(None),
            None if rest.len() >= LINE_BYTES_MAX => Err(ProtocolError(too_long.to_owned())),
            None => Ok(None),
        }
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, ProtocolError> {
        let rest = &bytes[self.at..];
        let within = &rest[..rest.len().min(LINE_BYTES_MAX)];
        let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
            if rest.len() >= LINE_BYTES_MAX {
                return Err(ProtocolError("too big inline request".to_owned()));
            }
            return Ok(None);
        };
        self.at += end + 1;
        let line = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
        let words = split_words(line);
        let words =
            words.ok_or_else(|| ProtocolError("unbalanced quotes in request".to_owned()))?;
        Ok(Some(words))
    }
}

/// The words of a line. Quotes keep spaces together, double ones know escapes. `None` if a quote is
/// not closed, or not followed by a space.
pub(crate) fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        let Some(first) = rest.first() else {
            return Some(words);
        };
        let mut word = Vec::new();
        rest = match first {
            b'"' | b'\'' => {
                let rest = quoted(&rest[1..], *first, &mut word)?;
                if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                    return None;
                }
                rest
            }
            _ => {
                let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'"';
                let end = rest.iter().position(is_end).unwrap_or(rest.len());
                word.extend_from_slice(&rest[..end]);
                match rest.get(end) {
                    Some(b'"') => {
                        let rest = quoted(&rest[end + 1..], b'"', &mut word)?;
                        if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                            return None;
                        }
                        rest
                    }
                    _ => &rest[end..],
                }
            }
        };
        words.push(word);
    }
}

/// Appends what is quoted, and returns the bytes behind the closing quote.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (first, behind) = rest.split_first()?;
        rest = behind;
        match (first, rest) {
            (b'\\', [b'x', high, low, behind @ ..])
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0) as u8;
                word.push(digit(high) << 4 | digit(low));
                rest = behind;
            }
            (b'\\', [escaped, behind @ ..]) if quote == b'"' || *escaped == b'\'' => {
                word.push(match (quote, escaped) {
                    (b'"', b'n') => b'\n',
                    (b'"', b'r') => b'\r',
                    (b'"', b't') => b'\t',
                    (b'"', b'b') => 8,
                    (b'"', b'a') => 7,
                    _ => *escaped,
                });
                rest = behind;
            }
            (byte, _) if *byte == quote => return Some(rest),
            (byte, _) => word.push(*byte),
        }
    }
}
