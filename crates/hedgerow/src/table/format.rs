//! The formats of tables: what differs from format to format, by the option that names it. A new
//! format is a folder and its lines here.

use std::path::Path;
use std::sync::Arc;

use hedgerow_io::{RandomRead, SequentialWrite};

use crate::base::entry::SeqNo;
use crate::base::error::Result;
use crate::base::key_order::Order;
use crate::base::options::TableSpec;
use crate::base::page::{Page, TableId};
use crate::table::block_index::hash_marks::HashMarks;
use crate::table::block_index::{Index, table_index};

use super::contents::Contents;
use super::footer::Footer;
use super::table_file::{ResidencyChoice, TableFile};
use super::{Reader, TableOptions, Writer, block_based, htable};

/// Starts a table in an empty file. `path` is for errors.
pub(crate) fn writer(
    out: Box<dyn SequentialWrite>,
    path: &Path,
    options: TableOptions,
) -> Box<dyn Writer> {
    match options.table {
        TableSpec::BlockBased => Box::new(block_based::Writer::new(out, path, options)),
        TableSpec::HTable => Box::new(htable::Writer::new(out, path, options)),
    }
}

/// Opens a table of any format. `seqno_override` comes from the manifest. Cost: one read for the
/// end of the file, one for a resident index, one for a resident filter, and one more if the end of
/// the file does not include the index's top.
///
/// # Errors
/// `Corruption` if the file is not the table `id` as it was written; `FormatVersion` if a newer
/// version wrote it.
pub(crate) fn open(
    file: Arc<dyn RandomRead>,
    path: &Path,
    id: TableId,
    seqno_override: Option<SeqNo>,
    residency: ResidencyChoice,
) -> Result<Arc<dyn Reader>> {
    let (mut file, top) = TableFile::open(file, path, id)?;
    file.seqno_override = seqno_override.or(file.meta.seqno_override);
    Ok(match file.footer.table {
        TableSpec::BlockBased => Arc::new(block_based::TableReader::open(file, &top, residency)?),
        TableSpec::HTable => Arc::new(htable::TableReader::open(file, &top, residency)?),
    })
}

/// Opens the paged index with this top page.
pub(super) fn index(footer: &Footer, top: &Page) -> Result<Box<dyn Index>> {
    match footer.table {
        TableSpec::BlockBased => table_index::paged(footer.index, footer.id, top),
        TableSpec::HTable => Ok(Box::new(HashMarks::open(top)?)),
    }
}

/// Passes all entries of a block to `see`, in order. Checks first that the format's own search
/// finds each of them.
///
/// # Errors
/// `Corruption` if it is not a block; the errors of `see`.
pub(super) fn walk(
    table: TableSpec,
    order: &dyn Order,
    block: &[u8],
    see: &mut dyn FnMut(&Contents<'_>) -> Result<()>,
) -> Result<()> {
    match table {
        TableSpec::BlockBased => block_based::walk(block, see),
        TableSpec::HTable => htable::walk(block, order, see),
    }
}
