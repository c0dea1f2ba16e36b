//! The bytes of what can be chosen: layouts and designs. Codes are never used again for something
//! else; unknown ones are `FormatVersion`.

use crate::codec::fields::{self, FieldReader, FieldWriter};
use crate::codec::{ByteReader, varint};
use crate::error::{Error, ErrorKind, Result};
use crate::options::{
    Compression, CutSpec, Design, FilterSpec, IndexSpec, KeyOrder, Layout, Partitioning,
    PolicySpec, Residency,
};

use super::encoding::skip_fields;

/// Tags of the fields of [`Design`]. A version that ignores them derives the sizes.
mod tag {
    pub(super) const TABLE_BYTES: u64 = 2;
    pub(super) const MEMTABLE_BYTES: u64 = 4;
}

pub(crate) fn encode_layout(layout: &Layout, out: &mut Vec<u8>) {
    let order = match layout.order {
        KeyOrder::Sorted => 0,
    };
    varint::put(out, order);
    match layout.partitioning {
        Partitioning::Single => varint::put(out, 0),
        Partitioning::Hash(count) => {
            varint::put(out, 1);
            varint::put(out, u64::from(count));
        }
    }
    FieldWriter::new(out).finish();
}

pub(crate) fn decode_layout(reader: &mut ByteReader<'_>) -> Result<Layout> {
    let order = match reader.varint("key order")? {
        0 => KeyOrder::Sorted,
        code => return Err(unknown("key order", code)),
    };
    let partitioning = match reader.varint("partitioning")? {
        0 => Partitioning::Single,
        1 => Partitioning::Hash(reader.varint_as("partition count")?),
        code => return Err(unknown("partitioning", code)),
    };
    skip_fields(reader, "a layout")?;
    let layout = Layout {
        order,
        partitioning,
    };
    layout.check().map_err(out_of_bounds)?;
    Ok(layout)
}

pub(crate) fn encode_design(design: &Design, out: &mut Vec<u8>) {
    match design.policy {
        PolicySpec::Leveling { ratio, cut } => {
            varint::put(out, 0);
            varint::put(out, u64::from(ratio));
            let cut = match cut {
                CutSpec::OneTable => 0,
                CutSpec::PartitionedFull => 1,
                CutSpec::WholeLevel => 2,
            };
            varint::put(out, cut);
        }
    }
    let compression = match design.compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
    };
    varint::put(out, compression);
    let index = match design.index {
        IndexSpec::Fence => 0,
    };
    varint::put(out, index);
    match design.filter {
        FilterSpec::None => varint::put(out, 0),
        FilterSpec::Bloom { bits_per_key } => {
            varint::put(out, 1);
            out.extend_from_slice(&bits_per_key.to_bits().to_le_bytes());
        }
        FilterSpec::Cuckoo { fingerprint_bits } => {
            varint::put(out, 2);
            out.push(fingerprint_bits);
        }
    }
    let residency = match design.residency {
        Residency::Auto => 0,
        Residency::Resident => 1,
        Residency::Paged => 2,
    };
    varint::put(out, residency);
    varint::put(out, u64::from(design.block_bytes));
    let mut fields = FieldWriter::new(out);
    fields.put_number(tag::TABLE_BYTES, design.table_bytes);
    fields.put_number(tag::MEMTABLE_BYTES, design.memtable_bytes);
    fields.finish();
}

pub(crate) fn decode_design(reader: &mut ByteReader<'_>) -> Result<Design> {
    let mut design = Design {
        policy: decode_policy(reader)?,
        compression: match reader.varint("compression")? {
            0 => Compression::None,
            1 => Compression::Lz4,
            code => return Err(unknown("compression", code)),
        },
        index: match reader.varint("block index")? {
            0 => IndexSpec::Fence,
            code => return Err(unknown("block index", code)),
        },
        filter: match reader.varint("filter")? {
            0 => FilterSpec::None,
            1 => FilterSpec::Bloom {
                bits_per_key: f32::from_bits(reader.u32("filter bits per key")?),
            },
            2 => FilterSpec::Cuckoo {
                fingerprint_bits: reader.u8("fingerprint bits")?,
            },
            code => return Err(unknown("filter", code)),
        },
        residency: match reader.varint("residency")? {
            0 => Residency::Auto,
            1 => Residency::Resident,
            2 => Residency::Paged,
            code => return Err(unknown("residency", code)),
        },
        block_bytes: reader.varint_as("block size")?,
        table_bytes: None,
        memtable_bytes: None,
    };
    let mut fields = FieldReader::new(reader, "a design");
    while let Some((tag, field)) = fields.next()? {
        match tag {
            tag::TABLE_BYTES => design.table_bytes = Some(fields::number(field, "table size")?),
            tag::MEMTABLE_BYTES => {
                design.memtable_bytes = Some(fields::number(field, "memtable size")?);
            }
            _ => fields.unknown(tag)?,
        }
    }
    design.check().map_err(out_of_bounds)?;
    Ok(design)
}

fn decode_policy(reader: &mut ByteReader<'_>) -> Result<PolicySpec> {
    match reader.varint("merge policy")? {
        0 => Ok(PolicySpec::Leveling {
            ratio: reader.varint_as("size ratio")?,
            cut: match reader.varint("cut")? {
                0 => CutSpec::OneTable,
                1 => CutSpec::PartitionedFull,
                2 => CutSpec::WholeLevel,
                code => return Err(unknown("cut", code)),
            },
        }),
        code => Err(unknown("merge policy", code)),
    }
}

fn unknown(what: &str, code: u64) -> Error {
    Error::new(
        ErrorKind::FormatVersion,
        format!("the manifest has a {what} {code} of a later version"),
    )
}

fn out_of_bounds(error: Error) -> Error {
    Error::corruption(format!("an option is out of bounds: {error}"))
}
