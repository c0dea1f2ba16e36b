//! Telling the listener what happened.
//!
//! Events happen under locks, and a listener may call the database. So who has something to tell puts it
//! in line ([`Events::put`]), and nobody but [`Events::tell_all`] calls the listener: behind jobs of the
//! pool, in `retune`, and at the end of opening and closing, where no lock is held. One event at a time is told, in the order in
//! which they were put in line.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::stats::{Event, Listener};

use super::lock;

/// The events that have not been told, and who is to hear of them.
#[derive(Default)]
pub(crate) struct Events {
    listener: Option<Listener>,
    line: Mutex<VecDeque<Event>>,
    telling: AtomicBool,
}

impl Events {
    pub(crate) fn new(listener: Option<Listener>) -> Events {
        Events {
            listener,
            ..Events::default()
        }
    }

    /// Puts an event in line. True if somebody has to call [`Events::tell_all`] for it.
    pub(super) fn put(&self, event: Event) -> bool {
        if self.listener.is_some() {
            lock(&self.line).push_back(event);
        }
        self.listener.is_some()
    }

    /// Tells what is in line; whoever does so already tells what comes meanwhile. Under no lock.
    pub(crate) fn tell_all(&self) {
        let Some(listener) = &self.listener else {
            return;
        };
        while !lock(&self.line).is_empty() && !self.telling.swap(true, Ordering::AcqRel) {
            let _telling = Telling(&self.telling);
            while let Some(event) = self.next() {
                listener(&event);
            }
        }
    }

    fn next(&self) -> Option<Event> {
        lock(&self.line).pop_front()
    }
}

/// A listener that panics must not keep later events from being told.
struct Telling<'a>(&'a AtomicBool);

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
