//! A bounded queue of tasks for one worker, filled by any number of threads.
//!
//! A task that finds the queue full stands in *line*. Tasks in line are accepted in the order of
//! their arrival as soon as there is room, and no task overtakes them. So the order of one thread's
//! tasks is kept even if some of them had to wait. A task may leave the line.
//!
//! ```text
//! take <- [ accepted, at most `capacity` ] <- [ line, by ticket ] <- push
//! ```
//!
//! A closed queue refuses new tasks. Its accepted tasks are still taken. There is one lock, held
//! for a few instructions: a worker that takes all tasks swaps its memory with the queue's. Only
//! waiting threads are woken, because each wake-up is a system call.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::sync::{Condvar, Mutex, MutexGuard};

/// The place of a pushed task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// In the queue: the worker will take it.
    Accepted,
    /// In line, with this ticket.
    InLine(u64),
}

/// A task that the queue refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// The queue is full.
    Full(T),
    /// The queue is closed.
    Closed(T),
}

/// A bounded queue; see the module.
pub struct TaskQueue<T> {
    state: Mutex<State<T>>,
    /// Signals a new task, or the close of the queue.
    arrived: Condvar,
    /// Signals that tasks were taken.
    taken: Condvar,
    capacity: usize,
}

struct State<T> {
    accepted: VecDeque<T>,
    line: BTreeMap<u64, T>,
    next_ticket: u64,
    closed: bool,
    /// The number of threads that wait for a task.
    idle: usize,
    /// The number of threads that wait for their task to leave the line.
    waiting: usize,
}

impl<T> State<T> {
    fn is_full(&self, capacity: usize) -> bool {
        self.accepted.len() >= capacity || !self.line.is_empty()
    }
}

impl<T> TaskQueue<T> {
    /// An empty queue that accepts up to `capacity` tasks, at least one.
    pub fn new(capacity: usize) -> TaskQueue<T> {
        TaskQueue {
            state: Mutex::new(State {
                accepted: VecDeque::new(),
                line: BTreeMap::new(),
                next_ticket: 0,
                closed: false,
                idle: 0,
                waiting: 0,
            }),
            arrived: Condvar::new(),
            taken: Condvar::new(),
            capacity: capacity.max(1),
        }
    }

    /// Adds a task if there is room and the line is empty.
    ///
    /// # Errors
    /// Returns the task.
    pub fn try_push(&self, task: T) -> Result<(), Refused<T>> {
        let state = self.lock();
        if state.closed {
            return Err(Refused::Closed(task));
        }
        if state.is_full(self.capacity) {
            return Err(Refused::Full(task));
        }
        self.accept(state, task);
        Ok(())
    }

    /// Adds a task. If there is no room, the task goes to the end of the line.
    ///
    /// # Errors
    /// Returns the task if the queue is closed.
    pub fn push(&self, task: T) -> Result<Turn, T> {
        let mut state = self.lock();
        if state.closed {
            return Err(task);
        }
        if state.is_full(self.capacity) {
            let ticket = state.next_ticket;
            state.next_ticket += 1;
            state.line.insert(ticket, task);
            return Ok(Turn::InLine(ticket));
        }
        self.accept(state, task);
        Ok(Turn::Accepted)
    }

    fn accept(&self, mut state: MutexGuard<'_, State<T>>, task: T) {
        state.accepted.push_back(task);
        let is_waited_for = state.idle > 0;
        drop(state);
        if is_waited_for {
            self.arrived.notify_one();
        }
    }

    /// Waits until a task is not in line any more.
    pub fn wait_until_accepted(&self, place: Turn) {
        let Turn::InLine(ticket) = place else {
            return;
        };
        let mut state = self.lock();
        state.waiting += 1;
        while state.line.contains_key(&ticket) {
            state = self.taken.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        state.waiting -= 1;
    }

    /// Takes a task back if it is still in line.
    pub fn leave(&self, place: Turn) -> Option<T> {
        let Turn::InLine(ticket) = place else {
            return None;
        };
        self.lock().line.remove(&ticket)
    }

    /// Moves up to `count` tasks to the end of `tasks`, oldest first. Accepts tasks from the line
    /// instead.
    pub fn take(&self, count: usize, tasks: &mut VecDeque<T>) {
        self.take_from(self.lock(), count, tasks);
    }

    /// Waits for a task and then takes as [`TaskQueue::take`] does. Returns false if the queue is
    /// closed and empty.
    pub fn wait_and_take(&self, count: usize, tasks: &mut VecDeque<T>) -> bool {
        let mut state = self.lock();
        while state.accepted.is_empty() {
            if state.closed {
                return false;
            }
            state.idle += 1;
            state = self.arrived.wait(state).unwrap_or_else(|e| e.into_inner());
            state.idle -= 1;
        }
        self.take_from(state, count, tasks);
        true
    }

    fn take_from(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        count: usize,
        tasks: &mut VecDeque<T>,
    ) {
        let count = count.min(state.accepted.len());
        if tasks.is_empty() && count == state.accepted.len() {
            std::mem::swap(tasks, &mut state.accepted);
        } else {
            tasks.extend(state.accepted.drain(..count));
        }
        while state.accepted.len() < self.capacity {
            let Some((_, task)) = state.line.pop_first() else {
                break;
            };
            state.accepted.push_back(task);
        }
        let is_waited_for = state.waiting > 0;
        drop(state);
        if is_waited_for {
            self.taken.notify_all();
        }
    }

    /// Closes the queue: it refuses new tasks from now on.
    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    /// Returns true if the queue refuses tasks.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// The number of accepted tasks, and the number in line.
    pub fn depth(&self) -> (usize, usize) {
        let state = self.lock();
        (state.accepted.len(), state.line.len())
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl<T> fmt::Debug for TaskQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskQueue")
            .field("depth", &self.depth())
            .field("capacity", &self.capacity)
            .finish()
    }
}
