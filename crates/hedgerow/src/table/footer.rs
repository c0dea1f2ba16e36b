//! The last bytes of a table file: the identity of the table and the places of its parts. The
//! format is in `docs/format/block_based_table.md`. Tables of every format end with a footer.

use std::path::Path;

use hedgerow_io::RandomRead;
use hedgerow_mem::PageMut;

use crate::base::codec::features::check_version;
use crate::base::codec::{ByteReader, checksum};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::key_order;
use crate::base::key_order::Order;
use crate::base::options::{IndexSpec, KeyOrder, TableSpec};
use crate::base::page::{Handle, PageClass, PageId, TableId};
use crate::table::filter::table_filter::{Description, FooterFields};

use super::page_io;
use crate::base::table_meta::TableMeta;

/// The size of the footer.
pub(super) const BYTES: usize = 96;
const MAGIC: [u8; 8] = *b"hedgeTBL";
const VERSION: u32 = 1;
/// The known features of each word. Files with an unknown incompatible feature are refused. Tables
/// never change, so unknown read-only compatible features do not matter.
const INCOMPATIBLE_KNOWN: u32 = 0;
/// The bytes that the open of a table reads at once: footer, facts, and nearly always the top of
/// the index. For a table of 64 MiB the top is about half a kilobyte.
const TAIL_BYTES: usize = 4096;

/// The content of a footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Footer {
    /// The number of the table.
    pub id: TableId,
    /// The place of the facts.
    pub meta: Handle,
    /// The format of the table.
    pub table: TableSpec,
    /// The block index of a block-based table. An HTable has HashMarks instead.
    pub index: IndexSpec,
    /// The place of the top of the block index.
    pub index_top: Handle,
    /// The description of the filter, if there is one.
    pub filter: Option<Description>,
    /// The seed of the keys' hashes, for `verify` and for a repair without the manifest.
    pub hash_seed: u64,
    /// The order of the keys.
    pub key_order: KeyOrder,
}

