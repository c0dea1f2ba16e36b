//! Copying all keys between a Redis, an RDB file, and a database.
//!
//! A source hands out keys with their values, a target takes them, some mebibytes at a time. After
//! each of these chunks the position of the source is stored in the database that takes part. A
//! copy that was killed resumes there. It may copy the last chunk again, which changes nothing:
//! a key that is there is replaced. Between two servers there is no place for a position, so such a
//! copy begins again.
//!
//! Everything here blocks; a program calls it on a thread of its own. Memory: one chunk, or one
//! value if that is larger, and the budget of the engine.

mod client;
mod directory;
mod live;
mod rdb_file;
mod restoring;
mod url;

use std::ops::RangeInclusive;

use hedgerow::{Builder, Error, ErrorKind, Keyspace, Result};
use serde_json::{Value as Json, json};

use crate::cluster::slot;
use crate::rdb::Value;
use directory::Directory;
use live::Live;
use rdb_file::RdbFile;
use restoring::Restoring;
pub use url::Url;

/// The bytes of values after which a chunk is put.
const CHUNK_BYTES: usize = 4 << 20;
/// The keys after which a chunk is put.
const CHUNK_KEYS: usize = 4096;

/// A side of a copy.
pub enum Endpoint {
    /// A server that speaks the protocol of Redis.
    Server(Url),
    /// The database of a server of ours that does not run.
    Directory(Box<Builder>),
    /// A file that a Redis has saved. It cannot be written.
    RdbFile(std::path::PathBuf),
}

/// The state of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The keys that were copied, those of earlier runs included.
    pub keys: u64,
    /// The steps of the source that are done: bytes of a file, or else keys.
    pub done: u64,
    /// All steps.
    pub total: u64,
}

/// The outcome of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transferred {
    /// The keys that were copied, those of earlier runs included.
    pub keys: u64,
    /// The keys that an earlier run had copied.
    pub keys_before: u64,
    /// The libraries of functions.
    pub libraries: u64,
}

/// The choices of a copy.
#[derive(Debug, Clone, Default)]
pub struct TransferOptions {
    /// Begins at the first key, also if an earlier copy was not finished.
    pub restarts: bool,
    /// Only the keys of these slots, whoever has them by the map of a server.
    pub slots: Option<RangeInclusive<u16>>,
}

impl TransferOptions {
    fn takes(&self, key: &[u8]) -> bool {
        self.slots.as_ref().is_none_or(|it| it.contains(&slot(key)))
    }
}

/// A key with its value.
struct Item {
    db: usize,
    key: Vec<u8>,
    /// Milliseconds since 1970; 0 for none.
    expires: u64,
    value: Value,
}

enum Part {
    Key(Item),
    /// The text of a library of functions.
    Library(Vec<u8>),
}

trait Source {
    /// The identity of what is read: a position is good for this only.
    fn identity(&self) -> Json;
    /// Goes to a position. Begins at the first key if it is none of this source.
    fn resume(&mut self, position: &Json) -> Result<()>;
    /// The next part; `None` at the end.
    fn next(&mut self) -> Result<Option<Part>>;
    /// The position behind the last part.
    fn position(&self) -> Json;
    /// The steps that are done, and all.
    fn steps(&self) -> (u64, u64);
}

trait Target {
    fn identity(&self) -> Json;
    /// Puts parts. Those that are there are replaced.
    fn put(&mut self, parts: &[Part]) -> Result<()>;
    /// Returns true if nothing is there: a position says less than that.
    fn is_empty(&mut self) -> Result<bool>;
}

/// Copies all keys with their times of expiry, and all libraries of functions. Continues where an
/// earlier run ended. `go_on` is told the progress after each chunk; if it returns false, the copy
/// ends there.
///
/// # Errors
/// `Cancelled` if `go_on` returned false; `Corruption` for a damaged file; `Unsupported` for what
/// has no place in the target, and for what a server refuses; `Io` for a server that is not there;
/// `InvalidArgument` for two sides between which nothing is copied; as [`Builder::open`].
pub fn transfer(
    source: Endpoint,
    target: Endpoint,
    options: &TransferOptions,
    go_on: &mut dyn FnMut(Progress) -> bool,
) -> Result<Transferred> {
    match (source, target) {
        (source, Endpoint::Directory(builder)) => {
            let mut source: Box<dyn Source> = match source {
                Endpoint::Server(url) => Box::new(Live::connect(&url, options)?),
                Endpoint::RdbFile(path) => Box::new(RdbFile::open(&path)?),
                Endpoint::Directory(_) => {
                    let text = "expected a server or a file to import from, found a directory";
                    return Err(Error::new(ErrorKind::InvalidArgument, text));
                }
            };
            let directory = Directory::open(*builder)?;
            let keeper = directory.keeper("import");
            let mut copy = Copy::new(source.as_mut(), Some(keeper), options);
            let done = copy.run(&mut directory.writer(), go_on);
            directory.close(done)
        }
        (Endpoint::Directory(builder), Endpoint::Server(url)) => {
            let directory = Directory::open_source(*builder)?;
            let done = directory.reader().and_then(|mut reader| {
                let mut target = Restoring::connect(&url, options)?;
                let keeper = directory.keeper("export");
                Copy::new(&mut reader, Some(keeper), options).run(&mut target, go_on)
            });
            directory.close(done)
        }
        (Endpoint::Server(from), Endpoint::Server(to)) => {
            let mut source = Live::connect(&from, options)?;
            let mut target = Restoring::connect(&to, options)?;
            Copy::new(&mut source, None, options).run(&mut target, go_on)
        }
        (Endpoint::RdbFile(path), Endpoint::Server(url)) => {
            let mut source = RdbFile::open(&path)?;
            let mut target = Restoring::connect(&url, options)?;
            Copy::new(&mut source, None, options).run(&mut target, go_on)
        }
        (_, Endpoint::RdbFile(_)) => Err(Error::new(
            ErrorKind::InvalidArgument,
            "expected a directory or a server to copy to, found a file",
        )),
    }
}

