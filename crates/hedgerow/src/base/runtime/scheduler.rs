//! The pool for flushes and merges: a queue with priorities and a few threads. A simulation has no
//! threads: callers run the jobs, one at a time, drawn from a seed. There the next merge starts
//! only when the clock has advanced by the processor time of the last one, so a simulation may
//! merge slowly.
//!
//! With `n` threads at most `n - 2` run merges. So no flush waits for a merge, and a log segment
//! hardly ever waits for a flush. One of these merges only while writers are held back: it takes
//! the processor time that they leave.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use hedgerow_io::{Background, Clock, Environment, Join};

use crate::base::error::{Error, Result};
use crate::base::mutex::lock;
use crate::base::random::Random;

/// The order of jobs. Smaller levels go before larger ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    /// Prepares a log segment or memory for memtables: writers may be about to need it.
    Log,
    /// Writes a memtable to a table.
    Flush,
    /// Tasks of workers that have no threads of their own.
    Tasks,
    /// A merge out of level 0.
    MergeTop,
    /// Any other merge.
    Merge,
    /// Filling the page cache.
    Warm,
}

const PRIORITIES: usize = 6;

type Job = Box<dyn FnOnce() + Send>;
type AfterJob = Arc<dyn Fn() + Send + Sync>;

/// The queue and its threads.
pub(crate) struct Scheduler {
    shared: Arc<SchedulerState>,
    threads: Mutex<Vec<Box<dyn Join>>>,
    after: AfterJob,
}

struct SchedulerState {
    queue: Mutex<Queue>,
    /// A job was queued, or the scheduler stops.
    work: Condvar,
    /// A condition that somebody may wait for has changed.
    progress: Condvar,
    stopping: AtomicBool,
    merge_threads_max: usize,
    /// True if all of them may merge.
    is_pressed: AtomicBool,
    mode: Background,
    panics: AtomicUsize,
    clock: Arc<dyn Clock>,
    /// Processor time that jobs took, by priority.
    cpu_ns: [AtomicU64; PRIORITIES],
    /// The threads of the pool.
    workers: Mutex<Vec<ThreadId>>,
}

#[derive(Default)]
struct Queue {
    jobs: [VecDeque<Job>; PRIORITIES],
    running: usize,
    merging: usize,
    /// The state of the generator of [`Background::Inline`].
    random: Random,
    /// The time at which the last merge of a simulation ends.
    merging_until: Duration,
}

/// True if jobs of this priority must leave threads to others.
fn is_merge(priority: usize) -> bool {
    priority >= Priority::MergeTop as usize
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.jobs.iter().all(VecDeque::is_empty)
    }

    /// The next job that may run now, and its priority.
    fn next(&mut self, merge_threads: usize) -> Option<(Job, usize)> {
        for (priority, jobs) in self.jobs.iter_mut().enumerate() {
            if is_merge(priority) && self.merging >= merge_threads {
                return None;
            }
            if let Some(job) = jobs.pop_front() {
                return Some((job, priority));
            }
        }
        None
    }

    /// Any job that may run now, drawn from the seed, and its priority.
    fn draw(&mut self, now: Duration) -> Option<(Job, usize)> {
        let priorities = match now < self.merging_until {
            true => Priority::MergeTop as usize,
            false => PRIORITIES,
        };
        let queued: usize = self.jobs[..priorities].iter().map(VecDeque::len).sum();
        if queued == 0 {
            return None;
        }
        let mut chosen = self.random.below(queued as u64) as usize;
        for (priority, jobs) in self.jobs.iter_mut().enumerate() {
            if chosen < jobs.len() {
                return Some((jobs.remove(chosen)?, priority));
            }
            chosen -= jobs.len();
        }
        None
    }
}

