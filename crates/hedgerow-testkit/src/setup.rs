//! The setup of a script: a disk, a layout, a design, and sizes. Its text has `name=value` words.

use std::fmt;
use std::str::FromStr;

use hedgerow::io::ReadMode;
use hedgerow::{
    Compression, Design, FilterSpec, IndexSpec, KeyOrder, Layout, LevelSpec, Partitioning,
    PolicySpec, Residency, TableSpec,
};

use crate::operator;

/// Everything of a run except the script.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The disk.
    pub disk: DiskSpec,
    /// The order of the keys of every keyspace.
    pub order: KeyOrder,
    /// The division of every keyspace.
    pub partitioning: Partitioning,
    /// The design of every keyspace.
    pub design: Design,
    /// True if keyspaces tune themselves. They begin with `design`.
    pub self_tuning: bool,
    /// The memory budget in bytes.
    pub budget_bytes: u64,
    /// The size of log segments in bytes; `None` derives it.
    pub segment_bytes: Option<u64>,
    /// The limit of the log in bytes; `None` derives it.
    pub log_bytes_max: Option<u64>,
    /// True if the log's records are compressed.
    pub compress_log: bool,
    /// The way to read tables.
    pub read_mode: ReadMode,
    /// The number of workers for calls that can be asynchronous; `None` makes synchronous calls.
    pub workers: Option<usize>,
}

/// The disk of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskSpec {
    /// A simulated one, with background work in an order drawn from the seed.
    Simulated(u64),
    /// A temporary directory, with background threads.
    Directory,
}

impl Setup {
    /// A simulated disk, one partition, and sizes so small that every event happens.
    pub fn tiny(seed: u64) -> Setup {
        Setup {
            disk: DiskSpec::Simulated(seed),
            order: KeyOrder::Sorted,
            partitioning: Partitioning::Single,
            design: Design {
                block_bytes: 512,
                table_bytes: Some(4 << 10),
                memtable_bytes: Some(4 << 10),
                policy: "leveling:3".parse().unwrap_or_default(),
                ..Design::default()
            },
            self_tuning: false,
            budget_bytes: 1 << 20,
            segment_bytes: Some(4 << 10),
            log_bytes_max: Some(32 << 10),
            compress_log: seed % 2 == 1,
            read_mode: ReadMode::Pread,
            workers: None,
        }
    }

    /// Makes keyspaces tune themselves. They have one tree, because each of several trees would
    /// need as many reads. They have enough memory to give the advisor a choice.
    pub fn tune_itself(&mut self) {
        self.self_tuning = true;
        self.partitioning = Partitioning::Single;
        self.budget_bytes = 64 << 20;
    }

    /// The layout of every keyspace.
    pub fn layout(&self) -> Layout {
        Layout {
            order: self.order,
            partitioning: self.partitioning.clone(),
            merge_operator: Some(operator::NAME.into()),
        }
    }
}

/// Adapts a design to a key order. Fence pointers, block-based tables and tiering replace an index,
/// table format or trie that does not suit the order.
pub fn suited(mut design: Design, order: KeyOrder) -> Design {
    if design.check_order(order).is_ok() {
        return design;
    }
    if let PolicySpec::Trie { fan_out } = design.policy {
        design.policy = PolicySpec::tiering(fan_out);
        return suited(design, order);
    }
    if let FilterSpec::Cluster { bits_per_key } = design.filter
        && order != KeyOrder::Hashed
    {
        design.filter = FilterSpec::Bloom { bits_per_key };
        return suited(design, order);
    }
    if design.table == TableSpec::HTable {
        design.table = TableSpec::BlockBased;
        return suited(design, order);
    }
    design.index = IndexSpec::Fence;
    if let PolicySpec::Levels(levels) = &design.policy {
        let levels = levels.iter().cloned();
        let levels = levels.map(|level| LevelSpec {
            index: None,
            ..level
        });
        design.policy = PolicySpec::levels(levels);
    }
    design
}

/// The text of a design.
pub fn design_text(design: &Design) -> String {
    let compression = match design.compression {
        Compression::None => "none",
        _ => "lz4",
    };
    let residency = match design.residency {
        Residency::Resident => "resident",
        Residency::Paged => "paged",
        _ => "auto",
    };
    let size = |bytes: Option<u64>| bytes.map_or("auto".into(), |n| n.to_string());
    format!(
        "policy={} format={} index={} filter={} compression={compression} residency={residency} block={} table={} memtable={}",
        design.policy,
        design.table,
        design.index,
        design.filter,
        design.block_bytes,
        size(design.table_bytes),
        size(design.memtable_bytes)
    )
}

