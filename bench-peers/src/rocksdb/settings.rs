//! The options of RocksDB: those of its tuning guide and its newer defaults for this case.
//!
//! The README of this folder has a table of the choices, with reasons.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use hedgerow_bench::{OpenOptions, Result};
use serde_json::{Value, json};

use crate::shares::{self, Shares};

/// Write buffers that exist at once: one that fills, and three that may wait for their flush.
const WRITE_BUFFERS: u64 = 4;

/// The options in RocksDB's own syntax. Later ones win, so that a caller can try others.
pub(super) fn options(options: &OpenOptions, overrides: &str) -> Result<String> {
    let shares = Shares::of(options)?;
    let filter = match shares::filter_bits(options) {
        Some(bits) => format!("filter_policy=bloomfilter:{bits}:false"),
        None => "filter_policy=nullptr".to_owned(),
    };
    let table = [
        filter,
        format!("block_cache={}", shares.cache),
        format!("block_size={}", options.design.block_bytes),
        "format_version=5".to_owned(),
        // Resident indexes and filters are outside of the cache, and were taken off its size.
        format!("cache_index_and_filter_blocks={}", shares.resident == 0),
        "pin_l0_filter_and_index_blocks_in_cache=true".to_owned(),
        "optimize_filters_for_memory=true".to_owned(),
        "data_block_index_type=kDataBlockBinaryAndHash".to_owned(),
    ];
    let write_buffer = shares.memtables / WRITE_BUFFERS;
    let database = [
        "create_if_missing=true".to_owned(),
        format!("write_buffer_size={write_buffer}"),
        format!("max_write_buffer_number={WRITE_BUFFERS}"),
        // As large as the level 0 that is merged into it, as the guide says.
        format!("max_bytes_for_level_base={}", 4 * write_buffer),
        "level_compaction_dynamic_level_bytes=true".to_owned(),
        "compaction_pri=kMinOverlappingRatio".to_owned(),
        format!("max_background_jobs={}", shares::cores().clamp(2, 4)),
        "bytes_per_sync=1048576".to_owned(),
        "compaction_readahead_size=2097152".to_owned(),
        "max_open_files=-1".to_owned(),
        format!("compression={}", compression(options)?),
        format!("block_based_table_factory={{{}}}", table.join(";")),
    ];
    Ok(format!("{};{overrides}", database.join(";")))
}

fn compression(options: &OpenOptions) -> Result<&'static str> {
    match shares::is_compressed(options)? {
        false => Ok("kNoCompression"),
        true => Ok("kLZ4Compression"),
    }
}

/// The options that RocksDB reports as in force.
#[derive(Debug, Default)]
pub(super) struct InForce {
    pub(super) version: String,
    pub(super) settings: Value,
}

/// Options that say what the memory is spent on and how tables look.
const SHOWN: [&str; 20] = [
    "compaction_style",
    "write_buffer_size",
    "max_write_buffer_number",
    "max_bytes_for_level_base",
    "target_file_size_base",
    "level_compaction_dynamic_level_bytes",
    "compaction_pri",
    "max_background_jobs",
    "bytes_per_sync",
    "compaction_readahead_size",
    "max_open_files",
    "compression",
    "use_direct_reads",
    "filter_policy",
    "block_size",
    "format_version",
    "cache_index_and_filter_blocks",
    "optimize_filters_for_memory",
    "data_block_index_type",
    "checksum",
];

impl InForce {
    /// Reads a file of options that RocksDB has written.
    pub(super) fn read(file: &Path, asked: String) -> Result<InForce> {
        Self::parse(&fs::read_to_string(file)?, asked)
    }

    fn parse(text: &str, asked: String) -> Result<InForce> {
        let options: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.trim().split_once('='))
            .collect();
        let version = options
            .get("rocksdb_version")
            .ok_or("expected `rocksdb_version` in the options that RocksDB has written")?;
        let shown: BTreeMap<_, _> = SHOWN
            .iter()
            .filter_map(|name| Some((*name, *options.get(name)?)))
            .collect();
        Ok(InForce {
            version: (*version).to_owned(),
            settings: json!({ "asked": asked, "in_force": shown }),
        })
    }
}
