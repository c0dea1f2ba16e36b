//! Operations for a program that counts instructions, each in a function of its own name.
//!
//! `RUSTFLAGS=--cfg=rustix_use_libc cargo build --release --example instructions`, then
//! `valgrind --tool=callgrind --toggle-collect='*counted_*' target/release/examples/instructions`
//! and `callgrind_annotate --inclusive=yes` of what it wrote. (`valgrind` does not know the system
//! calls as `rustix` makes them without the flag.) Only the calling thread is counted, so flushes
//! and merges are not. Keys have 16 bytes, values 100, not compressed; one run is left.
//!
//! With a number of entries as its argument the program has that many in memory, and none on disk:
//! `--cache-sim=yes --LL=33554432,16,64` then counts the lines that are missing in the processor's
//! caches.
#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use hedgerow::io::sim::mix;
use hedgerow::{Compression, Db, Design, Keyspace, Layout, Result};

/// All in memory.
const ENTRIES: u64 = 50_000;
/// Six times as much as the budget of 8 MiB.
const ENTRIES_ON_DISK: u64 = 400_000;
const GETS: u64 = 20_000;
const SEEKS: u64 = 4_000;
const KEYS_AT_ONCE: u64 = 32;

fn key(i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mix(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes());
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

/// One of the first `n` keys, in an order that has nothing to do with theirs.
fn some_key(i: u64, n: u64) -> [u8; 16] {
    key(i.wrapping_mul(2_654_435_761) % n)
}

#[inline(never)]
fn counted_puts(keyspace: &Keyspace, n: u64) -> Result<()> {
    (0..n).try_for_each(|i| keyspace.put(key(i), [b'v'; 100]))
}

#[inline(never)]
fn counted_gets(keyspace: &Keyspace, n: u64) -> Result<()> {
    (0..GETS).try_for_each(|i| keyspace.get(some_key(i, n)).map(|it| assert!(it.is_some())))
}

#[inline(never)]
fn counted_absent_gets(keyspace: &Keyspace, n: u64) -> Result<()> {
    (n..n + GETS).try_for_each(|i| keyspace.get(key(i)).map(|it| assert!(it.is_none())))
}

#[inline(never)]
fn counted_multi_gets(keyspace: &Keyspace, n: u64) -> Result<()> {
    for first in (0..GETS).step_by(KEYS_AT_ONCE as usize) {
        let keys: Vec<_> = (first..first + KEYS_AT_ONCE)
            .map(|i| some_key(i, n))
            .collect();
        keyspace.multi_get(&keys)?;
    }
    Ok(())
}

#[inline(never)]
fn counted_seeks(keyspace: &Keyspace, n: u64) -> Result<()> {
    for i in 0..SEEKS {
        let mut cursor = keyspace.cursor()?;
        let mut there = cursor.seek(&some_key(i, n))?;
        for _ in 0..10 {
            there = there && cursor.next()?;
        }
    }
    Ok(())
}

#[inline(never)]
fn counted_gets_on_disk(keyspace: &Keyspace, n: u64) -> Result<()> {
    (0..GETS).try_for_each(|i| keyspace.get(some_key(i, n)).map(|it| assert!(it.is_some())))
}

#[inline(never)]
fn counted_scan_on_disk(keyspace: &Keyspace) -> Result<u64> {
    scan(keyspace)
}

#[inline(always)]
fn scan(keyspace: &Keyspace) -> Result<u64> {
    let mut cursor = keyspace.cursor()?;
    let mut there = cursor.seek(&[])?;
    let mut found = 0;
    while there {
        found += 1;
        there = cursor.next()?;
    }
    Ok(found)
}

fn filled(dir: &std::path::Path, budget: u64, n: u64) -> Result<(Db, Keyspace)> {
    let db = Db::builder(dir).memory_budget(budget).open()?;
    let design = Design {
        compression: Compression::None,
        ..Design::default()
    };
    let keyspace = db.keyspace_with("measured", Layout::sorted(), design)?;
    counted_puts(&keyspace, n)?;
    keyspace.flush()?;
    keyspace.compact::<&[u8]>(..)?;
    keyspace.wait_until_merged()?;
    Ok((db, keyspace))
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let given = std::env::args().nth(1);
    let entries = given
        .as_ref()
        .map_or(ENTRIES, |n| n.parse().expect("a number of entries"));
    let budget = (64 << 20).max(400 * entries);
    let (small, keyspace) = filled(&dir.path().join("small"), budget, entries)?;
    // Until now nothing was read: the blocks come to the cache.
    println!("{} entries in memory", scan(&keyspace)?);
    counted_gets(&keyspace, entries)?;
    counted_absent_gets(&keyspace, entries)?;
    counted_multi_gets(&keyspace, entries)?;
    counted_seeks(&keyspace, entries)?;
    small.close()?;
    if given.is_some() {
        return Ok(());
    }
    let (_large, keyspace) = filled(&dir.path().join("large"), 8 << 20, ENTRIES_ON_DISK)?;
    println!("{} entries on disk", counted_scan_on_disk(&keyspace)?);
    counted_gets_on_disk(&keyspace, ENTRIES_ON_DISK)
}