impl Scheduler {
    /// Starts the threads of the environment's background mode. The pool calls `after` behind each
    /// job, without a lock.
    pub(crate) fn start(
        environment: &Environment,
        after: impl Fn() + Send + Sync + 'static,
    ) -> Result<Scheduler> {
        let (threads, seed) = match environment.background {
            Background::Threads(n) => (n.max(2), 0),
            Background::Inline { seed } => (0, seed),
        };
        let shared = Arc::new(SchedulerState {
            queue: Mutex::new(Queue {
                random: Random::new(seed),
                ..Queue::default()
            }),
            work: Condvar::new(),
            progress: Condvar::new(),
            stopping: AtomicBool::new(false),
            merge_threads_max: threads.saturating_sub(2).max(1),
            is_pressed: AtomicBool::new(false),
            mode: environment.background,
            panics: AtomicUsize::new(0),
            clock: environment.clock.clone(),
            cpu_ns: Default::default(),
            workers: Mutex::default(),
        });
        let mut joins = Vec::new();
        for i in 0..threads {
            let shared = shared.clone();
            let join = environment
                .spawn
                .spawn(
                    &format!("hedgerow-{i}"),
                    Box::new(move || shared.work_until_stopped()),
                )
                .map_err(|e| {
                    Error::new(
                        crate::base::error::ErrorKind::Io,
                        format!("cannot start a background thread: {e}"),
                    )
                })?;
            joins.push(join);
        }
        Ok(Scheduler {
            shared,
            threads: Mutex::new(joins),
            after: Arc::new(after),
        })
    }

    /// The number of merges that may run at once now; 1 in a simulation.
    pub(crate) fn merge_threads(&self) -> usize {
        self.shared.merge_threads()
    }

    /// The most merges that may ever run at once.
    pub(crate) fn merge_threads_max(&self) -> usize {
        self.shared.merge_threads_max
    }

    /// Records if merges are so far behind that writers are held back.
    pub(crate) fn set_pressed(&self, is_pressed: bool) {
        if self.shared.is_pressed.load(Ordering::Relaxed) != is_pressed {
            // Under the lock, so that no thread falls asleep on the old value.
            let _queue = self.shared.lock();
            self.shared.is_pressed.store(is_pressed, Ordering::Relaxed);
            self.shared.work.notify_all();
        }
    }

    /// Queues a job. After `stop` it is dropped.
    pub(crate) fn submit(&self, priority: Priority, job: impl FnOnce() + Send + 'static) {
        if self.shared.stopping.load(Ordering::Acquire) {
            return;
        }
        let after = self.after.clone();
        let job = move || {
            job();
            after();
        };
        self.shared.lock().jobs[priority as usize].push_back(Box::new(job));
        self.shared.work.notify_one();
    }

    /// Runs every piece on free threads and on this one, and returns when all are done.
    pub(crate) fn run_all(&self, priority: Priority, pieces: Vec<Box<dyn FnOnce() + Send>>) {
        let pending = Arc::new((Mutex::new(VecDeque::from(pieces)), AtomicUsize::new(0)));
        let helpers = lock(&pending.0).len().saturating_sub(1);
        let shared = self.shared.clone();
        let run_pieces = move |pending: &(Mutex<VecDeque<Job>>, AtomicUsize)| {
            loop {
                let piece = {
                    let mut pieces = lock(&pending.0);
                    let Some(piece) = pieces.pop_front() else {
                        break;
                    };
                    pending.1.fetch_add(1, Ordering::AcqRel);
                    piece
                };
                run_caught(piece, &shared.panics);
                pending.1.fetch_sub(1, Ordering::AcqRel);
                shared.notify_progress();
            }
        };
        if !self.is_inline() {
            for _ in 0..helpers {
                let pending = pending.clone();
                let run_pieces = run_pieces.clone();
                self.submit(priority, move || run_pieces(&pending));
            }
        }
        run_pieces(&pending);
        self.wait_until(|| pending.1.load(Ordering::Acquire) == 0);
    }

