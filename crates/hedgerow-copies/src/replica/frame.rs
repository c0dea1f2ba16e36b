//! The bytes between a database and its replica: frames, each a size, a checksum and a payload.
//!
//! | bytes | |
//! |---|---|
//! | 4 | the size of the payload, little-endian |
//! | 8 | the checksum of the payload (XXH3), little-endian |
//! | | the payload |
//!
//! A payload has the number of the commit and that of the commit before (8 bytes each), a byte that
//! is 1 in the last frame of a commit, and changes.
//! A change is a code and its fields; a field is a size of 4 bytes and its bytes. A load is a
//! change, its entries follow as changes, and one of code 12 ends them. Frames have
//! about a mebibyte, or one change. A time of expiry is empty for never, or 8 bytes: milliseconds
//! since 1970.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use hedgerow::{CommitChange, Error, Expiry, KeyOrder, Layout, LoadOp, LoadedTables, Result};
use xxhash_rust::xxh3::xxh3_64;

use super::field::{damaged, partitioning, partitioning_bytes, sized, text, time, time_bytes};
use super::is_write;

/// A frame is sent when its payload has reached this.
const FRAME_BYTES: usize = 1 << 20;
/// The largest payload: a frame before it is full, and a change with the longest key and value.
const FRAME_BYTES_MAX: usize = FRAME_BYTES + hedgerow::VALUE_BYTES_MAX + (1 << 20);
/// The bytes before the changes of a payload.
const HEAD_BYTES: usize = 17;

mod code {
    pub(super) const PUT: u8 = 1;
    pub(super) const DELETE: u8 = 2;
    pub(super) const DELETE_RANGE: u8 = 3;
    pub(super) const DELETE_ALL_FROM: u8 = 4;
    pub(super) const DELETE_PREFIX: u8 = 5;
    pub(super) const CREATE: u8 = 6;
    pub(super) const RENAME: u8 = 7;
    pub(super) const CLEAR: u8 = 8;
    pub(super) const DROP: u8 = 9;
    pub(super) const LOAD: u8 = 10;
    pub(super) const PUT_ENTRY: u8 = 11;
    pub(super) const END_OF_LOAD: u8 = 12;
    pub(super) const DELETE_ENTRY: u8 = 13;
    pub(super) const MERGE: u8 = 14;
    pub(super) const SET_MERGE_OPERATOR: u8 = 15;
    pub(super) const SET_TIME_TO_LIVE: u8 = 16;
    pub(super) const MERGE_ENTRY: u8 = 17;
    pub(super) const LOAD_WITH_OPERANDS: u8 = 18;
}

pub(super) fn refused(doing: &str, error: io::Error) -> Error {
    Error::io(doing, Path::new("the transport"), error)
}

// ---- sending ----

struct Sender<'a, W> {
    out: &'a mut W,
    number: u64,
    after: u64,
    payload: Vec<u8>,
}

/// Writes a commit with the number `number`, which follows that with the number `after`.
pub(super) fn write_commit(
    (after, number): (u64, u64),
    changes: &[CommitChange],
    out: &mut impl Write,
) -> Result<()> {
    let mut sender = Sender {
        out,
        after,
        number,
        payload: Vec::new(),
    };
    sender.begin();
    changes.iter().try_for_each(|it| sender.change(it))?;
    sender.finish(true)
}

