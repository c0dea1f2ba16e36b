//! Runs threads that begin together, each with its own client, and measures the time of every call.
#![allow(
    clippy::disallowed_methods,
    reason = "a bench measures the time of the machine"
)]

use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::latency::Latency;
use crate::process;
use crate::store::Result;

/// One thread's part of a workload.
pub(crate) trait Client: Send {
    /// Does `count` operations in one call of the store; `place` is the index of the first one
    /// among all operations of all threads.
    fn call(&mut self, place: u64, count: u64) -> Result<()>;

    /// Waits for the end of calls that were under way when `call` returned.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// The times of asynchronous calls, which count instead of those of `call`.
    fn latency(&mut self) -> Option<Latency> {
        None
    }

    /// The bytes of keys and values written so far.
    fn user_bytes(&self) -> u64;
}

/// The clients and their operations.
pub(crate) struct Work<'a> {
    /// One client per thread; they divide the operations.
    pub(crate) clients: Vec<Box<dyn Client + 'a>>,
    /// A client that runs as long as any of them, unmeasured.
    pub(crate) background: Option<Box<dyn Client + 'a>>,
    /// The indexes of the operations.
    pub(crate) places: Range<u64>,
    pub(crate) ops_per_call: u64,
    /// Called by each thread with the number of operations since its last call.
    pub(crate) advanced: &'a (dyn Fn(u64) + Sync),
}

/// The work done, and its time.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub(crate) ops: u64,
    /// The time from the begin of the first thread to the end of the last one.
    pub(crate) seconds: f64,
    /// The latency of every call.
    pub(crate) latency: Latency,
    /// The bytes written, also by the background client.
    pub(crate) user_bytes: u64,
    pub(crate) background_ops: u64,
}

/// The interval between two progress reports of a thread.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Calls of at least this time are held against what the hypervisor took.
const LONG: Duration = Duration::from_millis(4);

/// The time that the hypervisor takes from all processors between two looks.
struct Stolen(Option<Duration>);

impl Stolen {
    fn look(&mut self) -> Option<Duration> {
        let before = std::mem::replace(&mut self.0, process::stolen_time());
        Some(self.0?.saturating_sub(before?))
    }
}

struct Part {
    began: Instant,
    ended: Instant,
    latency: Latency,
    user_bytes: u64,
}

impl Work<'_> {
    /// Runs all operations. The first failure ends all threads.
    pub(crate) fn run(self) -> Result<Done> {
        let threads = self.clients.len() as u64;
        let barrier = &Barrier::new(self.clients.len() + self.background.iter().len());
        let stop = &AtomicBool::new(false);
        let Work {
            ref places,
            ops_per_call,
            advanced,
            ..
        } = self;
        let (first, ops) = (places.start, places.end - places.start);
        let (parts, background) = thread::scope(|scope| {
            let share =
                |i: u64| first + (u128::from(ops) * u128::from(i) / u128::from(threads)) as u64;
            let running: Vec<_> = { self.clients.into_iter().zip(0..) }
                .map(|(mut client, i)| {
                    let places = share(i)..share(i + 1);
                    scope.spawn(move || {
                        barrier.wait();
                        let part = measure(&mut *client, places, ops_per_call, advanced, stop);
                        // After a failure the other threads stop.
                        stop.fetch_or(part.is_err(), Ordering::Relaxed);
                        part
                    })
                })
                .collect();
            let background = self.background.map(|mut client| {
                scope.spawn(move || {
                    barrier.wait();
                    repeat(&mut *client, stop)
                })
            });
            let parts: Vec<Result<Part>> = running.into_iter().map(join).collect();
            stop.store(true, Ordering::Relaxed);
            (parts, background.map(join))
        });
        let parts = parts.into_iter().collect::<Result<Vec<Part>>>()?;
        let (background_ops, background_bytes) = background.transpose()?.unwrap_or_default();
        Ok(summed(ops, &parts, background_ops, background_bytes))
    }
}

/// Returns the result of a thread. Panics if the thread did.
fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Reads the clock once per call: a call begins at the end of the one before. The time includes
/// making keys and values.
fn measure(
    client: &mut dyn Client,
    places: Range<u64>,
    ops_per_call: u64,
    advanced: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<Part> {
    let (mut latency, mut stolen) = (Latency::new(), Stolen(process::stolen_time()));
    let began = Instant::now();
    let (mut last, mut told) = (began, began);
    let (mut place, mut told_place) = (places.start, places.start);
    while place < places.end && !stop.load(Ordering::Relaxed) {
        let count = ops_per_call.min(places.end - place);
        client.call(place, count)?;
        place += count;
        let now = Instant::now();
        let is_longest = latency.record(now - last);
        let is_time = now - told >= PROGRESS_EVERY;
        if is_longest && now - last >= LONG {
            // The last look is at most a call and an interval of progress ago.
            latency.note_stolen(stolen.look());
            last = Instant::now();
        } else if is_time {
            stolen.look();
            last = Instant::now();
        } else {
            last = now;
        }
        if is_time {
            advanced(place - told_place);
            (told, told_place) = (now, place);
        }
    }
    client.finish()?;
    advanced(place - told_place);
    Ok(Part {
        began,
        ended: Instant::now(),
        latency: client.latency().unwrap_or(latency),
        user_bytes: client.user_bytes(),
    })
}

/// Does single operations until `stop`. Returns their number and the bytes that they wrote.
fn repeat(client: &mut dyn Client, stop: &AtomicBool) -> Result<(u64, u64)> {
    let mut ops = 0;
    while !stop.load(Ordering::Relaxed) {
        client.call(ops, 1)?;
        ops += 1;
    }
    Ok((ops, client.user_bytes()))
}

fn summed(ops: u64, parts: &[Part], background_ops: u64, background_bytes: u64) -> Done {
    let mut latency = Latency::new();
    parts.iter().for_each(|part| latency.add(&part.latency));
    let began = parts.iter().map(|part| part.began).min();
    let ended = parts.iter().map(|part| part.ended).max();
    let took = ended.zip(began).map(|(ended, began)| ended - began);
    Done {
        ops,
        seconds: took.unwrap_or_default().as_secs_f64(),
        latency,
        user_bytes: background_bytes + parts.iter().map(|part| part.user_bytes).sum::<u64>(),
        background_ops,
    }
}
