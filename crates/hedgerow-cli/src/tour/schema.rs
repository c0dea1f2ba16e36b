//! The mapping of file-system metadata to keys and values.
//!
//! Two keyspaces, always written in one batch:
//!
//! | keyspace | key | value |
//! |---|---|---|
//! | `entries` | parent's id, name | attributes |
//! | `inodes` | id | parent's id and name where it was first seen |
//!
//! Ids are 8 bytes, big-endian, so the entries of a directory are neighbours in the order of their
//! names. The walk assigns them, because inode numbers repeat between devices. The root is 1; its
//! entry has parent 0 and an empty name. An entry that is not a directory may have several names
//! (hard links), which share their id. The id of a directory is smaller than those of all
//! directories in it.
//!
//! Attributes: a format byte (1), then unsigned LEB128 numbers: id, inode, device, special device,
//! mode, owner, group, links, size, and for mtime and ctime each the seconds (zigzag) and the
//! nanoseconds; then, up to the end, a symbolic link's target. For example mode 0100644 (octal),
//! that is 33188, is `a4 83 02`, and one second before 1970 is `01`.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use crate::exit::{Exit, Failure};

/// The root's id.
pub(crate) const ROOT: u64 = 1;
/// The parent of the root.
pub(crate) const ABOVE_ROOT: u64 = 0;

const FORMAT: u8 = 1;
const TYPE_MASK: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// A moment: seconds since 1970 and nanoseconds.
pub(crate) type Time = (i64, u32);

/// The metadata of an entry, without its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// The store's own id, unique across devices.
    pub(crate) id: u64,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    /// The device that a device file stands for.
    pub(crate) special: u64,
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    pub(crate) links: u64,
    pub(crate) size: u64,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    /// The target of a symbolic link; empty for everything else.
    pub(crate) target: Vec<u8>,
}

impl Attributes {
    pub(crate) fn new(id: u64, metadata: &Metadata, target: Vec<u8>) -> Attributes {
        Attributes {
            id,
            inode: metadata.ino(),
            device: metadata.dev(),
            special: metadata.rdev(),
            mode: metadata.mode(),
            owner: metadata.uid(),
            group: metadata.gid(),
            links: metadata.nlink(),
            size: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec() as u32),
            ctime: (metadata.ctime(), metadata.ctime_nsec() as u32),
            target,
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.mode & TYPE_MASK == DIRECTORY
    }

    pub(crate) fn is_regular(&self) -> bool {
        self.mode & TYPE_MASK == REGULAR
    }

    pub(crate) fn is_link(&self) -> bool {
        self.mode & TYPE_MASK == LINK
    }

    /// The type and the permissions as `ls -l` writes them.
    pub(crate) fn mode_shown(&self) -> String {
        let kind = match self.mode & TYPE_MASK {
            DIRECTORY => 'd',
            REGULAR => '-',
            LINK => 'l',
            0o060_000 => 'b',
            0o020_000 => 'c',
            0o010_000 => 'p',
            0o140_000 => 's',
            _ => '?',
        };
        let bit = |i: u32| match self.mode >> (8 - i) & 1 {
            1 => ['r', 'w', 'x'][i as usize % 3],
            _ => '-',
        };
        let mut shown: Vec<char> = std::iter::once(kind).chain((0..9).map(bit)).collect();
        for (flag, at, letter) in [(0o4000, 3, 's'), (0o2000, 6, 's'), (0o1000, 9, 't')] {
            if self.mode & flag != 0 {
                shown[at] = match shown[at] {
                    'x' => letter,
                    _ => letter.to_ascii_uppercase(),
                };
            }
        }
        shown.into_iter().collect()
    }

    /// True if the entry has other names, which share its id.
    pub(crate) fn is_hard_linked(&self) -> bool {
        self.links > 1 && !self.is_directory()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.target.len());
        out.push(FORMAT);
        for number in [
            self.id,
            self.inode,
            self.device,
            self.special,
            u64::from(self.mode),
            u64::from(self.owner),
            u64::from(self.group),
            self.links,
            self.size,
            zigzag(self.mtime.0),
            u64::from(self.mtime.1),
            zigzag(self.ctime.0),
            u64::from(self.ctime.1),
        ] {
            put_number(&mut out, number);
        }
        out.extend_from_slice(&self.target);
        out
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Attributes, Failure> {
        let Some((&FORMAT, mut rest)) = value.split_first() else {
            return Err(wrong(
                "attributes of format 1",
                &format!("{:?}", value.first()),
            ));
        };
        let rest = &mut rest;
        let attributes = Attributes {
            id: number(rest, "an id")?,
            inode: number(rest, "an inode")?,
            device: number(rest, "a device")?,
            special: number(rest, "a special device")?,
            mode: short(rest, "a mode")?,
            owner: short(rest, "an owner")?,
            group: short(rest, "a group")?,
            links: number(rest, "a number of links")?,
            size: number(rest, "a size")?,
            mtime: time(rest, "an mtime")?,
            ctime: time(rest, "a ctime")?,
            target: rest.to_vec(),
        };
        if !attributes.is_link() && !attributes.target.is_empty() {
            let found = format!("{} more bytes", attributes.target.len());
            return Err(wrong("the end of the attributes", &found));
        }
        Ok(attributes)
    }
}

/// The key of an entry. With an empty name it is the prefix of a directory's entries.
pub(crate) fn entry_key(parent: u64, name: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(8 + name.len());
    key.extend_from_slice(&parent.to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// Splits the key of an entry, or the value of an inode, into parent and name.
pub(crate) fn split_entry_key(key: &[u8]) -> Result<(u64, &[u8]), Failure> {
    let Some((parent, name)) = key.split_first_chunk() else {
        let found = format!("{} bytes", key.len());
        return Err(wrong("a parent's id of 8 bytes", &found));
    };
    Ok((u64::from_be_bytes(*parent), name))
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn number(rest: &mut &[u8], what: &str) -> Result<u64, Failure> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let Some((&byte, tail)) = rest.split_first() else {
            return Err(wrong(what, "the end of the value"));
        };
        *rest = tail;
        let bits = u64::from(byte & 0x7F);
        if bits << shift >> shift != bits {
            break;
        }
        n |= bits << shift;
        if byte < 0x80 {
            return Ok(n);
        }
    }
    Err(wrong(what, "a number beyond 64 bits"))
}

fn short(rest: &mut &[u8], what: &str) -> Result<u32, Failure> {
    let n = number(rest, what)?;
    u32::try_from(n).map_err(|_| wrong(what, &n.to_string()))
}

fn time(rest: &mut &[u8], what: &str) -> Result<Time, Failure> {
    let zigzag = number(rest, what)?;
    let seconds = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    Ok((seconds, short(rest, what)?))
}

fn wrong(expected: &str, found: &str) -> Failure {
    Failure::new(
        Exit::Corruption,
        format!("corruption: expected {expected}, found {found}"),
    )
}

#[cfg(test)]
mod tests;
