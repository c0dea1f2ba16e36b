//! `hedgerow inspect`: what the files of a database say.
//!
//! Each part prints as it reads. Damage is told in its place, and by exit code 4 at the end.

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

/// Shows what the files of a database say: of an open one, too, and of a damaged one.
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
            format!("expected whole files, found damage in {n} of their places, told above"),
        )),
    }
}

/// What is printed so far.
struct Report<'a> {
    output: &'a mut Output,
    storage: OsStorage,
    /// Places that could not be read.
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

    /// Whether nobody reads any more, so that going on is in vain.
    fn is_unread(&self) -> bool {
        self.output.is_broken()
    }
}

/// The name of a choice, as programs see it.
fn name(choice: impl std::fmt::Debug) -> String {
    crate::keyspaces::lower(choice)
}
