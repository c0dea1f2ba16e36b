//! Options for opening a database.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use engine::{Builder, Db};
use hedgerow_bindings::foreign::{Out, Text, number};
use hedgerow_bindings::{Exclusive, Failure, text};

use crate::operator::{Operator, Shared, hg_merge_full, hg_merge_partial};
use crate::types::{OPTIONS, call, free, give, hg_code, hg_error, hg_options};

/// Options by name, and merge operators.
#[derive(Default, Clone)]
pub(crate) struct Options {
    named: Vec<(String, String)>,
    operators: Vec<Arc<Operator>>,
}

impl Options {
    /// The options of a handle; NULL has the defaults.
    pub(crate) fn of(handle: *const hg_options) -> Result<Options, Failure> {
        match number(handle) {
            0 => Ok(Options::default()),
            handle => Ok(OPTIONS.get(handle)?.lock()?.clone()),
        }
    }

    pub(crate) fn builder(&self, path: &Path) -> Result<Builder, Failure> {
        let builder = self
            .operators
            .iter()
            .fold(Db::builder(path), |builder, operator| {
                builder.merge_operator(Shared(operator.clone()))
            });
        let mut named = self.named.iter();
        named.try_fold(builder, |builder, (name, value)| {
            text::option(builder, name, value)
        })
    }
}

/// Makes a set of options with the defaults.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_options_new(
    options: *mut *mut hg_options,
    error: *mut hg_error,
) -> hg_code {
    let make = |place: Out<*mut hg_options>| give(&place, &OPTIONS, Exclusive::default());
    // SAFETY: the caller's promise.
    unsafe { call(error, options, make) }
}

/// Frees a set of options. Databases that were opened with it are not changed.
#[unsafe(no_mangle)]
pub extern "C" fn hg_options_free(options: *mut hg_options) -> hg_code {
    free(&OPTIONS, options)
}

/// Sets an option.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_options_set(
    options: *mut hg_options,
    name: *const c_char,
    value: *const c_char,
    error: *mut hg_error,
) -> hg_code {
    let set = |(name, value): (Text, Text)| {
        let (name, value) = (name.required("the name of an option")?, value.read()?);
        // A wrong value is refused here rather than by `hg_open`.
        drop(text::option(Db::builder("."), name, value)?);
        let options = OPTIONS.get(number(options))?;
        let mut options = options.lock()?;
        options.named.push((name.to_owned(), value.to_owned()));
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, (name, value), set) }
}

/// Adds a merge operator of the program.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hg_options_add_merge_operator(
    options: *mut hg_options,
    name: *const c_char,
    state: *mut c_void,
    full: hg_merge_full,
    partial: hg_merge_partial,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    error: *mut hg_error,
) -> hg_code {
    let add = |name: Text| {
        let name = name.required("the name of a merge operator")?;
        let options = OPTIONS.get(number(options))?;
        let mut options = options.lock()?;
        // Last, because the operator calls `destroy` when it is dropped: a call that fails leaves
        // the state to the program.
        let operator = Operator::new(name, state, full, partial, destroy)?;
        options.operators.push(Arc::new(operator));
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call(error, name, add) }
}

/// The outcome of a merge function.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub enum hg_merged {
    /// The result has the value, or the combined operand.
    HG_MERGED_VALUE = 0,
    /// The key has no value now; the operands stay apart.
    HG_MERGED_NOTHING = 1,
    /// The operands cannot be combined.
    HG_MERGED_FAILURE = 2,
}

/// The number of a function's outcome.
pub(crate) const VALUE: c_int = hg_merged::HG_MERGED_VALUE as c_int;
pub(crate) const NOTHING: c_int = hg_merged::HG_MERGED_NOTHING as c_int;
