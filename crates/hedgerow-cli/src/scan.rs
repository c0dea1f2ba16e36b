//! `hedgerow scan`: shows the keys of a range or a prefix, or all keys, with their values.

use std::io::{self, BufWriter, Write};

use hedgerow::{KeyOrder, Keyspace, ScanToken};
use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding::{self, Encoding};
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::range::{RangeArguments, Walk};

const EXAMPLE: &str = "\
Example:
  hedgerow scan --db people --from a --to c
  hedgerow scan --db people --prefix log/ --reverse --limit 10 --keys-only
  hedgerow scan --db edges --unordered --limit 1000";

/// Shows the keys of a range with their values, in order, one line each: key TAB value.
///
/// A semi-sorted or hashed keyspace has no ranges. --prefix shows the keys of one prefix;
/// --unordered shows all keys in stored order. If such a scan ends before the last key, it prints
/// the token for --resume (on standard error, or as the last object with --json).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[command(flatten)]
    range: RangeArguments,

    /// Ends after this many keys.
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,

    /// Scans from the last key to the first.
    #[arg(long)]
    reverse: bool,

    /// Scans all keys in stored order.
    #[arg(long, conflicts_with_all = ["from", "to", "prefix", "reverse"])]
    unordered: bool,

    /// Resumes an unordered scan of the keyspace.
    #[arg(long, value_name = "TOKEN", requires = "unordered")]
    resume: Option<String>,

    /// Shows no values.
    #[arg(long)]
    keys_only: bool,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let encoding = arguments.entries.encoding.choice();
    let range = arguments.range.range(encoding)?;
    let (_db, keyspace) = arguments.entries.keyspace.open_to_read()?;
    if arguments.unordered {
        return unordered(arguments, &keyspace, output);
    }
    if keyspace.layout().order != KeyOrder::Sorted && range.is_everything() {
        let refused = keyspace.cursor().err().map(Failure::from);
        return refused.map_or(Ok(()), |refused| {
            Err(refused.adding("; the flags for these scans are --prefix and --unordered"))
        });
    }
    let mut walk = Walk::new(&keyspace, range, arguments.reverse)?;
    let mut lines = Lines::new(arguments, output);
    for _ in 0..arguments.limit {
        let Some(key) = walk.next()?.map(<[u8]>::to_vec) else {
            break;
        };
        let value = match arguments.keys_only {
            true => None,
            false => Some(walk.value()?),
        };
        lines.pair(&key, value)?;
    }
    lines.finish()
}

/// Scans from a token on, until Ctrl-C. Prints the token to resume with if there are more keys.
fn unordered(arguments: &Arguments, keyspace: &Keyspace, output: &Output) -> Result<(), Failure> {
    let token = match &arguments.resume {
        Some(text) => Encoding::Hex.decode(text.as_bytes()),
        None => Ok(Vec::new()),
    };
    let token = token.map_err(|why| Failure::new(Exit::Usage, format!("--resume: {why}")))?;
    let mut scan = keyspace.scan_unordered_from(&ScanToken::from(token))?;
    let mut lines = Lines::new(arguments, output);
    let interrupt = Interrupt::listen()?;
    let mut left = arguments.limit;
    while left > 0
        && !interrupt.came()
        && let Some(item) = scan.next()
    {
        let (key, value) = item?;
        lines.pair(&key, (!arguments.keys_only).then_some(&*value))?;
        left -= 1;
    }
    let token = Encoding::Hex.encode(scan.token().as_bytes());
    let is_cut = left == 0 || interrupt.came();
    let more = is_cut && scan.next().transpose()?.is_some();
    match (more, output.is_json()) {
        (true, true) => lines.write(&json!({ "resume": token }).to_string())?,
        (true, false) => eprintln!("there is more: --resume {token}"),
        _ => {}
    }
    lines.finish()?;
    interrupt.check()
}

/// The output: one line per pair.
struct Lines<'a> {
    stdout: BufWriter<io::StdoutLock<'a>>,
    encoding: Encoding,
    as_json: bool,
}

impl Lines<'_> {
    fn new(arguments: &Arguments, output: &Output) -> Self {
        Lines {
            stdout: BufWriter::new(io::stdout().lock()),
            encoding: arguments.entries.encoding.choice(),
            as_json: output.is_json(),
        }
    }

    fn pair(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Failure> {
        self.write(&line(self.encoding, self.as_json, key, value))
    }

    fn write(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.stdout, "{line}").map_err(|e| Failure::output(&e))
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(|e| Failure::output(&e))
    }
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
