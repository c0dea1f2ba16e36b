mod damage;
mod golden;
mod htable;
mod reference;
mod speed;
mod three_level;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::block_based::TableReader;
use super::format::{open, writer};
use super::table_file::{ResidencyChoice, TableFile, read_meta};
use super::*;
use crate::base::entry::{Flags, KeyHash, Kind, SeqNo, Tag};
use crate::base::error::Result;
use crate::base::key_order;
use crate::base::options::{Compression, IndexSpec, KeyOrder, TableSpec};
use crate::base::page::{Page, PageSource, Step, TableId};
use crate::table::filter::table_filter;
use crate::table::iter::{Entry, ValueSource};
use crate::table::testing::{FilePages, MemoryRead, MemoryWrite};

const SEED: u64 = 11;
const RESIDENT: ResidencyChoice = ResidencyChoice {
    index_resident: true,
    filter_resident: true,
    places: true,
};
const PAGED: ResidencyChoice = ResidencyChoice {
    index_resident: false,
    filter_resident: false,
    places: false,
};

/// The entries of a table in its order.
type Entries = BTreeMap<(Vec<u8>, Reverse<u64>), (Tag, Vec<u8>)>;

fn options(block_bytes: u32) -> TableOptions {
    TableOptions {
        id: TableId(4),
        keyspace: 2,
        partition: 3,
        level: 1,
        run: 17,
        path: 0,
        hash_seed: SEED,
        key_order: KeyOrder::Sorted,
        block_bytes,
        compression: Compression::Lz4,
        table: TableSpec::BlockBased,
        index: IndexSpec::Fence,
        seqno_override: None,
        settled: None,
        filter: Some(table_filter::Spec::Bloom(10.0)),
    }
}

fn write(options: TableOptions, entries: &Entries) -> (Vec<u8>, TableMeta) {
    let file = MemoryWrite::default();
    let order = key_order::open(options.key_order, SEED);
    let mut writer = writer(Box::new(file.clone()), Path::new("table"), options);
    for ((key, Reverse(seqno)), (tag, value)) in entries {
        let entry = Entry {
            key,
            seqno: SeqNo(*seqno),
            tag: *tag,
            value: ValueSource::Inline(value),
        };
        let hash = KeyHash::of(order.decode(key), SEED);
        writer.add(&entry, value, hash).unwrap();
    }
    let (meta, _) = writer.finish(&RangeTombstones::default()).unwrap();
    (file.contents(), meta)
}

fn open_bytes(bytes: Vec<u8>, residency: ResidencyChoice) -> Result<(Arc<dyn Reader>, FilePages)> {
    open_numbered(bytes, None, residency)
}

fn open_numbered(
    bytes: Vec<u8>,
    seqno_override: Option<SeqNo>,
    residency: ResidencyChoice,
) -> Result<(Arc<dyn Reader>, FilePages)> {
    let file = Arc::new(MemoryRead(bytes));
    let path = Path::new("table");
    let table = open(file.clone(), path, TableId(4), seqno_override, residency)?;
    Ok((table, FilePages::new(file)))
}

/// A block-based table with access to its parts.
fn block_based(bytes: Vec<u8>, residency: ResidencyChoice) -> TableReader {
    let file = Arc::new(MemoryRead(bytes));
    let (file, top) = TableFile::open(file, Path::new("t"), TableId(4)).unwrap();
    TableReader::open(file, &top, residency).unwrap()
}

/// Looks up a sorted key, or any key without a filter, and reads the requested pages.
fn get(
    table: &dyn Reader,
    pages: &FilePages,
    key: &[u8],
    seqno: u64,
) -> Result<Option<(u64, Tag, Vec<u8>)>> {
    get_in(KeyOrder::Sorted, table, pages, key, seqno)
}

/// Looks up as [`get`] does, for a key of any order.
fn get_in(
    order: KeyOrder,
    table: &dyn Reader,
    pages: &FilePages,
    key: &[u8],
    seqno: u64,
) -> Result<Option<(u64, Tag, Vec<u8>)>> {
    let query = Query {
        key,
        hash: KeyHash::of(key_order::open(order, SEED).decode(key), SEED),
        seqno: SeqNo(seqno),
        is_alone: true,
    };
    let mut state = GetState::default();
    let mut page = None;
    let lookup = loop {
        match table.get(&query, &mut state, page.take())? {
            Step::Read(id) => page = Some(pages.page(id)?),
            Step::Done(lookup) => break lookup,
        }
    };
    let Lookup::Found { seqno, tag, value } = lookup else {
        return Ok(None);
    };
    let value = match value {
        FoundValue::InBlock(slice) => slice.to_vec(),
        FoundValue::OutOfLine { page, bytes } => {
            let page = pages.page(page)?;
            assert_eq!(page.len(), bytes as usize);
            page.to_vec()
        }
        FoundValue::Nothing => Vec::new(),
    };
    Ok(Some((seqno.0, tag, value)))
}

fn owned(entry: Option<Entry<'_>>, pages: &FilePages) -> Option<(Vec<u8>, u64, Tag, Vec<u8>)> {
    let entry = entry?;
    let value = entry.value.read(pages).unwrap();
    assert_eq!(value.len(), entry.value.bytes());
    Some((entry.key.to_vec(), entry.seqno.0, entry.tag, value))
}

/// Draws reproducible entries.
struct Random(crate::base::random::Random);

