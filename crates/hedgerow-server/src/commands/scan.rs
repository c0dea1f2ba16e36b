//! The SCAN family. Keys and fields are stored in the order of a 32-bit hash, and a cursor is the
//! hash of the next one. So a cursor needs no memory of the server, survives restarts, and a key
//! that is there all the time is returned. All keys of one hash are returned together.

use super::Args;
use super::arguments::{Options, is};
use super::fields::Field;
use crate::glob;
use crate::resp::Reply;
use crate::store::{Answer, Kind, Meta, Space, Stop, Txn, elements};
use hedgerow::Slice;

/// It is behind all keys, whose hashes have four bytes.
const KEYS_END: [u8; 5] = [0xFF; 5];

/// The options of the family.
struct ScanOptions<'a> {
    cursor: u64,
    count: usize,
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

impl<'a> ScanOptions<'a> {
    fn parse(cursor: &[u8], rest: Args<'a>) -> Answer<ScanOptions<'a>> {
        let text = std::str::from_utf8(cursor).ok();
        let cursor = text.and_then(|text| text.parse().ok());
        let mut parsed = ScanOptions {
            cursor: cursor.ok_or_else(|| Stop::reply("ERR invalid cursor"))?,
            count: 10,
            pattern: None,
            kind: None,
        };
        let mut options = Options::new(rest);
        while let Some(option) = options.next() {
            match option {
                _ if is(option, "MATCH") => parsed.pattern = Some(options.value()?),
                _ if is(option, "TYPE") => parsed.kind = Some(options.value()?),
                _ if is(option, "COUNT") => {
                    let number = options.integer()?;
                    if number < 1 {
                        return Err(Stop::syntax());
                    }
                    parsed.count = number as usize;
                }
                _ => return Err(Stop::syntax()),
            }
        }
        Ok(parsed)
    }

    fn matches(&self, name: &[u8]) -> bool {
        let matches = |pattern| glob::matches(pattern, name, false);
        self.pattern.is_none_or(matches)
    }

    /// Walks over the entries from the cursor on whose keys begin with a prefix and a hash. The
    /// reply has the next cursor, and `parts` of these entries, as long as there is room.
    fn walk<const N: usize>(
        &self,
        txn: &mut Txn<'_>,
        (space, prefix, end): (Space, &[u8], Vec<u8>),
        parts: impl Fn(&mut Txn<'_>, &Slice, Slice) -> Answer<[Option<Reply>; N]>,
    ) -> Answer<Reply> {
        let Ok(from) = u32::try_from(self.cursor) else {
            return Ok(reply(0, Vec::new()));
        };
        let from = [prefix, &from.to_be_bytes()].concat();
        let db = txn.db;
        let (mut found, mut room) = (Vec::new(), txn.room);
        let (mut count, mut last) = (0, None);
        let hash_of = |key: &Slice| {
            let bytes = key
                .get(prefix.len()..prefix.len() + 4)
                .and_then(|it| it.try_into().ok());
            u32::from_be_bytes(bytes.unwrap_or_default())
        };
        for item in txn.scan(db, space, from..end, self.count as u64)? {
            let (key, value) = item?;
            let next = hash_of(&key);
            if count >= self.count && last != Some(next) {
                return Ok(reply(u64::from(next), found));
            }
            (count, last) = (count + 1, Some(next));
            for part in parts(txn, &key, value)?.into_iter().flatten() {
                room.take(part.element_bytes())?;
                found.push(part);
            }
        }
        Ok(reply(0, found))
    }
}

fn reply(cursor: u64, found: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::bulk(cursor.to_string()), Reply::Array(found)])
}

/// A stored entry of the selected database, unless it has expired.
fn live(txn: &mut Txn<'_>, stored: Slice) -> Answer<Option<Meta>> {
    let meta = Meta::decode(stored).ok_or_else(Stop::damaged)?;
    let expired = txn.expired(txn.db, &meta)?;
    Ok(Some(meta).filter(|_| expired.is_none()))
}

pub(super) fn scan(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let options = ScanOptions::parse(args[1], &args[2..])?;
    let is_kind = |meta: &Meta| options.kind.is_none_or(|kind| is(kind, meta.kind.name()));
    options.walk(
        txn,
        (Space::Meta, &[], KEYS_END.to_vec()),
        |txn, key, stored| {
            let meta = live(txn, stored)?.filter(|it| is_kind(it) && options.matches(&key[4..]));
            Ok([meta.map(|_| Reply::bulk(&key[4..]))])
        },
    )
}

