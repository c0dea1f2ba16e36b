//! Asynchronous calls: one thread that keeps many reads and writes under way.
//!
//! Workers own the partitions. What has gathered in the queue of one becomes a single commit, and
//! reads that overlap. A result is a future for any runtime; `wait` needs none.
//!
//! Run with `cargo run --example many_calls`.
#![allow(clippy::print_stdout, reason = "an example speaks to its reader")]

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use hedgerow::{Db, ErrorKind, Keyspace, Layout, Pending, Result, Slice};

const USERS: u32 = 20_000;
/// The number of gets under way at the same time: enough to keep a fast disk busy.
const WINDOW: usize = 64;

/// Moves a session to another user; a handler of a server could be written like this.
async fn hand_over(sessions: &Keyspace, from: u32, to: u32) -> Result<bool> {
    let Some(session) = sessions.get_async(from.to_be_bytes()).await? else {
        return Ok(false);
    };
    // Both are queued before either is waited for.
    let put = sessions.put_async(to.to_be_bytes(), session);
    let delete = sessions.delete_async(from.to_be_bytes());
    put.await?;
    delete.await?;
    Ok(true)
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let db = Db::builder(dir.path()).workers(2).open()?;
    let sessions = db.keyspace("sessions", Layout::sorted().hash(4))?;

    // Nobody waits for these, unless a queue is full. The barrier tells whether all were made.
    for user in 0..USERS {
        sessions.put_later(user.to_be_bytes(), format!("began at {user}"))?;
    }
    db.barrier().wait()?;
    assert_eq!(sessions.scan::<&[u8]>(..)?.count(), USERS as usize);

    // A window of gets; the oldest is waited for when it is full.
    let (mut window, mut found) = (VecDeque::new(), 0);
    let mut end = |get: Pending<Option<Slice>>| -> Result<()> {
        found += u32::from(get.wait()?.is_some());
        Ok(())
    };
    for user in 0..2 * USERS {
        window.push_back(sessions.get_async(user.to_be_bytes()));
        if window.len() > WINDOW
            && let Some(oldest) = window.pop_front()
        {
            end(oldest)?;
        }
    }
    window.into_iter().try_for_each(end)?;
    assert_eq!(found, USERS);

    // Calls of one thread for one key take effect in the order in which they are made.
    let visits: Vec<_> = (0..100)
        .map(|_| {
            sessions.update_async("visits", |old| {
                let old = old.map_or(0, |count| count[0]);
                Some(vec![old + 1])
            })
        })
        .collect();
    for (visit, count) in visits.into_iter().zip(1..) {
        assert_eq!(visit.wait()?.as_deref(), Some(&[count][..]));
    }

    // A caller that would rather lose a call than wait gets an error from a full queue.
    let mut refused = 0;
    for user in 0..USERS {
        match sessions.try_put_later(user.to_be_bytes(), "here again") {
            Err(error) if error.kind() == ErrorKind::WouldBlock => refused += 1,
            result => result?,
        }
    }
    db.barrier().wait()?;

    assert!(block_on(hand_over(&sessions, 7, USERS))?);
    assert!(!block_on(hand_over(&sessions, 7, USERS))?);
    assert_eq!(sessions.get(7_u32.to_be_bytes())?, None);

    for worker in db.stats().workers {
        let each = worker.done as f64 / worker.batches.max(1) as f64;
        println!(
            "worker {}: {} calls in batches of {each:.1}",
            worker.index, worker.done
        );
    }
    println!("{refused} calls were refused by a full queue");
    Ok(())
}

/// Runs one future to its end on this thread, as a runtime would.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn it_runs() -> Result<()> {
    main()
}
