//! The bytes of the changes of a keyspace. Each begins with the keyspace.

use crate::base::codec::byte_reader::{ByteReader, put_sized};
use crate::base::codec::fields::{FieldReader, FieldWriter, list};
use crate::base::codec::varint;
use crate::base::entry::{KeyspaceId, PartitionId};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::merge_operator;
use crate::base::stats::Operations;

use crate::tree::version::edit::{Change, EntryCounts, KeyspaceChange, KeyspaceDescription};
use crate::tree::version::options_encoding::{
    decode_design, decode_layout, encode_design, encode_layout,
};

use super::{change_code, name, numbers};

/// The tag of the field of a keyspace that is created.
const MERGE_OPERATOR: u64 = 1;

/// Appends a change of a keyspace that exists and returns its code.
pub(super) fn encode(id: KeyspaceId, change: &KeyspaceChange, out: &mut Vec<u8>) -> u64 {
    varint::put(out, u64::from(id.0));
    match change {
        KeyspaceChange::Drop => change_code::DROP_KEYSPACE,
        KeyspaceChange::Rename(name) => {
            put_sized(out, name.as_bytes());
            change_code::RENAME_KEYSPACE
        }
        KeyspaceChange::SetMergeOperator(name) => {
            put_sized(out, name.as_bytes());
            change_code::SET_MERGE_OPERATOR
        }
        KeyspaceChange::ReplacePartitions(partitions) => {
            put_partitions(out, partitions);
            change_code::REPLACE_PARTITIONS
        }
        KeyspaceChange::SetDesign(design) => {
            encode_design(design, out);
            change_code::SET_DESIGN
        }
        KeyspaceChange::Operations(operations) => {
            numbers(change_code::OPERATIONS, operations.numbers(), out)
        }
        KeyspaceChange::Written(written) => {
            let counts = [written.initial, written.added, written.written];
            numbers(change_code::WRITTEN, counts, out)
        }
        KeyspaceChange::SetSelfTuning(on) => {
            numbers(change_code::SET_SELF_TUNING, [u64::from(*on)], out)
        }
        KeyspaceChange::SetTimeToLive(ms) => numbers(change_code::SET_TIME_TO_LIVE, [*ms], out),
    }
}

/// The change of a keyspace that exists, by its code.
///
/// # Errors
/// `FormatVersion` for any other code; `Corruption`.
pub(super) fn decode(code: u64, body: &mut ByteReader<'_>) -> Result<Change> {
    let id = keyspace(body);
    let change = match code {
        change_code::DROP_KEYSPACE => KeyspaceChange::Drop,
        change_code::RENAME_KEYSPACE => KeyspaceChange::Rename(name(body)?),
        change_code::SET_MERGE_OPERATOR => {
            let name = body.sized("name of a merge operator")?;
            KeyspaceChange::SetMergeOperator(operator_name(name)?)
        }
        change_code::REPLACE_PARTITIONS => KeyspaceChange::ReplacePartitions(partitions(body)?),
        change_code::SET_DESIGN => KeyspaceChange::SetDesign(decode_design(body)?),
        change_code::OPERATIONS => KeyspaceChange::Operations(operations(body)?),
        change_code::WRITTEN => KeyspaceChange::Written(EntryCounts {
            initial: body.varint("initial entries")?,
            added: body.varint("added entries")?,
            written: body.varint("entries written")?,
        }),
        change_code::SET_SELF_TUNING => {
            KeyspaceChange::SetSelfTuning(body.varint("self-tuning")? != 0)
        }
        change_code::SET_TIME_TO_LIVE => {
            KeyspaceChange::SetTimeToLive(body.varint("time to live")?)
        }
        _ => {
            return Err(Error::new(
                ErrorKind::FormatVersion,
                format!("the manifest has a change {code} of a later version"),
            ));
        }
    };
    Ok(Change::Keyspace(id?, change))
}

pub(super) fn encode_creation(id: KeyspaceId, keyspace: &KeyspaceDescription, out: &mut Vec<u8>) {
    varint::put(out, u64::from(id.0));
    put_sized(out, keyspace.name.as_bytes());
    encode_layout(&keyspace.layout, out);
    encode_design(&keyspace.design, out);
    out.extend_from_slice(&keyspace.seed.to_le_bytes());
    put_partitions(out, &keyspace.partitions);
    varint::put(out, u64::from(keyspace.depth));
    let mut fields = FieldWriter::new(out);
    if let Some(name) = &keyspace.layout.merge_operator {
        fields.put(MERGE_OPERATOR, name.as_bytes());
    }
    fields.finish();
}

pub(super) fn decode_creation(body: &mut ByteReader<'_>) -> Result<Change> {
    let id = keyspace(body)?;
    let mut keyspace = KeyspaceDescription::new(
        name(body)?,
        (decode_layout(body)?, decode_design(body)?),
        body.u64("seed")?,
        partitions(body)?,
        body.varint_as("depth")?,
    );
    let mut fields = FieldReader::new(body, "a keyspace");
    while let Some((tag, mut field)) = fields.next()? {
        match tag {
            MERGE_OPERATOR => {
                keyspace.layout.merge_operator = Some(operator_name(field.rest())?.into());
            }
            _ => fields.unknown(tag)?,
        }
    }
    Ok(Change::CreateKeyspace { id, keyspace })
}

fn operator_name(bytes: &[u8]) -> Result<String> {
    let name = std::str::from_utf8(bytes).ok();
    let name = name.filter(|name| merge_operator::check_name(name).is_ok());
    name.map(str::to_owned).ok_or_else(|| {
        Error::corruption("expected the name of a merge operator, found other bytes")
    })
}

fn keyspace(body: &mut ByteReader<'_>) -> Result<KeyspaceId> {
    Ok(KeyspaceId(body.varint_as("keyspace")?))
}

fn operations(body: &mut ByteReader<'_>) -> Result<Operations> {
    let mut numbers = Operations::default().numbers();
    for number in &mut numbers {
        *number = body.varint("number of operations")?;
    }
    Ok(Operations::of(numbers))
}

fn put_partitions(out: &mut Vec<u8>, partitions: &[PartitionId]) {
    varint::put(out, partitions.len() as u64);
    for id in partitions {
        varint::put(out, u64::from(id.0));
    }
}

fn partitions(body: &mut ByteReader<'_>) -> Result<Vec<PartitionId>> {
    list(body, "partitions", |body| {
        Ok(PartitionId(body.varint_as("partition")?))
    })
}
