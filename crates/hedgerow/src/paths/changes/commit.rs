//! A commit as the change feed returns it: operations of the log, or changes of the manifest.

use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hedgerow_io::Storage;

use crate::base::entry::{Flags, Kind, PartitionId};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::expiry;
use crate::base::expiry::Expiry;
use crate::base::key_order;
use crate::base::options::{KeyOrder, Layout};
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::paths::bulk_load::LoadOp;
use crate::paths::outside_tables::TableEntries;
use crate::tree::engine::kept_path;
use crate::tree::version::edit::{Change, Edit, KeyspaceChange, KeyspaceDescription};
use crate::tree::version::state::State;
use crate::tree::wal::payload::Ops;

/// Changes that became visible together.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Commit {
    /// The sequence number of its last change. [`Db::changes_since`](crate::Db::changes_since) this
    /// number continues behind it.
    pub number: u64,
    /// The changes, in their order.
    pub changes: Vec<CommitChange>,
}

/// One change of a commit. Keyspaces have the names of that moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CommitChange {
    /// A key gets a value.
    Put {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
        /// The time from which on the key has no value.
        expiry: Expiry,
    },
    /// An operand changes the value of a key by the merge operator of the keyspace.
    Merge {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
        /// The operand.
        operand: Vec<u8>,
    },
    /// A key loses its value.
    Delete {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Vec<u8>,
    },
    /// The keys of a range lose their values.
    DeleteRange {
        /// The keyspace.
        keyspace: String,
        /// The first key.
        from: Vec<u8>,
        /// The first key behind the range; `None` if it has no end.
        to: Option<Vec<u8>>,
    },
    /// The keys with a prefix lose their values, in a semi-sorted keyspace.
    DeletePrefix {
        /// The keyspace.
        keyspace: String,
        /// The prefix.
        prefix: Vec<u8>,
    },
    /// A bulk load or an ingestion changes the keys of tables.
    Load {
        /// The keyspace.
        keyspace: String,
        /// The tables, which stay until every slot is past this commit.
        tables: LoadedTables,
    },
    /// A keyspace is created.
    Create {
        /// The keyspace.
        keyspace: String,
        /// Its layout.
        layout: Layout,
    },
    /// A keyspace gets another name.
    Rename {
        /// The old name.
        keyspace: String,
        /// The new name.
        to: String,
    },
    /// A keyspace gets a merge operator.
    SetMergeOperator {
        /// The keyspace.
        keyspace: String,
        /// The name of the operator.
        name: String,
    },
    /// The puts of a keyspace get a time to live. Those in the feed have their expiry already.
    SetTimeToLive {
        /// The keyspace.
        keyspace: String,
        /// The time to live; `None` is for ever.
        time_to_live: Option<Duration>,
    },
    /// A keyspace loses all entries.
    Clear {
        /// The keyspace.
        keyspace: String,
    },
    /// A keyspace is dropped.
    Drop {
        /// The keyspace.
        keyspace: String,
    },
}

/// The tables of a bulk load.
#[derive(Debug, Clone)]
pub struct LoadedTables {
    storage: Arc<dyn Storage>,
    tables: Vec<(PathBuf, TableMeta)>,
    order: KeyOrder,
    seed: u64,
}

impl LoadedTables {
    /// The files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.tables.iter().map(|(path, _)| &**path)
    }

    /// The number of their entries.
    pub fn entries(&self) -> u64 {
        self.tables.iter().map(|(_, meta)| meta.entries).sum()
    }

    /// The number of operands among them. Two loads of an operand are not the same as one.
    pub fn operands(&self) -> u64 {
        self.tables.iter().map(|(_, meta)| meta.operands).sum()
    }

    /// Reads the entries for [`Keyspace::bulk_load_ops`](crate::Keyspace::bulk_load_ops): each puts
    /// with an expiry, which may be never, merges or deletes. Sorted keys come in order, others in
    /// any.
    /// Cost: reads the tables.
    ///
    /// # Errors
    /// `Corruption`, `Io`; also those of the iterator.
    pub fn read(&self) -> Result<LoadedEntries> {
        let open = |(path, meta): &(PathBuf, TableMeta)| {
            let order = key_order::open(self.order, self.seed);
            let table = TableEntries::open(&*self.storage, path, meta.id, order)?;
            Ok(table.peekable())
        };
        Ok(LoadedEntries {
            tables: self.tables.iter().map(open).collect::<Result<_>>()?,
            is_sorted: self.order == KeyOrder::Sorted,
        })
    }
}

/// The entries of [`LoadedTables`].
pub struct LoadedEntries {
    tables: Vec<Peekable<TableEntries>>,
    is_sorted: bool,
}

impl Iterator for LoadedEntries {
    type Item = Result<(Vec<u8>, LoadOp<Vec<u8>>)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.tables.retain_mut(|table| table.peek().is_some());
        // An error comes first.
        let key = |table: &mut Peekable<TableEntries>| match table.peek() {
            Some(Ok((key, _))) => Some(key.clone()),
            _ => None,
        };
        let first = match self.is_sorted {
            false => 0,
            true => {
                let keys = self.tables.iter_mut().map(key).enumerate();
                keys.min_by(|(_, a), (_, b)| a.cmp(b))?.0
            }
        };
        let entry = self.tables.get_mut(first)?.next()?;
        // The time to live is that of the writer, and was added.
        Some(entry.map(|(key, op)| match op {
            LoadOp::Put(value) => (key, LoadOp::PutExpiring(value, Expiry::Never)),
            other => (key, other),
        }))
    }
}

