//! Runs `testdata/merge_policy/*.txt`. A case is a command, its input lines, `----`, and the
//! expected output up to an empty line. `HEDGEROW_BLESS=1` rewrites the expected output.
//!
//! - `shape`: sets the tree.
//! - `targets policy=leveling:10 memtable=64M table=64M`: sets the policy; or
//!   `targets L0=*4 L1=40M L2=40M*3 L3=last cut=whole-level`: capacities and `*` runs.
//! - `retune policy=leveling:2`: like `targets`; first the tree gets the policy's depth.
//! - `plan [max=1G] [oldest=100]`: the next plan. `start`: lets it run. `finish N`: ends the N-th
//!   running job. `apply`: both at once. `settle`: plans and applies to the end.
//! - `manual a..m`: a manual compaction to the end. `place a..m`: where a bulk load goes.
//! - `debt`, `lookup KEY`, and `edit` with lines `remove 3`, `move 3 L2 r0`, `add L1 r0 #…`,
//!   `drain L1 9`, `depth 5`.

use std::fmt::Write;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::base::entry::PartitionId;
use crate::base::error::Result;
use crate::base::table_meta::TableMeta;
use crate::design::merge_policy;
use crate::design::merge_policy::text;
use crate::design::merge_policy::tree_edit::{Placement, TreeEdit};
use crate::design::merge_policy::{Capacity, Policy, Targets};

type Tree = Shape<Arc<TableMeta>>;

struct Runner {
    shape: Tree,
    policy: Option<Arc<dyn Policy>>,
    /// True if the tree is fitted to the depth of the policy.
    fits: bool,
    explicit: Vec<LevelTarget>,
    memtable_bytes: u64,
    table_bytes: u64,
    limits: PlanLimits,
    last: Option<Plan>,
    running: Vec<(Plan, RunningJob)>,
}

#[test]
fn testdata() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/merge_policy");
    let bless = std::env::var_os("HEDGEROW_BLESS").is_some();
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    for path in files {
        let before = std::fs::read_to_string(&path).unwrap();
        let after = run_file(&before);
        if bless {
            #[allow(clippy::disallowed_methods, reason = "a test rewrites its own data")]
            std::fs::write(&path, after).unwrap();
        } else if before != after {
            let differs = |(a, b): &(&str, &str)| a != b;
            let line = before
                .lines()
                .zip(after.lines())
                .position(|it| differs(&it));
            panic!(
                "{} differs from line {} on; found:\n{after}",
                path.display(),
                line.map_or(0, |line| line + 1)
            );
        }
    }
}

fn run_file(text: &str) -> String {
    let mut runner = Runner {
        shape: Shape::new(1),
        policy: None,
        fits: false,
        explicit: Vec::new(),
        memtable_bytes: 64 << 20,
        table_bytes: 64 << 20,
        limits: PlanLimits {
            merge_bytes_max: 1 << 30,
            oldest_snapshot: SeqNo::MAX,
        },
        last: None,
        running: Vec::new(),
    };
    let mut output = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let _ = writeln!(output, "{line}");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut input = Vec::new();
        for line in lines.by_ref().take_while(|line| *line != "----") {
            let _ = writeln!(output, "{line}");
            input.push(line);
        }
        lines
            .by_ref()
            .take_while(|line| !line.is_empty())
            .for_each(drop);
        let found = runner
            .run(line, &input)
            .unwrap_or_else(|error| format!("{error}\n"));
        let _ = writeln!(output, "----\n{found}");
    }
    while output.ends_with("\n\n") {
        output.pop();
    }
    output
}

