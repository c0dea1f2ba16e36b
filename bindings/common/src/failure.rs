//! Failures as foreign code sees them: the engine's errors and caught panics.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use engine::{Error, ErrorKind};

/// The failure of a call.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The kind; `None` is a defect of this library, which panicked.
    pub kind: Option<ErrorKind>,
    /// A sentence that names what was expected and found.
    pub message: String,
    /// The keyspace of a conflict.
    pub keyspace: Option<String>,
    /// The key of a conflict.
    pub key: Option<Vec<u8>>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure {
            kind: Some(kind),
            message: message.into(),
            keyspace: None,
            key: None,
        }
    }

    /// A call with an argument that is out of bounds.
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(ErrorKind::InvalidArgument, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            keyspace: error.keyspace().map(str::to_owned),
            key: error.key().map(<[u8]>::to_vec),
            ..Failure::new(error.kind(), error.to_string())
        }
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
pub fn run<R>(body: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    // After a panic, the objects that the call used are as after an error: the engine keeps its own
    // state whole, and the locks of the bindings are taken although they are poisoned.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(Failure {
            kind: None,
            message: format!("a defect of this library: {}", message_of(&*panic)),
            keyspace: None,
            key: None,
        })
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
