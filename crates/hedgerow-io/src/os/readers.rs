//! Overlapping direct reads without io_uring, by threads. Each thread makes one read at a time.
//!
//! The first read starts the threads, and they end with the storage. A waiting caller makes its own
//! reads that no thread has taken. So every read is made even if no thread can be started. A thread
//! reads into memory of its own task, never into the caller's.
//!
//! Cost of a read beside that of the device: a lock, a wake-up of a thread, and two copies.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::reads::Read;

/// The maximum of threads. With the caller they make the 32 reads of a `multi_get` of 32 keys.
const THREADS_MAX: usize = 31;
/// The stack of a thread: none of their calls is deep.
const STACK_BYTES: usize = 128 << 10;

/// The threads and their queue of reads.
#[derive(Debug, Default)]
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    callers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Signals a new task, or the end of the threads.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Task>,
    idle: usize,
    closed: bool,
}

/// A read for any thread. Dropping it sends its result to its caller.
#[derive(Debug)]
struct Task {
    read: Read,
    bytes: Vec<u8>,
    result: io::Result<()>,
    done: Sender<Done>,
    /// The number of the task's caller.
    caller: usize,
}

type Done = (usize, io::Result<Vec<u8>>);

impl Task {
    fn make(mut self) {
        self.result = self.read.make(&mut self.bytes).map(drop);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let result = std::mem::replace(&mut self.result, Ok(()));
        let bytes = std::mem::take(&mut self.bytes);
        // The caller may have abandoned it.
        drop(self.done.send((self.read.tag, result.map(|()| bytes))));
    }
}

/// The reads of one caller.
#[derive(Debug)]
pub(super) struct PoolReads {
    readers: Arc<Readers>,
    caller: usize,
    done: Sender<Done>,
    ended: Receiver<Done>,
    under_way: usize,
    bytes: Vec<u8>,
}

