//! The cheapest tree within a memory budget.
//!
//! For given capacities, the cost of a tree and its memory are sums over levels. So at a price of
//! memory (µs per operation for a byte) each level alone chooses its cheapest option, filter bits
//! included. Bits are worth buying until avoiding a false positive costs more than it saves, `p =
//! price * slope * entries / (8 * exposure)`. Bisection finds the price at which all choices fit
//! the budget, which is exact on the convex hull of the possible trees. The memory left over caches
//! data where a byte saves most. Geometries are enumerated: some 200, in milliseconds.

use super::advice::{Advice, Constraints, is_worn};
use super::capacities::Capacities;
use super::cost::{Level, Share};
use super::device::Device;
use super::prediction::{TreeModel, space};
use super::whole_designs::whole_designs;
use super::workload::Workload;
use crate::base::error::{Error, Result};
use crate::base::options::{FALSE_POSITIVES_MIN, Index};

const LEVELS_MAX: usize = 12;

/// The best tree of each geometry and number of levels, the cheapest first; empty if none meets the
/// constraints. Takes some ten milliseconds.
///
/// # Errors
///
/// [`crate::base::error::ErrorKind::InvalidArgument`] if a number of the workload is out of bounds.
pub fn advise(
    workload: &Workload,
    device: &Device,
    constraints: &Constraints,
) -> Result<Vec<Advice>> {
    workload.check()?;
    if constraints.memory_bytes.is_nan() || constraints.memory_bytes < 1.0 {
        return Err(Error::invalid(format!(
            "expected a memory budget of at least a byte, found {}",
            constraints.memory_bytes
        )));
    }
    let mut found: Vec<Advice> = candidates(workload, constraints)
        .filter_map(|capacities| solve(capacities, workload, device, constraints))
        .collect();
    found.extend(whole_designs(workload, device, constraints)?);
    found.sort_by(|a, b| a.prediction.cost_us.total_cmp(&b.prediction.cost_us));
    let mut best: Vec<Advice> = Vec::new();
    for advice in found {
        if !best.iter().any(|better| is_alike(better, &advice)) {
            best.push(advice);
        }
    }
    Ok(best)
}

fn is_alike(a: &Advice, b: &Advice) -> bool {
    let kind = |advice: &Advice| std::mem::discriminant(&advice.capacities.geometry);
    kind(a) == kind(b) && a.tree.levels.len() == b.tree.levels.len()
}

fn candidates<'c>(
    workload: &'c Workload,
    constraints: &'c Constraints,
) -> impl Iterator<Item = Capacities> + 'c {
    let memtable = constraints.memtable() / workload.entry_bytes();
    let level0 = constraints.level0_runs.iter();
    let sizes = level0.flat_map(|runs| (1..=LEVELS_MAX).map(|levels| (f64::from(*runs), levels)));
    sizes.flat_map(move |(level0_runs, levels)| {
        let geometries = constraints.geometries.iter();
        let sensible = geometries.filter(move |it| it.is_sensible(levels, level0_runs));
        let solved = sensible.filter_map(move |geometry| {
            Capacities::solve(*geometry, levels, level0_runs, workload.entries, memtable)
        });
        solved.filter(|it| it.steps().iter().all(|step| *step >= constraints.step_min))
    })
}

/// An option for a level, and its part of cost and memory: `fixed_us + exposure_us p` µs and
/// `fixed_bytes + slope_bytes ln(1/p)` bytes.
struct Choice {
    level: Level,
    fixed_us: f64,
    exposure_us: f64,
    fixed_bytes: f64,
    slope_bytes: f64,
}

/// The inputs of the search that all levels share.
struct Search<'s> {
    capacities: &'s Capacities,
    workload: &'s Workload,
    device: &'s Device,
    constraints: &'s Constraints,
}

fn solve(
    capacities: Capacities,
    workload: &Workload,
    device: &Device,
    constraints: &Constraints,
) -> Option<Advice> {
    let search = Search {
        capacities: &capacities,
        workload,
        device,
        constraints,
    };
    let shares = Share::of(&capacities.entries);
    let mut levels: Vec<Vec<Choice>> = (0..shares.len())
        .map(|i| search.choices(i, shares[i]))
        .collect();
    search.keep_space(levels.last_mut()?);
    let memtables_bytes = 2.0 * constraints.memtable();
    let budget = constraints.memory_bytes - memtables_bytes;
    let mut tree = TreeModel {
        level0_runs: capacities.level0_runs,
        levels: within(&levels, budget)?,
        memtables_bytes,
    };
    tree.fill_memory(workload, device, constraints.memory_bytes);
    let prediction = tree.predict(workload, device);
    (!is_worn(&prediction, workload, constraints)).then_some(Advice {
        tree,
        prediction,
        capacities,
        whole: None,
    })
}

