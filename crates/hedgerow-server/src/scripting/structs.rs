//! The library `struct`: values as bytes of given formats, as programs in C lay them out.
//!
//! | format | value |
//! |---|---|
//! | `b` `h` `l` `i` `iN` | a number with a sign, of 1, 2, 8, 4 or `N` bytes |
//! | `B` `H` `L` `I` `IN` | the same without a sign |
//! | `T` | a number without a sign, of 8 bytes |
//! | `f` `d` | a float of 4 or 8 bytes |
//! | `s` | a string that ends with a zero byte |
//! | `cN` | `N` bytes; `c0`: all of a string, or as many as the number read before says |
//! | `x` | a byte between values |
//! | `>` `<` | what follows begins with its highest, or lowest, byte |
//! | `!N` | what follows begins at multiples of its size, at most `N` |

use mlua::{Lua, MultiValue, Table, Value};

/// The bytes of a number.
const NUMBER_BYTES_MAX: usize = 32;
/// The bytes of everything that is packed.
const PACKED_BYTES_MAX: usize = 64 << 20;

type Result<T> = std::result::Result<T, String>;

/// A format, taken apart one letter after the other.
struct Format<'a> {
    rest: &'a [u8],
    is_big: bool,
    align: usize,
}

/// One value of a format, and its bytes.
struct Item {
    letter: u8,
    size: usize,
}

impl Format<'_> {
    fn new(text: &[u8]) -> Format<'_> {
        Format {
            rest: text,
            is_big: false,
            align: 1,
        }
    }

    /// The number behind a letter.
    fn number(&mut self) -> Result<Option<usize>> {
        let digits = self
            .rest
            .iter()
            .take_while(|it| it.is_ascii_digit())
            .count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if digits == 0 {
            return Ok(None);
        }
        let number = std::str::from_utf8(number)
            .ok()
            .and_then(|it| it.parse().ok());
        let number = number.filter(|it| *it <= PACKED_BYTES_MAX);
        number
            .map(Some)
            .ok_or_else(|| "integral size overflow".to_owned())
    }

    fn next(&mut self) -> Result<Option<Item>> {
        while let Some((letter, rest)) = self.rest.split_first() {
            self.rest = rest;
            let size = match letter {
                b' ' => continue,
                b'>' | b'<' => {
                    self.is_big = *letter == b'>';
                    continue;
                }
                b'!' => {
                    self.align = self.number()?.unwrap_or(8);
                    if !self.align.is_power_of_two() {
                        return Err("alignment is not a power of 2".to_owned());
                    }
                    continue;
                }
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b's' => 0,
                b'c' => self.number()?.unwrap_or(1),
                b'i' | b'I' => {
                    let size = self.number()?.unwrap_or(4);
                    if !(1..=NUMBER_BYTES_MAX).contains(&size) {
                        return Err(format!(
                            "integral size {size} is larger than limit of {NUMBER_BYTES_MAX}"
                        ));
                    }
                    size
                }
                other => return Err(format!("invalid format option '{}'", char::from(*other))),
            };
            return Ok(Some(Item {
                letter: *letter,
                size,
            }));
        }
        Ok(None)
    }

    /// The bytes before a value at this place.
    fn padding(&self, item: &Item, place: usize) -> usize {
        if item.size == 0 || item.letter == b'c' {
            return 0;
        }
        let size = item.size.min(self.align);
        place.next_multiple_of(size) - place
    }

    /// Appends a value, lowest byte first, in the order of the format.
    fn put(&self, out: &mut Vec<u8>, mut bytes: Vec<u8>) {
        if self.is_big {
            bytes.reverse();
        }
        out.append(&mut bytes);
    }
}

fn number(value: Option<&Value>) -> Result<f64> {
    let number = value.and_then(|it| match it {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => text.to_str().ok()?.trim().parse().ok(),
        _ => None,
    });
    number.ok_or_else(|| "number expected".to_owned())
}

fn text(value: Option<&Value>) -> Result<Vec<u8>> {
    let bytes = value.and_then(super::convert::word);
    bytes.ok_or_else(|| "string expected".to_owned())
}

/// A number as `size` bytes, the lowest first; what does not fit is cut off.
fn integer_bytes(number: f64, size: usize) -> Vec<u8> {
    // The range of a number without a sign lies above that of one with.
    let whole = if number < 0.0 {
        number as i64
    } else {
        number as u64 as i64
    };
    let mut bytes = whole.to_le_bytes().to_vec();
    bytes.resize(
        size.max(8),
        if whole < 0 && number < 0.0 { 0xFF } else { 0 },
    );
    bytes.truncate(size);
    bytes
}