impl Footer {
    /// The user key of an order key of the table.
    pub fn user_key<'a>(&self, order_key: &'a [u8]) -> &'a [u8] {
        self.order().decode(order_key)
    }

    /// The key order of the table.
    pub(super) fn order(&self) -> Box<dyn Order> {
        key_order::open(self.key_order, self.hash_seed)
    }

    /// Encodes the footer that ends the file. `offset` is its place.
    pub(super) fn encode(&self, offset: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES);
        let filter = FooterFields::of(self.filter);
        let (order, parameter) = key_order::code(self.key_order);
        out.extend(self.id.0.to_le_bytes());
        for handle in [self.meta, self.index_top] {
            out.extend(handle.offset.to_le_bytes());
            out.extend(handle.bytes.to_le_bytes());
        }
        let index = self.table.code(self.index);
        out.extend([filter.kind, filter.bits, order, index]);
        out.extend(filter.units.to_le_bytes());
        out.extend(filter.offset.to_le_bytes());
        out.extend(self.hash_seed.to_le_bytes());
        out.extend(parameter.to_le_bytes());
        out.extend(filter.buckets_per_page.to_le_bytes());
        out.extend([0; 6]);
        // Feature words: compatible, read-only compatible, incompatible.
        out.extend([0; 12]);
        out.extend(VERSION.to_le_bytes());
        let sum = checksum::seeded(checksum::place(self.id.0, offset), &out);
        out.extend(sum.to_le_bytes());
        out.extend(MAGIC);
        debug_assert_eq!(out.len(), BYTES);
        out
    }

    /// Decodes the footer at `offset`. Checks the checksum before anything that is refused for
    /// another reason than damage.
    pub(super) fn decode(bytes: &[u8], offset: u64) -> Result<Footer> {
        let (Some((rest, magic)), true) = (bytes.split_last_chunk::<8>(), bytes.len() == BYTES)
        else {
            return Err(Error::corruption(format!(
                "expected a footer of {BYTES} bytes, found {}",
                bytes.len()
            )));
        };
        if *magic != MAGIC {
            return Err(Error::corruption(format!(
                "expected the end of a table, found {magic:02x?}"
            )));
        }
        let mut reader = ByteReader::new(rest);
        let id = TableId(reader.u64("table number")?);
        let body = &rest[..rest.len() - 4];
        let found = ByteReader::new(&rest[body.len()..]).u32("footer checksum")?;
        let expected = checksum::seeded(checksum::place(id.0, offset), body);
        if !checksum::agree(found, expected) {
            return Err(Error::corruption(format!(
                "expected a footer with checksum {expected:#010x}, found {found:#010x}"
            )));
        }
        Footer::decode_checked(id, &mut reader)
    }

    fn decode_checked(id: TableId, reader: &mut ByteReader<'_>) -> Result<Footer> {
        let mut handle = |what| -> Result<Handle> {
            Ok(Handle {
                offset: reader.u64(what)?,
                bytes: reader.u32(what)?,
            })
        };
        let meta = handle("place of the facts")?;
        let index_top = handle("place of the index")?;
        let kind = reader.u8("filter kind")?;
        let bits = reader.u8("filter bits")?;
        let order = reader.u8("key order")?;
        let index = reader.u8("kind of block index")?;
        let units = reader.u32("size of the filter")?;
        let offset = reader.u64("place of the filter")?;
        let hash_seed = reader.u64("hash seed")?;
        let parameter = reader.u32("parameter of the key order")?;
        let buckets_per_page = reader.take(2, "filters of a page")?;
        let buckets_per_page = u16::from_le_bytes([buckets_per_page[0], buckets_per_page[1]]);
        reader.take(6, "reserved bytes")?;
        let _compatible = reader.u32("compatible features")?;
        let _read_only_compatible = reader.u32("read-only compatible features")?;
        let incompatible = reader.u32("incompatible features")?;
        let version = reader.u32("format version")?;
        check_version("a table", VERSION, version)?;
        if incompatible & !INCOMPATIBLE_KNOWN != 0 {
            return Err(Error::new(
                ErrorKind::FormatVersion,
                format!(
                    "expected a table with features within {INCOMPATIBLE_KNOWN:#x}, found {incompatible:#x}"
                ),
            ));
        }
        let filter = FooterFields {
            kind,
            bits,
            units,
            buckets_per_page,
            offset,
        };
        let filter = filter.filter()?;
        let (table, index) = TableSpec::of_code(index)?;
        Ok(Footer {
            id,
            meta,
            table,
            index,
            index_top,
            filter,
            hash_seed,
            key_order: key_order::of_table(order, parameter)?,
        })
    }
}

/// The end of a table file, read at once.
pub(super) struct Tail {
    offset: u64,
    bytes: PageMut,
    pub(super) footer: Footer,
}

impl Tail {
    /// Reads the end of a file. Cost: one read.
    pub(super) fn read(file: &dyn RandomRead, path: &Path) -> Result<Tail> {
        let file_bytes = file.bytes();
        if file_bytes < BYTES as u64 {
            return Err(Error::corruption(format!(
                "expected a table of at least {BYTES} bytes, found {file_bytes}"
            ))
            .at(path, None));
        }
        let offset = file_bytes.saturating_sub(TAIL_BYTES as u64);
        let bytes = page_io::read_range(file, path, offset, (file_bytes - offset) as usize)?;
        let at = file_bytes - BYTES as u64;
        let footer =
            Footer::decode(&bytes[bytes.len() - BYTES..], at).map_err(|e| e.at(path, Some(at)))?;
        Ok(Tail {
            offset,
            bytes,
            footer,
        })
    }

    /// Returns a page from the tail, or else reads it.
    pub(super) fn page(
        &self,
        file: &dyn RandomRead,
        path: &Path,
        handle: Handle,
    ) -> Result<crate::base::page::Page> {
        let id = PageId {
            table: self.footer.id,
            handle,
            class: PageClass::Index,
        };
        let within = handle.offset.checked_sub(self.offset).and_then(|start| {
            let start = usize::try_from(start).ok()?;
            self.bytes
                .get(start..start.checked_add(handle.bytes as usize)?)
        });
        match within {
            Some(bytes) => page_io::decode(bytes, id).map_err(|e| e.at(path, Some(handle.offset))),
            None => page_io::read(file, path, id, PageMut::allocate),
        }
    }

