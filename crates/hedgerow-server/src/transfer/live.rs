//! The source that is a server: SCAN for the keys, DUMP and PTTL in pipelines for the values.
//!
//! A cursor of SCAN means something to the process that gave it. If another one answers, the
//! database begins again.

use std::collections::VecDeque;

use hedgerow::{Error, ErrorKind, Result};
use serde_json::{Value as Json, json};

use super::client::{Answer, Client, databases, run_id};
use super::directory::database;
use super::{Item, Part, Source, TransferOptions, Url};
use crate::clock;
use crate::rdb::{Damage, Value};

/// The keys that SCAN is asked for.
const PAGE_KEYS: &[u8] = b"1000";
/// The most keys of a pipeline, and the most bytes: a server that writes replies may read no more
/// requests meanwhile.
const PIPELINE_KEYS: usize = 64;
const PIPELINE_BYTES: usize = 64 << 10;
const BEGIN: &[u8] = b"0";

/// See the module.
pub(super) struct Live {
    client: Client,
    identity: Json,
    run_id: Option<String>,
    options: TransferOptions,
    /// The server has a map of slots that does not count.
    asks: bool,
    /// The databases that are left, the present one in front.
    databases: VecDeque<usize>,
    keys_total: u64,
    keys_done: u64,
    /// The database is selected.
    selected: bool,
    /// The cursor of the page that is read, and that of the next one.
    cursor: Vec<u8>,
    next_cursor: Vec<u8>,
    /// The keys of the page whose values were not read.
    keys: VecDeque<Vec<u8>>,
    /// Parts that were read.
    parts: VecDeque<Part>,
}

impl Live {
    pub(super) fn connect(url: &Url, options: &TransferOptions) -> Result<Live> {
        let mut client = Client::connect(url)?;
        let info = client.info("server")?;
        let run_id = run_id(&info).map(str::to_owned);
        let mut found = databases(&client.info("keyspace")?);
        found.retain(|(db, _)| url.database.is_none_or(|it| it == *db));
        for (db, _) in &found {
            database(*db as u64)?;
        }
        let asks = options.slots.is_some() && client.has_slots()?;
        let mut live = Live {
            options: options.clone(),
            asks,
            identity: json!(client.name()),
            run_id,
            databases: found.iter().map(|it| it.0).collect(),
            keys_total: found.iter().map(|it| it.1).sum(),
            keys_done: 0,
            selected: false,
            cursor: BEGIN.to_vec(),
            next_cursor: BEGIN.to_vec(),
            keys: VecDeque::new(),
            parts: VecDeque::new(),
            client,
        };
        live.read_libraries()?;
        Ok(live)
    }

    /// Reads all libraries of functions, which are few.
    fn read_libraries(&mut self) -> Result<()> {
        self.client.request(&[b"FUNCTION", b"LIST", b"WITHCODE"])?;
        match self.client.reply()? {
            Answer::Array(libraries) => {
                for library in libraries {
                    let text = code(&library)
                        .ok_or_else(|| self.client.unexpected("FUNCTION LIST", &library))?;
                    self.parts.push_back(Part::Library(text.to_vec()));
                }
                Ok(())
            }
            // Before version 7 there were none.
            Answer::Error(text) if text.to_lowercase().contains("unknown command") => Ok(()),
            // This server without Lua.
            Answer::Error(text) if text.contains("is refused") => Ok(()),
            Answer::Error(text) => Err(self.client.refused("FUNCTION LIST", &text)),
            other => Err(self.client.unexpected("FUNCTION LIST", &other)),
        }
    }

    /// Reads the keys of the next page, maybe none. Returns false if there is no page.
    fn read_page(&mut self) -> Result<bool> {
        if self.selected && self.next_cursor == BEGIN {
            self.databases.pop_front();
            self.selected = false;
            self.cursor = BEGIN.to_vec();
        } else {
            self.cursor.clone_from(&self.next_cursor);
        }
        let Some(db) = self.databases.front() else {
            return Ok(false);
        };
        if !self.selected {
            self.client.call(&[b"SELECT", db.to_string().as_bytes()])?;
            self.selected = true;
        }
        let answer = self
            .client
            .call(&[b"SCAN", &self.cursor, b"COUNT", PAGE_KEYS])?;
        let page = match &answer {
            Answer::Array(parts) => match &parts[..] {
                [Answer::Bytes(cursor), Answer::Array(keys)] => Some((cursor, keys)),
                _ => None,
            },
            _ => None,
        };
        let (cursor, keys) = page.ok_or_else(|| self.client.unexpected("SCAN", &answer))?;
        for key in keys {
            match key {
                Answer::Bytes(key) if !self.options.takes(key) => {}
                Answer::Bytes(key) => self.keys.push_back(key.clone()),
                other => return Err(self.client.unexpected("SCAN", other)),
            }
        }
        self.next_cursor.clone_from(cursor);
        Ok(true)
    }

