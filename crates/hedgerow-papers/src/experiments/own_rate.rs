//! The rate of the device, beside that of a store.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow_bench::device::{random_reads, write};
use hedgerow_bench::{RecordShape, Result};

/// The bytes of the file.
const BYTES_MIN: u64 = 1 << 20;
const BYTES_MAX: u64 = 1 << 30;
const TIME: Duration = Duration::from_secs(2);
/// The concurrent reads, as a multi-get of 32 keys has.
const DEPTH: usize = 32;

/// Measures the device's random reads beside the work of a store. The file is made at the first
/// measurement. It is as large as the store's records, at most 1 GiB.
pub(super) struct OwnRate {
    path: PathBuf,
    bytes: u64,
}

impl OwnRate {
    pub(super) fn new(dir: &Path, records: &RecordShape) -> OwnRate {
        let bytes = records.num * (records.key_bytes + records.value_bytes) as u64;
        OwnRate {
            path: dir.join("pages"),
            bytes: bytes.clamp(BYTES_MIN, BYTES_MAX),
        }
    }

    /// Random reads per second, [`DEPTH`] at once, measured for 2 seconds or less of a small file.
    pub(super) fn measure(&self) -> Result<f64> {
        if !self.path.exists() {
            write(&self.path, self.bytes)?;
        }
        let time = TIME.mul_f64(self.bytes as f64 / BYTES_MAX as f64);
        random_reads(&[&self.path], DEPTH, time)
    }
}
