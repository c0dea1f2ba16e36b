//! Replies as values of Lua, and back.

use mlua::{Lua, Table, Value};

use crate::number;
use crate::resp::{Reply, element_bytes};
use crate::store::{Answer, Room, Stop};

/// The depth of a table that is a reply.
const DEPTH_MAX: usize = 256;

/// The reply of a command as a script sees it.
pub(super) fn to_lua(lua: &Lua, reply: &Reply, resp3: bool) -> mlua::Result<Value> {
    let text = |bytes: &[u8]| Ok(Value::String(lua.create_string(bytes)?));
    let named = |name: &str, value: Value| {
        let table = lua.create_table()?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Status(status) => named("ok", text(status.as_bytes())?),
        Reply::Line(status) => named("ok", text(status.as_bytes())?),
        Reply::Error(error) => named("err", text(error.as_bytes())?),
        Reply::Integer(number) => Ok(Value::Number(*number as f64)),
        Reply::Bulk(bytes) => text(bytes),
        Reply::Stored(value, from) => text(&value[*from..]),
        Reply::Null | Reply::NullArray | Reply::Wait | Reply::WaitWith(_) if resp3 => {
            Ok(Value::Nil)
        }
        Reply::Null | Reply::NullArray | Reply::Wait | Reply::WaitWith(_) => {
            Ok(Value::Boolean(false))
        }
        Reply::Boolean(is) if resp3 => Ok(Value::Boolean(*is)),
        Reply::Boolean(is) => Ok(Value::Number(f64::from(u8::from(*is)))),
        Reply::Double(number) if resp3 => named("double", Value::Number(*number)),
        Reply::Double(number) => text(number::float(*number).as_bytes()),
        Reply::BigNumber(digits) if resp3 => named("big_number", text(digits)?),
        Reply::BigNumber(digits) => text(digits),
        Reply::Text(verbatim) if resp3 => {
            let table = lua.create_table()?;
            table.raw_set("string", text(verbatim.as_bytes())?)?;
            table.raw_set("format", "txt")?;
            named("verbatim_string", Value::Table(table))
        }
        Reply::Text(verbatim) => text(verbatim.as_bytes()),
        Reply::Array(items) | Reply::Push(items) | Reply::Several(items) => {
            list(lua, items, resp3).map(Value::Table)
        }
        Reply::Set(items) if resp3 => {
            let members = lua.create_table()?;
            for item in items {
                members.raw_set(to_lua(lua, item, resp3)?, true)?;
            }
            named("set", Value::Table(members))
        }
        Reply::Set(items) => list(lua, items, resp3).map(Value::Table),
        Reply::Map(pairs) if resp3 => {
            let map = lua.create_table()?;
            for (key, value) in pairs {
                map.raw_set(to_lua(lua, key, resp3)?, to_lua(lua, value, resp3)?)?;
            }
            named("map", Value::Table(map))
        }
        Reply::Map(pairs) => in_turn(lua, pairs, resp3).map(Value::Table),
    }
}

/// The keys and values of a map in turn.
fn in_turn(lua: &Lua, pairs: &[(Reply, Reply)], resp3: bool) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(pairs.len() * 2, 0)?;
    for (key, value) in pairs {
        table.raw_push(to_lua(lua, key, resp3)?)?;
        table.raw_push(to_lua(lua, value, resp3)?)?;
    }
    Ok(table)
}

fn list(lua: &Lua, items: &[Reply], resp3: bool) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(items.len(), 0)?;
    for (at, item) in items.iter().enumerate() {
        table.raw_set(at + 1, to_lua(lua, item, resp3)?)?;
    }
    Ok(table)
}

/// An argument of a command: a string, or a number as text.
pub(super) fn word(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(number_text(*number, 17).into_bytes()),
        _ => None,
    }
}

/// A number with at most `digits` digits, as C writes it with `%g`.
pub(super) fn number_text(number: f64, digits: usize) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return format!("{number:.0}").replace("-0", if number == 0.0 { "0" } else { "-0" });
    }
    if !number.is_finite() {
        let sign = if number < 0.0 { "-" } else { "" };
        return format!("{sign}{}", if number.is_nan() { "nan" } else { "inf" });
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..digits as i32).contains(&power) {
        let places = (digits as i32 - 1 - power).max(0) as usize;
        return trimmed(&format!("{number:.places$}"));
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), power.abs())
}

