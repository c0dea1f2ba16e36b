//! Merge operators: functions that combine a value with the changes of it, the *operands*.
//!
//! A write of an operand reads nothing. Reads and merges combine the operands of a key with its
//! value later. So an operator must be associative: combining two operands first, or one after the
//! other with the value, gives the same.

mod built_in;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::base::entry::VALUE_BYTES_MAX;
use crate::base::error::{Error, ErrorKind, Result};

/// The failure of a merge operator, in its own words.
pub type MergeError = Box<dyn std::error::Error + Send + Sync>;

/// An operator gets at most this many operands at once.
const OPERANDS_AT_ONCE_MAX: usize = 1024;
/// The longest name of an operator, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Combines values with operands ([`Keyspace::merge`](crate::Keyspace::merge)). Registered by
/// [`Builder::merge_operator`](crate::Builder::merge_operator); a keyspace names its operator by
/// [`Layout::merge_operator`](crate::Layout::merge_operator).
///
/// The functions are pure and associative. They run in reads and in background merges, on any
/// thread, and must not call the database. If one fails or panics, nothing is lost: the read
/// returns an [`ErrorKind::Operator`], and a merge keeps the operands as they are.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, Layout, MergeError, MergeOperator};
///
/// /// Keeps the longest value.
/// struct Longest;
///
/// impl MergeOperator for Longest {
///     fn name(&self) -> &str {
///         "longest"
///     }
///
///     fn full(
///         &self,
///         _key: &[u8],
///         base: Option<&[u8]>,
///         operands: &[&[u8]],
///     ) -> Result<Option<Vec<u8>>, MergeError> {
///         let all = base.iter().chain(operands);
///         Ok(all.max_by_key(|value| value.len()).map(|value| value.to_vec()))
///     }
/// }
///
/// let db = Db::builder(dir.path()).merge_operator(Longest).open()?;
/// let titles = db.keyspace("titles", Layout::sorted().merge_operator("longest"))?;
/// titles.put("hedge", "Hedge")?;
/// titles.merge("hedge", "Hedgerow")?;
/// titles.merge("hedge", "H")?;
/// assert_eq!(titles.get("hedge")?.unwrap(), "Hedgerow");
/// # Ok::<(), hedgerow::Error>(())
/// ```
pub trait MergeOperator: Send + Sync + 'static {
    /// The name, 1 to 255 bytes. A database stores it with each keyspace that uses the operator. An
    /// operator that computes something else needs another name.
    fn name(&self) -> &str;

    /// Checks an operand before it is written. Accepts all by default.
    ///
    /// # Errors
    /// What was expected and what was found; nothing is written then.
    fn check(&self, _operand: &[u8]) -> std::result::Result<(), MergeError> {
        Ok(())
    }

    /// Combines the value of a key, if it has one, with operands, the oldest first. Returns the new
    /// value; `None` deletes the key.
    ///
    /// # Errors
    /// The reason why they cannot be combined. Reads of the key fail until it is written again.
    fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> std::result::Result<Option<Vec<u8>>, MergeError>;

    /// Combines two operands into one with the same effect. `None` keeps both. Without it, operands
    /// stay apart until they meet the value, and reads of the key combine all of them.
    fn partial(&self, _key: &[u8], _older: &[u8], _newer: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// The operators of a database, by name.
#[derive(Clone)]
pub(crate) struct Operators(BTreeMap<String, Arc<dyn MergeOperator>>);

impl Default for Operators {
    /// The built-in ones.
    fn default() -> Operators {
        let mut operators = Operators(BTreeMap::new());
        built_in::all().for_each(|it| operators.add(it));
        operators
    }
}

impl Operators {
    /// Registers an operator. Of two with one name the later counts.
    pub(crate) fn add(&mut self, operator: Arc<dyn MergeOperator>) {
        self.0.insert(operator.name().to_owned(), operator);
    }

    /// Refuses names out of bounds.
    pub(crate) fn check(&self) -> Result<()> {
        self.0.keys().try_for_each(|name| check_name(name))
    }

    /// The operator of a keyspace that names this one.
    pub(crate) fn named(&self, name: &str) -> KeyspaceOperator {
        let names = || self.0.keys().map(|it| format!("`{it}`"));
        let operator = self.0.get(name).cloned();
        KeyspaceOperator {
            operator: operator.ok_or_else(|| names().collect::<Vec<_>>().join(", ")),
            name: name.to_owned(),
        }
    }
}

pub(crate) fn check_name(name: &str) -> Result<()> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "expected a name of a merge operator of 1 to {NAME_BYTES_MAX} bytes, found {} bytes",
        name.len()
    )))
}

/// The operator that a keyspace names. A program that opens the database need not have it.
pub(crate) struct KeyspaceOperator {
    pub(crate) name: String,
    /// The operator, or the names of those that are registered.
    operator: std::result::Result<Arc<dyn MergeOperator>, String>,
}

impl fmt::Debug for KeyspaceOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl KeyspaceOperator {
    /// The operator; `Unsupported` if it is not registered.
    pub(crate) fn operator(&self) -> Result<&dyn MergeOperator> {
        self.operator.as_deref().map_err(|registered| {
            Error::new(
                ErrorKind::Unsupported,
                format!(
                    "expected the merge operator `{}`, found that it is not registered, but \
                     {registered}: give it to `Builder::merge_operator`",
                    self.name
                ),
            )
        })
    }

    /// Checks an operand that is to be written.
    pub(crate) fn check(&self, operand: &[u8]) -> Result<()> {
        let operator = self.operator()?;
        match self.guarded(|| operator.check(operand))? {
            Ok(()) => Ok(()),
            Err(error) => Err(Error::invalid(error.to_string())),
        }
    }

    /// The value of a key with operands, the oldest first; `None` is no value.
    pub(crate) fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[impl AsRef<[u8]>],
    ) -> Result<Option<Vec<u8>>> {
        let operator = self.operator()?;
        let mut value: Option<Vec<u8>> = None;
        let mut is_first = true;
        for some in operands.chunks(OPERANDS_AT_ONCE_MAX) {
            let some: Vec<&[u8]> = some.iter().map(AsRef::as_ref).collect();
            let base = if is_first { base } else { value.as_deref() };
            let combined = self.guarded(|| operator.full(key, base, &some))?;
            value = combined.map_err(|error| self.failed(key, &error.to_string()))?;
            is_first = false;
        }
        Ok(value)
    }

    /// Two operands as one, if the operator can and it is not longer than a value may be. A panic
    /// counts as no.
    pub(crate) fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        let operator = self.operator.as_deref().ok()?;
        let combined = self.guarded(|| operator.partial(key, older, newer));
        combined.ok()?.filter(|it| it.len() <= VALUE_BYTES_MAX)
    }

    /// Calls the operator. A panic becomes an error.
    fn guarded<T>(&self, call: impl FnOnce() -> T) -> Result<T> {
        catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
            let message = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
            let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
            let message = message.unwrap_or_default();
            Error::new(
                ErrorKind::Operator,
                format!("the merge operator `{}` panicked: {message}", self.name),
            )
        })
    }

    fn failed(&self, key: &[u8], why: &str) -> Error {
        Error::new(
            ErrorKind::Operator,
            format!(
                "the merge operator `{}` cannot combine the operands of the key `{}`: {why}",
                self.name,
                key.escape_ascii()
            ),
        )
    }
}

#[cfg(test)]
mod tests;
