//! Locks of keys. A command that changes keys holds their stripes while it reads and commits, and
//! nobody who holds one waits for another: who finds one taken lets go of the others and tries
//! again later. So there is no deadlock, and no lock is held across an await.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Two pipelines of 16 commands meet in one of 64. Who takes all takes a tenth of a millisecond.
const STRIPES: usize = 1 << 14;

pub(crate) struct Stripes(Vec<Mutex<()>>);

/// The stripes that are held.
pub(crate) struct Held<'a> {
    _guards: Vec<MutexGuard<'a, ()>>,
}

impl Stripes {
    pub(crate) fn new() -> Stripes {
        Stripes((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    /// The stripe of a key's hash.
    pub(crate) fn of(hash: u64) -> usize {
        hash as usize % STRIPES
    }

    /// Takes these stripes, which are sorted here; `None` if one is taken.
    pub(crate) fn try_hold(&self, stripes: &mut Vec<usize>) -> Option<Held<'_>> {
        stripes.sort_unstable();
        stripes.dedup();
        let guards = stripes.iter().map(|stripe| try_lock(&self.0[*stripe]));
        Some(Held {
            _guards: guards.collect::<Option<_>>()?,
        })
    }

    /// Waits until everybody who holds a stripe now has let it go. The caller holds none.
    pub(crate) fn pass(&self) {
        for stripe in &self.0 {
            drop(stripe.lock());
        }
    }

    /// Takes all stripes; `None` if one is taken.
    pub(crate) fn try_hold_all(&self) -> Option<Held<'_>> {
        let guards = self.0.iter().map(try_lock);
        Some(Held {
            _guards: guards.collect::<Option<_>>()?,
        })
    }
}

fn try_lock(stripe: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    match stripe.try_lock() {
        Ok(guard) => Some(guard),
        // A command that panicked has committed nothing.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
