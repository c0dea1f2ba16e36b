//! `hedgerow scan`: shows the keys of a range with their values.

use std::io::{self, BufWriter, Write};

use serde_json::json;

use crate::database::KeyspaceArguments;
use crate::encoding::{self, Encoding, EncodingArguments};
use crate::exit::Failure;
use crate::output::Output;
use crate::range::{RangeArguments, Walk};

const EXAMPLE: &str = "\
Example:
  hedgerow scan --db people --from a --to c
  hedgerow scan --db people --prefix log/ --reverse --limit 10 --keys-only";

/// Shows the keys of a range with their values, in order: a line for each, key TAB value.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    keyspace: KeyspaceArguments,

    #[command(flatten)]
    encoding: EncodingArguments,

    #[command(flatten)]
    range: RangeArguments,

    /// Ends after this many keys.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,

    /// From the last key to the first.
    #[arg(long)]
    reverse: bool,

    /// Shows, and reads, no values.
    #[arg(long)]
    keys_only: bool,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let encoding = arguments.encoding.choice();
    let range = arguments.range.range(encoding)?;
    let (_db, keyspace) = arguments.keyspace.open_to_read()?;
    let mut walk = Walk::new(&keyspace, range, arguments.reverse)?;
    let mut stdout = BufWriter::new(io::stdout().lock());
    for _ in 0..arguments.limit {
        let Some(key) = walk.next()?.map(<[u8]>::to_vec) else {
            break;
        };
        let value = match arguments.keys_only {
            true => None,
            false => Some(walk.value()?),
        };
        let line = line(encoding, output.is_json(), &key, value);
        writeln!(stdout, "{line}").map_err(|e| Failure::output(&e))?;
    }
    stdout.flush().map_err(|e| Failure::output(&e))
}

fn line(encoding: Encoding, as_json: bool, key: &[u8], value: Option<&[u8]>) -> String {
    match (as_json, value) {
        (true, None) => json!({ "key": encoding.encode_json(key) }).to_string(),
        (true, Some(value)) => {
            json!({ "key": encoding.encode_json(key), "value": encoding.encode_json(value) })
                .to_string()
        }
        (false, None) => encoding.encode(key),
        (false, Some(value)) => format!("{}\t{}", encoding.encode(key), encoding.encode(value)),
    }
}
