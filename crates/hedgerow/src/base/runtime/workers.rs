//! Workers. Each has a queue of tasks and takes several at once; no other thread takes from it.
//! Knows no engine type: a closure does the tasks.
//!
//! A worker with a thread is pinned to a processor where the system allows it. A worker without one
//! submits a job to the pool that drains its queue. At most one such job runs per worker. In a
//! simulation it runs on the caller's thread at a moment drawn from the seed.
//!
//! While reads are under way the closure takes more tasks from its [`Inbox`]. A panic ends that run
//! and drops its other tasks unanswered. The worker survives.

use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hedgerow_io::{Clock, Environment, Join};
use hedgerow_mem::{Refused, TaskQueue, Turn};

use super::{Priority, Scheduler};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::mutex::lock;
use crate::base::stats::WorkerStats;

/// The most tasks that a worker takes at once: one commit, and enough reads for a deep device
/// queue.
const BATCH_TASKS_MAX: usize = 256;

thread_local! {
    /// This thread is doing the tasks of a worker.
    static WORKING: Cell<bool> = const { Cell::new(false) };
}

/// True if the calling thread does the tasks of a worker. It must not wait for other tasks.
pub(crate) fn is_worker() -> bool {
    WORKING.get()
}

/// Does the tasks of a worker until there are none.
type Run<T> = Arc<dyn Fn(&mut Inbox<'_, T>) + Send + Sync>;

/// All workers of a database.
pub(crate) struct Workers<T> {
    workers: Vec<Arc<Worker<T>>>,
    threads: Mutex<Vec<Box<dyn Join>>>,
    /// True if the workers have no threads of their own.
    pooled: bool,
    panics: Arc<AtomicUsize>,
}

struct Worker<T> {
    index: usize,
    /// Tasks and their times of arrival.
    queue: TaskQueue<(Duration, T)>,
    clock: Arc<dyn Clock>,
    run: Run<T>,
    panics: Arc<AtomicUsize>,
    /// Tasks that were pushed and are not done, plus one while the worker runs.
    unfinished: AtomicUsize,
    done: AtomicU64,
    batches: AtomicU64,
    waited_ns: AtomicU64,
    waited_ns_max: AtomicU64,
    /// The processor that it is pinned to.
    processor: OnceLock<usize>,
    /// True if a job of the pool drains the queue or is about to.
    scheduled: AtomicBool,
    /// Held by the thread that drains the queue of a worker without a thread.
    draining: Mutex<()>,
}

impl<T: Send + 'static> Workers<T> {
    /// Starts `count` workers with threads. With 0 there is one queue without a thread, in a
    /// simulation all queues are: then the pool does the tasks.
    pub(crate) fn start(
        environment: &Environment,
        pool: &Scheduler,
        count: usize,
        queue_tasks_max: usize,
        run: Run<T>,
    ) -> Result<Workers<T>> {
        let panics = Arc::new(AtomicUsize::new(0));
        let worker = |index| {
            Arc::new(Worker {
                index,
                queue: TaskQueue::new(queue_tasks_max),
                clock: environment.clock.clone(),
                run: run.clone(),
                panics: panics.clone(),
                unfinished: AtomicUsize::new(0),
                done: AtomicU64::new(0),
                batches: AtomicU64::new(0),
                waited_ns: AtomicU64::new(0),
                waited_ns_max: AtomicU64::new(0),
                processor: OnceLock::new(),
                scheduled: AtomicBool::new(false),
                draining: Mutex::default(),
            })
        };
        let started = Workers {
            workers: (0..count.max(1)).map(worker).collect(),
            threads: Mutex::default(),
            pooled: count == 0 || pool.is_inline(),
            panics,
        };
        if started.pooled {
            return Ok(started);
        }
        let processors = environment.spawn.processors();
        for worker in &started.workers {
            let processor = processors
                .get(worker.index % processors.len().max(1))
                .copied();
            let (worker, spawn) = (worker.clone(), environment.spawn.clone());
            let name = format!("hedgerow-w{}", worker.index);
            let body = move || {
                if let Some(processor) = processor.filter(|&p| spawn.pin(p).is_ok()) {
                    let _ = worker.processor.set(processor);
                }
                worker.work_until_closed();
            };
            match environment.spawn.spawn(&name, Box::new(body)) {
                Ok(thread) => started.threads().push(thread),
                Err(e) => {
                    started.finish();
                    let message = format!("cannot start a worker: {e}");
                    return Err(Error::new(ErrorKind::Io, message));
                }
            }
        }
        Ok(started)
    }

    pub(crate) fn count(&self) -> usize {
        self.workers.len()
    }

    /// True if the pool does the work.
    pub(crate) fn is_pooled(&self) -> bool {
        self.pooled
    }

    /// True if a worker has done all tasks that it was given.
    pub(crate) fn is_idle(&self, worker: usize) -> bool {
        self.workers[worker].unfinished.load(Ordering::Acquire) == 0
    }

    /// Gives a worker a task, at the end of the line if its queue is full. `Closed` after
    /// [`Workers::finish`].
    pub(crate) fn push(&self, pool: &Scheduler, worker: usize, task: T) -> Result<Turn> {
        let worker = &self.workers[worker];
        worker.unfinished.fetch_add(1, Ordering::AcqRel);
        let pushed = worker.queue.push((worker.clock.now(), task));
        self.pushed(pool, worker, pushed.map_err(|_| closed()))
    }

    /// Gives a worker a task if its queue has room, otherwise fails with `WouldBlock`.
    pub(crate) fn try_push(&self, pool: &Scheduler, worker: usize, task: T) -> Result<()> {
        let worker = &self.workers[worker];
        worker.unfinished.fetch_add(1, Ordering::AcqRel);
        let pushed = worker
            .queue
            .try_push((worker.clock.now(), task))
            .map_err(|refused| match refused {
                Refused::Closed(_) => closed(),
                Refused::Full(_) => Error::new(
                    ErrorKind::WouldBlock,
                    format!("the queue of worker {} is full", worker.index),
                ),
            });
        self.pushed(pool, worker, pushed)
    }

    /// Gives a worker a task and waits until it is in the queue.
    pub(crate) fn push_and_wait(&self, pool: &Scheduler, worker: usize, task: T) -> Result<()> {
        let place = self.push(pool, worker, task)?;
        let queue = &self.workers[worker].queue;
        match place {
            Turn::Accepted => {}
            // A worker would wait for itself. The task stays in line, which keeps the order, too.
            _ if is_worker() => {}
            _ if pool.is_inline() => drop(pool.wait_until(|| queue.depth().1 == 0)),
            _ => queue.wait_until_accepted(place),
        }
        Ok(())
    }

    /// Takes back a task that is still in line.
    pub(crate) fn leave(&self, worker: usize, place: Turn) -> Option<T> {
        let worker = &self.workers[worker];
        let (_, task) = worker.queue.leave(place)?;
        worker.unfinished.fetch_sub(1, Ordering::AcqRel);
        Some(task)
    }

    fn pushed<P>(&self, pool: &Scheduler, worker: &Arc<Worker<T>>, result: Result<P>) -> Result<P> {
        if result.is_err() {
            worker.unfinished.fetch_sub(1, Ordering::AcqRel);
        } else if self.pooled {
            worker.schedule(pool);
        }
        result
    }

    /// Refuses new tasks, does the present ones and ends the threads. On one of these threads it
    /// does not wait for them.
    pub(crate) fn finish(&self) {
        self.workers.iter().for_each(|w| w.queue.close());
        if is_worker() {
            return;
        }
        for thread in std::mem::take(&mut *self.threads()) {
            // A panic of a task was caught.
            let _ = thread.join();
        }
        if self.pooled {
            for worker in &self.workers {
                let draining = worker.draining.lock();
                worker.drain(draining.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// All statistics except the number of partitions.
    pub(crate) fn stats(&self, worker: usize) -> WorkerStats {
        let worker = &self.workers[worker];
        let (queued, in_line) = worker.queue.depth();
        let time = |ns: &AtomicU64| Duration::from_nanos(ns.load(Ordering::Relaxed));
        WorkerStats {
            index: worker.index,
            processor: worker.processor.get().copied(),
            partitions: 0,
            queued,
            in_line,
            done: worker.done.load(Ordering::Relaxed),
            batches: worker.batches.load(Ordering::Relaxed),
            waited: time(&worker.waited_ns),
            waited_max: time(&worker.waited_ns_max),
        }
    }

    /// The number of runs that ended in a panic.
    pub(crate) fn panics(&self) -> usize {
        self.panics.load(Ordering::Relaxed)
    }

    fn threads(&self) -> MutexGuard<'_, Vec<Box<dyn Join>>> {
        lock(&self.threads)
    }
}

/// The source of a worker's tasks while it runs.
pub(crate) struct Inbox<'a, T> {
    worker: &'a Worker<T>,
    /// Taken from the queue, not by the worker.
    batch: &'a mut VecDeque<(Duration, T)>,
    /// The number taken by the worker and not done.
    taken: usize,
}

impl<T> Inbox<'_, T> {
    /// Takes the tasks in the queue, at most one batch, without waiting. By now the tasks taken
    /// before are done, or only wait for their reads.
    pub(crate) fn take(&mut self) -> impl ExactSizeIterator<Item = T> {
        self.settle();
        let worker = self.worker;
        if self.batch.is_empty() {
            worker.queue.take(BATCH_TASKS_MAX, self.batch);
        }
        self.taken = self.batch.len();
        if self.taken > 0 {
            self.note_waits();
        }
        self.batch.drain(..).map(|(_, task)| task)
    }

    fn note_waits(&self) {
        let now = self.worker.clock.now();
        let waits = self.batch.iter().map(|(came, _)| now.saturating_sub(*came));
        let waits = waits.map(|wait| wait.as_nanos() as u64);
        let longest = waits.clone().max().unwrap_or_default();
        // A clock that jumps on by centuries makes them large.
        let sum = waits.fold(0, u64::wrapping_add);
        (self.worker.waited_ns).fetch_add(sum, Ordering::Relaxed);
        (self.worker.waited_ns_max).fetch_max(longest, Ordering::Relaxed);
    }

    fn settle(&mut self) {
        if self.taken == 0 {
            return;
        }
        let worker = self.worker;
        worker.done.fetch_add(self.taken as u64, Ordering::Relaxed);
        worker.batches.fetch_add(1, Ordering::Relaxed);
        worker.unfinished.fetch_sub(self.taken, Ordering::AcqRel);
        self.taken = 0;
    }
}

impl<T: Send + 'static> Worker<T> {
    fn work_until_closed(&self) {
        let mut batch = VecDeque::new();
        while self.queue.wait_and_take(BATCH_TASKS_MAX, &mut batch) {
            self.run(&mut batch);
        }
    }

    /// Does the queued tasks, under the lock `draining`.
    fn drain(&self, _draining: MutexGuard<'_, ()>) {
        let mut batch = VecDeque::new();
        loop {
            self.queue.take(BATCH_TASKS_MAX, &mut batch);
            if batch.is_empty() {
                return;
            }
            self.run(&mut batch);
        }
    }

    /// Does a batch and the tasks that arrive meanwhile.
    fn run(&self, batch: &mut VecDeque<(Duration, T)>) {
        // One more until the end, because reads of finished tasks may be under way.
        self.unfinished.fetch_add(1, Ordering::AcqRel);
        let mut inbox = Inbox {
            worker: self,
            batch,
            taken: 0,
        };
        let before = WORKING.replace(true);
        if catch_unwind(AssertUnwindSafe(|| (self.run)(&mut inbox))).is_err() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
        WORKING.set(before);
        // Drops the tasks that a panic left behind.
        inbox.batch.clear();
        inbox.settle();
        self.unfinished.fetch_sub(1, Ordering::AcqRel);
    }

    /// Makes the pool drain the queue, unless a job is about to.
    fn schedule(self: &Arc<Self>, pool: &Scheduler) {
        if self.scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let worker = self.clone();
        pool.submit(Priority::Tasks, move || {
            loop {
                match worker.draining.try_lock() {
                    Ok(draining) => worker.drain(draining),
                    // The thread that finishes the workers does all remaining tasks.
                    Err(_) => return,
                }
                worker.scheduled.store(false, Ordering::Release);
                // A push after the store schedules a job itself; a push before it did not.
                let more = worker.queue.depth().0 > 0;
                if !more || worker.scheduled.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database was closed")
}