    /// The next reply behind that of ASKING.
    fn reply(&mut self) -> Result<Answer> {
        if self.asks {
            self.client.reply()?;
        }
        self.client.reply()
    }

    /// Reads the values of some keys of the page.
    fn read_values(&mut self) -> Result<()> {
        let (mut asked, mut bytes) = (Vec::new(), 0);
        while asked.len() < PIPELINE_KEYS && bytes < PIPELINE_BYTES {
            let Some(key) = self.keys.pop_front() else {
                break;
            };
            for command in [&b"DUMP"[..], b"PTTL"] {
                if self.asks {
                    self.client.request(&[b"ASKING"])?;
                }
                self.client.request(&[command, &key])?;
            }
            bytes += 2 * key.len();
            asked.push(key);
        }
        let db = self.databases.front().copied().unwrap_or(0);
        for key in asked {
            let (payload, ttl) = (self.reply()?, self.reply()?);
            self.keys_done += 1;
            let shown = || format!("the key `{}` of database {db}", key.escape_ascii());
            let expires = match ttl {
                Answer::Integer(-1) => 0,
                Answer::Integer(ttl @ 0..) => clock::unix_millis() + ttl as u64,
                // It has gone meanwhile.
                Answer::Integer(_) => continue,
                Answer::Error(text) => return Err(self.client.refused(&shown(), &text)),
                other => return Err(self.client.unexpected(&shown(), &other)),
            };
            let value = match payload {
                Answer::Bytes(payload) => {
                    Value::decode_copied(&payload).map_err(|damage| unreadable(&shown(), damage))?
                }
                Answer::Null => continue,
                Answer::Error(text) => return Err(self.client.refused(&shown(), &text)),
                other => return Err(self.client.unexpected(&shown(), &other)),
            };
            self.parts.push_back(Part::Key(Item {
                db,
                key,
                expires,
                value,
            }));
        }
        Ok(())
    }
}

/// The text of a library in a reply of FUNCTION LIST.
fn code(library: &Answer) -> Option<&[u8]> {
    let Answer::Array(facts) = library else {
        return None;
    };
    let mut pairs = facts.chunks_exact(2);
    pairs.find_map(|pair| match pair {
        [Answer::Bytes(name), Answer::Bytes(text)] if name == b"library_code" => Some(&text[..]),
        _ => None,
    })
}

fn unreadable(what: &str, damage: Damage) -> Error {
    let (kind, why) = match damage {
        Damage::Type(kind) => (ErrorKind::Unsupported, format!("the unknown type {kind}")),
        Damage::Size => (ErrorKind::Unsupported, "more than 2 GiB".to_owned()),
        Damage::Footer => {
            let text = "another version of the encoding, or a wrong checksum".to_owned();
            (ErrorKind::Unsupported, text)
        }
        Damage::Value | Damage::End => (ErrorKind::Corruption, "a damaged value".to_owned()),
    };
    Error::new(kind, format!("expected a value at {what}, found {why}"))
}

impl Source for Live {
    fn identity(&self) -> Json {
        self.identity.clone()
    }

    fn resume(&mut self, position: &Json) -> Result<()> {
        let Some(db) = position["db"].as_u64() else {
            return Ok(());
        };
        self.databases.retain(|it| *it as u64 >= db);
        let is_same = self.databases.front().is_some_and(|it| *it as u64 == db)
            && self.run_id.is_some()
            && position["run_id"].as_str() == self.run_id.as_deref();
        if let (true, Some(cursor)) = (is_same, position["cursor"].as_str()) {
            self.next_cursor = cursor.as_bytes().to_vec();
            self.cursor.clone_from(&self.next_cursor);
        }
        self.keys_done = position["done"].as_u64().unwrap_or(0);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Part>> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Ok(Some(part));
            }
            if !self.keys.is_empty() {
                self.read_values()?;
            } else if !self.read_page()? {
                return Ok(None);
            }
        }
    }

    fn position(&self) -> Json {
        let is_read = self.keys.is_empty() && self.parts.is_empty();
        let (mut db, mut cursor) = (self.databases.front().copied(), &self.cursor);
        if is_read {
            cursor = &self.next_cursor;
            if self.selected && cursor == BEGIN {
                db = self.databases.get(1).copied();
            }
        }
        json!({
            // Behind all databases.
            "db": db.unwrap_or(usize::MAX),
            "cursor": String::from_utf8_lossy(cursor),
            "run_id": self.run_id,
            "done": self.keys_done,
        })
    }

    fn steps(&self) -> (u64, u64) {
        (self.keys_done, self.keys_total)
    }
}
