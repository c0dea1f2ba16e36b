//! Commands about the connection itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Args;
use super::arguments::is;
use super::status::is_without_effect;
use super::tracking;
use super::users::log_in;
use crate::client::{Client, lock};
use crate::number;
use crate::resp::{Reply, error};
use crate::session::{Replies, Session};

/// The bytes of a name that a client gives itself. CLIENT LIST shows those of all.
const NAME_BYTES_MAX: usize = 64 << 10;

pub(super) fn ping(session: &mut Session, args: Args<'_>) -> Reply {
    match args {
        [_] if session.is_subscribed() && !session.resp3 => Reply::bulks(["pong", ""]),
        [_, message] if session.is_subscribed() && !session.resp3 => {
            Reply::bulks([b"pong", *message])
        }
        [_] => Reply::Status("PONG"),
        [_, message] => Reply::bulk(message),
        _ => error("ERR wrong number of arguments for 'ping' command"),
    }
}

pub(super) fn echo(_session: &mut Session, args: Args<'_>) -> Reply {
    Reply::bulk(args[1])
}

pub(super) fn quit(session: &mut Session, _args: Args<'_>) -> Reply {
    session.ends = true;
    // Others are to see that the client is gone when it has the reply.
    session.reset();
    session.server.clients.remove(&session.client);
    Reply::OK
}

pub(super) fn reset(session: &mut Session, _args: Args<'_>) -> Reply {
    session.reset();
    session.select(0);
    session.set_resp3(false);
    session.replies = Replies::On;
    session.access = Default::default();
    let (user, is_open) = session.server.acl.first();
    session.set_user(user, is_open);
    lock(&session.client.names).name.clear();
    Reply::Status("RESET")
}

pub(super) fn hello(session: &mut Session, args: Args<'_>) -> Reply {
    let version = match args.get(1).map(|it| number::integer(it)) {
        None => None,
        Some(Some(version @ 2..=3)) => Some(version),
        Some(Some(_)) => return error("NOPROTO unsupported protocol version"),
        Some(None) => return error("ERR Protocol version is not an integer or out of range"),
    };
    let (mut rest, mut name) = (args.get(2..).unwrap_or_default(), None);
    loop {
        rest = match rest {
            [] => break,
            [word, user, password, behind @ ..] if is(word, "AUTH") => {
                if let Err(reply) = log_in(session, (b"AUTH", user, password)) {
                    return reply;
                }
                behind
            }
            [word, given, behind @ ..] if is(word, "SETNAME") => {
                name = Some(*given);
                behind
            }
            [word, ..] => {
                let word = word.escape_ascii();
                return error(format!("ERR Syntax error in HELLO option '{word}'"));
            }
        };
    }
    if !session.is_authenticated {
        return error(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        );
    }
    if let Some(name) = name {
        if let Err(reply) = check_name(name, CLIENT_NAMES) {
            return reply;
        }
        lock(&session.client.names).name = String::from_utf8_lossy(name).into_owned();
    }
    if let Some(version) = version {
        session.set_resp3(version == 3);
    }
    let proto = if session.resp3 { 3 } else { 2 };
    let role = match session.server.replication.is_replica() {
        true => "replica",
        false => "master",
    };
    let fact = |name: &str, value: Reply| (Reply::bulk(name), value);
    Reply::Map(vec![
        fact("server", Reply::bulk("redis")),
        fact("version", Reply::bulk(super::info::REDIS_VERSION)),
        fact("proto", Reply::Integer(proto)),
        fact("id", Reply::Integer(session.client.id as i64)),
        fact("mode", Reply::bulk(session.server.mode())),
        fact("role", Reply::bulk(role)),
        fact("modules", Reply::Array(Vec::new())),
    ])
}

const CLIENT_NAMES: &str = "Client names";

/// Checks what a client calls itself, or its library.
fn check_name(name: &[u8], what: &str) -> Result<(), Reply> {
    if name.len() > NAME_BYTES_MAX {
        let found = name.len();
        return Err(error(format!(
            "ERR {what} have at most {NAME_BYTES_MAX} bytes, found {found} bytes"
        )));
    }
    let is_printable = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    is_printable.then_some(()).ok_or_else(|| {
        error(format!(
            "ERR {what} cannot contain spaces, newlines or special characters."
        ))
    })
}

