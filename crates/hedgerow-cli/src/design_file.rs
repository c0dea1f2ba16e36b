//! Designs in files: `hedgerow advise --write FILE` makes them, `--design FILE` opens with them.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use hedgerow::{Design, Layout, Partitioning};

use crate::exit::{Exit, Failure};

/// What commands take that may make a keyspace.
#[derive(Debug, clap::Args)]
pub(crate) struct DesignArguments {
    /// The design of the keyspace, as `hedgerow advise --write FILE` writes it; one that is there
    /// has this design from now on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    design: Option<PathBuf>,

    /// The division of the keyspace into trees: single, hash:N, range:KEY,KEY (bytes as `\xHH`); one
    /// that is there must have it. Unless set: single.
    #[arg(long, value_name = "HOW")]
    partitions: Option<Partitioning>,
}

impl DesignArguments {
    pub(crate) fn read(&self) -> Result<Option<Design>, Failure> {
        self.design.as_deref().map(read).transpose()
    }

    /// The layout that the keyspace is to have, if it is said.
    pub(crate) fn layout(&self) -> Option<Layout> {
        let partitioning = self.partitions.clone()?;
        Some(Layout {
            partitioning,
            ..Layout::sorted()
        })
    }
}

pub(crate) fn read(path: &Path) -> Result<Design, Failure> {
    let text = fs::read_to_string(path).map_err(|e| Failure::io("read", path, &e))?;
    text.parse()
        .map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())).at(path))
}
