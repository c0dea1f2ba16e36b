//! Replies, and their bytes in both versions of the protocol.

use hedgerow::Slice;

use crate::number;

/// A reply, independent of the version of the protocol.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A status, `+OK`.
    Status(&'static str),
    /// A status that is made when it is needed.
    Line(String),
    /// An error: a code and a sentence.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// The bytes of a stored value from this place on.
    Stored(Slice, usize),
    /// No value.
    Null,
    /// No array.
    NullArray,
    /// True or false; a number in version 2.
    #[cfg_attr(
        not(feature = "lua"),
        expect(dead_code, reason = "only scripts make it")
    )]
    Boolean(bool),
    /// The digits of a number of any length; bytes in version 2.
    #[cfg_attr(
        not(feature = "lua"),
        expect(dead_code, reason = "only scripts make it")
    )]
    BigNumber(Vec<u8>),
    /// A float; text in version 2.
    Double(f64),
    /// Text for people.
    Text(String),
    /// Elements in order.
    Array(Vec<Reply>),
    /// Elements in no order; an array in version 2.
    Set(Vec<Reply>),
    /// Pairs; an array in version 2.
    Map(Vec<(Reply, Reply)>),
    /// Something that nobody asked for; an array in version 2.
    Push(Vec<Reply>),
    /// Several replies to one command.
    Several(Vec<Reply>),
    /// The call waits until one of its keys has something.
    Wait,
    /// The call waits, and runs with these arguments then.
    WaitWith(Vec<Vec<u8>>),
}

/// The memory of an element of a reply beside its bytes: its place, and what the allocator adds to
/// memory of its own, which is 32 bytes at least with glibc.
pub(crate) const ELEMENT_BYTES: usize = size_of::<Reply>() + 32;

/// An error reply.
pub(crate) fn error(text: impl Into<String>) -> Reply {
    Reply::Error(text.into())
}

impl Reply {
    pub(crate) const OK: Reply = Reply::Status("OK");

    pub(crate) fn bulk(bytes: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(bytes.as_ref().to_vec())
    }

    pub(crate) fn count(count: usize) -> Reply {
        Reply::Integer(count as i64)
    }

    /// The value, or none.
    pub(crate) fn bulk_or_null(bytes: Option<impl AsRef<[u8]>>) -> Reply {
        bytes.map_or(Reply::Null, Reply::bulk)
    }

    /// Byte strings in order.
    pub(crate) fn bulks<B: AsRef<[u8]>>(items: impl IntoIterator<Item = B>) -> Reply {
        Reply::Array(items.into_iter().map(Reply::bulk).collect())
    }

    pub(crate) fn is_push(&self) -> bool {
        match self {
            Reply::Push(_) => true,
            Reply::Several(items) => !items.is_empty() && items.iter().all(Reply::is_push),
            _ => false,
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// The bytes that it is written as, or a few more.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes_with(0)
    }

    /// The memory that it takes until it is written, but for its own place.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes_with(ELEMENT_BYTES)
    }

    /// The memory that it takes as an element of another reply.
    pub(crate) fn element_bytes(&self) -> usize {
        self.memory_bytes() + ELEMENT_BYTES
    }

    /// Its bytes, and `more` for each element.
    fn bytes_with(&self, more: usize) -> usize {
        let of_element = |it: &Reply| it.bytes_with(more) + more;
        match self {
            Reply::Bulk(bytes) | Reply::BigNumber(bytes) => bulk_bytes(bytes.len()),
            Reply::Stored(value, from) => bulk_bytes(value.len() - from),
            Reply::Line(text) | Reply::Error(text) => text.len() + 3,
            Reply::Text(text) => bulk_bytes(text.len() + 4),
            Reply::Array(items)
            | Reply::Set(items)
            | Reply::Push(items)
            | Reply::Several(items) => 3 + items.iter().map(of_element).sum::<usize>(),
            Reply::Map(pairs) => {
                let pairs = pairs.iter();
                let bytes = pairs.map(|(key, value)| of_element(key) + of_element(value));
                3 + bytes.sum::<usize>()
            }
            Reply::Integer(number) => 3 + digits(number.unsigned_abs()),
            Reply::Double(_) => 24,
            _ => 5,
        }
    }

    /// Appends the bytes of the reply.
    pub(crate) fn write(&self, out: &mut Vec<u8>, resp3: bool) {
        match self {
            Reply::Status(text) => line(out, b'+', text.as_bytes()),
            Reply::Line(text) => line(out, b'+', &clean(text)),
            Reply::Error(text) => line(out, b'-', &clean(text)),
            Reply::Integer(number) => length(out, b':', *number),
            Reply::Bulk(bytes) => bulk(out, bytes),
            Reply::Stored(value, from) => bulk(out, &value[*from..]),
            Reply::Null if resp3 => out.extend_from_slice(b"_\r\n"),
            Reply::NullArray if resp3 => out.extend_from_slice(b"_\r\n"),
            Reply::Null => out.extend_from_slice(b"$-1\r\n"),
            Reply::NullArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Boolean(is) if resp3 => line(out, b'#', if *is { b"t" } else { b"f" }),
            Reply::Boolean(is) => length(out, b':', i64::from(*is)),
            Reply::BigNumber(digits) if resp3 => line(out, b'(', digits),
            Reply::BigNumber(digits) => bulk(out, digits),
            Reply::Double(number) if resp3 => line(out, b',', number::float(*number).as_bytes()),
            Reply::Double(number) => bulk(out, number::float(*number).as_bytes()),
            Reply::Text(text) if resp3 => {
                length(out, b'=', text.len() as i64 + 4);
                out.extend_from_slice(b"txt:");
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Reply::Text(text) => bulk(out, text.as_bytes()),
            Reply::Array(items) => all(out, b'*', items, resp3),
            Reply::Set(items) => all(out, if resp3 { b'~' } else { b'*' }, items, resp3),
            Reply::Push(items) => all(out, if resp3 { b'>' } else { b'*' }, items, resp3),
            Reply::Map(pairs) => {
                let (kind, count) = if resp3 { (b'%', 1) } else { (b'*', 2) };
                length(out, kind, (pairs.len() * count) as i64);
                for (key, value) in pairs {
                    key.write(out, resp3);
                    value.write(out, resp3);
                }
            }
            Reply::Several(items) => items.iter().for_each(|item| item.write(out, resp3)),
            // A call inside of a transaction does not wait.
            Reply::Wait | Reply::WaitWith(_) => Reply::NullArray.write(out, resp3),
        }
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |it| it as usize + 1)
}

/// The bytes of a byte string of a length, as it is written.
fn bulk_bytes(length: usize) -> usize {
    length + 5 + digits(length as u64)
}

/// The memory of a byte string of a length as an element of a reply.
pub(crate) fn element_bytes(length: usize) -> usize {
    bulk_bytes(length) + ELEMENT_BYTES
}

/// The text without line ends.
fn clean(text: &str) -> Vec<u8> {
    text.bytes()
        .map(|it| if it < b' ' { b' ' } else { it })
        .collect()
}

fn line(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    out.push(kind);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn length(out: &mut Vec<u8>, kind: u8, number: i64) {
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    length(out, b'$', bytes.len() as i64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn all(out: &mut Vec<u8>, kind: u8, items: &[Reply], resp3: bool) {
    length(out, kind, items.len() as i64);
    items.iter().for_each(|item| item.write(out, resp3));
}
