//! The side that is a database: read in the order of its keys, written in batches.

use hedgerow::{Builder, Db, Error, ErrorKind, KEY_BYTES_MAX, Result, Slice};
use serde_json::{Value as Json, json};

use super::{Item, Keeper, Part, Source, Target};
use crate::clock;
use crate::commands::{Run, dump, find};
use crate::number::float;
use crate::rdb::Value;
use crate::store::{Answer, DATABASES, Databases, Found, Meta, Mode, Space, Stop, Txn};

const PART_BYTES: usize = 32 << 20;
/// The bytes of the hash in front of a key.
const HASH_BYTES: usize = 4;
/// The number of a database, if there can be one here.
pub(super) fn database(number: u64) -> Result<usize> {
    let within = usize::try_from(number).ok().filter(|it| *it < DATABASES);
    within.ok_or_else(|| {
        let last = DATABASES - 1;
        let text = format!("expected a database from 0 to {last}, found {number}");
        Error::new(ErrorKind::Unsupported, text)
    })
}

/// See the module.
pub(super) struct Directory {
    db: Db,
    databases: Databases,
}

impl Directory {
    /// Opens a database that is written, and made if it is missing.
    pub(super) fn open(builder: Builder) -> Result<Directory> {
        Directory::of(builder.open()?)
    }

    /// Opens a database that is read, which must be one of a server.
    pub(super) fn open_source(builder: Builder) -> Result<Directory> {
        let db = builder.create_if_missing(false).open()?;
        if db.existing_keyspace("server").is_none() {
            let found = db.keyspaces().join("`, `");
            let text = format!("expected a database of a server, found the keyspaces `{found}`");
            return Err(Error::new(ErrorKind::InvalidArgument, text));
        }
        Directory::of(db)
    }

    fn of(db: Db) -> Result<Directory> {
        // It may be one of a repair that no server has opened yet.
        let databases = Databases::open(&db, Found::Repaired)?;
        #[cfg(feature = "lua")]
        crate::commands::functions::load_stored(&databases)?;
        Ok(Directory { db, databases })
    }

    /// Makes everything durable and closes the database, whatever a copy has done.
    pub(super) fn close<T>(self, done: Result<T>) -> Result<T> {
        let closed = self.db.close();
        let done = done?;
        closed?;
        Ok(done)
    }

    /// The place of the position of a copy.
    pub(super) fn keeper(&self, what: &str) -> Keeper {
        Keeper {
            keyspace: self.databases.server.clone(),
            key: [b"p", what.as_bytes()].concat(),
        }
    }

    pub(super) fn writer(&self) -> Writer<'_> {
        self.writer_of_parts(PART_BYTES)
    }

    pub(super) fn writer_of_parts(&self, part_bytes: usize) -> Writer<'_> {
        Writer {
            databases: &self.databases,
            part_bytes,
        }
    }

    pub(super) fn reader(&self) -> Result<Reader<'_>> {
        let mut txn = Txn::new(&self.databases, Mode::Device, clock::unix_millis())?;
        let mut total = 0;
        for db in 0..DATABASES {
            total += txn.size(db).map_err(failed)?;
        }
        Ok(Reader {
            libraries: libraries(&self.databases)?,
            txn,
            db: 0,
            last: Vec::new(),
            entries: None,
            done: 0,
            total: total.max(0) as u64,
        })
    }
}

/// The reason why a command stopped, where it never waits for anything.
fn failed(stop: Stop) -> Error {
    match stop {
        Stop::Engine(error) => error,
        Stop::Reply(text) => Error::new(ErrorKind::Unsupported, text),
        stop => Error::new(
            ErrorKind::Unsupported,
            format!("expected to continue, found {stop:?}"),
        ),
    }
}

/// Adds the key to an error.
fn at<T>(answer: Answer<T>, item: &Item) -> Result<T> {
    answer.map_err(|stop| {
        let error = failed(stop);
        let key = item.key.escape_ascii();
        let text = format!(
            "cannot put the key `{key}` of database {}: {error}",
            item.db
        );
        Error::new(error.kind(), text)
    })
}

#[cfg(feature = "lua")]
fn libraries(databases: &Databases) -> Result<Vec<Vec<u8>>> {
    databases.stored_libraries()
}

#[cfg(not(feature = "lua"))]
fn libraries(_databases: &Databases) -> Result<Vec<Vec<u8>>> {
    Ok(Vec::new())
}

#[cfg(feature = "lua")]
fn put_library(databases: &Databases, text: &[u8]) -> Result<()> {
    let put = crate::commands::functions::put(databases, text);
    put.map_err(|text| Error::new(ErrorKind::Unsupported, text))
}

#[cfg(not(feature = "lua"))]
fn put_library(_databases: &Databases, _text: &[u8]) -> Result<()> {
    let text = "expected no library of functions in a build without Lua, found one";
    Err(Error::new(ErrorKind::Unsupported, text))
}

// ---- writing ----

pub(super) struct Writer<'a> {
    databases: &'a Databases,
    /// The bytes of a part of a value: larger ones are put by several commits.
    part_bytes: usize,
}

impl<'a> Writer<'a> {
    fn begin(&self) -> Result<Txn<'a>> {
        let mut txn = Txn::new(self.databases, Mode::Device, clock::unix_millis())?;
        txn.tells_events = false;
        Ok(txn)
    }
}

