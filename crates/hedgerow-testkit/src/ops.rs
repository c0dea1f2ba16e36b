//! The language of operations: the calls of a script to a database. Each operation has a text of
//! one line, so that a failing script can be pasted into a file and run again.
//!
//! ```text
//! put a k1 v1~100 sync                  # keyspace, key, value; `sync` waits until it is durable
//! putx a k1 v1 3                        # a value that expires in three hours
//! ttl a 5                               # puts expire in five hours; 0: never
//! wait 2                                # two hours pass
//! del a k1                              # removes a key
//! merge a k1 v1                         # adds an operand
//! delrange a [k1 k9) sync               # removes the keys of a range
//! delprefix a user/                     # removes the keys with a prefix
//! update a k1 append x                  # or: toggle VALUE, remove, keep
//! batch sync put a k1 v ; del b k2      # over several keyspaces, all or nothing
//! transact sync put a k1 v ; all a ; save ; del b k2 ; back ; get a k1 ; other a k3 v
//!                                       # reads what it has written; others write meanwhile
//! abandon put a k1 v ; get a k1         # the same without a commit
//! load a k1 v1 k2 .2                    # a bulk load; keys must ascend; `.` begins an operand
//! pop a first                           # takes the first entry; or: last
//! get a k1                              # `a@3` reads at snapshot 3; also `has`
//! gets a k1 k2                          # several keys
//! ends a@3                              # the first and the last entry, and the number of keys
//! scan a [k1 k9) f3,b1,f*               # bounds (`-` is none); 3 forward, 1 back, rest
//! prefix a user/ f*                     # keys with a prefix
//! cursor 1 open a@3                     # then: cursor 1 go seek:k1 upto:k1 first last next prev
//! cursor 1 close
//! snapshot 3                            # takes a snapshot; release 3
//! flush                                 # or: flush a; compact a - -; settle a; clear a
//! drop a                                # or: create a
//! retune a policy=leveling:2 filter=none
//! sync                                  # also: verify, checkpoint, readonly, reopen, kill
//! ```

mod change;
mod keys;
mod other;
mod places;
mod step;
mod write;

use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use hedgerow::Design;

