//! Strings as arrays of bits. Bit 0 is the highest of the first byte.

use super::Args;
use super::arguments::{Options, integer, is, slice};
use super::strings::{STRING_BYTES_MAX, bytes, store, string};
use crate::resp::Reply;
use crate::store::{Answer, Stop, Txn};

fn offset(argument: &[u8], width: u64) -> Answer<u64> {
    let wrong = || Stop::reply("ERR bit offset is not an integer or out of range");
    let (digits, factor) = match argument.strip_prefix(b"#") {
        Some(digits) => (digits, width),
        None => (argument, 1),
    };
    let number = crate::number::integer(digits).and_then(|it| u64::try_from(it).ok());
    let bit = number
        .and_then(|it| it.checked_mul(factor))
        .ok_or_else(wrong)?;
    let within = bit < STRING_BYTES_MAX as u64 * 8;
    within.then_some(bit).ok_or_else(wrong)
}

fn bit(argument: &[u8], wrong: &str) -> Answer<u8> {
    match argument {
        b"0" => Ok(0),
        b"1" => Ok(1),
        _ => Err(Stop::reply(wrong)),
    }
}

fn bit_of(value: &[u8], place: u64) -> u8 {
    let byte = value.get((place / 8) as usize).copied().unwrap_or(0);
    byte >> (7 - place % 8) & 1
}

fn set_bit(value: &mut [u8], place: u64, to: u8) {
    let shift = 7 - place % 8;
    let byte = &mut value[(place / 8) as usize];
    *byte = *byte & !(1 << shift) | to << shift;
}

pub(super) fn getbit(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let place = offset(args[2], 1)?;
    let entry = string(txn, args[1])?;
    Ok(Reply::Integer(i64::from(bit_of(bytes(&entry), place))))
}

pub(super) fn setbit(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let place = offset(args[2], 1)?;
    let to = bit(args[3], "ERR bit is not an integer or out of range")?;
    let mut entry = string(txn, args[1])?;
    let mut value = bytes(&entry).to_vec();
    let old = bit_of(&value, place);
    if old == to && place / 8 < value.len() as u64 {
        return Ok(Reply::Integer(i64::from(old)));
    }
    value.resize(value.len().max((place / 8) as usize + 1), 0);
    set_bit(&mut value, place, to);
    store(txn, &mut entry, value, "setbit")?;
    Ok(Reply::Integer(i64::from(old)))
}

/// The bits of a range that is given in bytes or, with `BIT`, in bits; `None` for no bits.
fn range(
    args: Args<'_>,
    start: usize,
    bytes: usize,
) -> Answer<Option<std::ops::RangeInclusive<u64>>> {
    let stop = args.get(start + 1);
    let in_bits = match args.get(start + 2) {
        None => false,
        Some(unit) if is(unit, "BIT") => true,
        Some(unit) if is(unit, "BYTE") => false,
        Some(_) => return Err(Stop::syntax()),
    };
    if args.len() > start + 3 {
        return Err(Stop::syntax());
    }
    let first = args.get(start).map_or(Ok(0), |it| integer(it))?;
    let last = stop.map_or(Ok(-1), |it| integer(it))?;
    let length = bytes as u64 * if in_bits { 8 } else { 1 };
    // BITCOUNT has no bits then, BITPOS the first ones of a shorter string.
    if is(args[0], "BITCOUNT") && first < 0 && last < 0 && first > last {
        return Ok(None);
    }
    let places = slice(first, last.max(-(length as i64)), length);
    let bits = |it: std::ops::RangeInclusive<u64>| match in_bits {
        true => it,
        false => it.start() * 8..=it.end() * 8 + 7,
    };
    Ok(places.map(bits))
}

pub(super) fn bitcount(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    if args.len() == 3 {
        return Err(Stop::syntax());
    }
    let entry = string(txn, args[1])?;
    let value = bytes(&entry);
    let Some(range) = range(args, 2, value.len())? else {
        return Ok(Reply::Integer(0));
    };
    let (first, last) = (*range.start(), *range.end());
    let (from, to) = ((first / 8) as usize, (last / 8) as usize);
    let mut count: u64 = value[from..=to]
        .iter()
        .map(|byte| u64::from(byte.count_ones()))
        .sum();
    count -= (from as u64 * 8..first)
        .map(|it| u64::from(bit_of(value, it)))
        .sum::<u64>();
    count -= (last + 1..to as u64 * 8 + 8)
        .map(|it| u64::from(bit_of(value, it)))
        .sum::<u64>();
    Ok(Reply::Integer(count as i64))
}

