//! Crafted bytes, which damage does not make and a checksum does not find. Each test falsifies a
//! field of a page, a footer, a record of the manifest or a record of the log, and computes the
//! checksum again, as the documents of the formats say.
//!
//! A reader of such bytes gets an answer or `Corruption`. It never panics and never waits for ever.
//! The answer may be wrong where the bytes are consistent.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use hedgerow::inspect::{self, Part};
use hedgerow::io::sim::{SimStorage, SplitMix64};
use hedgerow::{
    Db, Design, Error, ErrorKind, FilterSpec, IndexSpec, KeyOrder, Keyspace, Layout, PolicySpec,
    PrefixRule, TableSpec,
};

use crate::corruption;
use crate::support::{DIR, builder, files, key, small, value};

/// The number of seeds; `HEDGEROW_SEEDS=n` runs `n` seeds, `HEDGEROW_SEED=s` runs the seed `s`.
const USUAL_SEEDS: u64 = 400;

/// Bytes under one checksum.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    path: String,
    pub(crate) what: What,
    /// The offset of the bytes that a test can falsify, and their number.
    at: usize,
    bytes: usize,
}

/// The kind of the bytes, with the parameters of their checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Page(Part, u64),
    Footer,
    /// A record's payload.
    Manifest,
    /// A full record with its header, of a numbered segment.
    Log(u32),
    /// A short record with its header, of a numbered segment.
    ShortLog(u32),
}

fn checksum(file: u64, offset: usize, parts: &[&[u8]]) -> [u8; 4] {
    let place = file.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset as u64;
    let first = crc32c::crc32c(&place.to_le_bytes());
    let sum = parts
        .iter()
        .fold(first, |sum, part| crc32c::crc32c_append(sum, part));
    sum.to_le_bytes()
}

impl Sealed {
    /// Changes the bytes in place and seals them again.
    pub(crate) fn falsify(&self, disk: &SimStorage, change: impl FnOnce(&mut [u8])) {
        let mut file = disk.contents(&self.path).unwrap();
        let (at, end) = (self.at, self.at + self.bytes);
        change(&mut file[at..end]);
        match self.what {
            What::Page(_, table) => {
                let sum = checksum(table, at, &[&file[at..end]]);
                file[end..end + 4].copy_from_slice(&sum);
            }
            What::Footer => {
                let table = u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
                let sum = checksum(table, at, &[&file[at..end]]);
                file[end..end + 4].copy_from_slice(&sum);
            }
            What::Manifest => {
                let (seed, record) = (u64::from_le_bytes(*b"hedgeman"), at - 12);
                let payload = checksum(seed, record, &[&file[at..end]]);
                file[record + 4..record + 8].copy_from_slice(&payload);
                let header = checksum(seed, record, &[&file[record..record + 8]]);
                file[record + 8..at].copy_from_slice(&header);
            }
            What::Log(segment) => {
                let payload = at + 32..end;
                let sum = checksum(u64::from(segment), at, &[b"p", &file[payload]]);
                file[at + 8..at + 12].copy_from_slice(&sum);
                let header = checksum(u64::from(segment), at, &[&file[at + 4..at + 32]]);
                file[at..at + 4].copy_from_slice(&header);
            }
            What::ShortLog(segment) => {
                let sum = checksum(u64::from(segment), at, &[&file[at + 4..end]]);
                file[at..at + 4].copy_from_slice(&sum);
            }
        }
        disk.set_contents(&self.path, &file).unwrap();
    }
}

/// Everything that has a checksum in the files of a database.
pub(crate) fn sealed(disk: &SimStorage) -> Vec<Sealed> {
    let mut all = Vec::new();
    for name in files(disk, "tables") {
        let path = format!("{DIR}/tables/{name}");
        let table = inspect::Table::open(disk, Path::new(&path)).unwrap();
        let id = table.footer().id.0;
        for page in table.pages() {
            let page = page.unwrap();
            all.push(Sealed {
                path: path.clone(),
                what: What::Page(page.part, id),
                at: page.handle.offset as usize,
                bytes: page.handle.bytes as usize - 4,
            });
        }
        all.push(Sealed {
            path,
            what: What::Footer,
            at: table.bytes() as usize - 96,
            bytes: 84,
        });
    }
    let manifest = inspect::manifest(disk, Path::new(DIR)).unwrap();
    for record in manifest.records.iter().flatten() {
        all.push(Sealed {
            path: format!("{DIR}/MANIFEST"),
            what: What::Manifest,
            at: record.offset as usize + 12,
            bytes: record.bytes as usize - 12,
        });
    }
    for number in inspect::segments(disk, Path::new(DIR)).unwrap() {
        let segment = inspect::Segment::open(disk, Path::new(DIR), number).unwrap();
        let path = segment.path().to_str().unwrap().to_owned();
        for record in segment {
            let record = record.unwrap();
            let at = record.offset as usize;
            let payload = disk.contents(&path).unwrap()[at + 4..at + 8].to_vec();
            let payload = u32::from_le_bytes(payload.try_into().unwrap());
            let (what, bytes) = match payload & 0x8000_0000 {
                0 => (What::Log(number), 32 + payload as usize),
                _ => (What::ShortLog(number), 12 + (payload & 0xFFFF) as usize),
            };
            all.push(Sealed {
                path: path.clone(),
                what,
                at,
                bytes,
            });
        }
    }
    all
}

