//! Measures the machine: reads and writes past every cache, and the time of the steps that the
//! advisor's model counts.
//!
//! Random reads equal those of `fio --rw=randread --direct=1 --bs=4k --iodepth=N`.
#![allow(
    clippy::disallowed_methods,
    reason = "a bench measures the files and the time of the machine"
)]

pub mod profile;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hedgerow::advisor::Device;
use hedgerow::{Compression, Db, Design, FilterSpec, Keyspace, Layout};
use rustix::fs::OFlags;

use crate::store::Result;

/// The bytes of a random read.
pub const PAGE_BYTES: usize = 4096;
const CHUNK_BYTES: usize = 1 << 20;
/// The concurrent reads of a rate, as a multi-get of 32 keys has.
const DEPTH: usize = 32;

/// The alignment of memory for direct reads, that of the device's blocks.
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// Measures the device of `dir` and the processor, in about four times `each`. Makes a file of
/// `file_bytes` in `dir` and removes it; it should be larger than the device's own caches. Steps
/// that no engine here takes yet (`cuckoo_*`, `three_level_us`) are those of [`Device::nvme`].
///
/// # Errors
///
/// An error of the file system or the engine. A file system without direct reads cannot be
/// measured.
pub fn measure(dir: &Path, file_bytes: u64, each: Duration) -> Result<Device> {
    let scratch = dir.join("hedgerow-measure-device");
    fs::create_dir_all(&scratch)?;
    let measured = measure_in(&scratch, file_bytes.max(CHUNK_BYTES as u64), each);
    fs::remove_dir_all(&scratch)?;
    measured
}

fn measure_in(scratch: &Path, file_bytes: u64, each: Duration) -> Result<Device> {
    let path = scratch.join("pages");
    let write_bytes_per_s = write(&path, file_bytes)?;
    let latency = 1.0 / random_reads(&[&path], 1, each)?;
    let reads_per_s = random_reads(&[&path], DEPTH, each)?;
    let read_bytes_per_s = read(&path, each)?;
    fs::remove_file(&path)?;
    let device = Device {
        name: "measured".to_owned(),
        read_us: latency * 1e6,
        reads_per_s,
        read_bytes_per_s,
        write_bytes_per_s,
        ..Device::nvme()
    };
    measure_steps(&scratch.join("db"), device)
}

/// Writes a file of noise, which no device can compress or skip. Returns bytes per second, with the
/// sync at the end.
///
/// # Errors
///
/// An error of the file system.
pub fn write(path: &Path, bytes: u64) -> Result<f64> {
    let mut file = File::create(path)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut noise = Duration::ZERO;
    let began = Instant::now();
    let chunks = bytes.div_ceil(CHUNK_BYTES as u64);
    for _ in 0..chunks {
        let filling = Instant::now();
        random.fill(&mut chunk);
        noise += filling.elapsed();
        file.write_all(&chunk)?;
    }
    file.sync_all()?;
    let writing = began.elapsed().saturating_sub(noise);
    Ok((chunks * CHUNK_BYTES as u64) as f64 / writing.as_secs_f64())
}

fn direct(path: &Path) -> Result<File> {
    let flags = i32::try_from(OFlags::DIRECT.bits())?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    Ok(file.map_err(|e| format!("cannot open {} for direct reads: {e}", path.display()))?)
}

