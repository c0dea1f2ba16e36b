//! The calls of each command: how many, how long they took, how many failed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::commands::{COMMANDS, Command, index_of};
use crate::striped::Striped;

/// The bounds of the durations that are counted together, in microseconds.
pub(crate) const DURATION_MICROS: [u64; 16] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000,
];

/// The counters of a command.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) micros: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// The calls up to each of [`DURATION_MICROS`], and those beyond.
    pub(crate) durations: [AtomicU64; DURATION_MICROS.len() + 1],
}

impl Counters {
    /// Counts a call. What would add nothing is left out.
    pub(crate) fn note(&self, micros: u64, failed: bool) {
        let bucket = DURATION_MICROS.partition_point(|it| *it < micros);
        self.durations[bucket].fetch_add(1, Ordering::Relaxed);
        if micros > 0 {
            self.micros.fetch_add(micros, Ordering::Relaxed);
        }
        if failed {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The number of calls.
    pub(crate) fn calls(&self) -> u64 {
        let all = self.durations.iter();
        all.map(|it| it.load(Ordering::Relaxed)).sum()
    }

    fn add(&self, other: &Counters) {
        for (total, number) in self.all().zip(other.all()) {
            total.fetch_add(number.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        [&self.micros, &self.failed]
            .into_iter()
            .chain(&self.durations)
    }
}

/// The counters of all commands, in the order of the table. Threads that call none have none.
#[derive(Debug, Default)]
pub(crate) struct CommandCounters(Striped<OnceLock<Vec<Counters>>>);

impl CommandCounters {
    pub(crate) fn note(&self, command: &Command, micros: u64, failed: bool) {
        self.own(command).note(micros, failed);
    }

    /// Counts the failure of a call that was counted when it began to wait.
    pub(crate) fn note_failure(&self, command: &Command) {
        self.own(command).failed.fetch_add(1, Ordering::Relaxed);
    }

    fn own(&self, command: &Command) -> &Counters {
        &self.0.own().get_or_init(none)[index_of(command)]
    }

    /// The numbers of all threads together.
    pub(crate) fn totals(&self) -> Vec<Counters> {
        let totals = none();
        for counters in self.0.all().filter_map(OnceLock::get) {
            totals
                .iter()
                .zip(counters)
                .for_each(|(total, it)| total.add(it));
        }
        totals
    }

    /// The number of calls of all commands.
    pub(crate) fn calls(&self) -> u64 {
        let all = self.0.all().filter_map(OnceLock::get).flatten();
        all.map(Counters::calls).sum()
    }

    pub(crate) fn reset(&self) {
        let all = self.0.all().filter_map(OnceLock::get).flatten();
        all.flat_map(Counters::all)
            .for_each(|it| it.store(0, Ordering::Relaxed));
    }
}

fn none() -> Vec<Counters> {
    COMMANDS.iter().map(|_| Counters::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::find;

    #[test]
    fn the_calls_of_all_threads_are_added_up() {
        let counters = CommandCounters::default();
        let get = find(b"GET").unwrap();
        std::thread::scope(|scope| {
            for thread in 0..12 {
                let counters = &counters;
                scope.spawn(move || counters.note(get, 15, thread < 3));
            }
        });
        counters.note_failure(get);
        let totals = counters.totals();
        let total = &totals[index_of(get)];
        assert_eq!((total.calls(), counters.calls()), (12, 12));
        let numbers = [&total.micros, &total.failed, &total.durations[1]];
        assert_eq!(numbers.map(|it| it.load(Ordering::Relaxed)), [180, 4, 12]);
        counters.reset();
        assert_eq!(counters.calls(), 0);
    }
}
