//! Key orders in a run. If the keys of a keyspace have no order, a range is read by prefix or as a
//! whole and sorted here. The result must be the same.

use std::ops::{Bound, RangeBounds};
use std::path::Path;

use hedgerow::io::Storage;
use hedgerow::{
    BulkLoadReport, Compression, Cursor, Error, ErrorKind, KEY_BYTES_MAX, KeyOrder, Keyspace,
    LoadOp, PrefixRule, Result, ScanToken, Slice, Snapshot, TableWriter, UnorderedScan,
};

use crate::blob::Blob;
use crate::operator;
use crate::ops::{Keys, Move};

/// A key that every order of a run takes.
pub(crate) const ANY_KEY: &[u8] = b"\x01k/any";

/// The first fragment of a key; `None` if the order does not take the key. Sorted and hashed keys
/// have an empty one.
pub(crate) fn fragment(order: KeyOrder, key: &[u8]) -> Option<&[u8]> {
    match order {
        KeyOrder::SemiSorted(PrefixRule::Bytes(bytes)) => key.get(..bytes as usize),
        KeyOrder::SemiSorted(PrefixRule::Delimiter(delimiter)) => {
            let mut fragments = key.splitn(2, |byte| *byte == delimiter);
            fragments.next().filter(|_| fragments.next().is_some())
        }
        // The engine's own tests cover lengths of more than a byte.
        KeyOrder::SemiSorted(PrefixRule::LengthPrefixed) => {
            let (length, rest) = key.split_first()?;
            (*length < 0x80).then(|| rest.get(..usize::from(*length)))?
        }
        _ => Some(&[]),
    }
}

/// Returns true if a keyspace of this order takes the key.
pub(crate) fn takes(order: KeyOrder, key: &[u8]) -> bool {
    key.len() <= KEY_BYTES_MAX && fragment(order, key).is_some()
}

type Pair = (Slice, Slice);
type Items = Box<dyn DoubleEndedIterator<Item = Result<(Slice, Slice)>>>;
type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Reads the keys of a range, now or at a snapshot.
pub(crate) fn scan(
    keyspace: &Keyspace,
    snapshot: Option<&Snapshot>,
    range: Range,
) -> Result<Items> {
    if keyspace.layout().order == KeyOrder::Sorted {
        return Ok(match snapshot {
            None => Box::new(keyspace.scan(range)?),
            Some(snapshot) => Box::new(snapshot.scan(keyspace, range)?),
        });
    }
    let mut items = everything(keyspace, snapshot)?;
    items.retain(|(key, _)| range.contains(&key.to_vec()));
    Ok(Box::new(items.into_iter().map(Ok)))
}

/// Reads the keys with this prefix.
pub(crate) fn scan_prefix(keyspace: &Keyspace, beginning: &[u8]) -> Result<Items> {
    let order = keyspace.layout().order;
    if order == KeyOrder::Sorted {
        return Ok(Box::new(keyspace.scan_prefix(beginning)?));
    }
    let mut items = everything(keyspace, None)?;
    if let (KeyOrder::SemiSorted(_), Some(prefix)) = (order, fragment(order, beginning)) {
        items.retain(|(key, _)| fragment(order, key) == Some(prefix));
        let mut group = keyspace.scan_prefix(prefix)?.collect::<Result<Vec<_>>>()?;
        let backward = keyspace.scan_prefix(prefix)?.rev();
        if !group
            .iter()
            .rev()
            .cloned()
            .eq(backward.collect::<Result<Vec<_>>>()?)
        {
            return Err(conflict("a prefix differs when read from its end"));
        }
        group.sort();
        if group != items {
            return Err(conflict(
                "a prefix differs from what a scan of everything finds",
            ));
        }
    }
    items.retain(|(key, _)| key.starts_with(beginning));
    Ok(Box::new(items.into_iter().map(Ok)))
}

/// Takes the first or the last entry.
pub(crate) fn pop(keyspace: &Keyspace, last: bool) -> Result<Option<(Slice, Slice)>> {
    if keyspace.layout().order != KeyOrder::Sorted {
        let mut items = everything(keyspace, None)?.into_iter();
        let item = if last {
            items.next_back()
        } else {
            items.next()
        };
        if let Some((key, _)) = &item {
            keyspace.delete(key)?;
        }
        return Ok(item);
    }
    match last {
        true => keyspace.pop_last(),
        false => keyspace.pop_first(),
    }
}

