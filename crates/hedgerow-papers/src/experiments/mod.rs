//! Experiments: designs by sizes by workloads, with a row for each combination.
//!
//! An experiment is data. It has [`Trial`]s, each an engine with a design on an empty store, and
//! the [`Step`]s to run on it. [`Runner`] runs the trials one after another, each on a store of its
//! own that is removed afterwards. It returns a row per step: the result of the
//! [`Session`] with `experiment`, `title`, `design`, `case`, `round` and the predictions of a
//! [`model`]. [`summary`] makes a table of rows, [`report`](hedgerow_bench::report) a page.
#![allow(
    clippy::disallowed_methods,
    reason = "a bench measures the time of the machine"
)]

pub mod autumn;
mod confined;
mod growth;
pub mod lsm_trie;
mod micro;
pub mod model;
mod own_rate;
pub mod parallel;
mod size;
pub mod slimdb;
pub mod summary;
mod targets;

pub use size::Size;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hedgerow::advisor::{Device, Mix};
use hedgerow_bench::{HedgerowStore, Open, OpenOptions, Part, Result, Session, Settings, Workload};
use serde_json::{Value, json};

use confined::Confined;
use growth::Growth;
use own_rate::OwnRate;

/// The trials of one comparison.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The number in its paper's list.
    pub number: u8,
    /// The subject.
    pub title: String,
    /// The trials, in the order of their runs.
    pub trials: Vec<Trial>,
}

/// An engine with a design over data of one size, and its steps from an empty store on.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The compared design, a series in charts: `garnering:2,0.8`.
    pub design: String,
    /// The circumstances: `values of 50 bytes`; empty if there is only one case.
    pub case: String,
    /// The engine to open.
    pub engine: Engine,
    /// The options; the directory is the runner's.
    pub options: OpenOptions,
    /// The records and the threads.
    pub settings: Settings,
    /// The steps in order.
    pub steps: Vec<Step>,
    /// The number of processors that the process may use; `None` for all.
    pub processors: Option<usize>,
}

/// The engine of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// `hedgerow`, or a peer's name.
    pub name: &'static str,
    /// The engine's own options, beside those that all engines get.
    pub options: String,
}

/// A workload of a trial.
#[derive(Debug, Clone)]
pub struct Step {
    /// The name in rows.
    pub name: String,
    /// The workload.
    pub workload: Workload,
    /// The number of operations of a workload that reads.
    pub ops: u64,
    /// The number of operations before the measured ones, to warm the caches.
    pub warm_up: u64,
    /// The part that a fill puts. Reads draw from this part and all before it.
    pub part: Part,
    /// The steps after each seek.
    pub seek_nexts: u64,
    /// The mix of a mixed workload.
    pub mix: Mix,
    /// The keys per call.
    pub batch_size: Option<u64>,
    /// The asynchronous calls that each thread has under way; `None` for direct calls.
    pub window: Option<usize>,
    /// True if the store is reopened before the step, with the system's cache of files dropped.
    pub cold: bool,
    /// True if the device's own rate is measured before and after.
    pub beside_device: bool,
}

impl Step {
    /// A step with the name of its workload, with `reads` operations if the workload reads.
    pub fn new(workload: Workload, ops: u64) -> Step {
        Step {
            name: workload.name().to_owned(),
            workload,
            ops: ops.max(1),
            warm_up: 0,
            part: Part::WHOLE,
            seek_nexts: 10,
            mix: Settings::MIX_EVEN,
            batch_size: None,
            window: None,
            cold: false,
            beside_device: false,
        }
    }

    fn named(mut self, name: &str) -> Step {
        self.name = name.to_owned();
        self
    }

    fn cold(mut self) -> Step {
        self.cold = true;
        self
    }

    fn beside_device(mut self) -> Step {
        self.beside_device = true;
        self
    }

    fn batches(mut self, keys: u64) -> Step {
        self.batch_size = Some(keys);
        self
    }

