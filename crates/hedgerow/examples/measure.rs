//! Measures the engine alone: random fill, gets of present and of absent keys, short scans.
//!
//! `cargo run --release --example measure -- [--entries 5000000] [--budget-mib 512] [--threads 1]
//! [--partitions 1] [--dir DIR] [--reads N]`: keys of 16 and values of 100 bytes, not compressed,
//! 10 filter bits per key, the log not synced. A directory given is kept, and filled only if it is
//! new.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for the terminal that measures time"
)]

use std::path::PathBuf;
use std::time::Instant;

use hedgerow::{Compression, Db, Design, Error, ErrorKind, Keyspace, Layout, Result};

/// The `i`-th key: 8 bytes that look random, and 8 that make it unique.
fn key(i: u64) -> [u8; 16] {
    let mixed = hedgerow::io::sim::mix(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

/// One of the first `n` keys, in an order that has nothing to do with theirs.
fn some_key(i: u64, n: u64) -> [u8; 16] {
    key(i.wrapping_mul(2_654_435_761) % n)
}

fn argument(name: &str) -> Option<String> {
    let mut arguments = std::env::args();
    arguments.find(|a| a == name)?;
    arguments.next()
}

fn number(name: &str, default: u64) -> Result<u64> {
    argument(name).map_or(Ok(default), |text| {
        let wrong = |_| Error::new(ErrorKind::InvalidArgument, format!("{name} wants a number"));
        text.parse().map_err(wrong)
    })
}

/// Runs `step` for `0..count`, divided over threads; prints the rate and the longest step.
fn timed(
    name: &str,
    threads: u64,
    count: u64,
    step: impl Fn(u64) -> Result<()> + Sync,
) -> Result<()> {
    let began = Instant::now();
    let longest = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let step = &step;
            move || -> Result<u128> {
                let mut longest = 0;
                for i in (thread..count).step_by(threads as usize) {
                    let began = Instant::now();
                    step(i)?;
                    longest = longest.max(began.elapsed().as_micros());
                }
                Ok(longest)
            }
        };
        let running: Vec<_> = (0..threads).map(|t| scope.spawn(work(t))).collect();
        let ended = running
            .into_iter()
            .map(|t| t.join().expect("no step panics"));
        ended.collect::<Result<Vec<_>>>()
    })?;
    let rate = count as f64 / began.elapsed().as_secs_f64();
    println!(
        "{name:<24} {rate:>10.0} /s   longest {} us",
        longest.iter().max().unwrap_or(&0)
    );
    Ok(())
}

fn main() -> Result<()> {
    let entries = number("--entries", 5_000_000)?;
    let threads = number("--threads", 1)?;
    let reads = number("--reads", entries.min(2_000_000))?;
    let given = argument("--dir").map(PathBuf::from);
    let dir = given
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join("hedgerow-measure"));
    if given.is_none() {
        let _ = std::fs::remove_dir_all(&dir);
    }
    let db = Db::builder(&dir)
        .memory_budget(number("--budget-mib", 512)? << 20)
        .open()?;
    let design = Design {
        compression: Compression::None,
        ..Design::default()
    };
    let layout = match number("--partitions", 1)? {
        1 => Layout::sorted(),
        n => Layout::sorted().hash(n as u16),
    };
    let keyspace = db.keyspace_with("measure", layout, design)?;
    if keyspace.stats().entries() == 0 {
        fill(&db, &keyspace, entries, threads)?;
    }
    read(&db, &keyspace, entries, reads, threads)?;
    db.close()?;
    if given.is_none() {
        let _ = std::fs::remove_dir_all(&dir);
    }
    Ok(())
}

fn fill(db: &Db, keyspace: &Keyspace, entries: u64, threads: u64) -> Result<()> {
    let value = [7; 100];
    timed("fillrandom", threads, entries, |i| {
        keyspace.put(key(i), value)
    })?;
    let began = Instant::now();
    keyspace.wait_until_merged()?;
    let stats = db.stats();
    println!(
        "  merged {:.1} s later, write amplification {:.2}, stalled {:?}\n  {:?}",
        began.elapsed().as_secs_f64(),
        stats.write_amplification(),
        stats.stalls.total(),
        stats.stalls,
    );
    Ok(())
}

fn read(db: &Db, keyspace: &Keyspace, entries: u64, reads: u64, threads: u64) -> Result<()> {
    let hit = |i| match keyspace.get(some_key(i, entries))? {
        Some(_) => Ok(()),
        None => Err(Error::new(ErrorKind::Corruption, "a key is missing")),
    };
    timed("readrandom, first time", threads, reads, hit)?;
    timed("readrandom, again", threads, reads, hit)?;
    timed("readmissing", threads, reads, |i| {
        keyspace.get(key(entries + i)).map(drop)
    })?;
    timed("seek + 10 nexts", threads, reads / 4, |i| {
        let mut cursor = keyspace.cursor()?;
        let mut there = cursor.seek(&some_key(i, entries))?;
        for _ in 0..10 {
            there = there && cursor.next()?;
        }
        Ok(())
    })?;
    timed("multi_get of 32", threads, reads / 32, |i| {
        let keys: Vec<_> = (0..32).map(|k| some_key(32 * i + k, entries)).collect();
        keyspace.multi_get(&keys).map(drop)
    })?;
    let stats = db.stats();
    println!(
        "  {:.3} pages per get, {} filter probes, {} false positives\n  {:?}",
        stats.read_amplification(),
        stats.filter_probes,
        stats.filter_false_positives,
        stats.memory,
    );
    for level in &stats.keyspaces[0].levels {
        println!(
            "  level {}: {} runs, {} tables, {} bytes",
            level.level, level.runs, level.tables, level.bytes
        );
    }
    Ok(())
}
