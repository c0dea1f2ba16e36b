//! Standard input, and other inputs that may have to be waited for, as the data of a command.

use std::fs::File;
use std::io::{self, Read, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
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

/// A reader that waits for input no longer than until Ctrl-C.
pub(crate) struct Input {
    source: Source,
    interrupt: Interrupt,
}

enum Source {
    Standard(Stdin),
    File(File),
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Source::Standard(stdin) => stdin.as_fd(),
            Source::File(file) => file.as_fd(),
        }
    }
}

impl Input {
    /// Standard input.
    ///
    /// # Errors
    /// `Usage` in a shell whose commands come from there.
    pub(crate) fn standard() -> Result<Input, Failure> {
        if HAS_COMMANDS.load(Ordering::Relaxed) {
            let message =
                "expected a file or a value: standard input has the commands of this shell";
            return Err(Failure::new(Exit::Usage, message));
        }
        Input::of(Source::Standard(io::stdin()))
    }

    /// A file, which may be a pipe.
    pub(crate) fn file(file: File) -> Result<Input, Failure> {
        Input::of(Source::File(file))
    }

    fn of(source: Source) -> Result<Input, Failure> {
        let interrupt = Interrupt::listen()?;
        Ok(Input { source, interrupt })
    }

    /// Returns true after Ctrl-C. What was read may be a part then.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.came()
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.is_interrupted() {
            let mut input = [PollFd::new(&self.source, PollFlags::IN)];
            match poll(&mut input, Some(&PATIENCE)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(rustix::io::read(&self.source, buffer)?),
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other("ended by Ctrl-C"))
    }
}
