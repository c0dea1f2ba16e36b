//! The fields of a change as bytes, both ways.

use hedgerow::{Error, ErrorKind, Layout, Partitioning, Result};

pub(super) fn damaged(what: &str) -> Error {
    let message = format!("expected {what} of a change, found other bytes");
    Error::new(ErrorKind::Corruption, message)
}

/// A field behind its size.
pub(super) fn sized<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let size = bytes.split_off(..4).ok_or_else(|| damaged("a size"))?;
    let size = u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize;
    bytes.split_off(..size).ok_or_else(|| damaged("a field"))
}

/// The text of a field.
pub(super) fn text(field: &[u8]) -> Result<String> {
    String::from_utf8(field.to_vec()).map_err(|_| damaged("a name"))
}

/// Nothing for `None`.
pub(super) fn time_bytes(ms: Option<u64>) -> Vec<u8> {
    ms.map_or_else(Vec::new, |ms| ms.to_le_bytes().to_vec())
}

/// The time of a field.
pub(super) fn time(bytes: &[u8]) -> Result<Option<u64>> {
    match <[u8; 8]>::try_from(bytes) {
        Ok(ms) => Ok(Some(u64::from_le_bytes(ms))),
        Err(_) if bytes.is_empty() => Ok(None),
        Err(_) => Err(damaged("a time")),
    }
}

/// Nothing for one tree, a count for trees by hash, sized keys for trees by range.
pub(super) fn partitioning_bytes(partitioning: &Partitioning) -> Vec<u8> {
    match partitioning {
        Partitioning::Hash(count) => count.to_le_bytes().to_vec(),
        Partitioning::Range(splits) => {
            let mut bytes = vec![0, 0];
            for split in splits.iter() {
                bytes.extend((split.len() as u32).to_le_bytes());
                bytes.extend(split);
            }
            bytes
        }
        _ => Vec::new(),
    }
}

pub(super) fn partitioning(mut bytes: &[u8]) -> Result<Partitioning> {
    let Some(count) = bytes.split_off(..2) else {
        return match bytes {
            [] => Ok(Partitioning::Single),
            _ => Err(damaged("a partitioning")),
        };
    };
    match u16::from_le_bytes([count[0], count[1]]) {
        0 => {
            let mut splits = Vec::new();
            while !bytes.is_empty() {
                splits.push(sized(&mut bytes)?.to_vec());
            }
            Ok(Layout::sorted().range(splits).partitioning)
        }
        count => Ok(Partitioning::Hash(count)),
    }
}
