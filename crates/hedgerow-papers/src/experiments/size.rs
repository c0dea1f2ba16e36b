//! The size of experiments, and the common parts of their trials.

use hedgerow::io::ReadMode;
use hedgerow::{Compression, Design};
use hedgerow_bench::{OpenOptions, Part, RecordShape, Result, Settings};

use crate::experiments::{Engine, Step, Trial};

/// The size of the experiments.
#[derive(Debug, Clone, PartialEq)]
pub struct Size {
    /// The scale of data and memory; 1 is the size in the module's comment.
    pub scale: f64,
    /// The number of operations of each step that reads; `None` for the scale's.
    pub reads: Option<u64>,
    /// The seed of keys and choices.
    pub seed: u64,
    /// Hedgerow's way to read tables. The paper's reads are direct, and the model's are of the
    /// device.
    pub read_mode: ReadMode,
}

const MIB: u64 = 1 << 20;
/// The least memory, in all and of a memtable or table.
const BUDGET_BYTES_MIN: u64 = 4 * MIB;
pub(super) const TABLE_BYTES_MIN: u64 = 64 << 10;

impl Size {
    /// # Errors
    /// An invalid scale.
    pub(super) fn check(&self) -> Result<()> {
        if self.scale > 0.0 && self.scale <= 1000.0 {
            return Ok(());
        }
        Err(format!("expected a scale of up to 1000, found {}", self.scale).into())
    }

    /// The common part of an experiment's trials; `bytes` are the budget, the memtables and the
    /// tables.
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

    pub(super) fn count(&self, at_full_scale: u64) -> u64 {
        ((at_full_scale as f64 * self.scale) as u64).max(1000)
    }

    pub(super) fn reads(&self, at_full_scale: u64) -> u64 {
        self.reads.unwrap_or_else(|| self.count(at_full_scale))
    }

    pub(super) fn bytes(&self, at_full_scale: u64, min: u64) -> u64 {
        ((at_full_scale as f64 * self.scale) as u64).max(min)
    }
}

/// RocksDB's own tiering, to compare with our tiered designs.
pub(super) const UNIVERSAL: &str = "rocksdb universal";

/// The engine of a peer's design, and its own options.
fn peer_of(design: &str) -> (&'static str, &'static str) {
    match design {
        UNIVERSAL => ("rocksdb", "compaction_style=kCompactionStyleUniversal"),
        "rocksdb" => ("rocksdb", ""),
        _ => ("leveldb", ""),
    }
}

/// A trial without its design.
pub(super) struct Base(pub(super) Trial);

impl Base {
    /// A trial of Hedgerow.
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

    /// A trial of a peer, by the name of its design: `rocksdb`, [`UNIVERSAL`], `leveldb`.
    pub(super) fn peer_by_design(&self, case: &str, design: &str, filter: &str) -> Result<Trial> {
        let (name, options) = peer_of(design);
        let mut trial = self.peer(case, name, "", options);
        trial.design = design.to_owned();
        trial.options.design.filter = filter.parse()?;
        Ok(trial)
    }

    /// Like [`Base::peer_by_design`], with our sizes of memtables and tables.
    pub(super) fn peer_of_our_sizes(
        &self,
        case: &str,
        design: &str,
        filter: &str,
    ) -> Result<Trial> {
        let mut trial = self.peer_by_design(case, design, filter)?;
        let sizes = &self.0.options.design;
        if let ("rocksdb", Some(memtable), Some(table)) =
            (trial.engine.name, sizes.memtable_bytes, sizes.table_bytes)
        {
            let sizes = format!("write_buffer_size={memtable};target_file_size_base={table}");
            let given = [trial.engine.options, sizes].into_iter();
            let given: Vec<_> = given.filter(|options| !options.is_empty()).collect();
            trial.engine.options = given.join(";");
        }
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
