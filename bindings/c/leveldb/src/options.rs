//! Options, and what they refer to: caches and environments. `objects.rs` has the rest.

use std::ffi::{c_char, c_int};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::{Builder, Compression, Db, Design, FilterSpec};
use hedgerow_bindings::foreign::MallocCopy;
use hedgerow_bindings::{Failure, Handles, opaque, run};

use crate::calls::{number, pointer};
use crate::objects::{self, leveldb_comparator_t, leveldb_filterpolicy_t};

/// LevelDB's defaults, in bytes.
const CACHE_BYTES: u64 = 8 << 20;
const WRITE_BUFFER_BYTES: u64 = 4 << 20;
/// The part of the memory budget for indexes, filters and merges, in bytes.
const OTHER_BYTES: u64 = 8 << 20;

static OPTIONS: Handles<Mutex<Options>> = Handles::new(0, "set of options");
static CACHES: Handles<u64> = Handles::new(1, "cache");
static ENVIRONMENTS: Handles<()> = Handles::new(4, "environment");
static READ_OPTIONS: Handles<ReadOptions> = Handles::new(5, "set of read options");
static WRITE_OPTIONS: Handles<AtomicBool> = Handles::new(6, "set of write options");

opaque!(leveldb_options_t leveldb_cache_t leveldb_env_t leveldb_logger_t leveldb_readoptions_t
    leveldb_writeoptions_t leveldb_snapshot_t);

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
        Db::builder(path).memory_budget(budget.min(memory_of_machine()))
    }

    /// Refuses a comparator that orders some keys otherwise than `memcmp`.
    pub(crate) fn check_comparator(&self) -> Result<(), Failure> {
        match self.comparator {
            0 => Ok(()),
            handle => objects::check_comparator(handle),
        }
    }
}

/// The memory of the machine in bytes, 1 TiB if it is unknown. A larger budget is meant as no
/// bound, but the engine's page cache takes 0.5 % of the budget when it is made.
fn memory_of_machine() -> u64 {
    let number = |name| {
        // SAFETY: any name may be asked for.
        let number = unsafe { libc::sysconf(name) };
        u64::try_from(number).ok()
    };
    let memory = number(libc::_SC_PHYS_PAGES).zip(number(libc::_SC_PAGESIZE));
    memory.map_or(1 << 40, |(pages, bytes)| pages.saturating_mul(bytes))
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
    let bits_per_key = objects::bits_per_key(policy);
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
