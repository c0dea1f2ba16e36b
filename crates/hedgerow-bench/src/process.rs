//! The system's counters for this process.

use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time of all threads, in user and system mode.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The time that the hypervisor took from all processors since the system began, in hundredths of a
/// second.
pub(crate) fn stolen_time() -> Option<Duration> {
    let text = text("/proc/stat".as_ref())?;
    // `cpu user nice system idle iowait irq softirq steal ...`
    let ticks: u64 = text.split_whitespace().nth(8)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

/// The processor time of running threads whose names begin with `prefix`.
pub fn cpu_time_of_threads(prefix: &str) -> Option<Duration> {
    let mut ns = 0;
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?.path();
        // The thread may have ended.
        let (Some(name), Some(times)) =
            (text(&thread.join("comm")), text(&thread.join("schedstat")))
        else {
            continue;
        };
        if name.starts_with(prefix) {
            ns += times.split_whitespace().next()?.parse::<u64>().ok()?;
        }
    }
    Some(Duration::from_nanos(ns))
}

/// Makes the system write back everything and drop its cache of files. Returns true if the process
/// may do so.
pub(crate) fn drop_page_cache() -> bool {
    rustix::fs::sync();
    #[allow(
        clippy::disallowed_methods,
        reason = "a switch of the system, no file of a store"
    )]
    std::fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

/// The bytes of resident memory.
pub(crate) fn resident_bytes() -> Option<u64> {
    Some(field("/proc/self/status", "VmRSS:")? << 10)
}

/// The bytes that the storage layer read and wrote for the process, with those of mapped files.
pub(crate) fn storage_bytes() -> Option<(u64, u64)> {
    let io = "/proc/self/io";
    Some((field(io, "read_bytes:")?, field(io, "write_bytes:")?))
}

/// The number behind a name in a file of lines.
fn field(path: &str, name: &str) -> Option<u64> {
    let text = text(path.as_ref())?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    #[allow(
        clippy::disallowed_methods,
        reason = "a file of the system, not of a store"
    )]
    let bytes = std::fs::read(path).ok()?;
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn threads_are_told_apart() {
        let named = std::thread::Builder::new().name("busy-bee".to_owned());
        let its_time = named.spawn(|| {
            while cpu_time_of_threads("busy").unwrap_or_default() < Duration::from_millis(2) {}
            cpu_time_of_threads("no such thread")
        });
        assert_eq!(its_time.unwrap().join().unwrap(), Some(Duration::ZERO));
    }

    #[test]
    fn a_process_has_used_time_and_memory() {
        assert!(cpu_time() > Duration::ZERO);
        if cfg!(target_os = "linux") {
            assert!(stolen_time().is_some());
            assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 16));
        }
    }
}