impl<W: Write> Sender<'_, W> {
    fn begin(&mut self) {
        self.payload.clear();
        self.payload.extend(self.number.to_le_bytes());
        self.payload.extend(self.after.to_le_bytes());
        self.payload.push(0);
    }

    fn put(&mut self, code: u8, fields: &[&[u8]]) -> Result<()> {
        self.payload.push(code);
        for field in fields {
            self.payload.extend((field.len() as u32).to_le_bytes());
            self.payload.extend(*field);
        }
        if self.payload.len() >= FRAME_BYTES {
            self.finish(false)?;
            self.begin();
        }
        Ok(())
    }

    fn finish(&mut self, is_last: bool) -> Result<()> {
        self.payload[HEAD_BYTES - 1] = u8::from(is_last);
        let bytes = (self.payload.len() as u32).to_le_bytes();
        let sum = xxh3_64(&self.payload).to_le_bytes();
        let mut write = || {
            self.out.write_all(&bytes)?;
            self.out.write_all(&sum)?;
            self.out.write_all(&self.payload)
        };
        write().map_err(|e| refused("send changes", e))
    }

    fn change(&mut self, change: &CommitChange) -> Result<()> {
        match change {
            CommitChange::Put {
                keyspace,
                key,
                value,
                expiry,
            } => {
                let expiry = time_bytes(expiry.unix_millis());
                self.put(code::PUT, &[keyspace.as_bytes(), key, value, &expiry])
            }
            CommitChange::Merge {
                keyspace,
                key,
                operand,
            } => self.put(code::MERGE, &[keyspace.as_bytes(), key, operand]),
            CommitChange::Delete { keyspace, key } => {
                self.put(code::DELETE, &[keyspace.as_bytes(), key])
            }
            CommitChange::DeleteRange { keyspace, from, to } => match to {
                Some(to) => self.put(code::DELETE_RANGE, &[keyspace.as_bytes(), from, to]),
                None => self.put(code::DELETE_ALL_FROM, &[keyspace.as_bytes(), from]),
            },
            CommitChange::DeletePrefix { keyspace, prefix } => {
                self.put(code::DELETE_PREFIX, &[keyspace.as_bytes(), prefix])
            }
            CommitChange::Create { keyspace, layout } => {
                let order = layout.order.to_string();
                let partitioning = partitioning_bytes(&layout.partitioning);
                let operator = layout.merge_operator.as_deref().unwrap_or_default();
                let (name, order) = (keyspace.as_bytes(), order.as_bytes());
                let fields = [name, order, &partitioning, operator.as_bytes()];
                self.put(code::CREATE, &fields)
            }
            CommitChange::Rename { keyspace, to } => {
                self.put(code::RENAME, &[keyspace.as_bytes(), to.as_bytes()])
            }
            CommitChange::SetMergeOperator { keyspace, name } => self.put(
                code::SET_MERGE_OPERATOR,
                &[keyspace.as_bytes(), name.as_bytes()],
            ),
            CommitChange::SetTimeToLive {
                keyspace,
                time_to_live,
            } => {
                let ms = time_to_live.map(|it| it.as_millis() as u64);
                self.put(
                    code::SET_TIME_TO_LIVE,
                    &[keyspace.as_bytes(), &time_bytes(ms)],
                )
            }
            CommitChange::Clear { keyspace } => self.put(code::CLEAR, &[keyspace.as_bytes()]),
            CommitChange::Drop { keyspace } => self.put(code::DROP, &[keyspace.as_bytes()]),
            CommitChange::Load { keyspace, tables } => self.load(change, keyspace, tables),
            other => Err(super::unexpected(other)),
        }
    }

    fn load(&mut self, change: &CommitChange, keyspace: &str, tables: &LoadedTables) -> Result<()> {
        let code = match tables.operands() {
            0 => code::LOAD,
            _ => code::LOAD_WITH_OPERANDS,
        };
        self.put(code, &[keyspace.as_bytes()])?;
        for entry in tables.read()? {
            let (key, op) = entry?;
            match op {
                LoadOp::PutExpiring(value, expiry) => {
                    let expiry = time_bytes(expiry.unix_millis());
                    self.put(code::PUT_ENTRY, &[&key, &value, &expiry])?;
                }
                LoadOp::Merge(operand) => {
                    self.put(code::MERGE_ENTRY, &[&key, &operand])?;
                }
                LoadOp::Delete => self.put(code::DELETE_ENTRY, &[&key])?,
                _ => return Err(super::unexpected(change)),
            }
        }
        self.put(code::END_OF_LOAD, &[])
    }
}

// ---- receiving ----

/// The payload of a frame.
pub(super) struct Frame {
    pub(super) number: u64,
    /// The number of the commit before.
    pub(super) after: u64,
    is_last: bool,
    payload: Vec<u8>,
    /// The bytes of the payload that were taken.
    taken: usize,
}

