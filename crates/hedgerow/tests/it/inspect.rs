//! Inspection tells what is in the files, to the byte, and tells damage where it is.

use std::collections::BTreeSet;
use std::path::Path;

use hedgerow::inspect::{self, Change, Part, Segment, SegmentEnd, StoredValue, Table, TablePage};
use hedgerow::io::sim::SimStorage;
use hedgerow::{EntryKind, Error, ErrorKind, Layout, Result};

use crate::corruption::{is_damage, subject, subjects};
use crate::support::{DIR, key, open, plain, value};

fn pages(disk: &SimStorage, path: &str) -> Result<Vec<Result<TablePage>>> {
    Ok(Table::open(disk, Path::new(path))?.pages().collect())
}

fn segment(disk: &SimStorage, path: &str) -> Result<Segment> {
    let name = Path::new(path).file_stem().and_then(|stem| stem.to_str());
    Segment::open(disk, Path::new(DIR), name.unwrap().parse().unwrap())
}

/// Everything that is wrong with a file, also if that it ends in the middle of a record.
fn errors(disk: &SimStorage, path: &str) -> Vec<Error> {
    if path.contains("/tables/") {
        return match pages(disk, path) {
            Ok(pages) => pages.into_iter().filter_map(Result::err).collect(),
            Err(error) => vec![error],
        };
    }
    let torn = Error::new(ErrorKind::Corruption, "torn");
    if path.contains("MANIFEST") {
        return match inspect::manifest(disk, Path::new(DIR)) {
            Ok(manifest) => {
                let errors = manifest.records.into_iter().filter_map(Result::err);
                errors.chain(manifest.torn.map(|_| torn)).collect()
            }
            Err(error) => vec![error],
        };
    }
    let mut segment = match segment(disk, path) {
        Ok(segment) => segment,
        Err(error) => return vec![error],
    };
    let mut errors: Vec<Error> = segment.by_ref().filter_map(Result::err).collect();
    match segment.end() {
        Ok(SegmentEnd::Sealed | SegmentEnd::Blank) => {}
        Ok(_) => errors.push(torn),
        Err(error) => errors.push(error),
    }
    errors
}

#[test]
fn every_byte_of_a_table_and_every_entry_is_told() {
    let (disk, _) = subject();
    let (mut out_of_line, mut tombstones, mut tables) = (0, 0, BTreeSet::new());
    for (path, bytes) in subjects(&disk) {
        if !path.contains("/tables/") {
            continue;
        }
        let table = Table::open(&disk, Path::new(&path)).unwrap();
        tables.insert(table.footer().id);
        assert_eq!(table.bytes(), bytes as u64);
        let pages: Vec<TablePage> = table.pages().collect::<Result<_>>().unwrap();
        let mut end = 0;
        for page in &pages {
            assert_eq!(page.handle.offset, end, "{page:?}");
            end += u64::from(page.handle.bytes);
        }
        assert_eq!(end + 96, bytes as u64, "pages, and then the footer");

        let blocks = pages.iter().filter(|page| page.part == Part::Block);
        assert_eq!(blocks.count(), table.blocks().unwrap());
        let entries: Vec<_> = pages.iter().flat_map(|page| &page.entries).collect();
        let meta = table.facts().unwrap();
        assert_eq!(entries.len() as u64, meta.entries);
        assert_eq!(entries.first().unwrap().key, meta.smallest_key);
        assert_eq!(entries.last().unwrap().key, meta.largest_key);
        let deletes = entries.iter().filter(|e| e.kind == EntryKind::Delete);
        assert_eq!(deletes.count() as u64, meta.tombstones);
        tombstones += meta.tombstones;
        for entry in entries {
            if let StoredValue::OutOfLine { page, bytes } = entry.value {
                let value = pages.iter().find(|p| p.handle == page).unwrap();
                assert_eq!((value.part, value.raw_bytes), (Part::Value, bytes as usize));
                out_of_line += 1;
            }
        }
    }
    assert!(tombstones > 0 && tables.len() > 3);
    assert_eq!(out_of_line, 0, "values of 1500 bytes are in their blocks");

    let manifest = inspect::manifest(&disk, Path::new(DIR)).unwrap();
    assert_eq!(manifest.torn, None);
    let named = manifest
        .state
        .unwrap()
        .into_iter()
        .filter_map(|change| match change {
            Change::Tree(edit) => Some(edit.added),
            _ => None,
        });
    let named: BTreeSet<_> = named.flatten().map(|(_, meta)| meta.id).collect();
    assert_eq!(named, tables);
}

#[test]
fn a_value_out_of_line_is_a_page_before_its_block() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    plain(&db).put("long", vec![7; 5000]).unwrap();
    plain(&db).flush().unwrap();
    let (path, _) = subjects(&disk).remove(0);
    let pages: Vec<TablePage> = pages(&disk, &path)
        .and_then(|pages| pages.into_iter().collect())
        .unwrap();
    assert_eq!((pages[0].part, pages[0].raw_bytes), (Part::Value, 5000));
    let value = StoredValue::OutOfLine {
        page: pages[0].handle,
        bytes: 5000,
    };
    assert_eq!(pages[1].entries[0].value, value);
}

