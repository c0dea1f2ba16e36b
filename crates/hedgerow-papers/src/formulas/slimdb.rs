//! SlimDB's model of section 4: each level has one of the eight designs of its Table 1, and the
//! cheapest mix within a memory budget is sought.
//!
//! Costs are in random reads of 4 KiB. Two readings of the paper are corrected. Stepped merge
//! without filters (row 4) writes every entry once per level, like the rows below it. The sums run
//! over `levels` levels, from 0 to `levels - 1`, as Figure 9's half a billion entries in the last
//! one show.

/// The tree and the device of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlimDb {
    /// Levels.
    pub levels: usize,
    /// The ratio of neighbouring levels, and the runs of a stepped-merge level.
    pub growth: f64,
    /// Entries of the first level.
    pub first_entries: f64,
    /// Bytes of an entry.
    pub entry_bytes: f64,
    /// The time to write 4 KiB sequentially over the time to read 4 KiB at random.
    pub write_ratio: f64,
    /// The false-positive rate of a level's filter.
    pub false_positives: f64,
}

/// A row of Table 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlimDbDesign {
    /// The name in the paper, with its cuckoo filter spelled out.
    pub name: &'static str,
    /// Bits of memory per entry.
    pub bits: f64,
    /// Reads of a get that finds its key in the level.
    pub hit: f64,
    /// Reads of a get that does not find it there.
    pub miss: f64,
    /// The cost of writing an entry, in reads.
    pub write: f64,
}

/// A workload of Figure 9.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SlimDbMix {
    /// The name in the paper.
    pub name: &'static str,
    /// The fraction of gets that find their key.
    pub hits: f64,
    /// The fraction of gets that do not find it.
    pub misses: f64,
    /// The fraction of writes.
    pub writes: f64,
}

/// A design for each level.
#[derive(Debug, Clone, PartialEq)]
pub struct SlimDbLayout {
    /// Bytes of memory.
    pub bytes: f64,
    /// The cost of an average operation, in reads.
    pub cost: f64,
    /// Rows of Table 1, from the first level down.
    pub designs: Vec<usize>,
}

impl SlimDbMix {
    /// The four workloads of Figure 9. The paper gives the first; the others are inferred.
    pub const ALL: [SlimDbMix; 4] = [
        SlimDbMix::of("creation", 0.0, 0.5, 0.5),
        SlimDbMix::of("update", 0.5, 0.0, 0.5),
        SlimDbMix::of("stat", 1.0, 0.0, 0.0),
        SlimDbMix::of("mix", 0.5, 0.25, 0.25),
    ];

    const fn of(name: &'static str, hits: f64, misses: f64, writes: f64) -> SlimDbMix {
        SlimDbMix {
            name,
            hits,
            misses,
            writes,
        }
    }
}

/// The paper's block.
const BLOCK_BYTES: f64 = 4096.0;

impl SlimDb {
    /// The paper's numbers: 614 million entries of 272 bytes in 5 levels that grow by 8, on an SSD
    /// of 2013.
    pub fn paper() -> SlimDb {
        SlimDb {
            levels: 5,
            growth: 8.0,
            first_entries: f64::from(1 << 17),
            entry_bytes: 272.0,
            write_ratio: 0.146,
            false_positives: 0.002,
        }
    }

    /// The rows of Table 1.
    pub fn designs(&self) -> [SlimDbDesign; 8] {
        let (r, f) = (self.growth, self.false_positives);
        let stepped = self.write_ratio * self.entry_bytes / BLOCK_BYTES;
        let leveled = r * stepped;
        let row = |name, bits, hit, miss, write| SlimDbDesign {
            name,
            bits,
            hit,
            miss,
            write,
        };
        [
            row("LSM", 0.0, 2.0, 2.0, leveled),
            row("LSM+Cuckoo", 13.0, 2.0, 2.0 * f, leveled),
            row("LSM+Cuckoo+TL", 15.0, 1.0, f, leveled),
            row("LSM+TL", 2.0, 1.0, 1.0, leveled),
            row("SM", 0.0, r + 1.0, 2.0 * r, stepped),
            row("SM+MLCF", 15.0, 2.0, 2.0 * f, stepped),
            row("SM+MLCF+TL", 17.0, 1.0, f, stepped),
            row("SM+TL", 2.0, (r + 1.0) / 2.0, r, stepped),
        ]
    }

    /// Entries of each level.
    pub fn entries(&self) -> Vec<f64> {
        let size = |level: usize| self.first_entries * self.growth.powi(level as i32);
        (0..self.levels).map(size).collect()
    }

    /// The cost of one design at a level: its terms of S_PR, S_NR and S_W.
    fn cost(&self, level: usize, design: &SlimDbDesign, mix: &SlimDbMix) -> f64 {
        let entries = self.entries();
        let all: f64 = entries.iter().sum();
        let here = entries[level] / all;
        let below = entries[level + 1..].iter().sum::<f64>() / all;
        mix.hits * (here * design.hit + below * design.miss)
            + mix.misses * design.miss
            + mix.writes * (here + below) * design.write
    }

    /// All layouts that no other beats in both memory and cost, the smallest first. Exact: levels
    /// are added one by one, and a layout beaten in part is beaten as a whole.
    pub fn frontier(&self, mix: &SlimDbMix) -> Vec<SlimDbLayout> {
        let designs = self.designs();
        let none = SlimDbLayout {
            bytes: 0.0,
            cost: 0.0,
            designs: Vec::new(),
        };
        let entries = self.entries();
        (0..self.levels).fold(vec![none], |layouts, level| {
            let with = |layout: &SlimDbLayout, index: usize| SlimDbLayout {
                bytes: layout.bytes + entries[level] * designs[index].bits / 8.0,
                cost: layout.cost + self.cost(level, &designs[index], mix),
                designs: [&layout.designs[..], &[index]].concat(),
            };
            let all = layouts
                .iter()
                .flat_map(|it| (0..8).map(move |i| with(it, i)));
            unbeaten(all.collect())
        })
    }

    /// The cheapest layout within `bytes` of memory. There always is one, because two designs need
    /// none.
    pub fn best(&self, mix: &SlimDbMix, bytes: f64) -> Option<SlimDbLayout> {
        let frontier = self.frontier(mix);
        frontier.into_iter().rfind(|layout| layout.bytes <= bytes)
    }
}

fn unbeaten(mut layouts: Vec<SlimDbLayout>) -> Vec<SlimDbLayout> {
    layouts.sort_by(|a, b| a.bytes.total_cmp(&b.bytes).then(a.cost.total_cmp(&b.cost)));
    let mut best = f64::INFINITY;
    layouts.retain(|layout| {
        let better = layout.cost < best - 1e-12;
        if better {
            best = layout.cost;
        }
        better
    });
    layouts
}
