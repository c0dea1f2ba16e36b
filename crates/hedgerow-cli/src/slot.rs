//! `hedgerow slot`: what a database keeps of its log for the readers of its changes.

use hedgerow::Db;
use serde_json::{Value, json};

use crate::arguments;
use crate::database::DatabaseArguments;
use crate::exit::Failure;
use crate::output::{Output, bytes};

const EXAMPLE: &str = "\
Example:
  hedgerow slot create --db people index --limit 1GiB
  hedgerow changes --db people --slot index
  hedgerow slot confirm --db people index 81234";

/// Creates, lists, moves and drops slots.
///
/// A database keeps its changes for a slot, behind the slot's position, up to a limit.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Creates a slot: all changes from now on are kept
    Create {
        #[command(flatten)]
        slot: SlotArguments,

        /// The bytes of log that it keeps at most, beyond what the database needs itself
        #[arg(long, value_name = "BYTES", default_value = "1GiB", value_parser = arguments::bytes)]
        limit: u64,
    },
    /// Lists the slots with their positions
    List {
        #[command(flatten)]
        database: DatabaseArguments,
    },
    /// Moves a slot behind a commit whose changes its reader has
    Confirm {
        #[command(flatten)]
        slot: SlotArguments,

        /// The number of the commit
        number: u64,
    },
    /// Drops a slot, and what only it keeps
    Drop {
        #[command(flatten)]
        slot: SlotArguments,
    },
}

#[derive(Debug, clap::Args)]
struct SlotArguments {
    #[command(flatten)]
    database: DatabaseArguments,

    /// The name of the slot
    name: String,
}

impl SlotArguments {
    /// Fails with `NotFound` if there is no such slot.
    fn find(&self) -> Result<(), Failure> {
        let found = self.database.existing()?.slot(&self.name);
        found.map(drop).map_err(Failure::of_search)
    }

    /// Opens the database for a change of the slot.
    fn change<T>(
        &self,
        change: impl FnOnce(&Db, &str) -> hedgerow::Result<T>,
    ) -> Result<T, Failure> {
        let db = self.database.open_to_write()?;
        let changed = change(&db, &self.name)?;
        db.close()?;
        Ok(changed)
    }
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    match &arguments.what {
        What::Create { slot, limit } => {
            let position = slot.change(|db, name| db.create_slot(name, *limit))?;
            output.line(format_args!("{position}"));
            output.object(&object(&slot.name, position, *limit));
        }
        What::List { database } => {
            for (name, slot) in database.existing()?.slots()? {
                let (position, limit) = (slot.position, bytes(slot.log_bytes_max));
                output.line(format_args!("{name}: behind {position}, at most {limit}"));
                output.object(&object(&name, position, slot.log_bytes_max));
            }
        }
        What::Confirm { slot, number } => {
            slot.find()?;
            slot.change(|db, name| db.confirm_slot(name, *number))?;
        }
        What::Drop { slot } => {
            slot.find()?;
            slot.change(|db, name| db.drop_slot(name))?;
        }
    }
    Ok(())
}

fn object(name: &str, position: u64, limit: u64) -> Value {
    json!({ "slot": name, "position": position, "limit": limit })
}