/// The first and the last entry, and the number of keys.
pub(crate) fn ends(
    keyspace: &Keyspace,
    snapshot: Option<&Snapshot>,
) -> Result<([Option<Pair>; 2], usize)> {
    let is_empty = match snapshot {
        None => keyspace.is_empty()?,
        Some(snapshot) => snapshot.is_empty(keyspace)?,
    };
    let unordered = match snapshot {
        None => keyspace.scan_unordered()?,
        Some(snapshot) => snapshot.scan_unordered(keyspace)?,
    };
    let count = unordered.keys().try_fold(0, |n, key| key.map(|_| n + 1))?;
    if is_empty != (count == 0) {
        return Err(conflict("a keyspace is empty and has keys"));
    }
    if keyspace.layout().order != KeyOrder::Sorted {
        let items = everything(keyspace, snapshot)?;
        return Ok(([items.first().cloned(), items.last().cloned()], count));
    }
    let all = || match snapshot {
        None => keyspace.scan_all(),
        Some(snapshot) => snapshot.scan_all(keyspace),
    };
    let forward = all()?.keys().collect::<Result<Vec<_>>>()?;
    let backward = all()?.keys().rev().collect::<Result<Vec<_>>>()?;
    if !forward.iter().eq(backward.iter().rev()) || forward.len() != count {
        return Err(conflict("a scan of keys differs when read from its end"));
    }
    let ends = match snapshot {
        None => [keyspace.first()?, keyspace.last()?],
        Some(snapshot) => [snapshot.first(keyspace)?, snapshot.last(keyspace)?],
    };
    Ok((ends, count))
}

/// A range delete in the words of a keyspace.
pub(crate) enum Deleted {
    Range(Range),
    Prefix(Vec<u8>),
    /// Single keys, because the order has no such range.
    Each(Vec<Vec<u8>>),
}

/// The range delete that removes these keys. `written` are keys that the same batch has written.
pub(crate) fn deleted(keyspace: &Keyspace, keys: &Keys, written: &[Vec<u8>]) -> Result<Deleted> {
    let order = keyspace.layout().order;
    let found = match (order, keys) {
        (KeyOrder::Sorted, Keys::Range(lower, upper)) => {
            let bytes = |bound: &Bound<Blob>| bound.as_ref().map(Blob::bytes);
            return Ok(Deleted::Range((bytes(lower), bytes(upper))));
        }
        (KeyOrder::Sorted, Keys::Prefix(prefix)) => return Ok(Deleted::Prefix(prefix.bytes())),
        _ => everything(keyspace, None)?,
    };
    let all = found.iter().map(|(key, _)| key.to_vec());
    let mut all: Vec<_> = all.chain(written.iter().cloned()).collect();
    if let (KeyOrder::SemiSorted(_), Keys::Prefix(beginning)) = (order, keys)
        && let beginning = beginning.bytes()
        && let Some(prefix) = fragment(order, &beginning)
    {
        // The keys of the prefix may be more than those that begin so.
        let mut of_prefix = all
            .iter()
            .filter(|key| fragment(order, key) == Some(prefix));
        let is_prefix = |key: &&Vec<u8>| key.starts_with(&beginning);
        let begin_so = all.iter().filter(is_prefix);
        if of_prefix.all(|key| is_prefix(&key)) && { begin_so }
            .all(|key| fragment(order, key) == Some(prefix))
        {
            return Ok(Deleted::Prefix(prefix.to_vec()));
        }
    }
    all.retain(|key| keys.holds(key));
    Ok(Deleted::Each(all))
}

/// Loads entries whose keys ascend. Keys without an order would be loaded in any order, so this
/// checks it. An odd number of sorted entries comes as a table, written at `path`.
pub(crate) fn load(
    keyspace: &Keyspace,
    mut entries: Vec<(Vec<u8>, Vec<u8>)>,
    (storage, path): (&dyn Storage, &Path),
) -> Result<BulkLoadReport> {
    let is_sorted = keyspace.layout().order == KeyOrder::Sorted;
    if is_sorted && entries.len() % 2 == 1 {
        // A keyspace that is gone must report that first.
        keyspace.contains_key(ANY_KEY)?;
        return ingest(keyspace, &entries, (storage, path));
    }
    if !is_sorted {
        // A keyspace that is gone must report that first.
        keyspace.contains_key(ANY_KEY)?;
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            let text = "expected keys in ascending order";
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        entries.reverse();
    }
    let op = |bytes: Vec<u8>| match operator::is_operand(&bytes) {
        true => LoadOp::Merge(bytes),
        false => LoadOp::Put(bytes),
    };
    let ops = entries.into_iter().map(|(key, bytes)| (key, op(bytes)));
    keyspace.bulk_load_ops(ops.map(Ok::<_, Error>))
}

