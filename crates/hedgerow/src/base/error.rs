//! The error type of the engine: the failure, its place and the caller's remedy.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::names;

/// The result of every operation that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// The caller's remedy for an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Fix the call: an argument is out of bounds, or two options contradict each other.
    InvalidArgument,
    /// The keyspace's layout, or the way that the database was opened, does not allow this call.
    /// The message names calls that are allowed.
    Unsupported,
    /// Another process, or another handle in this one, has the database open for writing.
    Locked,
    /// The operating system refused; see the source.
    Io,
    /// Free some space. Reads keep working, and writes resume by themselves when there is room.
    NoSpace,
    /// Bytes on disk differ from the bytes written. Restore the named file, or run `repair`.
    Corruption,
    /// A newer version wrote the database: upgrade this program.
    FormatVersion,
    /// Another writer changed the data first: try again. For a transaction [`Error::keyspace`] and
    /// [`Error::key`] say which.
    Conflict,
    /// An earlier write or sync of the log failed, so the state of the log is unknown. Reads keep
    /// working. Close the database and open it again.
    Poisoned,
    /// The database was closed, or the keyspace dropped.
    Closed,
    /// The caller cancelled the work, or a function of the caller panicked.
    Cancelled,
    /// A queue is full: await the call, or try again. Or the call excludes reads of files, and its
    /// answer takes one: make the call that reads.
    WouldBlock,
    /// A merge operator failed or panicked. Its operands are kept: a program whose operator can
    /// combine them reads them.
    Operator,
    /// The database no longer has these changes: make another copy of it, and follow from there.
    Gap {
        /// The smallest number behind which it has all changes.
        oldest: u64,
    },
}

impl ErrorKind {
    fn describe(self) -> &'static str {
        match self {
            ErrorKind::InvalidArgument => "invalid argument",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Locked => "locked",
            ErrorKind::Io => "input/output error",
            ErrorKind::NoSpace => "no space left",
            ErrorKind::Corruption => "corruption",
            ErrorKind::FormatVersion => "unknown format version",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Poisoned => "writes are refused after a failed write",
            ErrorKind::Closed => "closed",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::WouldBlock => "would block",
            ErrorKind::Operator => "merge operator failed",
            ErrorKind::Gap { .. } => "gap in the changes",
        }
    }
}

/// A failure: its kind, its message and its place. Cheap to clone.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use hedgerow::{Db, ErrorKind};
///
/// let first = Db::open(dir.path())?;
/// let error = Db::open(dir.path()).unwrap_err();
/// match error.kind() {
///     ErrorKind::Locked => {
///         Db::builder(dir.path()).read_only(true).open()?;
///     }
///     _ => return Err(error),
/// }
/// # drop(first);
/// # Ok::<(), hedgerow::Error>(())
/// ```
#[derive(Clone)]
pub struct Error(Arc<Context>);

#[derive(Debug)]
struct Context {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    source: Option<io::Error>,
    keyspace: Option<String>,
    key: Option<Vec<u8>>,
}

impl Error {
    /// An error of this kind. The message names the expected and the found value.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Arc::new(Context {
            kind,
            message: message.into(),
            path: None,
            offset: None,
            source: None,
            keyspace: None,
            key: None,
        }))
    }

    /// The conflict of a transaction about a key.
    pub(crate) fn conflict(keyspace: String, key: &[u8]) -> Self {
        Error(Arc::new(Context {
            kind: ErrorKind::Conflict,
            message: format!(
                "another write has changed the key `{}` of the keyspace `{keyspace}` since the \
                 transaction began",
                key.escape_ascii()
            ),
            path: None,
            offset: None,
            source: None,
            keyspace: Some(keyspace),
            key: Some(key.to_vec()),
        }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    pub(crate) fn corruption(message: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corruption, message)
    }

    /// An error of the operating system during `action` (`"write"`, `"sync"`) on a file.
    pub fn io(action: &str, path: &Path, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
            io::ErrorKind::UnexpectedEof => ErrorKind::Corruption,
            _ if names::is_refusal(&source) => ErrorKind::Closed,
            _ => ErrorKind::Io,
        };
        Error(Arc::new(Context {
            kind,
            message: format!("cannot {action}"),
            path: Some(path.to_path_buf()),
            offset: None,
            source: Some(source),
            keyspace: None,
            key: None,
        }))
    }

    /// Adds the file, unless the error already names one.
    pub(crate) fn at(self, path: &Path, offset: Option<u64>) -> Self {
        match &self.0.path {
            Some(_) => self,
            None => Error(Arc::new(Context {
                path: Some(path.to_path_buf()),
                offset: self.0.offset.or(offset),
                ..self.context()
            })),
        }
    }

    /// Adds the offset in bytes within the file of [`Error::at`], unless the error already has one.
    pub(crate) fn at_offset(self, offset: u64) -> Self {
        match self.0.offset {
            Some(_) => self,
            None => Error(Arc::new(Context {
                offset: Some(offset),
                ..self.context()
            })),
        }
    }

    /// The same error about a tree of a keyspace.
    pub(crate) fn about(self, keyspace: String) -> Self {
        Error(Arc::new(Context {
            keyspace: Some(keyspace),
            ..self.context()
        }))
    }

    /// A copy of the facts.
    fn context(&self) -> Context {
        let source = self.0.source.as_ref();
        Context {
            kind: self.0.kind,
            message: self.0.message.clone(),
            path: self.0.path.clone(),
            offset: self.0.offset,
            source: source.map(|e| io::Error::new(e.kind(), e.to_string())),
            keyspace: self.0.keyspace.clone(),
            key: self.0.key.clone(),
        }
    }

    /// The kind, which says what the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// True if a file or a directory was not there.
    pub(crate) fn is_not_found(&self) -> bool {
        let kind = self.0.source.as_ref().map(io::Error::kind);
        kind == Some(io::ErrorKind::NotFound)
    }

    /// The message without the kind.
    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The file, if the error concerns one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The offset in the file, in bytes.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The keyspace that another write has changed, if a transaction was refused. If a write
    /// waited for memory in vain, the keyspace whose flush failed, which may be another one than
    /// that of the write.
    pub fn keyspace(&self) -> Option<&str> {
        self.0.keyspace.as_deref()
    }

    /// The key that another write has changed, if a transaction was refused: one that it depends
    /// on. If a range was deleted, or all of the keyspace, it is the first of those.
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.describe(), self.0.message)?;
        if let Some(path) = &self.0.path {
            write!(f, " in {}", path.display())?;
        }
        if let Some(offset) = self.0.offset {
            write!(f, " at offset {offset}")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}