    /// The parts of a fill in random order, the store at rest after each: `fillrandom to 3/8`.
    fn fill_by_parts(count: u64) -> Vec<Step> {
        let part = |index| Step {
            name: format!("fillrandom to {}/{count}", index + 1),
            part: Part { index, count },
            ..Step::new(Workload::FillRandom, 1)
        };
        (0..count).map(part).collect()
    }

    /// Seeks with these numbers of steps: `seek`, `seek+10`.
    pub fn seek(nexts: u64, ops: u64) -> Step {
        Step {
            name: match nexts {
                0 => "seek".to_owned(),
                nexts => format!("seek+{nexts}"),
            },
            seek_nexts: nexts,
            ..Step::new(Workload::SeekRandom, ops)
        }
    }

    /// Operations drawn from a mix.
    pub fn mixed(name: &str, mix: Mix, ops: u64) -> Step {
        Step {
            name: name.to_owned(),
            mix,
            ..Step::new(Workload::Mixed, ops)
        }
    }
}

impl Trial {
    /// The label that `only` of a [`Runner`] searches: `leveling:2, values of 50 bytes`.
    pub fn label(&self) -> String {
        match self.case.as_str() {
            "" => self.design.clone(),
            case => format!("{}, {case}", self.design),
        }
    }
}

/// The papers with experiments, numbered from 1 to [`EXPERIMENTS`] in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paper {
    /// [`autumn`].
    Autumn,
    /// [`slimdb`].
    SlimDb,
    /// [`parallel`].
    Parallel,
    /// [`lsm_trie`].
    LsmTrie,
}

/// The number of experiments of a paper.
pub const EXPERIMENTS: u8 = 5;

/// The error for a number that no experiment has.
fn unknown<T>(number: u8) -> Result<T> {
    Err(format!("expected an experiment of 1 to {EXPERIMENTS}, found {number}").into())
}

impl Paper {
    /// Runs the experiment with this number. `begun` is called before each step of a store, `done`
    /// with each row.
    ///
    /// # Errors
    /// A number or a scale that is none, and those of [`Runner::run`].
    pub fn run(
        self,
        size: &Size,
        number: u8,
        runner: &Runner<'_>,
        begun: &mut dyn FnMut(&Trial, &Step),
        done: &mut dyn FnMut(Value) -> Result<()>,
    ) -> Result<()> {
        match self {
            Paper::Autumn => runner.run(
                &autumn::experiment(size, number, &runner.device)?,
                begun,
                done,
            ),
            Paper::SlimDb => slimdb::run(size, number, runner, begun, done),
            Paper::Parallel => runner.run(&parallel::experiment(size, number)?, begun, done),
            Paper::LsmTrie => lsm_trie::run(size, number, runner, begun, done),
        }
    }
}

/// Opens Hedgerow, and no other engine.
pub fn ours(engine: &Engine) -> Option<Open> {
    (engine.name == "hedgerow").then(HedgerowStore::opener)
}

/// Runs experiments.
pub struct Runner<'a> {
    /// The directory in which each store gets a directory of its own.
    pub dir: PathBuf,
    /// The number of runs of each trial.
    pub rounds: usize,
    /// Text that the label of a trial must contain.
    pub only: Option<String>,
    /// The time after the first step of a trial in which it may begin others; later steps are
    /// skipped.
    pub trial_time_max: Option<Duration>,
    /// The device to predict costs for.
    pub device: Device,
    /// Opens an engine; returns `None` for a missing one, whose trials are skipped.
    pub open: &'a dyn Fn(&Engine) -> Option<Open>,
}

