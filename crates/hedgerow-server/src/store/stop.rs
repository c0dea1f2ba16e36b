//! A command stops without a reply: for an error, or for what must happen before it runs again.

use hedgerow::ErrorKind;

/// The reasons why a command has no reply yet, or an error.
#[derive(Debug)]
pub(crate) enum Stop {
    /// An error of the caller.
    Reply(String),
    /// An error of the engine.
    Engine(hedgerow::Error),
    /// Keys must be read from the device first.
    Read,
    /// The command walks over many elements, or over some that are not in memory, so it has to run
    /// where waiting is allowed.
    Device,
    /// The command reads several entries, so it needs a snapshot.
    Snapshot,
    /// The database must be made first.
    Database(usize),
    /// The command touches keys that it has not named, so it has to hold all.
    #[cfg_attr(
        not(feature = "lua"),
        expect(dead_code, reason = "only scripts make it")
    )]
    AllKeys,
}

impl From<hedgerow::Error> for Stop {
    fn from(error: hedgerow::Error) -> Stop {
        match error.kind() {
            // A scan that may not read has come to a page that is not in memory.
            ErrorKind::WouldBlock => Stop::Device,
            _ => Stop::Engine(error),
        }
    }
}

impl Stop {
    pub(crate) fn reply(text: impl Into<String>) -> Stop {
        Stop::Reply(text.into())
    }

    pub(crate) fn wrong_type() -> Stop {
        Stop::reply("WRONGTYPE Operation against a key holding the wrong kind of value")
    }

    pub(crate) fn syntax() -> Stop {
        Stop::reply("ERR syntax error")
    }

    pub(crate) fn not_an_integer() -> Stop {
        Stop::reply("ERR value is not an integer or out of range")
    }

    pub(crate) fn not_a_float() -> Stop {
        Stop::reply("ERR value is not a valid float")
    }

    pub(crate) fn damaged() -> Stop {
        Stop::reply(
            "ERR expected an entry of this server, found other bytes: the database is damaged",
        )
    }
}
