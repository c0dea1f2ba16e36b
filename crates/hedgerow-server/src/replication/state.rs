//! The place of a server in the history of its data, as it is stored. Pure.
//!
//! A history has an id of 40 digits and *offsets*, which grow with every commit. All servers of a
//! history have the same data at an offset. A primary counts its commits by the numbers of its
//! engine; a replica has other numbers, and stores the offset with every commit that it applies.
//! *Eras* say which of both holds from which number of the own engine on.
//!
//! ```text
//! own numbers   0 ........ 1000 ........... 1400 ........ 1600
//! era           own        follows          own
//! offsets       0 ........ 1000 stored .... 5210 ........ 5410
//! ```
//!
//! A promotion begins a new history, which has the earlier one up to an offset. So does a primary
//! that begins: its data may be an older copy, which a replica is ahead of.

use std::fmt::Write;

use hedgerow::{Error, ErrorKind, Result};

/// The eras, and the earlier histories, that are remembered. A replica that needs an older one
/// copies the whole database.
const REMEMBERED_MAX: usize = 64;

/// A part of the server's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Era {
    /// It begins behind this number of the engine.
    pub(crate) number: u64,
    /// The offset there.
    pub(crate) offset: u64,
    /// Offsets are those that were stored with commits.
    pub(crate) follows: bool,
}

/// The address of a primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Primary {
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// The id of the history.
    pub(crate) id: String,
    /// The ids of earlier histories, oldest first, and the offset up to which each is the same.
    pub(crate) earlier: Vec<(String, u64)>,
    /// Oldest first, one at least.
    pub(crate) eras: Vec<Era>,
    /// The server that this one follows.
    pub(crate) primary: Option<Primary>,
    /// The primary that the options named when it was last begun with other ones.
    pub(crate) configured: Option<Primary>,
}

/// A new id.
pub(crate) fn new_id() -> String {
    let digits = (0..40).map(|_| char::from_digit(fastrand::u32(..16), 16));
    digits.flatten().collect()
}

/// The era of a commit with this number.
pub(crate) fn era_of(eras: &[Era], number: u64) -> Option<&Era> {
    eras.iter().rev().find(|era| era.number < number)
}

impl Primary {
    pub(crate) fn parse(text: &str) -> Option<Primary> {
        let (host, port) = text.rsplit_once([':', ' '])?;
        let is_host = !host.is_empty() && !host.contains(char::is_whitespace);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        is_host.then(|| Primary {
            host: host.to_owned(),
            port,
        })
    }
}

impl std::fmt::Display for Primary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.host, self.port)
    }
}

impl State {
    /// The state of a database that never was a replica and had none.
    pub(crate) fn new() -> State {
        State {
            id: new_id(),
            earlier: Vec::new(),
            eras: vec![Era {
                number: 0,
                offset: 0,
                follows: false,
            }],
            primary: None,
            configured: None,
        }
    }

    /// The offset at a number of the engine, while the server is a primary.
    pub(crate) fn offset_at(&self, number: u64) -> Option<u64> {
        let era = self.eras.last().filter(|era| !era.follows)?;
        Some(era.offset + number.saturating_sub(era.number))
    }

    /// Returns true if this history has all of that one up to this offset, or will have it.
    pub(crate) fn shares(&self, id: &str, offset: u64) -> bool {
        let mut earlier = self.earlier.iter();
        self.id == id || earlier.any(|it| it.0 == id && offset <= it.1)
    }

    /// The id of the oldest earlier history that is the same up to this offset, if there is one.
    pub(crate) fn oldest_at(&self, offset: u64) -> Option<&str> {
        let mut earlier = self.earlier.iter();
        let oldest = earlier.find(|it| offset <= it.1);
        oldest.map(|it| it.0.as_str())
    }

    /// Forgets all histories and eras: nobody is known to have the same data, and the engine may
    /// give numbers again.
    pub(crate) fn forget(&mut self) {
        let follows = self.primary.is_some();
        *self = State {
            primary: self.primary.take(),
            configured: self.configured.take(),
            ..State::new()
        };
        self.eras[0].follows = follows;
    }

    /// Begins to follow a primary. The server has everything up to `offset`, and its engine that
    /// number.
    pub(crate) fn follow(&mut self, primary: Primary, (number, offset): (u64, u64)) {
        if self.primary.is_none() {
            self.begin_era(Era {
                number,
                offset,
                follows: true,
            });
        }
        self.primary = Some(primary);
    }

    /// A new history begins at the offset, in which the server is a primary.
    pub(crate) fn lead(&mut self, (number, offset): (u64, u64)) {
        self.begin_history(new_id(), offset);
        self.primary = None;
        self.begin_era(Era {
            number,
            offset,
            follows: false,
        });
    }

    /// Continues in the history of the primary, of which everything up to `offset` is here.
    pub(crate) fn continue_in(&mut self, id: &str, offset: u64) {
        if self.id != id {
            self.begin_history(id.to_owned(), offset);
        }
    }

    fn begin_history(&mut self, id: String, offset: u64) {
        let before = std::mem::replace(&mut self.id, id);
        // It may come back to a history that it has left.
        self.earlier.retain(|it| it.0 != self.id);
        self.earlier.push((before, offset));
        let surplus = self.earlier.len().saturating_sub(REMEMBERED_MAX);
        self.earlier.drain(..surplus);
    }

