//! Options, and the objects that they refer to: caches, comparators, filter policies, environments.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use engine::{Builder, Compression, Db, Design, FilterSpec};
use hedgerow_bindings::foreign::MallocCopy;
use hedgerow_bindings::{Failure, Handles, opaque, run};

use crate::calls::{number, pointer};

/// LevelDB's defaults, in bytes.
const CACHE_BYTES: u64 = 8 << 20;
const WRITE_BUFFER_BYTES: u64 = 4 << 20;
/// The part of the memory budget for indexes, filters and merges, in bytes.
const OTHER_BYTES: u64 = 8 << 20;
/// A larger memory budget than this is taken for a mistake in a sum, in bytes.
const BUDGET_BYTES_MAX: u64 = 1 << 40;

static OPTIONS: Handles<Mutex<Options>> = Handles::new(0, "set of options");
static CACHES: Handles<u64> = Handles::new(1, "cache");
static COMPARATORS: Handles<Comparator> = Handles::new(2, "comparator");
static POLICIES: Handles<Policy> = Handles::new(3, "filter policy");
static ENVIRONMENTS: Handles<()> = Handles::new(4, "environment");
static READ_OPTIONS: Handles<ReadOptions> = Handles::new(5, "set of read options");
static WRITE_OPTIONS: Handles<AtomicBool> = Handles::new(6, "set of write options");

opaque!(leveldb_options_t leveldb_cache_t leveldb_comparator_t leveldb_filterpolicy_t
    leveldb_env_t leveldb_logger_t leveldb_readoptions_t leveldb_writeoptions_t leveldb_snapshot_t);

/// The options of a database that have an effect.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) create_if_missing: bool,
    pub(crate) error_if_exists: bool,
    comparator: u64,
    cache_bytes: u64,
    write_buffer_bytes: u64,
    design: Design,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create_if_missing: false,
            error_if_exists: false,
            comparator: 0,
            cache_bytes: CACHE_BYTES,
            write_buffer_bytes: WRITE_BUFFER_BYTES,
            design: Design::default(),
        }
    }
}

impl Options {
    pub(crate) fn of(handle: *const leveldb_options_t) -> Result<Options, Failure> {
        Ok(lock(&*OPTIONS.get(number(handle))?).clone())
    }

    pub(crate) fn design(&self) -> Design {
        self.design.clone()
    }

    pub(crate) fn builder(&self, path: &std::path::Path) -> Builder {
        let parts = [
            self.write_buffer_bytes,
            self.write_buffer_bytes,
            OTHER_BYTES,
        ];
        let budget = parts
            .iter()
            .fold(self.cache_bytes, |sum, part| sum.saturating_add(*part));
        Db::builder(path).memory_budget(budget.min(BUDGET_BYTES_MAX))
    }

    /// Refuses a comparator that orders some keys otherwise than `memcmp`.
    pub(crate) fn check_comparator(&self) -> Result<(), Failure> {
        if self.comparator == 0 {
            return Ok(());
        }
        let comparator = COMPARATORS.get(self.comparator)?;
        match comparator.is_bytewise() {
            true => Ok(()),
            false => Err(Failure::invalid(format!(
                "expected a comparator that orders keys by their bytes, found `{}`",
                comparator.name()
            ))),
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes a set of options, if the handle names one.
fn set(options: *mut leveldb_options_t, change: impl FnOnce(&mut Options)) {
    // LevelDB reports no error here.
    drop(run(|| {
        change(&mut lock(&*OPTIONS.get(number(options))?));
        Ok(())
    }));
}

/// Makes a set of options with LevelDB's defaults.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_create() -> *mut leveldb_options_t {
    pointer(run(|| OPTIONS.insert(Mutex::default())).ok())
}

/// Frees a set of options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_destroy(options: *mut leveldb_options_t) {
    drop(OPTIONS.free(number(options)));
}

/// Sets the comparator, which is looked at when a database is opened; NULL is the default.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_comparator(
    options: *mut leveldb_options_t,
    comparator: *mut leveldb_comparator_t,
) {
    set(options, |options| options.comparator = number(comparator));
}

