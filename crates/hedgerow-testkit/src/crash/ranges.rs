//! Range deletes in a run.

use hedgerow::{Durability, KeyOrder};

use super::oracle::{Change, describe};
use super::{Harness, Round};
use crate::blob::show;
use crate::generate::key;
use crate::model::Map;
use crate::order::fragment;

impl Harness {
    /// Deletes a range of keys, or a prefix, sometimes between puts of one batch.
    pub(super) fn delete_range(&mut self, round: &mut Round) -> Result<(), String> {
        let Some((name, keyspace)) = self.keyspace(round) else {
            return Ok(());
        };
        let mut ends = [(); 2].map(|()| key(self.random.skewed(self.keys)).bytes());
        ends.sort();
        let [lower, upper] = ends;
        let prefix = fragment(self.setup.order, &lower).map(<[u8]>::to_vec);
        let is_sorted = self.setup.order == KeyOrder::Sorted;
        let order = self.setup.order;
        let is_deleted = |key: &Vec<u8>| match is_sorted {
            true => lower <= *key && *key < upper,
            false => fragment(order, key).map(<[u8]>::to_vec) == prefix,
        };
        if order == KeyOrder::Hashed || (!is_sorted && prefix.is_none()) {
            return Ok(());
        }
        let refused = |e| format!("expected to add to a batch, found {e}");
        let mut batch = round.db.batch();
        let mut commit: Vec<Change> = Vec::new();
        if self.random.one_in(2) {
            let value = self.value();
            batch.put(&keyspace, &lower, &value).map_err(refused)?;
            commit.push((name.to_owned(), lower.clone(), Some(value)));
        }
        let is_alone = commit.is_empty() && self.random.one_in(2);
        let live = self.live.get(name).into_iter().flat_map(Map::keys);
        let mut gone: Vec<_> = live.filter(|key| is_deleted(key)).cloned().collect();
        gone.extend(commit.iter().map(|it| it.1.clone()).filter(is_deleted));
        commit.extend(gone.into_iter().map(|key| (name.to_owned(), key, None)));
        match &prefix {
            Some(prefix) if !is_sorted => drop(batch.delete_prefix(&keyspace, prefix)),
            _ => drop(batch.delete_range(&keyspace, lower.clone()..upper.clone())),
        }
        if !is_alone && self.random.one_in(2) {
            let value = self.value();
            batch.put(&keyspace, &lower, &value).map_err(refused)?;
            commit.push((name.to_owned(), lower.clone(), Some(value)));
        }
        let what = format!(
            "{} delete range {name} {} {}: {}",
            self.oracle.commits.len() + 1,
            show(&lower),
            show(&upper),
            describe(&commit)
        );
        let result = match (is_alone, &prefix) {
            (false, _) => batch.commit(Durability::Buffered),
            (true, Some(prefix)) if !is_sorted => keyspace.delete_prefix(prefix),
            (true, _) => keyspace.delete_range(lower.clone()..upper.clone()),
        };
        let ended = self.ended(round, &what, result)?;
        self.conclude(ended, commit, false);
        Ok(())
    }
}
