//! Clusters as a kind of filter over runs.

use std::sync::Arc;

use crate::base::entry::KeyHash;
use crate::base::error::Result;
use crate::base::options::FilterSpec;
use crate::base::page::{DEVICE_PAGE_BYTES, TableId};
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::{
    self, BuildStep, Context, FilterContents, FilterFile, FoundFile, GroupProbe, Magic,
    TableBuilder, Version,
};
use crate::table::paged_file::PagedFile;

use super::columns::Builder;
use super::gather::{next, write_fresh};
use super::{ClusterContents, attach, checked, gather, stored_cluster};

/// Clustered Bloom filters.
pub(crate) struct ClusterKind;

impl group_filter::FilterKind for ClusterKind {
    fn carry(&self, before: &Version, after: &mut Version, edit: &TreeEdit) {
        attach::carry(before, after, edit);
    }

    fn next(&self, cx: &Context<'_>, version: &Version) -> Option<Box<dyn BuildStep>> {
        let task = next(cx, version)?;
        Some(Box::new(task))
    }

    fn begin_table(&self, filter: FilterSpec) -> Option<Box<dyn TableBuilder>> {
        let FilterSpec::Cluster { bits_per_key } = filter else {
            return None;
        };
        Some(Box::new(Builder::new(bits_per_key)))
    }

    fn magic(&self) -> Magic {
        stored_cluster::MAGIC
    }

    fn attach(&self, cx: &Context<'_>, version: &mut Version, found: Vec<FoundFile>) {
        gather::attach_found(cx, version, found);
    }

    fn files(&self, version: &Version) -> Vec<Arc<PagedFile>> {
        attach::files(version)
    }

    fn check(&self, file: &FilterFile) -> Result<FilterContents> {
        let cluster = checked(file)?;
        Ok(FilterContents::Cluster(ClusterContents {
            pages: cluster.pages_bytes() / DEVICE_PAGE_BYTES,
            stripes: cluster.stripes().to_vec(),
        }))
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
