//! Scripts and functions in Lua. Each is a part of its attempt, as every command is: what it reads
//! and is not in memory ends it, and it begins again when that was read.
//!
//! The keys that a caller names are locked. A script that touches another one is run again with all
//! keys locked.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arguments::{integer, is};
use super::{Args, Command, READ, Run, Special, WRITE, find, full_name};
use crate::acl::Denied;
use crate::clock;
use crate::execute::note_lookups;
use crate::replication;
use crate::resp::{Reply, error};
use crate::scripting::{Ended, Host, Machine, Program, Scripts, Stopped, Watch};
use crate::session::Session;
use crate::store::{Answer, DATABASES, Mode, Room, Stop, Txn};

/// The commands of a script, over its transaction.
struct Calls<'a, 'b> {
    txn: &'a mut Txn<'b>,
    only_reads: bool,
    /// The reason why the script cannot continue.
    stop: Option<Stop>,
}

impl Host for Calls<'_, '_> {
    fn call(&mut self, args: &[Vec<u8>], resp3: bool) -> Result<Reply, Stopped> {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let before = std::mem::replace(&mut self.txn.resp3, resp3);
        let answer = self.run(&args);
        self.txn.resp3 = before;
        match answer {
            Ok(reply) => Ok(reply),
            Err(Stop::Reply(text)) => Ok(Reply::Error(text)),
            Err(stop) => {
                self.stop = Some(stop);
                Err(Stopped)
            }
        }
    }

    fn may_call(&mut self, args: &[Vec<u8>]) -> Option<bool> {
        let command = find(&args[0])?;
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let rules = self.txn.rules.as_ref();
        let allowed = rules.is_none_or(|it| it.check(command, &args).is_ok());
        Some(allowed && command.takes(args.len()))
    }

    fn room(&self) -> Room {
        self.txn.room
    }
}

impl Calls<'_, '_> {
    /// Checks that the user may make a call.
    fn allow(&mut self, command: &Command, args: Args<'_>) -> Answer<()> {
        if let Some(Err(denied)) = self.txn.rules.as_ref().map(|it| it.check(command, args)) {
            let part = match denied {
                Denied::Command => "run this command or subcommand",
                Denied::Key(_) => {
                    "access at least one of the keys mentioned in the command arguments"
                }
                Denied::Channel(_) => "publish to the channel mentioned in the command",
            };
            self.txn
                .effects
                .denied
                .push((denied, full_name(command, args)));
            let text = format!("NOPERM The user executing the script can't {part}");
            return Err(Stop::reply(text));
        }
        Ok(())
    }

    fn run(&mut self, args: Args<'_>) -> Answer<Reply> {
        let Some(command) = find(args[0]) else {
            return Err(Stop::reply("ERR Unknown Redis command called from script"));
        };
        if !command.takes(args.len()) {
            let text = "ERR Wrong number of args calling Redis command from script";
            return Err(Stop::reply(text));
        }
        let refused = || Stop::reply("ERR This Redis command is not allowed from script");
        if !command.is_for_scripts() {
            return Err(refused());
        }
        // BLMPOP and BZMPOP have no such option, but may have a key of this name.
        let has_option = command.name.starts_with("xread");
        if has_option && args.iter().any(|it| is(it, "BLOCK")) {
            return Err(Stop::reply(format!(
                "ERR {} command is not allowed with BLOCK option from scripts",
                command.name
            )));
        }
        if self.only_reads && command.has(WRITE) {
            let text = "ERR Write commands are not allowed from read-only scripts.";
            return Err(Stop::reply(text));
        }
        self.allow(command, args)?;
        if let Some(cluster) = self.txn.cluster {
            cluster.check_script(command, args).map_err(Stop::Reply)?;
        }
        if let Some(text) = replication::refused(command, self.txn.refusal) {
            return Err(Stop::reply(text));
        }
        if self.txn.shows_calls {
            let call = args.iter().map(|it| it.to_vec()).collect();
            self.txn.effects.calls.push((self.txn.db, call));
        }
        match command.run {
            Run::Data(run) => {
                if !self.only_reads && !self.txn.holds_all(&command.keys.of(args)) {
                    return Err(Stop::AllKeys);
                }
                self.txn.effects.script_reads |= command.has(READ);
                self.txn
                    .nested(|txn| run(txn, args).inspect(|_| note_lookups(txn, command, args)))
            }
            Run::Session(_) => of_session(command, args).ok_or_else(refused),
            Run::Connection(Special::FlushDb) => self.flush(args, self.txn.db..self.txn.db + 1),
            Run::Connection(Special::FlushAll) => self.flush(args, 0..DATABASES),
            _ => Err(refused()),
        }
    }

