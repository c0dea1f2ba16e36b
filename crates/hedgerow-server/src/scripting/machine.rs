//! A Lua state that runs one script after the other.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Value, VmState};

use super::convert::{from_lua, to_lua, word};
use super::libraries::{self, Library, Registered};
use super::outcome::{Outcome, wrong};
use super::{Program, bits, json, message_pack, redis, structs};
use crate::resp::Reply;
use crate::store::Room;

/// The memory of a state. A script that needs more ends with an error.
const MEMORY_MAX: usize = 256 << 20;
pub(super) const NO_MEMORY: &str = "not enough memory";
/// A state with more is not kept.
const KEPT_BYTES_MAX: usize = 4 << 20;
/// The compiled scripts of a state.
const COMPILED_MAX: usize = 1_000;
/// The instructions between two looks at what others want.
const STEP: u32 = 10_000;
/// The steps of a script that runs where others wait for the thread.
const STEPS_MAX: u64 = 100;

/// The bytes that a library may write: they are copied into the state, which counts the copy.
pub(super) fn bytes_left(lua: &Lua) -> usize {
    MEMORY_MAX.saturating_sub(lua.used_memory()) / 2
}

/// A script runs no further: what it asked for is not there yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped;

/// The side of the server that a script asks.
pub(crate) trait Host {
    /// Runs a command.
    fn call(&mut self, args: &[Vec<u8>], resp3: bool) -> Result<Reply, Stopped>;

    /// Says if a command may be called; `None` if there is no such command.
    fn may_call(&mut self, args: &[Vec<u8>]) -> Option<bool>;

    /// The room for the reply.
    fn room(&self) -> Room;
}

/// A script that runs, as others see it.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) is_function: bool,
    pub(crate) killed: AtomicBool,
    /// The script waits for something, and what it does is undone.
    stopped: AtomicBool,
    /// The thread is only for this script.
    may_wait: bool,
    steps: AtomicU64,
}

impl Watch {
    pub(crate) fn new(is_function: bool, may_wait: bool) -> Watch {
        Watch {
            is_function,
            killed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            may_wait,
            steps: AtomicU64::new(0),
        }
    }

    /// Returns true if the script has to end here.
    fn ends(&self) -> bool {
        self.killed.load(Ordering::Acquire)
            || self.stopped.load(Ordering::Relaxed)
            || !self.may_wait && self.steps.fetch_add(1, Ordering::Relaxed) >= STEPS_MAX
    }

    fn is_too_long(&self) -> bool {
        !self.may_wait && self.steps.load(Ordering::Relaxed) > STEPS_MAX
    }

    /// Returns true if the script was told to end.
    fn is_ended(&self) -> bool {
        self.killed.load(Ordering::Acquire)
            || self.stopped.load(Ordering::Relaxed)
            || self.is_too_long()
    }
}

/// The end of a script.
pub(crate) enum Ended {
    Reply(Reply),
    /// The host was asked for something that it has not.
    Stopped,
    /// It takes too long for a thread that others wait for.
    TooLong,
    Killed,
}

/// See the module.
pub(crate) struct Machine {
    lua: Lua,
    run: Function,
    load: Function,
    /// Sets the function that runs commands.
    set_call: Function,
    compiled: HashMap<String, Function>,
    /// The functions of the loaded libraries, by name.
    functions: Option<HashMap<String, Function>>,
    pub(super) epoch: usize,
    pub(super) bytes: usize,
}

/// The numbers that scripts know by name.
const CONSTANTS: &[(&str, i64)] = &[
    ("LOG_DEBUG", 0),
    ("LOG_VERBOSE", 1),
    ("LOG_NOTICE", 2),
    ("LOG_WARNING", 3),
    ("REPL_NONE", 0),
    ("REPL_AOF", 1),
    ("REPL_SLAVE", 2),
    ("REPL_REPLICA", 2),
    ("REPL_ALL", 3),
    ("REDIS_VERSION_NUM", 0x0007_0204),
];

