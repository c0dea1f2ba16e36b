//! Clusters as a kind of filter over runs.

use std::path::Path;
use std::sync::Arc;

use crate::base::entry::KeyHash;
use crate::base::error::Result;
use crate::base::options::FilterSpec;
use crate::base::page::TableId;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::{
    self, Context, FoundFiles, GroupProbe, Step, StoredFile, TableBuilder, Version,
};
use crate::table::TableContext;

use super::attach;
use super::columns::Builder;
use super::gather::{Found, next, write_fresh};
use super::stored_cluster::cluster_number;

/// Clustered Bloom filters.
pub(crate) struct Kind;

impl group_filter::Kind for Kind {
    fn carry(&self, before: &Version, after: &mut Version, edit: &TreeEdit) {
        attach::carry(before, after, edit);
    }

    fn next(&self, cx: &Context<'_>, version: &Version) -> Option<Box<dyn Step>> {
        let task = next(cx, version)?;
        Some(Box::new(task))
    }

    fn begin_table(&self, filter: FilterSpec) -> Option<Box<dyn TableBuilder>> {
        let FilterSpec::Cluster { bits_per_key } = filter else {
            return None;
        };
        Some(Box::new(Builder::new(bits_per_key)))
    }

    fn number_of(&self, name: &str) -> Option<u64> {
        cluster_number(name)
    }

    fn list(&self, context: &Arc<TableContext>, dir: &Path) -> Box<dyn FoundFiles> {
        Box::new(Found::list(context, dir))
    }

    fn files(&self, version: &Version) -> Vec<Box<dyn StoredFile>> {
        let files = attach::files(version).into_iter();
        files.map(|file| Box::new(file) as _).collect()
    }
}

impl TableBuilder for Builder {
    fn add(&mut self, hash: KeyHash) {
        self.push(hash);
    }

    fn memory_bytes(&self) -> usize {
        self.held_bytes()
    }

    fn finish(
        self: Box<Self>,
        cx: &Context<'_>,
        version: &Version,
        (level, table): (usize, TableId),
    ) -> Result<Option<GroupProbe>> {
        let Some(columns) = self.columns(table) else {
            return Ok(None);
        };
        let cluster = write_fresh(cx, version, level, &columns)?;
        Ok(Some(attach::of_one_table(cluster)))
    }
}
