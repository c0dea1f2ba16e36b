//! The errors of the engine as errors of Level: a code and a message.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use engine::ErrorKind;

/// The code of an error, as users of Level compare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(&'static str);

impl Code {
    pub(crate) const ABORTED: Code = Code("LEVEL_ABORTED");
    pub(crate) const DATABASE_NOT_OPEN: Code = Code("LEVEL_DATABASE_NOT_OPEN");
    pub(crate) const INTERNAL: Code = Code("LEVEL_INTERNAL_ERROR");
    pub(crate) const INVALID: Code = Code("LEVEL_INVALID_ARGUMENT");
    pub(crate) const IO: Code = Code("LEVEL_IO_ERROR");
    pub(crate) const ITERATOR_NOT_OPEN: Code = Code("LEVEL_ITERATOR_NOT_OPEN");
    pub(crate) const SNAPSHOT_NOT_OPEN: Code = Code("LEVEL_SNAPSHOT_NOT_OPEN");
}

impl AsRef<str> for Code {
    fn as_ref(&self) -> &str {
        self.0
    }
}

/// Napi makes errors of its own from the arguments of a function.
impl From<napi::Status> for Code {
    fn from(_: napi::Status) -> Code {
        Code::INVALID
    }
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Failure {
        let message = message.into();
        Failure { code, message }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(Code::INVALID, message)
    }

    fn of_panic(payload: &(dyn Any + Send)) -> Failure {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Failure::new(Code::INTERNAL, format!("the engine panicked: {text}"))
    }
}

impl From<engine::Error> for Failure {
    fn from(error: engine::Error) -> Failure {
        let code = match error.kind() {
            ErrorKind::InvalidArgument => Code::INVALID,
            ErrorKind::Unsupported => Code("LEVEL_NOT_SUPPORTED"),
            ErrorKind::Locked => Code("LEVEL_LOCKED"),
            ErrorKind::Io => Code::IO,
            ErrorKind::NoSpace => Code("LEVEL_NO_SPACE"),
            ErrorKind::Corruption => Code("LEVEL_CORRUPTION"),
            ErrorKind::FormatVersion => Code("LEVEL_FORMAT_VERSION"),
            ErrorKind::Conflict => Code("LEVEL_CONFLICT"),
            ErrorKind::Poisoned => Code("LEVEL_POISONED"),
            ErrorKind::Closed => Code::DATABASE_NOT_OPEN,
            ErrorKind::Cancelled => Code::ABORTED,
            ErrorKind::Operator => Code("LEVEL_OPERATOR_ERROR"),
            _ => Code::INTERNAL,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<Failure> for napi::Error<Code> {
    fn from(failure: Failure) -> napi::Error<Code> {
        napi::Error::new(failure.code, failure.message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Calls a function. A panic becomes a failure.
pub(crate) fn caught<T>(function: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|it| Err(Failure::of_panic(&*it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_failure_with_its_message() {
        let failure = caught::<()>(|| panic!("page {} is missing", 7)).unwrap_err();
        assert_eq!(failure.code, Code::INTERNAL);
        assert_eq!(failure.message, "the engine panicked: page 7 is missing");
    }

    #[test]
    fn an_error_of_the_engine_keeps_its_message() {
        let error = engine::Error::new(ErrorKind::Locked, "held by process 4");
        let failure = Failure::from(error);
        assert_eq!(failure.code.as_ref(), "LEVEL_LOCKED");
        assert!(failure.message.contains("held by process 4"));
    }
}
