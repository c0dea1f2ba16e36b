//! The library `cjson`: tables as JSON, and back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mlua::{LightUserData, Lua, MultiValue, Table, Value};

use super::convert::number_text;
use super::machine::{NO_MEMORY, bytes_left};
use super::outcome::{Outcome, wrong};

const DEPTH: usize = 1_000;
/// The number by which a list may have more places than elements before it is too sparse.
const SPARSE_SAFE: i64 = 10;

/// The JSON that is written, with its bound.
struct Out {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Out {
    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(NO_MEMORY.to_owned());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// Settings that scripts may change.
struct Settings {
    encode_depth: AtomicUsize,
    decode_depth: AtomicUsize,
    invalid_numbers: AtomicBool,
}

pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let settings = std::sync::Arc::new(Settings {
        encode_depth: AtomicUsize::new(DEPTH),
        decode_depth: AtomicUsize::new(DEPTH),
        invalid_numbers: AtomicBool::new(false),
    });
    let table = lua.create_table()?;
    let of_encode = settings.clone();
    let encode = move |lua: &Lua, args: MultiValue| encoded(lua, &args, &of_encode);
    table.raw_set("encode", lua.create_function(encode)?)?;
    let of_decode = settings.clone();
    let decode = move |lua: &Lua, args: MultiValue| decoded(lua, &args, &of_decode);
    table.raw_set("decode", lua.create_function(decode)?)?;
    for (name, is_encode) in [("encode_max_depth", true), ("decode_max_depth", false)] {
        let settings = settings.clone();
        let set = move |_: &Lua, depth: Option<usize>| {
            let place = match is_encode {
                true => &settings.encode_depth,
                false => &settings.decode_depth,
            };
            let depth = depth.map_or(place.load(Ordering::Relaxed), |it| it.min(DEPTH));
            place.store(depth, Ordering::Relaxed);
            Ok((true, depth))
        };
        table.raw_set(name, lua.create_function(set)?)?;
    }
    let set = move |_: &Lua, args: MultiValue| {
        if let Some(Value::Boolean(on)) = args.front() {
            settings.invalid_numbers.store(*on, Ordering::Relaxed);
        }
        Ok((true, settings.invalid_numbers.load(Ordering::Relaxed)))
    };
    table.raw_set("encode_invalid_numbers", lua.create_function(set)?)?;
    for name in [
        "encode_keep_buffer",
        "encode_number_precision",
        "encode_sparse_array",
    ] {
        let accept = |_: &Lua, _: MultiValue| Ok((true, Value::Nil));
        table.raw_set(name, lua.create_function(accept)?)?;
    }
    Ok(table)
}

/// The first argument as JSON.
fn encoded(lua: &Lua, args: &MultiValue, settings: &Settings) -> Outcome {
    let mut out = Out {
        bytes: Vec::new(),
        bytes_max: bytes_left(lua),
    };
    match encode(settings, args.front().unwrap_or(&Value::Nil), 0, &mut out) {
        Ok(()) => Ok((true, Value::String(lua.create_string(&out.bytes)?))),
        Err(text) => wrong(lua, &text),
    }
}

/// The value of the JSON that is the first argument.
fn decoded(lua: &Lua, args: &MultiValue, settings: &Settings) -> Outcome {
    let Some(Value::String(text)) = args.front() else {
        return wrong(lua, "bad argument #1 to 'decode' (string expected)");
    };
    let parsed: serde_json::Value = match serde_json::from_slice(&text.as_bytes()) {
        Ok(parsed) => parsed,
        Err(error) => {
            let text = format!("Expected value but found invalid token: {error}");
            return wrong(lua, &text);
        }
    };
    let depth = settings.decode_depth.load(Ordering::Relaxed);
    match decode(lua, &parsed, depth)? {
        Some(value) => Ok((true, value)),
        None => {
            let text = format!("Found too many nested data structures ({})", depth + 1);
            wrong(lua, &text)
        }
    }
}

fn encode(settings: &Settings, value: &Value, depth: usize, out: &mut Out) -> Result<(), String> {
    match value {
        Value::Nil => out.write(b"null"),
        Value::LightUserData(it) if it.0.is_null() => out.write(b"null"),
        Value::Boolean(is) => out.write(if *is { b"true" } else { b"false" }),
        Value::Integer(number) => out.write(number.to_string().as_bytes()),
        Value::Number(number) => {
            if !number.is_finite() && !settings.invalid_numbers.load(Ordering::Relaxed) {
                return Err("Cannot serialise number: must not be NaN or Inf".to_owned());
            }
            out.write(number_text(*number, 14).as_bytes())
        }
        Value::String(text) => string(&text.as_bytes(), out),
        Value::Table(table) => {
            if depth >= settings.encode_depth.load(Ordering::Relaxed) {
                return Err(format!("Cannot serialise, excessive depth ({})", depth + 1));
            }
            encode_table(settings, table, depth + 1, out)
        }
        other => {
            let kind = other.type_name();
            Err(format!("Cannot serialise {kind}: type not supported"))
        }
    }
}

/// The highest place if the table is a list, 0 if it is not.
fn places(table: &Table) -> Result<i64, String> {
    let (mut highest, mut count, mut is_list) = (0, 0, true);
    let walked = table.for_each(|key: Value, _: Value| {
        match key {
            Value::Integer(place) if place > 0 => highest = highest.max(place),
            Value::Number(place) if place > 0.0 && place.fract() == 0.0 => {
                highest = highest.max(place as i64);
            }
            _ => is_list = false,
        }
        count += 1;
        Ok(())
    });
    walked.map_err(|error| error.to_string())?;
    if is_list && highest > SPARSE_SAFE && highest > count * 2 {
        return Err("Cannot serialise table: excessively sparse array".to_owned());
    }
    Ok(if is_list { highest } else { 0 })
}

fn encode_table(
    settings: &Settings,
    table: &Table,
    depth: usize,
    out: &mut Out,
) -> Result<(), String> {
    let highest = places(table)?;
    if highest > 0 {
        for place in 1..=highest {
            out.write(if place > 1 { b"," } else { b"[" })?;
            let item = table.raw_get(place).unwrap_or(Value::Nil);
            encode(settings, &item, depth, out)?;
        }
        return out.write(b"]");
    }
    out.write(b"{")?;
    let (mut is_first, mut result) = (true, Ok(()));
    let walked = table.for_each(|key: Value, value: Value| {
        if result.is_ok() {
            let comma = if std::mem::take(&mut is_first) {
                ""
            } else {
                ","
            };
            result = out
                .write(comma.as_bytes())
                .and_then(|()| name(&key, out))
                .and_then(|()| encode(settings, &value, depth, out));
        }
        Ok(())
    });
    walked.map_err(|error| error.to_string())?;
    result?;
    out.write(b"}")
}

/// The key of a table with its colon.
fn name(key: &Value, out: &mut Out) -> Result<(), String> {
    match key {
        Value::String(name) => string(&name.as_bytes(), out)?,
        Value::Integer(number) => out.write(format!("\"{number}\"").as_bytes())?,
        Value::Number(number) => {
            out.write(format!("\"{}\"", number_text(*number, 14)).as_bytes())?;
        }
        _ => return Err("Cannot serialise table: key must be number or string".to_owned()),
    }
    out.write(b":")
}

/// A string with what JSON does not allow escaped. Other bytes stay as they are.
fn string(bytes: &[u8], out: &mut Out) -> Result<(), String> {
    out.write(b"\"")?;
    for chunk in bytes.chunk_by(|one, next| !is_escaped(*one) && !is_escaped(*next)) {
        match chunk {
            [b'"'] => out.write(b"\\\""),
            [b'\\'] => out.write(b"\\\\"),
            [b'/'] => out.write(b"\\/"),
            [8] => out.write(b"\\b"),
            [9] => out.write(b"\\t"),
            [10] => out.write(b"\\n"),
            [12] => out.write(b"\\f"),
            [13] => out.write(b"\\r"),
            [byte] if is_escaped(*byte) => out.write(format!("\\u{byte:04x}").as_bytes()),
            plain => out.write(plain),
        }?;
    }
    out.write(b"\"")
}

fn is_escaped(byte: u8) -> bool {
    matches!(byte, 0..32 | b'"' | b'\\' | b'/' | 127)
}

/// A parsed value; `None` if it is deeper than allowed.
fn decode(lua: &Lua, parsed: &serde_json::Value, depth: usize) -> mlua::Result<Option<Value>> {
    use serde_json::Value as Json;
    Ok(Some(match parsed {
        Json::Null => Value::LightUserData(LightUserData(std::ptr::null_mut())),
        Json::Bool(is) => Value::Boolean(*is),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(_) | Json::Object(_) if depth == 0 => return Ok(None),
        Json::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (at, item) in items.iter().enumerate() {
                let Some(item) = decode(lua, item, depth - 1)? else {
                    return Ok(None);
                };
                table.raw_set(at + 1, item)?;
            }
            Value::Table(table)
        }
        Json::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, value) in fields {
                let Some(value) = decode(lua, value, depth - 1)? else {
                    return Ok(None);
                };
                table.raw_set(name.as_str(), value)?;
            }
            Value::Table(table)
        }
    }))
}
