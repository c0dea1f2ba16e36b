//! The path of tasks. The writes of a batch become one commit; its gets are read at the same time.
//! While the device reads, the worker takes the next batch, so that a device with a queue always
//! has many reads at once.
//!
//! Tasks for one key run in order. A group (the tasks executed together) never holds both a get and
//! a write of the same key; the second of them starts the next group. A get sees the state at its
//! beginning, so later groups need not wait for its reads. A call finds no read under way.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::api::batch::Batch;
use crate::base::entry::{KeyHash, KeyspaceId};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::expiry::Moment;
use crate::base::options::Durability;
use crate::base::runtime::workers::Inbox;
use crate::base::slice::Slice;
use crate::base::stats::OperationKind;
use crate::paths::read::{Gets, View};
use crate::tree::engine::{Access, Answer, Engine, Handle, KeyspaceCell, Task, Write};

/// The bytes of keys and values after which a commit made of tasks ends.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// Executes the tasks of an inbox until it is empty and every task is answered.
pub(super) fn run(engine: &Arc<Engine>, inbox: &mut Inbox<'_, Task>) {
    let mut group = Group {
        engine: Handle::of_worker(engine),
        gets: Gets::new(engine),
        writes: Vec::new(),
        reads: Vec::new(),
        written: HashSet::new(),
        writes_noted: 0,
        read: HashSet::new(),
        bytes: 0,
    };
    loop {
        let mut is_idle = true;
        if group.gets.has_room() {
            let tasks = inbox.take();
            is_idle = tasks.len() == 0;
            tasks.for_each(|task| group.accept(task));
        }
        group.finish();
        let is_reading = group.gets.wait();
        group.go_on();
        if is_idle && !is_reading {
            return;
        }
    }
}

/// Calls a function of the user; its panic becomes `Cancelled`.
pub(super) fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::new(
            ErrorKind::Cancelled,
            format!(
                "a function called by a worker panicked: {}",
                text.unwrap_or("")
            ),
        ))
    })
}

type Id = (KeyspaceId, u128);

fn id(cell: &KeyspaceCell, hash: KeyHash) -> Id {
    (cell.facts.id, hash.0)
}

fn add(batch: &mut Batch, write: &Write) -> Result<()> {
    let Write {
        cell, hash, tag, ..
    } = write;
    cell.check_not_dropped()?;
    batch.push_hashed(cell, *hash, *tag, write.key(), write.value());
    Ok(())
}

/// Tasks that are executed together.
struct Group<'e> {
    engine: Handle,
    /// The gets of this group and of those before it.
    gets: Gets<'e, (Arc<KeyspaceCell>, Answer<Option<Slice>>)>,
    writes: Vec<Write>,
    reads: Vec<(Access, Answer<Option<Slice>>)>,
    /// The keys of the first `writes_noted` writes: those present when a get was last accepted.
    written: HashSet<Id>,
    writes_noted: usize,
    read: HashSet<Id>,
    bytes: usize,
}

impl Group<'_> {
    fn accept(&mut self, task: Task) {
        match task {
            Task::Reads(reads) => reads
                .into_iter()
                .for_each(|(access, to)| self.read(access, to)),
            Task::Write(write) => self.write(write),
            Task::Call(call) => {
                self.finish();
                while self.gets.wait() {
                    self.go_on();
                }
                call(&self.engine);
            }
        }
    }

    fn read(&mut self, access: Access, answer: Answer<Option<Slice>>) {
        if !answer.is_wanted() {
            return;
        }
        let since = self.writes[self.writes_noted..].iter();
        self.written
            .extend(since.map(|write| id(&write.cell, write.hash)));
        self.writes_noted = self.writes.len();
        let id = id(&access.cell, access.hash);
        if self.written.contains(&id) {
            self.finish();
        }
        self.read.insert(id);
        self.reads.push((access, answer));
    }

    fn write(&mut self, write: Write) {
        if self.read.contains(&id(&write.cell, write.hash)) || self.bytes >= GROUP_BYTES_MAX {
            self.finish();
        }
        self.bytes += write.bytes();
        self.writes.push(write);
    }

    /// Commits the writes, begins the reads, and begins the next group.
    fn finish(&mut self) {
        let writes = std::mem::take(&mut self.writes);
        if !writes.is_empty() {
            self.commit(writes);
        }
        let mut reads = std::mem::take(&mut self.reads);
        // By keyspace; the order of tasks does not matter within a group.
        reads.sort_by_key(|(access, _)| access.cell.facts.id);
        while let Some((first, _)) = reads.first() {
            let keyspace = first.cell.facts.id;
            let count = reads.partition_point(|(access, _)| access.cell.facts.id <= keyspace);
            let rest = reads.split_off(count);
            self.begin(std::mem::replace(&mut reads, rest));
        }
        self.go_on();
        self.written.clear();
        self.writes_noted = 0;
        self.read.clear();
        self.bytes = 0;
    }

    /// Writes everything as one commit. A failed commit wrote nothing, and one task may be the
    /// reason; so each task is tried alone then.
    fn commit(&self, writes: Vec<Write>) {
        let durability = match writes.iter().any(|w| w.durability == Durability::Synced) {
            true => Durability::Synced,
            false => Durability::Buffered,
        };
        let mut batch = Batch::new(&self.engine);
        let added = writes.iter().try_for_each(|write| add(&mut batch, write));
        match added.and_then(|()| batch.commit(durability)) {
            Err(error) if writes.len() > 1 && error.kind() != ErrorKind::Poisoned => {
                for write in writes {
                    let mut alone = Batch::new(&self.engine);
                    let added = add(&mut alone, &write);
                    let result = added.and_then(|()| alone.commit(write.durability));
                    self.answer(write.answer, result);
                }
            }
            result => {
                for write in writes {
                    self.answer(write.answer, result.clone());
                }
            }
        }
    }

    /// Sends the result. An error without a receiver is kept until the next barrier.
    fn answer(&self, answer: Option<Answer<()>>, result: Result<()>) {
        match (answer, result) {
            (Some(answer), result) => answer.give(result),
            (None, Ok(())) => {}
            (None, Err(error)) => self.engine.asynchronous.note_lost(error),
        }
    }

    /// Begins gets of one keyspace.
    fn begin(&mut self, reads: Vec<(Access, Answer<Option<Slice>>)>) {
        let Some((first, _)) = reads.first() else {
            return;
        };
        let cell = first.cell.clone();
        let is_there = self
            .engine
            .check_open()
            .and_then(|()| cell.check_not_dropped());
        let state = cell.state.load();
        let mut view = View::new(&state, Moment::PRESENT);
        for (access, answer) in reads {
            match &is_there {
                Ok(()) => {
                    let to = (access.cell, answer);
                    self.gets
                        .begin(&mut view, access.key.into(), access.hash, to);
                }
                Err(error) => answer.give(Err(error.clone())),
            }
        }
    }

    /// Resumes the gets whose pages have arrived, and answers those that have ended.
    fn go_on(&mut self) {
        self.gets.go_on();
        for ((cell, answer), value) in self.gets.ended() {
            let operations = &cell.facts.operations;
            operations.add(OperationKind::Gets, 1);
            operations.add(
                OperationKind::GetHits,
                u64::from(matches!(value, Ok(Some(_)))),
            );
            answer.give(value);
        }
    }
}
