//! Tables 3 and 4: the size and the speed of the index of one table, alone and in memory.
#![allow(
    clippy::disallowed_methods,
    reason = "a bench measures the time of the machine"
)]

use std::hint::black_box;
use std::time::Instant;

use hedgerow::IndexSpec;
use hedgerow::internals::parts;
use hedgerow_bench::{Result, mix};
use serde_json::json;

use super::group_sizes;
use super::leveldb_index::{Form, LevelDbIndex};
use crate::experiments::micro::Micro;

/// The paper's table and its entries.
const TABLE_BYTES: usize = 32 << 20;
const ENTRY_BYTES: usize = 256;
const BLOCK_BYTES: usize = 4096;
/// The bytes of an order key: two hashes.
const KEY_BYTES: usize = 16;

/// Returns the block of a key.
type Locate = Box<dyn Fn(&[u8]) -> Result<usize>>;

/// The index with this name: its bytes and its lookup.
fn build(name: &str, blocks: &[Vec<Vec<u8>>]) -> Result<(u64, Locate)> {
    let ours = |spec: IndexSpec| -> Result<(u64, Locate)> {
        let index = parts::Index::build(spec, BLOCK_BYTES as u32, blocks)?;
        let bytes = index.bytes();
        Ok((bytes, Box::new(move |key| Ok(index.locate(key)?.start))))
    };
    let leveldb = |form| -> Result<(u64, Locate)> {
        let index = LevelDbIndex::build(form, BLOCK_BYTES, blocks);
        let bytes = index.bytes() as u64;
        Ok((bytes, Box::new(move |key| index.locate(key))))
    };
    match name {
        "leveldb" => leveldb(Form::Default),
        "leveldb, keys compressed" => leveldb(Form::KeysCompressed),
        "leveldb, fixed blocks" => leveldb(Form::FixedBlocks),
        ours_by_name => ours(ours_by_name.parse()?),
    }
}

const INDEXES: [&str; 6] = [
    "three-level",
    "three-level:array",
    "fence",
    "leveldb",
    "leveldb, keys compressed",
    "leveldb, fixed blocks",
];

pub(super) fn run(micro: &mut Micro<'_>) -> Result<()> {
    for kind in ["16", "32", "64", "zipf"] {
        let case = format!("groups of {kind}");
        let entries = micro.size.count((TABLE_BYTES / ENTRY_BYTES) as u64) as usize;
        let keys = keys(&group_sizes(kind, entries), micro.size.seed);
        let blocks: Vec<Vec<Vec<u8>>> = keys
            .chunks(BLOCK_BYTES / ENTRY_BYTES)
            .map(<[Vec<u8>]>::to_vec)
            .collect();
        let asked: Vec<usize> = (0..micro.size.reads(1_000_000))
            .map(|i| (mix(i ^ micro.size.seed) % keys.len() as u64) as usize)
            .collect();
        for name in INDEXES {
            if !micro.wants(name, &case) {
                continue;
            }
            let (bytes, locate) = build(name, &blocks)?;
            let seconds = time(&keys, &asked, &locate)?;
            let bits_per_key = bytes as f64 * 8.0 / keys.len() as f64;
            let timed = Some((asked.len() as u64, seconds));
            let bits = json!({ "bits_per_key": bits_per_key });
            micro.row((name, &case), "locate", timed, bits)?;
        }
    }
    Ok(())
}

/// Ascending order keys of groups of these sizes: two hashes.
fn keys(sizes: &[usize], seed: u64) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for (group, size) in sizes.iter().enumerate() {
        let prefix = mix(seed ^ mix(group as u64));
        let suffix = |i: usize| mix(prefix ^ mix(i as u64 + 1));
        let key = |i| [prefix.to_be_bytes(), suffix(i).to_be_bytes()].concat();
        keys.extend((0..*size).map(key));
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Checks every answer once, then returns the quickest of three passes.
fn time(keys: &[Vec<u8>], asked: &[usize], locate: &Locate) -> Result<f64> {
    for &at in asked {
        let (found, expected) = (locate(&keys[at])?, at / (BLOCK_BYTES / ENTRY_BYTES));
        if found != expected {
            return Err(format!("expected a key in block {expected}, found it in {found}").into());
        }
    }
    // The keys lie in the order of lookups, so that their cache misses do not count.
    let asked: Vec<u8> = asked.iter().flat_map(|at| &keys[*at]).copied().collect();
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let began = Instant::now();
        for key in asked.chunks_exact(KEY_BYTES) {
            black_box(locate(black_box(key))?);
        }
        best = best.min(began.elapsed().as_secs_f64());
    }
    Ok(best)
}
