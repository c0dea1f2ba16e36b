//! Ctrl-C for work that can end after its current step and keep what is done.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::exit::{Exit, Failure};

/// The flag of all commands of the process: a shell runs many. The first Ctrl-C sets it; the second
/// one ends the process.
static CAME: LazyLock<io::Result<Arc<AtomicBool>>> = LazyLock::new(|| {
    let came = Arc::new(AtomicBool::new(false));
    // In this order: the first handler still finds the flag unset, and the second one sets it.
    flag::register_conditional_shutdown(SIGINT, Exit::Interrupted as i32, came.clone())?;
    flag::register(SIGINT, came.clone())?;
    Ok(came)
});

pub(crate) struct Interrupt(&'static AtomicBool);

impl Interrupt {
    /// Begins to listen. A Ctrl-C that came before, while the command opened its database, counts.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        let came = CAME
            .as_ref()
            .map_err(|e| Failure::new(Exit::Failure, format!("cannot listen for Ctrl-C: {e}")))?;
        Ok(Interrupt(came))
    }

    /// Forgets the Ctrl-C of an earlier command.
    pub(crate) fn forget(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Fails if Ctrl-C came.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.came() {
            true => Err(Interrupt::failure()),
            false => Ok(()),
        }
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The failure of work that Ctrl-C has ended.
    pub(crate) fn failure() -> Failure {
        Failure::new(Exit::Interrupted, "ended by Ctrl-C")
    }

    /// Returns true if Ctrl-C came since the last [`Interrupt::forget`].
    pub(crate) fn came_to_any() -> bool {
        CAME.as_ref().is_ok_and(|came| came.load(Ordering::Relaxed))
    }
}
