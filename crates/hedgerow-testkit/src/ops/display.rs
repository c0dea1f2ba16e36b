//! The text of an operation.

use std::fmt;
use std::ops::Bound;

use super::{Move, Op, Source, Step};
use crate::blob::Blob;
use crate::setup::design_text;

pub(super) fn sync(synced: bool) -> &'static str {
    if synced { " sync" } else { "" }
}

pub(super) struct List<'a, T>(pub(super) &'a [T], pub(super) &'a str);

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

pub(super) struct Range<'a>(pub(super) &'a Bound<Blob>, pub(super) &'a Bound<Blob>);

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
            other => other.show_read(f),
        }
    }
}

impl Op {
    /// Prints a read, or an operation of a cursor.
    fn show_read(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
            other => other.show_work(f),
        }
    }

    /// Prints an operation on a keyspace or the database.
    fn show_work(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
            Op::Snapshot { slot } => write!(f, "snapshot {slot}"),
            Op::Release { slot } => write!(f, "release {slot}"),
            Op::Sync => write!(f, "sync"),
            Op::Verify => write!(f, "verify"),
            Op::Checkpoint => write!(f, "checkpoint"),
            Op::ReadOnly => write!(f, "readonly"),
            Op::Reopen => write!(f, "reopen"),
            Op::Kill => write!(f, "kill"),
            other => other.show_other(f),
        }
    }
}
