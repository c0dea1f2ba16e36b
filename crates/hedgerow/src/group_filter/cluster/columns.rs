//! The filters of one table, column by column, built from the hashes of its keys.

use crate::base::entry::KeyHash;
use crate::base::page::TableId;
use crate::table::filter::hash_list::HashList;
use crate::table::filter::{assert_bits_per_key, small_bloom};

use super::{POSITION_BITS, Stripe, position};

/// The least average number of keys of a column; the average is less than twice as large. Fewer
/// keys make smaller filters, whose loads vary more. At 16 bits per key, 0.050 % of absent keys
/// pass filters of 16 keys, and 0.048 % those of 32. More keys leave more of a page empty where it
/// holds the columns of many runs.
const COLUMN_KEYS_MIN: u64 = 16;
/// The length of a filter is one byte.
const FILTER_BYTES_MAX: usize = u8::MAX as usize;

/// All filters of one table, in the order of columns.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    pub(super) stripe: Stripe,
    /// The length of each filter; a column without keys has none.
    pub(super) lengths: Vec<u8>,
    /// The filters.
    pub(super) filters: Vec<u8>,
}

/// Collects the hashes of a table's keys, in the order of their positions.
#[derive(Debug)]
pub(crate) struct Builder {
    bits_per_key: f32,
    hashes: HashList,
    positions: Vec<u32>,
}

impl Builder {
    /// `bits_per_key` is 1.0 to 32.0.
    pub(crate) fn new(bits_per_key: f32) -> Builder {
        assert_bits_per_key(bits_per_key);
        Builder {
            bits_per_key,
            hashes: HashList::default(),
            positions: Vec::new(),
        }
    }

    /// Adds a key of the table, in the order of positions. A key that is added twice wastes space.
    pub(crate) fn push(&mut self, hash: KeyHash) {
        let position = position(hash);
        assert!(
            self.positions.last().is_none_or(|last| *last <= position),
            "keys come in the order of their hashes"
        );
        self.positions.push(position);
        self.hashes.add(hash);
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.hashes.memory_bytes() + self.positions.capacity() * size_of::<u32>()
    }

    /// The filters. `None` if there are no keys.
    pub(crate) fn columns(self, table: TableId) -> Option<Columns> {
        let (first, last) = (*self.positions.first()?, *self.positions.last()?);
        let stripe = Stripe {
            table,
            first,
            last,
            column_bits: column_bits(self.positions.len() as u64, first, last),
            probes: small_bloom::probes_for(self.bits_per_key),
        };
        let mut columns = Columns {
            stripe,
            lengths: Vec::new(),
            filters: Vec::new(),
        };
        let mut lows = self.hashes.iter();
        for keys in self
            .positions
            .chunk_by(|a, b| stripe.column_of(*a) == stripe.column_of(*b))
        {
            let empty = stripe.column_of(keys[0]) - stripe.column_of(first);
            columns.lengths.resize(empty as usize, 0);
            columns.push(
                lows.by_ref().take(keys.len()),
                keys.len(),
                self.bits_per_key,
            );
        }
        Some(columns)
    }
}

impl Columns {
    /// The size of the filters and their lengths, without the other bytes of a page.
    pub(crate) fn bytes(&self) -> u64 {
        (self.lengths.len() + self.filters.len()) as u64
    }

    fn push(&mut self, lows: impl Iterator<Item = u64>, keys: usize, bits_per_key: f32) {
        let bytes = small_bloom::bytes_for(keys, bits_per_key).min(FILTER_BYTES_MAX);
        let from = self.filters.len();
        self.lengths.push(bytes as u8);
        self.filters.resize(from + bytes, 0);
        let filter = &mut self.filters[from..];
        lows.for_each(|low| small_bloom::add(filter, low, self.stripe.probes));
    }
}

/// The bits of a column number: as many columns as give each [`COLUMN_KEYS_MIN`] keys on average.
fn column_bits(keys: u64, first: u32, last: u32) -> u8 {
    let positions = u128::from(last - first) + 1;
    // The number of columns if all positions were as dense as these.
    let columns = (u128::from(keys) << POSITION_BITS) / (positions * u128::from(COLUMN_KEYS_MIN));
    columns.max(1).ilog2().min(POSITION_BITS) as u8
}