    fn flush(&mut self, args: Args<'_>, dbs: Range<usize>) -> Answer<Reply> {
        let is_mode = |it: &&[u8]| is(it, "ASYNC") || is(it, "SYNC");
        if args.len() > 2 || !args[1..].iter().all(is_mode) {
            return Err(Stop::syntax());
        }
        self.txn.nested(|txn| txn.flush(dbs))?;
        Ok(Reply::OK)
    }
}

/// The reply of a command that is not about data, if scripts may call it.
fn of_session(command: &Command, args: Args<'_>) -> Option<Reply> {
    Some(match command.name {
        "ping" => match args.get(1) {
            None => Reply::Status("PONG"),
            Some(text) => Reply::bulk(text),
        },
        "echo" => Reply::bulk(args[1]),
        "time" => {
            let micros = clock::unix_micros();
            let parts = [micros / 1_000_000, micros % 1_000_000];
            Reply::bulks(parts.map(|it| it.to_string()))
        }
        _ => return None,
    })
}

/// The keys and the arguments behind their number.
fn split<'a>(args: Args<'a>) -> Answer<(Args<'a>, Args<'a>)> {
    let is_function = is(args[0], "FCALL") || is(args[0], "FCALL_RO");
    let count = integer(args[2]).map_err(|stop| match is_function {
        true => Stop::reply("ERR Bad number of keys provided"),
        false => stop,
    })?;
    if count < 0 {
        return Err(Stop::reply("ERR Number of keys can't be negative"));
    }
    let rest = &args[3..];
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    rest.split_at_checked(count)
        .ok_or_else(|| Stop::reply("ERR Number of keys can't be greater than number of args"))
}