/// A closed database with every table format, index and filter.
fn every_part() -> SimStorage {
    let disk = SimStorage::new(3);
    let db = builder(&disk).log_segment_bytes(4 << 10).open().unwrap();
    let semi_sorted = Layout {
        order: KeyOrder::SemiSorted(PrefixRule::Bytes(7)),
        ..Layout::default()
    };
    let bloom = FilterSpec::Bloom { bits_per_key: 10.0 };
    let with = |policy: PolicySpec, table, index, filter: FilterSpec| Design {
        policy,
        table,
        index,
        filter,
        ..small()
    };
    let (block_based, htable) = (TableSpec::BlockBased, TableSpec::HTable);
    let (tiering, trie) = (PolicySpec::tiering(4), PolicySpec::trie(4));
    let keyspaces = [
        (
            "htable",
            Layout::hashed(),
            with(trie.clone(), htable, IndexSpec::Fence, bloom),
        ),
        (
            "levels",
            semi_sorted.clone(),
            with(
                PolicySpec::default(),
                block_based,
                IndexSpec::ThreeLevel,
                "cuckoo:12".parse().unwrap(),
            ),
        ),
        (
            "shared",
            semi_sorted,
            with(
                tiering,
                block_based,
                IndexSpec::ThreeLevelArray,
                "mlcf:14".parse().unwrap(),
            ),
        ),
        (
            "clusters",
            Layout::hashed(),
            with(
                trie,
                htable,
                IndexSpec::Fence,
                "cluster:16".parse().unwrap(),
            ),
        ),
    ];
    for (name, layout, design) in keyspaces {
        let keyspace = db.keyspace_with(name, layout, design).unwrap();
        for i in 0..160 {
            match i % 7 {
                6 => keyspace.delete(key(i / 2)).unwrap(),
                0 => keyspace.put(key(i), vec![i as u8; 3000]).unwrap(),
                _ => keyspace.put(key(i), value(i)).unwrap(),
            }
            if i == 80 || i == 150 {
                keyspace.flush().unwrap();
            }
        }
    }
    db.close().unwrap();
    disk
}

/// The error, unless it is one that crafted bytes may give.
fn admit(case: &str, result: hedgerow::Result<()>) {
    if let Err(error) = result {
        assert!(
            matches!(
                error.kind(),
                ErrorKind::Corruption | ErrorKind::FormatVersion
            ),
            "{case}: {error}"
        );
    }
}

/// Reads a keyspace in every way; the first error.
fn read(keyspace: &Keyspace) -> hedgerow::Result<()> {
    let keys: Vec<_> = (0..170).map(key).collect();
    let mut first = Ok(());
    let mut note = |result: Result<(), Error>| {
        if first.is_ok() {
            first = result;
        }
    };
    for key in &keys {
        note(keyspace.get(key).map(drop));
    }
    note(keyspace.multi_get(&keys).map(drop));
    note(
        keyspace
            .scan_unordered()?
            .try_for_each(|item| item.map(drop)),
    );
    if let Ok(scan) = keyspace.scan::<&[u8]>(..) {
        note(scan.take(100_000).try_for_each(|item| item.map(drop)));
        let scan = keyspace.scan::<&[u8]>(..)?;
        note(scan.rev().take(100_000).try_for_each(|item| item.map(drop)));
    }
    first
}

