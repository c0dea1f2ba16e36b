//! The target that is a server: RESTORE in pipelines.

use hedgerow::Result;
use serde_json::{Value as Json, json};

use super::client::{Answer, Client, databases, run_id};
use super::{Item, Part, Target, TransferOptions, Url};

/// The bytes of a pipeline.
const PIPELINE_BYTES: usize = 1 << 20;

/// See the module.
pub(super) struct Restoring {
    client: Client,
    identity: Json,
    /// The database that takes all keys, if the URL names one.
    only: Option<usize>,
    selected: Option<usize>,
    /// The server has a map of slots that does not count.
    asks: bool,
}

impl Restoring {
    pub(super) fn connect(url: &Url, options: &TransferOptions) -> Result<Restoring> {
        let mut client = Client::connect(url)?;
        let info = client.info("server")?;
        let asks = options.slots.is_some() && client.has_slots()?;
        Ok(Restoring {
            asks,
            // Another process may have lost what this one had.
            identity: json!([client.name(), run_id(&info)]),
            only: url.database,
            selected: None,
            client,
        })
    }

    /// Sends a part, and notes the words for each reply that will come.
    fn send(&mut self, part: &Part, asked: &mut Vec<String>) -> Result<usize> {
        let item = match part {
            Part::Key(item) => item,
            Part::Library(text) => {
                self.client
                    .request(&[b"FUNCTION", b"LOAD", b"REPLACE", text])?;
                asked.push("a library of functions".to_owned());
                return Ok(text.len());
            }
        };
        let db = self.only.unwrap_or(item.db);
        if self.selected != Some(db) {
            self.client
                .request(&[b"SELECT", db.to_string().as_bytes()])?;
            asked.push(format!("database {db}"));
            self.selected = Some(db);
        }
        if self.asks {
            self.client.request(&[b"ASKING"])?;
            asked.push("ASKING".to_owned());
        }
        let payload = item.value.encode();
        let Item { key, expires, .. } = item;
        let expires = expires.to_string();
        self.client.request(&[
            b"RESTORE",
            key,
            expires.as_bytes(),
            &payload,
            b"REPLACE",
            b"ABSTTL",
        ])?;
        asked.push(format!(
            "the key `{}` of database {}",
            key.escape_ascii(),
            item.db
        ));
        Ok(payload.len())
    }

    /// Waits for the replies to what was asked.
    fn receive(&mut self, asked: &mut Vec<String>) -> Result<()> {
        for what in asked.drain(..) {
            match self.client.reply()? {
                Answer::Error(text) => return Err(self.client.refused(&what, &text)),
                Answer::Bytes(_) => {}
                other => return Err(self.client.unexpected(&what, &other)),
            }
        }
        Ok(())
    }
}

impl Target for Restoring {
    fn identity(&self) -> Json {
        self.identity.clone()
    }

    fn put(&mut self, parts: &[Part]) -> Result<()> {
        let (mut asked, mut bytes) = (Vec::new(), 0);
        for part in parts {
            bytes += self.send(part, &mut asked)?;
            if bytes >= PIPELINE_BYTES {
                self.receive(&mut asked)?;
                bytes = 0;
            }
        }
        self.receive(&mut asked)
    }

    fn is_empty(&mut self) -> Result<bool> {
        Ok(databases(&self.client.info("keyspace")?).is_empty())
    }
}