/// Runs something in a state for scripts.
fn run_in_machine(
    txn: &mut Txn<'_>,
    (keys, only_reads, is_function): (Args<'_>, bool, bool),
    run: impl FnOnce(&mut Machine, &mut Calls<'_, '_>, &Arc<Watch>) -> Ended,
) -> Answer<Reply> {
    if only_reads {
        // It may read keys that nobody holds.
        txn.pin();
    }
    // A script will most likely read its keys, so they are read together.
    if let Err(Stop::Read) = txn.prefetch(keys) {
        return Err(Stop::Read);
    }
    let databases = txn.databases();
    let scripts = &databases.scripts;
    let mut machine = scripts.take().map_err(Stop::Reply)?;
    let watch = scripts.begin(is_function, txn.mode() == Mode::Device);
    let db = txn.db;
    let mut calls = Calls {
        txn,
        only_reads,
        stop: None,
    };
    let ended = run(&mut machine, &mut calls, &watch);
    let stop = calls.stop;
    txn.db = db;
    scripts.end(&watch);
    scripts.give_back(machine);
    let is_killed = watch.killed.load(Ordering::Acquire);
    match ended {
        Ended::Reply(reply) => Ok(reply),
        Ended::Stopped if !is_killed => Err(stop.unwrap_or(Stop::Device)),
        Ended::TooLong if !is_killed => Err(Stop::Device),
        // Also if it was killed while it ended to be run again.
        Ended::Killed | Ended::Stopped | Ended::TooLong => {
            let command = if is_function { "FUNCTION" } else { "SCRIPT" };
            Err(Stop::reply(format!(
                "ERR Error running script: Script killed by user with {command} KILL."
            )))
        }
    }
}

/// Refuses what says of itself that it may write, if nothing may. Others fail when they write.
fn refuse_writer(txn: &Txn<'_>, may_write: bool) -> Answer<()> {
    match txn.refusal {
        Some(text) if may_write => Err(Stop::reply(text)),
        _ => Ok(()),
    }
}

fn run_script(
    txn: &mut Txn<'_>,
    program: &Program,
    args: Args<'_>,
    only_reads: bool,
) -> Answer<Reply> {
    let (keys, rest) = split(args)?;
    let shebang = program.shebang.as_ref();
    let only_reads = only_reads || shebang.is_some_and(|it| it.flags.only_reads());
    refuse_writer(txn, shebang.is_some() && !only_reads)?;
    run_in_machine(txn, (keys, only_reads, false), |machine, calls, watch| {
        machine.run_script(program, (keys, rest), calls, watch)
    })
}

pub(super) fn eval(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let program = txn.databases().scripts.add(args[1], false);
    let program = program.map_err(Stop::Reply)?;
    let only_reads = is(args[0], "EVAL_RO");
    run_script(txn, &program, args, only_reads)
}

pub(super) fn evalsha(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let program = txn.databases().scripts.find(args[1]);
    let missing = || Stop::reply("NOSCRIPT No matching script. Please use EVAL.");
    let program = program.ok_or_else(missing)?;
    let only_reads = is(args[0], "EVALSHA_RO");
    run_script(txn, &program, args, only_reads)
}

pub(super) fn fcall(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let libraries = txn.databases().scripts.libraries();
    let name = String::from_utf8_lossy(args[1]).into_owned();
    let functions = libraries.iter().flat_map(|it| &it.functions);
    let mut named = functions.filter(|it| it.name.eq_ignore_ascii_case(&name));
    let function = named.next();
    let function = function.ok_or_else(|| Stop::reply("ERR Function not found"))?;
    let (keys, rest) = split(args)?;
    let only_reads = function.flags.only_reads();
    if is(args[0], "FCALL_RO") && !only_reads {
        let text = "ERR Can not execute a script with write flag using *_ro command.";
        return Err(Stop::reply(text));
    }
    refuse_writer(txn, !only_reads)?;
    let name = function.name.as_str();
    run_in_machine(txn, (keys, only_reads, true), |machine, calls, watch| {
        machine.run_function((name, &libraries), (keys, rest), calls, watch)
    })
}

/// SCRIPT: the texts, and the scripts that run.
pub(super) fn script(session: &mut Session, args: Args<'_>) -> Reply {
    let databases = session.server.databases();
    let scripts = &databases.scripts;
    match args[1] {
        it if is(it, "LOAD") && args.len() == 3 => match scripts.add(args[2], true) {
            Ok(program) => match check(scripts, &program) {
                Ok(()) => Reply::bulk(&program.digest),
                Err(text) => error(text),
            },
            Err(text) => error(text),
        },
        it if is(it, "EXISTS") && args.len() > 2 => {
            let known = args[2..].iter().map(|it| scripts.find(it).is_some());
            Reply::Array(known.map(|it| Reply::Integer(i64::from(it))).collect())
        }
        it if is(it, "FLUSH") => match &args[2..] {
            [] => {
                scripts.flush();
                Reply::OK
            }
            [mode] if is(mode, "ASYNC") || is(mode, "SYNC") => {
                scripts.flush();
                Reply::OK
            }
            _ => error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"),
        },
        it if is(it, "KILL") && args.len() == 2 => match scripts.kill(false) {
            true => Reply::OK,
            false => error("NOTBUSY No scripts in execution right now."),
        },
        it if is(it, "HELP") => Reply::bulks([
            "SCRIPT <subcommand>. Subcommands are:",
            "LOAD <script>: remembers a script and returns its digest.",
            "EXISTS <digest> ...: says which scripts are known.",
            "FLUSH [ASYNC|SYNC]: forgets all scripts.",
            "KILL: ends the scripts that run; what they did is undone.",
        ]),
        _ => error(super::wrong_subcommand(args)),
    }
}

/// Compiles a script, so that an error is found when it is loaded.
fn check(scripts: &Scripts, program: &Program) -> Result<(), String> {
    let mut machine = scripts.take()?;
    let checked = machine.check(program);
    scripts.give_back(machine);
    checked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::world::World;

    /// Whoever killed it was told that it ends, so it is not run again.
    #[test]
    fn a_script_that_is_killed_while_it_stops_ends() {
        for ended in [Ended::Stopped, Ended::TooLong, Ended::Killed] {
            let world = World::new();
            let mut txn = world.txn();
            let answer = run_in_machine(&mut txn, (&[], false, false), |_, _, _| {
                assert!(world.databases.scripts.kill(false));
                ended
            });
            let Err(Stop::Reply(text)) = answer else {
                panic!("expected an error, found {answer:?}");
            };
            assert!(text.contains("killed by user"), "{text}");
        }
    }
}
