//! The target of one level: its role in the tree, and its capacity.

/// The cut of a merge out of a level of one run (specification of the models, 1.3). It is part of
/// the target because it matters more than the geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// One table at a time, the one that overlaps least with the level below. The level stays full.
    OneTable,
    /// All of a level, in slices of the key range, once it is over its capacity; then the level
    /// fills again. This halves the merging into the next level, which is half full on average.
    /// Slices pass through a level that they would fill.
    PartitionedFull,
    /// The whole level at once (the first seed's merge).
    WholeLevel,
}

/// The bytes that a level may hold. Larger ones come later in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Capacity {
    /// The tree does not use the level. Data that an earlier design left there goes down.
    Unused,
    /// The level is full at this many bytes, at least 1.
    Bytes(u64),
    /// The last level takes everything. So does a level that is full by its runs.
    Unlimited,
}

/// The role of a level: the runs that it holds and their way down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Level 0. Each flush adds a run. A merge takes all runs down together.
    Flushed { runs_max: u32 },
    /// One run. Merges into the level rewrite what they overlap.
    Leveled { cut: Cut },
    /// Two or more runs. A merge into the level appends one without reading the others. All runs of
    /// the level become one run of the next.
    Runs { runs_max: u32 },
    /// Key ranges (groups) of several runs each. A merge takes the oldest runs of one group, about
    /// half of the group's share of the capacity. They become a new run in each group below that
    /// they overlap. The groups take turns, each when it is between half full and full, or has too
    /// many runs \[LSM-trie\].
    Nodes { ranges: u32, runs_max: u32 },
}

/// The target of one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LevelTarget {
    pub(crate) capacity: Capacity,
    role: Role,
}

impl LevelTarget {
    /// The target of level 0, whose `runs_max` flushed runs are merged down together.
    pub(crate) fn flushed(runs_max: u32) -> LevelTarget {
        LevelTarget {
            capacity: Capacity::Unlimited,
            role: Role::Flushed {
                runs_max: runs_max.max(1),
            },
        }
    }

    /// The target of a level of one run.
    pub(crate) fn leveled(capacity: Capacity, cut: Cut) -> LevelTarget {
        let role = Role::Leveled { cut };
        LevelTarget { capacity, role }
    }

    /// The target of a level of `runs_max` runs. The cut counts if that is one run.
    pub(crate) fn runs(capacity: Capacity, runs_max: u32, cut: Cut) -> LevelTarget {
        match runs_max {
            0 | 1 => LevelTarget::leveled(capacity, cut),
            _ => LevelTarget {
                capacity,
                role: Role::Runs { runs_max },
            },
        }
    }

    /// The target of a level of `ranges` nodes of `runs_max` runs each, two or more.
    pub(crate) fn nodes(capacity: Capacity, ranges: u32, runs_max: u32) -> LevelTarget {
        let role = Role::Nodes { ranges, runs_max };
        LevelTarget { capacity, role }
    }

    pub(crate) fn is_in_use(&self) -> bool {
        self.capacity != Capacity::Unused
    }

    /// The bytes at which the level is full: 0 for a level that is not in use, `None` for one that
    /// takes everything.
    pub(crate) fn capacity_bytes(&self) -> Option<u64> {
        match self.capacity {
            Capacity::Unused => Some(0),
            Capacity::Bytes(bytes) => Some(bytes),
            Capacity::Unlimited => None,
        }
    }

    /// True if a level that holds these bytes is over its capacity.
    pub(crate) fn is_exceeded_by(&self, bytes: u64) -> bool {
        self.capacity_bytes().is_some_and(|most| bytes > most)
    }

    /// The capacity of one group.
    pub(crate) fn share_bytes(&self) -> Option<u64> {
        let bytes = self.capacity_bytes()?;
        Some(bytes / u64::from(self.ranges().max(1)))
    }

    /// The number of key ranges (groups) of the level.
    pub(crate) fn ranges(&self) -> u32 {
        match self.role {
            Role::Nodes { ranges, .. } => ranges,
            Role::Flushed { .. } | Role::Leveled { .. } | Role::Runs { .. } => 1,
        }
    }

    /// The most sorted runs of a group.
    pub(crate) fn runs_max(&self) -> u32 {
        match self.role {
            Role::Leveled { .. } => 1,
            Role::Flushed { runs_max } | Role::Runs { runs_max } | Role::Nodes { runs_max, .. } => {
                runs_max
            }
        }
    }

    /// The most sorted runs of a group; `None` if it may have only one.
    pub(crate) fn several_runs(&self) -> Option<u32> {
        Some(self.runs_max()).filter(|runs| *runs > 1)
    }

    pub(crate) fn takes_several_runs(&self) -> bool {
        self.several_runs().is_some()
    }

    /// The number of runs of a group that makes a merge due.
    pub(crate) fn runs_due(&self) -> u32 {
        match self.role {
            Role::Flushed { runs_max } => runs_max,
            _ => self.runs_max().max(2),
        }
    }

    /// True if the level is full by its runs, whatever they hold.
    pub(crate) fn is_full_by_runs(&self) -> bool {
        self.takes_several_runs() && self.capacity == Capacity::Unlimited
    }

    /// True if the level is one run, which merges into the level rewrite.
    pub(crate) fn is_leveled(&self) -> bool {
        matches!(self.role, Role::Leveled { .. })
    }

    /// True if the groups of the level go down one by one, oldest runs first.
    pub(crate) fn is_of_nodes(&self) -> bool {
        matches!(self.role, Role::Nodes { .. })
    }

    /// The cut of merges out of the level; `None` for a level whose runs go down together.
    pub(crate) fn cut(&self) -> Option<Cut> {
        match self.role {
            Role::Leveled { cut } => Some(cut),
            Role::Flushed { .. } | Role::Runs { .. } | Role::Nodes { .. } => None,
        }
    }

    /// True if the only run of the level goes down table by table. The level stays full.
    pub(crate) fn goes_down_by_table(&self) -> bool {
        self.cut() == Some(Cut::OneTable)
    }

    /// True if the only run of the level goes down in slices, once it is full.
    pub(crate) fn goes_down_in_slices(&self) -> bool {
        self.cut() == Some(Cut::PartitionedFull)
    }

    /// True if the only run of the level goes down in one merge.
    pub(crate) fn goes_down_whole(&self) -> bool {
        match self.role {
            Role::Flushed { runs_max } => runs_max == 1,
            Role::Leveled { cut } => cut == Cut::WholeLevel,
            Role::Runs { .. } | Role::Nodes { .. } => false,
        }
    }
}