impl Machine {
    pub(super) fn new(epoch: usize) -> mlua::Result<Machine> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        lua.set_memory_limit(MEMORY_MAX)?;
        let host = lua.create_table()?;
        let constants = lua.create_table()?;
        for (name, number) in CONSTANTS {
            constants.raw_set(*name, *number)?;
        }
        constants.raw_set("REDIS_VERSION", "7.2.4")?;
        host.raw_set("constants", constants)?;
        host.raw_set("redis", redis::functions(&lua)?)?;
        host.raw_set("cjson", json::functions(&lua)?)?;
        host.raw_set("cmsgpack", message_pack::functions(&lua)?)?;
        host.raw_set("bit", bits::functions(&lua)?)?;
        host.raw_set("struct", structs::functions(&lua)?)?;
        let null = mlua::LightUserData(std::ptr::null_mut());
        host.raw_set("null", Value::LightUserData(null))?;
        let random = Arc::new(std::sync::Mutex::new(fastrand::Rng::new()));
        let seeded = random.clone();
        let draw = move |_: &Lua, ()| Ok(super::lock(&random).f64());
        host.raw_set("random", lua.create_function(draw)?)?;
        let seed = move |_: &Lua, seed: f64| {
            super::lock(&seeded).seed(seed.to_bits());
            Ok(())
        };
        host.raw_set("seed", lua.create_function(seed)?)?;
        let is_ended = |lua: &Lua, ()| {
            let watch = lua.app_data_ref::<Arc<Watch>>();
            Ok(watch.is_some_and(|it| it.is_ended()))
        };
        host.raw_set("is_ended", lua.create_function(is_ended)?)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
        let (run, load, set_call) = prelude.call(host)?;
        Ok(Machine {
            lua,
            run,
            load,
            set_call,
            compiled: HashMap::new(),
            functions: None,
            epoch,
            bytes: 0,
        })
    }

    /// Prepares for the next script. Returns false if the state should not be used again.
    pub(super) fn rest(&mut self) -> bool {
        if self.compiled.len() > COMPILED_MAX {
            self.compiled.clear();
        }
        self.bytes = self.lua.used_memory();
        if self.bytes > KEPT_BYTES_MAX {
            let _ = self.lua.gc_collect();
            self.bytes = self.lua.used_memory();
        }
        self.bytes <= KEPT_BYTES_MAX
    }

    fn compiled(&mut self, program: &Program) -> Result<Function, String> {
        if let Some(function) = self.compiled.get(&program.digest) {
            return Ok(function.clone());
        }
        let function = self.compile(&program.text, "@user_script")?;
        self.compiled
            .insert(program.digest.clone(), function.clone());
        Ok(function)
    }

    /// Compiles a script. Returns the reply for one that is none.
    pub(crate) fn check(&mut self, program: &Program) -> Result<(), String> {
        let compiled = self.compiled(program);
        compiled.map(drop).map_err(not_compiled)
    }

    fn compile(&self, text: &[u8], name: &str) -> Result<Function, String> {
        let chunk = self.lua.load(text).set_name(name);
        let chunk = chunk.set_mode(mlua::chunk::ChunkMode::Text);
        chunk.into_function().map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => other.to_string(),
        })
    }

    /// Runs a script.
    pub(crate) fn run_script(
        &mut self,
        program: &Program,
        (keys, args): (&[&[u8]], &[&[u8]]),
        host: &mut dyn Host,
        watch: &Arc<Watch>,
    ) -> Ended {
        match self.compiled(program) {
            Ok(function) => {
                let name = (program.digest.as_str(), "@user_script");
                self.run(&function, name, (keys, args), host, watch)
            }
            Err(text) => Ended::Reply(Reply::Error(not_compiled(text))),
        }
    }

    /// Runs a function of a library. All libraries are loaded before.
    pub(crate) fn run_function(
        &mut self,
        (name, all): (&str, &[Arc<Library>]),
        (keys, args): (&[&[u8]], &[&[u8]]),
        host: &mut dyn Host,
        watch: &Arc<Watch>,
    ) -> Ended {
        if self.functions.is_none() {
            let mut functions = HashMap::new();
            for library in all {
                match self.load_library(&library.text) {
                    Ok(registered) => functions.extend(
                        registered
                            .into_iter()
                            .map(|(function, run)| (function.name, run)),
                    ),
                    Err(text) => return Ended::Reply(Reply::Error(text)),
                }
            }
            self.functions = Some(functions);
        }
        let function = self.functions.as_ref().and_then(|it| it.get(name)).cloned();
        match function {
            Some(function) => self.run(
                &function,
                (name, "@user_function"),
                (keys, args),
                host,
                watch,
            ),
            None => Ended::Reply(Reply::Error("ERR Function not found".to_owned())),
        }
    }

    fn run(
        &self,
        function: &Function,
        (name, source): (&str, &str),
        (keys, args): (&[&[u8]], &[&[u8]]),
        host: &mut dyn Host,
        watch: &Arc<Watch>,
    ) -> Ended {
        let result = self.run_guarded(function, (keys, args), host, watch);
        if watch.stopped.load(Ordering::Relaxed) {
            return Ended::Stopped;
        }
        if watch.killed.load(Ordering::Acquire) {
            return Ended::Killed;
        }
        if watch.is_too_long() {
            return Ended::TooLong;
        }
        Ended::Reply(match result {
            Ok((true, value, resp3)) => from_lua(&value, resp3, host.room()),
            Ok((false, value, _)) => failure(&value, name, source),
            Err(error) => {
                let text = without_trace(&error.to_string()).to_owned();
                Reply::Error(format!("ERR {text} script: {name}, on {source}."))
            }
        })
    }

    /// Has a script end with an error when its watch says so.
    fn watch(&self, watch: &Arc<Watch>, text: &'static str) -> mlua::Result<()> {
        self.lua.set_app_data(watch.clone());
        let watched = watch.clone();
        let triggers = HookTriggers::new().every_nth_instruction(STEP);
        self.lua
            .set_global_hook(triggers, move |_, _| match watched.ends() {
                true => Err(mlua::Error::runtime(text)),
                false => Ok(VmState::Continue),
            })
    }

    fn run_guarded(
        &self,
        function: &Function,
        (keys, args): (&[&[u8]], &[&[u8]]),
        host: &mut dyn Host,
        watch: &Arc<Watch>,
    ) -> mlua::Result<(bool, Value, bool)> {
        let lua = &self.lua;
        self.watch(watch, "the script was ended")?;
        // One string after the other: a state can only hold some thousands outside of tables.
        let list = |words: &[&[u8]]| {
            let table = lua.create_table_with_capacity(words.len(), 0)?;
            for word in words {
                table.raw_push(lua.create_string(word)?)?;
            }
            Ok::<_, mlua::Error>(table)
        };
        let (keys, args) = (list(keys)?, list(args)?);
        let host = RefCell::new(host);
        lua.set_named_registry_value("resp3", false)?;
        let result = lua.scope(|scope| {
            let call = scope.create_function_mut(|lua, args: MultiValue| {
                let resp3 = lua.named_registry_value("resp3")?;
                call(lua, &args, resp3, &mut **host.borrow_mut(), watch)
            })?;
            self.set_call.call::<()>(call)?;
            let check = scope.create_function_mut(|lua, args: MultiValue| {
                check(lua, &args, &mut **host.borrow_mut())
            })?;
            lua.set_named_registry_value("acl_check_cmd", check)?;
            self.run
                .call::<(bool, Value)>((function, keys, args, watch.is_function))
        });
        lua.remove_global_hook();
        lua.remove_hook();
        let (ok, value) = result?;
        Ok((ok, value, lua.named_registry_value("resp3")?))
    }

    /// Loads a library. Returns the functions that it registers.
    pub(crate) fn load_library(&self, text: &[u8]) -> Result<Vec<(Registered, Function)>, String> {
        let watch = Arc::new(Watch::new(true, false));
        let wrong = |error: mlua::Error| format!("ERR Error registering functions: {error}");
        let function = self
            .compile(text, "@user_function")
            .map_err(|text| format!("ERR Error compiling function: {text}"))?;
        self.watch(&watch, "FUNCTION LOAD timeout").map_err(wrong)?;
        let mut registered = Vec::new();
        let result = self.lua.scope(|scope| {
            let register = scope.create_function_mut(|_, args: MultiValue| {
                Ok(match libraries::registered(&args) {
                    Ok(function) => {
                        registered.push(function);
                        (true, None)
                    }
                    Err(text) => (false, Some(text)),
                })
            })?;
            let refuse = scope.create_function(|lua, _: MultiValue| {
                error_table(
                    lua,
                    "ERR redis.call/pcall can only be called inside a script invocation",
                )
            })?;
            self.set_call.call::<()>(refuse)?;
            self.load.call::<(bool, Value)>((function, register))
        });
        self.lua.remove_global_hook();
        self.lua.remove_hook();
        match result.map_err(wrong)? {
            (true, _) if registered.is_empty() => Err("ERR No functions registered".to_owned()),
            (true, _) => Ok(registered),
            (false, value) => {
                let (text, _) = problem(&value);
                let text = text.strip_prefix("ERR ").unwrap_or(&text).to_owned();
                Err(format!("ERR Error registering functions: {text}"))
            }
        }
    }
}

