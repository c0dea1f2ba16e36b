//! Asynchronous calls: tasks in the queues of workers, each of which owns some of every keyspace's
//! partitions (Vitillo, "Parallel LSM tree", section 3.2), and the futures of their results.
//!
//! A client puts its task into the queue of the worker that owns the key's partition, partition `p` of a
//! keyspace that of worker `p mod n`. There is no master. A worker takes what has gathered in its
//! queue as one batch ([`run`]): one commit and reads that overlap, also with those of the next batch.
//!
//! What is promised:
//! * Of one client's calls for one key, each has its effect after those made before it. A call
//!   that finds the queue full keeps its place in line.
//! * A get may be answered on the spot, from memory, if its worker has nothing to do.
//! * Every future ends: with a result, or with `Closed` when the database was closed before.
//!
//! Cost of a call: a copy of key and value, a lock of the queue, and waking the worker if it waits.

mod keyspace;
mod pending;
mod run;

pub use pending::Pending;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::base::error::{Error, Result};
use crate::base::runtime::Workers;
use crate::base::runtime::workers::Inbox;
use crate::tree::engine::{Engine, Task, lock};

/// How many tasks a queue accepts unless something else is asked for.
pub(crate) const QUEUE_TASKS_MAX: usize = 1024;

/// Starts the workers of a database that has just been opened.
pub(crate) fn start(engine: &Arc<Engine>, count: usize, queue_tasks_max: usize) -> Result<()> {
    let weak = Arc::downgrade(engine);
    let run = move |inbox: &mut Inbox<'_, Task>| {
        if let Some(engine) = weak.upgrade() {
            run::run(&engine, inbox);
        }
    };
    let workers = Workers::start(
        &engine.environment,
        &engine.scheduler,
        count,
        queue_tasks_max,
        Arc::new(run),
    )?;
    // Nobody else has the engine yet.
    drop(engine.workers.set(workers));
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
    engine.workers.get().ok_or_else(none)
}

/// Has `call` made when some workers have done everything they had been given before, on the thread of
/// the one that comes last.
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
                drop(sender.send(run::caught(|| call(engine))));
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
pub(crate) fn all_workers(engine: &Engine) -> Vec<usize> {
    (0..engine.workers.get().map_or(0, Workers::count)).collect()
}