/// Does with a database whatever reads its files; returns how much of that ended with an error.
fn do_everything(disk: &SimStorage, case: &str) -> usize {
    let mut errors = 0;
    let mut note = |what: &str, result: hedgerow::Result<()>| {
        errors += usize::from(result.is_err());
        admit(&format!("{case}: {what}"), result);
    };
    let each = |db: &Db, act: &dyn Fn(&Keyspace) -> hedgerow::Result<()>| {
        let mut first = Ok(());
        for keyspace in db.stats().keyspaces {
            let keyspace = db.existing_keyspace(&keyspace.name).unwrap();
            let done = act(&keyspace);
            first = first.and(done);
        }
        first
    };
    let read_only = builder(&disk.kill()).read_only(true).open();
    note(
        "read only",
        read_only.and_then(|db| db.verify().map(drop).and(each(&db, &read))),
    );
    for act in 0..3 {
        let image = disk.kill();
        let opened = builder(&image).open();
        note(
            "open",
            opened.and_then(|db| {
                let done = match act {
                    0 => each(&db, &read),
                    1 => db.verify().map(drop),
                    _ => each(&db, &|keyspace| {
                        keyspace.put(key(5), value(5))?;
                        keyspace.compact::<&[u8]>(..)
                    }),
                };
                done.and_then(|()| each(&db, &read)).and(db.close())
            }),
        );
    }
    let image = disk.kill();
    let repaired = hedgerow::repair_with(builder(&image));
    note(
        "repair",
        repaired.and_then(|_| {
            let db = builder(&image).open()?;
            db.verify()?;
            each(&db, &read)
        }),
    );
    errors
}

/// Draws falsified bytes.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next() % bound as u64) as usize
    }

    fn falsify(&mut self, bytes: &mut [u8]) {
        for _ in 0..1 + self.below(3) {
            // The first bytes describe the rest, so they are drawn more often than values.
            let range = [4, 40, bytes.len(), bytes.len()][self.below(4)];
            let at = self.below(range.min(bytes.len()));
            bytes[at] = match self.below(6) {
                0 => bytes[at].wrapping_add(1),
                1 => bytes[at].wrapping_sub(1),
                2 => bytes[at] ^ (1 << self.below(8)),
                3 => [0, 1, 0x7F, 0x80, 0xFF][self.below(5)],
                _ => self.below(256) as u8,
            };
        }
    }
}

#[test]
fn falsified_fields_give_an_answer_or_corruption() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    let one: Option<u64> = number("HEDGEROW_SEED");
    let count = number("HEDGEROW_SEEDS").unwrap_or(USUAL_SEEDS);
    let (first, end) = one.map_or((0, count), |seed| (seed, seed + 1));
    let subjects = [corruption::subject().0, every_part()];
    let sealed = subjects.each_ref().map(sealed);
    let mut noticed = 0;
    for seed in first..end {
        let mut random = Random(SplitMix64::new(seed));
        let subject = random.below(2);
        let image = subjects[subject].kill();
        // Each kind as often as the others, whatever there is more of.
        let kinds = [
            |it: &Sealed| matches!(it.what, What::Page(Part::Block, _)),
            |it: &Sealed| matches!(it.what, What::Page(Part::Facts, _)),
            |it: &Sealed| matches!(it.what, What::Page(..)),
            |it: &Sealed| it.what == What::Footer,
            |it: &Sealed| it.what == What::Manifest,
            |it: &Sealed| matches!(it.what, What::Log(_)),
            |it: &Sealed| matches!(it.what, What::ShortLog(_)),
        ];
        let kind = kinds[random.below(kinds.len())];
        let of_kind: Vec<_> = sealed[subject].iter().filter(|it| kind(it)).collect();
        let chosen = of_kind[random.below(of_kind.len())];
        chosen.falsify(&image, |bytes| random.falsify(bytes));
        let case = format!("HEDGEROW_SEED={seed}: {chosen:?}");
        let done = catch_unwind(AssertUnwindSafe(|| do_everything(&image, &case)));
        let errors = done.unwrap_or_else(|_| panic!("{case}: a panic, see above"));
        noticed += usize::from(errors > 0);
    }
    println!("{noticed} of {} falsified fields were noticed", end - first);
}

/// The error that must be `Corruption` of this file.
#[track_caller]
fn assert_told(error: &Error, path: &str, expected: &str) {
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Corruption, "{text}");
    assert!(text.contains(path) && text.contains(expected), "{text}");
}

/// The blocks of the keyspace `one` with a base of two bytes, each with its user keys.
fn numbered_blocks(disk: &SimStorage) -> Vec<(Sealed, Vec<Vec<u8>>)> {
    let manifest = inspect::manifest(disk, Path::new(DIR)).unwrap();
    let one = manifest
        .state
        .iter()
        .flatten()
        .find_map(|change| match change {
            inspect::Change::CreateKeyspace { id, name, .. } => (name == "one").then_some(id.0),
            _ => None,
        });
    let mut blocks = Vec::new();
    for block in sealed(disk) {
        let table = inspect::Table::open(disk, Path::new(&block.path));
        let is_block = matches!(block.what, What::Page(Part::Block, _));
        if !is_block || Some(table.as_ref().unwrap().facts().unwrap().keyspace) != one {
            continue;
        }
        let table = table.unwrap();
        let mut pages = table.pages().map(Result::unwrap);
        let page = pages.find(|page| page.handle.offset as usize == block.at);
        let entries = page.unwrap().entries;
        if entries.iter().all(|entry| entry.seqno.0 >= 128) {
            blocks.push((block, entries.into_iter().map(|entry| entry.key).collect()));
        }
    }
    assert!(blocks.len() > 2);
    blocks
}

