//! Bulk loads, and ingested tables that are written on the same disk.

use hedgerow::{Error, KeyOrder};

use super::{Harness, Round};
use crate::model::Map;
use crate::order;

impl Harness {
    pub(super) fn load(&mut self, round: &mut Round) -> Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        let mut entries = Map::new();
        for _ in 0..=self.random.skewed(60) {
            let key = self.key();
            entries.insert(key, self.value());
        }
        let result =
            if entries.len() % 2 == 1 && self.setup.order == KeyOrder::Sorted && !round.poisoned {
                self.copies += 1;
                let path = format!("/outside-{}", self.copies);
                let entries: Vec<_> = entries.iter().collect();
                order::ingest(&keyspace, &entries, (&self.disk, path.as_ref()))
            } else {
                keyspace.bulk_load(entries.iter().map(Ok::<_, Error>))
            };
        let what = format!("{} load {name}", self.oracle.commits.len() + 1);
        let change = |(key, value)| (name.to_owned(), key, Some(value));
        let commit = entries.into_iter().map(change).collect();
        let ended = self.ended(round, &what, result.map(drop))?;
        self.conclude(ended, commit, true);
        Ok(())
    }
}