/// Parses a design. Missing words keep the default.
///
/// # Errors
/// A sentence that names the word.
pub fn parse_design<'a>(words: impl Iterator<Item = &'a str>) -> Result<Design, String> {
    let mut design = Design::default();
    for word in words {
        if !set_design(&mut design, word)? {
            return Err(format!("expected a part of a design, found `{word}`"));
        }
    }
    Ok(design)
}

/// Applies a word if it belongs to a design. Returns true if it does.
fn set_design(design: &mut Design, word: &str) -> Result<bool, String> {
    let Some((name, value)) = word.split_once('=') else {
        return Ok(false);
    };
    let bad = |e: &dyn fmt::Display| format!("`{word}`: {e}");
    match name {
        "policy" => design.policy = value.parse::<PolicySpec>().map_err(|e| bad(&e))?,
        "format" => design.table = value.parse::<TableSpec>().map_err(|e| bad(&e))?,
        "index" => design.index = value.parse::<IndexSpec>().map_err(|e| bad(&e))?,
        "filter" => design.filter = value.parse::<FilterSpec>().map_err(|e| bad(&e))?,
        "compression" => {
            design.compression = match value {
                "none" => Compression::None,
                "lz4" => Compression::Lz4,
                _ => return Err(bad(&"unknown")),
            }
        }
        "residency" => {
            design.residency = match value {
                "auto" => Residency::Auto,
                "resident" => Residency::Resident,
                "paged" => Residency::Paged,
                _ => return Err(bad(&"unknown")),
            }
        }
        "block" => design.block_bytes = value.parse().map_err(|e| bad(&e))?,
        "table" => design.table_bytes = size(value).map_err(|e| bad(&e))?,
        "memtable" => design.memtable_bytes = size(value).map_err(|e| bad(&e))?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A size in bytes, or `auto`.
fn size(text: &str) -> Result<Option<u64>, std::num::ParseIntError> {
    if text == "auto" {
        return Ok(None);
    }
    text.parse().map(Some)
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.disk {
            DiskSpec::Simulated(seed) => write!(f, "disk={seed}")?,
            DiskSpec::Directory => write!(f, "disk=directory")?,
        }
        let size = |bytes: Option<u64>| bytes.map_or("auto".into(), |n| n.to_string());
        let workers = self.workers.map_or("none".into(), |n| n.to_string());
        write!(
            f,
            " order={} partitions={} tuning={} budget={} segment={} log={} compress={} read={} workers={workers} {}",
            self.order,
            self.partitioning,
            self.self_tuning,
            self.budget_bytes,
            size(self.segment_bytes),
            size(self.log_bytes_max),
            self.compress_log,
            self.read_mode,
            design_text(&self.design)
        )
    }
}

impl FromStr for Setup {
    type Err = String;

    fn from_str(text: &str) -> Result<Setup, String> {
        let mut setup = Setup::tiny(0);
        for word in text.split_whitespace() {
            let bad = |e: &dyn fmt::Display| format!("`{word}`: {e}");
            match word.split_once('=') {
                Some(("disk", "directory")) => setup.disk = DiskSpec::Directory,
                Some(("disk", seed)) => {
                    setup.disk = DiskSpec::Simulated(seed.parse().map_err(|e| bad(&e))?);
                }
                Some(("order", order)) => setup.order = order.parse().map_err(|e| bad(&e))?,
                Some(("partitions", by)) => {
                    setup.partitioning = by.parse().map_err(|e| bad(&e))?;
                }
                Some(("tuning", on)) => setup.self_tuning = on.parse().map_err(|e| bad(&e))?,
                Some(("budget", n)) => setup.budget_bytes = n.parse().map_err(|e| bad(&e))?,
                Some(("segment", n)) => setup.segment_bytes = size(n).map_err(|e| bad(&e))?,
                Some(("log", n)) => setup.log_bytes_max = size(n).map_err(|e| bad(&e))?,
                Some(("compress", on)) => setup.compress_log = on.parse().map_err(|e| bad(&e))?,
                Some(("read", mode)) => setup.read_mode = mode.parse().map_err(|e| bad(&e))?,
                Some(("workers", "none")) => setup.workers = None,
                Some(("workers", n)) => setup.workers = Some(n.parse().map_err(|e| bad(&e))?),
                _ if set_design(&mut setup.design, word)? => {}
                _ => return Err(bad(&"unknown")),
            }
        }
        Ok(setup)
    }
}