/// The result of a script as a reply, if there is room for it.
pub(super) fn from_lua(value: &Value, resp3: bool, mut room: Room) -> Reply {
    let reply = reply_of(value, resp3, 0, &mut room);
    reply.unwrap_or_else(|stop| match stop {
        Stop::Reply(text) => Reply::Error(text),
        _ => Reply::Null,
    })
}

fn reply_of(value: &Value, resp3: bool, depth: usize, room: &mut Room) -> Answer<Reply> {
    if depth > DEPTH_MAX {
        return Ok(Reply::Error("ERR reached lua stack limit".to_owned()));
    }
    // A table may have the same string many times.
    let length = value.as_string().map_or(0, |text| text.as_bytes().len());
    room.take(element_bytes(length))?;
    Ok(match value {
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(*number as i64),
        Value::Boolean(is) if resp3 => Reply::Boolean(*is),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(table) => return of_table(table, resp3, depth, room),
        _ => Reply::Null,
    })
}

fn of_table(table: &Table, resp3: bool, depth: usize, room: &mut Room) -> Answer<Reply> {
    if let Some(reply) = named(table) {
        return Ok(reply);
    }
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let mut result = Ok(());
    if let Value::Table(map) = field("map") {
        let mut pairs = Vec::new();
        // A table is walked over without calling what it has of functions.
        let walked = map.for_each(|key: Value, value: Value| {
            if result.is_ok() {
                let mut part = |it: &Value| reply_of(it, resp3, depth + 1, room);
                result = part(&key).and_then(|key| {
                    pairs.push((key, part(&value)?));
                    Ok(())
                });
            }
            Ok(())
        });
        result?;
        return Ok(walked.map_or(Reply::Null, |()| Reply::Map(pairs)));
    }
    if let Value::Table(set) = field("set") {
        let mut members = Vec::new();
        let walked = set.for_each(|key: Value, _: Value| {
            if result.is_ok() {
                let member = reply_of(&key, resp3, depth + 1, room);
                result = member.map(|member| members.push(member));
            }
            Ok(())
        });
        result?;
        return Ok(walked.map_or(Reply::Null, |()| Reply::Set(members)));
    }
    let mut items = Vec::new();
    for at in 1.. {
        match table.raw_get::<Value>(at).unwrap_or(Value::Nil) {
            Value::Nil => break,
            item => items.push(reply_of(&item, resp3, depth + 1, room)?),
        }
    }
    Ok(Reply::Array(items))
}

/// The reply of a table with a field that says which one it is.
fn named(table: &Table) -> Option<Reply> {
    let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let lossy = |text: &mlua::LuaString| text.to_string_lossy().to_string();
    if let Value::String(text) = field("err") {
        let text = lossy(&text);
        return Some(Reply::Error(
            text.strip_prefix('-').unwrap_or(&text).to_owned(),
        ));
    }
    if let Value::String(text) = field("ok") {
        return Some(Reply::Line(lossy(&text)));
    }
    match field("double") {
        Value::Number(number) => return Some(Reply::Double(number)),
        Value::Integer(number) => return Some(Reply::Double(number as f64)),
        _ => {}
    }
    if let Value::String(digits) = field("big_number") {
        let digits = digits.as_bytes();
        let clean = digits.iter().map(|it| match it {
            b'\r' | b'\n' => b' ',
            other => *other,
        });
        return Some(Reply::BigNumber(clean.collect()));
    }
    if let Value::Table(verbatim) = field("verbatim_string") {
        let text: Option<mlua::LuaString> = verbatim.raw_get("string").unwrap_or(None);
        return Some(Reply::Text(text.map_or(String::new(), |it| lossy(&it))));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::number_text;

    #[test]
    fn numbers_are_written_as_in_c() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (-5000.0, "-5000"),
            (0.0003, "0.0003"),
            (1023.2, "1023.2"),
            (1e20, "1e+20"),
            (1.5e-7, "1.5e-07"),
            (9007199254740991.0, "9007199254740991"),
            (f64::INFINITY, "inf"),
        ];
        for (number, text) in cases {
            let digits = if text.len() > 15 { 17 } else { 14 };
            assert_eq!(number_text(number, digits), text);
        }
    }
}
