//! CLIENT TRACKING and what belongs to it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::Args;
use super::arguments::is;
use crate::number;
use crate::resp::{Reply, error};
use crate::session::{Session, Tracked};
use crate::tracking::{Mode, Options};

/// The options as they were given.
#[derive(Default)]
struct Given {
    redirect: Option<u64>,
    broadcasts: bool,
    opts_in: bool,
    opts_out: bool,
    no_loop: bool,
    prefixes: Vec<Vec<u8>>,
}

impl Given {
    fn parse(session: &Session, mut rest: Args<'_>) -> Result<Given, String> {
        let mut given = Given::default();
        loop {
            rest = match rest {
                [] => return Ok(given),
                [word, id, behind @ ..] if is(word, "REDIRECT") => {
                    if given.redirect.is_some() {
                        return Err(
                            "ERR A client can only redirect to a single other client".into()
                        );
                    }
                    let id = number::integer(id).and_then(|it| u64::try_from(it).ok());
                    let id = id.filter(|it| session.server.clients.find(*it).is_some());
                    let missing = "ERR The client ID you want redirect to does not exist";
                    given.redirect = Some(id.ok_or(missing)?);
                    behind
                }
                [word, prefix, behind @ ..] if is(word, "PREFIX") => {
                    given.prefixes.push(prefix.to_vec());
                    behind
                }
                [word, behind @ ..] => {
                    let option = match word {
                        it if is(it, "BCAST") => &mut given.broadcasts,
                        it if is(it, "OPTIN") => &mut given.opts_in,
                        it if is(it, "OPTOUT") => &mut given.opts_out,
                        it if is(it, "NOLOOP") => &mut given.no_loop,
                        _ => return Err("ERR syntax error".into()),
                    };
                    *option = true;
                    behind
                }
            };
        }
    }

    /// The options, if they go together and with those of before.
    fn check(self, old: Option<&Options>) -> Result<Options, String> {
        let mode = match (self.broadcasts, self.opts_in, self.opts_out) {
            (false, false, false) => Mode::Reads,
            (false, true, false) => Mode::OptIn,
            (false, false, true) => Mode::OptOut,
            (false, true, true) => {
                return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
            }
            (true, false, false) => Mode::Broadcast,
            (true, _, _) => {
                return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
            }
        };
        let changes = |between: [Mode; 2]| {
            old.is_some_and(|old| {
                old.mode != mode && between.contains(&old.mode) && between.contains(&mode)
            })
        };
        if old.is_some_and(|old| (old.mode == Mode::Broadcast) != self.broadcasts) {
            return Err(switch("BCAST mode on/off"));
        }
        if changes([Mode::OptIn, Mode::OptOut]) {
            return Err(switch("OPTIN/OPTOUT mode"));
        }
        if !self.broadcasts && !self.prefixes.is_empty() {
            return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
        }
        let mut prefixes = old.map(|it| it.prefixes.clone()).unwrap_or_default();
        add_prefixes(&mut prefixes, self.prefixes)?;
        if self.broadcasts && prefixes.is_empty() {
            prefixes.insert(Vec::new());
        }
        Ok(Options {
            mode,
            redirect: self.redirect.unwrap_or(0),
            no_loop: self.no_loop,
            prefixes,
        })
    }
}

fn switch(what: &str) -> String {
    format!(
        "ERR You can't switch {what} before disabling tracking for this client, and then \
         re-enabling it with a different mode."
    )
}

/// Adds prefixes of which none is the beginning of another.
fn add_prefixes(to: &mut BTreeSet<Vec<u8>>, new: Vec<Vec<u8>>) -> Result<(), String> {
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    for (place, prefix) in new.iter().enumerate() {
        let existing = to.iter().map(|it| (it, "an existing prefix"));
        let provided = new[place + 1..].iter();
        let provided = provided.map(|it| (it, "another provided prefix"));
        let mut others = existing.chain(provided);
        if let Some((other, kind)) = others.find(|it| overlap(prefix, it.0)) {
            return Err(format!(
                "ERR Prefix '{}' overlaps with {kind} '{}'. Prefixes for a single client must not \
                 overlap.",
                prefix.escape_ascii(),
                other.escape_ascii(),
            ));
        }
    }
    to.extend(new);
    Ok(())
}

pub(super) fn tracking(session: &mut Session, args: Args<'_>) -> Reply {
    let given = match Given::parse(session, &args[3..]) {
        Ok(given) => given,
        Err(text) => return error(text),
    };
    match args[2] {
        it if is(it, "OFF") => {
            session.end_tracking();
            Reply::OK
        }
        it if is(it, "ON") => match given.check(session.tracked.as_ref().map(|it| &it.options)) {
            Ok(options) => {
                session.track(options);
                Reply::OK
            }
            Err(text) => error(text),
        },
        _ => error("ERR syntax error"),
    }
}

/// CLIENT CACHING: about the next command, or the next transaction.
pub(super) fn caching(session: &mut Session, args: Args<'_>) -> Reply {
    let mode = session.tracked.as_ref().map(|it| it.options.mode);
    let (wanted, word, opt) = match args[2] {
        it if is(it, "YES") => (Mode::OptIn, "YES", "OPTIN"),
        it if is(it, "NO") => (Mode::OptOut, "NO", "OPTOUT"),
        _ => return error("ERR syntax error"),
    };
    match mode {
        Some(mode) if mode == wanted => {
            session.set_caching(true);
            Reply::OK
        }
        Some(Mode::OptIn | Mode::OptOut) => error(format!(
            "ERR CLIENT CACHING {word} is only valid when tracking is enabled in {opt} mode."
        )),
        _ => error(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN \
             or OPTOUT mode enabled",
        ),
    }
}

pub(super) fn tracking_info(session: &Session) -> Reply {
    let mut flags = Vec::new();
    match &session.tracked {
        None => flags.push("off"),
        Some(tracked) => {
            let Tracked {
                options, caching, ..
            } = tracked;
            flags.push("on");
            let by_mode: &[&str] = match (options.mode, *caching) {
                (Mode::Reads, _) => &[],
                (Mode::Broadcast, _) => &["bcast"],
                (Mode::OptIn, false) => &["optin"],
                (Mode::OptIn, true) => &["optin", "caching-yes"],
                (Mode::OptOut, false) => &["optout"],
                (Mode::OptOut, true) => &["optout", "caching-no"],
            };
            flags.extend(by_mode);
            let is_broken = session.client.is_redirect_broken.load(Ordering::Relaxed);
            let more = [(options.no_loop, "noloop"), (is_broken, "broken_redirect")];
            flags.extend(more.iter().filter(|it| it.0).map(|it| it.1));
        }
    }
    let prefixes = session.tracked.iter().flat_map(|it| &it.options.prefixes);
    let flags = flags.iter().map(Reply::bulk).collect();
    Reply::Map(vec![
        (Reply::bulk("flags"), Reply::Set(flags)),
        (Reply::bulk("redirect"), redirection(session)),
        (Reply::bulk("prefixes"), Reply::bulks(prefixes)),
    ])
}

/// The client that gets the messages: 0 for the client itself, −1 for none.
pub(super) fn redirection(session: &Session) -> Reply {
    let redirect = session.tracked.as_ref().map(|it| it.options.redirect);
    Reply::Integer(redirect.map_or(-1, |it| it as i64))
}
