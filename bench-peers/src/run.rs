//! One store, measured in this process.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use hedgerow_bench::{Result, Session};

use crate::flags::Flags;
use crate::group;
use crate::stores::Kind;

/// What one process measures.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    flags: Flags,
    /// The store
    #[arg(long, value_enum)]
    store: Kind,
    /// The control group to go into first
    #[arg(long)]
    group: Option<PathBuf>,
}

impl Run {
    /// Runs the workloads in their order and prints a JSON object for each.
    pub(crate) fn run(self) -> Result<()> {
        let Run {
            flags,
            store,
            group,
        } = self;
        if let Some(group) = group {
            group::enter(&group)?;
        }
        let rocksdb_options = flags.rocksdb_options.clone();
        let open = move |options: &_| store.open(options, &rocksdb_options);
        let mut session = Session::new(Box::new(open), flags.open_options(), flags.settings())?;
        for task in &flags.workloads {
            session.change(|settings| settings.threads = task.threads)?;
            let result = session.run(task.workload, &|_| {})?;
            writeln!(std::io::stdout(), "{result}")?;
        }
        Ok(())
    }
}