pub(super) fn hscan(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let (args, with_values) = match args {
        [before @ .., last] if is(last, "NOVALUES") && args.len() > 3 => (before, false),
        args => (args, true),
    };
    let now = txn.now;
    scan_elements(txn, args, Kind::Hash, |stored| {
        let field = Field::decode(stored)?;
        let value = with_values.then(|| field.reply());
        Ok(field.is_live(now).then_some(value))
    })
}

pub(super) fn sscan(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    scan_elements(txn, args, Kind::Set, |_| Ok(Some(None)))
}

pub(super) fn zscan(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    scan_elements(txn, args, Kind::SortedSet, |stored| {
        let score = crate::number::float(super::zsets::score(&stored));
        Ok(Some(Some(Reply::bulk(score))))
    })
}

/// Walks over elements. `value_of` gives the value behind a name, if there is one; `None` leaves
/// the element out.
fn scan_elements(
    txn: &mut Txn<'_>,
    args: Args<'_>,
    kind: Kind,
    value_of: impl Fn(Slice) -> Answer<Option<Option<Reply>>>,
) -> Answer<Reply> {
    let options = ScanOptions::parse(args[2], &args[3..])?;
    if options.kind.is_some() {
        return Err(Stop::syntax());
    }
    let entry = txn.lookup_kind(args[1], kind)?;
    let Some(meta) = entry.meta() else {
        return Ok(reply(0, Vec::new()));
    };
    let prefix = meta.version.to_be_bytes();
    let end = elements(meta.version).end;
    options.walk(txn, (Space::Elements, &prefix, end), |_, key, value| {
        let name = &key[12..];
        let value = match options.matches(name) {
            true => value_of(value)?,
            false => None,
        };
        Ok(value.map_or([None, None], |value| [Some(Reply::bulk(name)), value]))
    })
}

/// The elements around a random hash of which one is drawn. The nearest one alone would be drawn as
/// often as the gap before it is wide.
pub(super) const DRAWN_FROM: usize = 16;

/// A random element of a collection whose elements have hashes; each is as likely as any other if
/// there are at most [`DRAWN_FROM`], and nearly so if there are more.
pub(super) fn random_element(
    txn: &mut Txn<'_>,
    space: Space,
    prefix: &[u8],
    end: Vec<u8>,
) -> Answer<Option<(Slice, Slice)>> {
    let db = txn.db;
    let hash = fastrand::u32(..).to_be_bytes();
    let middle = [prefix, &hash].concat();
    let mut near: Vec<(Slice, Slice)> = Vec::with_capacity(DRAWN_FROM);
    for range in [middle.clone()..end, prefix.to_vec()..middle] {
        let missing = DRAWN_FROM - near.len();
        if missing > 0 {
            let found = txn.scan(db, space, range, missing as u64)?.take(missing);
            near.extend(found.collect::<Answer<Vec<_>>>()?);
        }
    }
    let drawn = (!near.is_empty()).then(|| fastrand::usize(..near.len()));
    Ok(drawn.map(|at| near.swap_remove(at)))
}

pub(super) fn keys(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let db = txn.db;
    let size = txn.size(db)?.max(0) as u64;
    let (room, all) = (txn.room, Vec::new()..KEYS_END.to_vec());
    let all = txn.scan(db, Space::Meta, all, size)?;
    let mut name = |(key, stored): (Slice, Slice)| {
        let name = &key[4..];
        let is_wanted = glob::matches(args[1], name, false) && live(txn, stored)?.is_some();
        Ok(is_wanted.then(|| Reply::bulk(name)))
    };
    let names = all.filter_map(|item| item.and_then(&mut name).transpose());
    Ok(Reply::Array(room.replies(names)?))
}

pub(super) fn randomkey(txn: &mut Txn<'_>, _args: Args<'_>) -> Answer<Reply> {
    for _ in 0..64 {
        let Some((key, stored)) = random_element(txn, Space::Meta, &[], KEYS_END.to_vec())? else {
            return Ok(Reply::Null);
        };
        if live(txn, stored)?.is_some() {
            return Ok(Reply::bulk(&key[4..]));
        }
    }
    // Nearly all keys have expired and wait to be removed.
    Ok(Reply::Null)
}

pub(super) fn dbsize(txn: &mut Txn<'_>, _args: Args<'_>) -> Answer<Reply> {
    let db = txn.db;
    Ok(Reply::Integer(txn.size(db)?))
}
