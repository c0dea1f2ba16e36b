//! Commands that wait until a key has something: for how long, and in place of which reply.

use crate::number;
use crate::resp::Reply;
use crate::store::{Answer, Stop};

/// Seconds to wait, 0 for ever.
pub(super) fn timeout(argument: &[u8]) -> Answer<f64> {
    let wrong = || Stop::reply("ERR timeout is not a float or out of range");
    let seconds = number::parse_any_float(argument).ok_or_else(wrong)?;
    if seconds < 0.0 {
        return Err(Stop::reply("ERR timeout is negative"));
    }
    let in_range = seconds < 1e13;
    in_range
        .then_some(seconds)
        .ok_or_else(|| Stop::reply("ERR timeout is out of range"))
}

/// The seconds that a command waits, whose arguments were checked when it was run.
pub(crate) fn seconds_to_wait(args: &[Vec<u8>]) -> f64 {
    let is = |word: &str| args[0].eq_ignore_ascii_case(word.as_bytes());
    let (argument, parts) = match () {
        () if is("BLMPOP") || is("BZMPOP") => (args.get(1), 1.0),
        () if is("XREAD") || is("XREADGROUP") => {
            let is_block = |it: &Vec<u8>| it.eq_ignore_ascii_case(b"BLOCK");
            let place = args.iter().position(is_block);
            (place.and_then(|it| args.get(it + 1)), 1_000.0)
        }
        () => (args.last(), 1.0),
    };
    let seconds = argument.and_then(|it| timeout(it).ok());
    seconds.unwrap_or(0.0) / parts
}

/// Waits in place of a reply that says that there was nothing.
pub(super) fn or_wait(reply: Reply) -> Answer<Reply> {
    Ok(match reply {
        Reply::Null | Reply::NullArray => Reply::Wait,
        found => found,
    })
}
