//! The promises of the pool, with threads and without.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hedgerow_io::sim::SimStorage;
use hedgerow_io::{Background, Environment};

use super::*;

fn threaded(threads: usize) -> Scheduler {
    let background = Background::Threads(threads);
    let environment = Environment {
        background,
        ..Environment::os()
    };
    Scheduler::start(&environment, || ()).unwrap()
}

fn inline(seed: u64) -> Scheduler {
    let disk = SimStorage::new(seed);
    Scheduler::start(&Environment::simulated(&disk, seed), || ()).unwrap()
}

#[test]
fn every_piece_is_run_before_run_all_returns() {
    for scheduler in [threaded(2), threaded(4), inline(7)] {
        let done = Arc::new(AtomicUsize::new(0));
        let pieces = (0..50).map(|_| {
            let done = done.clone();
            Box::new(move || {
                done.fetch_add(1, Ordering::SeqCst);
            }) as Job
        });
        scheduler.run_all(Priority::Merge, pieces.collect());
        assert_eq!(done.load(Ordering::SeqCst), 50);
    }
}

/// Otherwise merges would wait for ever for something that only a flush can give.
#[test]
fn a_flush_runs_while_merges_take_all_threads_they_may() {
    let scheduler = threaded(2);
    let flushed = Arc::new(AtomicUsize::new(0));
    let merged = Arc::new(AtomicUsize::new(0));
    for _ in 0..4 {
        let (flushed, merged) = (flushed.clone(), merged.clone());
        scheduler.submit(Priority::Merge, move || {
            while flushed.load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            merged.fetch_add(1, Ordering::SeqCst);
        });
    }
    let flush = flushed.clone();
    scheduler.submit(Priority::Flush, move || flush.store(1, Ordering::SeqCst));
    assert!(scheduler.wait_until(|| merged.load(Ordering::SeqCst) == 4));
}

#[test]
fn one_more_merge_runs_while_writers_are_held_back() {
    let scheduler = threaded(4);
    assert_eq!(scheduler.merge_threads(), 1);
    let met = Arc::new(std::sync::Barrier::new(2));
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let (met, ended) = (met.clone(), ended.clone());
        scheduler.submit(Priority::Merge, move || {
            met.wait();
            ended.fetch_add(1, Ordering::SeqCst);
        });
    }
    scheduler.set_pressed(true);
    assert_eq!(scheduler.merge_threads(), 2);
    assert!(scheduler.wait_until(|| ended.load(Ordering::SeqCst) == 2));
    scheduler.set_pressed(false);
    assert_eq!(scheduler.merge_threads(), 1);
}

#[test]
fn a_job_that_panics_is_counted_and_the_thread_goes_on() {
    let scheduler = threaded(2);
    scheduler.submit(Priority::Merge, || panic!("on purpose"));
    let after = Arc::new(AtomicUsize::new(0));
    let job = after.clone();
    scheduler.submit(Priority::Merge, move || job.store(1, Ordering::SeqCst));
    assert!(scheduler.wait_until(|| after.load(Ordering::SeqCst) == 1));
    assert_eq!(scheduler.panics(), 1);
}

#[test]
fn without_threads_the_order_of_jobs_is_drawn_from_the_seed() {
    let order = |seed| {
        let scheduler = inline(seed);
        let ran = Arc::new(Mutex::new(Vec::new()));
        for i in 0..20 {
            let ran = ran.clone();
            scheduler.submit(Priority::Merge, move || ran.lock().unwrap().push(i));
        }
        assert!(scheduler.wait_until(|| ran.lock().unwrap().len() == 20));
        Arc::into_inner(ran).unwrap().into_inner().unwrap()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn waiting_without_threads_ends_when_no_job_is_left() {
    assert!(!inline(3).wait_until(|| false));
}

#[test]
fn what_is_queued_when_it_stops_is_dropped() {
    let scheduler = inline(4);
    let kept = Arc::new(());
    let job = kept.clone();
    scheduler.submit(Priority::Flush, move || drop(job));
    scheduler.stop();
    assert_eq!(Arc::strong_count(&kept), 1);
}
