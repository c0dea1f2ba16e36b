use super::*;
use crate::base::bloom_lines::rate;
use crate::table::filter::conformance;

fn build(bits_per_key: f32, hashes: &[KeyHash]) -> (Description, Vec<Vec<u8>>) {
    let mut list = HashList::default();
    hashes.iter().for_each(|&hash| list.add(hash));
    let mut pages = Vec::new();
    let description = super::build(&list, bits_per_key, 1000, |page| {
        pages.push(page.to_vec());
        Ok(())
    });
    let description = description.unwrap();
    (description, pages)
}

fn resident(bits_per_key: f32, hashes: &[KeyHash]) -> Bloom {
    let (description, pages) = build(bits_per_key, hashes);
    Bloom::resident(TableId(1), description, pages.iter().map(|p| Ok(&p[..]))).unwrap()
}

#[test]
fn conforms() {
    for bits_per_key in [1.0, 6.5, 10.0, 32.0] {
        conformance::check(|hashes| {
            let (description, pages) = build(bits_per_key, hashes);
            let resident =
                Bloom::resident(TableId(1), description, pages.iter().map(|p| Ok(&p[..])));
            let paged = Bloom::paged(TableId(1), description).unwrap();
            let places = (0..description.pages())
                .map(|i| description.page_handle(i))
                .zip(pages)
                .collect();
            conformance::Filter {
                resident: Box::new(resident.unwrap()),
                paged: Box::new(paged),
                pages: places,
                false_positives_max: rate(f64::from(bits_per_key)) * 1.1,
            }
        });
    }
}

/// A poor remix would go unnoticed otherwise: its filter answers right, with too many false
/// positives.
#[test]
fn false_positives_are_as_many_as_theory_says() {
    for (bits_per_key, keys, asked) in [
        (4.0, 100_000, 200_000),
        (7.3, 100_000, 400_000),
        (10.0, 200_000, 1_000_000),
        (14.5, 200_000, 4_000_000),
        (18.5, 200_000, 10_000_000),
    ] {
        let hash = |i: u32| KeyHash::of(&i.to_le_bytes(), 42);
        let members: Vec<_> = (0..keys).map(hash).collect();
        let filter = resident(bits_per_key, &members);
        let wrong = (keys..keys + asked)
            .filter(|&i| passes(&filter, hash(i)))
            .count();
        let measured = wrong as f64 / f64::from(asked);
        let expected = rate(f64::from(bits_per_key));
        println!("{bits_per_key} bits: {measured:.6} measured, {expected:.6} expected");
        assert!(
            (measured / expected - 1.0).abs() < 0.1,
            "{bits_per_key} bits: {measured} measured, {expected} expected"
        );
    }
}

fn passes(filter: &Bloom, hash: KeyHash) -> bool {
    match filter.candidates(hash, None).unwrap() {
        Step::Done(mask) => !mask.is_empty(),
        Step::Read(_) => panic!("a resident filter asks for no page"),
    }
}

#[test]
fn fractions_of_bits_are_kept() {
    let hashes: Vec<_> = (0..1000u32)
        .map(|i| KeyHash::of(&i.to_le_bytes(), 1))
        .collect();
    assert_eq!(build(10.0, &hashes).0.lines, 20);
    assert_eq!(build(10.5, &hashes).0.lines, 21);
    assert_eq!(build(1.0, &[]).0.lines, 1);
}

#[test]
fn damaged_descriptions_and_pages_are_refused() {
    let (description, pages) = build(10.0, &[KeyHash(77)]);
    for (lines, probes) in [(0, 1), (1, 0), (1, 16)] {
        let damaged = Description {
            lines,
            probes,
            ..description
        };
        assert!(Bloom::paged(TableId(1), damaged).is_err());
    }
    let short = [&pages[0][..63]];
    assert!(Bloom::resident(TableId(1), description, short.iter().map(|p| Ok(*p))).is_err());
    assert!(Bloom::resident(TableId(1), description, std::iter::empty()).is_err());
    let page = Page::filled(10, |_| Ok(())).unwrap();
    let paged = Bloom::paged(TableId(1), description).unwrap();
    assert!(paged.candidates(KeyHash(77), Some(&page)).is_err());
}

/// The worked example of `docs/format/bloom.md`.
#[test]
fn the_documented_example_is_what_is_written() {
    let hashes = [KeyHash::of(b"hawthorn", 0), KeyHash::of(b"blackthorn", 0)];
    let (description, pages) = build(8.0, &hashes);
    assert_eq!((description.lines, description.probes), (1, 5));
    let documented = crate::table::testing::documented_bytes(
        include_str!("../../../../../../docs/format/bloom.md"),
        "page",
    );
    crate::table::testing::assert_bytes(&pages[0], &documented);
}
