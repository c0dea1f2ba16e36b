//! The merge operator of all scripts: adds, appends, and deletes.

use hedgerow::{MergeError, MergeOperator};

/// Adds an operand to the value byte by byte, if the key has an odd number of bytes. The shorter
/// one has zeros at its end. So an operand that counts twice shows, and a sum is no longer than its
/// parts.
///
/// Otherwise it adds the operand at the end of the value. An operand with a `!` deletes the value
/// first, and then adds the bytes behind its last `!`, if there are some.
pub struct Notes;

/// The name of the operator.
pub const NAME: &str = "notes";

/// The value of a key after an operand.
pub fn apply(key: &[u8], old: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
    let bytes = old.unwrap_or_default();
    match after_mark(operand) {
        _ if is_sum(key) => Some(sum(bytes, operand)),
        Some(rest) => (!rest.is_empty()).then(|| rest.to_vec()),
        // Nothing is added to nothing: `!` and an empty operand are `!`.
        None if old.is_none() && operand.is_empty() => None,
        None => Some([bytes, operand].concat()),
    }
}

/// Returns true if bytes in a load are an operand and no value.
pub fn is_operand(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(b'.' | b'!'))
}

fn is_sum(key: &[u8]) -> bool {
    key.len() % 2 == 1
}

fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let at = |bytes: &[u8], i| bytes.get(i).copied().unwrap_or(0_u8);
    let bytes = 0..a.len().max(b.len());
    bytes.map(|i| at(a, i).wrapping_add(at(b, i))).collect()
}

fn after_mark(operand: &[u8]) -> Option<&[u8]> {
    let at = operand.iter().rposition(|byte| *byte == b'!')?;
    Some(&operand[at + 1..])
}

impl MergeOperator for Notes {
    fn name(&self) -> &str {
        NAME
    }

    fn full(
        &self,
        key: &[u8],
        base: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Result<Option<Vec<u8>>, MergeError> {
        let fold = |value: Option<Vec<u8>>, operand: &&[u8]| apply(key, value.as_deref(), operand);
        Ok(operands.iter().fold(base.map(<[u8]>::to_vec), fold))
    }

    fn partial(&self, key: &[u8], older: &[u8], newer: &[u8]) -> Option<Vec<u8>> {
        if is_sum(key) {
            return Some(sum(older, newer));
        }
        // Some stay apart.
        if key.last().is_some_and(|byte| byte % 4 == 0) {
            return None;
        }
        Some(match after_mark(newer) {
            Some(rest) => [b"!", rest].concat(),
            None => [older, newer].concat(),
        })
    }
}
