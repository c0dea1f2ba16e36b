//! The bytes of what can be chosen: layouts and designs. Codes are never used again for something
//! else; unknown ones are `FormatVersion`.

use crate::base::codec::fields;
use crate::base::codec::fields::{FieldReader, FieldWriter};
use crate::base::codec::reader::put_sized;
use crate::base::codec::{ByteReader, varint};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key_order;
use crate::base::options::{
    Compression, CutSpec, Design, FilterSpec, IndexSpec, Layout, LevelSpec, Partitioning,
    PolicySpec, Residency, TableSpec,
};

use super::encoding::{list, skip_fields};

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
}

/// Tags of the fields of [`Design`]. A version that ignores them derives the sizes.
mod tag {
    /// Of a design that does not have block-based tables: whoever ignored it would write other ones.
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
    };
    layout.check().map_err(out_of_bounds)?;
    Ok(layout)
}

pub(crate) fn encode_design(design: &Design, out: &mut Vec<u8>) {
    encode_policy(&design.policy, out);
    let compression = match design.compression {
        Compression::None => 0,
        Compression::Lz4 => 1,
    };
    varint::put(out, compression);
    encode_index(design.index, out);
    encode_filter(design.filter, out);
    let residency = match design.residency {
        Residency::Auto => 0,
        Residency::Resident => 1,
        Residency::Paged => 2,
    };
    varint::put(out, residency);
    varint::put(out, u64::from(design.block_bytes));
    let mut fields = FieldWriter::new(out);
    let table = match design.table {
        TableSpec::BlockBased => None,
        TableSpec::HTable => Some(1),
    };
    fields.put_number(tag::TABLE, table);
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
        table: TableSpec::BlockBased,
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

fn encode_policy(policy: &PolicySpec, out: &mut Vec<u8>) {
    match policy {
        PolicySpec::Leveling { ratio, cut } => {
            varint::put(out, policy::LEVELING);
            put_f64(out, *ratio);
            encode_cut(*cut, out);
        }
        PolicySpec::Tiering { runs } => {
            varint::put(out, policy::TIERING);
            varint::put(out, u64::from(*runs));
        }
        PolicySpec::Garnering {
            ratio,
            scaling,
            cut,
        } => {
            varint::put(out, policy::GARNERING);
            put_f64(out, *ratio);
            put_f64(out, *scaling);
            encode_cut(*cut, out);
        }
        PolicySpec::LazyLeveling { runs } => {
            varint::put(out, policy::LAZY_LEVELING);
            varint::put(out, u64::from(*runs));
        }
        PolicySpec::FrontLoaded { ratio } => {
            varint::put(out, policy::FRONT_LOADED);
            put_f64(out, *ratio);
        }
        PolicySpec::Bush { ratio } => {
            varint::put(out, policy::BUSH);
            put_f64(out, *ratio);
        }
        PolicySpec::GarneringPaper { ratio, scaling } => {
            varint::put(out, policy::GARNERING_PAPER);
            put_f64(out, *ratio);
            put_f64(out, *scaling);
        }
        PolicySpec::Trie { fan_out } => {
            varint::put(out, policy::TRIE);
            varint::put(out, u64::from(*fan_out));
        }
        PolicySpec::Levels(levels) => {
            varint::put(out, policy::LEVELS);
            varint::put(out, levels.len() as u64);
            levels.iter().for_each(|level| encode_level(level, out));
        }
    }
}

fn decode_policy(reader: &mut ByteReader<'_>) -> Result<PolicySpec> {
    Ok(match reader.varint("merge policy")? {
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

fn encode_level(level: &LevelSpec, out: &mut Vec<u8>) {
    varint::put(out, u64::from(level.runs));
    put_f64(out, level.ratio);
    encode_cut(level.cut, out);
    varint::put(out, u64::from(level.filter.is_some()));
    if let Some(filter) = level.filter {
        encode_filter(filter, out);
    }
    varint::put(out, u64::from(level.index.is_some()));
    if let Some(index) = level.index {
        encode_index(index, out);
    }
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

/// Whether a level has one of its own.
fn is_named(reader: &mut ByteReader<'_>, what: &str) -> Result<bool> {
    match reader.varint(what)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::corruption(format!(
            "expected 0 or 1 for the {what} of a level, found {other}"
        ))),
    }
}

fn encode_cut(cut: CutSpec, out: &mut Vec<u8>) {
    let cut = match cut {
        CutSpec::Auto => 0,
        CutSpec::OneTable => 1,
        CutSpec::PartitionedFull => 2,
        CutSpec::WholeLevel => 3,
    };
    varint::put(out, cut);
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

fn encode_index(index: IndexSpec, out: &mut Vec<u8>) {
    let index = match index {
        IndexSpec::Fence => 0,
        IndexSpec::ThreeLevel => 1,
        IndexSpec::ThreeLevelArray => 2,
    };
    varint::put(out, index);
}

fn decode_index(reader: &mut ByteReader<'_>) -> Result<IndexSpec> {
    match reader.varint("block index")? {
        0 => Ok(IndexSpec::Fence),
        1 => Ok(IndexSpec::ThreeLevel),
        2 => Ok(IndexSpec::ThreeLevelArray),
        code => Err(unknown("block index", code)),
    }
}

fn encode_filter(filter: FilterSpec, out: &mut Vec<u8>) {
    match filter {
        FilterSpec::None => varint::put(out, 0),
        FilterSpec::Bloom { bits_per_key } => {
            varint::put(out, 1);
            out.extend_from_slice(&bits_per_key.to_bits().to_le_bytes());
        }
        FilterSpec::Monkey { bits_per_key: None } => varint::put(out, 2),
        FilterSpec::Monkey {
            bits_per_key: Some(bits_per_key),
        } => {
            varint::put(out, 3);
            out.extend_from_slice(&bits_per_key.to_bits().to_le_bytes());
        }
        FilterSpec::Cuckoo { fingerprint_bits } => {
            varint::put(out, 4);
            out.push(fingerprint_bits);
        }
        FilterSpec::MultiLevelCuckoo {
            fingerprint_bits,
            unique,
        } => {
            varint::put(out, if unique { 6 } else { 5 });
            out.push(fingerprint_bits);
        }
        FilterSpec::Cluster { bits_per_key } => {
            varint::put(out, 7);
            out.extend_from_slice(&bits_per_key.to_bits().to_le_bytes());
        }
    }
}

fn decode_filter(reader: &mut ByteReader<'_>) -> Result<FilterSpec> {
    match reader.varint("filter")? {
        0 => Ok(FilterSpec::None),
        1 => Ok(FilterSpec::Bloom {
            bits_per_key: f32::from_bits(reader.u32("filter bits per key")?),
        }),
        2 => Ok(FilterSpec::Monkey { bits_per_key: None }),
        3 => Ok(FilterSpec::Monkey {
            bits_per_key: Some(f32::from_bits(reader.u32("filter bits per key")?)),
        }),
        4 => Ok(FilterSpec::Cuckoo {
            fingerprint_bits: reader.u8("fingerprint bits")?,
        }),
        code @ (5 | 6) => Ok(FilterSpec::MultiLevelCuckoo {
            fingerprint_bits: reader.u8("fingerprint bits")?,
            unique: code == 6,
        }),
        7 => Ok(FilterSpec::Cluster {
            bits_per_key: f32::from_bits(reader.u32("filter bits per key")?),
        }),
        code => Err(unknown("filter", code)),
    }
}

fn put_f64(out: &mut Vec<u8>, number: f64) {
    out.extend_from_slice(&number.to_bits().to_le_bytes());
}

/// Whether the number makes sense is checked with the whole design.
fn f64_of(reader: &mut ByteReader<'_>, what: &str) -> Result<f64> {
    Ok(f64::from_bits(reader.u64(what)?))
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