/// Sets the filter policy; NULL is the engine's default.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_filter_policy(
    options: *mut leveldb_options_t,
    policy: *mut leveldb_filterpolicy_t,
) {
    let policy = POLICIES.get(number(policy));
    let bits_per_key = policy.ok().and_then(|policy| policy.bits_per_key);
    set(options, |options| {
        options.design.filter = match bits_per_key {
            Some(bits_per_key) => FilterSpec::Bloom { bits_per_key },
            None => Design::default().filter,
        };
    });
}

/// Creates a database that is missing, unless this is 0.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_create_if_missing(options: *mut leveldb_options_t, on: u8) {
    set(options, |options| options.create_if_missing = on != 0);
}

/// Refuses a database that exists, unless this is 0.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_error_if_exists(options: *mut leveldb_options_t, on: u8) {
    set(options, |options| options.error_if_exists = on != 0);
}

/// Has no effect: every page is verified.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_paranoid_checks(_options: *mut leveldb_options_t, _on: u8) {}

/// Has no effect: there is one environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_env(
    _options: *mut leveldb_options_t,
    _env: *mut leveldb_env_t,
) {
}

/// Has no effect: C code cannot make a logger.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_info_log(
    _options: *mut leveldb_options_t,
    _logger: *mut leveldb_logger_t,
) {
}

/// Sets the bytes of a write buffer; the memory budget has two of them.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_write_buffer_size(
    options: *mut leveldb_options_t,
    bytes: usize,
) {
    set(options, |options| options.write_buffer_bytes = bytes as u64);
}

/// Has no effect: the engine decides how many files are open.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_open_files(
    _options: *mut leveldb_options_t,
    _files: c_int,
) {
}

/// Adds the bytes of a cache to the memory budget; NULL is a cache of 8 MiB.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_cache(
    options: *mut leveldb_options_t,
    cache: *mut leveldb_cache_t,
) {
    let bytes = CACHES
        .get(number(cache))
        .map_or(CACHE_BYTES, |bytes| *bytes);
    set(options, |options| options.cache_bytes = bytes);
}

/// Sets the bytes of a block, 512 to 256 KiB.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_size(options: *mut leveldb_options_t, bytes: usize) {
    let bytes = bytes.clamp(512, 256 << 10) as u32;
    set(options, |options| options.design.block_bytes = bytes);
}

/// Has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_block_restart_interval(
    _options: *mut leveldb_options_t,
    _keys: c_int,
) {
}

/// Sets the bytes of a table, 1 MiB to 1 GiB, as LevelDB clips them.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_max_file_size(options: *mut leveldb_options_t, bytes: usize) {
    let bytes = bytes.clamp(1 << 20, 1 << 30) as u64;
    set(options, |options| options.design.table_bytes = Some(bytes));
}

/// Sets the compression: 0 is none, 1 is LZ4.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_options_set_compression(
    options: *mut leveldb_options_t,
    compression: c_int,
) {
    set(options, |options| {
        options.design.compression = match compression {
            0 => Compression::None,
            _ => Compression::Lz4,
        };
    });
}

// ---- caches ----

/// Makes a cache of this many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(bytes: usize) -> *mut leveldb_cache_t {
    pointer(run(|| CACHES.insert(bytes as u64)).ok())
}

/// Frees a cache.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_destroy(cache: *mut leveldb_cache_t) {
    drop(CACHES.free(number(cache)));
}

// ---- comparators ----

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

// ---- filter policies ----

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

/// Makes a policy of Bloom filters with this many bits per key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(
    bits_per_key: c_int,
) -> *mut leveldb_filterpolicy_t {
    let policy = Policy {
        bits_per_key: Some(bits_per_key.clamp(1, 64) as f32),
        _state: None,
    };
    pointer(run(|| POLICIES.insert(policy)).ok())
}

