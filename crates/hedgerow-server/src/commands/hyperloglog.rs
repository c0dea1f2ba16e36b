//! HyperLogLog: how many different elements were added, from 12 KiB at most. The string has the
//! bytes that Redis writes, so that both read what the other has written.
//!
//! ```text
//! "HYLL"      4
//! encoding    1   0: dense, 1: sparse
//! unused      3
//! count       8   of the last PFCOUNT, little-endian; the highest bit: not valid
//! dense           16,384 registers of 6 bits, the lowest bits first
//! sparse          00nnnnnn: n + 1 zeros; 01nnnnnn nnnnnnnn: n + 1 zeros;
//!                 1vvvvvnn: n + 1 registers of v + 1
//! ```

use super::Args;
use super::arguments::is;
use super::strings::{bytes, store, string};
use crate::resp::Reply;
use crate::store::{Answer, Stop, Txn};

const REGISTERS: usize = 1 << 14;
const HEADER_BYTES: usize = 16;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;
/// A longer sparse string becomes a dense one.
const SPARSE_BYTES_MAX: usize = 3_000;
/// The bits of a hash behind those of the register.
const HASH_BITS: u32 = 64 - 14;
const SEED: u64 = 0xadc8_3b19;

fn invalid() -> Stop {
    Stop::reply("INVALIDOBJ Corrupted HLL object detected")
}

