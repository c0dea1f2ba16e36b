use std::collections::BTreeMap;

use super::*;
use crate::table::block_index::Builder as _;
use crate::table::block_index::conformance;
use crate::table::block_index::conformance::{Forms, Subject};

struct Fence;

/// Returns the pages by offset, and the offset of the top.
fn write(builder: Builder) -> (BTreeMap<u64, Vec<u8>>, u64) {
    let mut pages = BTreeMap::new();
    let mut offset = 0;
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

fn open(pages: &BTreeMap<u64, Vec<u8>>, top: u64) -> (FencePointers, FencePointers) {
    let paged = FencePointers::paged(TableId(9), &pages[&top]).unwrap();
    let ids = paged.page_ids();
    let loaded: Vec<&[u8]> = ids.iter().map(|id| &pages[&id.handle.offset][..]).collect();
    let mut resident = FencePointers::paged(TableId(9), &pages[&top]).unwrap();
    resident.load(&loaded).unwrap();
    (resident, paged)
}

impl Subject for Fence {
    type Builder = Builder;

    fn builder(&self) -> Builder {
        Builder::default()
    }

    fn finish(&self, builder: Builder) -> Forms {
        let estimated = builder.estimated_bytes();
        assert!(builder.memory_bytes() >= estimated / 2);
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
    conformance::check(&Fence);
}

fn of_keys<'a>(keys: impl Iterator<Item = &'a [u8]>) -> (BTreeMap<u64, Vec<u8>>, u64) {
    let mut builder = Builder::default();
    for (block, key) in keys.enumerate() {
        builder.add(key, block);
        builder.finish_block(
            block,
            Handle {
                offset: block as u64 * 4000,
                bytes: 4000,
            },
        );
    }
    write(builder)
}

/// The index must stay a small part of memory: with random keys it takes 6 bytes per block.
#[test]
fn a_block_costs_few_bytes() {
    let mut keys: Vec<_> = (0..20_000u64)
        .map(|i| {
            i.wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .wrapping_add(i * i * 977)
        })
        .map(|word| [word.to_be_bytes(), word.to_le_bytes()].concat())
        .collect();
    keys.sort();
    let (pages, top) = of_keys(keys.iter().map(|key| &key[..]));
    let file: usize = pages.values().map(Vec::len).sum();
    let (resident, _) = open(&pages, top);
    println!(
        "{} bytes in the file, {} in memory",
        file,
        resident.memory_bytes()
    );
    assert!(file < 20_000 * 8, "{file}");
    assert!(resident.memory_bytes() < 20_000 * 8);
}

#[test]
fn split_keys_cut_evenly() {
    let keys: Vec<_> = (0..10_000u32).map(|i| (i * 3).to_be_bytes()).collect();
    let (pages, top) = of_keys(keys.iter().map(|key| &key[..]));
    let (resident, paged) = open(&pages, top);
    for pieces in [0, 1, 2, 7, 100] {
        let split = resident.split_keys(pieces);
        assert_eq!(split.len(), pieces.max(1) - 1);
        for (i, key) in split.iter().enumerate() {
            let below = keys.partition_point(|k| k[..] < key[..]);
            let expected = keys.len() * (i + 1) / pieces;
            assert!(below.abs_diff(expected) <= 2, "{below}, not {expected}");
        }
        let coarse = paged.split_keys(pieces);
        assert!(coarse.is_sorted());
        assert!(coarse.len() <= split.len());
    }
}

/// Pages have checksums, but a decoder must not panic on any bytes.
#[test]
fn damaged_pages_do_not_panic() {
    let keys: Vec<_> = (0..1500u32)
        .map(|i| [&b"key"[..], &(i / 3).to_be_bytes()].concat())
        .collect();
    let (pages, top) = of_keys(keys.iter().map(|key| &key[..]));
    for at_top in [true, false] {
        for bit in 0..8 * if at_top { pages[&top].len() } else { 64 } {
            let mut pages = pages.clone();
            let offset = if at_top { top } else { 0 };
            pages.get_mut(&offset).unwrap()[bit / 8] ^= 1 << (bit % 8);
            let Ok(paged) = FencePointers::paged(TableId(9), &pages[&top]) else {
                continue;
            };
            let page = conformance::page_of(&pages[&0]);
            for key in keys.iter().step_by(97) {
                let _ = paged.locate(key, Some(&page));
                let _ = paged.lower_bound(key, Some(&page));
            }
            for block in (0..paged.blocks().min(1 << 20)).step_by(97) {
                let _ = paged.handle(block, Some(&page));
            }
            let _ = paged.split_keys(3);
        }
    }
}

/// The worked example of `docs/format/fence_pointers.md`.
#[test]
fn the_documented_example_is_what_is_written() {
    let mut builder = Builder::default();
    let blocks: [&[&[u8]]; 3] = [
        &[b"hazel", b"holly"],
        &[b"hornbeam", b"rose"],
        &[b"rosemary", b"rowan"],
    ];
    let mut offset = 0;
    for (number, keys) in blocks.iter().enumerate() {
        keys.iter().for_each(|key| builder.add(key, number));
        let bytes = 1000 + number as u32;
        builder.finish_block(number, Handle { offset, bytes });
        offset += u64::from(bytes);
    }
    let (pages, top) = write(builder);
    let documented = include_str!("../../../../../../docs/format/fence_pointers.md");
    for (name, offset) in [("page", 0), ("top", top)] {
        let expected = crate::table::testing::documented_bytes(documented, name);
        crate::table::testing::assert_bytes(&pages[&offset], &expected);
    }
}
