//! `hedgerow inspect`: the contents of the files of a database.
//!
//! Each part prints as it reads. Damage is reported where it is found, and by exit code 4 at the
//! end.

mod filter;
mod log;
mod manifest;
mod table;

use hedgerow::Error;
use hedgerow::io::OsStorage;
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLE: &str = "\
Example:
  hedgerow inspect manifest --db people
  hedgerow inspect table people/tables/0000000007.table
  hedgerow inspect log --db people 3";

/// Shows the contents of the files of a database, also of an open or a damaged one.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Manifest(manifest::Arguments),
    Table(table::Arguments),
    Filter(filter::Arguments),
    Log(log::Arguments),
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let mut report = Report {
        output,
        storage: OsStorage::default(),
        damaged: 0,
    };
    match &arguments.what {
        What::Manifest(arguments) => manifest::run(arguments, &mut report)?,
        What::Table(arguments) => table::run(arguments, &mut report)?,
        What::Filter(arguments) => filter::run(arguments, &mut report)?,
        What::Log(arguments) => log::run(arguments, &mut report)?,
    }
    match report.damaged {
        0 => Ok(()),
        n => Err(Failure::new(
            Exit::Corruption,
            format!("expected whole files, found damage in {n} places, reported above"),
        )),
    }
}

/// The output, and the number of damaged places so far.
struct Report<'a> {
    output: &'a mut Output,
    storage: OsStorage,
    /// The number of places that could not be read.
    damaged: usize,
}

impl Report<'_> {
    fn damage(&mut self, error: &Error) {
        self.damaged += 1;
        let text = self.output.red(&format!("damaged: {error}"));
        self.output.line(format_args!("{text}"));
        self.output.object(&json!({
            "damage": error.to_string(),
            "path": error.path().map(|path| path.to_string_lossy()),
            "offset": error.offset(),
        }));
    }

    fn tell(&mut self, text: &str, object: &Value) {
        self.output.line(format_args!("{text}"));
        self.output.object(object);
    }

    /// True if the reader of the output has closed it, so that the command can end.
    fn is_unread(&self) -> bool {
        self.output.is_broken()
    }
}

/// The name of a choice in JSON.
fn name(choice: impl std::fmt::Debug) -> String {
    crate::keyspaces::lower(choice)
}
