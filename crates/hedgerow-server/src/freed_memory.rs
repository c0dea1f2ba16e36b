//! Giving memory back to the system that bursts of clients have used and freed.
//!
//! The allocator keeps freed memory in each of its arenas, so after a burst on many connections the
//! process would stay as large as it was at its largest. So it has few arenas. While the process
//! takes more than the budget of the engine and [`MORE_BYTES`], what is free is given back, and
//! seldom if that is little: it stops allocations for milliseconds.

use std::time::Duration;

use hedgerow_io::os::{give_back_freed_memory, limit_arenas};

/// The bytes of a process beside the budget below which nothing is given back: its program, the
/// mapped ends of the log, stacks, connections.
const MORE_BYTES: u64 = 40 << 20;
const PAUSE: Duration = Duration::from_secs(1);
/// The pauses after freed memory was given back: few if it was much.
const PAUSES: [u32; 2] = [5, 60];
const MUCH_BYTES: u64 = 8 << 20;

/// Lets threads that run commands share what others have freed. Called before they begin. Fewer
/// arenas than threads would wait for each other: a twelfth of the time of pipelines, on 2 threads.
pub(crate) fn share(threads: usize) {
    limit_arenas(threads);
}

/// Looks at the memory of the process until the server ends.
pub(crate) async fn run(budget: u64) {
    let mut pauses = 1;
    loop {
        tokio::time::sleep(PAUSE * pauses).await;
        pauses = 1;
        let [before, _] = resident_bytes();
        if before <= budget + MORE_BYTES {
            continue;
        }
        // Nothing else waits for it, and it has no result but its end.
        let _ = tokio::task::spawn_blocking(give_back_freed_memory).await;
        let freed = before.saturating_sub(resident_bytes()[0]);
        pauses = PAUSES[usize::from(freed < MUCH_BYTES)];
    }
}

/// The bytes of the process in memory, now and at most, as Linux tells them; elsewhere 0.
#[allow(
    clippy::disallowed_methods,
    reason = "a file of the system, not of the database"
)]
pub(crate) fn resident_bytes() -> [u64; 2] {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ["VmRSS:", "VmHWM:"].map(|name| {
        let line = status.lines().find_map(|it| it.strip_prefix(name));
        let digits = line.and_then(|it| it.trim().strip_suffix(" kB"));
        let kib = digits.and_then(|it| it.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    })
}
