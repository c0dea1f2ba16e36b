//! Standard input as the data of a command.

use std::io::{self, Read, Stdin};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;

/// True in a shell whose commands come from standard input.
static HAS_COMMANDS: AtomicBool = AtomicBool::new(false);

/// The time of a look for input, after which Ctrl-C is noticed.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Says that standard input has the commands of a shell. No command gets it from now on.
pub(crate) fn has_commands() {
    HAS_COMMANDS.store(true, Ordering::Relaxed);
}

/// A reader of standard input, which waits for input no longer than until Ctrl-C.
pub(crate) struct StandardInput {
    stdin: Stdin,
    interrupt: Interrupt,
}

impl StandardInput {
    /// # Errors
    /// `Usage` in a shell whose commands come from there.
    pub(crate) fn open() -> Result<StandardInput, Failure> {
        if HAS_COMMANDS.load(Ordering::Relaxed) {
            let message = "expected a file or a value, found `-`: standard input has the commands of this shell";
            return Err(Failure::new(Exit::Usage, message));
        }
        Ok(StandardInput {
            stdin: io::stdin(),
            interrupt: Interrupt::listen()?,
        })
    }

    /// Returns true after Ctrl-C. What was read may be a part then.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.came()
    }
}

impl Read for StandardInput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.is_interrupted() {
            let mut input = [PollFd::new(&self.stdin, PollFlags::IN)];
            match poll(&mut input, Some(&PATIENCE)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(&self.stdin, buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("ended by Ctrl-C"))
    }
}
