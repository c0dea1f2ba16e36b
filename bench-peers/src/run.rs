//! One store, measured in this process.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use hedgerow_bench::{Result, Session};
use serde_json::json;

use crate::flags::Flags;
use crate::stores::Kind;
use crate::{device, group};

/// The measurement of one process.
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
    /// Measure the device before and after each workload that reads, in the files of the store
    #[arg(long)]
    measure_device: bool,
}

impl Run {
    /// Runs the workloads in their order and prints a JSON object for each.
    pub(crate) fn run(self) -> Result<()> {
        let Run {
            flags,
            store,
            group,
            measure_device,
        } = self;
        if let Some(group) = group {
            group::enter(&group)?;
        }
        let rocksdb_options = flags.rocksdb_options.clone();
        let open = move |options: &_| store.open(options, &rocksdb_options);
        let mut session = Session::new(Box::new(open), flags.open_options(), flags.settings())?;
        let device = || match measure_device {
            true => device::measure_store(&flags.dir),
            false => Ok(None),
        };
        let mut before = None;
        for task in &flags.workloads {
            session.change(|settings| settings.threads = task.threads)?;
            let mut result = session.run(task.workload, &|_| {})?;
            let after = device()?;
            if let (Some(before), Some(after)) = (&before, &after) {
                result["device_reads_per_second"] = json!({ "before": before, "after": after });
            }
            before = after;
            writeln!(std::io::stdout(), "{result}")?;
        }
        Ok(())
    }
}
