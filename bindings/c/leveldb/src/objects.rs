//! Objects that a program makes of its own functions: comparators and filter policies.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{self, Write};
use std::sync::Once;

use hedgerow_bindings::{Failure, Handles, opaque, run};

use crate::calls::{number, pointer};

static COMPARATORS: Handles<Comparator> = Handles::new(2, "comparator");
static POLICIES: Handles<Policy> = Handles::new(3, "filter policy");

opaque!(leveldb_comparator_t leveldb_filterpolicy_t);

/// Refuses a comparator that orders some keys otherwise than `memcmp`.
pub(crate) fn check_comparator(handle: u64) -> Result<(), Failure> {
    let comparator = COMPARATORS.get(handle)?;
    match comparator.is_bytewise() {
        true => Ok(()),
        false => Err(Failure::invalid(format!(
            "expected a comparator that orders keys by their bytes, found `{}`",
            comparator.name()
        ))),
    }
}

/// The bits per key of a policy of Bloom filters; `None` for every other one.
pub(crate) fn bits_per_key(policy: *mut leveldb_filterpolicy_t) -> Option<f32> {
    POLICIES.get(number(policy)).ok()?.bits_per_key
}

type Compare =
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
type Destructor = unsafe extern "C" fn(*mut c_void);
type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;

/// The program's state of an object, which its functions get.
struct State {
    state: *mut c_void,
    destructor: Option<Destructor>,
}

// SAFETY: LevelDB's interface wants functions and states that any thread may use.
unsafe impl Send for State {}
// SAFETY: as above.
unsafe impl Sync for State {}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the program gave both together, and the destructor is called once.
            unsafe { destructor(self.state) };
        }
    }
}

struct Comparator {
    state: State,
    compare: Option<Compare>,
    name: Option<Name>,
}

impl Comparator {
    /// Returns true if the comparator orders some keys, from the shortest to those with high bytes,
    /// as `memcmp` does.
    fn is_bytewise(&self) -> bool {
        const KEYS: [&[u8]; 12] = [
            b"", b"\0", b"\0\0", b"\0\x01", b"10", b"9", b"A", b"a", b"a\0", b"aa", b"b", b"\xff",
        ];
        let Some(compare) = self.compare else {
            return false;
        };
        let pairs = KEYS.iter().flat_map(|a| KEYS.iter().map(move |b| (*a, *b)));
        pairs.into_iter().all(|(a, b)| {
            let (left, right) = (a.as_ptr().cast(), b.as_ptr().cast());
            // SAFETY: the program gave the function and its state together; the keys can be read.
            let order = unsafe { compare(self.state.state, left, a.len(), right, b.len()) };
            order.cmp(&0) == a.cmp(b)
        })
    }

    fn name(&self) -> String {
        let Some(name) = self.name else {
            return String::new();
        };
        // SAFETY: the program gave the function and its state together.
        let name = unsafe { name(self.state.state) };
        if name.is_null() {
            return String::new();
        }
        // SAFETY: LevelDB's interface wants a text that ends with a zero byte.
        unsafe { CStr::from_ptr(name) }
            .to_string_lossy()
            .into_owned()
    }
}

/// Makes a comparator of functions of the program.
///
/// # Safety
/// Any thread may call the functions with `state` until the comparator is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    compare: Option<
        unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int,
    >,
    name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
) -> *mut leveldb_comparator_t {
    let state = State { state, destructor };
    let comparator = Comparator {
        state,
        compare,
        name,
    };
    pointer(run(|| COMPARATORS.insert(comparator)).ok())
}

/// Frees a comparator and calls its destructor.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_comparator_destroy(comparator: *mut leveldb_comparator_t) {
    drop(COMPARATORS.free(number(comparator)));
}

struct Policy {
    /// `None` is a policy of the program's own.
    bits_per_key: Option<f32>,
    _state: Option<State>,
}

/// Makes a filter policy of functions of the program, which are never called: tables have the
/// engine's filters or none.
///
/// # Safety
/// `destructor` may be called with `state` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    _create_filter: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *const *const c_char,
            *const usize,
            c_int,
            *mut usize,
        ) -> *mut c_char,
    >,
    _key_may_match: Option<
        unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8,
    >,
    _name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
) -> *mut leveldb_filterpolicy_t {
    static WARNED: Once = Once::new();
    let message = b"libhedgerow_leveldb: filter policies of a program are not used\n";
    WARNED.call_once(|| drop(io::stderr().write_all(message)));
    let policy = Policy {
        bits_per_key: None,
        _state: Some(State { state, destructor }),
    };
    pointer(run(|| POLICIES.insert(policy)).ok())
}

/// Makes a policy of Bloom filters with this many bits per key, 1 to 32: the engine has no others.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(
    bits_per_key: c_int,
) -> *mut leveldb_filterpolicy_t {
    let policy = Policy {
        bits_per_key: Some(bits_per_key.clamp(1, 32) as f32),
        _state: None,
    };
    pointer(run(|| POLICIES.insert(policy)).ok())
}

/// Frees a filter policy and calls its destructor.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_destroy(policy: *mut leveldb_filterpolicy_t) {
    drop(POLICIES.free(number(policy)));
}
