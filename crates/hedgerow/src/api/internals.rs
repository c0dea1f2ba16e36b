//! The decoders as functions of bytes, for fuzzers, and parts of tables, for benches. Not part of
//! the stable surface.
//!
//! Each decoder takes the bytes of a file and must return for any bytes: an error is a good answer,
//! a panic is a bug. A fuzzer's build skips checksums, since a fuzzer would hardly guess one.

pub mod parts;

use std::path::Path;
use std::sync::Arc;

use hedgerow_io::sim::SimStorage;
use hedgerow_io::{RandomRead, ReadMode, Storage};

use crate::base::codec::{ByteReader, packed};
use crate::base::entry::{KeyHash, SeqNo};
use crate::base::error::{Error, Result};
use crate::base::page::{Buffer, Page, PageSource, Step, TableId};
use crate::group_filter::FilterFile;
use crate::group_filter::cluster::{self, Cluster, Source, assemble};
use crate::group_filter::multi_level_cuckoo::MultiLevelCuckoo;
use crate::table::InspectedTable;
use crate::table::block_index::Index;
use crate::table::block_index::entropy_coded_trie::three_level::ThreeLevel;
use crate::table::block_index::hash_marks::HashMarks;
use crate::table::filter::Probe;
use crate::table::filter::run_hashes;
use crate::table::format;
use crate::table::page_io;
use crate::table::page_io::FilePages;
use crate::table::table_file::ResidencyChoice;
use crate::table::{GetState, Query};
use crate::tree::version::edit_encoding::{decode_edit, encode_edit};
use crate::tree::version::manifest;
use crate::tree::version::state::State;
use crate::tree::wal::payload;
use crate::tree::wal::segment_reader::SegmentReader;

const PATH: &str = "/file";
/// The limit of steps of a walk over a damaged table, which may be circular.
const STEPS_MAX: usize = 10_000;

/// Decodes a manifest: its records, and the state that they amount to.
///
/// # Errors
/// Any error of the bytes.
pub fn manifest(bytes: &[u8]) -> Result<()> {
    let replay = manifest::replay_bytes(bytes)?;
    let state = State::replay(&replay.edits)?;
    // A decoded state can be encoded, and decodes to itself.
    assert_eq!(
        State::replay(&[state.snapshot()])?.snapshot(),
        state.snapshot()
    );
    Ok(())
}

/// Decodes the payload of a manifest record.
///
/// # Errors
/// Any error of the bytes.
pub fn edit(bytes: &[u8]) -> Result<()> {
    let edit = decode_edit(bytes)?;
    assert_eq!(
        encode_edit(&decode_edit(&encode_edit(&edit))?),
        encode_edit(&edit)
    );
    Ok(())
}

/// Decodes a log segment: its records, their operations, and the bytes behind them.
///
/// # Errors
/// Any error of the bytes.
pub fn log_segment(bytes: &[u8]) -> Result<()> {
    let number = bytes.get(24..28).and_then(|b| b.first_chunk::<4>());
    let number = number.map_or(1, |bytes| u32::from_le_bytes(*bytes));
    let disk = disk_with(bytes);
    let mut reader = SegmentReader::open(&disk, Path::new(PATH), number)?;
    while let Some(record) = reader.next()? {
        record.ops().try_for_each(|op| op.map(drop))?;
    }
    let end = reader.position();
    reader.scan_for_valid(end.offset)?;
    Ok(())
}