    fn begin_era(&mut self, era: Era) {
        self.eras.push(era);
        let surplus = self.eras.len().saturating_sub(REMEMBERED_MAX);
        self.eras.drain(..surplus);
    }

    /// Lines of words.
    pub(crate) fn encode(&self) -> String {
        let mut text = format!("id {}\n", self.id);
        // Writing to a string cannot fail.
        for (id, offset) in &self.earlier {
            let _ = writeln!(text, "earlier {id} {offset}");
        }
        for era in &self.eras {
            let kind = if era.follows { "follows" } else { "own" };
            let _ = writeln!(text, "era {kind} {} {}", era.number, era.offset);
        }
        for (word, primary) in [("primary", &self.primary), ("configured", &self.configured)] {
            if let Some(primary) = primary {
                let _ = writeln!(text, "{word} {primary}");
            }
        }
        text
    }

    /// # Errors
    /// `Corruption`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<State> {
        let damaged = |line: &str| {
            let message = format!("expected a line of the state of replication, found `{line}`");
            Error::new(ErrorKind::Corruption, message)
        };
        let mut state = State {
            id: String::new(),
            eras: Vec::new(),
            ..State::new()
        };
        for line in String::from_utf8_lossy(bytes).lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |word: &str| word.parse::<u64>().map_err(|_| damaged(line));
            match words[..] {
                ["id", id] => state.id = id.to_owned(),
                ["earlier", id, offset] => state.earlier.push((id.to_owned(), number(offset)?)),
                ["era", kind @ ("own" | "follows"), at, offset] => state.eras.push(Era {
                    number: number(at)?,
                    offset: number(offset)?,
                    follows: kind == "follows",
                }),
                ["primary", host, port] | ["configured", host, port] => {
                    let address = format!("{host} {port}");
                    let address = Primary::parse(&address).ok_or_else(|| damaged(line))?;
                    match words[0] {
                        "primary" => state.primary = Some(address),
                        _ => state.configured = Some(address),
                    }
                }
                _ => return Err(damaged(line)),
            }
        }
        if state.id.len() != 40 || state.eras.is_empty() {
            return Err(damaged("its end"));
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primary() -> Primary {
        Primary::parse("10.0.0.1:6379").unwrap()
    }

    #[test]
    fn an_offset_goes_on_through_changes_of_the_role() {
        let mut state = State::new();
        assert_eq!(state.offset_at(1_000), Some(1_000));
        let first = state.id.clone();
        state.follow(primary(), (1_000, 1_000));
        assert_eq!(state.offset_at(1_100), None);
        state.continue_in(&"b".repeat(40), 1_000);
        state.lead((1_400, 5_210));
        assert_eq!(state.offset_at(1_600), Some(5_410));
        let second = "b".repeat(40);
        assert_eq!(
            state.earlier,
            [(first.clone(), 1_000), (second.clone(), 5_210)]
        );
        assert!(state.shares(&second, 5_210) && !state.shares(&second, 5_211));
        assert!(state.shares(&first, 1_000) && !state.shares(&first, 1_001));
        assert!(state.shares(&state.id, u64::MAX));
        let oldest = |offset| state.oldest_at(offset);
        assert_eq!(oldest(1_000), Some(first.as_str()));
        assert_eq!(oldest(5_210), Some(second.as_str()));
        assert_eq!(oldest(5_211), None);
        let era = |number| era_of(&state.eras, number).map(|era| era.number);
        assert_eq!(
            [era(1_000), era(1_001), era(1_401)],
            [Some(0), Some(1_000), Some(1_400)]
        );
    }

    #[test]
    fn a_history_that_was_left_is_not_an_earlier_one_behind_a_return() {
        let mut state = State::new();
        let (first, other) = (state.id.clone(), "b".repeat(40));
        state.continue_in(&other, 500);
        state.continue_in(&first, 600);
        assert_eq!(state.earlier, [(other, 600)]);
        state.follow(primary(), (700, 700));
        state.forget();
        assert!(!state.shares(&first, 0) && state.earlier.is_empty());
        assert_eq!((state.primary, state.eras.len()), (Some(primary()), 1));
        assert!(state.eras[0].follows && state.eras[0].number == 0);
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let mut state = State::new();
        state.follow(primary(), (5, 5));
        state.lead((9, 7));
        state.configured = Primary::parse("::1 7000");
        assert_eq!(state.configured.as_ref().unwrap().host, "::1");
        assert_eq!(State::decode(state.encode().as_bytes()).unwrap(), state);
        for damaged in [
            "",
            "id x",
            "era own 1 2",
            "primary a",
            "other 1",
            "era own 1 x",
        ] {
            State::decode(damaged.as_bytes()).unwrap_err();
        }
        for _ in 0..100 {
            state.follow(primary(), (9, 7));
            state.lead((9, 7));
        }
        assert_eq!(state.eras.len(), REMEMBERED_MAX);
        assert_eq!(state.earlier.len(), REMEMBERED_MAX);
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for wrong in ["", "a", "a:", ":1", "a:0", "a:70000", "a b:1"] {
            assert_eq!(Primary::parse(wrong), None, "{wrong}");
        }
    }
}
