//! `hedgerow largest`: the keys and the prefixes with the most bytes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::Failure;
use crate::output::{Output, bytes, count, counted, progress};
use crate::range::{RangeArguments, Walk};

const EXAMPLE: &str = "\
Example:
  hedgerow largest --db files
  hedgerow largest --db edges --prefix-bytes 8 --top 20";

/// Shows the keys with the largest values, and the prefixes with the most bytes of keys and values.
///
/// Reads the whole range, and keeps a number for each prefix in memory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[command(flatten)]
    range: RangeArguments,

    /// Shows this many of each.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// The character that ends a prefix; a key without it has none.
    #[arg(
        long,
        value_name = "C",
        default_value_t = '/',
        conflicts_with = "prefix_bytes"
    )]
    delimiter: char,

    /// The length of a prefix; a shorter key has none.
    #[arg(long, value_name = "BYTES")]
    prefix_bytes: Option<usize>,
}

impl Arguments {
    /// The prefix of a key, its delimiter included.
    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        if let Some(length) = self.prefix_bytes {
            return key.get(..length);
        }
        let mut buffer = [0; 4];
        let delimiter = self.delimiter.encode_utf8(&mut buffer).as_bytes();
        let at = key.windows(delimiter.len()).position(|it| it == delimiter);
        at.map(|at| &key[..at + delimiter.len()])
    }

    /// The reason why none of the keys has a prefix.
    fn why_no_prefix(&self, keys: u64) -> String {
        match (keys, self.prefix_bytes) {
            (0, _) => "there are no keys".to_owned(),
            (_, Some(length)) => format!("no key has {} or more", counted(length as u64, "byte")),
            (_, None) => format!(
                "no key has a `{}`; `--delimiter` names another end of prefixes",
                self.delimiter
            ),
        }
    }
}

/// The bytes and the number of the entries of a prefix.
#[derive(Default)]
struct Sum {
    bytes: u64,
    entries: u64,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let encoding = arguments.entries.encoding.choice();
    let range = arguments.range.range(encoding)?;
    let (_db, keyspace) = arguments.entries.keyspace.open_to_read()?;
    let bar = progress("reading", keyspace.stats().entries());
    let mut keys = BinaryHeap::new();
    let mut prefixes: HashMap<Vec<u8>, Sum> = HashMap::new();
    let (mut walk, mut read) = (Walk::new(&keyspace, range, false)?, 0);
    while let Some(key) = walk.next()?.map(<[u8]>::to_vec) {
        let value = walk.value()?.len() as u64;
        if let Some(prefix) = arguments.prefix(&key) {
            if !prefixes.contains_key(prefix) {
                prefixes.insert(prefix.to_vec(), Sum::default());
            }
            let sum = prefixes.get_mut(prefix).expect("it was just added");
            sum.bytes += key.len() as u64 + value;
            sum.entries += 1;
        }
        keys.push(Reverse((value, Reverse(key))));
        if keys.len() > arguments.top {
            keys.pop();
        }
        read += 1;
        bar.set_position(read);
    }
    bar.finish_and_clear();
    let is_without = prefixes.is_empty();
    let why_no_prefix = is_without.then(|| arguments.why_no_prefix(read));
    let mut prefixes: Vec<(Vec<u8>, Sum)> = prefixes.into_iter().collect();
    prefixes.sort_unstable_by(|(a, x), (b, y)| y.bytes.cmp(&x.bytes).then_with(|| a.cmp(b)));
    prefixes.truncate(arguments.top);

    output.line(format_args!("{:>12}  key", "value"));
    for Reverse((value, Reverse(key))) in keys.into_sorted_vec() {
        output.line(format_args!(
            "{:>12}  {}",
            bytes(value),
            encoding.encode(&key)
        ));
        output.object(&json!({ "key": encoding.encode_json(&key), "value_bytes": value }));
    }
    if let Some(why) = why_no_prefix {
        output.line(format_args!("\n{why}"));
        return Ok(());
    }
    output.line(format_args!("\n{:>12}  {:>12}  prefix", "bytes", "entries"));
    for (prefix, sum) in prefixes {
        let (shown, entries) = (encoding.encode(&prefix), count(sum.entries));
        output.line(format_args!(
            "{:>12}  {entries:>12}  {shown}",
            bytes(sum.bytes)
        ));
        output.object(&json!({
            "prefix": encoding.encode_json(&prefix),
            "bytes": sum.bytes,
            "entries": sum.entries,
        }));
    }
    Ok(())
}
