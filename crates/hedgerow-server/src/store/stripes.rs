//! Locks of keys. A command that changes keys holds their stripes while it reads and commits. No
//! lock is held across an await. Stripes are taken in the order of their numbers, so that there is
//! no deadlock.
//!
//! Who finds one taken lets go of the others and lets other commands run. The second time it waits
//! a little on its thread: most holders only read memory and commit, and commands of one key that
//! tried again and again would take the processor from the one that they wait for. A holder that
//! waits for the device, or runs a script, is not waited for longer.
//!
//! Who wants all of them goes through the [`Gate`], which others look at before they take some.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::gate::Gate;

/// Two pipelines of 16 commands meet in one of 64. Who takes all takes a tenth of a millisecond.
const STRIPES: usize = 1 << 14;

/// Longer than a pipeline of commands in memory.
const WAIT: Duration = Duration::from_micros(200);

pub(crate) struct Stripes {
    locks: Vec<Mutex<()>>,
    pub(crate) gate: Gate,
}

/// The guards of some stripes.
pub(crate) struct Guards<'a> {
    _guards: Vec<MutexGuard<'a, ()>>,
}

/// The stripes that an attempt holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Held {
    /// These, in order.
    Some(Vec<usize>),
    All,
}

impl Stripes {
    pub(crate) fn new() -> Stripes {
        Stripes {
            locks: (0..STRIPES).map(|_| Mutex::new(())).collect(),
            gate: Gate::new(),
        }
    }

    /// The stripe of a key's hash.
    pub(crate) fn of(hash: u64) -> usize {
        hash as usize % STRIPES
    }

    /// Takes these stripes, which are sorted here; `None` if one is taken.
    pub(crate) fn try_hold(&self, stripes: &mut Vec<usize>) -> Option<Guards<'_>> {
        self.hold(stripes, Mutex::try_lock)
    }

    /// The same; waits a little for each.
    pub(crate) fn hold_soon(&self, stripes: &mut Vec<usize>) -> Option<Guards<'_>> {
        self.hold(stripes, |stripe| stripe.try_lock_for(WAIT))
    }

    fn hold<'a>(
        &'a self,
        stripes: &mut Vec<usize>,
        take: impl Fn(&'a Mutex<()>) -> Option<MutexGuard<'a, ()>>,
    ) -> Option<Guards<'a>> {
        stripes.sort_unstable();
        stripes.dedup();
        let guards = stripes.iter().map(|stripe| take(&self.locks[*stripe]));
        Some(Guards {
            _guards: guards.collect::<Option<_>>()?,
        })
    }

    /// Waits until everybody who holds a stripe now has let it go. The caller holds none.
    pub(crate) fn pass(&self) {
        for stripe in &self.locks {
            drop(stripe.lock());
        }
    }

    /// Takes all stripes; `None` if one is taken.
    pub(crate) fn try_hold_all(&self) -> Option<Guards<'_>> {
        let guards = self.locks.iter().map(Mutex::try_lock);
        Some(Guards {
            _guards: guards.collect::<Option<_>>()?,
        })
    }
}
