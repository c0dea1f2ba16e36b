//! The library `bit`: operations on the lowest 32 bits of numbers.

use mlua::{Lua, MultiValue, Table, Value};

use super::outcome::{Outcome, wrong};

type Fold = (&'static str, fn(i32, i32) -> i32);
type Shift = (&'static str, fn(i32, u32) -> i32);
type Change = (&'static str, fn(i32) -> i32);

/// A number as 32 bits; what does not fit is cut off.
fn bits(value: Option<&Value>) -> Option<i32> {
    let number = match value? {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        Value::String(text) => text.to_str().ok()?.trim().parse().ok()?,
        _ => return None,
    };
    Some(number.rem_euclid(4_294_967_296.0) as u32 as i32)
}

fn outcome(lua: &Lua, result: Option<i32>) -> Outcome {
    match result {
        Some(number) => Ok((true, Value::Number(f64::from(number)))),
        None => wrong(lua, "expected numbers"),
    }
}

pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let folds: [Fold; 3] = [
        ("band", |one, other| one & other),
        ("bor", |one, other| one | other),
        ("bxor", |one, other| one ^ other),
    ];
    for (name, fold) in folds {
        let run = move |lua: &Lua, args: MultiValue| {
            let numbers = args.iter().map(|it| bits(Some(it)));
            let numbers: Option<Vec<i32>> = numbers.collect();
            let folded = numbers.and_then(|it| it.into_iter().reduce(fold));
            outcome(lua, folded)
        };
        table.raw_set(name, lua.create_function(run)?)?;
    }
    let shifts: [Shift; 5] = [
        ("lshift", |number, by| number << by),
        ("rshift", |number, by| (number as u32 >> by) as i32),
        ("arshift", |number, by| number >> by),
        ("rol", i32::rotate_left),
        ("ror", i32::rotate_right),
    ];
    for (name, shift) in shifts {
        let run = move |lua: &Lua, args: MultiValue| {
            let pair = bits(args.front()).zip(bits(args.get(1)));
            outcome(lua, pair.map(|(number, by)| shift(number, by as u32 & 31)))
        };
        table.raw_set(name, lua.create_function(run)?)?;
    }
    let plain: [Change; 3] = [
        ("tobit", |number| number),
        ("bnot", |number| !number),
        ("bswap", i32::swap_bytes),
    ];
    for (name, change) in plain {
        let run = move |lua: &Lua, args: MultiValue| outcome(lua, bits(args.front()).map(change));
        table.raw_set(name, lua.create_function(run)?)?;
    }
    let hex = |lua: &Lua, args: MultiValue| {
        let digits = bits(args.get(1)).unwrap_or(8);
        match bits(args.front()) {
            None => outcome(lua, None),
            Some(number) => {
                let text = format!("{:08x}", number as u32);
                let text = if digits < 0 {
                    text.to_uppercase()
                } else {
                    text
                };
                let from = 8 - digits.unsigned_abs().min(8) as usize;
                Ok((true, Value::String(lua.create_string(&text[from..])?)))
            }
        }
    };
    table.raw_set("tohex", lua.create_function(hex)?)?;
    Ok(table)
}
