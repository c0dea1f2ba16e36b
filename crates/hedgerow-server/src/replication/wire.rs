//! The messages between a primary and a replica: arrays of byte strings in RESP, in both
//! directions, behind the reply to HEDGEROW.SYNC.
//!
//! | from the primary | |
//! |---|---|
//! | `MORE bytes` | a part of a copy or of commits; it continues in the next message |
//! | `BYTES bytes` | the last part |
//! | `MESSAGE channel text` | a message for the subscribers of the replica |
//! | `SYNC` | the replica makes durable what it has, and acknowledges |
//! | `PING` | the connection is there |
//!
//! A replica sends `ACK offset durable-offset`.
//!
//! Both sides work on threads that may wait. All waits end within a second or so after `is_over`
//! says so.

use std::io::{self, Read, Write};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::clock;
use crate::resp::{Limits, Parser, Request};

/// The bytes of a part.
const PART_BYTES: usize = 1 << 20;
/// The bytes of one read.
const READ_BYTES: usize = 16 << 10;
/// The time between two looks if the work is over.
const LOOK: Duration = Duration::from_millis(100);
const LIMITS: Limits = Limits {
    argument_bytes: 64 << 20,
    arguments: 16,
};

/// The words of a message.
pub(crate) type Message = Vec<Vec<u8>>;

/// A connection between two servers.
pub(crate) struct Wire<'a> {
    stream: &'a mut TcpStream,
    runtime: Handle,
    parser: Parser,
    input: Vec<u8>,
    /// The other side is given up when it has been silent, or has not read, for so long.
    pub(crate) patience: Duration,
    is_over: &'a dyn Fn() -> bool,
}

fn over() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the replication was ended")
}

impl<'a> Wire<'a> {
    pub(crate) fn new(
        stream: &'a mut TcpStream,
        (input, patience): (Vec<u8>, Duration),
        is_over: &'a dyn Fn() -> bool,
    ) -> Wire<'a> {
        Wire {
            stream,
            runtime: Handle::current(),
            parser: Parser::default(),
            input,
            patience,
            is_over,
        }
    }

    pub(crate) fn send(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.write(&bytes)
    }

    /// Writes bytes that are messages already.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (mut written, mut progress) = (0, clock::now());
        while written < bytes.len() {
            if (self.is_over)() {
                return Err(over());
            }
            let stream = &mut *self.stream;
            let count = self.runtime.block_on(async {
                tokio::select! {
                    count = stream.write(&bytes[written..]) => count,
                    () = tokio::time::sleep(LOOK) => Ok(0),
                }
            })?;
            written += count;
            if count > 0 {
                progress = clock::now();
            } else if progress.elapsed() > self.patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// The next message, if it comes in this time, or is there when `wake` is notified.
    pub(crate) fn receive(
        &mut self,
        at_most: Duration,
        wake: Option<&Notify>,
    ) -> io::Result<Option<Message>> {
        if let Some(message) = self.parsed()? {
            return Ok(Some(message));
        }
        let wanted = self
            .parser
            .wanted(&self.input)
            .clamp(READ_BYTES, PART_BYTES);
        self.input.reserve(wanted);
        let (stream, input) = (&mut *self.stream, &mut self.input);
        let woken = async {
            match wake {
                Some(wake) => wake.notified().await,
                None => std::future::pending().await,
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                read = stream.read_buf(input) => match read? {
                    0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                    _ => Ok(()),
                },
                () = woken => Ok(()),
                () = tokio::time::sleep(at_most) => Ok(()),
            }
        })?;
        self.parsed()
    }

    /// Waits for the next message as long as the other side is trusted to be there.
    pub(crate) fn next(&mut self) -> io::Result<Message> {
        let (mut bytes, mut heard) = (self.input.len(), clock::now());
        loop {
            if (self.is_over)() {
                return Err(over());
            }
            if let Some(message) = self.receive(LOOK, None)? {
                return Ok(message);
            }
            if self.input.len() > bytes {
                (bytes, heard) = (self.input.len(), clock::now());
            }
            if heard.elapsed() > self.patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// A reply of one line, without its end.
    pub(crate) fn line(&mut self) -> io::Result<String> {
        let began = clock::now();
        loop {
            if let Some(end) = self.input.windows(2).position(|it| it == b"\r\n") {
                let line = String::from_utf8_lossy(&self.input[..end]).into_owned();
                self.input.drain(..end + 2);
                return Ok(line);
            }
            if (self.is_over)() {
                return Err(over());
            }
            if began.elapsed() > self.patience || self.input.len() > PART_BYTES {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let (stream, input) = (&mut *self.stream, &mut self.input);
            self.runtime.block_on(async {
                tokio::select! {
                    read = stream.read_buf(input) => match read? {
                        0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                        _ => Ok(()),
                    },
                    () = tokio::time::sleep(LOOK) => Ok(()),
                }
            })?;
        }
    }

    fn parsed(&mut self) -> io::Result<Option<Message>> {
        let request = self.parser.next(&self.input, LIMITS);
        let request = request.map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.0))?;
        let message = match request {
            Some(Request::Array(places)) => {
                let words = places.into_iter().map(|it| self.input[it].to_vec());
                Some(words.collect())
            }
            Some(Request::Inline(words)) => Some(words),
            None => None,
        };
        let parsed = self.parser.parsed();
        self.input.drain(..parsed);
        Ok(message)
    }
}

