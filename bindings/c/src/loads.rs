//! Bulk loads, whose entries a function of the program gives.

use std::ffi::{c_int, c_void};
use std::thread;
use std::time::Instant;

use engine::{BulkLoadReport, ErrorKind, Keyspace, LoadOp};
use hedgerow_bindings::foreign::{Foreign, Optional, Out};
use hedgerow_bindings::load::bulk_load;
use hedgerow_bindings::{ASK_EVERY, Failure, left};

use crate::progress::Progress;
use crate::types::{call, hg_bytes, hg_code, hg_error, hg_keyspace, keyspace};

/// Writes the addresses of the next key and its value. `HG_NOT_FOUND` is the end.
pub type hg_next_entry =
    Option<unsafe extern "C" fn(*mut c_void, *mut hg_bytes, *mut hg_bytes) -> c_int>;

const ENTRY: c_int = hg_code::HG_OK as c_int;
const END: c_int = hg_code::HG_NOT_FOUND as c_int;

/// The entries of a function.
struct Entries {
    next: unsafe extern "C" fn(*mut c_void, *mut hg_bytes, *mut hg_bytes) -> c_int,
    state: *mut c_void,
}

type Entry = (&'static [u8], &'static [u8]);

impl Iterator for Entries {
    type Item = Result<Entry, Failure>;

    /// The bytes stay until the next call: the engine has copied them then.
    fn next(&mut self) -> Option<Result<Entry, Failure>> {
        let (mut key, mut value) = (hg_bytes::NONE, hg_bytes::NONE);
        // SAFETY: the program gave function and state together. The places live until it ends.
        let answer = unsafe { (self.next)(self.state, &raw mut key, &raw mut value) };
        match answer {
            // SAFETY: the header wants bytes that stay until the next call.
            ENTRY => Some(unsafe { (key, value).here() }),
            END => None,
            _ => {
                let message = format!("expected HG_OK or HG_NOT_FOUND of `next`, found {answer}");
                Some(Err(Failure::new(ErrorKind::Cancelled, message)))
            }
        }
    }
}

/// Has another thread load the entries, and asks the progress function while it waits for that.
fn load_on_thread(keyspace: Keyspace, mut from: Entries) -> Result<BulkLoadReport, Failure> {
    let progress = Progress::of_thread();
    let next = || {
        let entry = from.next().transpose()?;
        Ok(entry.map(|(key, value)| (key.to_vec(), LoadOp::Put(value.to_vec()))))
    };
    let mut asked = Instant::now();
    let pause = |time| {
        thread::sleep(time);
        if asked.elapsed() < ASK_EVERY {
            return Ok(());
        }
        asked = Instant::now();
        progress.go_on(0, 0).then_some(()).ok_or_else(left)
    };
    bulk_load(keyspace, next, pause)
}

/// Puts the entries of a function directly into tables, as one commit.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_keyspace_bulk_load(
    handle: *mut hg_keyspace,
    next: hg_next_entry,
    state: *mut c_void,
    entries: *mut u64,
    error: *mut hg_error,
) -> hg_code {
    let load = |entries: Option<Out<u64>>| {
        let keyspace = keyspace(handle)?;
        let next = next.ok_or_else(|| Failure::invalid("expected a function, found NULL"))?;
        let all = Entries { next, state };
        let report = match Progress::of_thread().is_wanted() {
            false => keyspace.bulk_load(all)?,
            true => load_on_thread(keyspace.clone(), all)?,
        };
        entries.inspect(|place| place.set(report.entries));
        Ok::<(), Failure>(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, Optional(entries), load) }
}
