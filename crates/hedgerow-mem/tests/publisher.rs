//! Publication in order, with threads. `tests/loom.rs` explores the interleavings.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use hedgerow_mem::Publisher;

#[test]
fn publishes_in_order_whatever_the_order_of_finishing() {
    let publisher = Publisher::new(10, 4);
    assert_eq!((publisher.published(), publisher.begun()), (10, 10));
    let first = publisher.begin(11).unwrap();
    let second = publisher.begin(15).unwrap();
    let third = publisher.begin(16).unwrap();
    publisher.finish(second);
    assert_eq!((publisher.published(), publisher.begun()), (10, 16));
    publisher.finish(first);
    assert_eq!(publisher.published(), 15);
    publisher.wait(15);
    publisher.finish(third);
    assert_eq!(publisher.published(), 16);
}

#[test]
fn a_full_ring_gives_no_ticket_until_the_oldest_is_finished() {
    let publisher = Publisher::new(0, 2);
    let first = publisher.begin(1).unwrap();
    let second = publisher.begin(2).unwrap();
    assert_eq!(publisher.begin(3), None);
    publisher.finish(second);
    assert_eq!(publisher.begin(3), None);
    thread::scope(|scope| {
        scope.spawn(|| publisher.finish(first));
        publisher.wait_for_slot();
    });
    let third = publisher.begin(3).unwrap();
    publisher.finish(third);
    assert_eq!(publisher.published(), 3);
}

#[test]
fn many_committers_and_waiters() {
    const THREADS: usize = 4;
    const COMMITS: u64 = 20_000;
    let publisher = Publisher::new(0, 8);
    let commit = Mutex::new(0);
    let applied: Vec<AtomicBool> = (0..=THREADS as u64 * COMMITS)
        .map(|_| AtomicBool::new(false))
        .collect();
    let checked = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for i in 0..COMMITS {
                    let (seqno, ticket) = {
                        let mut last = commit.lock().unwrap();
                        *last += 1;
                        let ticket = loop {
                            match publisher.begin(*last) {
                                Some(ticket) => break ticket,
                                None => publisher.wait_for_slot(),
                            }
                        };
                        (*last, ticket)
                    };
                    applied[seqno as usize].store(true, Ordering::Relaxed);
                    publisher.finish(ticket);
                    if i % 3 == 0 {
                        publisher.wait(seqno);
                        assert!(publisher.published() >= seqno);
                    }
                }
            });
        }
        scope.spawn(|| {
            let mut seen = 0;
            while seen < THREADS as u64 * COMMITS {
                publisher.wait(seen + 1);
                let published = publisher.published();
                for seqno in seen + 1..=published {
                    assert!(
                        applied[seqno as usize].load(Ordering::Relaxed),
                        "{seqno} is applied"
                    );
                }
                seen = published;
            }
            checked.store(seen, Ordering::Relaxed);
        });
    });
    assert_eq!(checked.load(Ordering::Relaxed), THREADS as u64 * COMMITS);
}