/// The levels at the lowest price of memory at which they fit the budget.
fn within(levels: &[Vec<Choice>], budget: f64) -> Option<Vec<Level>> {
    const PRICES: (f64, f64) = (1e-16, 1e3);
    const STEPS: usize = 34;
    let fits = |price: f64| -> Option<Vec<Level>> {
        let best: Option<Vec<_>> = levels.iter().map(|choices| best(choices, price)).collect();
        let best = best?;
        let bytes: f64 = best.iter().map(|(_, bytes)| bytes).sum();
        (bytes <= budget).then(|| best.into_iter().map(|(level, _)| level).collect())
    };
    let mut found = fits(PRICES.1)?;
    let (mut low, mut high) = PRICES;
    for _ in 0..STEPS {
        let price = (low * high).sqrt();
        match fits(price) {
            Some(levels) => (found, high) = (levels, price),
            None => low = price,
        }
    }
    Some(found)
}

/// The cheapest choice at this price of memory, with its bytes.
fn best(choices: &[Choice], price: f64) -> Option<(Level, f64)> {
    let priced = choices.iter().map(|choice| {
        let (p, bytes) = choice.at(price);
        let cost = choice.fixed_us + choice.exposure_us * p + price * bytes;
        (cost, p, bytes, choice)
    });
    let (_, p, bytes, choice) = priced.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let level = Level {
        false_positives: p,
        ..choice.level
    };
    Some((level, bytes))
}

impl Choice {
    /// The best false-positive rate at this price of memory, and its bytes.
    fn at(&self, price: f64) -> (f64, f64) {
        if self.slope_bytes <= 0.0 {
            return (1.0, self.fixed_bytes);
        }
        let p = if self.exposure_us > 0.0 {
            (price * self.slope_bytes / self.exposure_us).clamp(FALSE_POSITIVES_MIN, 1.0)
        } else {
            1.0
        };
        (p, self.fixed_bytes - self.slope_bytes * p.ln())
    }
}

impl Search<'_> {
    /// All options for level `i`.
    fn choices(&self, i: usize, share: Share) -> Vec<Choice> {
        let mut choices = Vec::new();
        let steps = self.capacities.steps();
        let runs = run_counts(steps[i], self.constraints.fluid).into_iter();
        for runs in runs.filter(|it| *it <= self.constraints.runs_max) {
            for &filter in &self.constraints.filters {
                for &index in &self.constraints.indexes {
                    if filter.is_over_runs() && runs == 1 {
                        continue;
                    }
                    let level = |cached| Level {
                        entries: self.capacities.entries[i],
                        runs,
                        writes: self.constraints.merges.writes(steps[i], runs),
                        versions: f64::from(runs),
                        filter,
                        false_positives: 1.0,
                        index,
                        cached,
                    };
                    choices.push(self.choice(share, level(0.0)));
                    if filter.is_none() && index == Index::Fence {
                        choices.push(self.choice(share, level(1.0)));
                    }
                }
            }
        }
        choices
    }

    fn choice(&self, share: Share, level: Level) -> Choice {
        let cost = |false_positives| {
            let level = Level {
                false_positives,
                ..level
            };
            self.cost(share, &level)
        };
        let (never, always) = (cost(0.0), cost(1.0));
        let (slope, _) = level.filter.bits(level.runs);
        let fixed_bytes = level.memory_bytes(self.workload, self.device);
        let filtered = !level.filter.is_none();
        Choice {
            level,
            fixed_us: if filtered { never } else { always },
            exposure_us: if filtered { always - never } else { 0.0 },
            fixed_bytes,
            slope_bytes: slope * level.entries / 8.0,
        }
    }

    fn cost(&self, share: Share, level: &Level) -> f64 {
        let costs = level.costs(self.workload, self.device);
        share.weigh(self.workload, &costs)
    }

    /// Removes the choices for the last level that take too much space.
    fn keep_space(&self, last: &mut Vec<Choice>) {
        let above = &self.capacities.entries[..self.capacities.entries.len() - 1];
        last.retain(|choice| {
            let mut levels: Vec<Level> = above
                .iter()
                .map(|entries| Level {
                    entries: *entries,
                    ..choice.level
                })
                .collect();
            levels.push(choice.level);
            space(&levels, self.workload) <= self.constraints.space_max + 1e-9
        });
    }
}

/// One run, or as many as arrive; for a fluid level also the powers of 2 in between.
fn run_counts(arrivals: f64, fluid: bool) -> Vec<u32> {
    let all = arrivals.round().max(1.0) as u32;
    let powers = (1..31).map(|bit| 1 << bit);
    let mut counts = vec![1];
    if fluid {
        counts.extend(powers.take_while(|runs| f64::from(*runs) < arrivals * 0.75));
    }
    if all > counts[counts.len() - 1] {
        counts.push(all);
    }
    counts
}
