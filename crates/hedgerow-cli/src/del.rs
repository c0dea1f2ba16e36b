//! `hedgerow del KEY…`: deletes keys, or all keys of a range.

use std::ffi::OsString;

use hedgerow::Durability;
use serde_json::json;

use crate::database::EntryArguments;
use crate::encoding;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::range::RangeArguments;

const EXAMPLE: &str = "\
Example:
  hedgerow del --db people ada grace
  hedgerow del --db people --from a --to c";

/// Deletes keys or a range of keys, all of them or none; durable when the command ends.
///
/// The keys need not exist. The cost of a range does not depend on the keys in it.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "hedgerow del [OPTIONS] --db <DIR> <KEY>...\n       hedgerow del [OPTIONS] --db <DIR> <--from <KEY>|--to <KEY>|--prefix <KEY>>"
)]
#[command(after_help = EXAMPLE, after_long_help = format!("{EXAMPLE}\n\n{}", encoding::HELP))]
pub(crate) struct Arguments {
    #[command(flatten)]
    entries: EntryArguments,

    #[command(flatten)]
    range: RangeArguments,

    /// The keys.
    #[arg(value_name = "KEY", required_unless_present_any = ["from", "to", "prefix"])]
    keys: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let encoding = arguments.entries.encoding.choice();
    let range = arguments.range.range(encoding)?;
    // An unset variable of a shell would delete everything.
    if range.has_empty_key() {
        let message = "expected a key of at least one byte for `--from`, `--to` or `--prefix`, found none: \
                       `hedgerow clear NAME` deletes all keys";
        return Err(Failure::new(Exit::Usage, message));
    }
    let (db, keyspace) = arguments.entries.keyspace.open_to_write()?;
    let mut batch = db.batch();
    for key in &arguments.keys {
        batch.delete(&keyspace, encoding.argument(key)?)?;
    }
    let has_range = !range.is_everything();
    if let Some(prefix) = range.prefix() {
        batch.delete_prefix(&keyspace, prefix)?;
    } else if has_range {
        batch.delete_range::<&[u8]>(&keyspace, range.bounds())?;
    }
    batch.commit(Durability::Synced)?;
    db.close()?;
    let (name, keys) = (&arguments.entries.keyspace.name, arguments.keys.len());
    output.object(&match has_range {
        true => json!({ "keyspace": name, "deleted": keys, "ranges_deleted": 1 }),
        false => json!({ "keyspace": name, "deleted": keys }),
    });
    Ok(())
}
