//! The types of the interface, and the one way to make a call.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use engine::io::WallTime;
use engine::{Batch, Db, Durability, ErrorKind, Expiry, Keyspace, Snapshot};
use hedgerow_bindings::foreign::{Bytes, Foreign, Out, number, pointer};
use hedgerow_bindings::{Exclusive, Failure, Handles, Held, opaque, run};

use crate::feed;
use crate::iterator::Position;
use crate::options::Options;
use crate::reads::Pinned;
use crate::transaction::Open;

opaque!(hg_options hg_db hg_keyspace hg_snapshot hg_batch hg_transaction hg_iter hg_pinned hg_changes);

pub(crate) static OPTIONS: Handles<Exclusive<Options>> = Handles::new(0, "set of options");
pub(crate) static DATABASES: Handles<Db> = Handles::new(1, "database");
pub(crate) static KEYSPACES: Handles<Keyspace> = Handles::new(2, "keyspace");
pub(crate) static SNAPSHOTS: Handles<Snapshot> = Handles::new(3, "snapshot");
pub(crate) static BATCHES: Handles<Exclusive<(Db, Batch)>> = Handles::new(4, "batch");
pub(crate) static TRANSACTIONS: Handles<Exclusive<Open>> = Handles::new(5, "transaction");
pub(crate) static ITERATORS: Handles<Exclusive<Position>> = Handles::new(6, "iterator");
pub(crate) static PINNED: Handles<Pinned> = Handles::new(7, "set of pinned values");
pub(crate) static CHANGES: Handles<Exclusive<feed::Position>> =
    Handles::new(8, "position among the changes");

/// Bytes: an address, which may be NULL if there are none, and a length.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hg_bytes {
    /// The address of the first byte.
    pub data: *const c_void,
    /// The number of bytes.
    pub len: usize,
}

impl hg_bytes {
    pub(crate) const NONE: hg_bytes = hg_bytes {
        data: std::ptr::null(),
        len: 0,
    };

    pub(crate) fn of(bytes: &[u8]) -> hg_bytes {
        hg_bytes {
            data: bytes.as_ptr().cast(),
            len: bytes.len(),
        }
    }
}

impl Foreign for hg_bytes {
    type Here = &'static [u8];

    #[inline]
    unsafe fn here(self) -> Result<&'static [u8], Failure> {
        // SAFETY: the caller keeps the same rules.
        unsafe { Bytes(self.data, self.len).here() }
    }
}

/// Memory of `malloc` that the program's merge function gives to the library.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hg_buffer {
    /// The address of the memory.
    pub data: *mut c_void,
    /// The number of bytes.
    pub len: usize,
}

/// The outcome of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum hg_code {
    /// It was done.
    HG_OK = 0,
    /// There is no such key, entry or keyspace.
    HG_NOT_FOUND = 1,
    /// An argument is out of bounds, or is no handle of this kind.
    HG_INVALID_ARGUMENT = 2,
    /// The layout, or the way the database was opened, does not allow this.
    HG_UNSUPPORTED = 3,
    /// The database is open for writing elsewhere.
    HG_LOCKED = 4,
    /// The operating system refused.
    HG_IO = 5,
    /// A disk has no space, or the process no memory for the result.
    HG_NO_SPACE = 6,
    /// Bytes on disk are not those that were written.
    HG_CORRUPTION = 7,
    /// A newer version wrote the database.
    HG_FORMAT_VERSION = 8,
    /// Another write came first.
    HG_CONFLICT = 9,
    /// An earlier write failed; the database has to be opened again.
    HG_POISONED = 10,
    /// The database, the keyspace or the handle was closed, or opened before a fork.
    HG_CLOSED = 11,
    /// A function of the program ended the call.
    HG_CANCELLED = 12,
    /// A queue is full.
    HG_WOULD_BLOCK = 13,
    /// A merge operator failed.
    HG_OPERATOR = 14,
    /// The buffer has no room for the value or the entry.
    HG_BUFFER_TOO_SMALL = 15,
    /// A defect of this library; the message says where.
    HG_DEFECT = 16,
    /// The database no longer has these changes; the message says from which number on it has some.
    HG_GAP = 17,
}

use hg_code::*;

/// The bytes of a message, with the zero byte at its end.
const MESSAGE_BYTES: usize = 508;

/// A failure: its code and a sentence about what was expected and found.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hg_error {
    /// The code, which the call returns too.
    pub code: hg_code,
    /// The message in UTF-8, with a zero byte at its end.
    pub message: [c_char; 508],
}

impl hg_error {
    pub(crate) fn of(failure: &Failure) -> hg_error {
        hg_error::new(code(failure), &failure.message)
    }

    fn new(code: hg_code, text: &str) -> hg_error {
        let mut message = [0; MESSAGE_BYTES];
        let mut end = text.len().min(MESSAGE_BYTES - 1);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = text.as_bytes()[..end].iter();
        message
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from as c_char);
        hg_error { code, message }
    }
}