pub(super) fn bitpos(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let wanted = bit(args[2], "ERR The bit argument must be 1 or 0.")?;
    let entry = string(txn, args[1])?;
    let value = bytes(&entry);
    if !entry.exists() {
        return Ok(Reply::Integer(if wanted == 1 { -1 } else { 0 }));
    }
    let has_end = args.len() > 4;
    let Some(range) = range(args, 3, value.len())? else {
        return Ok(Reply::Integer(-1));
    };
    let end = *range.end();
    let skipped = if wanted == 1 { 0 } else { 0xFF };
    let mut place = *range.start();
    while place <= end {
        if place % 8 == 0 && value[(place / 8) as usize] == skipped {
            place += 8;
        } else if bit_of(value, place) == wanted {
            return Ok(Reply::Integer(place as i64));
        } else {
            place += 1;
        }
    }
    // Behind a string without an end there are zeros.
    let behind = wanted == 0 && !has_end;
    Ok(Reply::Integer(if behind { end as i64 + 1 } else { -1 }))
}

pub(super) fn bitop(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let combine: fn(u8, u8) -> u8 = match args[1] {
        it if is(it, "AND") => |a, b| a & b,
        it if is(it, "OR") => |a, b| a | b,
        it if is(it, "XOR") => |a, b| a ^ b,
        it if is(it, "NOT") => |a, _| !a,
        _ => return Err(Stop::syntax()),
    };
    let is_not = is(args[1], "NOT");
    if is_not && args.len() != 4 {
        return Err(Stop::reply(
            "ERR BITOP NOT must be called with a single source key.",
        ));
    }
    txn.prefetch(&args[3..])?;
    let mut combined = bytes(&string(txn, args[3])?).to_vec();
    if is_not {
        combined.iter_mut().for_each(|it| *it = combine(*it, 0));
    }
    for key in &args[4..] {
        let entry = string(txn, key)?;
        let value = bytes(&entry);
        combined.resize(combined.len().max(value.len()), 0);
        let others = value.iter().chain(std::iter::repeat(&0));
        let both = combined.iter_mut().zip(others);
        both.for_each(|(it, other)| *it = combine(*it, *other));
    }
    let length = combined.len();
    let mut target = txn.lookup(args[2])?;
    if combined.is_empty() {
        txn.del(&mut target)?;
        return Ok(Reply::Integer(0));
    }
    txn.store(&mut target, crate::store::Meta::string(combined, 0))?;
    txn.event(&target, b'$', "set");
    Ok(Reply::count(length))
}

/// An integer of some bits in a string.
#[derive(Clone, Copy)]
struct Field {
    is_signed: bool,
    bits: u32,
}

#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Field {
    fn parse(argument: &[u8]) -> Answer<Field> {
        let wrong = || {
            Stop::reply(
                "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not \
                 supported but i64 is.",
            )
        };
        let (kind, digits) = argument.split_first().ok_or_else(wrong)?;
        let is_signed = match kind {
            b'i' => true,
            b'u' => false,
            _ => return Err(wrong()),
        };
        let bits = crate::number::integer(digits).ok_or_else(wrong)?;
        let max = if is_signed { 64 } else { 63 };
        if !(1..=max).contains(&bits) {
            return Err(wrong());
        }
        Ok(Field {
            is_signed,
            bits: bits as u32,
        })
    }

    fn read(self, value: &[u8], place: u64) -> i64 {
        let bits = (0..u64::from(self.bits)).map(|it| u64::from(bit_of(value, place + it)));
        let raw = bits.fold(0u64, |sum, bit| sum << 1 | bit);
        self.of_raw(raw)
    }

    fn of_raw(self, raw: u64) -> i64 {
        let unused = 64 - self.bits;
        match self.is_signed {
            true => (raw << unused) as i64 >> unused,
            false => (raw << unused >> unused) as i64,
        }
    }

    /// The bytes of a string in which the field is the last one.
    fn end(self, place: u64) -> usize {
        (place + u64::from(self.bits)).div_ceil(8) as usize
    }

    fn write(self, value: &mut [u8], place: u64, number: i64) {
        for it in 0..self.bits {
            let bit = (number >> (self.bits - 1 - it) & 1) as u8;
            set_bit(value, place + u64::from(it), bit);
        }
    }

    /// The number as the field can hold it; `None` if it cannot and must.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = match self.is_signed {
            true => (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1),
            false => (0, (1i128 << self.bits) - 1),
        };
        if (min..=max).contains(&number) {
            return Some(number as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.of_raw(number as u64)),
            Overflow::Saturate => Some(number.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }
}

