use super::*;
use crate::base::entry::KeyHash;
use crate::group_filter::multi_level_cuckoo::hash_of;

fn hashes(count: u32) -> Vec<u64> {
    let hash = |i: u32| hash_of(KeyHash::of(&i.to_le_bytes(), 3));
    let mut hashes: Vec<_> = (0..count).map(hash).collect();
    hashes.sort_unstable();
    hashes
}

fn encoded(hashes: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(hashes, &mut bytes);
    bytes
}

fn decoded(bytes: &[u8]) -> Vec<u64> {
    decode(bytes).unwrap().collect()
}

#[test]
fn what_was_encoded_comes_back() {
    let most = (1 << HASH_BITS) - 1;
    for hashes in [
        vec![],
        vec![0],
        vec![most],
        vec![0, 0, 0, most, most],
        vec![1, 2, 3, 4, 5, 6, 7, 8, 9],
        (0..1000).map(|i| i << 46).collect(),
        hashes(2),
        hashes(63),
        hashes(64),
        hashes(65),
        hashes(100_000),
    ] {
        let bytes = encoded(&hashes);
        assert_eq!(decoded(&bytes), hashes);
    }
}

#[test]
fn hashes_take_few_bytes() {
    for (count, bytes_max) in [(1000, 6.2), (100_000, 5.3), (1_000_000, 4.9)] {
        let bytes = encoded(&hashes(count)).len() as f64 / f64::from(count);
        assert!(bytes < bytes_max, "{bytes} bytes per key of {count}");
    }
}

/// Every cut and every changed bit is refused or gives ascending hashes in the stated number.
#[test]
fn damaged_hashes_are_refused_or_hashes() {
    let bytes = encoded(&hashes(40));
    for cut in 0..bytes.len() {
        assert!(decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    assert!(decode(&[&bytes[..], &[0]].concat()).is_err());
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        if let Ok(hashes) = decode(&damaged) {
            let hashes: Vec<_> = hashes.collect();
            assert_eq!(hashes.len(), 40);
            assert!(hashes.iter().all(|hash| hash >> HASH_BITS == 0));
        }
    }
    assert!(decode(&[0xFF; 9]).is_err());
    assert!(decode(&[&[0xFF; 9][..], &[1]].concat()).is_err());
}

/// The worked example of `docs/format/multi_level_cuckoo.md`.
#[test]
fn the_documented_example_is_what_is_written() {
    let mut hashes = [&b"hawthorn"[..], b"blackthorn"].map(|key| hash_of(KeyHash::of(key, 0)));
    hashes.sort_unstable();
    let documented = crate::table::testing::documented_bytes(
        include_str!("../../../../../../docs/format/multi_level_cuckoo.md"),
        "hashes",
    );
    crate::table::testing::assert_bytes(&encoded(&hashes), &documented);
}

#[test]
fn a_table_keeps_its_hashes_in_pages() {
    let keys: Vec<KeyHash> = (0..40_000u32)
        .map(|i| KeyHash::of(&i.to_le_bytes(), 5))
        .collect();
    let mut list = HashList::default();
    keys.iter().for_each(|&key| list.add(key));
    let estimated = bytes_for(list.len());
    let mut pages: Vec<Vec<u8>> = Vec::new();
    let write_page = |page: &[u8]| {
        pages.push(page.to_vec());
        Ok(())
    };
    let description = build(&list, 1000, write_page).unwrap();
    assert_eq!(description.pages(), pages.len());
    assert!(pages.len() > 2);
    let mut end = description.offset;
    for (i, page) in pages.iter().enumerate() {
        let handle = description.page_handle(i);
        assert_eq!(handle.offset, end);
        assert_eq!(handle.bytes, page.len() as u32 + TRAILER_BYTES);
        end += u64::from(handle.bytes);
    }
    assert_eq!(end, description.offset + description.file_bytes());
    assert!(estimated.abs_diff(description.file_bytes()) < estimated / 20);

    let read = |pages: &[Vec<u8>]| RunHashes::read(description, pages.iter().map(|p| Ok(&p[..])));
    let hashes = read(&pages).unwrap();
    assert!(hashes.0.is_sorted() && hashes.0.len() == keys.len());
    let passes = |key| match hashes.candidates(key, None).unwrap() {
        Step::Done(runs) => runs.contains(0),
        Step::Read(id) => panic!("{id:?} is asked for by hashes in memory"),
    };
    assert!(keys.iter().all(|&key| passes(key)));
    assert!(!passes(KeyHash::of(b"absent", 5)));
    pages.pop();
    assert!(read(&pages).is_err());
}