/// The changes of the operations of a record. A mark has none.
pub(super) fn changes(keyspaces: &State, ops: Ops<'_>) -> Result<Vec<CommitChange>> {
    let mut changes = Vec::new();
    let mut last_range = None;
    for op in ops {
        let op = op?;
        if op.partition == PartitionId::NONE {
            continue;
        }
        let found = keyspace_of(keyspaces, op.partition)?;
        let is_range = op.tag.kind == Kind::RangeDelete;
        let range = is_range.then_some((&found.name, op.user_key, op.value));
        // A range delete has an operation for each tree.
        if is_range && range == last_range {
            continue;
        }
        last_range = range;
        let (keyspace, key) = (found.name.clone(), op.user_key.to_vec());
        changes.push(match op.tag.kind {
            Kind::Put => {
                let expires = op.tag.flags.has(Flags::EXPIRES);
                let split = || expiry::split(op.value).map(|(at, value)| (Some(at), value));
                let (at, value) = if expires { split()? } else { (None, op.value) };
                CommitChange::Put {
                    keyspace,
                    key,
                    value: value.to_vec(),
                    expiry: Expiry::of(at),
                }
            }
            Kind::Merge => CommitChange::Merge {
                keyspace,
                key,
                operand: op.value.to_vec(),
            },
            Kind::Delete => CommitChange::Delete { keyspace, key },
            Kind::RangeDelete if found.layout.order == KeyOrder::Sorted => {
                CommitChange::DeleteRange {
                    keyspace,
                    from: key,
                    to: (!op.value.is_empty()).then(|| op.value.to_vec()),
                }
            }
            Kind::RangeDelete => CommitChange::DeletePrefix {
                keyspace,
                prefix: key,
            },
            Kind::ValueRef => {
                let message = "expected a change of a key, found a reference to a value";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        });
    }
    Ok(changes)
}

/// The changes of an edit of the manifest, which are not applied to `keyspaces` yet.
pub(super) fn of_edit(
    keyspaces: &State,
    edit: &Edit,
    storage: &Arc<dyn Storage>,
    root: &dyn Fn(u8) -> PathBuf,
) -> Result<Vec<CommitChange>> {
    let name = |id| {
        let keyspace = keyspaces.keyspaces.get(id);
        let keyspace = keyspace.ok_or_else(|| Error::corruption("expected a keyspace, found none"));
        Ok::<_, Error>(keyspace?.name.clone())
    };
    let mut changes = Vec::new();
    for change in edit {
        match change {
            Change::CreateKeyspace { keyspace, .. } => changes.push(CommitChange::Create {
                keyspace: keyspace.name.clone(),
                layout: keyspace.layout.clone(),
            }),
            Change::Keyspace(id, change) => {
                let keyspace = name(id)?;
                changes.extend(of_keyspace(keyspace, change));
            }
            Change::Tree(edit) if !edit.added.is_empty() => {
                let (keyspace, loaded) = loaded_tables(keyspaces, edit, storage, root)?;
                // A load has an edit for each tree.
                match changes.last_mut() {
                    Some(CommitChange::Load { tables, .. }) => tables.tables.extend(loaded.tables),
                    _ => changes.push(CommitChange::Load {
                        keyspace,
                        tables: loaded,
                    }),
                }
            }
            _ => {}
        }
    }
    Ok(changes)
}

/// A change of a keyspace, if the change feed reports such changes.
fn of_keyspace(keyspace: String, change: &KeyspaceChange) -> Option<CommitChange> {
    Some(match change {
        KeyspaceChange::Rename(to) => {
            let to = to.clone();
            CommitChange::Rename { keyspace, to }
        }
        KeyspaceChange::SetMergeOperator(name) => {
            let name = name.clone();
            CommitChange::SetMergeOperator { keyspace, name }
        }
        KeyspaceChange::SetTimeToLive(ms) => CommitChange::SetTimeToLive {
            keyspace,
            time_to_live: (*ms > 0).then(|| Duration::from_millis(*ms)),
        },
        KeyspaceChange::ReplacePartitions(_) => CommitChange::Clear { keyspace },
        KeyspaceChange::Drop => CommitChange::Drop { keyspace },
        _ => return None,
    })
}

/// The tables that a load added to a tree, and the name of its keyspace.
fn loaded_tables(
    keyspaces: &State,
    edit: &TreeEdit,
    storage: &Arc<dyn Storage>,
    root: &dyn Fn(u8) -> PathBuf,
) -> Result<(String, LoadedTables)> {
    let found = keyspace_of(keyspaces, edit.partition)?;
    let added = edit.added.iter().map(|(_, meta)| {
        let path = kept_path(&root(meta.path), meta);
        (path, meta.clone())
    });
    let tables = LoadedTables {
        storage: storage.clone(),
        tables: added.collect(),
        order: found.layout.order,
        seed: found.seed,
    };
    Ok((found.name.clone(), tables))
}

fn keyspace_of(keyspaces: &State, partition: PartitionId) -> Result<&KeyspaceDescription> {
    let tree = keyspaces.trees.get(&partition);
    let found = tree.and_then(|tree| keyspaces.keyspaces.get(&tree.keyspace));
    found.ok_or_else(|| {
        let message = format!("expected a known partition, found {}", partition.0);
        Error::corruption(message)
    })
}
