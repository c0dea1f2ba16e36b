//! The experiments of Zhao, Wu, Kong, Zhang, "Autumn: A Scalable Read Optimized LSM-tree based
//! Key-Value Store with Fast Point and Range Read Speed", and one of our own on the advisor's model.
//!
//! At scale 1 sizes are the paper's, as far as it tells them, else those of its code: ratio 2 with
//! memtables of 4 MiB, tables of 2 MiB for the small benches, ratio 5 with 64 MiB for YCSB. Memory
//! shrinks with the data, down to a floor, so trees keep their shape.

use hedgerow::advisor::{Constraints, Device, advise};
use hedgerow::io::ReadMode;
use hedgerow::{Compression, Design};

use crate::experiments::{Engine, Experiment, Step, Trial, model, unknown};
use crate::records::RecordShape;
use crate::store::{OpenOptions, Result};
use crate::workload::{Part, Settings, Workload};

/// How large the experiments are.
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    /// Of data and memory; 1 is the size that the module says.
    pub scale: f64,
    /// Operations per step that reads, instead of what the scale says.
    pub reads: Option<u64>,
    /// What keys and choices are derived from.
    pub seed: u64,
    /// How ours reads its tables. The paper's reads are direct, and the model's are of the device.
    pub read_mode: ReadMode,
}

const MIB: u64 = 1 << 20;
/// The least that memory shrinks to, for all and for a memtable or table.
const BUDGET_BYTES_MIN: u64 = 4 * MIB;
const TABLE_BYTES_MIN: u64 = 64 << 10;

impl Size {
    /// An experiment by its number.
    ///
    /// # Errors
    /// A number or a scale that is none; what the advisor says when asked for its choice.
    pub fn experiment(&self, number: u8, device: &Device) -> Result<Experiment> {
        self.check()?;
        let (title, trials) = match number {
            1 => ("Figure 2: leveling and garnering", self.figure_2()?),
            2 => ("Figure 3: sensitivity to c and T", self.figure_3()?),
            3 => ("Figure 4 and table 3: YCSB", self.figure_4()?),
            4 => (
                "Figure 5: growing data and few filter bits",
                self.figure_5()?,
            ),
            5 => ("The model's truth", self.truth(device)?),
            _ => return unknown(number),
        };
        Ok(Experiment {
            number,
            title: format!("Autumn {number}. {title}"),
            trials,
        })
    }

    /// # Errors
    /// A scale that is none.
    pub(super) fn check(&self) -> Result<()> {
        if self.scale > 0.0 && self.scale <= 1000.0 {
            return Ok(());
        }
        Err(format!("expected a scale of up to 1000, found {}", self.scale).into())
    }

    fn figure_2(&self) -> Result<Vec<Trial>> {
        let designs = [
            "leveling:2",
            "garnering:2,0.8",
            "garnering:2,0.4",
            "garnering-paper:2,0.8",
            "garnering-paper:2,0.4",
            "leveling:5",
            "leveling:10",
        ];
        let mut trials = Vec::new();
        for value_bytes in [50, 100, 200] {
            let case = format!("values of {value_bytes} bytes");
            let reads = self.reads(1_000_000);
            let mut steps = vec![
                Step::new(Workload::FillSeq, 1),
                Step::new(Workload::FillRandom, 1),
                Step::new(Workload::ReadRandom, reads),
            ];
            steps.extend([0, 10, 100].map(|nexts| Step::seek(nexts, reads)));
            let small = self.small(2_000_000, value_bytes, steps)?;
            for design in designs {
                trials.push(small.of(&case, design, "none")?);
            }
            let its_settings = format!(
                "write_buffer_size={};target_file_size_base={};max_bytes_for_level_base={};\
                 max_bytes_for_level_multiplier=2;level_compaction_dynamic_level_bytes=false;num_levels=20;\
                 use_direct_reads=true;use_direct_io_for_flush_and_compaction=true;\
                 block_based_table_factory={{no_block_cache=true;filter_policy=nullptr;format_version=5}}",
                self.bytes(4 * MIB, TABLE_BYTES_MIN),
                self.bytes(2 * MIB, TABLE_BYTES_MIN),
                self.bytes(10 * MIB, 4 * TABLE_BYTES_MIN),
            );
            trials.push(small.peer(&case, "rocksdb", "paper's settings", &its_settings));
            trials.push(small.peer(&case, "rocksdb", "as ours", &self.as_ours()));
        }
        Ok(trials)
    }

    fn figure_3(&self) -> Result<Vec<Trial>> {
        let reads = self.reads(1_000_000);
        let steps = vec![
            Step::new(Workload::FillRandom, 1),
            Step::new(Workload::ReadRandom, reads),
            Step::seek(0, reads),
            Step::seek(10, reads),
        ];
        let small = self.small(2_000_000, 100, steps)?;
        let mut trials = Vec::new();
        for ratio in [3, 5] {
            for scaling in ["0.4", "0.6", "0.8", "1"] {
                let design = format!("garnering:{ratio},{scaling}");
                trials.push(small.of(&format!("T = {ratio}"), &design, "none")?);
            }
        }
        for ratio in [2, 4, 8, 16] {
            trials.push(small.of("c = 0.8", &format!("garnering:{ratio},0.8"), "none")?);
        }
        Ok(trials)
    }

