//! AUTH and ACL: who is connected, and what they may do.

use std::sync::Arc;

use super::arguments::is;
use super::{Args, COMMANDS, find, full_name, full_names};
use crate::acl::{CATEGORIES, DEFAULT, Denied, Description, Refusal, User, is_of};
use crate::client::lock;
use crate::number;
use crate::pubsub::Kind;
use crate::resp::{Reply, error};
use crate::server::Server;
use crate::session::Session;

/// The bits of a password of ACL GENPASS.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4_096;

pub(super) fn log_in(
    session: &mut Session,
    (command, user, password): (&[u8], &[u8], &[u8]),
) -> Result<(), Reply> {
    let found = session.server.acl.find(user);
    match found.filter(|it| it.rules().accepts(password)) {
        Some(user) => {
            session.set_user(user, true);
            Ok(())
        }
        None => {
            let refusal = Refusal {
                reason: "auth",
                context: session.context(),
                object: command.to_ascii_uppercase(),
                user: String::from_utf8_lossy(user).into_owned(),
            };
            session.server.note_refusal(refusal, &session.client);
            Err(error(
                "WRONGPASS invalid username-password pair or user is disabled.",
            ))
        }
    }
}

pub(super) fn auth(session: &mut Session, args: Args<'_>) -> Reply {
    let (user, password) = match args {
        [_, password] => (DEFAULT.as_bytes(), *password),
        [_, user, password] => (*user, *password),
        _ => return error("ERR syntax error"),
    };
    if args.len() == 2 && session.server.acl.first().0.rules().any_password {
        return error(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        );
    }
    let logged_in = log_in(session, (args[0], user, password));
    logged_in.err().unwrap_or(Reply::OK)
}

pub(super) fn acl(session: &mut Session, args: Args<'_>) -> Reply {
    let server = session.server.clone();
    match (args[1], args.len()) {
        (it, 2) if is(it, "WHOAMI") => Reply::bulk(&session.user.name),
        (it, 2) if is(it, "USERS") => Reply::bulks(server.acl.all().iter().map(|it| &it.name)),
        (it, 2) if is(it, "LIST") => Reply::bulks(server.acl.all().iter().map(|it| line(it))),
        (it, 3..) if is(it, "SETUSER") => set_user(&server, args),
        (it, 3) if is(it, "GETUSER") => match server.acl.find(args[2]) {
            Some(user) => facts(&user),
            None => Reply::NullArray,
        },
        (it, 3..) if is(it, "DELUSER") => remove_users(session, &args[2..]),
        (it, _) if is(it, "CAT") => categories(args),
        (it, 2 | 3) if is(it, "LOG") => log(&server, args.get(2).copied()),
        (it, 2 | 3) if is(it, "GENPASS") => password(args.get(2).copied()),
        (it, 4..) if is(it, "DRYRUN") => dry_run(&server, args),
        (it, 2) if is(it, "LOAD") => match server.acl.load(server.config.opens_channels()) {
            Err(text) => error(format!("ERR {text}")),
            Ok(()) => {
                server.end_unknown(session);
                Reply::OK
            }
        },
        (it, 2) if is(it, "SAVE") => match server.acl.save() {
            Err(text) => error(format!("ERR {text}")),
            Ok(()) => Reply::OK,
        },
        (it, 2) if is(it, "HELP") => Reply::bulks([
            "ACL <subcommand>. Subcommands are:",
            "WHOAMI: the user of the connection.",
            "USERS, LIST: all users, without and with their rules.",
            "GETUSER <user>, SETUSER <user> [modifier ...], DELUSER <user> [user ...].",
            "CAT [category]: the categories, or the commands of one.",
            "LOG [count|RESET]: the calls that were refused.",
            "DRYRUN <user> <command> [argument ...]: says if a user may run a command.",
            "GENPASS [bits]: a password.",
            "LOAD, SAVE: reads and writes the file of users.",
        ]),
        _ => error(super::wrong_subcommand(args)),
    }
}

fn line(user: &User) -> Vec<u8> {
    [b"user ", user.name.as_bytes(), b" ", &user.rules().text()].concat()
}

fn set_user(server: &Arc<Server>, args: Args<'_>) -> Reply {
    let all_channels = server.config.opens_channels();
    match server.acl.set(args[2], &args[3..], all_channels) {
        Err(text) => error(format!("ERR {text}")),
        Ok(user) => {
            server.end_listeners(&user);
            Reply::OK
        }
    }
}

fn facts(user: &User) -> Reply {
    let rules = user.rules();
    let fact = |name: &str, value: Reply| (Reply::bulk(name), value);
    let of_selector = |it: Description| {
        vec![
            fact("commands", Reply::Bulk(it.commands)),
            fact("keys", Reply::Bulk(it.keys)),
            fact("channels", Reply::Bulk(it.channels)),
        ]
    };
    let mut flags = vec![if rules.enabled { "on" } else { "off" }];
    flags.extend(rules.any_password.then_some("nopass"));
    let mut facts = vec![
        fact("flags", Reply::bulks(flags)),
        fact("passwords", Reply::bulks(rules.hashes())),
    ];
    facts.extend(of_selector(rules.root()));
    let selectors = rules.selectors().map(|it| Reply::Map(of_selector(it)));
    facts.push(fact("selectors", Reply::Array(selectors.collect())));
    Reply::Map(facts)
}

