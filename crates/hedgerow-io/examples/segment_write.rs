//! Measures the cost of a log record through a memory map and through `pwrite`.
//!
//! `cargo run --release -p hedgerow-io --example segment_write -- DIR [MIB]` writes records of 160
//! bytes, one after the other, into a segment of MIB (64) mebibytes in DIR. The segment is new or
//! recycled, with or without `prepare` a mebibyte ahead (its time included). The example prints
//! - the mean and 99.9th percentile of the nanoseconds per record;
//! - the mean microseconds of a commit of 25 records (4 KB) and its sync, in another segment.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
        "mode    segment   prepare  write ns  p99.9 ns  commit us"
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
    let open = |name: &str, age: &str| {
        let [new, recycled] = ["new", "recycled"].map(|age| dir.join(format!("{name}-{age}")));
        match age {
            "new" => storage.create_segment(&new, bytes),
            _ => storage.recycle_segment(&new, &recycled),
        }
    };
    for age in ["new", "recycled"] {
        let (mean_ns, tail_ns) = write_all(&*open("write", age)?, prepare)?;
        let segment = open("commit", age)?;
        let commit_us = commit_all(&*segment, prepare)?;
        let mode = format!("{mode:?}").to_lowercase();
        writeln!(
            out,
            "{mode:<8}{age:<10}{prepare:<7}{mean_ns:>10}{tail_ns:>10}{commit_us:>11}"
        )?;
    }
    storage.remove(&dir.join("write-recycled"))?;
    storage.remove(&dir.join("commit-recycled"))
}

/// The mean and 99.9th percentile of the time per record, in nanoseconds.
fn write_all(segment: &dyn Segment, prepare: bool) -> io::Result<(u128, u128)> {
    let clock = OsClock::new();
    let count = segment.capacity_bytes() / RECORD.len() as u64;
    let mut times = Vec::with_capacity(count as usize);
    let mut ahead = Ahead {
        prepare,
        prepared: 0,
    };
    let start = clock.now();
    let mut last = start;
    for index in 0..count {
        write_record(segment, index, &mut ahead)?;
        let now = clock.now();
        times.push(now - last);
        last = now;
    }
    times.sort_unstable();
    let mean = (last - start).as_nanos() / u128::from(count);
    Ok((mean, times[times.len() * 999 / 1000].as_nanos()))
}

/// The mean time of a commit, in microseconds.
fn commit_all(segment: &dyn Segment, prepare: bool) -> io::Result<u128> {
    const RECORDS: u64 = 25;
    let clock = OsClock::new();
    let commits = 2000.min(segment.capacity_bytes() / (RECORDS * RECORD.len() as u64));
    let mut ahead = Ahead {
        prepare,
        prepared: 0,
    };
    for commit in 0..commits {
        for index in commit * RECORDS..(commit + 1) * RECORDS {
            write_record(segment, index, &mut ahead)?;
        }
        segment.sync()?;
    }
    Ok(clock.now().as_micros() / u128::from(commits))
}

struct Ahead {
    prepare: bool,
    prepared: u64,
}

fn write_record(segment: &dyn Segment, index: u64, ahead: &mut Ahead) -> io::Result<()> {
    let offset = index * RECORD.len() as u64;
    if ahead.prepare && offset + PREPARE_BYTES / 2 >= ahead.prepared {
        segment.prepare(ahead.prepared..ahead.prepared + PREPARE_BYTES);
        ahead.prepared += PREPARE_BYTES;
    }
    segment.write_at(offset, &RECORD)
}
