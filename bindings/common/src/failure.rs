//! Failures as foreign code sees them: the engine's errors and caught panics.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

use engine::{Error, ErrorKind};

/// The failure of a call: a pointer, so that the results of calls are small.
#[derive(Debug, Clone)]
pub struct Failure(Box<Details>);

/// The parts of a failure.
#[derive(Debug, Clone)]
pub struct Details {
    /// The kind; `None` is a defect of this library, which panicked.
    pub kind: Option<ErrorKind>,
    /// A sentence that names what was expected and found.
    pub message: String,
    /// The keyspace of a conflict, or of the flush that a write waited for in vain.
    pub keyspace: Option<String>,
    /// The key of a conflict.
    pub key: Option<Vec<u8>>,
}

impl Deref for Failure {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl Failure {
    /// A failure of this kind.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure::of(Some(kind), message.into())
    }

    /// A call with an argument that is out of bounds.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(ErrorKind::InvalidArgument, message)
    }

    /// The failure of a call that has done this before.
    #[cold]
    pub fn after(mut self, done: &str) -> Failure {
        self.0.message.push_str(": ");
        self.0.message.push_str(done);
        self
    }

    fn of(kind: Option<ErrorKind>, message: String) -> Failure {
        Failure(Box::new(Details {
            kind,
            message,
            keyspace: None,
            key: None,
        }))
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Failure {
        let mut failure = Failure::new(error.kind(), error.to_string());
        failure.0.keyspace = error.keyspace().map(str::to_owned);
        failure.0.key = error.key().map(<[u8]>::to_vec);
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Calls a function. A panic in it becomes a failure, so none crosses into foreign code.
///
/// # Errors
/// As the function.
#[inline]
pub fn run<R>(body: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    // After a panic, the objects that the call used are as after an error: the engine keeps its own
    // state whole, and the locks of the bindings are taken although they are poisoned.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let message = format!("a defect of this library: {}", message_of(&*panic));
        Err(Failure::of(None, message))
    })
}

/// The message of a caught panic.
pub fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
}

#[cfg(test)]
mod tests {
    use engine::{Db, Layout};

    use super::*;

    #[test]
    fn a_panic_becomes_a_failure() {
        let failure = run(|| -> Result<(), Failure> { panic!("broken: {}", 7) }).unwrap_err();
        assert_eq!(failure.kind, None);
        assert_eq!(failure.message, "a defect of this library: broken: 7");
    }

    #[test]
    fn a_conflict_names_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let users = db.keyspace("users", Layout::sorted()).unwrap();
        let mut transaction = db.transaction().unwrap();
        transaction.get(&users, "ada").unwrap();
        transaction.put(&users, "ada", "1815").unwrap();
        users.put("ada", "1852").unwrap();
        let failure = Failure::from(transaction.commit().unwrap_err());
        assert_eq!(failure.kind, Some(ErrorKind::Conflict));
        assert_eq!(failure.keyspace.as_deref(), Some("users"));
        assert_eq!(failure.key.as_deref(), Some(&b"ada"[..]));
    }
}