fn not_compiled(text: String) -> String {
    format!("ERR Error compiling script (new function): {text}")
}

/// Runs a command for a script.
fn call(
    lua: &Lua,
    args: &MultiValue,
    resp3: bool,
    host: &mut dyn Host,
    watch: &Watch,
) -> mlua::Result<Value> {
    if watch.stopped.load(Ordering::Relaxed) {
        return error_table(lua, "ERR the script was ended");
    }
    if args.is_empty() {
        return error_table(
            lua,
            "ERR Please specify at least one argument for this redis.call() call",
        );
    }
    let Some(words) = args.iter().map(word).collect::<Option<Vec<_>>>() else {
        return error_table(
            lua,
            "ERR Lua redis lib command arguments must be strings or integers",
        );
    };
    match host.call(&words, resp3) {
        Ok(Reply::Error(text)) => error_table(lua, &text),
        Ok(reply) => to_lua(lua, &reply, resp3),
        Err(Stopped) => {
            watch.stopped.store(true, Ordering::Relaxed);
            error_table(lua, "ERR the script was ended")
        }
    }
}

/// Says if a command may be called.
fn check(lua: &Lua, args: &MultiValue, host: &mut dyn Host) -> Outcome {
    let words = args.iter().map(word).collect::<Option<Vec<_>>>();
    let allowed = words.filter(|it| !it.is_empty());
    match allowed.and_then(|words| host.may_call(&words)) {
        Some(allowed) => Ok((true, Value::Boolean(allowed))),
        None => wrong(lua, "Invalid command passed to redis.acl_check_cmd()"),
    }
}

