//! Range deletes in a run.

use hedgerow::{Durability, KeyOrder};

use super::oracle::Change;
use super::values::Values;
use super::{Harness, Round};
use crate::blob::show;
use crate::generate::key;
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
            let op = self.op(true);
            op.add(&mut batch, &keyspace, &lower).map_err(refused)?;
            commit.push(self.change(&commit, name, &lower, &op));
        }
        let is_alone = commit.is_empty() && self.random.one_in(2);
        let live = self.live.get(name).into_iter().flat_map(Values::keys);
        let mut gone: Vec<_> = live.filter(|key| is_deleted(key)).cloned().collect();
        gone.extend(commit.iter().map(|it| it.1.clone()).filter(is_deleted));
        commit.extend(gone.into_iter().map(|key| (name.to_owned(), key, None)));
        match &prefix {
            Some(prefix) if !is_sorted => drop(batch.delete_prefix(&keyspace, prefix)),
            _ => drop(batch.delete_range(&keyspace, lower.clone()..upper.clone())),
        }
        if !is_alone && self.random.one_in(2) {
            let op = self.op(true);
            op.add(&mut batch, &keyspace, &lower).map_err(refused)?;
            commit.push(self.change(&commit, name, &lower, &op));
        }
        let what = format!(
            "{} delete range {name} {} {}: {} changes",
            self.oracle.commits.len() + 1,
            show(&lower),
            show(&upper),
            commit.len()
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
