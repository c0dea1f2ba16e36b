//! Damaged files: right answers or `Corruption`, never a panic, never a wrong answer.

use super::*;
use crate::base::error::{Error, ErrorKind};
use crate::base::page::{Handle, PageClass};

fn entries() -> Entries {
    let mut entries = Entries::new();
    let random = &mut Random::new(9);
    for i in 0..30u8 {
        for _ in 0..=i % 3 {
            random.entry(&mut entries, vec![b'k', i / 10, i], 30);
        }
    }
    let value = random.bytes(2100, 256);
    entries.insert((vec![b'l'], Reverse(5)), (Tag::PUT, value));
    entries
}

/// The bytes of a table, the order of its keys, and its entries.
type Damaged = (Vec<u8>, KeyOrder, Entries);

fn small(compression: Compression) -> Damaged {
    let entries = entries();
    let options = TableOptions {
        compression,
        ..options(512)
    };
    (write(options, &entries).0, KeyOrder::Sorted, entries)
}

/// A table without values out of line. Behind such a value is a gap, which no checksum covers.
fn of_hashes() -> Damaged {
    let order = three_level::ORDERS[0];
    let mut entries = three_level::in_order(order, &entries());
    entries.retain(|_, (_, value)| value.len() < 100);
    let options = three_level::options(IndexSpec::ThreeLevel, order, 512);
    (write(options, &entries).0, order, entries)
}

/// A table without values out of line, too, with a filter for each bucket or for all keys.
fn of_buckets(filter: table_filter::Spec) -> Damaged {
    let order = KeyOrder::Hashed;
    let mut entries = three_level::in_order(order, &entries());
    entries.retain(|_, (_, value)| value.len() < 100);
    let options = TableOptions {
        filter: Some(filter),
        ..htable::options(512)
    };
    (write(options, &entries).0, order, entries)
}

fn is_corruption(error: &Error) -> bool {
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert!(error.path().is_some(), "{error}");
    true
}

/// Looks up every entry and scans. Returns true if an error was returned. Answers must be right.
fn use_table(bytes: &[u8], residency: ResidencyChoice, order: KeyOrder, entries: &Entries) -> bool {
    let (table, pages) = match open_bytes(bytes.to_vec(), residency) {
        Ok(opened) => opened,
        Err(error) => return is_corruption(&error),
    };
    let mut refused = false;
    for ((key, Reverse(seqno)), (tag, value)) in entries {
        match get_in(order, &*table, &pages, key, *seqno) {
            Ok(found) => assert!(found == Some((*seqno, *tag, value.clone()))),
            Err(error) => refused |= is_corruption(&error),
        }
    }
    let (_, source) = open_bytes(bytes.to_vec(), residency).unwrap();
    let mut iter = table.clone().iter(Arc::new(source));
    let mut scan = || -> Result<usize> {
        iter.seek_first()?;
        let mut count = 0;
        while iter.entry().is_some() {
            count += 1;
            iter.advance()?;
        }
        Ok(count)
    };
    match scan() {
        Ok(count) => assert_eq!(count, entries.len()),
        Err(error) => refused |= is_corruption(&error),
    }
    match table.verify(&pages) {
        Ok(()) => assert!(!refused),
        Err(error) => refused |= is_corruption(&error),
    }
    refused
}

#[test]
fn every_flipped_bit_is_found() {
    for (bytes, order, entries) in [
        small(Compression::None),
        small(Compression::Lz4),
        of_hashes(),
        of_buckets(table_filter::Spec::Bloom(12.0)),
        of_buckets(table_filter::Spec::Cuckoo(9)),
    ] {
        for residency in [RESIDENT, PAGED] {
            assert!(!use_table(&bytes, residency, order, &entries));
        }
        let mut damaged = bytes.clone();
        for bit in 0..bytes.len() * 8 {
            damaged[bit / 8] ^= 1 << (bit % 8);
            let residency = if bit % 2 == 0 { RESIDENT } else { PAGED };
            assert!(use_table(&damaged, residency, order, &entries), "bit {bit}");
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn every_truncation_is_found() {
    let of_buckets = of_buckets(table_filter::Spec::Bloom(12.0));
    for (bytes, order, entries) in [small(Compression::Lz4), of_buckets] {
        for cut in 0..bytes.len() {
            assert!(use_table(&bytes[..cut], RESIDENT, order, &entries));
            assert!(read_meta(&MemoryRead(bytes[..cut].to_vec()), Path::new("t")).is_err());
            // The front is lost instead of the end.
            assert!(cut == 0 || use_table(&bytes[cut..], PAGED, order, &entries));
        }
    }
}

#[test]
fn garbage_is_refused() {
    let random = &mut Random::new(4);
    for i in 0..2000 {
        let count = random.below(600);
        let mut bytes = random.bytes(count, 256);
        if i % 2 == 0 {
            bytes.extend_from_slice(b"hedgeTBL");
        }
        assert!(open_bytes(bytes, RESIDENT).is_err());
    }
}

/// Decoders behind a checksum still meet bytes that no writer of this version wrote.
#[test]
fn decoders_stand_garbage() {
    let random = &mut Random::new(5);
    for _ in 0..20_000 {
        let (count, letters) = (random.below(200), 1 + random.below(256));
        let bytes = random.bytes(count, letters);
        let _ = entry_parts::ValueHandle::decode(&bytes);
        let _ = TableMeta::decode(&mut crate::base::codec::ByteReader::new(&bytes));
        let _ = Footer::decode(&bytes, 0);
        let id = PageId {
            table: TableId(1),
            handle: Handle {
                offset: 0,
                bytes: bytes.len() as u32,
            },
            class: PageClass::Data,
        };
        assert!(page_io::decode(&bytes, id).is_err());
        for compression in 0..4 {
            let _ = crate::base::codec::compress::raw_bytes(compression, &bytes, 1 << 20);
        }
        if let Ok(index) = block_index::fence_pointers::FencePointers::paged(TableId(1), &bytes) {
            use crate::table::block_index::Index;
            let page = Page::filled(bytes.len(), |page| {
                page.copy_from_slice(&bytes);
                Ok(())
            });
            let _ = index.locate(&bytes, Some(&page.unwrap()));
        }
    }
}

/// An order key must be the one that the footer's order makes of its user key.
#[test]
fn keys_of_another_order_than_the_footers_are_corruption() {
    for key_order in [KeyOrder::Sorted, KeyOrder::Hashed] {
        let options = TableOptions {
            key_order,
            ..options(512)
        };
        let (bytes, _) = write(options, &entries());
        let (table, pages) = open_bytes(bytes, RESIDENT).unwrap();
        let refusal = table.verify(&pages).err();
        assert_eq!(refusal.is_some(), key_order == KeyOrder::Hashed);
        assert!(refusal.is_none_or(|e| e.kind() == ErrorKind::Corruption));
    }
}
