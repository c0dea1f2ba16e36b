//! The map from a key to its server: a static map of slots, which is a file.
//!
//! Whoever runs the servers writes the same file for each of them, and has it read again by SIGHUP
//! or CLUSTER LOAD. Servers do not talk to each other about it. A slot is at one server as a whole,
//! so there is no ASK: a client that asks another one is sent on with MOVED.
//!
//! Cost: without a map, a test of an option for each command; with one, a CRC of each key.

mod map;
mod slot;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, Guard};

use crate::client::lock;
use crate::commands::{Args, Command, Keys, READ, WRITE};
pub(crate) use map::{Map, Node};
pub(crate) use slot::{SLOTS, slot};

/// The error of commands about slots on a server without a map.
pub(crate) const DISABLED: &str = "ERR This instance has cluster support disabled";
const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// See the module.
pub(crate) struct Cluster {
    file: PathBuf,
    /// The name of this server in the map.
    name: String,
    map: ArcSwap<Map>,
    /// The reason why the file could not be read the last time.
    failure: Mutex<Option<String>>,
}

/// The wishes of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Access {
    /// Reads at a replica may be old: READONLY.
    pub(crate) reads_replicas: bool,
    /// The next command is run here, whatever the map says: ASKING.
    pub(crate) insists: bool,
}

impl Cluster {
    /// Reads the map.
    pub(crate) fn open(file: &Path, name: &str) -> Result<Cluster, String> {
        Ok(Cluster {
            map: ArcSwap::from_pointee(read(file, name)?),
            file: file.to_owned(),
            name: name.to_owned(),
            failure: Mutex::new(None),
        })
    }

    pub(crate) fn map(&self) -> Guard<Arc<Map>> {
        self.map.load()
    }

    /// Reads the map again. The old one stays if that fails.
    pub(crate) fn load(&self) -> Result<(), String> {
        let read = read(&self.file, &self.name);
        *lock(&self.failure) = read.as_ref().err().cloned();
        self.map.store(Arc::new(read?));
        Ok(())
    }

    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    /// Checks that a command may run here. Returns the error if it may not.
    pub(crate) fn check(
        &self,
        mut access: Access,
        command: &Command,
        args: Args<'_>,
    ) -> Result<(), String> {
        refuse_databases(command, args)?;
        let mut reads = command.has(READ) && !command.has(WRITE);
        if let Keys::Channels(_) = command.keys {
            // Replicas have them, too.
            (access.reads_replicas, reads) = (true, true);
        }
        self.check_keys(access, reads, &command.keys.with_slots(args))
    }

    /// Checks that keys are of one slot, and that it is here.
    pub(crate) fn check_keys(
        &self,
        access: Access,
        reads: bool,
        keys: &[&[u8]],
    ) -> Result<(), String> {
        let mut slots = keys.iter().map(|key| slot(key));
        let Some(first) = slots.next() else {
            return Ok(());
        };
        if slots.any(|it| it != first) {
            return Err(CROSS_SLOT.to_owned());
        }
        if access.insists {
            return Ok(());
        }
        self.map().route(first, reads && access.reads_replicas)
    }

    /// Checks the keys of a call of a script.
    #[cfg(feature = "lua")]
    pub(crate) fn check_script(&self, command: &Command, args: Args<'_>) -> Result<(), String> {
        refuse_databases(command, args)?;
        let map = self.map();
        let is_away = |key: &&[u8]| map.route(slot(key), true).is_err();
        match command.keys.of(args).iter().any(is_away) {
            true => Err("ERR Script attempted to access a non local key in a cluster node".into()),
            false => Ok(()),
        }
    }
}

fn read(file: &Path, name: &str) -> Result<Map, String> {
    #[allow(clippy::disallowed_methods, reason = "a file of the operator")]
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    Map::parse(&text, name).map_err(|text| format!("{}: {text}", file.display()))
}

/// Refuses what has no slot: another database than 0, and keys that are named by patterns.
fn refuse_databases(command: &Command, args: Args<'_>) -> Result<(), String> {
    let follows = |word: &str, is_wrong: fn(&[u8]) -> bool| {
        let is_option = |pair: &&[&[u8]]| pair[0].eq_ignore_ascii_case(word.as_bytes());
        let mut pairs = args.windows(2).skip(1);
        pairs.any(|pair| is_option(&pair) && is_wrong(pair[1]))
    };
    let is_refused = match command.name {
        "select" => args[1] != b"0",
        "move" | "swapdb" => true,
        "copy" if follows("DB", |it| it != b"0") => {
            return Err("ERR Copying to another database is not allowed in cluster mode".into());
        }
        "sort" | "sort_ro" => {
            for (word, is_wrong) in [
                ("BY", (|it| it.contains(&b'*')) as fn(&[u8]) -> bool),
                ("GET", |it| it != b"#"),
            ] {
                if follows(word, is_wrong) {
                    return Err(format!("ERR {word} option of SORT denied in cluster mode."));
                }
            }
            false
        }
        _ => false,
    };
    match is_refused {
        true => Err(format!(
            "ERR {} is not allowed in cluster mode",
            command.name.to_uppercase()
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
