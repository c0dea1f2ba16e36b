//! `hedgerow largest`: the keys and the prefixes with the most bytes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::Failure;
use crate::output::{Output, bytes, count, progress};
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
    let mut walk = Walk::new(&keyspace, range, false)?;
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
        bar.inc(1);
    }
    bar.finish_and_clear();
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
    if prefixes.is_empty() {
        let delimiter = arguments.delimiter;
        output.line(format_args!(
            "\nno key has a `{delimiter}`; `--delimiter` names another end of prefixes"
        ));
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
