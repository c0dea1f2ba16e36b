//! Ctrl-C, for work that can end at its next step with what is done so far.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::flag;

use crate::exit::{Exit, Failure};

pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on Ctrl-C is noted, and ends the process only when it comes a second time.
    pub(crate) fn listen() -> Result<Interrupt, Failure> {
        let came = Arc::new(AtomicBool::new(false));
        // In this order: the first one finds the flag down, and raises it.
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
