//! Direct reads made together where there is no io_uring: by threads, each of which makes one at a time.
//!
//! Threads are started when there is first something to read for them, and end with the storage. Whoever
//! waits for reads makes some itself, so that all of them are made even where no thread can be started. A thread
//! reads into memory of its own task, never into the callers'.
//!
//! Cost of a read beside that of the device: a lock, waking a thread, and two copies.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::{RandomRead, ReadInto};

/// With the caller as many as a `multi_get` of 32 keys has under way.
const THREADS_MAX: usize = 31;
/// Nothing of these threads is deep.
const STACK_BYTES: usize = 128 << 10;

/// The threads, and what they are to read.
#[derive(Debug, Default)]
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Something is to be read, or the threads are to end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Task>,
    idle: usize,
    closed: bool,
}

/// A read that any thread may make.
#[derive(Debug)]
struct Task {
    file: Arc<dyn RandomRead>,
    offset: u64,
    bytes: Vec<u8>,
    /// Which of its caller's.
    index: usize,
    done: Sender<Done>,
}

type Done = (usize, Vec<u8>, io::Result<()>);

impl Task {
    fn make(mut self) {
        let result = self.file.read_at(self.offset, &mut self.bytes);
        // Who asked for it waits for all of its reads.
        drop(self.done.send((self.index, self.bytes, result)));
    }
}

impl Readers {
    /// Makes all of these reads, several at the same time; each is told its own result.
    pub(super) fn read(&self, reads: &mut [(Arc<dyn RandomRead>, &mut ReadInto<'_>)]) {
        let (done, ended) = mpsc::channel();
        let tasks = reads.iter_mut().enumerate().map(|(index, (file, read))| {
            read.result = Err(io::Error::other("a thread that reads has ended"));
            Task {
                file: file.clone(),
                offset: read.offset,
                bytes: vec![0; read.bytes.len()],
                index,
                done: done.clone(),
            }
        });
        self.give(tasks.collect());
        drop(done);
        // No more than there are of its own: it need not wait for others because it has helped them.
        (0..reads.len())
            .map_while(|_| self.shared.take())
            .for_each(Task::make);
        for (index, bytes, result) in ended {
            let read = &mut reads[index].1;
            read.bytes.copy_from_slice(&bytes);
            read.result = result;
        }
    }

    /// The caller will make one of them itself.
    fn give(&self, tasks: Vec<Task>) {
        let others = tasks.len().saturating_sub(1);
        let mut state = self.shared.lock();
        state.waiting.extend(tasks);
        let idle = state.idle;
        let wanted = state.waiting.len().saturating_sub(1 + idle);
        drop(state);
        match others < idle {
            true => (0..others).for_each(|_| self.shared.changed.notify_one()),
            false => self.shared.changed.notify_all(),
        }
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..wanted.min(THREADS_MAX - threads.len()) {
            let shared = self.shared.clone();
            let reader = thread::Builder::new()
                .name("hedgerow-read".to_owned())
                .stack_size(STACK_BYTES);
            let Ok(thread) = reader.spawn(move || shared.read_until_closed()) else {
                return;
            };
            threads.push(thread);
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        let threads = self.threads.get_mut();
        for thread in threads.unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A panic of it was its caller's error.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Task> {
        self.lock().waiting.pop_front()
    }

    fn read_until_closed(&self) {
        while let Some(task) = self.wait_and_take() {
            task.make();
        }
    }

    /// Nothing when the threads are to end: then nobody waits for a read.
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
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// A file whose bytes are its offsets' last ones, which fails where it is told to.
    #[derive(Debug, Default)]
    struct Scripted {
        fails_at: Option<u64>,
        /// No read ends before so many have begun.
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

    /// Reads of 16 bytes at these offsets: what each gave.
    fn read(
        readers: &Readers,
        file: &Arc<Scripted>,
        offsets: &[u64],
    ) -> Vec<Result<Vec<u8>, io::ErrorKind>> {
        let mut memory = vec![[0; 16]; offsets.len()];
        let buffers = offsets.iter().zip(&mut memory);
        let mut reads: Vec<_> = buffers
            .map(|(offset, bytes)| ReadInto::new(&**file, *offset, bytes))
            .collect();
        let mut given: Vec<_> = reads
            .iter_mut()
            .map(|read| (file.clone() as Arc<dyn RandomRead>, read))
            .collect();
        readers.read(&mut given);
        let results = reads.into_iter().map(|read| {
            let bytes = read.bytes.to_vec();
            read.result.map(|()| bytes).map_err(|e| e.kind())
        });
        results.collect()
    }

    #[test]
    fn reads_are_made_at_the_same_time() {
        let readers = Readers::default();
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
        let readers = Readers::default();
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
        let readers = Readers::default();
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
