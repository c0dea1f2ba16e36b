//! The prefix of a filter in a file of its own: it names the tables whose keys the filter knows.
//! The format is in `docs/format/multi_level_cuckoo.md`.

use crate::base::codec::checksum::{agree, place, seeded};
use crate::base::codec::features::check_version;
use crate::base::codec::{ByteReader, varint};
use crate::base::error::{Error, Result};
use crate::base::page::TableId;
use crate::group_filter::Owner;

const MAGIC: [u8; 8] = *b"hedgeflt";
const VERSION: u32 = 1;
/// The bytes before the list of runs.
pub(crate) const PREFIX_BYTES: usize = 32;

/// The tables whose keys a filter in a file knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub(crate) owner: Owner,
    /// The number of each run and its tables in ascending order. The newest run comes first.
    pub(crate) runs: Vec<(u64, Vec<TableId>)>,
}

/// The first bytes of a file, which describe the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) list_bytes: u32,
    pub(crate) filter_bytes: u64,
}

impl Prefix {
    /// Decodes the prefix of the file `number`.
    ///
    /// # Errors
    /// `Corruption`; `FormatVersion` if a later version wrote it.
    pub(crate) fn decode(bytes: &[u8; PREFIX_BYTES], number: u64) -> Result<Prefix> {
        let mut reader = ByteReader::new(bytes);
        if reader.take(MAGIC.len(), "magic")? != MAGIC {
            return Err(Error::corruption(
                "expected a file of a filter, found another",
            ));
        }
        let version = reader.u32("version")?;
        let list_bytes = reader.u32("bytes of the list of runs")?;
        let filter_bytes = reader.u64("bytes of the filter")?;
        reader.take(4, "zeros")?;
        check(
            number,
            0,
            &bytes[..reader.position()],
            reader.u32("checksum")?,
        )?;
        check_version("a filter", VERSION, version)?;
        Ok(Prefix {
            list_bytes,
            filter_bytes,
        })
    }

    /// The offset of the filter. It also seeds the filter's checksum, with [`place`].
    pub(crate) fn filter_at(self) -> u64 {
        PREFIX_BYTES as u64 + u64::from(self.list_bytes)
    }
}

impl Coverage {
    /// The names of the runs in the filter.
    pub(crate) fn names(&self) -> Vec<u64> {
        self.runs.iter().map(|(run, _)| *run).collect()
    }

    /// The bytes before a filter of `filter_bytes` bytes in the file `number`.
    pub(crate) fn encode(&self, number: u64, filter_bytes: u64) -> Vec<u8> {
        let mut list = Vec::new();
        self.owner.encode(&mut list);
        varint::put(&mut list, self.runs.len() as u64);
        for (run, tables) in &self.runs {
            varint::put(&mut list, *run);
            varint::put(&mut list, tables.len() as u64);
            tables.iter().fold(0, |before, table| {
                varint::put(&mut list, table.0 - before);
                table.0
            });
        }
        let sum = seeded(place(number, PREFIX_BYTES as u64), &list);
        list.extend(sum.to_le_bytes());

        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((list.len() as u32).to_le_bytes());
        bytes.extend(filter_bytes.to_le_bytes());
        bytes.extend([0; 4]);
        let sum = seeded(place(number, 0), &bytes);
        bytes.extend(sum.to_le_bytes());
        bytes.extend(list);
        bytes
    }

    /// Decodes the list of runs from its bytes in the file `number`.
    ///
    /// # Errors
    /// `Corruption`.
    pub(crate) fn decode(list: &[u8], number: u64) -> Result<Coverage> {
        let (list, sum) = list.split_last_chunk().ok_or_else(|| {
            Error::corruption(format!(
                "expected a list of runs, found {} bytes",
                list.len()
            ))
        })?;
        check(number, PREFIX_BYTES as u64, list, u32::from_le_bytes(*sum))?;
        let mut reader = ByteReader::new(list);
        let owner = Owner::decode(&mut reader)?;
        let mut runs = Vec::new();
        for _ in 0..reader.varint("runs")? {
            let run = reader.varint("run")?;
            let mut tables: Vec<TableId> = Vec::new();
            for _ in 0..reader.varint("tables of a run")? {
                let before = tables.last().map_or(0, |table| table.0);
                let table = before.checked_add(reader.varint("table")?);
                tables.push(TableId(table.ok_or_else(|| {
                    Error::corruption(format!(
                        "expected a table's number after {before}, found none"
                    ))
                })?));
            }
            runs.push((run, tables));
        }
        reader.finish("a list of runs")?;
        Ok(Coverage { owner, runs })
    }

    /// Returns true if the filter knows all keys of a run that has these tables.
    pub(crate) fn knows(&self, run: u64, mut tables: impl Iterator<Item = TableId>) -> bool {
        let mut runs = self.runs.iter();
        let known = runs.find(|(known, _)| *known == run);
        known.is_some_and(|(_, known)| tables.all(|it| known.binary_search(&it).is_ok()))
    }
}

fn check(number: u64, offset: u64, bytes: &[u8], found: u32) -> Result<()> {
    let expected = seeded(place(number, offset), bytes);
    if agree(found, expected) {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "expected checksum {expected:#010x} before a filter, found {found:#010x}"
    )))
}