#[test]
fn the_edits_and_the_log_are_told_beside_the_writer() {
    let disk = SimStorage::new(1);
    let dir = Path::new(DIR);
    let db = open(&disk);
    let keyspace = plain(&db);
    keyspace.put(key(1), value(1)).unwrap();
    keyspace.flush().unwrap();
    let mut batch = db.batch();
    batch.put(&keyspace, key(2), value(2)).unwrap();
    batch.delete(&keyspace, key(1)).unwrap();
    batch.commit(hedgerow::Durability::Buffered).unwrap();

    let manifest = inspect::manifest(&disk, dir).unwrap();
    let records: Vec<_> = manifest.records.into_iter().map(Result::unwrap).collect();
    let mut end = records[0].offset;
    for record in &records {
        assert_eq!(record.offset, end);
        end += record.bytes;
    }
    assert_eq!(end, manifest.bytes);
    let flush = records
        .iter()
        .flat_map(|record| &record.edit)
        .find_map(|change| match change {
            Change::Tree(edit) => Some(edit),
            _ => None,
        });
    assert_eq!(flush.unwrap().added[0].1.entries, 1);

    let numbers = inspect::segments(&disk, dir).unwrap();
    let operations: Vec<_> = numbers
        .iter()
        .flat_map(|&number| Segment::open(&disk, dir, number).unwrap())
        .flat_map(|record| record.unwrap().operations)
        .map(|op| (op.kind, op.key))
        .collect();
    let expected = [
        (EntryKind::Put, key(1)),
        (EntryKind::Put, key(2)),
        (EntryKind::Delete, key(1)),
    ];
    assert_eq!(operations, expected);
}

#[test]
fn any_flipped_byte_is_told_and_none_panics() {
    let (disk, _) = subject();
    for (path, bytes) in subjects(&disk) {
        assert!(
            path.contains("/log/") || errors(&disk, &path).is_empty(),
            "{path} is whole"
        );
        let whole = errors(&disk, &path).len();
        for byte in (0..bytes as u64).step_by(3) {
            disk.flip_bit(&path, byte * 8 + byte % 8).unwrap();
            let errors = errors(&disk, &path);
            assert!(errors.iter().all(is_damage), "{errors:?}");
            if !path.contains("/log/") {
                assert!(!errors.is_empty(), "byte {byte} of {path}");
            }
            disk.flip_bit(&path, byte * 8 + byte % 8).unwrap();
        }
        assert_eq!(errors(&disk, &path).len(), whole);
    }
}

#[test]
fn any_cut_file_is_told_and_none_panics() {
    let (disk, _) = subject();
    for (path, bytes) in subjects(&disk) {
        let whole = disk.contents(&path).unwrap();
        for cut in (0..bytes).step_by(1 + bytes / 100) {
            disk.set_contents(&path, &whole[..cut]).unwrap();
            let errors = errors(&disk, &path);
            assert!(errors.iter().all(is_damage), "{errors:?}");
            assert!(
                path.contains("/log/") || !errors.is_empty() || is_end_of_record(&disk, cut),
                "{path} cut to {cut} bytes"
            );
        }
        disk.set_contents(&path, &whole).unwrap();
    }
}

/// A manifest cut there has lost its last edits without a trace.
fn is_end_of_record(disk: &SimStorage, cut: usize) -> bool {
    let manifest = inspect::manifest(disk, Path::new(DIR));
    manifest.is_ok_and(|manifest| manifest.bytes == cut as u64 && manifest.torn.is_none())
}

#[test]
fn what_is_behind_the_damage_is_told_too() {
    let (disk, _) = subject();
    let is_large = |(path, bytes): &(String, usize)| path.contains("/tables/") && *bytes > 2000;
    let (path, _) = subjects(&disk).into_iter().find(is_large).unwrap();
    let before = pages(&disk, &path).unwrap().len();
    disk.flip_bit(&path, 8 * 100).unwrap();
    let damaged = pages(&disk, &path).unwrap();
    assert_eq!(damaged.len(), before);
    let error = damaged[0].as_ref().unwrap_err();
    assert_eq!(error.path(), Some(Path::new(&path)));
    assert_eq!(error.offset(), Some(0));
    assert!(damaged[1..].iter().all(Result::is_ok));

    // The second record of the manifest: the others are there, what they amount to is not known.
    let db = open(&disk);
    for name in ["a", "b", "c"] {
        db.keyspace(name, Layout::sorted()).unwrap();
    }
    let whole = inspect::manifest(&disk, Path::new(DIR)).unwrap();
    let second = whole.records[1].as_ref().unwrap().offset;
    let path = format!("{DIR}/MANIFEST");
    disk.flip_bit(&path, 8 * (second + 14)).unwrap();
    let damaged = inspect::manifest(&disk, Path::new(DIR)).unwrap();
    assert_eq!(damaged.records.len(), whole.records.len());
    let error = damaged.records[1].as_ref().unwrap_err();
    assert_eq!(error.offset(), Some(second));
    assert_eq!(damaged.state, None);
    assert!(damaged.records[2..].iter().all(Result::is_ok));
}

#[test]
fn a_log_that_was_durable_beyond_its_end_is_damaged() {
    let disk = SimStorage::new(1);
    let db = open(&disk);
    for i in 0..10 {
        crate::support::put_synced(&plain(&db), i);
    }
    let number = inspect::segments(&disk, Path::new(DIR)).unwrap()[0];
    let mut whole = Segment::open(&disk, Path::new(DIR), number).unwrap();
    let third = whole.by_ref().nth(2).unwrap().unwrap().offset;
    assert_eq!(whole.by_ref().count(), 7);
    assert_eq!(whole.end().unwrap(), SegmentEnd::Blank);

    let path = format!("{DIR}/log/{number:08}.log");
    disk.flip_bit(&path, 8 * (third + 40)).unwrap();
    let mut damaged = Segment::open(&disk, Path::new(DIR), number).unwrap();
    assert_eq!(damaged.by_ref().count(), 2);
    let error = damaged.end().unwrap_err();
    assert_eq!(
        (error.kind(), error.offset()),
        (ErrorKind::Corruption, Some(third))
    );
}
