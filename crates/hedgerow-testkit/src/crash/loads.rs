//! Bulk loads, and ingested tables that are written on the same disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use hedgerow::io::{Clock, WallTime};
use hedgerow::{
    BulkLoadReport, Compression, Error, Expiry, KeyOrder, Keyspace, LoadOp, Result, TableWriter,
};

use super::values::{Op, within};
use super::{Harness, Round};

impl Harness {
    pub(super) fn load(&mut self, round: &mut Round) -> std::result::Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        let mut writes = BTreeMap::new();
        for _ in 0..=self.random.skewed(60) {
            let key = self.key();
            writes.insert(key, self.op(true));
        }
        let result = if writes.len() % 2 == 1
            && self.setup.order == KeyOrder::Sorted
            && !round.poisoned
        {
            self.copies += 1;
            let path = format!("/outside-{}", self.copies);
            self.ingest(&keyspace, &writes, path.as_ref())
        } else {
            let op = |op: &Op| match op {
                Op::Put(value) => LoadOp::Put(value.to_vec()),
                Op::Expiring(value, hours) => LoadOp::PutExpiring(value.to_vec(), within(*hours)),
                Op::Merge(operand) => LoadOp::Merge(operand.clone()),
                Op::Delete => LoadOp::Delete,
            };
            let ops = writes.iter().map(|(key, it)| Ok::<_, Error>((key, op(it))));
            keyspace.bulk_load_ops(ops)
        };
        let what = format!("{} load {name}", self.oracle.commits.len() + 1);
        let changes = writes.iter();
        let commit = changes.map(|(key, op)| self.change(&[], name, key, op));
        let commit = commit.collect();
        let ended = self.ended(round, &what, result.map(drop))?;
        self.conclude(ended, commit, true);
        Ok(())
    }

    /// Ingests a table of these writes.
    fn ingest(
        &self,
        keyspace: &Keyspace,
        writes: &BTreeMap<Vec<u8>, Op>,
        path: &Path,
    ) -> Result<BulkLoadReport> {
        let mut table = TableWriter::create_on(&self.disk, path, Compression::Lz4)?;
        for (key, op) in writes {
            match op {
                Op::Put(value) => table.put(key, value)?,
                Op::Expiring(value, hours) => {
                    let at = Duration::from_millis(self.clock.unix_millis() + hours * 3_600_000);
                    table.put_expiring(key, value, Expiry::At(WallTime::UNIX_EPOCH + at))?;
                }
                Op::Merge(operand) => table.merge(key, operand)?,
                Op::Delete => table.delete(key)?,
            }
        }
        table.finish()?;
        keyspace.ingest(&[path])
    }
}
