//! The library `cmsgpack`: values as MessagePack, and back.

use mlua::{Lua, MultiValue, Table, Value};

use super::machine::{NO_MEMORY, bytes_left};

/// The depth below which tables are written as nil.
const DEPTH_MAX: usize = 16;

type Outcome = mlua::Result<(bool, MultiValue)>;

fn wrong(lua: &Lua, text: &str) -> Outcome {
    let text = Value::String(lua.create_string(text)?);
    Ok((false, MultiValue::from_iter([text])))
}

pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let pack = |lua: &Lua, args: MultiValue| -> Outcome {
        if args.is_empty() {
            return wrong(
                lua,
                "bad argument #0 to 'pack' (MessagePack pack needs input.)",
            );
        }
        let (mut out, bytes_max) = (Vec::new(), bytes_left(lua));
        for value in &args {
            pack(value, (0, bytes_max), &mut out)?;
        }
        let packed = Value::String(lua.create_string(&out)?);
        Ok((true, MultiValue::from_iter([packed])))
    };
    table.raw_set("pack", lua.create_function(pack)?)?;
    let unpack = |lua: &Lua, args: MultiValue| match args.front() {
        Some(Value::String(text)) => unpack(lua, &text.as_bytes(), (usize::MAX, 0), false),
        _ => wrong(lua, "bad argument #1 to 'unpack' (string expected)"),
    };
    table.raw_set("unpack", lua.create_function(unpack)?)?;
    let one = |lua: &Lua, (text, offset): (mlua::LuaString, Option<i64>)| {
        limited(lua, &text, 1, offset.unwrap_or(0))
    };
    table.raw_set("unpack_one", lua.create_function(one)?)?;
    let some = |lua: &Lua, (text, limit, offset): (mlua::LuaString, i64, Option<i64>)| {
        limited(lua, &text, limit, offset.unwrap_or(0))
    };
    table.raw_set("unpack_limit", lua.create_function(some)?)?;
    Ok(table)
}

fn limited(lua: &Lua, text: &mlua::LuaString, limit: i64, offset: i64) -> Outcome {
    let bytes = text.as_bytes();
    let (Ok(limit), Ok(offset)) = (usize::try_from(limit), usize::try_from(offset)) else {
        return wrong(
            lua,
            "Invalid request to unpack with offset or limit below zero",
        );
    };
    if offset > bytes.len() {
        return wrong(lua, "Start offset greater than the length of the input");
    }
    unpack(lua, &bytes, (limit, offset), true)
}

/// The values from an offset on; with `tells`, the offset of the next one stands in front, or -1.
fn unpack(lua: &Lua, bytes: &[u8], (limit, offset): (usize, usize), tells: bool) -> Outcome {
    let mut rest = &bytes[offset..];
    let mut values = Vec::new();
    while !rest.is_empty() && values.len() < limit {
        match read(lua, &mut rest, 0)? {
            Some(value) => values.push(value),
            None => return wrong(lua, "Missing bytes in input."),
        }
    }
    let mut results = MultiValue::from_iter(values);
    if tells {
        let next = match rest.is_empty() {
            true => -1.0,
            false => (bytes.len() - rest.len()) as f64,
        };
        results.push_front(Value::Number(next));
    }
    Ok((true, results))
}

