//! The writes of a script, made on the engine.

use hedgerow::{Durability, ErrorKind, Expiry, Keyspace, Result};

use super::transact::Writes;
use super::{Runner, durability, hours_of};
use crate::answer;
use crate::ops::{Keys, Op, Write};
use crate::order::{self, Deleted};

impl Runner {
    pub(super) fn write(&mut self, op: &Op) -> Result<String> {
        match op {
            Op::Put { .. } | Op::Delete { .. } | Op::Merge { .. } => self.write_one(op)?,
            Op::PutExpiring { .. } => self.put_expiring(op)?,
            Op::DeleteRange {
                keyspace,
                keys,
                synced,
            } => self.delete_range(self.keyspace(keyspace)?, keys, durability(*synced))?,
            Op::Update {
                keyspace,
                key,
                change,
                synced,
            } => {
                let keyspace = self.keyspace(keyspace)?;
                let change = change.clone();
                let new = move |old: Option<&[u8]>| change.apply(old);
                let new = match self.setup.workers {
                    Some(_) if !synced => keyspace.update_async(key.bytes(), new).wait()?,
                    _ => keyspace.update_with(key.bytes(), new, durability(*synced))?,
                };
                return Ok(answer::value(new.as_deref()));
            }
            Op::Batch { writes, synced } => {
                let mut batch = self.db()?.batch();
                let mut added = 0;
                for (i, write) in writes.iter().enumerate() {
                    added += u32::from(self.add(&mut batch, write, &writes[..i])?);
                }
                batch.commit(durability(*synced))?;
                return Ok(answer::added(added));
            }
            Op::Transaction {
                steps,
                commits,
                synced,
            } => return self.transact(steps, *commits, *synced),
            Op::Load { keyspace, entries } => {
                let keyspace = self.keyspace(keyspace)?;
                let entries = entries.iter().map(|(k, v)| (k.bytes(), v.bytes()));
                let environment = self.environment();
                let outside = (&*environment.storage, &*self.path("outside.table"));
                let report = order::load(keyspace, entries.collect(), outside)?;
                return Ok(answer::added(report.entries as u32));
            }
            Op::Pop { keyspace, last } => {
                let popped = order::pop(self.keyspace(keyspace)?, *last)?;
                return Ok(answer::moves(std::iter::once(popped)));
            }
            _ => unreachable!("{op} is no write"),
        }
        Ok(answer::done())
    }

    fn write_one(&self, op: &Op) -> Result<()> {
        match op {
            Op::Put {
                keyspace,
                key,
                value,
                synced,
            } => {
                let keyspace = self.keyspace(keyspace)?;
                let (key, value) = (key.bytes(), value.bytes());
                match self.setup.workers {
                    None => keyspace.put_with(key, value, durability(*synced)),
                    Some(_) => keyspace
                        .put_async_with(key, value, durability(*synced))
                        .wait(),
                }
            }
            Op::Delete {
                keyspace,
                key,
                synced,
            } => {
                let keyspace = self.keyspace(keyspace)?;
                match self.setup.workers {
                    None => keyspace.delete_with(key.bytes(), durability(*synced)),
                    Some(_) => keyspace
                        .delete_async_with(key.bytes(), durability(*synced))
                        .wait(),
                }
            }
            Op::Merge {
                keyspace,
                key,
                operand,
                synced,
            } => {
                let keyspace = self.keyspace(keyspace)?;
                let (key, operand) = (key.bytes(), operand.bytes());
                match self.setup.workers {
                    None => keyspace.merge_with(key, operand, durability(*synced)),
                    Some(_) => keyspace
                        .merge_async(key, operand, durability(*synced))
                        .wait(),
                }
            }
            _ => unreachable!("{op} is no write of one key"),
        }
    }

    pub(super) fn delete_range(
        &self,
        keyspace: &Keyspace,
        keys: &Keys,
        durability: Durability,
    ) -> Result<()> {
        let is_async = self.setup.workers.is_some();
        match order::deleted(keyspace, keys, &[])? {
            Deleted::Range(range) if is_async => {
                keyspace.delete_range_async(range, durability).wait()?;
            }
            Deleted::Range(range) => keyspace.delete_range_with(range, durability)?,
            Deleted::Prefix(prefix) if is_async => {
                keyspace.delete_prefix_async(prefix, durability).wait()?;
            }
            Deleted::Prefix(prefix) => keyspace.delete_prefix_with(prefix, durability)?,
            Deleted::Each(keys) => {
                let mut batch = self.db()?.batch();
                let mut keys = keys.iter();
                keys.try_for_each(|key| batch.delete(keyspace, key).map(drop))?;
                batch.commit(durability)?;
            }
        }
        Ok(())
    }

    fn put_expiring(&self, op: &Op) -> Result<()> {
        let Op::PutExpiring {
            keyspace,
            key,
            value,
            hours,
            synced,
        } = op
        else {
            unreachable!("{op} does not expire")
        };
        let keyspace = self.keyspace(keyspace)?;
        let (key, value) = (key.bytes(), value.bytes());
        let (expiry, durability) = (Expiry::In(hours_of(*hours)), durability(*synced));
        match self.setup.workers {
            None => keyspace.put_expiring_with(key, value, expiry, durability),
            Some(_) => keyspace
                .put_expiring_async(key, value, expiry, durability)
                .wait(),
        }
    }

    /// Adds a write to a batch. Returns false if it is refused as it must be.
    pub(super) fn add(
        &self,
        batch: &mut impl Writes,
        write: &Write,
        before: &[Write],
    ) -> Result<bool> {
        let (Write::One { keyspace: name, .. }
        | Write::Merge { keyspace: name, .. }
        | Write::DeleteRange { keyspace: name, .. }) = write;
        let Ok(keyspace) = self.keyspace(name) else {
            return Ok(false);
        };
        let added = match write {
            Write::One {
                key,
                value: Some(value),
                ..
            } => batch.put(keyspace, key.bytes(), value.bytes()),
            Write::One { key, .. } => batch.delete(keyspace, &key.bytes()),
            Write::Merge { key, operand, .. } => {
                batch.merge(keyspace, key.bytes(), operand.bytes())
            }
            Write::DeleteRange { keys, .. } => {
                let key_of = |write: &Write| match write {
                    Write::One { keyspace, key, .. } | Write::Merge { keyspace, key, .. }
                        if keyspace == name =>
                    {
                        Some(key.bytes())
                    }
                    _ => None,
                };
                let takes = |key: &Vec<u8>| order::takes(self.setup.order, key);
                let written = before.iter().filter_map(key_of).filter(takes);
                let written: Vec<_> = written.collect();
                order::deleted(keyspace, keys, &written).and_then(|it| match it {
                    Deleted::Range(range) => batch.delete_range(keyspace, range),
                    Deleted::Prefix(prefix) => batch.delete_prefix(keyspace, prefix),
                    Deleted::Each(keys) => {
                        { keys.iter() }.try_for_each(|key| batch.delete(keyspace, key))
                    }
                })
            }
        };
        match added {
            Ok(()) => Ok(true),
            Err(e) if matches!(e.kind(), ErrorKind::InvalidArgument | ErrorKind::Closed) => {
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }
}
