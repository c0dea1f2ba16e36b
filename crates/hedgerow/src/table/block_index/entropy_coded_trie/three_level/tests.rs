use std::collections::BTreeMap;

use super::super::samples::entries;
use super::*;
use crate::base::random::Random;
use crate::table::block_index::Builder as _;
use crate::table::block_index::conformance;
use crate::table::block_index::conformance::{Forms, Subject};

mod speed;

const PAGE_BYTES: u32 = 4096;
/// The offset of the index's first page.
const END: u64 = 12288;

/// Returns the pages by offset, and the offset of the top.
fn write(builder: Builder) -> (BTreeMap<u64, Vec<u8>>, u64) {
    let mut pages = BTreeMap::new();
    let mut offset = END;
    let top = builder
        .finish(|page| {
            let handle = Handle {
                offset,
                bytes: page.len() as u32 + 5,
            };
            pages.insert(offset, page.to_vec());
            offset += u64::from(handle.bytes);
            Ok(handle)
        })
        .unwrap();
    (pages, top.offset)
}

fn open(pages: &BTreeMap<u64, Vec<u8>>, top: u64) -> (ThreeLevel, ThreeLevel) {
    let paged = || ThreeLevel::paged(TableId(9), &pages[&top]).unwrap();
    let mut resident = paged();
    let ids = resident.page_ids();
    let loaded: Vec<&[u8]> = ids.iter().map(|id| &pages[&id.handle.offset][..]).collect();
    resident.load(&loaded).unwrap();
    (resident, paged())
}

fn build(blocks: &[Vec<Hashes>], form: Form) -> (BTreeMap<u64, Vec<u8>>, u64) {
    let mut builder = Builder::new(form);
    for (number, block) in blocks.iter().enumerate() {
        for entry in block {
            builder.add(&order_key(*entry), number);
        }
        builder.finish_block(number, place_of(number));
    }
    write(builder)
}

fn place_of(block: usize) -> Handle {
    Handle {
        offset: block as u64 * u64::from(PAGE_BYTES),
        bytes: PAGE_BYTES,
    }
}

fn order_key(entry: Hashes) -> Vec<u8> {
    let mut key = Vec::new();
    entry.put(&mut key);
    key
}

fn done<T>(step: Result<Step<T>>) -> T {
    match step.unwrap() {
        Step::Done(answer) => answer,
        Step::Read(id) => panic!("a resident index asks for no page, asked for {id:?}"),
    }
}

impl Subject for Form {
    type Builder = Builder;

    fn builder(&self) -> Builder {
        Builder::new(*self)
    }

    /// The fragments are two letters and the rest.
    fn order_key(&self, key: &[u8]) -> Vec<u8> {
        let (prefix, suffix) = key.split_at(key.len().min(2));
        let hash = |fragment| xxhash_rust::xxh3::xxh3_64_with_seed(fragment, 5).to_be_bytes();
        [&hash(prefix)[..], &hash(suffix), key].concat()
    }

    fn may_cut(&self, before: &[u8], after: &[u8]) -> bool {
        Hashes::of(before) != Hashes::of(after)
    }

    fn is_exact(&self) -> bool {
        false
    }

    fn finish(&self, builder: Builder) -> Forms {
        assert!(builder.memory_bytes() >= builder.estimated_bytes() / 2);
        let (pages, top) = write(builder);
        let (resident, paged) = open(&pages, top);
        assert!(paged.memory_bytes() <= resident.memory_bytes());
        Forms {
            resident: Box::new(resident),
            paged: Box::new(paged),
            pages,
        }
    }
}

#[test]
fn conforms() {
    conformance::check(&Form::Tail);
    conformance::check(&Form::Array);
}

/// Groups as in the tables of the paper: of one size, of 26 sizes after Zipf up to 8000, or many
/// small ones with a few large ones.
fn group_sizes(kind: &str, count: usize) -> Vec<usize> {
    let fixed = |size: usize| vec![size; count / size];
    let zipf = |skew: f64| -> Vec<usize> {
        let size = |rank| (8000.0 / f64::powf(f64::from(rank), skew)).round() as usize;
        (1..=26).map(size).collect()
    };
    match kind {
        "zipf" => {
            let skews = (0..2000).map(|i| f64::from(i) / 1000.0);
            let small_enough = |skew: &f64| zipf(*skew).iter().sum::<usize>() <= count;
            zipf(skews.into_iter().find(small_enough).unwrap())
        }
        "mix" => {
            let random = &mut Random::new(6);
            let (mut sizes, mut sum) = (Vec::new(), 0);
            while sum < count {
                let uniform = random.below(1 << 30) as f64 / f64::from(1 << 30);
                let size = (1.0 / (1.0 - uniform).powf(1.0 / 0.9)) as usize;
                sizes.push(size.clamp(1, 8000));
                sum += sizes[sizes.len() - 1];
            }
            sizes
        }
        _ => fixed(kind.parse().unwrap()),
    }
}

/// A table of 4 KiB blocks of 17 entries, and its index.
struct Table {
    blocks: Vec<Vec<Hashes>>,
    index: ThreeLevel,
    bytes: usize,
}

