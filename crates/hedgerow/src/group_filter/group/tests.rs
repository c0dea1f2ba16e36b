//! Filters follow what becomes of their runs.

use super::*;
use crate::base::entry::PartitionId;
use crate::base::error::Result;
use crate::base::page::{Page, PageId, Step, TableId};
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy::shape::Shape;
use crate::design::merge_policy::text::parse_table;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};
use crate::group_filter::TreeFilters;

/// The facts of a table, in a group with filters.
#[derive(Debug, Clone)]
struct Meta(Arc<TableMeta>);

impl Facts for Meta {
    type Filters = GroupFilters;

    fn meta(&self) -> &TableMeta {
        &self.0
    }
}

/// A filter that denies every key.
#[derive(Debug)]
struct Denies;

impl Probe for Denies {
    fn candidates(&self, _: KeyHash, _: Option<&Page>) -> Result<Step<RunMask>> {
        Ok(Step::Done(RunMask::NONE))
    }

    fn memory_bytes(&self) -> usize {
        0
    }
}

struct NoPages;

impl PageSource for NoPages {
    fn page(&self, id: PageId) -> Result<Page> {
        panic!("{id:?} is asked for")
    }
}

/// An edit that brings tables of a run of level 0, each from one key to another.
fn edit(run: u64, tables: &[&str]) -> TreeEdit {
    let mut edit = TreeEdit::new(PartitionId(0));
    let place = Placement {
        level: 0,
        group: 0,
        run: RunId(run),
    };
    let tables = tables.iter().map(|table| parse_table(table).unwrap());
    edit.added = tables.map(|table| (place, table)).collect();
    edit
}

/// A table in a run of level 0, from one key to another.
fn add<'s>(shape: &'s mut Shape<Meta>, run: u64, table: &str) -> &'s mut Group<Meta> {
    apply(shape, &edit(run, &[table]))
}

fn apply<'s>(shape: &'s mut Shape<Meta>, edit: &TreeEdit) -> &'s mut Group<Meta> {
    let make = |meta: &TableMeta| Meta(Arc::new(meta.clone()));
    shape.apply(edit, make).unwrap();
    shape.levels[0].group_mut(0).unwrap()
}

/// The rule holds for any number: the run of a leveled level has number 0.
#[test]
fn a_probe_does_not_answer_for_a_run_that_got_tables() {
    let left = |group: &Group<Meta>| {
        let probes = group.filters.probes.iter();
        probes.fold(RunMask::all(2), |left, probe| {
            probe.narrow(group, left, RunMask::NONE)
        })
    };
    for oldest in [0, 7] {
        let mut shape = Shape::new(1);
        add(&mut shape, oldest, "#1[00-09]@1M");
        let group = add(&mut shape, oldest + 1, "#2[00-09]@1M");
        group.filters.probes.push(GroupProbe::new(
            [oldest + 1, oldest].map(RunId).into(),
            Arc::new(Denies),
            Arc::new(NoPages),
        ));
        assert_eq!(left(group), RunMask::NONE);
        let group = add(&mut shape, oldest, "#3[10-19]@1M");
        assert_eq!(left(group), RunMask(0b10), "{oldest}");
        let group = add(&mut shape, oldest + 1, "#4[10-19]@1M");
        assert_eq!(left(group), RunMask::all(2));
        assert!(group.filters.probes.is_empty());
    }
}

/// A filter that is written with a table knows no other table of the table's run.
#[test]
fn a_fresh_filter_answers_for_a_run_of_its_table_alone() {
    let (one, two) = ("#1[00-09]@1M", "#2[10-19]@1M");
    // The tables that the run has before the edit that brings the filter, and those of the edit.
    for (before, with) in [(None, &[one][..]), (Some(two), &[one]), (None, &[one, two])] {
        let mut shape = Shape::new(1);
        if let Some(table) = before {
            add(&mut shape, 7, table);
        }
        let edit = edit(7, with);
        apply(&mut shape, &edit);
        let filters = TreeFilters::default();
        let filter = GroupProbe::new(Arc::default(), Arc::new(Denies), Arc::new(NoPages));
        filters.keep(TableId(1), Some(filter));
        filters.put(&mut shape, &edit);
        let group = &shape.levels[0].groups[0];
        let probe = &group.filters.probes[0];
        let left = probe.narrow(group, RunMask::all(1), RunMask::NONE);
        let is_alone = before.is_none() && with.len() == 1;
        assert_eq!(left.is_empty(), is_alone, "{before:?}, {with:?}");
    }
}

/// Cached facts of a group do not outlive a change of the group.
#[test]
fn a_group_that_changes_is_looked_at_again() {
    let mut shape = Shape::new(1);
    add(&mut shape, 1, "#1[00-09]@1M");
    shape.levels[0].groups[0].filters.note_complete(3);
    assert!(
        shape.levels[0].groups[0].filters.are_complete(3)
            && !shape.levels[0].groups[0].filters.are_complete(4)
    );
    let before = shape.clone();
    add(&mut shape, 2, "#2[00-09]@1M");
    assert!(before.levels[0].groups[0].filters.are_complete(3));
    assert!(!shape.levels[0].groups[0].filters.are_complete(3));
    shape.levels[0].groups[0].filters.note_complete(3);
    // No other tree has the group any more.
    drop(before);
    shape.levels[0].group_mut(0).unwrap().filters.probes.clear();
    assert!(!shape.levels[0].groups[0].filters.are_complete(3));
}
