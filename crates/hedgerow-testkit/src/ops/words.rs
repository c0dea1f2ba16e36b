//! Reading an operation from its text.

use std::fmt;
use std::ops::Bound;
use std::str::FromStr;

use super::{Change, Op, Step};
use crate::blob::Blob;
use crate::setup::parse_design;

/// The remaining words of a line.
pub(super) struct Words<'a>(pub(super) std::iter::Peekable<std::str::SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    pub(super) fn next(&mut self) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| "the line is too short".into())
    }

    pub(super) fn parse<T: FromStr>(&mut self) -> Result<T, String>
    where
        T::Err: fmt::Display,
    {
        let word = self.next()?;
        word.parse().map_err(|e| format!("`{word}`: {e}"))
    }

    pub(super) fn name(&mut self) -> Result<String, String> {
        self.next().map(str::to_owned)
    }

    pub(super) fn sync(&mut self) -> bool {
        self.0.next_if_eq(&"sync").is_some()
    }

    pub(super) fn rest<T: FromStr<Err = String>>(&mut self) -> Result<Vec<T>, String> {
        self.0.by_ref().map(str::parse).collect()
    }

    pub(super) fn lower(&mut self) -> Result<Bound<Blob>, String> {
        let word = self.next()?;
        match word.split_at_checked(1) {
            _ if word == "-" => Ok(Bound::Unbounded),
            Some(("[", key)) => Ok(Bound::Included(key.parse()?)),
            Some(("(", key)) => Ok(Bound::Excluded(key.parse()?)),
            _ => Err(format!("expected `-`, `[KEY` or `(KEY`, found `{word}`")),
        }
    }

    pub(super) fn upper(&mut self) -> Result<Bound<Blob>, String> {
        let word = self.next()?;
        match word.split_at_checked(word.len() - 1) {
            _ if word == "-" => Ok(Bound::Unbounded),
            Some((key, "]")) => Ok(Bound::Included(key.parse()?)),
            Some((key, ")")) => Ok(Bound::Excluded(key.parse()?)),
            _ => Err(format!("expected `-`, `KEY]` or `KEY)`, found `{word}`")),
        }
    }

    pub(super) fn steps(&mut self) -> Result<Vec<Step>, String> {
        self.next()?.split(',').map(str::parse).collect()
    }

    pub(super) fn change(&mut self) -> Result<Change, String> {
        match self.next()? {
            "append" => Ok(Change::Append(self.parse()?)),
            "toggle" => Ok(Change::Toggle(self.parse()?)),
            "remove" => Ok(Change::Remove),
            "keep" => Ok(Change::Keep),
            other => Err(format!("expected a change, found `{other}`")),
        }
    }

    pub(super) fn load(&mut self) -> Result<Op, String> {
        let keyspace = self.name()?;
        let mut entries = Vec::new();
        while self.0.peek().is_some() {
            entries.push((self.parse()?, self.parse()?));
        }
        Ok(Op::Load { keyspace, entries })
    }

    pub(super) fn cursor(&mut self) -> Result<Op, String> {
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

    pub(super) fn write_op(&mut self, first: &str) -> Result<Op, String> {
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

    pub(super) fn read_op(&mut self, first: &str) -> Result<Op, String> {
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

    pub(super) fn op(&mut self) -> Result<Op, String> {
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
            "flush" | "compact" | "settle" | "clear" | "drop" | "create" | "retune" => {
                self.work_op(first)?
            }
            "sync" => Op::Sync,
            "verify" => Op::Verify,
            "checkpoint" => Op::Checkpoint,
            "readonly" => Op::ReadOnly,
            "reopen" => Op::Reopen,
            "kill" => Op::Kill,
            other => return Err(format!("expected an operation, found `{other}`")),
        })
    }

    pub(super) fn work_op(&mut self, first: &str) -> Result<Op, String> {
        Ok(match first {
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
