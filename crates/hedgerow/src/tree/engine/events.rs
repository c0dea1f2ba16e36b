//! Delivers events to the listener.
//!
//! Events happen under locks, and a listener may call the database. So an event is queued
//! ([`Events::put`]), and only [`Events::deliver`] calls the listener: after jobs of the pool, in
//! `retune`, and at the end of opening and closing, where no lock is held. Events are delivered one
//! at a time, in the order of the queue.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::mutex::lock;
use crate::base::stats::{Event, Listener};

/// The events that are not delivered yet, and the listener.
#[derive(Default)]
pub(crate) struct Events {
    listener: Option<Listener>,
    line: Mutex<VecDeque<Event>>,
    delivering: AtomicBool,
}

impl Events {
    pub(crate) fn new(listener: Option<Listener>) -> Events {
        Events {
            listener,
            ..Events::default()
        }
    }

    /// Queues an event. Returns true if the caller must see to a call of [`Events::deliver`].
    pub(super) fn put(&self, event: Event) -> bool {
        if self.listener.is_some() {
            lock(&self.line).push_back(event);
        }
        self.listener.is_some()
    }

    /// Delivers the queued events. If another thread is already delivering, that thread delivers
    /// these, too. No lock may be held.
    pub(crate) fn deliver(&self) {
        let Some(listener) = &self.listener else {
            return;
        };
        while !lock(&self.line).is_empty() && !self.delivering.swap(true, Ordering::AcqRel) {
            let _delivery = Delivery(&self.delivering);
            while let Some(event) = self.next() {
                listener(&event);
            }
        }
    }

    fn next(&self) -> Option<Event> {
        lock(&self.line).pop_front()
    }
}

/// A listener that panics must not keep later events from being delivered.
struct Delivery<'a>(&'a AtomicBool);

impl Drop for Delivery<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