pub(super) fn client(session: &mut Session, args: Args<'_>) -> Reply {
    let own = &session.client;
    match (args[1], args.len()) {
        (it, 2) if is(it, "ID") => Reply::Integer(own.id as i64),
        (it, 2) if is(it, "GETNAME") => {
            let name = lock(&own.names).name.clone();
            if name.is_empty() {
                Reply::Null
            } else {
                Reply::bulk(name)
            }
        }
        (it, 3) if is(it, "SETNAME") => match check_name(args[2], CLIENT_NAMES) {
            Err(reply) => reply,
            Ok(()) => {
                lock(&own.names).name = String::from_utf8_lossy(args[2]).into_owned();
                Reply::OK
            }
        },
        (it, 4) if is(it, "SETINFO") => set_info(own, args),
        (it, 2) if is(it, "INFO") => Reply::Text(own.line() + "\n"),
        (it, _) if is(it, "LIST") => list(session, args),
        (it, 3..) if is(it, "KILL") => kill(session, &args[2..]),
        (it, 3 | 4) if is(it, "UNBLOCK") => unblock(session, args),
        (it, 3 | 4) if is(it, "PAUSE") => pause(session, &args[2..]),
        (it, 2) if is(it, "UNPAUSE") => unpause(session),
        (it, 3) if is(it, "REPLY") => match args[2] {
            it if is(it, "ON") => {
                session.replies = Replies::On;
                Reply::OK
            }
            it if is(it, "OFF") => {
                session.replies = Replies::Off;
                Reply::Several(Vec::new())
            }
            it if is(it, "SKIP") => {
                if session.replies == Replies::On {
                    session.replies = Replies::SkipNext;
                }
                Reply::Several(Vec::new())
            }
            _ => error("ERR syntax error"),
        },
        (it, 3) if is_without_effect("client", it) => match args[2] {
            it if is(it, "ON") || is(it, "OFF") => Reply::OK,
            _ => error("ERR syntax error"),
        },
        (it, 2) if is(it, "GETREDIR") => tracking::redirection(session),
        (it, 2) if is(it, "TRACKINGINFO") => tracking::tracking_info(session),
        (it, 3..) if is(it, "TRACKING") => tracking::tracking(session, args),
        (it, 3) if is(it, "CACHING") => tracking::caching(session, args),
        (it, 2) if is(it, "HELP") => Reply::bulks([
            "CLIENT ID|GETNAME|SETNAME|SETINFO|INFO|LIST|KILL|UNBLOCK|REPLY. About connections.",
            "CLIENT PAUSE timeout [WRITE|ALL]|UNPAUSE. About a time without commands.",
            "CLIENT TRACKING|TRACKINGINFO|CACHING|GETREDIR. About copies of values.",
        ]),
        _ => error(super::wrong_subcommand(args)),
    }
}

/// `timeout [WRITE|ALL]`, in milliseconds.
fn pause(session: &Session, args: Args<'_>) -> Reply {
    let millis = match number::integer(args[0]) {
        None => return error("ERR timeout is not an integer or out of range"),
        Some(..0) => return error("ERR timeout is negative"),
        Some(millis) => millis as u64,
    };
    let of_all = match args.get(1) {
        None => true,
        Some(it) if is(it, "ALL") => true,
        Some(it) if is(it, "WRITE") => false,
        Some(_) => return error("ERR CLIENT PAUSE mode must be WRITE or ALL"),
    };
    let time = Duration::from_millis(millis);
    session.server.pause.begin(time, of_all);
    Reply::OK
}

fn unpause(session: &Session) -> Reply {
    session.server.pause.end();
    Reply::OK
}

fn set_info(client: &Client, args: Args<'_>) -> Reply {
    if let Err(reply) = check_name(args[3], "lib-name and lib-ver") {
        return reply;
    }
    let value = String::from_utf8_lossy(args[3]).into_owned();
    let mut names = lock(&client.names);
    match args[2] {
        it if is(it, "LIB-NAME") => names.library = value,
        it if is(it, "LIB-VER") => names.version = value,
        other => {
            return error(format!(
                "ERR Unrecognized option '{}'",
                other.escape_ascii()
            ));
        }
    }
    Reply::OK
}

fn is_of_type(client: &Client, kind: &[u8]) -> Option<bool> {
    let is_subscribed = client.is_subscribed();
    let is_primary = client.is_primary.load(Ordering::Relaxed);
    let is_replica = client.is_replica.load(Ordering::Relaxed);
    match kind {
        it if is(it, "NORMAL") => Some(!is_subscribed && !is_primary && !is_replica),
        it if is(it, "PUBSUB") => Some(is_subscribed),
        it if is(it, "MASTER") => Some(is_primary),
        it if is(it, "REPLICA") || is(it, "SLAVE") => Some(is_replica),
        _ => None,
    }
}

