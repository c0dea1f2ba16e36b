//! A job queue: some threads take jobs from the front of an ordered map until it is empty. Jobs are
//! put before, in order.
//!
//! Taken entries leave tombstones in a log-structured store. If each take steps over them, the
//! rate falls with the number of jobs done; so the rate of the first jobs and that of all are
//! reported.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hedgerow::{Db, Durability, Keyspace, Layout};
use hedgerow_bench::{Result, add_commit};
use redb::{Database, TableDefinition};
use serde_json::json;

/// The options of the subcommand.
#[derive(Debug, clap::Args)]
pub(crate) struct Queue {
    /// An empty or new directory.
    #[arg(long)]
    dir: PathBuf,

    /// The store.
    #[arg(long, value_enum)]
    store: Which,

    /// The number of jobs.
    #[arg(long, default_value_t = 1_000_000)]
    jobs: u64,

    /// The threads that take jobs.
    #[arg(long, default_value_t = 4)]
    workers: usize,

    /// The bytes of a job.
    #[arg(long, default_value_t = 100)]
    job_bytes: usize,

    /// The memory of the store in bytes.
    #[arg(long, default_value_t = 256 << 20)]
    memory: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// `pop_first`.
    Hedgerow,
    /// The first entry of a scan, then a delete; one thread only, because two may take one job.
    HedgerowScan,
    /// `pop_first` in a transaction without durability.
    Redb,
}

/// The jobs of the first rate.
const FIRST_JOBS: u64 = 10_000;
const JOBS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("jobs");

/// A map with an end to take from.
trait Source: Sync {
    fn fill(&self, jobs: u64, job: &[u8]) -> Result<()>;
    /// Takes the first job. Returns false if there is none.
    fn take(&self) -> Result<bool>;
}

impl Queue {
    /// Fills the queue, takes all jobs and prints a JSON object.
    ///
    /// # Errors
    /// What the store says; jobs that are missing.
    pub(crate) fn run(&self) -> Result<()> {
        let file = self.dir.join("queue.redb");
        let source: Box<dyn Source> = match self.store {
            Which::Redb => {
                std::fs::create_dir_all(&self.dir)?;
                let cache_bytes = usize::try_from(self.memory)?;
                let mut builder = Database::builder();
                Box::new(RedbQueue(builder.set_cache_size(cache_bytes).create(file)?))
            }
            _ => {
                let db = Db::builder(&self.dir).memory_budget(self.memory).open()?;
                let jobs = db.keyspace("jobs", Layout::sorted())?;
                let scans = self.store == Which::HedgerowScan;
                Box::new(HedgerowQueue { jobs, scans })
            }
        };
        let began = Instant::now();
        source.fill(self.jobs, &vec![b'j'; self.job_bytes])?;
        let filled = began.elapsed();
        let (first, all) = self.drain(&*source)?;
        let version = match self.store {
            Which::Redb => crate::locked_version("redb"),
            _ => crate::locked_version("hedgerow"),
        };
        let mut row = json!({
            "version": version,
            "store": format!("{:?}", self.store).to_lowercase(),
            "jobs": self.jobs,
            "workers": self.workers,
            "job_bytes": self.job_bytes,
            "fill_s": filled.as_secs_f64(),
            "first_per_s": first,
            "all_per_s": all,
        });
        add_commit(&mut row);
        writeln!(std::io::stdout(), "{row}")?;
        Ok(())
    }

    /// Takes all jobs. Returns the jobs per second of the first ones and of all.
    fn drain(&self, source: &dyn Source) -> Result<(f64, f64)> {
        let taken = AtomicU64::new(0);
        let first_us = AtomicU64::new(0);
        let began = Instant::now();
        let work = || -> Result<()> {
            while source.take()? {
                if taken.fetch_add(1, Ordering::Relaxed) + 1 == FIRST_JOBS {
                    let us = began.elapsed().as_micros() as u64;
                    first_us.store(us, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.workers)
                .map(|_| scope.spawn(|| work().map_err(|e| e.to_string())))
                .collect();
            let mut ends = workers.into_iter().map(|it| it.join());
            ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a worker panicked".into())))
        })?;
        let all = began.elapsed();
        let taken = taken.into_inner();
        if taken != self.jobs {
            return Err(format!("expected {} jobs, took {taken}", self.jobs).into());
        }
        let first_s = first_us.into_inner().max(1) as f64 / 1e6;
        Ok((
            FIRST_JOBS as f64 / first_s,
            taken as f64 / all.as_secs_f64(),
        ))
    }
}

struct HedgerowQueue {
    jobs: Keyspace,
    scans: bool,
}

impl Source for HedgerowQueue {
    fn fill(&self, jobs: u64, job: &[u8]) -> Result<()> {
        (0..jobs).try_for_each(|i| Ok(self.jobs.put(i.to_be_bytes(), job)?))
    }

    fn take(&self) -> Result<bool> {
        if !self.scans {
            return Ok(self.jobs.pop_first()?.is_some());
        }
        let Some((key, _)) = self.jobs.first()? else {
            return Ok(false);
        };
        self.jobs.delete_with(key, Durability::Buffered)?;
        Ok(true)
    }
}

struct RedbQueue(Database);

impl Source for RedbQueue {
    fn fill(&self, jobs: u64, job: &[u8]) -> Result<()> {
        let write = self.0.begin_write()?;
        {
            let mut table = write.open_table(JOBS)?;
            for i in 0..jobs {
                table.insert(i.to_be_bytes().as_slice(), job)?;
            }
        }
        Ok(write.commit()?)
    }

    fn take(&self) -> Result<bool> {
        let mut write = self.0.begin_write()?;
        write.set_durability(redb::Durability::None)?;
        let taken = write.open_table(JOBS)?.pop_first()?.is_some();
        write.commit()?;
        Ok(taken)
    }
}