impl Runner<'_> {
    /// Runs the trials, round by round. `begun` is called before each step, `done` with its row.
    ///
    /// # Errors
    /// An error of opening, of a workload or of `done`; an experiment without a selected trial.
    pub fn run(
        &self,
        experiment: &Experiment,
        begun: &mut dyn FnMut(&Trial, &Step),
        done: &mut dyn FnMut(Value) -> Result<()>,
    ) -> Result<()> {
        let only = self.only.as_deref().unwrap_or_default();
        let trials = experiment.trials.iter();
        let trials = trials.filter(|trial| trial.label().contains(only));
        let trials: Vec<_> = { trials }
            .filter(|trial| (self.open)(&trial.engine).is_some())
            .collect();
        if trials.is_empty() {
            let labels: Vec<_> = experiment.trials.iter().map(Trial::label).collect();
            return Err(format!(
                "expected `{only}` in one of the trials of experiment {}, found {}",
                experiment.number,
                labels.join("; ")
            )
            .into());
        }
        for round in 0..self.rounds {
            for trial in &trials {
                let mut keep = |mut row: Value| {
                    row["experiment"] = json!(experiment.number);
                    row["title"] = json!(experiment.title);
                    row["round"] = json!(round);
                    done(row)
                };
                self.run_trial(trial, begun, &mut keep)?;
            }
        }
        Ok(())
    }

    fn run_trial(
        &self,
        trial: &Trial,
        begun: &mut dyn FnMut(&Trial, &Step),
        done: &mut dyn FnMut(Value) -> Result<()>,
    ) -> Result<()> {
        std::fs::create_dir_all(&self.dir)?;
        let dir = tempfile::Builder::new()
            .prefix("trial-")
            .tempdir_in(&self.dir)?;
        let options = OpenOptions {
            dir: dir.path().join("store"),
            ..trial.options.clone()
        };
        let name = trial.engine.name;
        let _confined = trial.processors.map(Confined::to).transpose()?;
        let open = (self.open)(&trial.engine)
            .ok_or_else(|| format!("expected {name} to be there, found it gone"))?;
        let mut session = Session::new(open, options, trial.settings)?;
        let mut growth = Growth::default();
        let mut debt = model::Debt::default();
        let beside = OwnRate::new(dir.path(), &trial.settings.records);
        let began = Instant::now();
        for step in &trial.steps {
            if self
                .trial_time_max
                .is_some_and(|most| began.elapsed() > most)
            {
                break;
            }
            begun(trial, step);
            let mut row = measured(&mut session, step, &beside)?;
            if step.part != Part::WHOLE {
                match step.workload.loads() {
                    true => growth.add(&mut row),
                    false => growth.tell(&mut row),
                }
            }
            model::add(&mut row, trial, step, &self.device, &mut debt)?;
            row["workload"] = json!(step.name);
            row["design"] = json!(trial.design);
            row["case"] = json!(trial.case);
            done(row)?;
        }
        Ok(())
    }
}

/// Runs a step over the store. The row tells how the store was opened and how fast the device was,
/// if the step asks for it.
fn measured(session: &mut Session, step: &Step, beside: &OwnRate) -> Result<Value> {
    session.change(|settings| {
        settings.reads = Some(step.ops);
        settings.part = step.part;
        settings.seek_nexts = step.seek_nexts;
        settings.mix = step.mix;
        settings.batch_size = step.batch_size;
        settings.window = step.window;
    })?;
    let opened = step.cold.then(|| session.cool()).transpose()?;
    if step.warm_up > 0 {
        session.change(|settings| settings.reads = Some(step.warm_up))?;
        session.run(step.workload, &|_| ())?;
        session.change(|settings| settings.reads = Some(step.ops))?;
    }
    let before = step.beside_device.then(|| beside.measure()).transpose()?;
    let mut row = session.run(step.workload, &|_| ())?;
    if let Some(before) = before {
        row["device"] = json!({ "depth_32": f64::midpoint(before, beside.measure()?) });
    }
    row["page_cache_dropped"] = json!(opened.is_some_and(|it| it.page_cache_dropped));
    if let Some(opened) = opened {
        row["open_seconds"] = json!(opened.seconds);
        row["open_read_bytes"] = json!(opened.read_bytes);
    }
    Ok(row)
}