/// Adds the elements of a value to a key that has others, as clients would.
fn add(txn: &mut Txn<'_>, item: &Item, value: &Value) -> Answer<()> {
    let (name, words): (&str, Vec<Vec<u8>>) = match value {
        Value::List(items) => ("rpush", items.clone()),
        Value::Set(members) => ("sadd", members.clone()),
        Value::Hash(fields) => {
            let words = fields
                .iter()
                .flat_map(|(name, value)| [name.clone(), value.clone()]);
            ("hset", words.collect())
        }
        Value::SortedSet(members) => {
            let words = members.iter();
            let words = words.flat_map(|(name, score)| [float(*score).into_bytes(), name.clone()]);
            ("zadd", words.collect())
        }
        Value::String(_) | Value::ExpiringHash(_) | Value::Stream(_) => {
            return Err(Stop::reply("expected elements to add"));
        }
    };
    let mut args: Vec<&[u8]> = vec![name.as_bytes(), &item.key];
    args.extend(words.iter().map(Vec::as_slice));
    match find(args[0]).map(|command| &command.run) {
        // It has expired meanwhile.
        _ if !txn.lookup(&item.key)?.exists() => Ok(()),
        Some(Run::Data(run)) => run(txn, &args).map(drop),
        _ => Err(Stop::reply(format!(
            "expected the command `{name}`, found none"
        ))),
    }
}

impl Target for Writer<'_> {
    fn identity(&self) -> Json {
        Json::Null
    }

    fn put(&mut self, parts: &[Part]) -> Result<()> {
        for part in parts {
            match part {
                Part::Key(item) => self.databases.create(item.db)?,
                Part::Library(text) => put_library(self.databases, text)?,
            }
        }
        let mut txn = self.begin()?;
        for part in parts {
            let Part::Key(item) = part else {
                continue;
            };
            let mut parts = item.value.split(self.part_bytes).into_iter();
            if let Some(value) = parts.next() {
                txn.db = item.db;
                let mut entry = at(txn.lookup(&item.key), item)?;
                at(
                    dump::replace(&mut txn, &mut entry, &value, item.expires),
                    item,
                )?;
            }
            for value in parts {
                at(txn.commit().map_err(Stop::from), item)?;
                // A state that has the part before.
                txn = self.begin()?;
                txn.db = item.db;
                at(add(&mut txn, item, &value), item)?;
            }
        }
        txn.commit().map(drop)
    }

    fn is_empty(&mut self) -> Result<bool> {
        Ok(self.databases.map().iter().all(Option::is_none))
    }
}

// ---- reading ----

type Entries = Box<dyn Iterator<Item = Answer<(Slice, Slice)>>>;

/// All keys as they were when it was made.
pub(super) struct Reader<'a> {
    txn: Txn<'a>,
    libraries: Vec<Vec<u8>>,
    /// The database, and the last key of it that was read, with its hash.
    db: usize,
    last: Vec<u8>,
    entries: Option<Entries>,
    done: u64,
    total: u64,
}

impl Reader<'_> {
    /// The next entry of the database; `None` behind the last.
    fn entry(&mut self) -> Answer<Option<(Slice, Slice)>> {
        if self.entries.is_none() {
            let mut begin = self.last.clone();
            if !begin.is_empty() {
                // The next key that there can be.
                begin.push(0);
            }
            // Behind all keys, which are shorter.
            let end = vec![u8::MAX; KEY_BYTES_MAX];
            let scan = self.txn.scan(self.db, Space::Meta, begin..end, u64::MAX)?;
            self.entries = Some(Box::new(scan));
        }
        self.entries.as_mut().and_then(Iterator::next).transpose()
    }

    fn item(&mut self, stored_key: &Slice, stored: Slice) -> Answer<Option<Item>> {
        let damaged = || Stop::reply("expected an entry of a server, found other bytes");
        let key = stored_key.get(HASH_BYTES..).ok_or_else(damaged)?;
        let meta = Meta::decode(stored).ok_or_else(damaged)?;
        if self.txn.expired(self.db, &meta)?.is_some() {
            return Ok(None);
        }
        self.txn.db = self.db;
        Ok(Some(Item {
            db: self.db,
            key: key.to_vec(),
            expires: meta.expires,
            value: dump::value(&mut self.txn, &meta)?,
        }))
    }
}

impl Source for Reader<'_> {
    fn identity(&self) -> Json {
        Json::Null
    }

    fn resume(&mut self, position: &Json) -> Result<()> {
        let key = position["key"].as_str().unwrap_or_default();
        let key = data_encoding::HEXLOWER.decode(key.as_bytes());
        if let (Some(db), Ok(key)) = (position["db"].as_u64(), key) {
            (self.db, self.last) = (db as usize, key);
            self.done = position["done"].as_u64().unwrap_or(0);
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Part>> {
        if let Some(text) = self.libraries.pop() {
            return Ok(Some(Part::Library(text)));
        }
        while self.db < DATABASES {
            match self.entry().map_err(failed)? {
                Some((key, stored)) => {
                    self.last = key.to_vec();
                    self.done += 1;
                    if let Some(item) = self.item(&key, stored).map_err(failed)? {
                        return Ok(Some(Part::Key(item)));
                    }
                }
                None => {
                    self.db += 1;
                    self.entries = None;
                    self.last.clear();
                }
            }
        }
        Ok(None)
    }

    fn position(&self) -> Json {
        let key = data_encoding::HEXLOWER.encode(&self.last);
        json!({"db": self.db, "key": key, "done": self.done})
    }

    fn steps(&self) -> (u64, u64) {
        (self.done, self.total)
    }
}