/// An error as scripts see it, with the line of the script.
fn error_table(lua: &Lua, text: &str) -> mlua::Result<Value> {
    let table = lua.create_table()?;
    table.raw_set("err", lua.create_string(text)?)?;
    // Level 0 is this function, 1 the one that is written in Lua, 2 the script.
    for level in 1..4 {
        let line = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let is_users = source.source.is_some_and(|it| it.starts_with("@user"));
            debug.current_line().filter(|_| is_users)
        });
        if let Some(Some(line)) = line {
            table.raw_set("line", line)?;
            break;
        }
    }
    Ok(Value::Table(table))
}

/// The text of an error without the calls that led to it, which are those of the server.
fn without_trace(text: &str) -> &str {
    text.split("\nstack traceback:").next().unwrap_or(text)
}

/// The text and the line of an error.
fn problem(value: &Value) -> (String, Option<i64>) {
    let Value::Table(table) = value else {
        return ("ERR unknown error".to_owned(), None);
    };
    let text: Option<mlua::LuaString> = table.raw_get("err").unwrap_or(None);
    let text = text.map(|it| it.to_string_lossy().to_string());
    let text = text.unwrap_or_else(|| "ERR unknown error".to_owned());
    let text = without_trace(&text).to_owned();
    let line = match table.raw_get("line").unwrap_or(None) {
        Some(line) => Some(line),
        // Lua has written the place in front of the text.
        None => text.split(':').nth(1).and_then(|it| it.parse().ok()),
    };
    (text, line)
}

fn failure(value: &Value, name: &str, source: &str) -> Reply {
    let (text, line) = problem(value);
    let line = line.map_or(String::new(), |line| format!(":{line}"));
    Reply::Error(format!("{text} script: {name}, on {source}{line}."))
}
