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
mod display;
mod keys;
mod other;
mod places;
mod step;
mod words;
mod write;

use std::ops::Bound;

use hedgerow::Design;

use crate::blob::Blob;
pub use change::Change;
use display::{Range, sync};
pub use keys::Keys;
pub use step::TransactionStep;
use words::Words;
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