fn code(failure: &Failure) -> hg_code {
    match failure.kind {
        None => HG_DEFECT,
        Some(ErrorKind::InvalidArgument) => HG_INVALID_ARGUMENT,
        Some(ErrorKind::Unsupported) => HG_UNSUPPORTED,
        Some(ErrorKind::Locked) => HG_LOCKED,
        Some(ErrorKind::NoSpace) => HG_NO_SPACE,
        Some(ErrorKind::Corruption) => HG_CORRUPTION,
        Some(ErrorKind::FormatVersion) => HG_FORMAT_VERSION,
        Some(ErrorKind::Conflict) => HG_CONFLICT,
        Some(ErrorKind::Poisoned) => HG_POISONED,
        Some(ErrorKind::Closed) => HG_CLOSED,
        Some(ErrorKind::Cancelled) => HG_CANCELLED,
        Some(ErrorKind::WouldBlock) => HG_WOULD_BLOCK,
        Some(ErrorKind::Operator) => HG_OPERATOR,
        Some(ErrorKind::Gap { .. }) => HG_GAP,
        Some(_) => HG_IO,
    }
}

/// The result of a call as a code.
pub(crate) trait Answer {
    fn code(self) -> hg_code;
}

impl Answer for () {
    fn code(self) -> hg_code {
        HG_OK
    }
}

/// Something was found, or not.
impl Answer for bool {
    fn code(self) -> hg_code {
        if self { HG_OK } else { HG_NOT_FOUND }
    }
}

impl Answer for hg_code {
    fn code(self) -> hg_code {
        self
    }
}

/// Calls `body` with the arguments of C code. A failure is written to `error`, if that is a place.
///
/// # Safety
/// The arguments keep the rules of [`Foreign`]; `error` is NULL or a place for an error.
#[inline]
pub(crate) unsafe fn call<A: Foreign, R: Answer>(
    error: *mut hg_error,
    arguments: A,
    body: impl FnOnce(A::Here) -> Result<R, Failure>,
) -> hg_code {
    let result = run(|| {
        // SAFETY: the caller keeps the rules.
        let arguments = unsafe { arguments.here() }?;
        body(arguments)
    });
    match result {
        Ok(answer) => match answer.code() {
            code @ (HG_OK | HG_NOT_FOUND) => code,
            // SAFETY: the caller promises a place for an error.
            code => unsafe { refuse(error, code, sentence(code)) },
        },
        // SAFETY: the caller promises a place for an error.
        Err(failure) => unsafe { refuse(error, code(&failure), &failure.message) },
    }
}

/// The message of a code that a call returns without a failure.
fn sentence(code: hg_code) -> &'static str {
    match code {
        HG_BUFFER_TOO_SMALL => {
            "the buffer is too small: the call has written how many bytes it needs"
        }
        HG_CANCELLED => {
            "the progress function has ended the call behind the entries that were written"
        }
        _ => "expected the value that the call names, found another one",
    }
}

/// Writes an error to its place, if there is one. Returns its code.
///
/// # Safety
/// `error` is NULL or a place for an error.
#[cold]
#[inline(never)]
unsafe fn refuse(error: *mut hg_error, code: hg_code, message: &str) -> hg_code {
    if !error.is_null() {
        // SAFETY: it is a place.
        unsafe { error.write(hg_error::new(code, message)) };
    }
    code
}

// ---- objects behind handles ----

pub(crate) fn database(handle: *const hg_db) -> Result<Held<Db>, Failure> {
    DATABASES.get(number(handle))
}

pub(crate) fn keyspace(handle: *const hg_keyspace) -> Result<Held<Keyspace>, Failure> {
    KEYSPACES.get(number(handle))
}

/// The snapshot of a handle; `None` for NULL, the present.
pub(crate) fn snapshot(handle: *const hg_snapshot) -> Result<Option<Held<Snapshot>>, Failure> {
    match number(handle) {
        0 => Ok(None),
        handle => SNAPSHOTS.get(handle).map(Some),
    }
}

/// Gives an object a handle and writes it to its place.
pub(crate) fn give<T: Send + Sync, H>(
    place: &Out<*mut H>,
    handles: &Handles<T>,
    object: T,
) -> Result<(), Failure> {
    place.set(pointer(handles.insert(object)?));
    Ok(())
}

/// Frees a handle. NULL is nothing, as for `free`.
pub(crate) fn free<T: Send + Sync, H>(handles: &Handles<T>, handle: *mut H) -> hg_code {
    if handle.is_null() {
        return HG_OK;
    }
    match handles.free(number(handle)) {
        Ok(()) => HG_OK,
        Err(failure) => code(&failure),
    }
}

// ---- numbers with a meaning ----

/// The durability of a write.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub enum hg_durability {
    /// It survives the process.
    HG_BUFFERED = 0,
    /// It survives the machine.
    HG_SYNCED = 1,
}

/// The meaning of a time of expiry.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub enum hg_expiry {
    /// The value stays.
    HG_NEVER = 0,
    /// At a time in milliseconds since 1970.
    HG_AT = 1,
    /// A time in milliseconds after the write.
    HG_IN = 2,
}

pub(crate) fn durability(number: c_int) -> Result<Durability, Failure> {
    match number {
        0 => Ok(Durability::Buffered),
        1 => Ok(Durability::Synced),
        _ => Err(Failure::invalid(format!(
            "expected HG_BUFFERED or HG_SYNCED, found {number}"
        ))),
    }
}

pub(crate) fn expiry(meaning: c_int, millis: u64) -> Result<Expiry, Failure> {
    let time = Duration::from_millis(millis);
    match meaning {
        0 => Ok(Expiry::Never),
        1 => {
            let at = WallTime::UNIX_EPOCH.checked_add(time);
            Ok(at.map_or(Expiry::Never, Expiry::At))
        }
        2 => Ok(Expiry::In(time)),
        _ => Err(Failure::invalid(format!(
            "expected HG_NEVER, HG_AT or HG_IN, found {meaning}"
        ))),
    }
}
