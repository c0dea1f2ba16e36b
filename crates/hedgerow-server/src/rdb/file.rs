//! RDB files: everything that a Redis has.
//!
//! ```text
//! REDIS, version          9   the version as four digits; VALKEY has three
//! parts                       an opcode, or the type of a value, and what belongs to it
//! 255, checksum           9   CRC-64 of everything before, little-endian, from version 5 on
//! ```
//!
//! A file is read once, from front to back, and may be larger than memory: what is kept is one
//! value. Bytes are read until the value is whole, twice as many at each try, so that one decoder
//! serves payloads and files.

use std::io::{ErrorKind, Read};

use super::reader::Reader;
use super::{COPIED_BYTES_MAX, CRC, Damage, VERSION_MAX, Value, decode_value, is_known};

/// The bytes of the first read; the others are larger if a value is.
const READ_BYTES: usize = 256 << 10;
/// A value, and the lengths in it, which have up to 9 bytes for a string.
const BUFFER_BYTES_MAX: usize = 2 * COPIED_BYTES_MAX;
const MAGICS: [&[u8]; 2] = [b"REDIS", b"VALKEY"];

/// A part of a file.
#[derive(Debug, PartialEq)]
pub(crate) enum Part {
    Key(Box<Key>),
    /// The text of a library of functions.
    Library(Vec<u8>),
    /// The checksum was the right one, or there was none.
    End,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) db: u64,
    pub(crate) key: Vec<u8>,
    /// Milliseconds since 1970; 0 for none.
    pub(crate) expires: u64,
    pub(crate) value: Value,
}

/// A place between two parts, from which a file can be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) offset: u64,
    /// The checksum of everything before.
    pub(crate) sum: u64,
    pub(crate) version: u64,
    pub(crate) db: u64,
}

/// The reason why a file cannot be read on.
#[derive(Debug)]
pub(crate) enum Failure {
    Io(std::io::Error),
    /// The file is not as it should be.
    Damaged(String),
    /// The file has something that has no place here.
    Unsupported(String),
}

/// A part that has been decoded, and is or is not for the caller.
enum Step {
    Part(Part),
    Database(u64),
    Expiry(u64),
    Passed,
    End,
}

/// See the module.
pub(crate) struct File<R> {
    from: R,
    /// The bytes that were read, of which `used` have been decoded.
    buffer: Vec<u8>,
    used: usize,
    position: Position,
}

impl<R: Read> File<R> {
    /// Reads the head of a file.
    pub(crate) fn begin(from: R) -> Result<File<R>, Failure> {
        let position = Position {
            offset: 0,
            sum: 0,
            version: 0,
            db: 0,
        };
        let mut file = File::at(from, position);
        let version: Result<u64, _> = file.decode(|from| {
            let head: [u8; 9] = from.chunk()?;
            let mut digits = MAGICS.iter().filter_map(|it| head.strip_prefix(*it));
            let digits = std::str::from_utf8(digits.next()?).ok()?;
            digits.parse().ok().map(Ok)
        });
        let version = version.map_err(|failure| match failure {
            Failure::Damaged(_) => {
                let text = "expected a file that begins with `REDIS` or `VALKEY` and a version";
                Failure::Damaged(text.to_owned())
            }
            failure => failure,
        })?;
        if !is_known(version) {
            return Err(Failure::Unsupported(format!(
                "expected version {VERSION_MAX} of RDB files at most, found {version}"
            )));
        }
        file.position.version = version;
        Ok(file)
    }

    /// Reads on at a position, to which `from` has been moved.
    pub(crate) fn at(from: R, position: Position) -> File<R> {
        File {
            from,
            buffer: Vec::new(),
            used: 0,
            position,
        }
    }

    pub(crate) fn position(&self) -> Position {
        self.position
    }

    /// The next part. There is none behind the end.
    pub(crate) fn next(&mut self) -> Result<Part, Failure> {
        let mut expires = 0;
        loop {
            let db = self.position.db;
            match self.decode(|from| step(from, (db, expires)))? {
                Step::Part(part) => return Ok(part),
                Step::Database(db) => self.position.db = db,
                Step::Expiry(at) => expires = at,
                Step::Passed => {}
                Step::End => {
                    self.check_end()?;
                    return Ok(Part::End);
                }
            }
        }
    }