    /// 20 GB of records; ratio 5, a base of four memtables of 64 MiB; gets with 10 filter bits.
    fn figure_4(&self) -> Result<Vec<Trial>> {
        let num = self.count(20_000_000);
        let ops = self.reads(1_000_000);
        let workloads = [
            Workload::YcsbLoad,
            Workload::YcsbA,
            Workload::YcsbB,
            Workload::YcsbC,
            Workload::YcsbF,
            Workload::YcsbD,
            Workload::YcsbE,
        ];
        let steps = workloads.map(|workload| Step::new(workload, ops)).to_vec();
        let mut ycsb = self.base(num, 23, 1000, steps, (1024 * MIB, 64 * MIB, 64 * MIB))?;
        ycsb.0.settings.threads = 2;
        ycsb.0.options.threads = 2;
        let mut trials = Vec::new();
        for design in [
            "leveling:5",
            "garnering:5,0.8",
            "garnering:5,0.4",
            "leveling:10",
        ] {
            trials.push(ycsb.of("", design, "bloom:10")?);
        }
        trials.push(ycsb.of("", "leveling:10", "monkey")?);
        trials.push(ycsb.of("", "garnering:5,0.8", "monkey")?);
        ycsb.0.options.design.filter = "bloom:10".parse()?;
        trials.push(ycsb.peer("", "rocksdb", "as ours", ""));
        trials.push(ycsb.peer("", "leveldb", "as ours", ""));
        Ok(trials)
    }

    fn figure_5(&self) -> Result<Vec<Trial>> {
        let mut trials = Vec::new();
        for doublings in 0..4 {
            let num = self.count(2_000_000 << doublings);
            let reads = self.reads(1_000_000);
            let steps = vec![
                Step::new(Workload::FillRandom, 1),
                Step::new(Workload::ReadRandom, reads),
                Step::new(Workload::ReadMissing, reads),
                Step::seek(10, reads),
            ];
            let mut small = self.small(2_000_000 << doublings, 100, steps)?;
            let case = format!("{num} keys");
            for filter in ["none", "bloom:2", "monkey:2"] {
                for policy in ["leveling:2", "garnering:2,0.8", "leveling:10"] {
                    trials.push(small.of(&case, policy, filter)?);
                }
            }
            for filter in ["none", "bloom:2"] {
                small.0.options.design.filter = filter.parse()?;
                trials.push(small.peer(&case, "leveldb", filter, ""));
            }
        }
        Ok(trials)
    }

    /// 24 designs under five mixes, and for each mix the one that the advisor chooses.
    fn truth(&self, device: &Device) -> Result<Vec<Trial>> {
        let policies = [
            "leveling:3",
            "leveling:5",
            "leveling:10",
            "garnering:3,0.8",
            "garnering:5,0.8",
            "garnering:8,0.9",
            "tiering:4",
            "tiering:8",
            "lazy-leveling:4",
            "lazy-leveling:8",
            "front-loaded:6",
            "bush:4",
        ];
        let mixes = [
            ("hits", "get=0.9,put=0.1"),
            ("misses", "miss=0.9,put=0.1"),
            ("scans", "scan=0.9,put=0.1"),
            ("puts", "put=0.9,get=0.1"),
            ("all", "get=1,miss=1,scan=1,put=1"),
        ];
        let ops = self.reads(1_000_000);
        let mut steps = vec![Step::new(Workload::FillRandom, 1)];
        for (name, mix) in mixes {
            steps.push(Step::mixed(name, mix.parse()?, ops));
        }
        let mut base = self.base(
            self.count(8_000_000),
            16,
            100,
            steps,
            (256 * MIB, 8 * MIB, 8 * MIB),
        )?;
        let mut trials = Vec::new();
        for policy in policies {
            for filter in ["bloom:4", "monkey:10"] {
                trials.push(base.of("", policy, filter)?);
            }
        }
        let fill = base.0.steps.remove(0);
        for step in std::mem::take(&mut base.0.steps) {
            let chosen = choose(&base.0, &step, device)?;
            let mut trial = base.of("", "leveling:10", "none")?;
            trial.design = summary_name(&step.name);
            trial.options.design = chosen;
            trial.steps = vec![fill.clone(), step];
            trials.push(trial);
        }
        Ok(trials)
    }

    /// The paper's small benches: memtables of 4 MiB and tables of 2 MiB, no compression, and a
    /// budget that leaves most blocks outside of the cache.
    fn small(&self, num: u64, value_bytes: usize, steps: Vec<Step>) -> Result<Base> {
        let num = self.count(num);
        self.base(num, 16, value_bytes, steps, (64 * MIB, 4 * MIB, 2 * MIB))
    }