fn list(session: &Session, args: Args<'_>) -> Reply {
    let mut clients = session.server.clients.all();
    match args.get(2..).unwrap_or_default() {
        [] => {}
        [word, kind] if is(word, "TYPE") => {
            if is_of_type(&session.client, kind).is_none() {
                let kind = kind.escape_ascii();
                return error(format!("ERR Unknown client type '{kind}'"));
            }
            clients.retain(|it| is_of_type(it, kind) == Some(true));
        }
        [word, ids @ ..] if is(word, "ID") && !ids.is_empty() => {
            let wanted: Option<Vec<_>> = ids.iter().map(|it| number::integer(it)).collect();
            let Some(wanted) = wanted else {
                return error("ERR Invalid client ID");
            };
            clients.retain(|it| wanted.contains(&(it.id as i64)));
        }
        _ => return error("ERR syntax error"),
    }
    let lines: String = clients.iter().map(|it| it.line() + "\n").collect();
    Reply::Text(lines)
}

fn kill(session: &mut Session, rest: Args<'_>) -> Reply {
    let clients = session.server.clients.all();
    if let [address] = rest {
        let found = clients.iter().find(|it| it.address.as_bytes() == *address);
        return match found {
            None => error("ERR No such client"),
            Some(client) => {
                end(session, client);
                Reply::OK
            }
        };
    }
    let (pairs, odd) = rest.as_chunks::<2>();
    if !odd.is_empty() {
        return error("ERR syntax error");
    }
    let (mut skips_own, mut chosen) = (true, clients);
    for [word, value] in pairs {
        match word {
            it if is(it, "ID") => {
                let Some(id @ 1..) = number::integer(value) else {
                    return error("ERR client-id should be greater than 0");
                };
                chosen.retain(|it| it.id as i64 == id);
            }
            it if is(it, "ADDR") => chosen.retain(|it| it.address.as_bytes() == *value),
            it if is(it, "LADDR") => chosen.retain(|it| it.local_address.as_bytes() == *value),
            it if is(it, "USER") => {
                if session.server.acl.find(value).is_none() {
                    let name = value.escape_ascii();
                    return error(format!("ERR No such user '{name}'"));
                }
                chosen.retain(|it| lock(&it.user).name.as_bytes() == *value);
            }
            it if is(it, "SKIPME") => match value {
                it if is(it, "YES") => skips_own = true,
                it if is(it, "NO") => skips_own = false,
                _ => return error("ERR syntax error"),
            },
            it if is(it, "TYPE") => {
                if is_of_type(&session.client, value).is_none() {
                    let kind = value.escape_ascii();
                    return error(format!("ERR Unknown client type '{kind}'"));
                }
                chosen.retain(|it| is_of_type(it, value) == Some(true));
            }
            _ => return error("ERR syntax error"),
        }
    }
    chosen.retain(|it| !skips_own || it.id != session.client.id);
    chosen.iter().for_each(|client| end(session, client));
    Reply::count(chosen.len())
}

/// Ends a connection; its own one after the reply.
pub(super) fn end(session: &mut Session, client: &Arc<Client>) {
    if client.id == session.client.id {
        session.ends = true;
    } else {
        // Others are to see at once that it is gone.
        session.server.clients.remove(client);
        client.kill();
    }
}

fn unblock(session: &Session, args: Args<'_>) -> Reply {
    let how = match args.get(3) {
        None => 1,
        Some(it) if is(it, "TIMEOUT") => 1,
        Some(it) if is(it, "ERROR") => 2,
        Some(_) => return error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
    };
    let Some(id) = number::integer(args[2]) else {
        return error("ERR value is not an integer or out of range");
    };
    let client = u64::try_from(id)
        .ok()
        .and_then(|id| session.server.clients.find(id));
    match client {
        Some(client) if client.is_waiting.load(Ordering::Acquire) => {
            client.unblocked.store(how, Ordering::Release);
            client.wake.notify_one();
            Reply::Integer(1)
        }
        _ => Reply::Integer(0),
    }
}

pub(super) fn monitor(session: &mut Session, _args: Args<'_>) -> Reply {
    if !session.client.is_monitor.swap(true, Ordering::Relaxed) {
        session
            .server
            .clients
            .monitors
            .fetch_add(1, Ordering::Relaxed);
    }
    Reply::OK
}
