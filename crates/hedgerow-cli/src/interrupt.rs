//! Ctrl-C for work that can end after its current step and keep what is done.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::exit::{Exit, Failure};

pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Begins to listen. The first Ctrl-C sets the flag; the second one ends the process.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        let came = Arc::new(AtomicBool::new(false));
        // In this order: the first handler still finds the flag unset, and the second one sets it.
        flag::register_conditional_shutdown(SIGINT, Exit::Interrupted as i32, came.clone())
            .and_then(|_| flag::register(SIGINT, came.clone()))
            .map_err(|e: io::Error| {
                Failure::new(Exit::Failure, format!("cannot listen for Ctrl-C: {e}"))
            })?;
        Ok(Interrupt(came))
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
