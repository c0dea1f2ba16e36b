//! The outcome of a function of a library, which the prelude makes a result or an error.

use mlua::{Lua, Value};

/// True and a result, or false and the text of an error.
pub(super) type Outcome = mlua::Result<(bool, Value)>;

pub(super) fn wrong(lua: &Lua, text: &str) -> Outcome {
    Ok((false, Value::String(lua.create_string(text)?)))
}