impl Runner {
    fn run(&mut self, command: &str, input: &[&str]) -> Result<String> {
        let mut words = command.split_whitespace();
        let name = words.next().unwrap();
        let words: Vec<&str> = words.collect();
        match name {
            "shape" => {
                self.shape = text::parse_shape(&input.join("\n"))?;
                self.shape.check()?;
                self.running.clear();
                let bytes = text::print_bytes(self.shape.bytes());
                // The printed shape must read as the same shape.
                let printed = text::print_shape(&self.shape);
                assert_eq!(text::print_shape(&text::parse_shape(&printed)?), printed);
                Ok(format!("depth={} bytes={bytes}\n", self.shape.depth()))
            }
            "targets" | "retune" => {
                self.fits = name == "retune";
                self.set_targets(&words)
            }
            "plan" => {
                for word in &words {
                    match word.split_once('=') {
                        Some(("max", it)) => self.limits.merge_bytes_max = text::parse_bytes(it)?,
                        Some(("oldest", it)) => {
                            self.limits.oldest_snapshot = SeqNo(it.parse().unwrap());
                        }
                        _ => panic!("{command}"),
                    }
                }
                let Some((plan, urgency)) = self.plan() else {
                    self.last = None;
                    return Ok("none\n".into());
                };
                let line = format!("{}\nurgency {urgency:.2}\n", text::print_plan(&plan));
                self.last = Some(plan);
                Ok(line)
            }
            "start" => {
                let plan = self.last.take().expect("a plan before `start`");
                let job = RunningJob::of(&self.shape, &plan).expect("a job");
                let line = format!(
                    "running {} over {}..{}\n",
                    self.running.len(),
                    String::from_utf8_lossy(&job.lo),
                    String::from_utf8_lossy(&job.hi)
                );
                self.running.push((plan, job));
                Ok(line)
            }
            "finish" => {
                let (plan, _) = self.running.remove(words[0].parse().unwrap());
                self.install(&plan)?;
                Ok(text::print_shape(&self.shape))
            }
            "apply" => {
                let plan = self.last.take().expect("a plan before `apply`");
                self.install(&plan)?;
                Ok(text::print_shape(&self.shape))
            }
            "settle" => self.settle(),
            "manual" => self.manual(words[0]),
            "place" => self.place(words[0]),
            "debt" => {
                let debt = debt(&self.shape, &self.targets());
                Ok(format!(
                    "bytes={} level0={}/{} {} levels_over={}\n",
                    text::print_bytes(debt.bytes),
                    debt.level0_runs,
                    debt.level0_runs_max,
                    text::print_bytes(debt.level0_bytes),
                    debt.levels_over
                ))
            }
            "lookup" => {
                let key = text::parse_key(words[0])?;
                let runs = self.shape.levels.iter().flat_map(|level| level.runs());
                let found = runs.filter_map(|(_, run)| Some(&run.tables[run.place_for(&key)?]));
                let ids: Vec<_> = found.map(|table| format!("#{}", table.id.0)).collect();
                Ok(match ids.as_slice() {
                    [] => "none\n".into(),
                    ids => format!("{}\n", ids.join(" ")),
                })
            }
            "edit" => self.edit(input),
            _ => panic!("unknown command {command}"),
        }
    }

    fn targets(&self) -> Targets {
        match &self.policy {
            Some(policy) => {
                let summary = self.shape.summary(self.memtable_bytes, self.table_bytes);
                match self.fits {
                    true => fitted_targets(&**policy, summary),
                    false => policy.targets(&summary),
                }
            }
            None => self.explicit.clone().into(),
        }
    }

    fn set_targets(&mut self, words: &[&str]) -> Result<String> {
        let mut cut = Cut::OneTable;
        let mut explicit: Vec<(Capacity, u32)> = Vec::new();
        for word in words {
            let (name, value) = word.split_once('=').expect("name=value");
            match name {
                "policy" => {
                    self.policy = Some(merge_policy::policy(&value.parse()?));
                }
                "memtable" => self.memtable_bytes = text::parse_bytes(value)?,
                "table" => self.table_bytes = text::parse_bytes(value)?,
                "cut" => {
                    cut = match value {
                        "one-table" => Cut::OneTable,
                        "partitioned" => Cut::PartitionedFull,
                        "whole-level" => Cut::WholeLevel,
                        _ => panic!("{word}"),
                    }
                }
                _ => {
                    let (capacity, runs) = value.split_once('*').unwrap_or((value, "1"));
                    let capacity = match capacity {
                        "" | "last" => Capacity::Unlimited,
                        "0" => Capacity::Unused,
                        bytes => Capacity::Bytes(text::parse_bytes(bytes)?),
                    };
                    explicit.push((capacity, runs.parse().unwrap()));
                }
            }
        }
        if let [(_, level0_runs), below @ ..] = &explicit[..] {
            let below = below.iter();
            let below = below.map(|(capacity, runs)| LevelTarget::runs(*capacity, *runs, cut));
            let level0 = LevelTarget::flushed(*level0_runs);
            self.explicit = std::iter::once(level0).chain(below).collect();
            self.policy = None;
        }
        let mut line = String::new();
        for (level, target) in self.targets().iter().enumerate() {
            let runs = match target.runs_max() {
                1 => String::new(),
                runs => format!("*{runs}"),
            };
            let runs = match target.ranges() {
                1 => runs,
                ranges => format!("{runs}/{ranges}"),
            };
            let _ = match target.capacity {
                Capacity::Unused if self.shape.levels[level].is_empty() => continue,
                Capacity::Unused => write!(line, "L{level} drained, "),
                Capacity::Unlimited => write!(line, "L{level} any{runs}, "),
                Capacity::Bytes(bytes) => {
                    write!(line, "L{level} {}{runs}, ", text::print_bytes(bytes))
                }
            };
        }
        Ok(format!("{}\n", line.trim_end_matches(", ")))
    }

