//! The entry of a user's key: everything but the elements of a collection.
//!
//! ```text
//! flags     1   the kind in the low 4 bits; bit 5: bounds of scores are there; bit 6: fields of it
//!               expire; bit 7: it expires
//! expiry    8   milliseconds since 1970; only if it expires
//! string        the value
//! others:
//!   version 8   the prefix of its elements, never used twice
//!   count   8   of its elements
//!   head    8   lists: the place of the first element
//!   fields 16   hashes with bit 6: the number of fields that expire, and a time before which
//!               none does
//!   scores 16   sorted sets with bit 5: a score that no member's is below, and one that none is
//!               above, as they are ordered
//!   ids    48   streams: the first, the last and the highest deleted id
//!   added   8   streams: the entries that were ever added
//! ```

use hedgerow::Slice;

const EXPIRES: u8 = 0x80;
const FIELDS_EXPIRE: u8 = 0x40;
const SCORES: u8 = 0x20;
/// A list begins in the middle, so that it can grow to both sides.
pub(crate) const LIST_MIDDLE: u64 = 1 << 63;

/// The types of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String = 0,
    List = 1,
    Set = 2,
    SortedSet = 3,
    Hash = 4,
    Stream = 5,
}

/// The id of an entry of a stream: milliseconds, and a number among those of the same time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) millis: u64,
    pub(crate) number: u64,
}

impl Id {
    pub(crate) const MAX: Id = Id {
        millis: u64::MAX,
        number: u64::MAX,
    };

    /// The bytes, which sort as ids do.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let all = u128::from(self.millis) << 64 | u128::from(self.number);
        all.to_be_bytes()
    }

    pub(crate) fn of_bytes(bytes: [u8; 16]) -> Id {
        let all = u128::from_be_bytes(bytes);
        Id {
            millis: (all >> 64) as u64,
            number: all as u64,
        }
    }

    /// The next id; `None` behind the last.
    pub(crate) fn next(self) -> Option<Id> {
        let all = u128::from_be_bytes(self.to_bytes());
        Some(Id::of_bytes(all.checked_add(1)?.to_be_bytes()))
    }

    pub(crate) fn before(self) -> Option<Id> {
        let all = u128::from_be_bytes(self.to_bytes());
        Some(Id::of_bytes(all.checked_sub(1)?.to_be_bytes()))
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.millis, self.number)
    }
}

/// The facts about all entries of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The lowest id that may be there.
    pub(crate) first: Id,
    pub(crate) last: Id,
    /// The highest id that was deleted, if any was.
    pub(crate) deleted: Id,
    pub(crate) added: u64,
}

/// The fields of a hash that expire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Expiring {
    pub(crate) count: u64,
    /// A time before which none of them expires; 0 if there are none.
    pub(crate) next: u64,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
        }
    }
}

/// Bounds of the scores of a sorted set, as they are ordered. Where members were removed, the tree
/// keeps a record of each until merges drop it: who begins to walk at a bound does not meet those
/// of members that were popped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scores {
    /// No score is below.
    pub(crate) first: u64,
    /// No score is above.
    pub(crate) last: u64,
}

impl Scores {
    const UNKNOWN: Scores = Scores {
        first: 0,
        last: u64::MAX - 1,
    };

    /// The bounds with one more score; `count` is the number of members before.
    pub(crate) fn add(&mut self, score: u64, count: u64) {
        if count == 0 {
            (self.first, self.last) = (score, score);
        }
        self.first = self.first.min(score);
        self.last = self.last.max(score);
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Meta {
    pub(crate) kind: Kind,
    /// The time of expiry; 0 for none.
    pub(crate) expires: u64,
    /// The value, if it is a string.
    pub(crate) value: Text,
    pub(crate) version: u64,
    pub(crate) count: u64,
    pub(crate) head: u64,
    pub(crate) ends: Ends,
    pub(crate) expiring: Expiring,
    pub(crate) scores: Scores,
}

/// A string: a part of a stored value, or a new one.
#[derive(Debug, Clone)]
pub(crate) enum Text {
    Stored(Slice, usize),
    New(Vec<u8>),
}

impl Text {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Text::Stored(value, from) => &value[*from..],
            Text::New(bytes) => bytes,
        }
    }
}

impl Meta {
    pub(crate) fn string(value: Vec<u8>, expires: u64) -> Meta {
        Meta {
            expires,
            value: Text::New(value),
            ..Meta::collection(Kind::String, 0)
        }
    }

    pub(crate) fn collection(kind: Kind, version: u64) -> Meta {
        Meta {
            kind,
            expires: 0,
            value: Text::New(Vec::new()),
            version,
            count: 0,
            head: LIST_MIDDLE,
            ends: Ends::default(),
            expiring: Expiring::default(),
            scores: Scores::UNKNOWN,
        }
    }