/// Frees a filter policy and calls its destructor.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_destroy(policy: *mut leveldb_filterpolicy_t) {
    drop(POLICIES.free(number(policy)));
}

// ---- read and write options ----

/// Read options: the handle of a snapshot, or 0.
#[derive(Default)]
struct ReadOptions {
    snapshot: AtomicU64,
}

/// The snapshot that read options name, or 0.
pub(crate) fn snapshot_of(options: *const leveldb_readoptions_t) -> Result<u64, Failure> {
    Ok(READ_OPTIONS
        .get(number(options))?
        .snapshot
        .load(Ordering::Relaxed))
}

/// Returns true if write options ask for a sync.
pub(crate) fn is_synced(options: *const leveldb_writeoptions_t) -> Result<bool, Failure> {
    Ok(WRITE_OPTIONS.get(number(options))?.load(Ordering::Relaxed))
}

/// Makes a set of read options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> *mut leveldb_readoptions_t {
    pointer(run(|| READ_OPTIONS.insert(ReadOptions::default())).ok())
}

/// Frees a set of read options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_destroy(options: *mut leveldb_readoptions_t) {
    drop(READ_OPTIONS.free(number(options)));
}

/// Has no effect: every page is verified.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_verify_checksums(
    _options: *mut leveldb_readoptions_t,
    _on: u8,
) {
}

/// Has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_fill_cache(
    _options: *mut leveldb_readoptions_t,
    _on: u8,
) {
}

/// Reads at a snapshot; NULL reads the present. Reads at a released snapshot fail.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_snapshot(
    options: *mut leveldb_readoptions_t,
    snapshot: *const leveldb_snapshot_t,
) {
    drop(run(|| {
        let options = READ_OPTIONS.get(number(options))?;
        options.snapshot.store(number(snapshot), Ordering::Relaxed);
        Ok(())
    }));
}

/// Makes a set of write options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> *mut leveldb_writeoptions_t {
    pointer(run(|| WRITE_OPTIONS.insert(AtomicBool::new(false))).ok())
}

/// Frees a set of write options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_destroy(options: *mut leveldb_writeoptions_t) {
    drop(WRITE_OPTIONS.free(number(options)));
}

/// Makes writes durable before they return, unless this is 0.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_set_sync(options: *mut leveldb_writeoptions_t, on: u8) {
    drop(run(|| {
        WRITE_OPTIONS
            .get(number(options))?
            .store(on != 0, Ordering::Relaxed);
        Ok(())
    }));
}

// ---- environments ----

/// The environment: the machine.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_default_env() -> *mut leveldb_env_t {
    pointer(run(|| ENVIRONMENTS.insert(())).ok())
}

/// Frees an environment.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_destroy(env: *mut leveldb_env_t) {
    drop(ENVIRONMENTS.free(number(env)));
}

/// The path of a directory for tests, which exists: `$TEST_TMPDIR`, or `leveldbtest-UID` in the
/// directory of temporary files. The caller frees it.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_env_get_test_directory(env: *mut leveldb_env_t) -> *mut c_char {
    let path = run(|| {
        ENVIRONMENTS.get(number(env))?;
        let named = std::env::var_os("TEST_TMPDIR").filter(|path| !path.is_empty());
        let path = named.map_or_else(
            || {
                // SAFETY: it takes nothing and cannot fail.
                let user = unsafe { libc::geteuid() };
                std::env::temp_dir().join(format!("leveldbtest-{user}"))
            },
            Into::into,
        );
        std::fs::create_dir_all(&path)
            .map_err(|e| Failure::invalid(format!("cannot create {}: {e}", path.display())))?;
        Ok(MallocCopy::of(path.as_os_str().as_encoded_bytes())?.give())
    });
    path.unwrap_or(std::ptr::null_mut())
}