/// MurmurHash64A, which Redis' registers are filled by.
fn hash(element: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    let mix = |word: u64| {
        let word = word.wrapping_mul(FACTOR);
        (word ^ word >> 47).wrapping_mul(FACTOR)
    };
    let mut hash = SEED ^ (element.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = element.as_chunks::<8>();
    for word in words {
        hash = (hash ^ mix(u64::from_le_bytes(*word))).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(FACTOR);
    hash ^ hash >> 47
}

struct Registers(Vec<u8>);

impl Registers {
    fn new() -> Registers {
        Registers(vec![0; REGISTERS])
    }

    /// The registers of a string.
    fn read(stored: &[u8]) -> Answer<Registers> {
        let not_one = || Stop::reply("WRONGTYPE Key is not a valid HyperLogLog string value.");
        let (header, body) = stored.split_at_checked(HEADER_BYTES).ok_or_else(not_one)?;
        if !header.starts_with(b"HYLL") {
            return Err(not_one());
        }
        match header[4] {
            0 if stored.len() == DENSE_BYTES => Ok(Registers::of_dense(body)),
            1 => Registers::of_sparse(body),
            _ => Err(not_one()),
        }
    }

    fn of_dense(body: &[u8]) -> Registers {
        let word = |at: usize| {
            let [low, high] = [at, at + 1].map(|at| u16::from(*body.get(at).unwrap_or(&0)));
            low | high << 8
        };
        let register = |at: usize| (word(at * 6 / 8) >> (at * 6 % 8)) as u8 & 63;
        Registers((0..REGISTERS).map(register).collect())
    }

    fn of_sparse(body: &[u8]) -> Answer<Registers> {
        let mut registers = Vec::with_capacity(REGISTERS);
        let mut body = body.iter();
        while let Some(byte) = body.next() {
            let low = usize::from(byte & 63);
            let (value, count) = match byte >> 6 {
                0 => (0, low + 1),
                1 => {
                    let next = body.next().ok_or_else(invalid)?;
                    (0, (low << 8 | usize::from(*next)) + 1)
                }
                _ => (byte >> 2 & 31, usize::from(byte & 3) + 1),
            };
            let value = if byte >> 7 == 1 { value + 1 } else { value };
            if registers.len() + count > REGISTERS {
                return Err(invalid());
            }
            registers.resize(registers.len() + count, value);
        }
        match registers.len() {
            REGISTERS => Ok(Registers(registers)),
            _ => Err(invalid()),
        }
    }

    /// Adds an element. Returns true if a register grew.
    fn add(&mut self, element: &[u8]) -> bool {
        let hash = hash(element);
        let register = &mut self.0[hash as usize % REGISTERS];
        let rest = hash >> 14 | 1 << HASH_BITS;
        let value = rest.trailing_zeros() as u8 + 1;
        let grows = value > *register;
        *register = value.max(*register);
        grows
    }

    fn merge(&mut self, other: &Registers) {
        for (one, other) in self.0.iter_mut().zip(&other.0) {
            *one = (*one).max(*other);
        }
    }

    /// The estimate of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches".
    fn count(&self) -> u64 {
        let mut with_value = [0_u32; 64];
        for value in &self.0 {
            with_value[usize::from(*value)] += 1;
        }
        let all = REGISTERS as f64;
        let part = |value: usize| f64::from(with_value[value]);
        let last = HASH_BITS as usize;
        let mut sum = all * tau((all - part(last + 1)) / all);
        for value in (1..=last).rev() {
            sum = (sum + part(value)) * 0.5;
        }
        sum += all * sigma(part(0) / all);
        (all * all / (2.0 * std::f64::consts::LN_2 * sum)).round() as u64
    }

    /// The string of these registers, without a count. `None` if it is too long to be sparse.
    fn sparse(&self) -> Option<Vec<u8>> {
        let mut out = header(1);
        for run in self.0.chunk_by(|one, other| one == other) {
            let (value, mut left) = (run[0], run.len());
            if value > 32 {
                return None;
            }
            while left > 0 {
                let (most, count) = match value {
                    0 => (REGISTERS, left),
                    _ => (4, left.min(4)),
                };
                let count = count.min(most);
                match (value, count) {
                    (0, 1..=64) => out.push(count as u8 - 1),
                    (0, _) => {
                        let number = count as u16 - 1;
                        out.extend_from_slice(&[0x40 | (number >> 8) as u8, number as u8]);
                    }
                    _ => out.push(0x80 | (value - 1) << 2 | (count as u8 - 1)),
                }
                left -= count;
            }
        }
        (out.len() <= SPARSE_BYTES_MAX).then_some(out)
    }

    fn dense(&self) -> Vec<u8> {
        let mut out = header(0);
        out.resize(DENSE_BYTES, 0);
        for (at, value) in self.0.iter().enumerate() {
            let place = HEADER_BYTES + at * 6 / 8;
            let bits = u16::from(*value) << (at * 6 % 8);
            out[place] |= bits as u8;
            if let Some(next) = out.get_mut(place + 1) {
                *next |= (bits >> 8) as u8;
            }
        }
        out
    }

    fn write(&self, was_dense: bool) -> Vec<u8> {
        let sparse = if was_dense { None } else { self.sparse() };
        sparse.unwrap_or_else(|| self.dense())
    }
}

/// A header whose count is not valid.
fn header(encoding: u8) -> Vec<u8> {
    let mut header = b"HYLL".to_vec();
    header.resize(HEADER_BYTES, 0);
    header[4] = encoding;
    header[HEADER_BYTES - 1] = 0x80;
    header
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x).powi(2) * y;
        if sum == before {
            return sum / 3.0;
        }
    }
}

fn is_dense(stored: &[u8]) -> bool {
    stored.get(4) == Some(&0)
}

pub(super) fn pfadd(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = string(txn, args[1])?;
    let is_new = !entry.exists();
    let mut registers = match is_new {
        true => Registers::new(),
        false => Registers::read(bytes(&entry))?,
    };
    let grown = args[2..].iter().filter(|it| registers.add(it)).count();
    if grown == 0 && !is_new {
        return Ok(Reply::Integer(0));
    }
    let value = registers.write(!is_new && is_dense(bytes(&entry)));
    store(txn, &mut entry, value, "pfadd")?;
    Ok(Reply::Integer(1))
}