const PAPER_ENTRIES: usize = 148_639;

fn paper_table(kind: &str, per_block: usize, form: Form) -> Table {
    let all = entries(&group_sizes(kind, PAPER_ENTRIES), 77);
    let blocks: Vec<Vec<Hashes>> = all.chunks(per_block).map(<[Hashes]>::to_vec).collect();
    let (pages, top) = build(&blocks, form);
    Table {
        blocks,
        index: open(&pages, top).0,
        bytes: pages.values().map(Vec::len).sum(),
    }
}

impl Table {
    fn bits_per_key(&self) -> f64 {
        let entries: usize = self.blocks.iter().map(Vec::len).sum();
        self.bytes as f64 * 8.0 / entries as f64
    }
}

/// Checks the bits per key. Looks up every entry and as many others: never more than one block
/// (T10).
#[test]
fn the_tables_of_the_paper_are_small_and_exact() {
    let expected = [
        ("16", 0.92, 1.3),
        ("32", 0.80, 1.3),
        ("64", 0.75, 1.3),
        ("zipf", 0.70, 1.5),
        ("1", 1.0, 1.3),
        ("4", 1.0, 1.3),
        ("mix", 0.8, 1.3),
    ];
    for (kind, tail, array) in expected {
        for (form, bits_max) in [(Form::Tail, tail), (Form::Array, array)] {
            let table = paper_table(kind, 17, form);
            let bits = table.bits_per_key();
            println!("groups {kind}, {form:?}: {bits:.3} bits per key");
            assert!(
                bits <= bits_max,
                "groups {kind}, {form:?}: {bits} bits per key"
            );
            check_lookups(&table);
        }
    }
}

fn check_lookups(table: &Table) {
    let random = &mut Random::new(5);
    for (number, block) in table.blocks.iter().enumerate() {
        for &entry in block {
            let found = done(table.index.locate(&order_key(entry), None)).blocks;
            assert_eq!(found, number..number + 1, "{entry:x?}");
        }
        let other = random.next();
        for absent in [
            Hashes {
                suffix: other,
                ..block[0]
            },
            Hashes {
                prefix: other,
                ..block[0]
            },
        ] {
            let found = done(table.index.locate(&order_key(absent), None)).blocks;
            assert!(found.len() <= 1, "{absent:x?}: {found:?}");
        }
        let prefix = block[0].prefix;
        let begin = order_key(Hashes { prefix, suffix: 0 });
        let Bracket { first, likely, .. } = done(table.index.lower_bound(&begin, None));
        let after = order_key(Hashes {
            prefix: prefix + 1,
            suffix: 0,
        });
        let end = done(table.index.end_before(&after, None));
        let holds = |block: &Vec<Hashes>| block.iter().any(|entry| entry.prefix == prefix);
        assert!(first == likely && first <= number && number < end);
        assert!(table.blocks[first..end].iter().all(holds), "{first}..{end}");
        assert!(first == 0 || !holds(&table.blocks[first - 1]));
        assert!(end == table.blocks.len() || !holds(&table.blocks[end]));
    }
}

/// A key with more versions than a block holds, and hash twins. Their blocks hold nothing else.
#[test]
fn equal_hashes_in_several_blocks_are_found_in_all_of_them() {
    let all = entries(&[3, 200, 1, 40], 31);
    let mut blocks: Vec<Vec<Hashes>> = Vec::new();
    for (number, chunk) in all.chunks(4).enumerate() {
        blocks.push(chunk.to_vec());
        for _ in 0..if number % 9 == 4 { number / 5 } else { 0 } {
            blocks.push(vec![chunk[3]; 2]);
        }
    }
    for form in [Form::Tail, Form::Array] {
        let (pages, top) = build(&blocks, form);
        let (index, _) = open(&pages, top);
        assert_eq!(index.blocks(), blocks.len());
        for entry in &all {
            let key = order_key(*entry);
            let mut holders = (0..blocks.len()).filter(|i| blocks[*i].contains(entry));
            let first = holders.next().unwrap();
            let last = holders.next_back().unwrap_or(first);
            let found = done(index.locate(&key, None)).blocks;
            assert!(found.contains(&first) && found.contains(&last), "{found:?}");
            let unit = |block: usize| blocks[block][0] == *blocks[found.start].last().unwrap();
            assert!((found.start + 1..found.end).all(unit), "{found:?}");
            let bracket = done(index.lower_bound(&key, None));
            assert!(
                bracket.likely <= first && first <= bracket.last + 1,
                "{bracket:?}"
            );
        }
    }
}

/// The worked example of `docs/format/three_level.md`.
#[test]
fn the_documented_example_is_what_is_written() {
    let (pages, top) = build(&segment::tests::example(), Form::Tail);
    let documented = include_str!("../../../../../../../docs/format/three_level.md");
    for (name, offset) in [("segment", END), ("top", top)] {
        let expected = crate::table::testing::documented_bytes(documented, name);
        crate::table::testing::assert_bytes(&pages[&offset], &expected);
    }
}
