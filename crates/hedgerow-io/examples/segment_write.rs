//! What a log record costs through a memory map and through `pwrite`.
//!
//! `cargo run --release -p hedgerow-io --example segment_write -- DIR [MIB]` prints, for records of
//! 160 bytes written one after the other into a segment of MIB (64) mebibytes in DIR:
//! - `write`: nanoseconds per record, into a new segment and into a recycled one, without and with
//!   `prepare` a mebibyte ahead (its time included);
//! - `p99.9`: of the same records;
//! - `sync`: microseconds per sync after every 25 records (4 KB).

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hedgerow_io::{Clock, OsClock, OsStorage, Segment, SegmentMode, Storage};

const RECORD: [u8; 160] = [7; 160];
const PREPARE_BYTES: u64 = 1 << 20;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let mib = arguments
        .next()
        .and_then(|mib| mib.parse().ok())
        .unwrap_or(64);
    let mut out = io::stdout();
    writeln!(
        out,
        "{:<8}{:<10}{:>9}{:>9}{:>9}{:>10}",
        "mode", "segment", "prepare", "write ns", "p99.9 ns", "sync us"
    )?;
    for mode in [SegmentMode::Mmap, SegmentMode::Pwrite] {
        for prepare in [false, true] {
            measure(&mut out, &dir, mode, mib << 20, prepare)?;
        }
    }
    Ok(())
}

fn measure(
    out: &mut impl Write,
    dir: &Path,
    mode: SegmentMode,
    bytes: u64,
    prepare: bool,
) -> io::Result<()> {
    let storage = OsStorage::with_segments(mode);
    let (fresh, recycled) = (dir.join("segment-a"), dir.join("segment-b"));
    for age in ["new", "recycled"] {
        let segment = match age {
            "new" => storage.create_segment(&fresh, bytes)?,
            _ => storage.recycle_segment(&fresh, &recycled)?,
        };
        let (mean_ns, tail_ns) = write_all(&*segment, prepare)?;
        segment.sync()?;
        let sync_us = sync_often(&*segment)?;
        writeln!(
            out,
            "{:<8}{age:<10}{prepare:>9}{mean_ns:>9}{tail_ns:>9}{sync_us:>10}",
            format!("{mode:?}").to_lowercase()
        )?;
    }
    storage.remove(&recycled)
}

/// Mean and 99.9th percentile of the time per record, in nanoseconds.
fn write_all(segment: &dyn Segment, prepare: bool) -> io::Result<(u128, u128)> {
    let clock = OsClock::new();
    let count = segment.capacity_bytes() / RECORD.len() as u64;
    let mut times = Vec::with_capacity(count as usize);
    let mut prepared = 0;
    let start = clock.now();
    let mut last = start;
    for index in 0..count {
        let offset = index * RECORD.len() as u64;
        if prepare && offset + PREPARE_BYTES / 2 >= prepared {
            segment.prepare(prepared..prepared + PREPARE_BYTES);
            prepared += PREPARE_BYTES;
        }
        segment.write_at(offset, &RECORD)?;
        let now = clock.now();
        times.push(now - last);
        last = now;
    }
    times.sort_unstable();
    let mean = (last - start).as_nanos() / u128::from(count);
    Ok((mean, times[times.len() * 999 / 1000].as_nanos()))
}

/// The median time of a sync after some records, in microseconds.
fn sync_often(segment: &dyn Segment) -> io::Result<u128> {
    let clock = OsClock::new();
    let mut times: Vec<Duration> = Vec::new();
    for index in 0..200 * 25 {
        segment.write_at(index * RECORD.len() as u64, &RECORD)?;
        if index % 25 == 24 {
            let start = clock.now();
            segment.sync()?;
            times.push(clock.now() - start);
        }
    }
    times.sort_unstable();
    Ok(times[times.len() / 2].as_micros())
}
