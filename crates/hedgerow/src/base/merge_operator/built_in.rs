//! The operators that every database has.
//!
//! | name | value | operand |
//! |---|---|---|
//! | `add_i64` | a number of 8 bytes, little-endian; wraps around | a number |
//! | `add_f64` | a float of 8 bytes, little-endian; a sum depends on the order | a float |
//! | `min`, `max` | bytes | bytes; the smaller or the larger stays, in byte order |
//! | `append` | bytes | bytes that are added at the end |
//! | `bit_and`, `bit_or`, `bit_xor` | bytes; a shorter side has zeros at its end | bytes |
//! | `union_u64` | ascending numbers of 8 bytes each, big-endian | numbers to add, in any order |

use std::sync::Arc;

use super::{MergeError, MergeOperator};

type OperatorResult = Result<Vec<u8>, MergeError>;

/// An operator whose operands are values: one function combines both.
struct Values {
    name: &'static str,
    check: fn(&[u8]) -> Result<(), MergeError>,
    /// Adds an operand to a value.
    add: fn(&mut Vec<u8>, &[u8]),
    /// Brings all operands into the form of a value; most are in it.
    normalize: fn(&mut Vec<u8>),
}

impl Values {
    fn combined<'a>(&self, values: impl Iterator<Item = &'a [u8]>) -> OperatorResult {
        let mut sum: Option<Vec<u8>> = None;
        for value in values {
            (self.check)(value)?;
            match &mut sum {
                None => sum = Some(value.to_vec()),
                Some(sum) => (self.add)(sum, value),
            }
        }
        let mut sum = sum.unwrap_or_default();
        (self.normalize)(&mut sum);
        Ok(sum)
    }
}

impl MergeOperator for Values {
    fn name(&self) -> &str {
        self.name
    }

    fn check(&self, operand: &[u8]) -> Result<(), MergeError> {
        (self.check)(operand)
    }

    fn full(
        &self,
        _key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        let all = base.into_iter().chain(operands.iter().copied());
        self.combined(all).map(Some)
    }

    fn partial(&self, _key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        self.combined([older, newer].into_iter()).ok()
    }
}

pub(super) fn all() -> impl Iterator<Item = Arc<dyn MergeOperator>> {
    let any = |name, add: fn(&mut Vec<u8>, &[u8])| Values {
        name,
        check: |_| Ok(()),
        add,
        normalize: |_| (),
    };
    let of_number = |name, add: fn(&mut Vec<u8>, &[u8])| Values {
        check: check_number,
        ..any(name, add)
    };
    let operators = [
        of_number("add_i64", |sum, operand| {
            let numbers = number(sum).zip(number(operand));
            let number =
                numbers.map(|(a, b)| i64::from_le_bytes(a).wrapping_add(i64::from_le_bytes(b)));
            *sum = number.unwrap_or_default().to_le_bytes().to_vec();
        }),
        of_number("add_f64", |sum, operand| {
            let numbers = number(sum).zip(number(operand));
            let number = numbers.map(|(a, b)| f64::from_le_bytes(a) + f64::from_le_bytes(b));
            *sum = number.unwrap_or_default().to_le_bytes().to_vec();
        }),
        any("min", |least, operand| {
            if operand < least.as_slice() {
                *least = operand.to_vec();
            }
        }),
        any("max", |largest, operand| {
            if operand > largest.as_slice() {
                *largest = operand.to_vec();
            }
        }),
        any("append", |all, operand| all.extend_from_slice(operand)),
        any("bit_and", |bits, operand| {
            by_byte(bits, operand, |a, b| a & b)
        }),
        any("bit_or", |bits, operand| {
            by_byte(bits, operand, |a, b| a | b)
        }),
        any("bit_xor", |bits, operand| {
            by_byte(bits, operand, |a, b| a ^ b)
        }),
        Values {
            check: check_numbers,
            normalize: sort_numbers,
            ..any("union_u64", |all, operand| all.extend_from_slice(operand))
        },
    ];
    let shared = |it| Arc::new(it) as Arc<dyn MergeOperator>;
    operators.into_iter().map(shared)
}

fn number(bytes: &[u8]) -> Option<[u8; 8]> {
    bytes.try_into().ok()
}

fn check_number(bytes: &[u8]) -> Result<(), MergeError> {
    match bytes.len() {
        8 => Ok(()),
        other => Err(format!("expected a number of 8 bytes, found {other} bytes").into()),
    }
}

fn check_numbers(bytes: &[u8]) -> Result<(), MergeError> {
    match bytes.len() % 8 {
        0 => Ok(()),
        _ => Err(format!(
            "expected numbers of 8 bytes each, found {} bytes",
            bytes.len()
        )
        .into()),
    }
}

/// Combines byte by byte. The shorter side has zeros at its end.
fn by_byte(bits: &mut Vec<u8>, operand: &[u8], combine: fn(u8, u8) -> u8) {
    bits.resize(bits.len().max(operand.len()), 0);
    let operand = operand.iter().copied().chain(std::iter::repeat(0));
    bits.iter_mut()
        .zip(operand)
        .for_each(|(a, b)| *a = combine(*a, b));
}

/// Sorts numbers of 8 bytes, big-endian, and leaves each once.
fn sort_numbers(all: &mut Vec<u8>) {
    let (numbers, _) = all.as_chunks::<8>();
    if !numbers.is_sorted_by(|a, b| a < b) {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        numbers.dedup();
        *all = numbers.concat();
    }
}
