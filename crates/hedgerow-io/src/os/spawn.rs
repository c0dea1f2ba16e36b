//! Threads of the system.

use std::io;
use std::thread::{self, JoinHandle};

use crate::{Join, Spawn};

/// Starts threads of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsSpawn;

impl Spawn for OsSpawn {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Join>> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Box::new(OsThread(thread)))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn processors(&self) -> Vec<usize> {
        let Ok(allowed) = rustix::thread::sched_getaffinity(None) else {
            return Vec::new();
        };
        let all = 0..rustix::thread::CpuSet::MAX_CPU;
        all.filter(|&processor| allowed.is_set(processor)).collect()
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn pin(&self, processor: usize) -> io::Result<()> {
        let mut one = rustix::thread::CpuSet::new();
        if processor >= rustix::thread::CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        one.set(processor);
        Ok(rustix::thread::sched_setaffinity(None, &one)?)
    }
}

#[derive(Debug)]
struct OsThread(JoinHandle<()>);

impl Join for OsThread {
    fn join(self: Box<Self>) -> thread::Result<()> {
        self.0.join()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_run_on_its_processor_only() {
        let allowed = OsSpawn.processors();
        assert!(!allowed.is_empty());
        let last = allowed[allowed.len() - 1];
        let body = move || match OsSpawn.pin(last) {
            Ok(()) => assert_eq!(OsSpawn.processors(), [last]),
            // A sandbox refused: the thread runs on the allowed processors.
            Err(_) => assert_eq!(OsSpawn.processors(), allowed),
        };
        let thread = OsSpawn.spawn("pinned", Box::new(body)).unwrap();
        thread.join().unwrap();
        assert!(OsSpawn.pin(1 << 20).is_err());
    }
}
