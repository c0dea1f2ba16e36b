//! Designs in files: `hedgerow advise --write FILE` makes them, `--design FILE` opens with them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use hedgerow::{Design, Keyspace};

use crate::exit::{Exit, Failure};

/// What commands take that may make a keyspace.
#[derive(Debug, clap::Args)]
pub(crate) struct DesignArguments {
    /// The design of the keyspace, as `hedgerow advise --write FILE` writes it; one that is there
    /// has this design from now on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    design: Option<PathBuf>,
    /// The keyspace tunes itself from now on (see `retune --auto`)
    #[arg(long)]
    auto: bool,
}

impl DesignArguments {
    /// Has a keyspace tune itself, if that was asked for.
    pub(crate) fn apply_auto(&self, keyspace: &Keyspace) -> Result<(), Failure> {
        match self.auto {
            true => Ok(keyspace.set_self_tuning(true)?),
            false => Ok(()),
        }
    }

    pub(crate) fn read(&self) -> Result<Option<Design>, Failure> {
        self.design.as_deref().map(read).transpose()
    }
}

pub(crate) fn read(path: &Path) -> Result<Design, Failure> {
    let text = fs::read_to_string(path).map_err(|e| Failure::io("read", path, &e))?;
    text.parse()
        .map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())).at(path))
}
