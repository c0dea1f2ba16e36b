//! What a command that may make a keyspace is told of it.

use std::path::PathBuf;

use clap::ValueHint;
use hedgerow::{Design, KeyOrder, Layout, Partitioning};

use crate::design_file;
use crate::exit::Failure;

/// What commands take that may make a keyspace.
#[derive(Debug, clap::Args)]
pub(crate) struct CreationArguments {
    /// The order of the keys, fixed when the keyspace is made: sorted, which it is unless given,
    /// semi-sorted:BYTES, semi-sorted:delimiter=C, semi-sorted:length-prefixed, hashed
    #[arg(long, value_name = "ORDER")]
    order: Option<KeyOrder>,

    /// The division of the keyspace into trees, fixed when it is made: single, which it is unless
    /// given, hash:N, range:KEY,KEY of sorted keys (bytes as `\xHH`)
    #[arg(long, value_name = "HOW")]
    partitions: Option<Partitioning>,

    /// The design of the keyspace, as `hedgerow advise --write FILE` writes it; one that is there
    /// has this design from now on
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    design: Option<PathBuf>,

    /// The keyspace tunes itself from now on (see `retune --auto`)
    #[arg(long)]
    pub(crate) auto: bool,
}

impl CreationArguments {
    /// Puts what is said of the layout in place of what is there.
    pub(crate) fn change(&self, layout: &mut Layout) {
        if let Some(order) = self.order {
            layout.order = order;
        }
        if let Some(partitioning) = &self.partitions {
            layout.partitioning = partitioning.clone();
        }
    }

    pub(crate) fn design(&self) -> Result<Option<Design>, Failure> {
        self.design.as_deref().map(design_file::read).transpose()
    }
}
