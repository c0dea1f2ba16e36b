//! Calls that a Java thread does not wait for in native code: asynchronous and long ones.
//!
//! Java gives each a number. One Java thread takes the results of all, many at a time
//! (`Calls.take0`), and completes the futures. So no thread of the engine is ever attached to the
//! Java machine, and a Java thread that waits for a future can be interrupted.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use engine::{ErrorKind, Pending};
use hedgerow_bindings::{Failure, run};
use jni_sys::{jbyteArray, jlong};

use crate::env::{enter, kind_number};
use crate::objects::lock;
use crate::packed::Pack;

/// Bytes for Java, if there are some.
pub(crate) type Answer = Result<Option<Vec<u8>>, Failure>;

/// An array of results ends with the one that makes it this long.
const TAKEN_BYTES: usize = 1 << 20;
/// A result is longer than its answer by about this.
const ANSWER_HEAD_BYTES: usize = 32;
/// An array of Java has room for this answer behind those before it.
const ANSWER_BYTES_MAX: usize = i32::MAX as usize - 2 * TAKEN_BYTES;

/// Results on their way to Java. They stay if it has no memory for them.
static TAKEN: Mutex<Vec<(jlong, Answer)>> = Mutex::new(Vec::new());

static CALLS: LazyLock<Calls> = LazyLock::new(Calls::default);

#[derive(Default)]
struct Calls {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    finished: VecDeque<(jlong, Answer)>,
    /// The asynchronous calls whose results may be there.
    woken: Vec<Arc<Awaited>>,
    /// The long calls.
    running: HashMap<jlong, Arc<Running>>,
}

