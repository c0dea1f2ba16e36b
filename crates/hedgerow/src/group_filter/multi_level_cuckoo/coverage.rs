//! The tables whose keys a filter knows: the description of the filter in its file. The format is
//! in `docs/format/multi_level_cuckoo.md`.

use crate::base::codec::{ByteReader, varint};
use crate::base::entry::RunId;
use crate::base::error::{Error, Result};
use crate::base::page::TableId;

/// The tables whose keys a filter in a file knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Coverage {
    /// Each run and its tables in ascending order. The newest run comes first.
    pub(crate) runs: Vec<(RunId, Vec<TableId>)>,
}

impl Coverage {
    /// The names of the runs in the filter.
    pub(crate) fn names(&self) -> Vec<u64> {
        self.runs.iter().map(|(run, _)| run.0).collect()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut list = Vec::new();
        varint::put(&mut list, self.runs.len() as u64);
        for (run, tables) in &self.runs {
            varint::put(&mut list, run.0);
            varint::put(&mut list, tables.len() as u64);
            tables.iter().fold(0, |before, table| {
                varint::put(&mut list, table.0 - before);
                table.0
            });
        }
        list
    }

    /// Decodes the list of runs.
    ///
    /// # Errors
    /// `Corruption`.
    pub(crate) fn decode(list: &[u8]) -> Result<Coverage> {
        let mut reader = ByteReader::new(list);
        let mut runs = Vec::new();
        for _ in 0..reader.varint("runs")? {
            let run = RunId(reader.varint("run")?);
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
        Ok(Coverage { runs })
    }

    /// Returns true if the filter knows all keys of a run that has these tables.
    pub(crate) fn knows(&self, run: RunId, mut tables: impl Iterator<Item = TableId>) -> bool {
        let mut runs = self.runs.iter();
        let known = runs.find(|(known, _)| *known == run);
        known.is_some_and(|(_, known)| tables.all(|it| known.binary_search(&it).is_ok()))
    }
}
