//! Threads of the system.

use std::io;
use std::thread::{self, JoinHandle};

use crate::{Join, Spawn};

/// Starts threads of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsSpawn;

impl Spawn for OsSpawn {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn Join>> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Box::new(OsThread(thread)))
    }
}

#[derive(Debug)]
struct OsThread(JoinHandle<()>);

impl Join for OsThread {
    fn join(self: Box<Self>) -> thread::Result<()> {
        self.0.join()
    }
}