pub(super) fn pfcount(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    if args.len() > 2 {
        let merged = merged(txn, &args[1..])?;
        return Ok(Reply::Integer(merged.count() as i64));
    }
    let mut entry = string(txn, args[1])?;
    if !entry.exists() {
        return Ok(Reply::Integer(0));
    }
    let stored = bytes(&entry);
    let registers = Registers::read(stored)?;
    if let Some(count) = stored[8..].first_chunk::<8>()
        && count[7] & 0x80 == 0
    {
        return Ok(Reply::Integer(u64::from_le_bytes(*count) as i64));
    }
    let count = registers.count();
    if txn.refusal.is_some() {
        return Ok(Reply::Integer(count as i64));
    }
    let mut value = stored.to_vec();
    value[8..16].copy_from_slice(&count.to_le_bytes());
    let meta = crate::store::Meta::string(value, entry.expires());
    txn.store(&mut entry, meta)?;
    Ok(Reply::Integer(count as i64))
}

/// The registers of all keys together.
fn merged(txn: &mut Txn<'_>, keys: &[&[u8]]) -> Answer<Registers> {
    txn.prefetch(keys)?;
    let mut merged = Registers::new();
    for key in keys {
        let entry = string(txn, key)?;
        if entry.exists() {
            merged.merge(&Registers::read(bytes(&entry))?);
        }
    }
    Ok(merged)
}

pub(super) fn pfmerge(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let merged = merged(txn, &args[1..])?;
    let mut is_any_dense = false;
    for key in &args[1..] {
        is_any_dense |= is_dense(bytes(&string(txn, key)?));
    }
    let mut entry = string(txn, args[1])?;
    store(txn, &mut entry, merged.write(is_any_dense), "pfadd")?;
    Ok(Reply::OK)
}

/// PFDEBUG: looks into a HyperLogLog, or makes it dense.
pub(super) fn pfdebug(txn: &mut Txn<'_>, args: Args<'_>) -> Answer<Reply> {
    let mut entry = string(txn, args[2])?;
    if !entry.exists() {
        return Err(Stop::reply("ERR The specified key does not exist"));
    }
    let registers = Registers::read(bytes(&entry))?;
    match args[1] {
        it if is(it, "ENCODING") => Ok(Reply::Status(match is_dense(bytes(&entry)) {
            true => "dense",
            false => "sparse",
        })),
        it if is(it, "GETREG") => {
            let values = registers.0.iter().map(|it| Reply::Integer(i64::from(*it)));
            Ok(Reply::Array(values.collect()))
        }
        it if is(it, "TODENSE") => {
            let was_sparse = !is_dense(bytes(&entry));
            if was_sparse {
                store(txn, &mut entry, registers.dense(), "pfadd")?;
            }
            Ok(Reply::Integer(i64::from(was_sparse)))
        }
        _ => Err(Stop::reply(
            "ERR PFDEBUG knows ENCODING, GETREG and TODENSE",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_hold_the_same_and_counts_are_close() {
        let mut registers = Registers::new();
        for number in 0..100_000_u32 {
            registers.add(&number.to_le_bytes());
            if [10, 300, 1_000, 99_999].contains(&number) {
                let dense = Registers::read(&registers.dense()).ok().map(|it| it.0);
                assert_eq!(dense.as_ref(), Some(&registers.0));
                if let Some(sparse) = registers.sparse() {
                    assert_eq!(Registers::read(&sparse).ok().map(|it| it.0), dense);
                }
                let error = registers.count() as f64 / f64::from(number + 1) - 1.0;
                assert!(error.abs() < 0.03, "{number}: {error}");
            }
        }
        assert!(registers.sparse().is_none());
    }

    #[test]
    fn other_bytes_are_refused() {
        for length in 0..40 {
            let mut bytes = header(1);
            bytes.resize(length, 0xff);
            assert!(Registers::read(&bytes).is_err());
        }
    }
}