fn remove_users(session: &mut Session, names: Args<'_>) -> Reply {
    if names.contains(&DEFAULT.as_bytes()) {
        return error("ERR The 'default' user cannot be removed");
    }
    let acl = &session.server.acl;
    let removed = names.iter().filter(|it| acl.remove(it).is_some()).count();
    session.server.clone().end_unknown(session);
    Reply::count(removed)
}

fn categories(args: Args<'_>) -> Reply {
    match &args[2..] {
        [] => Reply::bulks(CATEGORIES),
        [name] => {
            let category = CATEGORIES.into_iter().find(|it| is(name, it));
            category.map_or_else(
                || error(format!("ERR Unknown category '{}'", name.escape_ascii())),
                |category| Reply::bulks(of_category(category)),
            )
        }
        _ => error("ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP."),
    }
}

/// The full names of the commands and subcommands of a category.
pub(super) fn of_category(category: &str) -> Vec<String> {
    let commands = COMMANDS.iter().flat_map(|command| {
        let names = full_names(command);
        names.filter(move |name| {
            let word = name.split_once('|').map(|it| it.1.as_bytes());
            is_of(command, word, category)
        })
    });
    commands.collect()
}

fn log(server: &Server, argument: Option<&[u8]>) -> Reply {
    let mut log = lock(&server.acl.log);
    match argument {
        None => log.reply(10),
        Some(it) if is(it, "RESET") => {
            log.clear();
            Reply::OK
        }
        Some(it) => match number::integer(it).map(usize::try_from) {
            None => error("ERR value is not an integer or out of range"),
            Some(count) => log.reply(count.unwrap_or(0)),
        },
    }
}

fn password(bits: Option<&[u8]>) -> Reply {
    let bits = bits.map_or(Some(PASSWORD_BITS), number::integer);
    let Some(bits @ 1..=PASSWORD_BITS_MAX) = bits else {
        return error(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a \
             positive number up to {PASSWORD_BITS_MAX}"
        ));
    };
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    if let Err(problem) = getrandom::fill(&mut bytes) {
        return error(format!("ERR the system has no random bytes: {problem}"));
    }
    let mut text = data_encoding::HEXLOWER.encode(&bytes);
    text.truncate(digits);
    Reply::bulk(text)
}

fn dry_run(server: &Server, args: Args<'_>) -> Reply {
    let Some(user) = server.acl.find(args[2]) else {
        let name = String::from_utf8_lossy(args[2]);
        return error(format!("ERR User '{name}' not found"));
    };
    let call = &args[3..];
    let Some(command) = find(call[0]) else {
        let name = String::from_utf8_lossy(call[0]);
        return error(format!("ERR Command '{name}' not found"));
    };
    if !command.takes(call.len()) {
        let name = full_name(command, call);
        return error(format!(
            "ERR wrong number of arguments for '{name}' command"
        ));
    }
    match user.check(command, call) {
        Ok(()) => Reply::OK,
        Err(Denied::Command) => {
            let name = full_name(command, call);
            Reply::bulk(format!(
                "This user has no permissions to run the '{name}' command"
            ))
        }
        Err(Denied::Key(key)) => {
            let key = String::from_utf8_lossy(&key);
            Reply::bulk(format!(
                "This user has no permissions to access the '{key}' key"
            ))
        }
        Err(Denied::Channel(channel)) => {
            let channel = String::from_utf8_lossy(&channel);
            let text = format!("This user has no permissions to access the '{channel}' channel");
            Reply::bulk(text)
        }
    }
}

impl Server {
    /// Remembers a refused call.
    pub(crate) fn note_refusal(&self, refusal: Refusal, client: &crate::client::Client) {
        let entries_max = self.config.refusals_max();
        lock(&self.acl.log).add(refusal, client.line(), entries_max);
    }

    /// Ends the connections of users that are no more.
    fn end_unknown(&self, session: &mut Session) {
        for client in self.clients.all() {
            let user = lock(&client.user).clone();
            let known = self.acl.find(user.name.as_bytes());
            if known.is_none_or(|it| !Arc::ptr_eq(&it, &user)) {
                super::client::end(session, &client);
            } else {
                self.end_listener(&client, &user);
            }
        }
    }

    /// Ends the connections of a user that listen to what the user may not listen to any more.
    fn end_listeners(&self, user: &Arc<User>) {
        for client in self.clients.all() {
            if Arc::ptr_eq(&lock(&client.user), user) {
                self.end_listener(&client, user);
            }
        }
    }

    fn end_listener(&self, client: &crate::client::Client, user: &User) {
        let rules = user.rules();
        let mut names = self.pubsub.names_of(client).into_iter();
        if names.any(|(name, kind)| !rules.allows_channel(&name, kind == Kind::Pattern)) {
            client.kill();
        }
    }
}