/// A long call.
#[derive(Default)]
pub(crate) struct Running {
    cancelled: AtomicBool,
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl Running {
    /// Notes the progress. Returns false if the call is to end.
    pub(crate) fn go_on(&self, done_bytes: u64, total_bytes: u64) -> bool {
        self.done_bytes.store(done_bytes, Ordering::Relaxed);
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        !self.is_cancelled()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// An asynchronous call whose result is not there yet.
struct Awaited {
    id: jlong,
    future: Mutex<Option<Pin<Box<dyn Future<Output = Answer> + Send>>>>,
}

impl Awaited {
    /// Polls the future, and notes its answer. `None` is in the place of one that has answered, so
    /// that a waker that comes late is no harm.
    fn advance(self: &Arc<Awaited>) {
        let waker = Waker::from(self.clone());
        let mut future = lock(&self.future);
        let Some(pending) = future.as_mut() else {
            return;
        };
        // A panic of the engine is the answer, like every other failure.
        let polled = run(|| Ok(pending.as_mut().poll(&mut Context::from_waker(&waker))));
        if let Poll::Ready(answer) = polled.unwrap_or_else(|failure| Poll::Ready(Err(failure))) {
            *future = None;
            finish(self.id, answer);
        }
    }
}

impl Wake for Awaited {
    fn wake(self: Arc<Awaited>) {
        lock(&CALLS.state).woken.push(self);
        CALLS.changed.notify_one();
    }
}

fn finish(id: jlong, answer: Answer) {
    lock(&CALLS.state).finished.push_back((id, answer));
    CALLS.changed.notify_one();
}

/// Hands Java the result of a call of the engine when it is there.
pub(crate) fn follow<T: Send + 'static>(
    id: jlong,
    pending: Pending<T>,
    pack: impl FnOnce(T) -> Option<Vec<u8>> + Send + 'static,
) {
    let future = async move { Ok(pending.await.map(pack)?) };
    let awaited = Arc::new(Awaited {
        id,
        future: Mutex::new(Some(Box::pin(future))),
    });
    awaited.advance();
}

/// Makes a long call on a thread of its own.
///
/// # Errors
/// `Io` if no thread can be started.
pub(crate) fn start(
    id: jlong,
    call: impl FnOnce(&Running) -> Answer + Send + 'static,
) -> Result<(), Failure> {
    let running = Arc::new(Running::default());
    lock(&CALLS.state).running.insert(id, running.clone());
    let body = move || {
        let answer = run(|| call(&running));
        lock(&CALLS.state).running.remove(&id);
        finish(id, answer);
    };
    let thread = thread::Builder::new().name("hedgerow-call".to_owned());
    thread.spawn(body).map(drop).map_err(|e| {
        lock(&CALLS.state).running.remove(&id);
        Failure::new(ErrorKind::Io, format!("cannot start a thread: {e}"))
    })
}

/// Waits for results, of which the last one may make them longer than `TAKEN_BYTES`.
fn take() -> Vec<(jlong, Answer)> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    while taken.is_empty() {
        let mut state = lock(&CALLS.state);
        while state.finished.is_empty() && state.woken.is_empty() {
            state = CALLS
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let woken = std::mem::take(&mut state.woken);
        // A future may wake its waker while it is polled, and a waker takes the lock.
        drop(state);
        for awaited in woken {
            awaited.advance();
        }
        let mut state = lock(&CALLS.state);
        while bytes < TAKEN_BYTES
            && let Some((id, answer)) = state.finished.pop_front()
        {
            let answer = answer.and_then(checked);
            bytes += ANSWER_HEAD_BYTES + answer_bytes(&answer);
            taken.push((id, answer));
        }
    }
    taken
}

fn answer_bytes(answer: &Answer) -> usize {
    let answer = answer.as_ref().ok();
    answer.and_then(Option::as_ref).map_or(0, Vec::len)
}

/// Refuses an answer that no array of Java can hold.
fn checked(answer: Option<Vec<u8>>) -> Answer {
    match answer.as_ref().map_or(0, Vec::len) {
        0..=ANSWER_BYTES_MAX => Ok(answer),
        len => Err(no_memory(len)),
    }
}

fn no_memory(len: usize) -> Failure {
    let message = format!("Java has no memory for an answer of {len} bytes");
    Failure::new(ErrorKind::NoSpace, message)
}

/// Packs a result behind its length.
fn pack(packed: &mut Pack, (id, answer): &(jlong, Answer)) {
    let begin = packed.0.len();
    packed.u32(0).i64(*id);
    match answer {
        Ok(None) => packed.u8(0),
        Ok(Some(bytes)) => packed.u8(1).bytes(bytes),
        Err(failure) => {
            packed.u8(2).u32(kind_number(failure.kind) as u32);
            packed.bytes(failure.message.as_bytes());
            packed.optional(failure.keyspace.as_deref().map(str::as_bytes));
            packed.optional(failure.key.as_deref())
        }
    };
    let len = (packed.0.len() - begin - 4) as u32;
    packed.0[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
}

native! {
    /// Waits for results of calls, and returns them packed. If Java has no memory for them, they
    /// stay, but for a large one, whose call fails.
    fn Java_io_hedgerow_Calls_take0(env) -> jbyteArray {
        let mut taken = lock(&TAKEN);
        if taken.is_empty() {
            *taken = take();
        }
        let mut packed = Pack::default();
        taken.iter().for_each(|it| pack(&mut packed, it));
        let array = env.new_bytes(&packed.0)?;
        if !array.is_null() {
            taken.clear();
        } else if let Some((_, answer)) = taken.last_mut()
            && answer_bytes(answer) > TAKEN_BYTES
        {
            *answer = Err(no_memory(answer_bytes(answer)));
        }
        Ok(array)
    }

    /// The bytes that a long call has done and those that it has to do; null if it is over.
    fn Java_io_hedgerow_Calls_progress0(env, id: jlong) -> jbyteArray {
        let running = lock(&CALLS.state).running.get(&id).cloned();
        let Some(running) = running else {
            return env.new_optional(None);
        };
        let mut packed = Pack::default();
        packed.i64(running.done_bytes.load(Ordering::Relaxed) as i64);
        packed.i64(running.total_bytes.load(Ordering::Relaxed) as i64);
        env.new_bytes(&packed.0)
    }

    /// Asks a long call to end.
    fn Java_io_hedgerow_Calls_cancel0(_env, id: jlong) -> () {
        if let Some(running) = lock(&CALLS.state).running.get(&id) {
            running.cancelled.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}
