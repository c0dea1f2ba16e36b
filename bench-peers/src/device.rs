//! What the device gives: random reads of 4 KiB past every cache, as `fio` measures them with
//! `--rw=randread --direct=1 --bs=4k --iodepth=N`.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hedgerow_bench::Result;
use rustix::fs::OFlags;
use serde_json::{Value, json};

const PAGE_BYTES: usize = 4096;
/// Reads at once: as single gets ask, and as a multi-get of 32 keys does.
const DEPTHS: [usize; 2] = [1, 32];
/// Long enough for a rate that repeats within a few per cent.
const DURATION: Duration = Duration::from_secs(5);

/// Direct reads want memory that is aligned like the device's blocks.
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Reads per second at each depth, in a file of `bytes` that is made in `dir` and removed.
pub(crate) fn measure(dir: &Path, bytes: u64) -> Result<Value> {
    fs::create_dir_all(dir)?;
    let path = dir.join("random-reads");
    let measured = fill(&path, bytes).and_then(|()| rates(&path, bytes));
    fs::remove_file(&path)?;
    Ok(json!({
        "store": "device",
        "workload": "random reads of 4 KiB",
        "file_bytes": bytes,
        "reads_per_second": measured?,
    }))
}

/// Writes noise, which no device can compress or leave out.
fn fill(path: &Path, bytes: u64) -> Result<()> {
    let mut file = File::create(path)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut chunk = vec![0; 1 << 20];
    for _ in 0..bytes.div_ceil(chunk.len() as u64) {
        random.fill(&mut chunk);
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    Ok(())
}

fn rates(path: &Path, bytes: u64) -> Result<Value> {
    let direct = i32::try_from(OFlags::DIRECT.bits())?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(direct)
        .open(path)?;
    let mut rates = serde_json::Map::new();
    for depth in DEPTHS {
        let rate = rate(&file, bytes / PAGE_BYTES as u64, depth)?;
        rates.insert(format!("depth_{depth}"), json!(rate.round()));
    }
    Ok(rates.into())
}

/// A thread for each read that is under way.
fn rate(file: &File, pages: u64, depth: usize) -> Result<f64> {
    let began = Instant::now();
    let reads = thread::scope(|scope| {
        let readers: Vec<_> = (0..depth as u64)
            .map(|seed| scope.spawn(move || read_at_random(file, pages, seed, began)))
            .collect();
        let joined = readers.into_iter().map(|reader| {
            reader
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.sum::<std::io::Result<u64>>()
    })?;
    Ok(reads as f64 / began.elapsed().as_secs_f64())
}

fn read_at_random(file: &File, pages: u64, seed: u64, began: Instant) -> std::io::Result<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut page = Box::new(Page([0; PAGE_BYTES]));
    let mut reads = 0;
    while began.elapsed() < DURATION {
        let at = random.u64(..pages) * PAGE_BYTES as u64;
        file.read_exact_at(&mut page.0, at)?;
        reads += 1;
    }
    Ok(reads)
}
