//! The writer: operations of all kinds on a few keyspaces.

use std::collections::BTreeMap;

use hedgerow::{
    Compression, Design, Durability, Error, Expiry, KeyOrder, Keyspace, Layout, LoadOp, PrefixRule,
    Result,
};

use super::{HOUR, World};
use crate::operator;
use crate::order;

/// The names of keyspaces.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl World {
    fn keyspace(&mut self) -> Result<Keyspace> {
        let name = *self.random.pick(&NAMES);
        if let Some(keyspace) = self.db()?.existing_keyspace(name) {
            return Ok(keyspace);
        }
        let mut layout = match self.random.below(5) {
            0 | 1 => Layout::sorted(),
            2 => Layout::sorted().hash(3),
            3 => Layout::semi_sorted(PrefixRule::Bytes(2)).hash(2),
            _ => Layout::hashed(),
        };
        if self.random.one_in(2) {
            layout = layout.merge_operator(operator::NAME);
        }
        let design = Design {
            compression: Compression::None,
            block_bytes: 512,
            table_bytes: Some(4 << 10),
            memtable_bytes: Some(8 << 10),
            ..Design::default()
        };
        self.db()?.keyspace_with(name, layout, design)
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(60);
        // The operator of scripts treats keys of odd and even lengths in two ways.
        let digits = 2 + number as usize % 2;
        format!("{number:0digits$}").into_bytes()
    }

    fn expiry(&mut self) -> Expiry {
        Expiry::In(HOUR * self.random.range(1, 5) as u32)
    }

    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let long = self.random.skewed(400) as usize;
        format!("{}-{}", self.written, "x".repeat(long)).into_bytes()
    }

    pub(super) fn write(&mut self) -> Result<()> {
        for _ in 0..=self.random.below(12) {
            let keyspace = self.keyspace()?;
            let layout = keyspace.layout();
            let (key, value) = (self.key(), self.value());
            match self.random.below(14) {
                0 => keyspace.delete(&key)?,
                1 => match layout.order {
                    KeyOrder::Sorted => keyspace.delete_range(key..value)?,
                    KeyOrder::SemiSorted(_) => keyspace.delete_prefix(&key[..2])?,
                    _ => {}
                },
                2 if layout.order == KeyOrder::Sorted => keyspace.delete_range(key..)?,
                3 => {
                    let other = self.keyspace()?;
                    let mut batch = self.db()?.batch();
                    batch.put(&keyspace, &key, value)?;
                    batch.delete(&other, &key)?;
                    if layout.merge_operator.is_some() {
                        batch.merge(&keyspace, &key, b"!batch")?;
                    }
                    batch.commit(Durability::Buffered)?;
                }
                4..=7 if layout.merge_operator.is_some() => {
                    keyspace.merge(key, &value[..value.len().min(3)])?
                }
                8 => {
                    let expiry = self.expiry();
                    keyspace.put_expiring(key, value, expiry)?;
                }
                9 => {
                    let expiry = self.expiry();
                    keyspace.set_expiry(key, expiry).map(drop)?;
                }
                10 => keyspace.put_with(key, value, Durability::Synced)?,
                _ => keyspace.put(key, value)?,
            }
        }
        Ok(())
    }

    pub(super) fn change_keyspaces(&mut self) -> Result<()> {
        let name = *self.random.pick(&NAMES);
        let Some(keyspace) = self.db()?.existing_keyspace(name) else {
            return self.keyspace().map(drop);
        };
        match self.random.below(5) {
            0 => keyspace.clear(),
            1 => self.db()?.drop_keyspace(name),
            2 => {
                let layout = keyspace.layout().merge_operator(operator::NAME);
                self.db()?.keyspace(name, layout).map(drop)
            }
            3 => {
                let hours = self.random.below(4) as u32;
                keyspace.set_time_to_live((hours > 0).then(|| HOUR * hours))
            }
            _ => {
                let to = *self.random.pick(&NAMES);
                match self.db()?.existing_keyspace(to) {
                    None => self.db()?.rename_keyspace(name, to),
                    Some(_) => Ok(()),
                }
            }
        }
    }

    pub(super) fn load(&mut self) -> Result<()> {
        let keyspace = self.keyspace()?;
        let mut entries = BTreeMap::new();
        for _ in 0..=self.random.below(30) {
            entries.insert(self.key(), self.value());
        }
        if self.random.one_in(2) {
            let outside = (&self.disk as _, "/outside".as_ref());
            return order::load(&keyspace, entries.into_iter().collect(), outside).map(drop);
        }
        let merges = keyspace.layout().merge_operator.is_some();
        let ops = entries.into_iter().map(|(key, value)| {
            let op = match self.random.below(4) {
                0 => LoadOp::PutExpiring(value, self.expiry()),
                1 if merges => LoadOp::Merge(value),
                2 => LoadOp::Delete,
                _ => LoadOp::Put(value),
            };
            Ok::<_, Error>((key, op))
        });
        keyspace.bulk_load_ops(ops).map(drop)
    }

    pub(super) fn merge(&mut self) -> Result<()> {
        match self.random.below(3) {
            0 => self.db()?.flush(),
            1 => self.db()?.sync(),
            _ => {
                let keyspace = self.keyspace()?;
                match keyspace.scan_all() {
                    Ok(_) => keyspace.compact::<&[u8]>(..),
                    Err(_) => keyspace.flush(),
                }
            }
        }
    }
}