impl PoolReads {
    pub(super) fn new(readers: Arc<Readers>) -> PoolReads {
        let caller = readers.callers.fetch_add(1, Ordering::Relaxed);
        let (done, ended) = mpsc::channel();
        PoolReads {
            readers,
            caller,
            done,
            ended,
            under_way: 0,
            bytes: Vec::new(),
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    pub(super) fn begin(&mut self, read: Read) {
        self.under_way += 1;
        self.readers.give(Task {
            read,
            bytes: Vec::new(),
            result: Err(io::Error::other("a thread that reads has ended")),
            done: self.done.clone(),
            caller: self.caller,
        });
    }

    /// Waits as [`Reads::next`](crate::Reads::next) does. Makes the reads itself that no thread has
    /// taken.
    pub(super) fn next(&mut self) -> Option<(usize, io::Result<&[u8]>)> {
        if !self.is_under_way() {
            return None;
        }
        let (tag, result) = loop {
            if let Ok(done) = self.ended.try_recv() {
                break done;
            }
            match self.readers.shared.take_of(self.caller) {
                Some(task) => task.make(),
                None => break self.ended.recv().ok()?,
            }
        };
        self.under_way -= 1;
        let read = result.map(|bytes| {
            self.bytes = bytes;
            &*self.bytes
        });
        Some((tag, read))
    }
}

impl Drop for PoolReads {
    fn drop(&mut self) {
        while self.readers.shared.take_of(self.caller).is_some() {}
    }
}

impl Readers {
    /// Adds a task. A single waiting task wakes no thread: its caller makes it.
    fn give(&self, task: Task) {
        let mut state = self.shared.lock();
        state.waiting.push_back(task);
        let (waiting, idle) = (state.waiting.len(), state.idle);
        drop(state);
        if waiting > 1 {
            self.shared.changed.notify_one();
        }
        if waiting > idle + 1 {
            self.start_thread();
        }
    }

    /// Starts another thread within `THREADS_MAX`, if the system allows it.
    fn start_thread(&self) {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if threads.len() >= THREADS_MAX {
            return;
        }
        let shared = self.shared.clone();
        let reader = thread::Builder::new()
            .name("hedgerow-read".to_owned())
            .stack_size(STACK_BYTES);
        threads.extend(reader.spawn(move || shared.read_until_closed()));
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        let threads = self.threads.get_mut();
        for thread in threads.unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A panic of a reader was an error of its caller.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the oldest waiting task of a caller.
    fn take_of(&self, caller: usize) -> Option<Task> {
        let waiting = &mut self.lock().waiting;
        let at = waiting.iter().position(|task| task.caller == caller)?;
        waiting.remove(at)
    }

    fn read_until_closed(&self) {
        while let Some(task) = self.wait_and_take() {
            task.make();
        }
    }

    /// Waits for a task. `None` if the threads are to end; then no caller waits for a read.
    fn wait_and_take(&self) -> Option<Task> {
        let mut state = self.lock();
        state.idle += 1;
        let waited = self
            .changed
            .wait_while(state, |it| it.waiting.is_empty() && !it.closed);
        state = waited.unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        state.waiting.pop_front()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::RandomRead;

    /// A file whose bytes are the low bytes of their offsets. It fails at a chosen offset.
    #[derive(Debug, Default)]
    struct Scripted {
        fails_at: Option<u64>,
        /// The number of reads that must begin before any read ends.
        begun_min: usize,
        begun: Mutex<usize>,
        more: Condvar,
        made: AtomicUsize,
    }

    impl RandomRead for Scripted {
        fn bytes(&self) -> u64 {
            1 << 20
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
            let mut begun = self.begun.lock().unwrap();
            *begun += 1;
            self.more.notify_all();
            let is_waiting = |begun: &mut usize| *begun < self.begun_min;
            let waited = self
                .more
                .wait_timeout_while(begun, Duration::from_secs(60), is_waiting);
            assert!(!waited.unwrap().1.timed_out(), "expected reads at once");
            self.made.fetch_add(1, Ordering::Relaxed);
            if self.fails_at == Some(offset) {
                return Err(io::Error::from_raw_os_error(5));
            }
            buf.fill(offset as u8);
            Ok(())
        }
    }

    /// Reads 16 bytes at each of these offsets and returns the results.
    fn read(
        readers: &Arc<Readers>,
        file: &Arc<Scripted>,
        offsets: &[u64],
    ) -> Vec<Result<Vec<u8>, io::ErrorKind>> {
        let mut reads = PoolReads::new(readers.clone());
        let file: Arc<dyn RandomRead> = file.clone();
        for (tag, &offset) in offsets.iter().enumerate() {
            reads.begin(Read::new(&file, offset, 16, tag));
        }
        let mut found = vec![None; offsets.len()];
        while let Some((tag, bytes)) = reads.next() {
            let before = found[tag].replace(bytes.map(<[u8]>::to_vec).map_err(|e| e.kind()));
            assert_eq!(before, None);
        }
        found.into_iter().map(Option::unwrap).collect()
    }

    #[test]
    fn reads_are_made_at_the_same_time() {
        let readers = Arc::new(Readers::default());
        let file = Arc::new(Scripted {
            begun_min: THREADS_MAX + 1,
            ..Scripted::default()
        });
        let offsets: Vec<u64> = (0..100).collect();
        let expected: Vec<_> = offsets.iter().map(|&at| Ok(vec![at as u8; 16])).collect();
        assert_eq!(read(&readers, &file, &offsets), expected);
        assert_eq!(file.made.load(Ordering::Relaxed), 100);
        assert_eq!(readers.threads.lock().unwrap().len(), THREADS_MAX);
        assert_eq!(read(&readers, &file, &[]), []);
    }

    #[test]
    fn a_read_that_fails_fails_alone() {
        let readers = Arc::new(Readers::default());
        let file = Arc::new(Scripted {
            fails_at: Some(3),
            begun_min: 2,
            ..Scripted::default()
        });
        for _ in 0..50 {
            let found = read(&readers, &file, &[1, 2, 3, 4]);
            let failed = Err(io::Error::from_raw_os_error(5).kind());
            let expected = [Ok(vec![1; 16]), Ok(vec![2; 16]), failed, Ok(vec![4; 16])];
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn callers_do_not_take_each_others_results() {
        let readers = Arc::new(Readers::default());
        let file = Arc::new(Scripted::default());
        thread::scope(|scope| {
            for caller in 0..4 {
                let (readers, file) = (&readers, &file);
                scope.spawn(move || {
                    let offsets: Vec<u64> = (0..20).map(|i| caller * 50 + i).collect();
                    for _ in 0..50 {
                        let found = read(readers, file, &offsets);
                        for (offset, bytes) in offsets.iter().zip(found) {
                            assert_eq!(bytes, Ok(vec![*offset as u8; 16]));
                        }
                    }
                });
            }
        });
        assert_eq!(file.made.load(Ordering::Relaxed), 4 * 50 * 20);
    }
}
