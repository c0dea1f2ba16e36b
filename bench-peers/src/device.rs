//! The rate of random reads of 4 KiB past every cache, one at a time and many at once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow_bench::Result;
use hedgerow_bench::device::{random_reads, write};
use serde_json::{Value, json};

/// Reads at once: as single gets ask, and as a multi-get of 32 keys does.
const DEPTHS: [usize; 2] = [1, 32];
/// Long enough for a rate that repeats within a few per cent.
const DURATION: Duration = Duration::from_secs(3);
/// Smaller files of a store hold no tables.
const FILE_BYTES_MIN: u64 = 1 << 20;

/// Reads per second at each depth, in a file of `bytes` that is made in `dir` and removed.
pub(crate) fn measure(dir: &Path, bytes: u64) -> Result<Value> {
    fs::create_dir_all(dir)?;
    let path = dir.join("random-reads");
    let measured = write(&path, bytes).and_then(|_| rates(&[&path]));
    fs::remove_file(&path)?;
    Ok(json!({
        "store": "device",
        "workload": "random reads of 4 KiB",
        "file_bytes": bytes,
        "reads_per_second": measured?,
    }))
}

/// Measures the same in the files of a store at rest: a device may be fast where it was written a
/// moment ago. `None` if there is nothing to read.
pub(crate) fn measure_store(dir: &Path) -> Result<Option<Value>> {
    let mut files = Vec::new();
    collect(dir, &mut files)?;
    (!files.is_empty()).then(|| rates(&files)).transpose()
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            collect(&entry.path(), files)?;
        } else if metadata.len() >= FILE_BYTES_MIN {
            files.push(entry.path());
        }
    }
    Ok(())
}

fn rates<P: AsRef<Path>>(files: &[P]) -> Result<Value> {
    let mut rates = serde_json::Map::new();
    for depth in DEPTHS {
        let rate = random_reads(files, depth, DURATION)?;
        rates.insert(format!("depth_{depth}"), json!(rate.round()));
    }
    Ok(rates.into())
}
