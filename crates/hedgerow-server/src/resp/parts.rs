//! A check of the parser for fuzzers: requests do not depend on the reads that bring their bytes.

use super::{Limits, Parser, ProtocolError};

/// The bounds of a client that has logged in; small, so that short inputs reach them.
const LIMITS: Limits = Limits {
    argument_bytes: 1 << 16,
    arguments: 1 << 8,
};

/// The most cuts that an input asks for.
const CUTS_MAX: u8 = 7;

/// All requests of some bytes, and the error behind them.
type Parsed = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Returns true if the same requests are found in bytes as a whole and in parts.
///
/// The lowest three bits of the first byte are the number of cuts, the next one asks for the bounds
/// before a login. Each cut is two bytes: the length of a part. The bytes of requests are the rest.
pub fn is_parsed_alike(input: &[u8]) -> bool {
    let Some((first, rest)) = input.split_first() else {
        return true;
    };
    let limits = match first >> 3 & 1 {
        0 => LIMITS,
        _ => Limits::UNAUTHENTICATED,
    };
    let (mut cuts, mut bytes) = (Vec::new(), rest);
    for _ in 0..first & CUTS_MAX {
        if let [low, high, behind @ ..] = bytes {
            cuts.push(usize::from(u16::from_le_bytes([*low, *high])));
            bytes = behind;
        }
    }
    parse(bytes, &[], limits) == parse(bytes, &cuts, limits)
}

/// Parses parts of these lengths and the rest, as a connection does.
fn parse(bytes: &[u8], cuts: &[usize], limits: Limits) -> Parsed {
    let (mut parser, mut kept, mut requests) = (Parser::default(), Vec::new(), Vec::new());
    let (mut left, mut cuts) = (bytes, cuts.iter());
    loop {
        let cut = cuts.next().map(|it| (*it).min(left.len()));
        let (part, behind) = left.split_at(cut.unwrap_or(left.len()));
        left = behind;
        kept.extend_from_slice(part);
        let (found, failure) = parser.requests(&kept, limits, usize::MAX);
        for request in found {
            let mut words = Vec::new();
            request.add_words(&kept, &mut words);
            requests.push(words.into_iter().map(<[u8]>::to_vec).collect());
        }
        if failure.is_some() || cut.is_none() {
            return (requests, failure);
        }
        kept.drain(..parser.parsed());
    }
}