/// The place of a position: an entry of the keyspace `server`.
struct Keeper {
    keyspace: Keyspace,
    key: Vec<u8>,
}

/// A copy that runs.
struct Copy<'a> {
    source: &'a mut dyn Source,
    keeper: Option<Keeper>,
    options: &'a TransferOptions,
    identity: Json,
    done: Transferred,
}

impl<'a> Copy<'a> {
    fn new(
        source: &'a mut dyn Source,
        keeper: Option<Keeper>,
        options: &'a TransferOptions,
    ) -> Copy<'a> {
        Copy {
            source,
            keeper,
            options,
            identity: Json::Null,
            done: Transferred {
                keys: 0,
                keys_before: 0,
                libraries: 0,
            },
        }
    }

    fn run(
        &mut self,
        target: &mut dyn Target,
        go_on: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Transferred> {
        let slots = self
            .options
            .slots
            .as_ref()
            .map(|it| (*it.start(), *it.end()));
        self.identity = json!([self.source.identity(), target.identity(), slots]);
        self.resume(target)?;
        loop {
            let (parts, is_last) = self.chunk()?;
            target.put(&parts)?;
            for part in &parts {
                match part {
                    Part::Key(_) => self.done.keys += 1,
                    Part::Library(_) => self.done.libraries += 1,
                }
            }
            if is_last {
                self.forget()?;
                return Ok(self.done);
            }
            self.remember()?;
            let (done, total) = self.source.steps();
            let keys = self.done.keys;
            if !go_on(Progress { keys, done, total }) {
                let text = format!("after {keys} keys; the same command resumes there");
                return Err(Error::new(ErrorKind::Cancelled, text));
            }
        }
    }

    /// The next parts, and true if they are the last ones.
    fn chunk(&mut self) -> Result<(Vec<Part>, bool)> {
        let (mut parts, mut bytes) = (Vec::new(), 0);
        while bytes < CHUNK_BYTES && parts.len() < CHUNK_KEYS {
            let Some(part) = self.source.next()? else {
                return Ok((parts, true));
            };
            if let Part::Key(item) = &part {
                if !self.options.takes(&item.key) {
                    continue;
                }
                bytes += item.key.len() + item.value.bytes();
            }
            parts.push(part);
        }
        Ok((parts, false))
    }

    /// Goes to the position of an earlier run, if it was one of the same source and target.
    fn resume(&mut self, target: &mut dyn Target) -> Result<()> {
        let Some(keeper) = self.keeper.as_ref().filter(|_| !self.options.restarts) else {
            return Ok(());
        };
        let stored = keeper.keyspace.get(&keeper.key)?;
        let stored: Option<Json> = stored.and_then(|it| serde_json::from_slice(&it).ok());
        let Some(stored) = stored.filter(|it| it["of"] == self.identity) else {
            return Ok(());
        };
        let keys = stored["keys"].as_u64().unwrap_or(0);
        if keys > 0 && target.is_empty()? {
            return Ok(());
        }
        self.source.resume(&stored["at"])?;
        (self.done.keys, self.done.keys_before) = (keys, keys);
        Ok(())
    }

    fn remember(&self) -> Result<()> {
        let Some(keeper) = &self.keeper else {
            return Ok(());
        };
        let position = json!({
            "of": self.identity,
            "at": self.source.position(),
            "keys": self.done.keys,
        });
        keeper.keyspace.put(&keeper.key, position.to_string())
    }

    /// Removes the position: the next copy begins at the first key.
    fn forget(&self) -> Result<()> {
        match &self.keeper {
            Some(keeper) => keeper.keyspace.delete(&keeper.key),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
