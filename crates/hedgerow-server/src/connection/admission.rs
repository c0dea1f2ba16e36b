//! The commands that a client may run now.

use std::sync::atomic::Ordering;

use super::Connection;
use crate::client::lock;
use crate::commands::{
    ADMIN, Args, Command, NO_AUTH, NO_MULTI, PUBSUB, check_subcommand, find_again, index_of,
};
use crate::resp::{Reply, error};
use crate::session::Session;

impl Connection {
    /// The command of a request, if the client may run it now.
    pub(super) fn admit(&mut self, args: Args<'_>) -> Result<&'static Command, Reply> {
        let session = &mut self.session;
        let last = session.client.last_command.load(Ordering::Relaxed);
        let command = find_again(last, args[0]).ok_or_else(|| unknown(args));
        let checked = command.and_then(|command| {
            check(session, command, args)?;
            Ok(command)
        });
        match &checked {
            Ok(command) => {
                let client = &session.client;
                client
                    .last_command
                    .store(index_of(command), Ordering::Relaxed);
                if let (true, Some(word)) = (command.has_subcommands(), args.get(1)) {
                    let word = String::from_utf8_lossy(word).to_lowercase();
                    *lock(&client.last_subcommand) = word;
                }
                let server = &session.server;
                if server.clients.monitors.load(Ordering::Relaxed) > 0 && !command.has(ADMIN) {
                    server.clients.monitor(session.db, &client.address, args);
                }
            }
            Err(reply) => {
                session.queue_failed |= session.queue.is_some();
                session.server.note_error(reply);
            }
        }
        checked.map_err(|reply| match args[0].eq_ignore_ascii_case(b"exec") {
            true => abort(session, reply),
            false => reply,
        })
    }
}

/// Returns true for the words that a request of HTTP has first. A page in a browser may send one to
/// any server of its machine: nothing of it may be executed.
pub(super) fn is_of_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

fn unknown(args: Args<'_>) -> Reply {
    let name = String::from_utf8_lossy(&args[0][..args[0].len().min(128)]).into_owned();
    let mut begin = String::new();
    for arg in &args[1..] {
        if begin.len() > 128 {
            break;
        }
        begin += &format!("'{}' ", String::from_utf8_lossy(&arg[..arg.len().min(128)]));
    }
    error(format!(
        "ERR unknown command '{name}', with args beginning with: {begin}"
    ))
}

/// A refused EXEC ends the transaction: the client has no other answer of what became of it.
fn abort(session: &mut Session, refused: Reply) -> Reply {
    session.discard();
    match refused {
        Reply::Error(text) => error(format!(
            "EXECABORT Transaction discarded because of: {}",
            text.strip_prefix("ERR ").unwrap_or(&text)
        )),
        other => other,
    }
}

/// Checks that a client may run a command now.
fn check(session: &mut Session, command: &Command, args: Args<'_>) -> Result<(), Reply> {
    if !command.takes(args.len()) {
        return Err(error(format!(
            "ERR wrong number of arguments for '{}' command",
            command.name
        )));
    }
    check_subcommand(command, args).map_err(error)?;
    if !session.is_authenticated && !command.has(NO_AUTH) {
        return Err(error("NOAUTH Authentication required."));
    }
    if !command.has(NO_AUTH) {
        session.allow(command, args, session.context())?;
        session.server.allow_by_role(command)?;
    }
    if let Some(cluster) = &session.server.cluster {
        let access = session.access;
        // It counts for one command.
        session.access.insists = false;
        cluster.check(access, command, args).map_err(error)?;
    }
    if session.queue.is_some() && command.has(NO_MULTI) {
        return Err(error("ERR Command not allowed inside a transaction"));
    }
    let is_always = || ["ping", "quit", "reset"].contains(&command.name);
    if session.is_subscribed() && !session.resp3 && !command.has(PUBSUB) && !is_always() {
        return Err(error(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
             are allowed in this context",
            command.name
        )));
    }
    Ok(())
}