fn pack(args: &MultiValue) -> Result<Vec<u8>> {
    let layout = text(args.front())?;
    let (mut format, mut out) = (Format::new(&layout), Vec::new());
    let mut values = args.iter().skip(1);
    while let Some(item) = format.next()? {
        out.resize(out.len() + format.padding(&item, out.len()), 0);
        match item.letter {
            b'x' => out.push(0),
            b'f' => format.put(
                &mut out,
                (number(values.next())? as f32).to_le_bytes().into(),
            ),
            b'd' => format.put(&mut out, number(values.next())?.to_le_bytes().into()),
            b's' => {
                out.append(&mut text(values.next())?);
                out.push(0);
            }
            b'c' => {
                let mut bytes = text(values.next())?;
                if item.size > bytes.len() {
                    return Err("string too short".to_owned());
                }
                if item.size > 0 {
                    bytes.truncate(item.size);
                }
                out.append(&mut bytes);
            }
            _ => format.put(&mut out, integer_bytes(number(values.next())?, item.size)),
        }
        if out.len() > PACKED_BYTES_MAX {
            return Err("the packed values are too large".to_owned());
        }
    }
    Ok(out)
}

/// The number of some bytes, the lowest first; above 8 bytes, only what a number of 8 has counts.
fn integer_of(bytes: &[u8], is_signed: bool) -> f64 {
    let mut wide = [0; 8];
    let used = bytes.len().min(8);
    wide[..used].copy_from_slice(&bytes[..used]);
    let unsigned = u64::from_le_bytes(wide);
    if !is_signed {
        return unsigned as f64;
    }
    let unused = 64 - 8 * used as u32;
    (((unsigned << unused) as i64) >> unused) as f64
}

fn unpack(lua: &Lua, args: &MultiValue) -> Result<Vec<Value>> {
    let (layout, data) = (text(args.front())?, text(args.get(1))?);
    let mut place = match args.get(2) {
        None | Some(Value::Nil) => 0,
        start => ((number(start)?.max(1.0) - 1.0) as usize).min(data.len() + 1),
    };
    let (mut format, mut values) = (Format::new(&layout), Vec::new());
    let too_short = || "data string too short".to_owned();
    let string = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    while let Some(item) = format.next()? {
        place = place.saturating_add(format.padding(&item, place));
        let behind = data.get(place..).ok_or_else(too_short)?;
        let size = match item.letter {
            b's' => behind
                .iter()
                .position(|it| *it == 0)
                .ok_or("unfinished string in data")?,
            b'c' if item.size == 0 => {
                let size = values.pop();
                let size =
                    number(size.as_ref()).map_err(|_| "format 'c0' needs a previous size")?;
                size.max(0.0) as usize
            }
            _ => item.size,
        };
        let taken = behind.get(..size).ok_or_else(too_short)?;
        let mut bytes = taken.to_vec();
        if format.is_big && !matches!(item.letter, b's' | b'c') {
            bytes.reverse();
        }
        let value = match item.letter {
            b'x' => None,
            b's' | b'c' => Some(string(taken).map_err(|it| it.to_string())?),
            b'f' => bytes
                .try_into()
                .ok()
                .map(|it| f64::from(f32::from_le_bytes(it)))
                .map(Value::Number),
            b'd' => bytes
                .try_into()
                .ok()
                .map(f64::from_le_bytes)
                .map(Value::Number),
            letter => Some(Value::Number(integer_of(
                &bytes,
                letter.is_ascii_lowercase(),
            ))),
        };
        values.extend(value);
        place += size + usize::from(item.letter == b's');
    }
    values.push(Value::Number((place + 1) as f64));
    Ok(values)
}

fn size(args: &MultiValue) -> Result<usize> {
    let layout = text(args.front())?;
    let (mut format, mut place) = (Format::new(&layout), 0_usize);
    while let Some(item) = format.next()? {
        if item.letter == b's' || item.letter == b'c' && item.size == 0 {
            return Err("variable-size format for struct.size".to_owned());
        }
        place = place.saturating_add(format.padding(&item, place) + item.size);
    }
    Ok(place)
}

pub(super) fn functions(lua: &Lua) -> mlua::Result<Table> {
    fn outcome(lua: &Lua, result: Result<Vec<Value>>) -> mlua::Result<MultiValue> {
        let (ok, mut values) = match result {
            Ok(values) => (true, values),
            Err(text) => (false, vec![Value::String(lua.create_string(text)?)]),
        };
        values.insert(0, Value::Boolean(ok));
        Ok(MultiValue::from_vec(values))
    }
    let table = lua.create_table()?;
    let packed = |lua: &Lua, args: MultiValue| match pack(&args) {
        Ok(bytes) => outcome(lua, Ok(vec![Value::String(lua.create_string(bytes)?)])),
        Err(text) => outcome(lua, Err(text)),
    };
    table.raw_set("pack", lua.create_function(packed)?)?;
    let unpacked = |lua: &Lua, args: MultiValue| outcome(lua, unpack(lua, &args));
    table.raw_set("unpack", lua.create_function(unpacked)?)?;
    let sized = |lua: &Lua, args: MultiValue| {
        outcome(lua, size(&args).map(|it| vec![Value::Number(it as f64)]))
    };
    table.raw_set("size", lua.create_function(sized)?)?;
    Ok(table)
}
