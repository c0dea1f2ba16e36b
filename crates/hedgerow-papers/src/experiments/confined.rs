//! Trials on a part of the processors.

/// Keeps the calling thread, and all threads that it starts later, on the first `count` processors
/// of its set, until this is dropped.
pub(super) struct Confined {
    #[cfg(target_os = "linux")]
    before: rustix::thread::CpuSet,
}

impl Confined {
    #[cfg(target_os = "linux")]
    pub(super) fn to(count: usize) -> std::io::Result<Confined> {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
        let before = sched_getaffinity(None)?;
        let mut few = CpuSet::new();
        let may_run = (0..CpuSet::MAX_CPU).filter(|&processor| before.is_set(processor));
        may_run.take(count).for_each(|processor| few.set(processor));
        sched_setaffinity(None, &few)?;
        Ok(Confined { before })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn to(count: usize) -> std::io::Result<Confined> {
        let message = format!("expected a system that keeps threads on {count} processors");
        Err(std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            message,
        ))
    }
}

#[cfg(target_os = "linux")]
impl Drop for Confined {
    fn drop(&mut self) {
        // The system accepted a smaller set, so it accepts the original one.
        let _ = rustix::thread::sched_setaffinity(None, &self.before);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn threads_can_be_confined() {
        let all = std::thread::available_parallelism().unwrap();
        {
            let _few = Confined::to(1).unwrap();
            assert_eq!(std::thread::available_parallelism().unwrap().get(), 1);
        }
        assert_eq!(std::thread::available_parallelism().unwrap(), all);
    }
}