    pub(crate) fn is_collection(&self) -> bool {
        self.kind != Kind::String
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let expires = if self.expires > 0 { EXPIRES } else { 0 };
        let fields = if self.expiring.count > 0 {
            FIELDS_EXPIRE
        } else {
            0
        };
        let scores = if self.scores == Scores::UNKNOWN {
            0
        } else {
            SCORES
        };
        out.push(self.kind as u8 | expires | fields | scores);
        if self.expires > 0 {
            out.extend_from_slice(&self.expires.to_be_bytes());
        }
        if !self.is_collection() {
            out.extend_from_slice(self.value.bytes());
            return;
        }
        out.extend_from_slice(&self.version.to_be_bytes());
        out.extend_from_slice(&self.count.to_be_bytes());
        if self.kind == Kind::List {
            out.extend_from_slice(&self.head.to_be_bytes());
        }
        if self.expiring.count > 0 {
            out.extend_from_slice(&self.expiring.count.to_be_bytes());
            out.extend_from_slice(&self.expiring.next.to_be_bytes());
        }
        if scores > 0 {
            out.extend_from_slice(&self.scores.first.to_be_bytes());
            out.extend_from_slice(&self.scores.last.to_be_bytes());
        }
        if self.kind == Kind::Stream {
            for id in [self.ends.first, self.ends.last, self.ends.deleted] {
                out.extend_from_slice(&id.to_bytes());
            }
            out.extend_from_slice(&self.ends.added.to_be_bytes());
        }
    }

    /// The entry of stored bytes; `None` if they are none.
    pub(crate) fn decode(stored: Slice) -> Option<Meta> {
        let bytes = stored.as_bytes();
        let flags = *bytes.first()?;
        let kind = match flags & !(EXPIRES | FIELDS_EXPIRE | SCORES) {
            0 => Kind::String,
            1 => Kind::List,
            2 => Kind::Set,
            3 => Kind::SortedSet,
            4 => Kind::Hash,
            5 => Kind::Stream,
            _ => return None,
        };
        let mut at = 1;
        let mut number = || {
            let bytes = bytes.get(at..at + 8)?;
            at += 8;
            Some(u64::from_be_bytes(bytes.try_into().ok()?))
        };
        let expires = if flags & EXPIRES != 0 { number()? } else { 0 };
        let mut meta = Meta::collection(kind, 0);
        meta.expires = expires;
        if kind == Kind::String {
            meta.value = Text::Stored(stored, at);
            return Some(meta);
        }
        meta.version = number()?;
        meta.count = number()?;
        if kind == Kind::List {
            meta.head = number()?;
        }
        if flags & FIELDS_EXPIRE != 0 {
            let (count, next) = (number()?, number()?);
            if kind != Kind::Hash || count == 0 {
                return None;
            }
            meta.expiring = Expiring { count, next };
        }
        if flags & SCORES != 0 {
            let (first, last) = (number()?, number()?);
            if kind != Kind::SortedSet || last == u64::MAX {
                return None;
            }
            meta.scores = Scores { first, last };
        }
        if kind == Kind::Stream {
            let mut id = || {
                let (millis, number) = (number()?, number()?);
                Some(Id { millis, number })
            };
            let (first, last, deleted) = (id()?, id()?, id()?);
            let added = number()?;
            meta.ends = Ends {
                first,
                last,
                deleted,
                added,
            };
        }
        Some(meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_reads_as_it_was_written() {
        let mut list = Meta::collection(Kind::List, 7);
        (list.count, list.head, list.expires) = (3, 9, 1_000);
        let string = Meta::string(b"value".to_vec(), 0);
        let mut stream = Meta::collection(Kind::Stream, 8);
        stream.ends.last = Id::MAX;
        stream.ends.added = 5;
        let mut hash = Meta::collection(Kind::Hash, 9);
        hash.expiring = Expiring { count: 2, next: 77 };
        let plain = Meta::collection(Kind::Hash, 9);
        let mut zset = Meta::collection(Kind::SortedSet, 10);
        zset.scores.add(5, 0);
        zset.scores.add(3, 1);
        let unbounded = Meta::collection(Kind::SortedSet, 10);
        for meta in [list, string, stream, hash, plain, zset, unbounded] {
            let mut bytes = Vec::new();
            meta.encode(&mut bytes);
            let read = Meta::decode(Slice::copy_from(&bytes)).unwrap();
            assert_eq!(read.kind, meta.kind);
            assert_eq!(read.value.bytes(), meta.value.bytes());
            let facts = |it: &Meta| {
                let numbers = (it.expires, it.version, it.count, it.head);
                (numbers, it.ends, it.expiring, it.scores)
            };
            assert_eq!(facts(&read), facts(&meta));
            for length in 0..bytes.len() {
                // Any outcome but a panic.
                let _ = Meta::decode(Slice::copy_from(&bytes[..length]));
            }
        }
    }
}