/// Writes a length behind the marks of 8, 16 and 32 bits, of which the first may be missing.
fn length(out: &mut Vec<u8>, length: usize, marks: [Option<u8>; 3]) {
    match (marks, length) {
        ([Some(mark), ..], 0..=0xff) => out.extend_from_slice(&[mark, length as u8]),
        ([_, Some(mark), _], 0..=0xffff) => {
            out.push(mark);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(marks[2].unwrap_or_default());
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

fn integer(out: &mut Vec<u8>, number: i64) {
    match number {
        -32..=127 => out.push(number as u8),
        128..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&number.to_be_bytes());
        }
        -0x80..=-33 => out.extend_from_slice(&[0xd0, number as u8]),
        -0x8000..=-0x81 => {
            out.push(0xd1);
            out.extend_from_slice(&(number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend_from_slice(&(number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn float(out: &mut Vec<u8>, number: f64) {
    if f64::from(number as f32) == number {
        out.push(0xca);
        out.extend_from_slice(&(number as f32).to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn pack(value: &Value, (depth, bytes_max): (usize, usize), out: &mut Vec<u8>) -> mlua::Result<()> {
    let text_bytes = value.as_string().map_or(0, |text| text.as_bytes().len());
    if out.len() + text_bytes > bytes_max {
        return Err(mlua::Error::runtime(NO_MEMORY));
    }
    match value {
        Value::Boolean(is) => out.push(if *is { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => integer(out, *number),
        Value::Number(number) if number.fract() == 0.0 && number.abs() < 9e18 => {
            integer(out, *number as i64);
        }
        Value::Number(number) => float(out, *number),
        Value::String(text) => {
            let bytes = text.as_bytes();
            match bytes.len() {
                0..32 => out.push(0xa0 | bytes.len() as u8),
                more => length(out, more, [Some(0xd9), Some(0xda), Some(0xdb)]),
            }
            out.extend_from_slice(&bytes);
        }
        Value::Table(table) if depth < DEPTH_MAX => {
            return pack_table(table, (depth + 1, bytes_max), out);
        }
        _ => out.push(0xc0),
    }
    Ok(())
}

fn pack_table(table: &Table, bounds: (usize, usize), out: &mut Vec<u8>) -> mlua::Result<()> {
    // The values are not kept: a state can only hold some thousands at once.
    let (mut count, mut highest, mut is_list) = (0, 0.0_f64, true);
    table.for_each(|key: Value, _: Value| {
        let place = match &key {
            Value::Integer(place) => *place as f64,
            Value::Number(place) => *place,
            _ => 0.0,
        };
        is_list &= place > 0.0 && place.fract() == 0.0;
        highest = highest.max(place);
        count += 1;
        Ok(())
    })?;
    if is_list && count > 0 && highest == count as f64 {
        match count {
            0..16 => out.push(0x90 | count as u8),
            _ => length(out, count, [None, Some(0xdc), Some(0xdd)]),
        }
        return (1..=count).try_for_each(|at| pack(&table.raw_get(at)?, bounds, out));
    }
    match count {
        0..16 => out.push(0x80 | count as u8),
        _ => length(out, count, [None, Some(0xde), Some(0xdf)]),
    }
    table.for_each(|key: Value, value: Value| {
        pack(&key, bounds, out)?;
        pack(&value, bounds, out)
    })
}

/// Takes the first `count` bytes away.
fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

/// A number of `bytes` bytes.
fn number(rest: &mut &[u8], bytes: usize) -> Option<u64> {
    let taken = take(rest, bytes)?;
    Some(
        taken
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
    )
}

/// The next value; `None` if the bytes end before it does, or nest too deeply.
fn read(lua: &Lua, rest: &mut &[u8], depth: usize) -> mlua::Result<Option<Value>> {
    let Some(mark) = take(rest, 1).map(|it| it[0]) else {
        return Ok(None);
    };
    let signed = |rest: &mut &[u8], bytes: usize| {
        let shift = 64 - bytes * 8;
        number(rest, bytes).map(|it| Value::Number(((it << shift) as i64 >> shift) as f64))
    };
    let plain = match mark {
        0xc0 => Some(Value::Nil),
        0xc2 | 0xc3 => Some(Value::Boolean(mark == 0xc3)),
        0xca => number(rest, 4).map(|it| Value::Number(f64::from(f32::from_bits(it as u32)))),
        0xcb => number(rest, 8).map(|it| Value::Number(f64::from_bits(it))),
        0xcc..=0xcf => number(rest, 1 << (mark - 0xcc)).map(|it| Value::Number(it as f64)),
        0xd0..=0xd3 => signed(rest, 1 << (mark - 0xd0)),
        0x00..=0x7f => Some(Value::Number(f64::from(mark))),
        0xe0..=0xff => Some(Value::Number(f64::from(mark as i8))),
        _ => return read_long(lua, mark, rest, depth),
    };
    Ok(plain)
}

/// The value behind a mark of a string, a list or a map.
fn read_long(lua: &Lua, mark: u8, rest: &mut &[u8], depth: usize) -> mlua::Result<Option<Value>> {
    let count = match mark {
        0xa0..=0xbf => Some(u64::from(mark & 31)),
        0x80..=0x9f => Some(u64::from(mark & 15)),
        0xc4 | 0xd9 => number(rest, 1),
        0xc5 | 0xda | 0xdc | 0xde => number(rest, 2),
        0xc6 | 0xdb | 0xdd | 0xdf => number(rest, 4),
        _ => None,
    };
    // Each element takes a byte at least.
    let count = count.map(|it| it as usize).filter(|it| *it <= rest.len());
    let Some(count) = count.filter(|_| depth < 256) else {
        return Ok(None);
    };
    if matches!(mark, 0xa0..=0xbf | 0xc4..=0xc6 | 0xd9..=0xdb) {
        let bytes = take(rest, count).unwrap_or_default();
        return Ok(Some(Value::String(lua.create_string(bytes)?)));
    }
    let is_list = matches!(mark, 0x90..=0x9f | 0xdc | 0xdd);
    let table = lua.create_table()?;
    for at in 0..count {
        let key = match is_list {
            true => Value::Number((at + 1) as f64),
            false => match read(lua, rest, depth + 1)? {
                Some(key) if !key.is_nil() => key,
                _ => return Ok(None),
            },
        };
        let Some(value) = read(lua, rest, depth + 1)? else {
            return Ok(None);
        };
        table.raw_set(key, value)?;
    }
    Ok(Some(Value::Table(table)))
}