use crate::blob::Blob;
use crate::setup::{design_text, parse_design};
pub use change::Change;
pub use keys::Keys;
pub use step::TransactionStep;
pub use write::Write;

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Gives a key a value.
    Put {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Blob,
        /// The value.
        value: Blob,
        /// True if the call waits until it is durable.
        synced: bool,
    },
    /// Gives a key a value that expires.
    PutExpiring {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Blob,
        /// The value.
        value: Blob,
        /// The hours that it lives.
        hours: u64,
        /// True if the call waits until it is durable.
        synced: bool,
    },
    /// Sets the hours that values live which are put without an expiry; 0 is for ever.
    TimeToLive {
        /// The keyspace.
        keyspace: String,
        /// The hours.
        hours: u64,
    },
    /// Lets hours pass.
    Wait {
        /// The hours.
        hours: u64,
    },
    /// Removes a key's value.
    Delete {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Blob,
        /// True if the call waits until it is durable.
        synced: bool,
    },
    /// Changes a key's value by an operand.
    Merge {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Blob,
        /// The operand.
        operand: Blob,
        /// True if the call waits until it is durable.
        synced: bool,
    },
    /// Removes the values of the keys of a range.
    DeleteRange {
        /// The keyspace.
        keyspace: String,
        /// The keys.
        keys: Keys,
        /// True if the call waits until it is durable.
        synced: bool,
    },
    /// Reads and writes atomically.
    Update {
        /// The keyspace.
        keyspace: String,
        /// The key.
        key: Blob,
        /// The change of the value.
        change: Change,
        /// True if the call waits until it is durable.
        synced: bool,
    },
    /// Several writes, all or none.
    Batch {
        /// The writes.
        writes: Vec<Write>,
        /// True if the call waits until it is durable.
        synced: bool,
    },
    /// A transaction.
    Transaction {
        /// The operations.
        steps: Vec<TransactionStep>,
        /// False if it is dropped in the end.
        commits: bool,
        /// True if the commit waits until it is durable.
        synced: bool,
    },
    /// A bulk load, refused if its keys do not ascend.
    Load {
        /// The keyspace.
        keyspace: String,
        /// Keys and values.
        entries: Vec<(Blob, Blob)>,
    },
    /// Takes the first or the last entry.
    Pop {
        /// The keyspace.
        keyspace: String,
        /// True for the last entry.
        last: bool,
    },
    /// Reads the first and the last entry, and counts the keys.
    Ends {
        /// The keyspace to read.
        source: Source,
    },
    /// Reads the value of a key.
    Get {
        /// The keyspace to read.
        source: Source,
        /// The key.
        key: Blob,
    },
    /// Checks for a value of a key.
    Has {
        /// The keyspace to read.
        source: Source,
        /// The key.
        key: Blob,
    },
    /// Reads the values of several keys.
    Gets {
        /// The keyspace to read.
        source: Source,
        /// The keys.
        keys: Vec<Blob>,
    },
    /// Reads the keys of a range.
    Scan {
        /// The keyspace to read.
        source: Source,
        /// The beginning of the range.
        lower: Bound<Blob>,
        /// The end of the range.
        upper: Bound<Blob>,
        /// The parts of the scan, with their ends.
        steps: Vec<Step>,
    },
    /// Reads the keys with a prefix.
    Prefix {
        /// The keyspace.
        keyspace: String,
        /// The prefix.
        prefix: Blob,
        /// The parts of the scan, with their ends.
        steps: Vec<Step>,
    },
    /// Opens a cursor. It stays open during other operations.
    OpenCursor {
        /// Its number.
        slot: u8,
        /// The keyspace to read.
        source: Source,
    },
    /// Moves a cursor.
    MoveCursor {
        /// Its number.
        slot: u8,
        /// The moves.
        moves: Vec<Move>,
    },
    /// Closes a cursor.
    CloseCursor {
        /// Its number.
        slot: u8,
    },
    /// Takes a snapshot.
    Snapshot {
        /// Its number.
        slot: u8,
    },
    /// Releases a snapshot.
    Release {
        /// Its number.
        slot: u8,
    },
    /// Writes memtables to tables, of one keyspace or of all.
    Flush {
        /// The keyspace; `None` is all.
        keyspace: Option<String>,
    },
    /// Merges a range down.
    Compact {
        /// The keyspace.
        keyspace: String,
        /// The beginning of the range.
        lower: Bound<Blob>,
        /// The end of the range.
        upper: Bound<Blob>,
    },
    /// Waits until nothing is left to merge.
    Settle {
        /// The keyspace.
        keyspace: String,
    },
    /// Empties a keyspace.
    Clear {
        /// The keyspace.
        keyspace: String,
    },
    /// Drops a keyspace. Its handle stays.
    Drop {
        /// The keyspace.
        keyspace: String,
    },
    /// Makes a keyspace if it does not exist.
    Create {
        /// The keyspace.
        keyspace: String,
    },
    /// Gives a keyspace another design while everything is in use.
    Retune {
        /// The keyspace.
        keyspace: String,
        /// The design.
        design: Design,
    },
    /// Makes everything durable.
    Sync,
    /// Checks everything that is stored.
    Verify,
    /// Makes a checkpoint, opens it, reads it, writes to it.
    Checkpoint,
    /// Opens a second handle for reading only, and reads everything.
    ReadOnly,
    /// Closes the database and opens it again.
    Reopen,
    /// Ends the process, from the disk's view, and opens the database again.
    Kill,
}

/// A keyspace, now or at a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The keyspace.
    pub keyspace: String,
    /// The snapshot; `None` is now.
    pub snapshot: Option<u8>,
}

/// A part of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reads `n` keys from the front.
    Forward(u32),
    /// Reads `n` keys from the back.
    Backward(u32),
    /// Reads all remaining keys from the front, and once more at the end.
    ForwardRest,
    /// Reads all remaining keys from the back, and once more at the end.
    BackwardRest,
}

/// A move of a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// To the first key at or after this one.
    Seek(Blob),
    /// To the last key at or before this one.
    SeekForPrev(Blob),
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// To the next key.
    Next,
    /// To the previous key.
    Prev,
}

fn sync(synced: bool) -> &'static str {
    if synced { " sync" } else { "" }
}