    /// Reads the facts and checks them against the footer and the size of the file.
    pub(super) fn meta(&self, file: &dyn RandomRead, path: &Path) -> Result<TableMeta> {
        let handle = self.footer.meta;
        let page = self.page(file, path, handle)?;
        let mut reader = ByteReader::new(&page);
        let meta = TableMeta::decode(&mut reader)
            .and_then(|meta| reader.finish("a table's description").map(|()| meta))
            .map_err(|e| e.at(path, Some(handle.offset)))?;
        if meta.id != self.footer.id || meta.file_bytes != file.bytes() {
            return Err(Error::corruption(format!(
                "expected table {} of {} bytes, found table {} of {}",
                self.footer.id.0,
                file.bytes(),
                meta.id.0,
                meta.file_bytes
            ))
            .at(path, Some(handle.offset)));
        }
        Ok(meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::PrefixRule;
    use crate::table::filter::{bloom, bucket_bloom, cuckoo};

    fn footer() -> Footer {
        Footer {
            id: TableId(3),
            meta: Handle {
                offset: 10,
                bytes: 20,
            },
            table: TableSpec::BlockBased,
            index: IndexSpec::ThreeLevel,
            index_top: Handle {
                offset: 30,
                bytes: 40,
            },
            filter: Some(Description::Bloom(bloom::Description {
                lines: 5,
                probes: 7,
                offset: 50,
            })),
            hash_seed: 6,
            key_order: KeyOrder::Sorted,
        }
    }

    fn resealed(mut bytes: Vec<u8>, offset: u64) -> Vec<u8> {
        let end = BYTES - 12;
        let sum = checksum::seeded(checksum::place(3, offset), &bytes[..end]);
        bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn footers_round_trip_and_flipped_bits_are_corruption() {
        let cuckoo = Description::Cuckoo(cuckoo::Description {
            buckets: 5,
            fingerprint_bits: 12,
            offset: 50,
        });
        let prefixes = KeyOrder::SemiSorted(PrefixRule::Bytes(1000));
        let buckets = Description::Buckets(bucket_bloom::Description {
            probes: 11,
            pages: 6,
            buckets_per_page: 57,
            offset: 8192,
        });
        let table = TableSpec::BlockBased;
        for (filter, key_order, table) in [
            (None, KeyOrder::Sorted, table),
            (footer().filter, prefixes, table),
            (Some(cuckoo), KeyOrder::Hashed, table),
            (Some(buckets), KeyOrder::Hashed, TableSpec::HTable),
        ] {
            let footer = Footer {
                filter,
                key_order,
                table,
                index: match table {
                    TableSpec::HTable => IndexSpec::Fence,
                    TableSpec::BlockBased => footer().index,
                },
                ..footer()
            };
            let mut bytes = footer.encode(1000);
            assert_eq!(Footer::decode(&bytes, 1000).unwrap(), footer);
            assert!(Footer::decode(&bytes, 1001).is_err());
            for bit in 0..BYTES * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                let error = Footer::decode(&bytes, 1000).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corruption);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn unknown_versions_and_incompatible_features_are_refused() {
        let incompatible = BYTES - 8 - 4 - 4 - 4;
        for at in [incompatible, incompatible + 4] {
            let mut bytes = footer().encode(9);
            bytes[at] ^= 1;
            let error = Footer::decode(&resealed(bytes, 9), 9).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FormatVersion);
        }
        for at in [incompatible - 4, incompatible - 8] {
            let mut bytes = footer().encode(9);
            bytes[at] |= 1;
            assert_eq!(Footer::decode(&resealed(bytes, 9), 9).unwrap(), footer());
        }
    }
}
