//! The bytes of a filter, so that the opening of a database need not build it. They are only a
//! cache of what the manifest says: a damaged file, or one of other runs, is refused, and the
//! filter is built from the hashes of its runs. The format is in
//! `docs/format/multi_level_cuckoo.md`.
//!
//! The buckets come first, at their place in memory, so that the bytes of a read become the filter
//! without a copy.

use crate::base::codec::ByteReader;
use crate::base::codec::checksum;
use crate::base::error::{Error, Result};
use crate::base::page::Buffer;
use crate::table::filter::buckets::{BucketGeometry, HASH_BITS, PADDING_BYTES, SLOTS};

use super::{Mode, MultiLevelCuckoo, Ring, WholeHashes};

/// The bytes of the footer, which describes the bytes before it.
const FOOTER_BYTES: usize = 32;

impl Mode {
    fn code(self) -> u8 {
        match self {
            Mode::Set => 0,
            Mode::Unique => 3,
        }
    }

    /// Modes 1 and 2 took two keys with one hash for one: such a filter may lack a key and is
    /// refused.
    fn of(code: u8) -> Result<Mode> {
        match code {
            0 => Ok(Mode::Set),
            3 => Ok(Mode::Unique),
            _ => Err(Error::corruption(format!(
                "expected a filter's mode of 0 or 3, found {code}"
            ))),
        }
    }
}

impl MultiLevelCuckoo {
    /// The number of bytes that [`MultiLevelCuckoo::encode`] hands out.
    pub(crate) fn encoded_bytes(&self) -> u64 {
        let tail = 16 * self.whole.len() + 8 * self.runs() + FOOTER_BYTES;
        self.geometry.bytes() + tail as u64
    }

    /// Hands the bytes of the filter, in order, to `write`. `names` are those of its runs, newest
    /// first; `seed` names the place where the bytes will be.
    ///
    /// # Errors
    /// Those of `write`.
    ///
    /// # Panics
    /// If there are not as many names as runs.
    pub(crate) fn encode(
        &self,
        seed: u64,
        names: &[u64],
        mut write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        assert_eq!(names.len(), self.runs(), "each run has a name");
        let buckets = &self.buckets[..self.geometry.bytes() as usize];
        let sum = checksum::seeded(seed, buckets);
        write(buckets)?;
        let mut tail = Vec::new();
        let mut whole: Vec<_> = self.whole.iter().collect();
        whole.sort_unstable();
        for (hash, runs) in whole {
            tail.extend(hash.to_le_bytes());
            tail.extend(runs.to_le_bytes());
        }
        for name in names {
            tail.extend(name.to_le_bytes());
        }
        tail.extend(self.entries.to_le_bytes());
        tail.extend((self.whole.len() as u64).to_le_bytes());
        tail.extend(self.geometry.buckets().to_le_bytes());
        tail.extend([
            self.geometry.fingerprint_bits(),
            self.ring.bits(),
            self.ring.newest(),
            self.ring.runs() as u8,
            self.mode.code(),
            0,
            0,
            0,
        ]);
        tail.extend(checksum::extend(sum, &tail).to_le_bytes());
        write(&tail)
    }

    /// Turns bytes into a filter without a copy.
    ///
    /// # Errors
    /// `Corruption` if they are damaged or not those of the runs with these names, newest first.
    pub(crate) fn decode(mut bytes: Buffer, seed: u64, names: &[u64]) -> Result<MultiLevelCuckoo> {
        let (before, footer) = bytes.split_last_chunk::<FOOTER_BYTES>().ok_or_else(|| {
            Error::corruption(format!(
                "expected a filter of at least {FOOTER_BYTES} bytes, found {}",
                bytes.len()
            ))
        })?;
        let sum = checksum::seeded(seed, &bytes[..bytes.len() - 4]);
        let mut footer = ByteReader::new(footer);
        let entries = footer.u64("entries of a filter")?;
        let whole_count = footer.u64("whole hashes of a filter")?;
        let buckets = footer.u32("buckets of a filter")?;
        let fingerprint_bits = footer.u8("fingerprint bits")?;
        let run_bits = footer.u8("bits of a run's number")?;
        let newest = footer.u8("number of the newest run")?;
        let runs = footer.u8("number of runs")?;
        let mode = Mode::of(footer.u8("mode of a filter")?)?;
        footer.take(3, "zeros")?;
        let found = footer.u32("checksum of a filter")?;
        if !checksum::agree(found, sum) {
            return Err(Error::corruption(format!(
                "expected a filter with checksum {sum:#010x}, found {found:#010x}"
            )));
        }
        if entries > u64::from(buckets) * u64::from(SLOTS) {
            return Err(Error::corruption(format!(
                "expected at most {SLOTS} entries in each of {buckets} buckets, found {entries}"
            )));
        }
        let ring = Ring::of(run_bits, newest, runs).ok_or_else(|| {
            Error::corruption(format!(
                "expected runs numbered with {run_bits} bits, found {runs}, the newest {newest}"
            ))
        })?;
        let payload_bits = mode.payload_bits(ring);
        let geometry = BucketGeometry::new(buckets, fingerprint_bits, payload_bits)?;
        if names.len() != ring.runs() {
            return Err(Error::corruption(format!(
                "expected a filter of {} runs, found one of {runs}",
                names.len()
            )));
        }
        let bucket_bytes = geometry.bytes() as usize;
        let mut tail = ByteReader::new(before);
        tail.take(bucket_bytes, "buckets")?;
        let whole = decode_whole(&mut tail, whole_count)?;
        check_names(&mut tail, names)?;
        tail.finish("a filter")?;
        // The footer alone is longer than the padding.
        bytes.truncate(bucket_bytes + PADDING_BYTES);
        bytes[bucket_bytes..].fill(0);
        Ok(MultiLevelCuckoo {
            geometry,
            buckets: bytes,
            whole,
            ring,
            mode,
            entries,
        })
    }
}

/// Checks that the filter is that of the runs with these names.
fn check_names(tail: &mut ByteReader<'_>, names: &[u64]) -> Result<()> {
    for (run, &expected) in names.iter().enumerate() {
        let found = tail.u64("name of a run")?;
        if found != expected {
            return Err(Error::corruption(format!(
                "expected run {expected} at {run} in a filter, found run {found}"
            )));
        }
    }
    Ok(())
}

fn decode_whole(reader: &mut ByteReader<'_>, count: u64) -> Result<WholeHashes> {
    let mut whole = WholeHashes::default();
    let mut next = 0;
    for _ in 0..count {
        let hash = reader.u64("whole hash")?;
        let runs = reader.u64("runs of a hash")?;
        if hash < next || hash >> HASH_BITS != 0 || runs == 0 {
            return Err(Error::corruption(format!(
                "expected a hash of at least {next:#x} with runs, found {hash:#x} with {runs:#x}"
            )));
        }
        next = hash + 1;
        whole.insert(hash, runs);
    }
    Ok(whole)
}
