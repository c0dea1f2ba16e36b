//! Reads and checks everything that is stored.

use std::path::Path;
use std::sync::Arc;

use hedgerow_io::Storage;

use crate::base::error::{Error, ErrorKind, Result};
use crate::group_filter;
use crate::tree::engine::{Engine, Writer};
use crate::tree::version::manifest;
use crate::tree::version::state::State;
use crate::tree::wal::log::{segment_name, segment_number};
use crate::tree::wal::segment_reader::SegmentReader;

/// The progress of a verification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Bytes of tables checked.
    pub done_bytes: u64,
    /// Bytes of all tables.
    pub total_bytes: u64,
}

/// The amounts that were verified, without finding an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The number of tables.
    pub tables: u64,
    /// The number of entries in them.
    pub entries: u64,
    /// The bytes of tables.
    pub bytes: u64,
    /// The number of filter files.
    pub filters: u64,
    /// The number of log records.
    pub log_records: u64,
    /// The number of entries that only the log has: they are in no table yet.
    pub log_entries: u64,
}

/// Checks the manifest, every table of the current version, every file of its filters, and the
/// durable part of the log.
pub(crate) fn verify(
    engine: &Arc<Engine>,
    go_on: &mut dyn FnMut(VerifyProgress) -> bool,
) -> Result<VerifyReport> {
    engine.check_open()?;
    let mut report = VerifyReport::default();
    let storage = &*engine.environment.storage;
    let writer = engine.writer().ok();
    if let Some(writer) = writer {
        verify_manifest(writer, storage, &engine.directories.root)?;
    }
    // The trees are held, so that no file is removed while it is read.
    let catalog = engine.catalog.load_full();
    let trees: Vec<_> = catalog
        .partitions
        .values()
        .map(|p| p.tree_owned())
        .collect();
    let mut progress = VerifyProgress {
        done_bytes: 0,
        total_bytes: trees.iter().map(|tree| tree.version.bytes()).sum(),
    };
    for tree in &trees {
        tree.version.check()?;
        report.log_entries += tree.memtables().map(|m| m.entries()).sum::<u64>();
        for (_, table) in tree.version.tables() {
            if !go_on(progress) {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "the verification was ended by its caller",
                ));
            }
            engine.check_open()?;
            table.verify()?;
            progress.done_bytes += table.meta().file_bytes;
            report.tables += 1;
            report.entries += table.meta().entries;
            report.bytes += table.meta().file_bytes;
        }
        for file in group_filter::files(&tree.version) {
            engine.check_open()?;
            report.filters += u64::from(group_filter::verify(&file)?);
        }
    }
    if let Some(writer) = writer {
        report.log_records = verify_log(writer, storage, &engine.directories.log())?;
    }
    go_on(progress);
    Ok(report)
}

/// Checks that the manifest on disk describes the engine's state.
fn verify_manifest(writer: &Writer, storage: &dyn Storage, dir: &Path) -> Result<()> {
    let manifest = writer.manifest();
    let replay = manifest::replay(storage, dir)?;
    if State::replay(&replay.edits)? != *manifest.state() {
        return Err(
            Error::corruption("the manifest does not describe the open database")
                .at(&dir.join(manifest::FILE_NAME), None),
        );
    }
    Ok(())
}

/// Checks that every record below the durable position is there. Skips segments that are recycled
/// meanwhile.
fn verify_log(writer: &Writer, storage: &dyn Storage, dir: &Path) -> Result<u64> {
    let durable = writer.log.durable();
    let files = storage.list(dir).map_err(|e| Error::io("list", dir, e))?;
    let numbers = files.iter().filter_map(|file| segment_number(&file.name));
    let start = || writer.manifest().log_start();
    let mut records = 0;
    for number in numbers.filter(|&n| n <= durable.segment) {
        let path = dir.join(segment_name(number));
        let result = SegmentReader::open(storage, &path, number).and_then(|mut reader| {
            let mut count = 0;
            while let Some(record) = reader.next()? {
                let offset = u64::from(record.offset);
                for op in record.ops() {
                    op.map_err(|e| e.at(&path, Some(offset)))?;
                }
                count += 1;
            }
            Ok((count, reader.position()))
        });
        if number < start() {
            continue;
        }
        let (count, end) = result?;
        if number == durable.segment && end < durable {
            return Err(Error::corruption(format!(
                "expected durable records up to offset {}, found the last one ending at {}",
                durable.offset, end.offset
            ))
            .at(&path, Some(u64::from(end.offset))));
        }
        records += count;
    }
    Ok(records)
}