/// Random reads of a page per second by `depth` threads. All pages of all files are equally likely.
///
/// # Errors
///
/// An error of the file system, also if it has no direct reads; files without a whole page.
pub fn random_reads<P: AsRef<Path>>(files: &[P], depth: usize, time: Duration) -> Result<f64> {
    let pages = &Pages::open(files)?;
    let began = Instant::now();
    let reads = thread::scope(|scope| {
        let readers: Vec<_> = (0..depth as u64)
            .map(|seed| scope.spawn(move || pages.read_at_random(seed, began, time)))
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

/// The whole pages of several files.
struct Pages {
    /// Each file, with the number of pages in it and all files before it.
    files: Vec<(File, u64)>,
    count: u64,
}

impl Pages {
    fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Pages> {
        let (mut files, mut count) = (Vec::with_capacity(paths.len()), 0);
        for path in paths {
            let file = match direct(path.as_ref()) {
                // A store may remove a table after a merge at any time.
                Err(_) if !path.as_ref().try_exists()? => continue,
                opened => opened?,
            };
            count += file.metadata()?.len() / PAGE_BYTES as u64;
            files.push((file, count));
        }
        if count == 0 {
            return Err("expected files with pages to read at random, found none".into());
        }
        Ok(Pages { files, count })
    }

    fn read_at_random(&self, seed: u64, began: Instant, time: Duration) -> std::io::Result<u64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut page = Box::new(Page([0; PAGE_BYTES]));
        let mut reads = 0;
        while began.elapsed() < time {
            let at = random.u64(..self.count);
            let nth = self.files.partition_point(|&(_, end)| end <= at);
            let first = nth.checked_sub(1).map_or(0, |before| self.files[before].1);
            let offset = (at - first) * PAGE_BYTES as u64;
            self.files[nth].0.read_exact_at(&mut page.0, offset)?;
            reads += 1;
        }
        Ok(reads)
    }
}

/// Bytes per second of repeated sequential reads of the file past the cache.
fn read(path: &Path, time: Duration) -> Result<f64> {
    const PAGES: usize = CHUNK_BYTES / PAGE_BYTES;
    let file = direct(path)?;
    // A page more than needed, so that the buffer can begin at an aligned address.
    let mut buffer = vec![0; CHUNK_BYTES + PAGE_BYTES];
    let skip = buffer.as_ptr().align_offset(PAGE_BYTES);
    let chunk = &mut buffer[skip..skip + PAGES * PAGE_BYTES];
    let chunks = file.metadata()?.len() / CHUNK_BYTES as u64;
    let began = Instant::now();
    let mut read = 0;
    while began.elapsed() < time {
        file.read_exact_at(chunk, read % chunks * CHUNK_BYTES as u64)?;
        read += 1;
    }
    Ok((read * CHUNK_BYTES as u64) as f64 / began.elapsed().as_secs_f64())
}

// ---- the processor ----

const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 100;
/// Few enough runs that level 0 is not merged.
const RUNS: u64 = 3;
/// Enough filter bits that hardly an absent key passes.
const BITS: f32 = 24.0;
/// The least time of a step. Steps are differences of small times, and noise must not make one
/// free.
const STEP_US_MIN: f64 = 0.005;

/// Measures the steps with all data in memory. For gets, a step is the time that one more run
/// without the key adds.
fn measure_steps(dir: &Path, device: Device) -> Result<Device> {
    let db = Db::builder(dir).memory_budget(256 << 20).open()?;
    let bloom = FilterSpec::Bloom { bits_per_key: BITS };
    let (_, probe_us) = fill(&db, "filtered", bloom)?;
    let (keyspace, seek_us) = fill(&db, "plain", FilterSpec::None)?;
    let (entries, next_us) = timed(|| Ok(keyspace.scan::<&[u8]>(..)?.count() as u64))?;
    let (_, merge_us) = timed(|| Ok(keyspace.compact::<&[u8]>(..)?))?;
    let written_us = (key(0).len() + VALUE_BYTES) as f64 / device.write_bytes_per_s * 1e6;
    drop(keyspace);
    db.close()?;
    Ok(Device {
        probe_us,
        seek_us,
        next_us: next_us / entries as f64,
        merge_us: (merge_us / entries as f64 - written_us).max(STEP_US_MIN),
        ..device
    })
}

/// Fills runs over the same range in a keyspace without compression. Returns the time that each run
/// but the first adds to a get of an absent key, in µs.
fn fill(db: &Db, name: &str, filter: FilterSpec) -> Result<(Keyspace, f64)> {
    let design = Design {
        filter,
        compression: Compression::None,
        ..Design::default()
    };
    let keyspace = db.keyspace_with(name, Layout::sorted(), design)?;
    let mut misses_us = Vec::new();
    for run in 0..RUNS {
        for i in run * KEYS..(run + 1) * KEYS {
            keyspace.put(key(i), [b'v'; VALUE_BYTES])?;
        }
        keyspace.flush()?;
        // The first pass brings the pages into memory.
        misses(&keyspace)?;
        misses_us.push(timed(|| misses(&keyspace))?.1 / KEYS as f64);
    }
    let added = misses_us[misses_us.len() - 1] - misses_us[0];
    Ok((keyspace, (added / (RUNS - 1) as f64).max(STEP_US_MIN)))
}

/// A distinct key for each number, spread over the whole range.
fn key(i: u64) -> [u8; 16] {
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

fn misses(keyspace: &Keyspace) -> Result<()> {
    for i in RUNS * KEYS..(RUNS + 1) * KEYS {
        keyspace.contains_key(key(i))?;
    }
    Ok(())
}

/// Returns the result of `work` and its time in µs.
fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let began = Instant::now();
    let done = work()?;
    Ok((done, began.elapsed().as_secs_f64() * 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that there are times and that no file is left behind; the times depend on the
    /// machine.
    #[test]
    fn a_device_is_measured_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let device = measure(dir.path(), 4 << 20, Duration::from_millis(50));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let mut device = match device {
            Ok(device) => device,
            // A file system in memory may not support direct reads.
            Err(error) => {
                assert!(error.to_string().contains("for direct reads"), "{error}");
                return;
            }
        };
        for (name, number) in device.numbers_mut() {
            assert!(number.is_finite() && *number > 0.0, "{name} {number}");
        }
    }
}
