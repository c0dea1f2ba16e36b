//! bf-tree, from the crates registry.
//!
//! It is opened without its log: the crate cannot recover from one. What survives is the snapshot
//! that `settle` takes.

use std::fs;
use std::path::{Path, PathBuf};

use bf_tree::{BfTree as Tree, Config, LeafInsertResult, LeafReadResult, ScanReturnField};
use hedgerow_bench::{Counters, Description, OpenOptions, Result, Store};
use serde_json::json;

use crate::shares;

/// bf-tree's default, which holds every record that it takes.
const LEAF_BYTES: usize = 4096;
/// Keys up to here are its default.
const KEY_BYTES_MIN: usize = 16;

/// An open tree.
pub(crate) struct BfTree {
    tree: Tree,
    dir: PathBuf,
    buffer_bytes: usize,
}

impl std::fmt::Debug for BfTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BfTree")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl BfTree {
    /// Opens the tree from its last snapshot, or creates it.
    ///
    /// # Errors
    /// What bf-tree says, and options that it does not have.
    pub(crate) fn open(options: &OpenOptions) -> Result<BfTree> {
        if options.fresh && options.dir.exists() {
            fs::remove_dir_all(&options.dir)?;
        }
        if shares::is_compressed(options)? {
            return Err("expected no compression: bf-tree has none".into());
        }
        if options.sync {
            return Err("expected no sync: bf-tree cannot recover from its log".into());
        }
        fs::create_dir_all(&options.dir)?;
        // A power of two is asked for.
        let buffer_bytes = 1 << usize::try_from(options.memory_budget)?.max(1).ilog2();
        let snapshot = newest(&options.dir)?;
        let tree = if snapshot == 0 {
            let mut config = Config::new(options.dir.join("leaves"), buffer_bytes);
            config.cb_max_key_len(options.key_bytes.max(KEY_BYTES_MIN));
            config.use_snapshot(true);
            Tree::with_config(config, None)
        } else {
            let file = file(&options.dir, snapshot);
            Tree::new_from_cpr_snapshot(file, true, None, Some(buffer_bytes), None)
        };
        Ok(BfTree {
            tree: tree.map_err(|error| format!("bf-tree: {error:?}"))?,
            dir: options.dir.clone(),
            buffer_bytes,
        })
    }
}

fn file(dir: &Path, snapshot: u64) -> PathBuf {
    dir.join(format!("snapshot-{snapshot}"))
}

/// The number of the newest snapshot, 0 if there is none.
fn newest(dir: &Path) -> Result<u64> {
    let mut newest = 0;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix("snapshot-"));
        newest = newest.max(number.map_or(Ok(0), str::parse)?);
    }
    Ok(newest)
}

impl Store for BfTree {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.tree.insert(key, value) {
            LeafInsertResult::Success => Ok(()),
            LeafInsertResult::InvalidKV(message) => Err(format!("bf-tree: {message}").into()),
        }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.tree.delete(key);
        Ok(())
    }

    /// One by one: it has no batches.
    fn write_batch(&self, entries: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
        entries
            .iter()
            .try_for_each(|(key, value)| self.put(key, value))
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut value = [0; LEAF_BYTES];
        match self.tree.read(key, &mut value) {
            LeafReadResult::Found(length) => {
                found(&value[..length as usize]);
                Ok(true)
            }
            LeafReadResult::Deleted | LeafReadResult::NotFound => Ok(false),
            LeafReadResult::InvalidKey => Err("bf-tree: the key is too long or empty".into()),
        }
    }

    fn scan(&self, from: &[u8], limit: usize, found: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        let mut entry = [0; LEAF_BYTES];
        let mut entries = self
            .tree
            .scan_with_count(from, limit, ScanReturnField::KeyAndValue)
            .map_err(|error| format!("bf-tree: {error:?}"))?;
        while let Some((key_length, value_length)) = entries.next(&mut entry) {
            let (key, rest) = entry.split_at(key_length);
            found(key, &rest[..value_length]);
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let before = newest(&self.dir)?;
        self.tree.cpr_snapshot(file(&self.dir, before + 1));
        Ok(())
    }

    fn counters(&self) -> Counters {
        let leaves = fs::metadata(self.dir.join("leaves")).ok();
        Counters {
            table_bytes: leaves.map(|file| file.len()),
            memory: vec![("circular_buffer", self.buffer_bytes as u64)],
            ..Counters::default()
        }
    }

    fn describe(&self) -> Description {
        Description {
            name: "bf-tree".to_owned(),
            version: crate::locked_version("bf-tree"),
            settings: json!({
                "cb_size_byte": self.buffer_bytes,
                "leaf_page_size": self.tree.config().get_leaf_page_size(),
                "durability": "none between snapshots: a kill loses what came after the last",
                "compression": "none",
            }),
        }
    }
}