pub(super) fn bitfield(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    run_fields(txn, args, false)
}

pub(super) fn bitfield_ro(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    run_fields(txn, args, true)
}

/// A part of BITFIELD: its word, where its field is, its number, and what is done if that does not
/// fit.
type Step<'a> = (&'a [u8], Field, u64, i64, Overflow);

fn field_steps<'a>(args: Args<'a>, read_only: bool) -> Answer<Vec<Step<'a>>> {
    let mut options = Options::new(&args[2..]);
    let mut overflow = Overflow::Wrap;
    let mut steps = Vec::new();
    while let Some(word) = options.next() {
        if is(word, "OVERFLOW") {
            let wrong = || Stop::reply("ERR Invalid OVERFLOW type specified");
            overflow = match options.value()? {
                it if is(it, "WRAP") => Overflow::Wrap,
                it if is(it, "SAT") => Overflow::Saturate,
                it if is(it, "FAIL") => Overflow::Fail,
                _ => return Err(wrong()),
            };
            continue;
        }
        let known = ["GET", "SET", "INCRBY"].iter().any(|it| is(word, it));
        if !known {
            return Err(Stop::syntax());
        }
        let field = Field::parse(options.value()?)?;
        let place = offset(options.value()?, u64::from(field.bits))?;
        let number = if is(word, "GET") {
            0
        } else {
            options.integer()?
        };
        if read_only && !is(word, "GET") {
            return Err(Stop::reply(
                "ERR BITFIELD_RO only supports the GET subcommand",
            ));
        }
        steps.push((word, field, place, number, overflow));
    }
    Ok(steps)
}

fn run_fields(txn: &mut Txn<'_>, args: Args<'_>, read_only: bool) -> Answer<Reply> {
    let steps = field_steps(args, read_only)?;
    let mut entry = string(txn, args[1])?;
    let mut value = bytes(&entry).to_vec();
    // Redis makes room for all fields first, also for numbers that turn out not to fit.
    let written = steps.iter().filter(|it| !is(it.0, "GET"));
    let ends = written.map(|(_, field, place, ..)| field.end(*place));
    value.resize(ends.fold(value.len(), usize::max), 0);
    let mut replies = Vec::new();
    for (word, field, place, number, overflow) in steps {
        let old = field.read(&value, place);
        if is(word, "GET") {
            replies.push(Reply::Integer(old));
            continue;
        }
        let wanted = match is(word, "SET") {
            // A negative number is a large one for a field that has no sign.
            true if !field.is_signed => i128::from(number as u64),
            true => i128::from(number),
            false => i128::from(old) + i128::from(number),
        };
        let Some(new) = field.fit(wanted, overflow) else {
            replies.push(Reply::Null);
            continue;
        };
        field.write(&mut value, place, new);
        replies.push(Reply::Integer(if is(word, "SET") { old } else { new }));
    }
    if value != bytes(&entry) {
        store(txn, &mut entry, value, "setbit")?;
    }
    Ok(Reply::Array(replies))
}

#[cfg(test)]
mod tests {
    use crate::commands::world::World;

    #[test]
    fn negative_numbers_are_large_ones_for_fields_without_a_sign() {
        let world = World::new();
        for (words, expected) in [
            ("BITFIELD s OVERFLOW SAT SET u8 0 -1 GET u8 0", "0 255"),
            ("BITFIELD w SET u8 0 -2 GET u8 0", "0 254"),
            ("BITFIELD i OVERFLOW SAT SET i8 0 -200 GET i8 0", "0 -128"),
            ("BITFIELD d OVERFLOW SAT INCRBY u8 0 -1", "0"),
            ("BITFIELD f OVERFLOW FAIL SET u8 0 -1", "nil"),
        ] {
            assert_eq!(world.run(words), expected, "{words}");
        }
    }

    #[test]
    fn what_does_not_fit_has_its_place() {
        let world = World::new();
        for (words, expected) in [
            ("BITFIELD q OVERFLOW FAIL INCRBY u8 8 -1", "nil"),
            ("STRLEN q", "2"),
            ("BITFIELD none GET u8 8", "0"),
            ("EXISTS none", "0"),
        ] {
            assert_eq!(world.run(words), expected, "{words}");
        }
    }
}
