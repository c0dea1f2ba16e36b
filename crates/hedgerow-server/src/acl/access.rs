//! The ways in which a command uses its keys and channels, which rules of users allow or not.

use crate::commands::{Args, Command, Keys, READ, WRITE};

/// The value of a key is told.
pub(super) const READS: u8 = 1;
/// The value of a key is changed.
pub(super) const WRITES: u8 = 2;

/// Either permission is enough.
const ANY: &[&str] = &[
    "exists",
    "hexists",
    "hlen",
    "hstrlen",
    "llen",
    "memory",
    "object",
    "scard",
    "sismember",
    "strlen",
    "touch",
    "type",
    "watch",
    "xlen",
    "zcard",
];
/// Commands that tell what they change.
const BOTH: &[&str] = &[
    "blmpop",
    "blpop",
    "brpop",
    "bzmpop",
    "bzpopmax",
    "bzpopmin",
    "decr",
    "decrby",
    "eval",
    "evalsha",
    "fcall",
    "getdel",
    "getex",
    "getset",
    "hgetdel",
    "hgetex",
    "hincrby",
    "hincrbyfloat",
    "incr",
    "incrby",
    "incrbyfloat",
    "lmpop",
    "lpop",
    "move",
    "rpop",
    "setbit",
    "spop",
    "zincrby",
    "zmpop",
    "zpopmax",
    "zpopmin",
];
/// The first key is told and changed, the second is changed.
const MOVING: &[&str] = &[
    "blmove",
    "brpoplpush",
    "lmove",
    "rename",
    "renamenx",
    "rpoplpush",
    "smove",
];
/// The first key is changed, the others are told.
const STORING: &[&str] = &[
    "bitop",
    "geosearchstore",
    "sdiffstore",
    "sinterstore",
    "sunionstore",
    "zdiffstore",
    "zinterstore",
    "zrangestore",
    "zunionstore",
];
/// The first key is told, the others are changed.
const READING_FIRST: &[&str] = &["copy", "georadius", "georadiusbymember", "sort"];
/// Keys are told, also by a command that may write.
const READING: &[&str] = &["pfcount", "pfdebug", "xreadgroup"];

/// The ways in which the first key and the others are used.
fn ways(command: &Command, args: Args<'_>) -> (u8, u8) {
    let is_in = |list: &[&str]| list.contains(&command.name);
    let has = |from: usize, words: &[&str]| {
        let is = |it: &&[u8]| {
            words
                .iter()
                .any(|word| it.eq_ignore_ascii_case(word.as_bytes()))
        };
        args.iter().skip(from).any(is)
    };
    match command.name {
        "set" if has(3, &["GET"]) => (READS | WRITES, 0),
        "set" => (WRITES, 0),
        "bitfield" if has(2, &["SET", "INCRBY", "OVERFLOW"]) => (READS | WRITES, 0),
        "bitfield" => (READS, 0),
        "pfmerge" => (READS | WRITES, READS),
        _ if is_in(ANY) => (0, 0),
        _ if is_in(BOTH) => (READS | WRITES, READS | WRITES),
        _ if is_in(MOVING) => (READS | WRITES, WRITES),
        _ if is_in(STORING) => (WRITES, READS),
        _ if is_in(READING_FIRST) => (READS, WRITES),
        _ if is_in(READING) => (READS, READS),
        _ if command.has(WRITE) => (WRITES, WRITES),
        _ if command.has(READ) => (READS, READS),
        _ => (0, 0),
    }
}

/// The keys of a call, each with the permissions that it needs; 0 for either.
pub(super) fn keys<'a>(command: &Command, args: Args<'a>) -> Vec<(&'a [u8], u8)> {
    let keys = command.keys.of(args);
    if let Keys::Counted(at, _) = command.keys {
        // A number that is too large is an error of the command.
        let count = args.get(at).and_then(|it| crate::number::integer(it));
        if count.is_some_and(|count| count > (args.len() - at - 1) as i64) {
            return Vec::new();
        }
    }
    let (first, others) = ways(command, args);
    let with_way = |(place, key)| (key, if place == 0 { first } else { others });
    keys.into_iter().enumerate().map(with_way).collect()
}

/// The channels of a call; true if they are patterns, which must be allowed as they are.
pub(super) fn channels<'a>(command: &Command, args: Args<'a>) -> (Args<'a>, bool) {
    match command.name {
        "publish" | "spublish" => (args.get(1..2).unwrap_or_default(), false),
        "subscribe" | "ssubscribe" => (&args[1..], false),
        "psubscribe" => (&args[1..], true),
        _ => (&[], false),
    }
}
