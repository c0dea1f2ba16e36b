use super::*;
use crate::table::filter::conformance;
use crate::table::filter::conformance::named_page;

fn build(bits: u8, hashes: &[KeyHash]) -> (Description, Vec<Vec<u8>>) {
    let mut list = HashList::default();
    hashes.iter().for_each(|&hash| list.add(hash));
    let estimated = bytes_for(list.len(), bits);
    let mut pages = Vec::new();
    let description = super::build(&list, bits, 1000, |page| {
        pages.push(page.to_vec());
        Ok(())
    });
    let description = description.unwrap();
    let bytes: usize = pages.iter().map(Vec::len).sum();
    assert!(bytes as u64 >= estimated);
    assert_eq!(description.pages(), pages.len());
    assert_eq!(
        description.file_bytes(),
        (bytes + pages.len() * TRAILER_BYTES as usize) as u64
    );
    (description, pages)
}

fn resident(bits: u8, hashes: &[KeyHash]) -> Cuckoo {
    let (description, pages) = build(bits, hashes);
    Cuckoo::resident(TableId(1), description, pages.iter().map(|p| Ok(&p[..]))).unwrap()
}

fn hash(i: u32) -> KeyHash {
    KeyHash::of(&i.to_le_bytes(), 42)
}

fn passes(filter: &Cuckoo, hash: KeyHash) -> bool {
    match filter.candidates(hash, None).unwrap() {
        Step::Done(mask) => !mask.is_empty(),
        Step::Read(_) => panic!("a resident filter asks for no page"),
    }
}

/// Section 3.7 of the specification: a probe compares `2b` slots, `alpha` of them in use.
fn theory(bits: u8) -> f64 {
    8.0 * 0.95 / f64::from(1u32 << bits)
}

#[test]
fn conforms_with_every_width() {
    for bits in 4..=24 {
        conformance::check(|hashes| {
            let (description, pages) = build(bits, hashes);
            let filter =
                Cuckoo::resident(TableId(1), description, pages.iter().map(|p| Ok(&p[..])));
            let places = (0..description.pages())
                .map(|i| description.page_handle(i))
                .zip(pages)
                .collect();
            conformance::Filter {
                resident: Box::new(filter.unwrap()),
                paged: Box::new(Cuckoo::paged(TableId(1), description).unwrap()),
                pages: places,
                false_positives_max: theory(bits),
            }
        });
    }
}

#[test]
fn false_positives_are_as_many_as_theory_says() {
    for (bits, keys, asked) in [
        (8, 100_000, 200_000),
        (12, 200_000, 2_000_000),
        (16, 100_000, 10_000_000),
    ] {
        let members: Vec<_> = (0..keys).map(hash).collect();
        let filter = resident(bits, &members);
        let wrong = (keys..keys + asked)
            .filter(|&i| passes(&filter, hash(i)))
            .count();
        let measured = wrong as f64 / f64::from(asked);
        let expected = theory(bits);
        println!("{bits} bits: {measured:.6} measured, {expected:.6} expected");
        // Keys of one class share a slot: short fingerprints show it.
        let shared = expected / 2.0;
        assert!(
            measured / expected < 1.1 && measured / expected > 0.9 - shared,
            "{bits} bits: {measured} measured, {expected} expected"
        );
    }
}

#[test]
fn a_filter_is_sized_exactly() {
    for keys in [1, 3, 4, 100, 12_345, 100_000] {
        let hashes: Vec<_> = (0..keys).map(hash).collect();
        let (description, _) = build(12, &hashes);
        let exact = (f64::from(keys) / 0.95 / 4.0).ceil() as u32;
        // Filters of few buckets may have to grow.
        let slack = if keys < 1000 { 4 } else { 1 };
        assert!(
            (exact..=exact + slack).contains(&description.buckets),
            "{keys} keys: {} buckets, not {exact}",
            description.buckets
        );
    }
}

/// Every set of up to nine keys from a handful of hashes. Some are equal and many are of one
/// bucket.
#[test]
fn small_filters_hold_what_was_added() {
    let alike = (0..5u128).map(|i| KeyHash(7 << 32 | i << 20));
    let hashes: Vec<_> = alike.chain((0..4).map(hash)).collect();
    for bits in [4, 12, 24] {
        for chosen in 0u32..1 << hashes.len() {
            let members: Vec<_> = (0..hashes.len())
                .filter(|i| chosen >> i & 1 == 1)
                .map(|i| hashes[i])
                .collect();
            let filter = resident(bits, &[&members[..], &members[..]].concat());
            assert!(members.iter().all(|&member| passes(&filter, member)));
        }
    }
}

#[test]
fn damaged_descriptions_and_pages_are_refused() {
    let (description, pages) = build(12, &[KeyHash(77)]);
    for (buckets, fingerprint_bits) in [(0, 12), (1, 3), (1, 25), (1, 0), (1, 255)] {
        let damaged = Description {
            buckets,
            fingerprint_bits,
            ..description
        };
        assert!(damaged.check().is_err());
        assert!(Cuckoo::paged(TableId(1), damaged).is_err());
    }
    let short = [&pages[0][1..]];
    assert!(Cuckoo::resident(TableId(1), description, short.iter().map(|p| Ok(*p))).is_err());
    assert!(Cuckoo::resident(TableId(1), description, std::iter::empty()).is_err());
    let paged = Cuckoo::paged(TableId(1), description).unwrap();
    let Step::Read(id) = paged.candidates(KeyHash(77), None).unwrap() else {
        panic!("a paged filter asks for a page");
    };
    let page = named_page(id, &pages[0][..1]);
    assert!(paged.candidates(KeyHash(77), Some(&page)).is_err());
}

/// The worked example of `docs/format/cuckoo.md`.
#[test]
fn the_documented_example_is_what_is_written() {
    let hashes = [KeyHash::of(b"hawthorn", 0), KeyHash::of(b"blackthorn", 0)];
    let (description, pages) = build(12, &hashes);
    assert_eq!(description.buckets, 1);
    let documented = crate::table::testing::documented_bytes(
        include_str!("../../../../../../docs/format/cuckoo.md"),
        "page",
    );
    crate::table::testing::assert_bytes(&pages[0], &documented);
}