impl Random {
    fn new(seed: u64) -> Random {
        Random(crate::base::random::Random::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    fn bytes(&mut self, count: u64, letters: u64) -> Vec<u8> {
        (0..count).map(|_| self.below(letters) as u8).collect()
    }

    fn tag(&mut self) -> Tag {
        match self.below(8) {
            0 => Tag::DELETE,
            1 => Tag {
                kind: Kind::Merge,
                flags: Flags::NONE,
            },
            _ => Tag::PUT,
        }
    }

    fn entry(&mut self, entries: &mut Entries, key: Vec<u8>, value_bytes_max: u64) {
        let tag = self.tag();
        let bytes = self.below(value_bytes_max + 1);
        let value = match tag.kind {
            Kind::Delete => Vec::new(),
            _ => self.bytes(bytes, 4),
        };
        let seqno = 1 + self.below(1 << 40);
        entries.insert((key, Reverse(seqno)), (tag, value));
    }
}

#[test]
fn number_of_the_manifest_stands_for_those_of_the_entries() {
    let mut entries = Entries::new();
    for i in 0..500_u64 {
        let value = vec![7; if i % 100 == 0 { 3000 } else { 9 }];
        entries.insert((i.to_be_bytes().to_vec(), Reverse(20)), (Tag::PUT, value));
    }
    let written = TableOptions {
        seqno_override: Some(SeqNo(20)),
        ..options(512)
    };
    let (bytes, meta) = write(written, &entries);
    for residency in [RESIDENT, PAGED] {
        for number in [None, Some(SeqNo(33))] {
            let all = number.map_or(20, |number| number.0);
            let (table, pages) = open_numbered(bytes.clone(), number, residency).unwrap();
            assert_eq!(*table.meta(), meta);
            assert_eq!(meta.clone().renumbered(number).largest_seqno, SeqNo(all));
            table.verify(&pages).unwrap();
            let pages = Arc::new(pages);
            let mut iter = table.clone().iter(pages.clone());
            for ((key, _), (tag, value)) in &entries {
                let found = get(&*table, &pages, key, all).unwrap();
                assert_eq!(found, Some((all, *tag, value.clone())));
                assert_eq!(get(&*table, &pages, key, all - 1).unwrap(), None);
                iter.seek(key, SeqNo(all)).unwrap();
                let here = Some((key.clone(), all, *tag, value.clone()));
                assert_eq!(owned(iter.entry(), &pages), here);
                // The position of an older reader is behind the entry. A step back from there is on
                // it.
                iter.seek(key, SeqNo(all - 1)).unwrap();
                assert_ne!(iter.entry().map(|entry| entry.key), Some(&key[..]));
                iter.seek_before(key, SeqNo(all - 1)).unwrap();
                assert_eq!(owned(iter.entry(), &pages), here);
            }
        }
    }
}

#[test]
fn a_put_that_everybody_sees_gives_up_its_number() {
    let mut entries = Entries::new();
    for i in 0..2000_u64 {
        let tag = if i % 10 == 3 { Tag::DELETE } else { Tag::PUT };
        let number = (1 << 30) + i;
        entries.insert(
            (i.to_be_bytes().to_vec(), Reverse(number)),
            (tag, vec![7; 9]),
        );
    }
    let settled = (1 << 30) + 999;
    let (plain, _) = write(options(4096), &entries);
    let (bytes, meta) = write(
        TableOptions {
            settled: Some(SeqNo(settled)),
            ..options(4096)
        },
        &entries,
    );
    assert!(bytes.len() < plain.len());
    // The facts keep the numbers that the entries had.
    assert_eq!(meta.smallest_seqno, SeqNo(1 << 30));
    assert_eq!(meta.largest_seqno, SeqNo((1 << 30) + 1999));
    let (table, pages) = open_bytes(bytes, RESIDENT).unwrap();
    table.verify(&pages).unwrap();
    let pages = Arc::new(pages);
    for ((key, Reverse(number)), (tag, value)) in &entries {
        let stored = match *number <= settled && *tag == Tag::PUT {
            true => 1,
            false => *number,
        };
        let found = get(&*table, &pages, key, u64::MAX >> 8).unwrap();
        assert_eq!(found, Some((stored, *tag, value.clone())));
    }
}

#[test]
fn a_block_that_fits_a_page_of_the_device_lies_in_one() {
    for (value_bytes, out_of_line) in [(100, None), (331, None), (100, Some(2500))] {
        let mut entries = Entries::new();
        let mut random = Random::new(3);
        for i in 0..5000_u64 {
            let bytes = match out_of_line == Some(i) {
                true => 5000,
                false => value_bytes,
            };
            // An incompressible block is stored as it is.
            let value = (0..bytes).map(|_| random.next() as u8).collect();
            entries.insert((i.to_be_bytes().to_vec(), Reverse(20)), (Tag::PUT, value));
        }
        let (bytes, _) = write(options(4096), &entries);
        for residency in [RESIDENT, PAGED] {
            let (table, pages) = open_bytes(bytes.clone(), residency).unwrap();
            table.verify(&pages).unwrap();
            for ((key, Reverse(number)), (tag, value)) in &entries {
                let found = get(&*table, &pages, key, *number).unwrap();
                assert_eq!(found, Some((*number, *tag, value.clone())));
            }
        }
        let table = block_based(bytes, RESIDENT);
        let straddles = |block: &usize| {
            let Step::Done(handle) = table.index.handle(*block, None).unwrap() else {
                panic!("a resident index needs no page");
            };
            let end = handle.offset + u64::from(handle.bytes);
            handle.offset / 4096 != (end - 1) / 4096
        };
        let straddling = (0..table.index.blocks()).filter(straddles).count();
        // The last block is short. The block behind a value out of line is aligned again only if
        // the gap is small by chance.
        let expected = if out_of_line.is_some() { 100 } else { 1 };
        assert!(
            straddling <= expected,
            "{straddling} with values of {value_bytes} bytes"
        );
    }
}