/// Writes entries to a table outside of the database, which is then ingested.
fn ingest(
    keyspace: &Keyspace,
    entries: &[(Vec<u8>, Vec<u8>)],
    (storage, path): (&dyn Storage, &Path),
) -> Result<BulkLoadReport> {
    // An earlier load has left its table.
    let _ = storage.remove(path);
    let mut table = TableWriter::create_on(storage, path, Compression::Lz4)?;
    for (key, bytes) in entries {
        match operator::is_operand(bytes) {
            true => table.merge(key, bytes)?,
            false => table.put(key, bytes)?,
        }
    }
    table.finish()?;
    keyspace.ingest(&[path])
}

/// Reads everything in order. Scans in pieces, from token to token.
fn everything(keyspace: &Keyspace, snapshot: Option<&Snapshot>) -> Result<Vec<(Slice, Slice)>> {
    let mut items = Vec::new();
    let mut token = ScanToken::default();
    for piece in [1, 7, 50, usize::MAX] {
        let mut scan = match snapshot {
            None => keyspace.scan_unordered_from(&token)?,
            Some(snapshot) => snapshot.scan_unordered_from(keyspace, &token)?,
        };
        for item in scan.by_ref().take(piece) {
            items.push(item?);
        }
        token = scan.token();
    }
    in_order(items)
}

fn in_order(mut items: Vec<(Slice, Slice)>) -> Result<Vec<(Slice, Slice)>> {
    items.sort();
    if items.is_sorted_by(|(a, _), (b, _)| a < b) {
        return Ok(items);
    }
    Err(conflict("a scan of everything has visited a key twice"))
}

fn conflict(what: &str) -> Error {
    Error::new(ErrorKind::Conflict, what)
}

/// A position among the keys of the moment of its opening.
#[derive(Debug)]
pub(crate) enum Position {
    Cursor(Cursor),
    /// A scan of everything, for keys without an order. The first move reads it.
    Unread(Box<UnorderedScan>),
    /// The items read, and the index of the current one.
    Read(Vec<(Slice, Slice)>, Option<usize>),
}

impl Position {
    pub(crate) fn open(keyspace: &Keyspace, snapshot: Option<&Snapshot>) -> Result<Position> {
        let sorted = keyspace.layout().order == KeyOrder::Sorted;
        Ok(match (sorted, snapshot) {
            (true, None) => Position::Cursor(keyspace.cursor()?),
            (true, Some(snapshot)) => Position::Cursor(snapshot.cursor(keyspace)?),
            (false, None) => Position::Unread(Box::new(keyspace.scan_unordered()?)),
            (false, Some(snapshot)) => {
                Position::Unread(Box::new(snapshot.scan_unordered(keyspace)?))
            }
        })
    }

    /// Moves, and returns the entry there.
    pub(crate) fn go(&mut self, to: &Move) -> Result<Option<(Vec<u8>, Slice)>> {
        if let Position::Unread(scan) = self {
            let items = scan.by_ref().collect::<Result<Vec<_>>>()?;
            *self = Position::Read(in_order(items)?, None);
        }
        match self {
            Position::Cursor(cursor) => go(cursor, to),
            Position::Read(items, at) => {
                *at = go_among(items, *at, to).filter(|at| *at < items.len());
                Ok(at.map(|at| (items[at].0.to_vec(), items[at].1.clone())))
            }
            Position::Unread(_) => Ok(None),
        }
    }
}

/// The target of a move among sorted items. It may be behind the last.
fn go_among(items: &[(Slice, Slice)], at: Option<usize>, to: &Move) -> Option<usize> {
    let before = |key: &[u8]| items.partition_point(|(k, _)| **k < *key);
    let through = |key: &[u8]| items.partition_point(|(k, _)| **k <= *key);
    match to {
        Move::First => Some(0),
        Move::Last => items.len().checked_sub(1),
        Move::Seek(key) => Some(before(&key.bytes())),
        Move::SeekForPrev(key) => through(&key.bytes()).checked_sub(1),
        Move::Next => at.map(|at| at + 1),
        Move::Prev => at.and_then(|at| at.checked_sub(1)),
    }
}

fn go(cursor: &mut Cursor, to: &Move) -> Result<Option<(Vec<u8>, Slice)>> {
    let there = match to {
        Move::Seek(key) => cursor.seek(&key.bytes())?,
        Move::SeekForPrev(key) => cursor.seek_for_prev(&key.bytes())?,
        Move::First => cursor.seek_first()?,
        Move::Last => cursor.seek_last()?,
        Move::Next => cursor.next()?,
        Move::Prev => cursor.prev()?,
    };
    let key = cursor.key().map(<[u8]>::to_vec);
    let value = cursor.value()?.map(Slice::copy_from);
    if there != key.is_some() || there != value.is_some() {
        return Err(conflict(&format!("a cursor said {there} at key {key:?}")));
    }
    Ok(key.zip(value))
}
