//! The bytes of options: layouts and designs. A code is never reused; unknown codes are
//! `FormatVersion`.

use crate::base::codec::byte_reader::put_sized;
use crate::base::codec::fields;
use crate::base::codec::fields::{FieldReader, FieldWriter, list, skip_fields};
use crate::base::codec::{ByteReader, varint};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key_order;
use crate::base::options::{
    Compression, CutSpec, Design, FilterSpec, IndexSpec, Layout, LevelSpec, Partitioning,
    PolicySpec, Residency, TableSpec,
};

/// The codes of merge policies.
mod policy {
    pub(super) const LEVELING: u64 = 0;
    pub(super) const TIERING: u64 = 1;
    pub(super) const GARNERING: u64 = 2;
    pub(super) const LAZY_LEVELING: u64 = 3;
    pub(super) const FRONT_LOADED: u64 = 4;
    pub(super) const BUSH: u64 = 5;
    pub(super) const GARNERING_PAPER: u64 = 6;
    pub(super) const LEVELS: u64 = 7;
    pub(super) const TRIE: u64 = 8;
    /// No policy: the whole design follows as text.
    pub(super) const TEXT: u64 = 9;
}

/// Tags of the fields of [`Design`]. A version that ignores them derives the sizes.
mod tag {
    /// Present if the tables are not block-based: a version that ignored it would write other
    /// tables.
    pub(super) const TABLE: u64 = 1;
    pub(super) const TABLE_BYTES: u64 = 2;
    pub(super) const MEMTABLE_BYTES: u64 = 4;
}

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
    varint::put(out, policy::TEXT);
    put_sized(out, design.to_string().as_bytes());
    FieldWriter::new(out).finish();
}

pub(crate) fn decode_design(reader: &mut ByteReader<'_>) -> Result<Design> {
    let code = reader.varint("merge policy")?;
    if code != policy::TEXT {
        return decode_coded(code, reader);
    }
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
    skip_fields(reader, "a design")?;
    design.check().map_err(out_of_bounds)?;
    Ok(design)
}

/// Decodes a design of codes, as written before designs were texts.
fn decode_coded(code: u64, reader: &mut ByteReader<'_>) -> Result<Design> {
    let mut design = Design {
        policy: decode_policy(code, reader)?,
        compression: match reader.varint("compression")? {
            0 => Compression::None,
            1 => Compression::Lz4,
            code => return Err(unknown("compression", code)),
        },
        table: TableSpec::default(),
        index: decode_index(reader)?,
        filter: decode_filter(reader)?,
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
            tag::TABLE => {
                design.table = match fields::number(field, "table format")? {
                    1 => TableSpec::HTable,
                    code => return Err(unknown("table format", code)),
                }
            }
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

fn decode_policy(code: u64, reader: &mut ByteReader<'_>) -> Result<PolicySpec> {
    Ok(match code {
        policy::LEVELING => PolicySpec::Leveling {
            ratio: f64_of(reader, "size ratio")?,
            cut: decode_cut(reader)?,
        },
        policy::TIERING => PolicySpec::tiering(reader.varint_as("runs")?),
        policy::GARNERING => PolicySpec::Garnering {
            ratio: f64_of(reader, "size ratio")?,
            scaling: f64_of(reader, "scaling factor")?,
            cut: decode_cut(reader)?,
        },
        policy::LAZY_LEVELING => PolicySpec::lazy_leveling(reader.varint_as("runs")?),
        policy::FRONT_LOADED => PolicySpec::front_loaded(f64_of(reader, "size ratio")?),
        policy::BUSH => PolicySpec::bush(f64_of(reader, "size ratio")?),
        policy::GARNERING_PAPER => PolicySpec::garnering_paper(
            f64_of(reader, "size ratio")?,
            f64_of(reader, "scaling factor")?,
        ),
        policy::TRIE => PolicySpec::trie(reader.varint_as("fan-out")?),
        policy::LEVELS => PolicySpec::levels(list(reader, "levels", decode_level)?),
        code => return Err(unknown("merge policy", code)),
    })
}

fn decode_level(reader: &mut ByteReader<'_>) -> Result<LevelSpec> {
    let mut level = LevelSpec::fluid(
        reader.varint_as("runs")?,
        f64_of(reader, "size ratio of a level")?,
    );
    level.cut = decode_cut(reader)?;
    if is_named(reader, "filter")? {
        level.filter = Some(decode_filter(reader)?);
    }
    if is_named(reader, "block index")? {
        level.index = Some(decode_index(reader)?);
    }
    Ok(level)
}

/// Returns true if a level has an option of its own.
fn is_named(reader: &mut ByteReader<'_>, what: &str) -> Result<bool> {
    match reader.varint(what)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::corruption(format!(
            "expected 0 or 1 for the {what} of a level, found {other}"
        ))),
    }
}

fn decode_cut(reader: &mut ByteReader<'_>) -> Result<CutSpec> {
    match reader.varint("cut")? {
        0 => Ok(CutSpec::Auto),
        1 => Ok(CutSpec::OneTable),
        2 => Ok(CutSpec::PartitionedFull),
        3 => Ok(CutSpec::WholeLevel),
        code => Err(unknown("cut", code)),
    }
}

fn decode_index(reader: &mut ByteReader<'_>) -> Result<IndexSpec> {
    let code = reader.varint("block index")?;
    let index = u8::try_from(code).ok().and_then(IndexSpec::of_code);
    index.ok_or_else(|| unknown("block index", code))
}

fn decode_filter(reader: &mut ByteReader<'_>) -> Result<FilterSpec> {
    let code = reader.varint("filter")?;
    FilterSpec::of_code(code, reader)?.ok_or_else(|| unknown("filter", code))
}

/// Decodes a number. The whole design is checked later.
fn f64_of(reader: &mut ByteReader<'_>, what: &str) -> Result<f64> {
    Ok(f64::from_bits(reader.u64(what)?))
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