    /// True if callers run the jobs.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.shared.mode, Background::Inline { .. })
    }

    /// In a simulation, runs a queued job or none. Callers call it between their steps. Does
    /// nothing if there are threads.
    pub(crate) fn poll(&self) {
        if !self.is_inline() {
            return;
        }
        let drawn = {
            let mut queue = self.shared.lock();
            if queue.is_empty() || queue.random.below(4) != 0 {
                None
            } else {
                queue.draw(self.shared.clock.now())
            }
        };
        if let Some((job, priority)) = drawn {
            self.shared.run_inline(job, priority);
        }
    }

    /// Waits until `done` returns true. Background work must make it true; it is called again after
    /// each progress. A simulation runs jobs meanwhile and returns false if none is left.
    pub(crate) fn wait_until(&self, mut done: impl FnMut() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if self.is_inline() {
                let Some((job, priority)) = self.shared.draw_or_wait() else {
                    return done();
                };
                self.shared.run_inline(job, priority);
            } else {
                let queue = self.shared.lock();
                // Bounded, so that a progress between the check and the wait costs little.
                drop(
                    self.shared
                        .progress
                        .wait_timeout(queue, Duration::from_millis(5)),
                );
            }
        }
    }

    /// Makes waiters check their conditions again.
    pub(crate) fn notify_progress(&self) {
        self.shared.notify_progress();
    }

    /// Drops the queued jobs, lets the running ones end and joins the threads. On one of these
    /// threads (a job held the last handle) it does not join: they end by themselves.
    pub(crate) fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
        for jobs in &mut self.shared.lock().jobs {
            jobs.clear();
        }
        self.shared.work.notify_all();
        let threads = std::mem::take(&mut *lock(&self.threads));
        let on_worker = {
            let workers = lock(&self.shared.workers);
            workers.contains(&std::thread::current().id())
        };
        for thread in threads.into_iter().filter(|_| !on_worker) {
            // A panic of a job is caught, so the thread itself cannot have panicked.
            let _ = thread.join();
        }
        self.shared.notify_progress();
    }

    /// Processor time of finished jobs of these priorities; zero in a simulation.
    pub(crate) fn cpu(&self, of: &[Priority]) -> Duration {
        let ns = { of.iter() }.map(|it| self.shared.cpu_ns[*it as usize].load(Ordering::Relaxed));
        Duration::from_nanos(ns.sum())
    }

    /// The number of jobs that ended in a panic, each a bug. `stats` reports it.
    pub(crate) fn panics(&self) -> usize {
        self.shared.panics.load(Ordering::Relaxed)
    }
}

/// Threads do not outlive the pool, even if an open fails half way and drops it.
impl Drop for Scheduler {
    fn drop(&mut self) {
        self.stop();
    }
}

impl SchedulerState {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    fn merge_threads(&self) -> usize {
        let left = usize::from(!self.is_pressed.load(Ordering::Relaxed));
        (self.merge_threads_max - left).max(1)
    }

    fn notify_progress(&self) {
        self.progress.notify_all();
    }

    /// Draws a job of a simulation. If only merges are queued and the last one has not ended yet,
    /// advances the clock to its end.
    fn draw_or_wait(&self) -> Option<(Job, usize)> {
        let now = self.clock.now();
        let mut queue = self.lock();
        let drawn = queue.draw(now);
        if drawn.is_some() || queue.is_empty() {
            return drawn;
        }
        self.clock.sleep(queue.merging_until.saturating_sub(now));
        queue.draw(self.clock.now())
    }

    /// Runs a job of a simulation on this thread.
    fn run_inline(&self, job: Job, priority: usize) {
        let before = self.clock.thread_cpu();
        job();
        if is_merge(priority) {
            let took = self.clock.thread_cpu().saturating_sub(before);
            self.lock().merging_until = self.clock.now() + took;
        }
    }

    fn work_until_stopped(&self) {
        {
            let mut workers = lock(&self.workers);
            workers.push(std::thread::current().id());
        }
        let mut queue = self.lock();
        loop {
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            let Some((job, priority)) = queue.next(self.merge_threads()) else {
                queue = self
                    .work
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            queue.running += 1;
            queue.merging += usize::from(is_merge(priority));
            drop(queue);
            let before = self.clock.thread_cpu();
            run_caught(job, &self.panics);
            let took = self.clock.thread_cpu().saturating_sub(before);
            self.cpu_ns[priority].fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
            queue = self.lock();
            queue.running -= 1;
            queue.merging -= usize::from(is_merge(priority));
            self.work.notify_one();
            self.progress.notify_all();
        }
    }
}

/// Catches a panic of a job, so that the thread survives. The job's guards have released its
/// resources, and `stats` reports the count.
fn run_caught(job: Job, panics: &AtomicUsize) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
        panics.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
