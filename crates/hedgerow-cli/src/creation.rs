//! The arguments of commands that may create a keyspace.

use std::path::PathBuf;

use clap::ValueHint;
use hedgerow::{Design, KeyOrder, Layout, Partitioning};

use crate::design_file;
use crate::exit::Failure;

/// The layout, the design and the self-tuning of the keyspace.
#[derive(Debug, clap::Args)]
pub(crate) struct CreationArguments {
    /// The order of the keys, fixed at creation: sorted (the default), semi-sorted:BYTES,
    /// semi-sorted:delimiter=C, semi-sorted:length-prefixed, hashed
    #[arg(long, value_name = "ORDER")]
    order: Option<KeyOrder>,

    /// The partitions of the keyspace, fixed at creation: single (the default), hash:N, or, for
    /// sorted keys, range:KEY,KEY (bytes as `\xHH`)
    #[arg(long, value_name = "HOW")]
    partitions: Option<Partitioning>,

    /// The merge operator of the keyspace, a built-in one: add_i64, add_f64, min, max, append,
    /// bit_and, bit_or, bit_xor, union_u64; fixed once it has one
    #[arg(long, value_name = "NAME")]
    merge_operator: Option<String>,

    /// A file with the design, as `hedgerow advise --write FILE` writes it; an existing keyspace
    /// changes to this design
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    design: Option<PathBuf>,

    /// Lets the keyspace tune itself from now on (see `retune --auto`)
    #[arg(long)]
    pub(crate) auto: bool,
}

impl CreationArguments {
    /// Replaces the parts of the layout that were given.
    pub(crate) fn change(&self, layout: &mut Layout) {
        if let Some(order) = self.order {
            layout.order = order;
        }
        if let Some(partitioning) = &self.partitions {
            layout.partitioning = partitioning.clone();
        }
        if let Some(name) = &self.merge_operator {
            layout.merge_operator = Some(name.as_str().into());
        }
    }

    /// Returns true if anything was given.
    pub(crate) fn is_given(&self) -> bool {
        let of_layout = self.order.is_some() || self.partitions.is_some();
        let of_design = self.design.is_some() || self.auto;
        of_layout || of_design || self.merge_operator.is_some()
    }

    pub(crate) fn design(&self) -> Result<Option<Design>, Failure> {
        self.design.as_deref().map(design_file::read).transpose()
    }
}