    fn plan(&self) -> Option<(Plan, f64)> {
        let running: Vec<RunningJob> = self.running.iter().map(|(_, job)| job.clone()).collect();
        let policy = self.policy.as_ref().filter(|_| self.fits);
        let shift =
            policy.and_then(|policy| fit_depth(&self.shape, &self.targets(), policy.depth()));
        if let Some(shift) = shift.filter(|_| running.is_empty()) {
            return Some((shift, f64::INFINITY));
        }
        plan(&self.shape, &self.targets(), &running, &self.limits)
    }

    fn settle(&mut self) -> Result<String> {
        let mut log = String::new();
        for _ in 0..200 {
            let Some((plan, _)) = self.plan() else {
                log.push_str(&text::print_shape(&self.shape));
                return Ok(log);
            };
            let _ = writeln!(log, "{}", text::print_plan(&plan));
            self.install(&plan)?;
        }
        panic!("no end of plans:\n{log}");
    }

    fn manual(&mut self, range: &str) -> Result<String> {
        let (lo, hi) = range.split_once("..").unwrap();
        let bound = |key: &str| match key {
            "" => Ok(Bound::Unbounded),
            key => text::parse_key(key).map(Bound::Included),
        };
        let through = self
            .shape
            .tables()
            .map(|(_, table)| table.id)
            .max()
            .unwrap();
        let mut manual = Manual::new(bound(lo)?, bound(hi)?, through);
        let mut log = String::new();
        loop {
            let running: Vec<_> = self.running.iter().map(|(_, job)| job.clone()).collect();
            match manual.next(&self.shape, &self.targets(), &running, &self.limits) {
                ManualStep::Run(plan) => {
                    let _ = writeln!(log, "{}", text::print_plan(&plan));
                    self.install(&plan)?;
                }
                ManualStep::Wait => {
                    log.push_str("wait\n");
                    return Ok(log);
                }
                ManualStep::Done => {
                    log.push_str(&text::print_shape(&self.shape));
                    return Ok(log);
                }
            }
        }
    }

    fn place(&self, range: &str) -> Result<String> {
        let (lo, hi) = range.split_once("..").unwrap();
        let table = text::parse_table(&format!("#1[{lo}-{hi}]@1M"))?;
        let running: Vec<_> = self.running.iter().map(|(_, job)| job.clone()).collect();
        let target = place(
            &self.shape,
            &self.targets(),
            &running,
            &self.limits,
            &[table],
        );
        let Some(target) = target else {
            return Ok("no room\n".into());
        };
        Ok(match target.run {
            Some(run) => format!("L{} r{}\n", target.level, run.0),
            None => format!("L{} new run\n", target.level),
        })
    }

