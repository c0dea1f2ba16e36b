//! The values that expire.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Expiring, Model, set};
use crate::operator;

impl Model {
    /// Has a key expire in some hours; 0 is never.
    pub(super) fn expire(&mut self, keyspace: &str, key: &[u8], hours: u64) {
        let entry = (self.handles[keyspace], key.to_vec());
        let at = self.now + hours;
        let operands = Vec::new();
        match hours {
            0 => drop(self.expiring.remove(&entry)),
            _ => drop(self.expiring.insert(entry, Expiring { at, operands })),
        }
    }

    pub(super) fn expire_by_default(&mut self, keyspace: &str, key: &[u8]) {
        let hours = self.time_to_live.get(&self.handles[keyspace]);
        self.expire(keyspace, key, hours.copied().unwrap_or(0));
    }

    /// Lets hours pass. Snapshots and cursors keep what they see.
    pub(super) fn pass(&mut self, hours: u64) {
        self.now += hours;
        let now = self.now;
        let all = std::mem::take(&mut self.expiring).into_iter();
        let (gone, left): (BTreeMap<_, _>, _) = all.partition(|(_, it)| it.at <= now);
        self.expiring = left;
        for ((id, key), expiring) in gone {
            // An entry of a keyspace that was cleared, or a key that was popped, is gone already.
            let Some(map) = self.live.get_mut(&id).filter(|map| map.contains_key(&key)) else {
                continue;
            };
            let fold = |value: Option<Vec<u8>>, operand: &Vec<u8>| {
                operator::apply(&key, value.as_deref(), operand)
            };
            let left = expiring.operands.iter().fold(None, fold);
            set(Arc::make_mut(map), key.clone(), left);
        }
    }

    /// Forgets the times of keys that are no longer there.
    pub(super) fn forget_expired(&mut self) {
        let live = &self.live;
        let is_there =
            |(id, key): &(u32, Vec<u8>)| live.get(id).is_some_and(|it| it.contains_key(key));
        self.expiring.retain(|entry, _| is_there(entry));
    }
}