struct List<'a, T>(&'a [T], &'a str);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, item) in self.0.iter().enumerate() {
            let separator = if i == 0 { "" } else { self.1 };
            write!(f, "{separator}{item}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.snapshot {
            None => f.write_str(&self.keyspace),
            Some(slot) => write!(f, "{}@{slot}", self.keyspace),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Forward(n) => write!(f, "f{n}"),
            Step::Backward(n) => write!(f, "b{n}"),
            Step::ForwardRest => f.write_str("f*"),
            Step::BackwardRest => f.write_str("b*"),
        }
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Move::Seek(key) => write!(f, "seek:{key}"),
            Move::SeekForPrev(key) => write!(f, "upto:{key}"),
            Move::First => f.write_str("first"),
            Move::Last => f.write_str("last"),
            Move::Next => f.write_str("next"),
            Move::Prev => f.write_str("prev"),
        }
    }
}

struct Range<'a>(&'a Bound<Blob>, &'a Bound<Blob>);

impl fmt::Display for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Bound::Unbounded => write!(f, "- ")?,
            Bound::Included(key) => write!(f, "[{key} ")?,
            Bound::Excluded(key) => write!(f, "({key} ")?,
        }
        match self.1 {
            Bound::Unbounded => write!(f, "-"),
            Bound::Included(key) => write!(f, "{key}]"),
            Bound::Excluded(key) => write!(f, "{key})"),
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sync = |synced: &bool| sync(*synced);
        match self {
            Op::Put {
                keyspace,
                key,
                value,
                synced,
            } => write!(f, "put {keyspace} {key} {value}{}", sync(synced)),
            Op::Merge { .. } | Op::PutExpiring { .. } | Op::TimeToLive { .. } | Op::Wait { .. } => {
                self.show_other(f)
            }
            Op::Delete {
                keyspace,
                key,
                synced,
            } => write!(f, "del {keyspace} {key}{}", sync(synced)),
            Op::DeleteRange {
                keyspace,
                keys,
                synced,
            } => {
                keys.show(keyspace, f)?;
                f.write_str(sync(synced))
            }
            Op::Update {
                keyspace,
                key,
                change,
                synced,
            } => write!(f, "update {keyspace} {key} {change}{}", sync(synced)),
            Op::Batch { writes, synced } => {
                write!(f, "batch{} {}", sync(synced), List(writes, " ; "))
            }
            Op::Transaction {
                steps,
                commits,
                synced,
            } => {
                let word = if *commits { "transact" } else { "abandon" };
                write!(f, "{word}{} {}", sync(synced), List(steps, " ; "))
            }
            Op::Load { keyspace, entries } => {
                write!(f, "load {keyspace}")?;
                let mut entries = entries.iter();
                entries.try_for_each(|(key, value)| write!(f, " {key} {value}"))
            }
            Op::Pop { keyspace, last } => {
                let end = if *last { "last" } else { "first" };
                write!(f, "pop {keyspace} {end}")
            }
            Op::Ends { source } => write!(f, "ends {source}"),
            Op::Get { source, key } => write!(f, "get {source} {key}"),
            Op::Has { source, key } => write!(f, "has {source} {key}"),
            Op::Gets { source, keys } => write!(f, "gets {source} {}", List(keys, " ")),
            Op::Scan {
                source,
                lower,
                upper,
                steps,
            } => write!(
                f,
                "scan {source} {} {}",
                Range(lower, upper),
                List(steps, ",")
            ),
            Op::Prefix {
                keyspace,
                prefix,
                steps,
            } => write!(f, "prefix {keyspace} {prefix} {}", List(steps, ",")),
            Op::OpenCursor { slot, source } => write!(f, "cursor {slot} open {source}"),
            Op::MoveCursor { slot, moves } => write!(f, "cursor {slot} go {}", List(moves, " ")),
            Op::CloseCursor { slot } => write!(f, "cursor {slot} close"),
            Op::Snapshot { slot } => write!(f, "snapshot {slot}"),
            Op::Release { slot } => write!(f, "release {slot}"),
            Op::Flush { keyspace: None } => write!(f, "flush"),
            Op::Flush {
                keyspace: Some(keyspace),
            } => write!(f, "flush {keyspace}"),
            Op::Compact {
                keyspace,
                lower,
                upper,
            } => write!(f, "compact {keyspace} {}", Range(lower, upper)),
            Op::Settle { keyspace } => write!(f, "settle {keyspace}"),
            Op::Clear { keyspace } => write!(f, "clear {keyspace}"),
            Op::Drop { keyspace } => write!(f, "drop {keyspace}"),
            Op::Create { keyspace } => write!(f, "create {keyspace}"),
            Op::Retune { keyspace, design } => {
                write!(f, "retune {keyspace} {}", design_text(design))
            }
            Op::Sync => write!(f, "sync"),
            Op::Verify => write!(f, "verify"),
            Op::Checkpoint => write!(f, "checkpoint"),
            Op::ReadOnly => write!(f, "readonly"),
            Op::Reopen => write!(f, "reopen"),
            Op::Kill => write!(f, "kill"),
        }
    }
}