/// Decodes the operations of a log record. The first byte is their number.
///
/// # Errors
/// Any error of the bytes.
pub fn log_operations(bytes: &[u8]) -> Result<()> {
    let (count, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    let mut raw = Vec::new();
    let payload = payload::unpacked(bytes, &mut raw)?;
    payload::ops(payload, u32::from(*count)).try_for_each(|op| op.map(drop))
}

/// Opens a table, reads it by key and from both ends, verifies and inspects it, with index and
/// filter in memory and paged.
///
/// # Errors
/// The first error that is found.
pub fn table(bytes: &[u8]) -> Result<()> {
    let id = bytes
        .len()
        .checked_sub(96)
        .and_then(|at| bytes[at..].first_chunk::<8>());
    let id = TableId(id.map_or(1, |bytes| u64::from_le_bytes(*bytes)));
    let disk = disk_with(bytes);
    let path = Path::new(PATH);
    let open = || {
        disk.open(path, ReadMode::Pread)
            .map_err(|e| Error::io("open", path, e))
    };
    let mut first_error = Ok(());
    for resident in [true, false] {
        let file = open()?;
        let residency = ResidencyChoice {
            index_resident: resident,
            filter_resident: resident,
            places: resident,
        };
        let read = read_table(&file, id, residency);
        first_error = first_error.and(read);
    }
    let inspected = InspectedTable::open(&disk, path).and_then(|table| {
        let errors = table.pages().take(STEPS_MAX).filter_map(Result::err);
        errors.last().map_or(Ok(()), Err)
    });
    first_error.and(inspected)
}

fn read_table(file: &Arc<dyn RandomRead>, id: TableId, residency: ResidencyChoice) -> Result<()> {
    let path = Path::new(PATH);
    let reader = format::open(file.clone(), path, id, None, residency)?;
    let pages: Arc<dyn PageSource> = Arc::new(FilePages {
        file: file.clone(),
        path: path.to_path_buf(),
    });
    let meta = reader.meta().clone();
    let mut first_error = reader.verify(&*pages);
    reader.split_keys(4);
    for key in [
        &meta.smallest_key[..],
        &meta.largest_key,
        b"key",
        b"plant/00037",
    ] {
        let query = Query::alone(key, KeyHash::of(key, 7), SeqNo::MAX);
        let (mut state, mut page) = (GetState::default(), None);
        for _ in 0..STEPS_MAX {
            match reader.get(&query, &mut state, page.take()) {
                Ok(Step::Read(id)) => match pages.page(id) {
                    Ok(read) => page = Some(read),
                    Err(error) => {
                        first_error = first_error.and(Err(error));
                        break;
                    }
                },
                Ok(Step::Done(_)) => break,
                Err(error) => {
                    first_error = first_error.and(Err(error));
                    break;
                }
            }
        }
    }
    let mut iter = reader.clone().iter(pages);
    let mut walk = || -> Result<()> {
        iter.seek_first()?;
        for _ in 0..STEPS_MAX {
            if iter.entry().is_none() {
                break;
            }
            iter.advance()?;
        }
        iter.seek_last()?;
        for _ in 0..STEPS_MAX {
            if iter.entry().is_none() {
                break;
            }
            iter.retreat()?;
        }
        iter.seek(b"key-0005", SeqNo::MAX)?;
        iter.seek_before(b"key-0005", SeqNo(0))
    };
    first_error.and(walk())
}

/// The hash seed and the runs of the filters that fuzzers build.
const FILTER_SEED: u64 = 77;
const FILTER_RUNS: [u64; 2] = [100, 99];

/// Decodes a filter over several runs, probes it, extends it, and encodes it again.
///
/// # Errors
/// Any error of the bytes.
pub fn multi_level_cuckoo(bytes: &[u8]) -> Result<()> {
    let mut buffer = Buffer::allocate(bytes.len());
    buffer.copy_from_slice(bytes);
    let filter = MultiLevelCuckoo::decode(buffer, FILTER_SEED, &FILTER_RUNS)?;
    let hashes = (0..50u64).map(|i| i.wrapping_mul(0x009E_3779_B97F_4A7C) >> 8);
    for hash in hashes.clone() {
        filter.candidates(KeyHash(u128::from(hash) << 8), None)?;
    }
    // Refused if there is no room for a run.
    let _ = filter.extend(hashes);
    let mut again = Vec::new();
    filter.encode(FILTER_SEED, &FILTER_RUNS, |piece| {
        again.extend_from_slice(piece);
        Ok(())
    })?;
    assert_eq!(again.len(), bytes.len());
    Ok(())
}

/// Decodes the file of a filter cluster, probes it, and assembles it again.
///
/// # Errors
/// Any error of the bytes.
pub fn cluster(bytes: &[u8]) -> Result<()> {
    let disk = disk_with(bytes);
    let file = FilterFile::open(
        &disk,
        ReadMode::default(),
        Path::new(PATH),
        TableId(FILTER_SEED),
    )?;
    let paged = cluster::checked(&file)?;
    let cluster = if paged.stripes().is_empty() {
        paged
    } else {
        let all = Source::Cluster(&paged, paged.all_stripes());
        let read = |id| page_io::read(&*file.file, &file.path, id, Buffer::allocate);
        Cluster::resident(file.number, &[all], read)?
    };
    let marks = vec![Some(()); cluster.stripes().len()];
    for i in 0..50_u128 {
        let hash = KeyHash(i.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
        cluster.probe(hash, None, &marks, |()| ())?;
    }
    let fetch = |id| {
        Err(Error::corruption(format!(
            "expected all in memory, not {id:?}"
        )))
    };
    if !cluster.stripes().is_empty() {
        assemble(
            &[Source::Cluster(&cluster, cluster.all_stripes())],
            cluster::PageEnds::Full,
            fetch,
            |_| Ok(1),
        )?;
    }
    Ok(())
}

/// Decodes the key hashes of a run.
///
/// # Errors
/// Any error of the bytes.
pub fn run_hashes(bytes: &[u8]) -> Result<()> {
    let count = run_hashes::decode(bytes)?.count();
    assert!(count <= 8 * bytes.len());
    Ok(())
}

/// Decodes a three-level index. Two bytes give the length of its top page; the rest is the page of
/// every segment. Looks up some keys and blocks, from pages and in memory.
///
/// # Errors
/// The first error that is found.
pub fn three_level(bytes: &[u8]) -> Result<()> {
    let mut reader = ByteReader::new(bytes);
    let top_bytes = packed::get(reader.take(2, "size of the top page")?, 0, 2);
    let top = reader.take(top_bytes as usize, "the top page")?;
    let segment = reader.take(reader.remaining(), "a segment")?;
    let mut index = ThreeLevel::paged(TableId(1), top)?;
    let ids = index.page_ids();
    let Some(&id) = ids.first() else {
        return Ok(());
    };
    let mut buffer = Buffer::allocate(segment.len());
    buffer.copy_from_slice(segment);
    let page = Page::of_table(buffer, id);
    let of_paged = probe_index(&index, bytes, Some(&page));
    index.load(&vec![segment; ids.len().min(STEPS_MAX)])?;
    of_paged.and(probe_index(&index, bytes, Some(&page)))
}

fn probe_index(index: &dyn Index, bytes: &[u8], page: Option<&Page>) -> Result<()> {
    let borders = [&[0; 16][..], &[0xFF; 16], b"short"];
    for key in bytes.windows(16).step_by(5).chain(borders) {
        index.locate(key, page)?;
        index.lower_bound(key, page)?;
        index.end_before(key, page)?;
    }
    for block in [0, index.blocks() / 2, index.blocks() - 1] {
        index.handle(block, page)?;
    }
    index.split_keys(4);
    Ok(())
}

/// Decodes the hash marks of a table.
///
/// # Errors
/// The first error that is found.
pub fn hash_marks(bytes: &[u8]) -> Result<()> {
    probe_index(&HashMarks::open(bytes)?, bytes, None)
}

fn disk_with(bytes: &[u8]) -> SimStorage {
    let disk = SimStorage::new(0);
    disk.set_contents(PATH, bytes)
        .expect("a simulated disk takes any file");
    disk
}

#[cfg(test)]
mod tests;