#[test]
fn an_entry_numbered_above_its_table_is_corruption() {
    let (disk, expected) = corruption::subject();
    let mut noticed = 0;
    for (block, keys) in numbered_blocks(&disk) {
        let image = disk.kill();
        // The base comes first, as two bytes of seven bits.
        block.falsify(&image, |bytes| bytes[..2].copy_from_slice(&[0xFF, 0x7F]));
        let db = builder(&image).open().unwrap();
        let one = db.existing_keyspace("one").unwrap();
        for key in &keys {
            match one.get(key) {
                Ok(found) => {
                    let right = expected["one"].get(key);
                    assert_eq!(found.as_deref(), right.map(Vec::as_slice));
                }
                Err(error) => {
                    assert_told(&error, &block.path, "expected entries numbered up to");
                    noticed += 1;
                }
            }
        }
        let scanned = one
            .scan::<&[u8]>(..)
            .unwrap()
            .try_for_each(|it| it.map(drop));
        assert_told(&scanned.unwrap_err(), &block.path, "expected");
        let backward = one.scan::<&[u8]>(..).unwrap().rev();
        let backward = { backward }.try_for_each(|it| it.map(drop));
        assert_told(&backward.unwrap_err(), &block.path, "expected");
        let error = db.verify().unwrap_err();
        assert_told(&error, &block.path, "expected");
        let error = one.compact::<&[u8]>(..).unwrap_err();
        assert_told(&error, &block.path, "expected");
    }
    assert!(noticed > 2);
}

#[test]
fn keys_out_of_order_are_corruption_of_a_merge() {
    let (disk, _) = corruption::subject();
    for (block, keys) in numbered_blocks(&disk) {
        let image = disk.kill();
        block.falsify(&image, |bytes| {
            // The first key is whole.
            let first = &keys[0];
            let at = bytes.windows(first.len()).position(|it| it == first);
            bytes[at.unwrap() + first.len() - 1] = 0xFF;
        });
        let db = builder(&image).open().unwrap();
        let one = db.existing_keyspace("one").unwrap();
        let error = one.compact::<&[u8]>(..).unwrap_err();
        assert_told(&error, &block.path, "expected");
        let error = db.verify().unwrap_err();
        assert_told(&error, &block.path, "expected");
        let _ = read(&one);
        drop((one, db));
        let report = hedgerow::repair_with(builder(&image)).unwrap();
        assert!(!report.missing.is_empty(), "{report:?}");
        builder(&image).open().unwrap().verify().unwrap();
    }
}

/// The manifest gives a table another number than the table's footer.
#[test]
fn a_manifest_that_does_not_fit_a_table_is_corruption() {
    let (disk, _) = corruption::subject();
    let manifest = inspect::manifest(&disk, Path::new(DIR)).unwrap();
    let tables = manifest
        .state
        .iter()
        .flatten()
        .filter_map(|change| match change {
            inspect::Change::Tree(edit) => Some(&edit.added),
            _ => None,
        });
    let mut refused = 0;
    for (_, meta) in tables.flatten() {
        if meta.largest_seqno.0 < 128 {
            continue;
        }
        for (more, is_given_out) in [(0, true), (1, false)] {
            let image = disk.kill();
            // The largest number has two bytes. The file's size and the smallest key follow it.
            let mut wanted = meta.file_bytes.to_le_bytes().to_vec();
            wanted.push(meta.smallest_key.len() as u8);
            wanted.extend_from_slice(&meta.smallest_key);
            for record in sealed(&image).iter().filter(|it| it.what == What::Manifest) {
                record.falsify(&image, |bytes| {
                    let at = bytes.windows(wanted.len()).position(|it| it == wanted);
                    if let Some(at) = at {
                        bytes[at - 2] ^= 1;
                        bytes[at - 1] += 100 * more;
                    }
                });
            }
            let path = format!("{:010}.table", meta.id.0);
            match builder(&image).read_only(true).open() {
                Err(error) if is_given_out => {
                    assert_told(
                        &error,
                        &path,
                        "expected a table that the manifest describes as",
                    );
                }
                Err(error) => assert_told(&error, "MANIFEST", "expected tables numbered up to"),
                Ok(_) => panic!("{path} was not noticed"),
            }
            refused += 1;
        }
    }
    assert!(refused > 2);
}