/// The remaining words of a line.
struct Words<'a>(std::iter::Peekable<std::str::SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    fn next(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "the line is too short".into())
    }

    fn parse<T: FromStr>(&mut self) -> Result<T, String>
    where
        T::Err: fmt::Display,
    {
        let word = self.next()?;
        word.parse().map_err(|e| format!("`{word}`: {e}"))
    }

    fn name(&mut self) -> Result<String, String> {
        self.next().map(str::to_owned)
    }

    fn sync(&mut self) -> bool {
        self.0.next_if_eq(&"sync").is_some()
    }

    fn rest<T: FromStr<Err = String>>(&mut self) -> Result<Vec<T>, String> {
        self.0.by_ref().map(str::parse).collect()
    }

    fn lower(&mut self) -> Result<Bound<Blob>, String> {
        let word = self.next()?;
        match word.split_at_checked(1) {
            _ if word == "-" => Ok(Bound::Unbounded),
            Some(("[", key)) => Ok(Bound::Included(key.parse()?)),
            Some(("(", key)) => Ok(Bound::Excluded(key.parse()?)),
            _ => Err(format!("expected `-`, `[KEY` or `(KEY`, found `{word}`")),
        }
    }

    fn upper(&mut self) -> Result<Bound<Blob>, String> {
        let word = self.next()?;
        match word.split_at_checked(word.len() - 1) {
            _ if word == "-" => Ok(Bound::Unbounded),
            Some((key, "]")) => Ok(Bound::Included(key.parse()?)),
            Some((key, ")")) => Ok(Bound::Excluded(key.parse()?)),
            _ => Err(format!("expected `-`, `KEY]` or `KEY)`, found `{word}`")),
        }
    }

    fn steps(&mut self) -> Result<Vec<Step>, String> {
        self.next()?.split(',').map(str::parse).collect()
    }

    fn change(&mut self) -> Result<Change, String> {
        match self.next()? {
            "append" => Ok(Change::Append(self.parse()?)),
            "toggle" => Ok(Change::Toggle(self.parse()?)),
            "remove" => Ok(Change::Remove),
            "keep" => Ok(Change::Keep),
            other => Err(format!("expected a change, found `{other}`")),
        }
    }

    fn load(&mut self) -> Result<Op, String> {
        let keyspace = self.name()?;
        let mut entries = Vec::new();
        while self.0.peek().is_some() {
            entries.push((self.parse()?, self.parse()?));
        }
        Ok(Op::Load { keyspace, entries })
    }

    fn cursor(&mut self) -> Result<Op, String> {
        let slot = self.parse()?;
        Ok(match self.next()? {
            "open" => Op::OpenCursor {
                slot,
                source: self.parse()?,
            },
            "go" => Op::MoveCursor {
                slot,
                moves: self.rest()?,
            },
            "close" => Op::CloseCursor { slot },
            other => {
                return Err(format!("expected `open`, `go` or `close`, found `{other}`"));
            }
        })
    }

    fn write_op(&mut self, first: &str) -> Result<Op, String> {
        if first == "batch" {
            let synced = self.sync();
            let writes = self.writes()?;
            return Ok(Op::Batch { writes, synced });
        }
        if first == "transact" || first == "abandon" {
            return Ok(Op::Transaction {
                commits: first == "transact",
                synced: self.sync(),
                steps: self.steps_of_transaction()?,
            });
        }
        if first == "delrange" || first == "delprefix" {
            return Ok(Op::DeleteRange {
                keyspace: self.name()?,
                keys: self.keys(first)?,
                synced: self.sync(),
            });
        }
        let (keyspace, key) = (self.name()?, self.parse()?);
        Ok(match first {
            "put" => Op::Put {
                keyspace,
                key,
                value: self.parse()?,
                synced: self.sync(),
            },
            "putx" => Op::PutExpiring {
                keyspace,
                key,
                value: self.parse()?,
                hours: self.parse()?,
                synced: self.sync(),
            },
            "del" => Op::Delete {
                keyspace,
                key,
                synced: self.sync(),
            },
            "merge" => Op::Merge {
                keyspace,
                key,
                operand: self.parse()?,
                synced: self.sync(),
            },
            _ => Op::Update {
                keyspace,
                key,
                change: self.change()?,
                synced: self.sync(),
            },
        })
    }

    fn read_op(&mut self, first: &str) -> Result<Op, String> {
        if first == "prefix" {
            return Ok(Op::Prefix {
                keyspace: self.name()?,
                prefix: self.parse()?,
                steps: self.steps()?,
            });
        }
        let source = self.parse()?;
        Ok(match first {
            "get" => Op::Get {
                source,
                key: self.parse()?,
            },
            "has" => Op::Has {
                source,
                key: self.parse()?,
            },
            "gets" => Op::Gets {
                source,
                keys: self.rest()?,
            },
            _ => Op::Scan {
                source,
                lower: self.lower()?,
                upper: self.upper()?,
                steps: self.steps()?,
            },
        })
    }

    fn op(&mut self) -> Result<Op, String> {
        let first = self.next()?;
        Ok(match first {
            "put" | "putx" | "del" | "merge" | "delrange" | "delprefix" | "update" | "batch"
            | "transact" | "abandon" => self.write_op(first)?,
            "load" => self.load()?,
            "pop" => Op::Pop {
                keyspace: self.name()?,
                last: match self.next()? {
                    "first" => false,
                    "last" => true,
                    other => return Err(format!("expected `first` or `last`, found `{other}`")),
                },
            },
            "ttl" => Op::TimeToLive {
                keyspace: self.name()?,
                hours: self.parse()?,
            },
            "wait" => Op::Wait {
                hours: self.parse()?,
            },
            "ends" => Op::Ends {
                source: self.parse()?,
            },
            "get" | "has" | "gets" | "scan" | "prefix" => self.read_op(first)?,
            "cursor" => self.cursor()?,
            "snapshot" => Op::Snapshot {
                slot: self.parse()?,
            },
            "release" => Op::Release {
                slot: self.parse()?,
            },
            "flush" => Op::Flush {
                keyspace: self.0.next().map(str::to_owned),
            },
            "compact" => Op::Compact {
                keyspace: self.name()?,
                lower: self.lower()?,
                upper: self.upper()?,
            },
            "settle" => Op::Settle {
                keyspace: self.name()?,
            },
            "clear" => Op::Clear {
                keyspace: self.name()?,
            },
            "drop" => Op::Drop {
                keyspace: self.name()?,
            },
            "create" => Op::Create {
                keyspace: self.name()?,
            },
            "retune" => Op::Retune {
                keyspace: self.name()?,
                design: parse_design(self.0.by_ref())?,
            },
            "sync" => Op::Sync,
            "verify" => Op::Verify,
            "checkpoint" => Op::Checkpoint,
            "readonly" => Op::ReadOnly,
            "reopen" => Op::Reopen,
            "kill" => Op::Kill,
            other => return Err(format!("expected an operation, found `{other}`")),
        })
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(line: &str) -> Result<Op, String> {
        let mut words = Words(line.split_whitespace().peekable());
        let op = words.op().map_err(|e| format!("{e} in `{line}`"))?;
        match words.0.next() {
            None => Ok(op),
            Some(word) => Err(format!("expected the end, found `{word}` in `{line}`")),
        }
    }
}

/// Prints a script, a line per operation.
pub fn print(ops: &[Op]) -> String {
    let mut text = String::new();
    for op in ops {
        text.push_str(&op.to_string());
        text.push('\n');
    }
    text
}

/// Parses the operations of a text. Empty lines, and everything after a `#`, are ignored.
///
/// # Errors
/// A sentence that names the invalid line.
pub fn parse(text: &str) -> Result<Vec<Op>, String> {
    let code = |line: &'_ str| line.split('#').next().unwrap_or("").trim().to_owned();
    let lines = text.lines().map(code).filter(|line| !line.is_empty());
    lines.map(|line| line.parse()).collect()
}