/// Reads frames.
pub(super) struct Reader<'a, R> {
    input: &'a mut R,
}

impl<'a, R: Read> Reader<'a, R> {
    pub(super) fn new(input: &'a mut R) -> Self {
        Reader { input }
    }

    /// The next frame; `None` at the end of the input.
    pub(super) fn next(&mut self) -> Result<Option<Frame>> {
        let failed = |e| refused("receive changes", e);
        let mut head = Vec::new();
        let read = self.input.by_ref().take(12).read_to_end(&mut head);
        read.map_err(failed)?;
        if head.is_empty() {
            return Ok(None);
        }
        let Some((size, sum)) = head.split_at_checked(4).filter(|_| head.len() == 12) else {
            return Err(damaged("a whole frame"));
        };
        let bytes = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
        if !(HEAD_BYTES..=FRAME_BYTES_MAX).contains(&bytes) {
            return Err(damaged("a frame of a possible size"));
        }
        let mut payload = Vec::new();
        let read = self
            .input
            .by_ref()
            .take(bytes as u64)
            .read_to_end(&mut payload);
        read.map_err(failed)?;
        if payload.len() != bytes || xxh3_64(&payload).to_le_bytes() != *sum {
            return Err(damaged("a frame with its checksum"));
        }
        let number = |at: usize| {
            let bytes = payload.get(at..at + 8).and_then(|it| it.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        Ok(Some(Frame {
            number: number(0),
            after: number(8),
            is_last: payload[HEAD_BYTES - 1] != 0,
            payload,
            taken: HEAD_BYTES,
        }))
    }
}

/// A received change.
pub(super) enum Received {
    /// A part of a batch.
    Write(CommitChange),
    /// A change of a keyspace.
    Whole(CommitChange),
    /// A load into a keyspace, whose entries follow.
    Load(String),
    /// A load that may not be applied twice.
    LoadWithOperands(String),
}

/// The change of a code that begins no load.
fn decode(code: u8, fields: &[Vec<u8>]) -> Result<CommitChange> {
    let Some(keyspace) = fields.first() else {
        return Err(damaged("a change in its place"));
    };
    let keyspace = text(keyspace)?;
    let field = |i: usize| fields[i].clone();
    Ok(match code {
        code::PUT => CommitChange::Put {
            keyspace,
            key: field(1),
            value: field(2),
            expiry: time(&fields[3]).map(Expiry::of)?,
        },
        code::MERGE => CommitChange::Merge {
            keyspace,
            key: field(1),
            operand: field(2),
        },
        code::DELETE => CommitChange::Delete {
            keyspace,
            key: field(1),
        },
        code::DELETE_RANGE | code::DELETE_ALL_FROM => CommitChange::DeleteRange {
            keyspace,
            from: field(1),
            to: fields.get(2).cloned(),
        },
        code::DELETE_PREFIX => CommitChange::DeletePrefix {
            keyspace,
            prefix: field(1),
        },
        code::CREATE => CommitChange::Create {
            keyspace,
            layout: Layout {
                order: text(&fields[1])?.parse::<KeyOrder>()?,
                partitioning: partitioning(&fields[2])?,
                merge_operator: Some(text(&fields[3])?)
                    .filter(|it| !it.is_empty())
                    .map(Into::into),
            },
        },
        code::SET_MERGE_OPERATOR => CommitChange::SetMergeOperator {
            keyspace,
            name: text(&fields[1])?,
        },
        code::SET_TIME_TO_LIVE => CommitChange::SetTimeToLive {
            keyspace,
            time_to_live: time(&fields[1])?.map(Duration::from_millis),
        },
        code::RENAME => CommitChange::Rename {
            keyspace,
            to: text(&fields[1])?,
        },
        code::CLEAR => CommitChange::Clear { keyspace },
        code::DROP => CommitChange::Drop { keyspace },
        _ => return Err(damaged("a change in its place")),
    })
}

/// The changes of one commit, perhaps in several frames.
pub(super) struct Receiver<'r, 'a, R> {
    reader: &'r mut Reader<'a, R>,
    frame: Frame,
}

impl<'r, 'a, R: Read> Receiver<'r, 'a, R> {
    pub(super) fn new(reader: &'r mut Reader<'a, R>, frame: Frame) -> Self {
        Receiver { reader, frame }
    }

    /// The next change; `None` behind the last one.
    pub(super) fn change(&mut self) -> Result<Option<Received>> {
        let Some((code, fields)) = self.next()? else {
            return Ok(None);
        };
        Ok(Some(match code {
            code::LOAD => Received::Load(text(&fields[0])?),
            code::LOAD_WITH_OPERANDS => Received::LoadWithOperands(text(&fields[0])?),
            _ => {
                let change = decode(code, &fields)?;
                match is_write(&change) {
                    true => Received::Write(change),
                    false => Received::Whole(change),
                }
            }
        }))
    }

    /// The entries of the load that was received last.
    pub(super) fn entries(&mut self) -> Entries<'_, 'r, 'a, R> {
        Entries {
            receiver: self,
            is_over: false,
        }
    }

    /// Passes over the entries of a load.
    pub(super) fn skip_load(&mut self, received: &Received) -> Result<()> {
        match received {
            Received::Load(_) | Received::LoadWithOperands(_) => {
                self.entries().try_for_each(|entry| entry.map(drop))
            }
            _ => Ok(()),
        }
    }

    /// The code of the next change with its fields.
    fn next(&mut self) -> Result<Option<(u8, Vec<Vec<u8>>)>> {
        while self.frame.taken == self.frame.payload.len() {
            if self.frame.is_last {
                return Ok(None);
            }
            match self.reader.next()? {
                Some(next) if next.number == self.frame.number => self.frame = next,
                _ => return Err(damaged("the rest of a commit")),
            }
        }
        let mut rest = &self.frame.payload[self.frame.taken..];
        let code = *rest.split_off_first().ok_or_else(|| damaged("a code"))?;
        let count = match code {
            code::END_OF_LOAD => 0,
            code::CLEAR | code::DROP | code::DELETE_ENTRY => 1,
            code::LOAD | code::LOAD_WITH_OPERANDS => 1,
            code::DELETE | code::DELETE_ALL_FROM | code::DELETE_PREFIX => 2,
            code::RENAME | code::MERGE_ENTRY => 2,
            code::SET_MERGE_OPERATOR | code::SET_TIME_TO_LIVE => 2,
            code::DELETE_RANGE | code::MERGE | code::PUT_ENTRY => 3,
            code::PUT | code::CREATE => 4,
            _ => return Err(damaged("a known code")),
        };
        let fields = (0..count).map(|_| Ok(sized(&mut rest)?.to_vec()));
        let fields = fields.collect::<Result<Vec<_>>>()?;
        self.frame.taken = self.frame.payload.len() - rest.len();
        Ok(Some((code, fields)))
    }
}

/// The entries of a load.
pub(super) struct Entries<'e, 'r, 'a, R> {
    receiver: &'e mut Receiver<'r, 'a, R>,
    is_over: bool,
}

impl<R: Read> Iterator for Entries<'_, '_, '_, R> {
    type Item = Result<(Vec<u8>, LoadOp<Vec<u8>>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let (code, mut fields) = match self.receiver.next() {
            Ok(Some(entry)) => entry,
            Ok(None) => return Some(Err(damaged("the end of a load"))),
            Err(error) => return Some(Err(error)),
        };
        if code == code::END_OF_LOAD {
            self.is_over = true;
            return None;
        }
        let mut field = |i: usize| std::mem::take(&mut fields[i]);
        let op = match code {
            code::PUT_ENTRY => {
                time(&field(2)).map(|at| LoadOp::PutExpiring(field(1), Expiry::of(at)))
            }
            code::MERGE_ENTRY => Ok(LoadOp::Merge(field(1))),
            code::DELETE_ENTRY => Ok(LoadOp::Delete),
            _ => return Some(Err(damaged("an entry of a load"))),
        };
        Some(op.map(|op| (field(0), op)))
    }
}

#[cfg(test)]
mod tests;
