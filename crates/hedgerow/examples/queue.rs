//! A queue of jobs with their state, for any number of producers and workers without a lock of
//! their own.
//!
//! Waiting jobs are in one keyspace, in the order of their numbers; jobs that a worker has taken
//! are in another, under the name of the worker. A worker takes the first job by a transaction: it
//! leaves the queue and appears with the worker, or neither. If two take the same one, one of them
//! begins again. A producer takes the next number from a counter. It does not disturb the workers,
//! because they have read the front of the queue only.
//!
//! A single keyspace without states has `Keyspace::pop_first`, which is faster.
//!
//! Run with `cargo run --example queue`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow::{Db, Error, Keyspace, Layout, Result};

struct Queue {
    db: Db,
    /// The number of a job, big-endian: the job.
    waiting: Keyspace,
    /// `WORKER/` and the number of a job: the job.
    taken: Keyspace,
    counters: Keyspace,
}

/// A job that a worker has taken.
struct Taken {
    key: Vec<u8>,
    job: String,
}

impl Queue {
    fn open(db: Db) -> Result<Queue> {
        Ok(Queue {
            waiting: db.keyspace("waiting", Layout::sorted())?,
            taken: db.keyspace("taken", Layout::sorted())?,
            counters: db.keyspace("counters", Layout::sorted())?,
            db,
        })
    }

    fn push(&self, job: &str) -> Result<u64> {
        self.db.transact(|t| {
            let next = t.get(&self.counters, "next")?;
            let next = next.and_then(|bytes| Some(u64::from_be_bytes(*bytes.first_chunk()?)));
            let number = next.unwrap_or(0);
            t.put(&self.counters, "next", (number + 1).to_be_bytes())?;
            t.put(&self.waiting, number.to_be_bytes(), job)?;
            Ok::<_, Error>(number)
        })
    }

    /// Takes the first job; `None` if none waits.
    fn take(&self, worker: &str) -> Result<Option<Taken>> {
        self.db.transact(|t| {
            let Some((number, job)) = t.first(&self.waiting)? else {
                return Ok(None);
            };
            let key = [worker.as_bytes(), b"/", &number].concat();
            t.delete(&self.waiting, &number)?;
            t.put(&self.taken, &key, &job)?;
            let job = String::from_utf8_lossy(&job).into_owned();
            Ok::<_, Error>(Some(Taken { key, job }))
        })
    }

    fn done(&self, taken: &Taken) -> Result<()> {
        self.taken.delete(&taken.key)
    }

    /// Puts the jobs back that a worker had taken before it was lost. Returns their number.
    fn put_back(&self, worker: &str) -> Result<usize> {
        self.db.transact(|t| {
            let lost = t.scan_prefix(&self.taken, format!("{worker}/"))?;
            let lost = lost.collect::<Result<Vec<_>>>()?;
            for (key, job) in &lost {
                t.delete(&self.taken, key)?;
                t.put(&self.waiting, &key[worker.len() + 1..], job)?;
            }
            Ok::<_, Error>(lost.len())
        })
    }
}

const JOBS: u64 = 200;
const WORKERS: u64 = 3;

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let queue = Queue::open(Db::open(dir.path())?)?;
    // A worker that is lost with two jobs.
    queue.push("wash")?;
    queue.push("iron")?;
    let first = queue.take("lost")?.expect("a job waits");
    assert_eq!(first.job, "wash");
    queue.take("lost")?;
    assert!(queue.take("lost")?.is_none());
    assert_eq!(queue.put_back("lost")?, 2);

    let done = AtomicU64::new(0);
    let produce = |producer: u64| -> Result<()> {
        (0..JOBS).try_for_each(|i| queue.push(&format!("job {i} of {producer}")).map(drop))
    };
    let work = |worker: u64| -> Result<()> {
        let worker = format!("worker-{worker}");
        while done.load(Ordering::Relaxed) < 2 * JOBS + 2 {
            if let Some(taken) = queue.take(&worker)? {
                queue.done(&taken)?;
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    };
    let (produce, work) = (&produce, &work);
    std::thread::scope(|scope| {
        let producers = (0..2).map(|it| scope.spawn(move || produce(it)));
        let mut threads: Vec<_> = producers.collect();
        threads.extend((0..WORKERS).map(|it| scope.spawn(move || work(it))));
        let mut ends = threads.into_iter().map(|it| it.join());
        ends.try_for_each(|end| end.expect("no thread panics"))
    })?;
    assert_eq!(done.into_inner(), 2 * JOBS + 2);
    assert!(queue.waiting.is_empty()? && queue.taken.is_empty()?);
    println!(
        "{} commits were refused",
        queue.db.stats().transaction_conflicts
    );
    Ok(())
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