    /// What trials of an experiment share; `bytes` are those of the budget, of memtables and tables.
    pub(super) fn base(
        &self,
        num: u64,
        key_bytes: usize,
        value_bytes: usize,
        steps: Vec<Step>,
        bytes: (u64, u64, u64),
    ) -> Result<Base> {
        let settings = Settings {
            records: RecordShape {
                num,
                key_bytes,
                value_bytes,
                group_size: 1,
                seed: self.seed,
            },
            reads: None,
            part: Part::WHOLE,
            threads: 1,
            batch_size: None,
            window: None,
            seek_nexts: 10,
            mix: Settings::MIX_EVEN,
        };
        let options = OpenOptions {
            memory_budget: self.bytes(bytes.0, BUDGET_BYTES_MIN),
            design: Design {
                compression: Compression::None,
                filter: "none".parse()?,
                memtable_bytes: Some(self.bytes(bytes.1, TABLE_BYTES_MIN)),
                table_bytes: Some(self.bytes(bytes.2, TABLE_BYTES_MIN)),
                ..Design::default()
            },
            read_mode: self.read_mode,
            ..OpenOptions::new("".as_ref(), &settings)
        };
        Ok(Base(Trial {
            design: String::new(),
            case: String::new(),
            engine: Engine {
                name: "hedgerow",
                options: String::new(),
            },
            options,
            settings,
            steps,
            processors: None,
        }))
    }

    /// RocksDB with the sizes that ours has, and its cache.
    fn as_ours(&self) -> String {
        format!(
            "write_buffer_size={};target_file_size_base={};max_bytes_for_level_base={}",
            self.bytes(4 * MIB, TABLE_BYTES_MIN),
            self.bytes(2 * MIB, TABLE_BYTES_MIN),
            self.bytes(16 * MIB, 4 * TABLE_BYTES_MIN),
        )
    }

    pub(super) fn count(&self, at_full_scale: u64) -> u64 {
        ((at_full_scale as f64 * self.scale) as u64).max(1000)
    }

    pub(super) fn reads(&self, at_full_scale: u64) -> u64 {
        self.reads.unwrap_or_else(|| self.count(at_full_scale))
    }

    fn bytes(&self, at_full_scale: u64, min: u64) -> u64 {
        ((at_full_scale as f64 * self.scale) as u64).max(min)
    }
}

/// The name in rows of the design that the advisor chose for a mix.
fn summary_name(mix: &str) -> String {
    format!("{}{mix}", super::summary::ADVISED)
}

fn choose(base: &Trial, step: &Step, device: &Device) -> Result<Design> {
    let workload = model::workload(base, step.mix, step.seek_nexts);
    let options = &base.options;
    let constraints = Constraints {
        memtable_bytes: options.design.memtable_bytes.map(|bytes| bytes as f64),
        ..Constraints::new(options.memory_budget)
    };
    let found = advise(&workload, device, &constraints)?;
    let best = found
        .first()
        .ok_or("expected a design that keeps to the budget, found none")?;
    Ok(Design {
        compression: Compression::None,
        memtable_bytes: options.design.memtable_bytes,
        table_bytes: options.design.table_bytes,
        ..best.design(device)
    })
}

/// A trial without its design.
pub(super) struct Base(pub(super) Trial);

impl Base {
    /// One of ours.
    pub(super) fn of(&self, case: &str, policy: &str, filter: &str) -> Result<Trial> {
        let mut trial = self.0.clone();
        trial.case = case.to_owned();
        trial.design = match filter {
            "none" => policy.to_owned(),
            filter => format!("{policy} {filter}"),
        };
        trial.options.design.policy = policy.parse()?;
        trial.options.design.filter = filter.parse()?;
        Ok(trial)
    }

    /// A peer with the sizes of memtables and tables that ours has.
    pub(super) fn peer_of_our_sizes(
        &self,
        case: &str,
        name: &'static str,
        filter: &str,
    ) -> Result<Trial> {
        let design = &self.0.options.design;
        let options = match (name, design.memtable_bytes, design.table_bytes) {
            ("rocksdb", Some(memtable), Some(table)) => {
                format!("write_buffer_size={memtable};target_file_size_base={table}")
            }
            _ => String::new(),
        };
        let mut trial = self.peer(case, name, "", &options);
        trial.design = name.to_owned();
        trial.options.design.filter = filter.parse()?;
        Ok(trial)
    }

    pub(super) fn peer(&self, case: &str, name: &'static str, how: &str, options: &str) -> Trial {
        Trial {
            case: case.to_owned(),
            design: format!("{name} {how}"),
            engine: Engine {
                name,
                options: options.to_owned(),
            },
            ..self.0.clone()
        }
    }
}
