//! The parts of a memory budget, for stores that divide it when they are opened.
//!
//! The sum over all parts, each as large as it can get, is the budget: so a peer has exactly what
//! Hedgerow has, which divides its budget as it goes.

use hedgerow::{Compression, FilterSpec};
use hedgerow_bench::{OpenOptions, Result};

/// The parts of a budget, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shares {
    /// All memtables that may exist at once.
    pub(crate) memtables: u64,
    /// Indexes and filters of all tables, outside of the cache; 0 when they had better be read
    /// through it.
    pub(crate) resident: u64,
    /// The block cache.
    pub(crate) cache: u64,
}

/// Bytes of an index entry beside its key: handle, restart point, allocator.
const INDEX_ENTRY_BYTES: u64 = 12;

impl Shares {
    /// A quarter for memtables; indexes and filters of all entries, unless they would take another
    /// quarter; the rest for the cache.
    pub(crate) fn of(options: &OpenOptions) -> Result<Shares> {
        let budget = options.memory_budget;
        let memtables = budget / 4;
        let resident = resident(options);
        let resident = if resident > budget / 4 { 0 } else { resident };
        let shares = Shares {
            memtables,
            resident,
            cache: budget - memtables - resident,
        };
        if shares.cache < 1 << 20 {
            return Err(format!(
                "expected a memory budget of at least 4 MiB, found {budget} bytes"
            )
            .into());
        }
        Ok(shares)
    }
}

/// Bytes of the indexes and filters of all entries, from their counts and sizes.
fn resident(options: &OpenOptions) -> u64 {
    let bits = f64::from(filter_bits(options).unwrap_or(0.0));
    let filters = (options.entries as f64 * bits / 8.0) as u64;
    let data = options.entries * (options.key_bytes + options.value_bytes) as u64;
    let blocks = data.div_ceil(u64::from(options.design.block_bytes).max(1));
    filters + blocks * (options.key_bytes as u64 + INDEX_ENTRY_BYTES)
}

/// Filter bits per key, if there are to be filters.
pub(crate) fn filter_bits(options: &OpenOptions) -> Option<f32> {
    match options.design.filter {
        FilterSpec::Bloom { bits_per_key } => Some(bits_per_key),
        FilterSpec::Monkey { bits_per_key } => Some(bits_per_key.unwrap_or(10.0)),
        _ => None,
    }
}

/// Returns true if pages are to be compressed with LZ4.
pub(crate) fn is_compressed(options: &OpenOptions) -> Result<bool> {
    match options.design.compression {
        Compression::None => Ok(false),
        Compression::Lz4 => Ok(true),
        other => {
            Err(format!("expected no compression or LZ4 beside the peers, found {other:?}").into())
        }
    }
}

/// Processors that this process may run on.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