/// Bytes of any length as parts. The end of them has to be told.
pub(crate) struct Parts<'w, 'a> {
    wire: &'w mut Wire<'a>,
    part: Vec<u8>,
    /// A part was sent.
    has_more: bool,
}

impl<'w, 'a> Parts<'w, 'a> {
    pub(crate) fn new(wire: &'w mut Wire<'a>) -> Parts<'w, 'a> {
        Parts {
            wire,
            part: Vec::new(),
            has_more: false,
        }
    }

    /// The bytes that were not sent yet.
    pub(crate) fn waiting(&self) -> usize {
        self.part.len()
    }

    /// Sends the last part.
    pub(crate) fn end(self) -> io::Result<()> {
        self.wire.send(&[b"BYTES", &self.part])
    }

    /// Sends the last part, unless there are no bytes at all.
    pub(crate) fn end_if_any(self) -> io::Result<()> {
        match self.part.is_empty() && !self.has_more {
            true => Ok(()),
            false => self.end(),
        }
    }
}

impl Write for Parts<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(PART_BYTES - self.part.len());
        self.part.extend_from_slice(&bytes[..count]);
        if self.part.len() == PART_BYTES {
            self.wire.send(&[b"MORE", &self.part])?;
            self.part.clear();
            self.has_more = true;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of parts.
pub(crate) struct Joined<'w, 'a> {
    wire: &'w mut Wire<'a>,
    part: Vec<u8>,
    taken: usize,
    is_last: bool,
}

impl<'w, 'a> Joined<'w, 'a> {
    /// The bytes that begin with a message, if it is a part.
    pub(crate) fn new(wire: &'w mut Wire<'a>, first: Message) -> io::Result<Joined<'w, 'a>> {
        let mut joined = Joined {
            wire,
            part: Vec::new(),
            taken: 0,
            is_last: false,
        };
        joined.set_part(first)?;
        Ok(joined)
    }

    fn set_part(&mut self, message: Message) -> io::Result<()> {
        let [word, bytes] = <[Vec<u8>; 2]>::try_from(message).map_err(|_| not_a_part())?;
        self.is_last = match &word[..] {
            b"BYTES" => true,
            b"MORE" => false,
            _ => return Err(not_a_part()),
        };
        (self.part, self.taken) = (bytes, 0);
        Ok(())
    }
}

fn not_a_part() -> io::Error {
    let text = "expected bytes of a copy or of commits, found another message";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

impl Read for Joined<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.part.len() {
            if self.is_last {
                return Ok(0);
            }
            let message = self.wire.next()?;
            self.set_part(message)?;
        }
        let count = into.len().min(self.part.len() - self.taken);
        into[..count].copy_from_slice(&self.part[self.taken..self.taken + count]);
        self.taken += count;
        Ok(count)
    }
}
