//! The bytes of options: layouts and designs. A code is never reused; unknown codes are
//! `FormatVersion`.

use crate::base::codec::byte_reader::put_sized;
use crate::base::codec::fields::{FieldWriter, list, skip_fields};
use crate::base::codec::{ByteReader, varint};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key_order;
use crate::base::options::{Design, Layout, Partitioning};

pub(crate) fn encode_layout(layout: &Layout, out: &mut Vec<u8>) {
    let (order, parameter) = key_order::code(layout.order);
    varint::put(out, u64::from(order));
    if key_order::has_parameter(order) {
        varint::put(out, u64::from(parameter));
    }
    match &layout.partitioning {
        Partitioning::Single => varint::put(out, 0),
        Partitioning::Hash(count) => {
            varint::put(out, 1);
            varint::put(out, u64::from(*count));
        }
        Partitioning::Range(splits) => {
            varint::put(out, 2);
            varint::put(out, splits.len() as u64);
            splits.iter().for_each(|split| put_sized(out, split));
        }
    }
    FieldWriter::new(out).finish();
}

pub(crate) fn decode_layout(reader: &mut ByteReader<'_>) -> Result<Layout> {
    let code = reader.varint_as("key order")?;
    let parameter = match key_order::has_parameter(code) {
        true => reader.varint_as("parameter of a key order")?,
        false => 0,
    };
    let order = key_order::of_code(code, parameter)?
        .ok_or_else(|| unknown("key order", u64::from(code)))?;
    let partitioning = match reader.varint("partitioning")? {
        0 => Partitioning::Single,
        1 => Partitioning::Hash(reader.varint_as("partition count")?),
        2 => Partitioning::range(list(reader, "keys between partitions", |reader| {
            reader.sized("key between partitions")
        })?),
        code => return Err(unknown("partitioning", code)),
    };
    skip_fields(reader, "a layout")?;
    let layout = Layout {
        order,
        partitioning,
        // Among the fields of the keyspace.
        merge_operator: None,
    };
    layout.check().map_err(out_of_bounds)?;
    Ok(layout)
}

/// Encodes a design as the text that people read and write.
pub(crate) fn encode_design(design: &Design, out: &mut Vec<u8>) {
    put_sized(out, design.to_string().as_bytes());
}

pub(crate) fn decode_design(reader: &mut ByteReader<'_>) -> Result<Design> {
    let text = String::from_utf8_lossy(reader.sized("design")?);
    let design = Design::unchecked(&text).map_err(|error| {
        Error::new(
            ErrorKind::FormatVersion,
            format!(
                "the manifest has a design of a later version: {}",
                error.message()
            ),
        )
    })?;
    design.check().map_err(out_of_bounds)?;
    Ok(design)
}

fn unknown(what: &str, code: u64) -> Error {
    Error::new(
        ErrorKind::FormatVersion,
        format!("the manifest has a {what} {code} of a later version"),
    )
}

/// The error of options that this program does not take: damage, unless it lacks a feature.
fn out_of_bounds(error: Error) -> Error {
    if error.kind() == ErrorKind::Unsupported {
        return error;
    }
    Error::corruption(format!("an option is out of bounds: {error}"))
}
