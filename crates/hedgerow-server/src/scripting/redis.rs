//! The functions of `redis` that run no command.

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::convert::word;
use super::digest;
use super::outcome::{Outcome, wrong};

pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("sha1hex", lua.create_function(sha1hex)?)?;
    table.raw_set("setresp", lua.create_function(set_resp)?)?;
    table.raw_set("set_repl", lua.create_function(set_repl)?)?;
    table.raw_set("acl_check_cmd", lua.create_function(acl_check_cmd)?)?;
    for (name, field) in [("error_reply", "err"), ("status_reply", "ok")] {
        let reply = move |lua: &Lua, args: MultiValue| reply_table(lua, &args, field);
        table.raw_set(name, lua.create_function(reply)?)?;
    }
    // There is no log of the server for `log`.
    let constants = [
        ("log", false),
        ("replicate_commands", true),
        ("breakpoint", false),
        ("debug", false),
    ];
    for (name, value) in constants {
        let constant = move |_: &Lua, _: MultiValue| Ok((true, value));
        table.raw_set(name, lua.create_function(constant)?)?;
    }
    Ok(table)
}

fn sha1hex(lua: &Lua, args: MultiValue) -> Outcome {
    match args.iter().map(word).collect::<Option<Vec<_>>>().as_deref() {
        Some([text]) => Ok((true, Value::String(lua.create_string(digest(text))?))),
        _ => wrong(lua, "wrong number of arguments"),
    }
}

fn set_resp(lua: &Lua, args: MultiValue) -> Outcome {
    match args.iter().map(Value::as_i64).collect::<Vec<_>>()[..] {
        [Some(version @ 2..=3)] => {
            lua.set_named_registry_value("resp3", version == 3)?;
            Ok((true, Value::Nil))
        }
        [_] => wrong(lua, "RESP version must be 2 or 3."),
        _ => wrong(lua, "redis.setresp() requires one argument."),
    }
}

fn set_repl(lua: &Lua, flags: Option<i64>) -> Outcome {
    match flags {
        Some(0..=3) => Ok((true, Value::Nil)),
        _ => wrong(
            lua,
            "Invalid replication flags. Please use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ),
    }
}

/// Asks the host, whose function is registered while a script runs.
fn acl_check_cmd(lua: &Lua, args: MultiValue) -> Outcome {
    let check: Function = lua.named_registry_value("acl_check_cmd")?;
    check.call(args)
}

/// An error or a status as a table, whose one field has the text.
fn reply_table(lua: &Lua, args: &MultiValue, field: &str) -> Outcome {
    let table = lua.create_table()?;
    match args.iter().collect::<Vec<_>>()[..] {
        [Value::String(text)] => {
            let bytes = text.as_bytes();
            let text = match field {
                "err" if bytes.is_empty() => b"ERR".to_vec(),
                "err" => bytes.strip_prefix(b"-").unwrap_or(&bytes).to_vec(),
                _ => bytes.to_vec(),
            };
            table.raw_set(field, lua.create_string(text)?)?;
        }
        _ => table.raw_set("err", "ERR wrong number or type of arguments")?,
    }
    Ok((true, Value::Table(table)))
}