    fn check_end(&mut self) -> Result<(), Failure> {
        let found = self.position.sum;
        let expected = match self.position.version {
            ..5 => 0,
            _ => self.decode(|from| from.chunk().map(u64::from_le_bytes).map(Ok))?,
        };
        if expected != 0 && expected != found {
            return Err(Failure::Damaged(format!(
                "expected the checksum {expected:016x}, found {found:016x}"
            )));
        }
        if self.used < self.buffer.len() || self.fill()? {
            return Err(Failure::Unsupported(
                "expected the end of the file behind its checksum, found more bytes: an append-only \
                 file is not read"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Decodes something, and reads until all bytes of it are there.
    fn decode<T>(
        &mut self,
        decode: impl Fn(&mut Reader<'_>) -> Option<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        loop {
            let unused = &self.buffer[self.used..];
            let mut from = Reader::within(unused, COPIED_BYTES_MAX);
            let decoded = decode(&mut from);
            let used = unused.len() - from.rest();
            match decoded {
                Some(Ok(decoded)) => {
                    self.position.sum = continued(self.position.sum, &unused[..used]);
                    self.used += used;
                    self.position.offset += used as u64;
                    return Ok(decoded);
                }
                Some(Err(failure)) => return Err(failure),
                None if from.is_too_large || unused.len() > BUFFER_BYTES_MAX => {
                    return Err(self.damaged("a value takes more than 2 GiB"));
                }
                None if !from.ran_out => {
                    return Err(self.damaged("a value is not as its type says"));
                }
                None => {
                    if !self.fill()? {
                        return Err(self.damaged("expected more bytes, found the end of the file"));
                    }
                }
            }
        }
    }

    fn damaged(&self, text: &str) -> Failure {
        Failure::Damaged(format!("{text} at offset {}", self.position.offset))
    }

    /// Reads more. Returns false at the end of the file.
    fn fill(&mut self) -> Result<bool, Failure> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let before = self.buffer.len();
        let wanted = before.max(READ_BYTES) as u64;
        let mut limited = (&mut self.from).take(wanted);
        match limited.read_to_end(&mut self.buffer) {
            Ok(count) => Ok(count > 0),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(Failure::Io(error)),
        }
    }
}

/// The checksum of what has one already, and of more bytes.
fn continued(sum: u64, bytes: &[u8]) -> u64 {
    // The algorithm reflects the initial value.
    let mut digest = CRC.digest_with_initial(sum.reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

/// Decodes an opcode with what belongs to it, or a key with its value. `None` if the bytes are not
/// what they should be, or end before.
fn step(from: &mut Reader<'_>, (db, expires): (u64, u64)) -> Option<Result<Step, Failure>> {
    let unsupported = |text: String| Some(Err(Failure::Unsupported(text)));
    let [opcode] = from.chunk()?;
    Some(Ok(match opcode {
        // Slots and their sizes.
        0xF4 => {
            from.several_of(3, Reader::number)?;
            Step::Passed
        }
        0xF5 => Step::Part(Part::Library(from.string()?)),
        0xF6 => {
            return unsupported(
                "expected functions of a release of Redis, found older ones".into(),
            );
        }
        0xF7 => return unsupported("expected no data of modules, found some".into()),
        // The time of last use, and the frequency of use.
        0xF8 => {
            from.number()?;
            Step::Passed
        }
        0xF9 => {
            from.take(1)?;
            Step::Passed
        }
        // A fact about the file, with its name.
        0xFA => {
            from.several_of(2, Reader::string)?;
            Step::Passed
        }
        // The sizes of the database.
        0xFB => {
            from.several_of(2, Reader::number)?;
            Step::Passed
        }
        0xFC => Step::Expiry(from.millis()?),
        0xFD => Step::Expiry(u64::from(u32::from_le_bytes(from.chunk()?)) * 1_000),
        0xFE => Step::Database(from.number()?),
        0xFF => Step::End,
        kind => return key(kind, from, (db, expires)).map(|it| it.map(Step::Part)),
    }))
}

/// Decodes a key with its value.
fn key(
    kind: u8,
    from: &mut Reader<'_>,
    (db, expires): (u64, u64),
) -> Option<Result<Part, Failure>> {
    let key = from.string()?;
    let value = match decode_value(kind, from) {
        Ok(value) => value,
        Err(Damage::Type(kind)) => {
            let of_modules = if kind == 6 || kind == 7 {
                " of modules"
            } else {
                ""
            };
            return Some(Err(Failure::Unsupported(format!(
                "expected a value of a known type, found the type {kind}{of_modules} at the key `{}` \
                 of database {db}",
                key.escape_ascii()
            ))));
        }
        Err(_) => return None,
    };
    Some(Ok(Part::Key(Box::new(Key {
        db,
        key,
        expires,
        value,
    }))))
}