    fn edit(&mut self, lines: &[&str]) -> Result<String> {
        let mut edit = TreeEdit::new(PartitionId(0));
        let place = |level: &str, run: &str| Placement {
            level: level[1..].parse().unwrap(),
            group: 0,
            run: RunId(run[1..].parse().unwrap()),
        };
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let id = |at: usize| TableId(words[at].parse().unwrap());
            match words[0] {
                "remove" => edit.removed.push(id(1)),
                "move" => edit.moved.push((id(1), place(words[2], words[3]))),
                "add" => {
                    let table = text::parse_table(words[3])?;
                    edit.added.push((place(words[1], words[2]), table));
                }
                "ranges" => edit
                    .ranges
                    .push((words[1][1..].parse().unwrap(), id(2).0 as u32)),
                "drain" => edit
                    .draining
                    .push((words[1][1..].parse().unwrap(), Some(RunId(id(2).0)))),
                "depth" => edit.depth = Some(words[1].parse().unwrap()),
                "shift" => edit.shift_to = Some(words[1].parse().unwrap()),
                _ => panic!("{line}"),
            }
        }
        let mut shape = self.shape.clone();
        shape.apply(&edit, |meta| Arc::new(meta.clone()))?;
        shape.check()?;
        self.shape = shape;
        Ok(text::print_shape(&self.shape))
    }

    /// Carries out a plan, with outputs of about the table size that are cut at keys of the inputs.
    /// No entry is shadowed. Tombstones go if nothing older overlaps.
    fn install(&mut self, plan: &Plan) -> Result<()> {
        let mut edit = plan.edit(PartitionId(0));
        let newest = self.shape.levels.iter().flat_map(|level| level.runs());
        let new_run = RunId(newest.map(|(_, run)| run.id.0 + 1).max().unwrap_or(0));
        match plan {
            Plan::Merge { inputs, target, .. } => {
                let ids = inputs.iter().flat_map(|input| input.tables.iter().copied());
                edit.removed = ids.collect();
                let outputs = self.outputs(&edit.removed, target);
                let run = target.run.unwrap_or(new_run);
                let place = |it: &TableMeta| self.shape.placement(target.level, run, it);
                edit.added = outputs.into_iter().map(|it| (place(&it), it)).collect();
            }
            Plan::Move { inputs, target, .. } => {
                let run = target.run.unwrap_or(new_run);
                let place = |id| {
                    let table = self.shape.table(id).unwrap().1;
                    self.shape.placement(target.level, run, table)
                };
                let ids = inputs.iter().flat_map(|input| &input.tables);
                edit.moved = ids.map(|id| (*id, place(*id))).collect();
            }
            Plan::Discard { .. }
            | Plan::Drain { .. }
            | Plan::SetDepth { .. }
            | Plan::SetRanges { .. }
            | Plan::Shift(_) => {}
        }
        self.shape.apply(&edit, |meta| Arc::new(meta.clone()))?;
        self.shape.check()
    }

    fn outputs(&self, ids: &[TableId], target: &Target) -> Vec<TableMeta> {
        let inputs = ids.iter().map(|id| self.shape.table(*id).unwrap().1);
        let mut inputs: Vec<&Arc<TableMeta>> = inputs.collect();
        inputs.sort_by(|a, b| a.smallest_key.cmp(&b.smallest_key));
        let total = |of: fn(&TableMeta) -> u64| {
            inputs
                .iter()
                .fold(0_u64, |sum, it| sum.saturating_add(of(it)))
        };
        let (mut bytes, mut entries) = (total(|it| it.file_bytes), total(|it| it.entries));
        let mut tombstones = total(|it| it.tombstones);
        let needed = inputs.iter().any(|it| {
            self.shape
                .older_may_hold(target.level, target.run, &it.smallest_key, |id| {
                    ids.contains(&id)
                })
        });
        if tombstones > 0 && !needed {
            bytes -= (u128::from(bytes) * u128::from(tombstones) / u128::from(entries)) as u64;
            entries -= tombstones;
            tombstones = 0;
        }
        if entries == 0 {
            return Vec::new();
        }
        let mut starts: Vec<&[u8]> = inputs.iter().map(|it| it.smallest_key.as_slice()).collect();
        starts.dedup();
        let wanted = (bytes / self.table_bytes.max(1)).clamp(1, starts.len() as u64) as usize;
        let starts: Vec<&[u8]> = (0..wanted)
            .map(|i| starts[i * starts.len() / wanted])
            .collect();
        let ranges = self.targets()[target.level].ranges();
        let ranges = ranges.max(self.shape.levels[target.level].ranges());
        let largest = inputs.iter().map(|it| &it.largest_key).max().unwrap();
        let borders = Shape::<Arc<TableMeta>>::with_ranges(&[ranges])
            .levels
            .remove(0)
            .groups;
        let is_inside = |key: &[u8]| key > starts[0] && key <= largest;
        let inside = borders.iter().map(|group| group.lower.as_slice());
        let (starts, wanted) = match ranges {
            1 => (starts, wanted),
            _ => {
                let inside = inside.filter(|key| is_inside(key));
                let cut: Vec<&[u8]> = starts[..1].iter().copied().chain(inside).collect();
                let count = cut.len();
                (cut, count)
            }
        };
        let next = self.shape.tables().map(|(_, it)| it.id.0).max().unwrap() + 1;
        let piece = |index: usize| {
            let end = starts.get(index + 1).map(|key| before(key));
            let begun = inputs.iter().filter(|it| {
                starts
                    .get(index + 1)
                    .is_none_or(|end| it.smallest_key.as_slice() < *end)
            });
            let largest = begun.map(|it| &it.largest_key).max().unwrap().clone();
            let share = |of: u64| of / wanted as u64;
            TableMeta {
                id: TableId(next + index as u64),
                smallest_key: starts[index].to_vec(),
                largest_key: end.map_or(largest.clone(), |end| largest.min(end)),
                file_bytes: share(bytes),
                entries: share(entries).max(1),
                tombstones: share(tombstones),
                smallest_seqno: inputs.iter().map(|it| it.smallest_seqno).min().unwrap(),
                largest_seqno: inputs.iter().map(|it| it.largest_seqno).max().unwrap(),
                ..TableMeta::clone(inputs[0])
            }
        };
        (0..wanted).map(piece).collect()
    }
}

/// A key shortly before this one: `m` for `n`.
fn before(key: &[u8]) -> Vec<u8> {
    let mut key = key.to_vec();
    *key.last_mut().unwrap() -= 1;
    key
}
