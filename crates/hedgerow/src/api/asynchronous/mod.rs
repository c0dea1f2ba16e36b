//! Asynchronous calls: tasks in the queues of workers, and the futures of their results. Each
//! worker owns some partitions of every keyspace (Vitillo, "Parallel LSM tree", section 3.2).
//!
//! A client puts its task into the queue of the worker that owns the key's partition: with `n`
//! workers, worker `p mod n` owns partition `p`. There is no master. A worker takes all tasks of
//! its queue as one batch ([`run`]): one commit, and reads that overlap, also with those of the
//! next batch.
//!
//! Guarantees:
//! * The calls of one client for one key take effect in their order. A call that finds the queue
//!   full keeps its place in line.
//! * A get may be answered at once, from memory, if its worker is idle.
//! * Every future ends: with a result, or with `Closed` when the database was closed before.
//!
//! Cost of a call: a copy of key and value, a lock of the queue, and waking the worker if it waits.

mod calls;
mod pending;
mod tasks;
mod whole;

pub use pending::Pending;
pub use whole::AsyncScan;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::base::error::{Error, Result};
use crate::base::mutex::lock;
use crate::base::runtime::Workers;
use crate::base::runtime::workers::Inbox;
use crate::tree::engine::{Asynchronous, Engine, Task};

/// The default number of tasks that a queue accepts.
pub(crate) const QUEUE_TASKS_MAX: usize = 1024;

/// Starts the workers of a database that has just been opened.
pub(crate) fn start(engine: &Arc<Engine>, count: usize, queue_tasks_max: usize) -> Result<()> {
    let weak = Arc::downgrade(engine);
    let run = move |inbox: &mut Inbox<'_, Task>| {
        if let Some(engine) = weak.upgrade() {
            tasks::run(&engine, inbox);
        }
    };
    let workers = Workers::start(
        &engine.environment,
        &engine.scheduler,
        count,
        queue_tasks_max,
        Arc::new(run),
    )?;
    engine.asynchronous.set_workers(workers);
    Ok(())
}

/// The workers of an open database.
fn workers(engine: &Engine) -> Result<&Workers<Task>> {
    engine.check_open()?;
    let none = || {
        Error::new(
            crate::base::error::ErrorKind::Closed,
            "the database has no workers",
        )
    };
    engine.asynchronous.workers().ok_or_else(none)
}

/// Makes `call` when these workers have finished everything queued before it, on the thread of the
/// last one.
pub(crate) fn call_behind<T: Send + 'static>(
    engine: &Arc<Engine>,
    behind: &[usize],
    call: impl FnOnce(&Arc<Engine>) -> Result<T> + Send + 'static,
) -> Pending<T> {
    let (sender, pending) = Pending::queued(engine);
    let last = Arc::new((
        AtomicUsize::new(behind.len()),
        Mutex::new(Some((call, sender))),
    ));
    for &worker in behind {
        let last = last.clone();
        let arrive = move |engine: &Arc<Engine>| {
            if last.0.fetch_sub(1, Ordering::AcqRel) > 1 {
                return;
            }
            if let Some((call, sender)) = lock(&last.1).take() {
                drop(sender.send(tasks::caught(|| call(engine))));
            }
        };
        let pushed = workers(engine).and_then(|workers| {
            let task = Task::Call(Box::new(arrive));
            workers.push(&engine.scheduler, worker, task)
        });
        if let Err(error) = pushed {
            return Pending::ready(Err(error));
        }
    }
    pending
}

/// The numbers of all workers.
pub(crate) fn all_workers(asynchronous: &Asynchronous) -> Vec<usize> {
    (0..asynchronous.workers().map_or(0, Workers::count)).collect()
}
