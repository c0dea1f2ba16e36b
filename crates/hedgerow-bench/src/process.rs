//! What the system says of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Processor time of all its threads, in user and system mode.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// Bytes of memory that are in RAM.
pub(crate) fn resident_bytes() -> Option<u64> {
    Some(field("/proc/self/status", "VmRSS:")? << 10)
}

/// Bytes that it made the storage layer read and write, those of mapped files included.
pub(crate) fn storage_bytes() -> Option<(u64, u64)> {
    let io = "/proc/self/io";
    Some((field(io, "read_bytes:")?, field(io, "write_bytes:")?))
}

/// The number behind a name in a file of lines.
fn field(path: &str, name: &str) -> Option<u64> {
    #[allow(
        clippy::disallowed_methods,
        reason = "a file of the system, not of a store"
    )]
    let text = String::from_utf8(std::fs::read(path).ok()?).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_time_and_memory() {
        assert!(cpu_time() > Duration::ZERO);
        if cfg!(target_os = "linux") {
            assert!(resident_bytes().is_some_and(|bytes| bytes > 1 << 16));
        }
    }
}
