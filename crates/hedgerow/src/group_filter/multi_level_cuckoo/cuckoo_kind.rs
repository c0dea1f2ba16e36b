//! Multi-level cuckoo filters as a kind of filter over runs.

use std::sync::Arc;

use crate::base::error::Result;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::tree_edit::TreeEdit;
use crate::group_filter::{
    self, BuildStep, Context, FilterContents, FilterFile, FoundFile, Magic, Version, VersionChange,
};
use crate::table::Table;
use crate::table::paged_file::PagedFile;

use super::grow::{Ready, lacking};
use super::{ahead, stored};

/// Multi-level cuckoo filters.
pub(crate) struct CuckooKind;

impl group_filter::FilterKind for CuckooKind {
    fn prepare(
        &self,
        cx: &Context<'_>,
        version: &Version,
        edit: &TreeEdit,
        open: &dyn Fn(&TableMeta) -> Arc<Table>,
    ) -> Vec<VersionChange> {
        let ready = ahead::build(cx, version, edit, open);
        ready.into_iter().map(Ready::change).collect()
    }

    fn next(&self, cx: &Context<'_>, version: &Version) -> Option<Box<dyn BuildStep>> {
        if stored::is_any_due(version) {
            return Some(Box::new(stored::WriteDue));
        }
        let addition = lacking(cx, version)?;
        Some(Box::new(addition))
    }

    fn write_all(&self, cx: &Context<'_>, version: &Version) {
        stored::write_all(cx, version);
    }

    fn magic(&self) -> Magic {
        stored::MAGIC
    }

    fn attach(&self, cx: &Context<'_>, version: &mut Version, found: Vec<FoundFile>) {
        stored::attach(cx, version, found);
    }

    fn files(&self, version: &Version) -> Vec<Arc<PagedFile>> {
        stored::files(version)
    }

    fn check(&self, file: &FilterFile) -> Result<FilterContents> {
        stored::check(file).map(FilterContents::MultiLevelCuckoo)
    }
}
