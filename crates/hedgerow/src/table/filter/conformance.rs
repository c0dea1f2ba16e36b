//! The rules for every filter. It never says no for a member. It answers the same from memory and
//! from pages. It asks for pages that exist. Its false positives stay below its promise.

use super::{Probe, RunMask};
use crate::base::entry::KeyHash;
use crate::base::page::{Buffer, Handle, Page, PageId, Step};

/// One filter in both forms.
pub(super) struct Filter {
    pub(super) resident: Box<dyn Probe>,
    pub(super) paged: Box<dyn Probe>,
    pub(super) pages: Vec<(Handle, Vec<u8>)>,
    /// The bound on the rate of false positives for a large filter.
    pub(super) false_positives_max: f64,
}

impl Filter {
    fn probe(&self, hash: KeyHash) -> RunMask {
        let Step::Done(resident) = self.resident.candidates(hash, None).unwrap() else {
            panic!("a resident filter asks for no page");
        };
        let mut step = self.paged.candidates(hash, None).unwrap();
        let mut reads = 0;
        let paged = loop {
            let id = match step {
                Step::Read(id) => id,
                Step::Done(paged) => break paged,
            };
            let (_, bytes) = self
                .pages
                .iter()
                .find(|(handle, _)| *handle == id.handle)
                .expect("the page exists");
            let page = named_page(id, bytes);
            step = self.paged.candidates(hash, Some(&page)).unwrap();
            reads += 1;
        };
        assert!((1..=2).contains(&reads), "{reads} pages read");
        assert_eq!(resident, paged);
        resident
    }
}

/// A page as the cache would give it.
pub(super) fn named_page(id: PageId, bytes: &[u8]) -> Page {
    let mut buffer = Buffer::allocate(bytes.len());
    buffer.copy_from_slice(bytes);
    Page::of_table(buffer, id)
}

fn hash(i: usize) -> KeyHash {
    KeyHash::of(&i.to_le_bytes(), 7)
}

/// Runs the suite; `build` makes a filter over keys with these hashes.
pub(super) fn check(build: impl Fn(&[KeyHash]) -> Filter) {
    for keys in [0, 1, 2, 3, 10, 50, 51, 52, 100, 1000, 3277, 20_000] {
        let members: Vec<KeyHash> = (0..keys).map(hash).collect();
        let filter = build(&members);
        for &member in &members {
            assert!(!filter.probe(member).is_empty(), "a member of {keys} keys");
        }
        let asked = 4000;
        let wrong = (keys..keys + asked)
            .filter(|&i| !filter.probe(hash(i)).is_empty())
            .count() as f64;
        if keys >= 10_000 {
            // Four standard deviations above the promise.
            let expected = filter.false_positives_max * asked as f64;
            assert!(
                wrong <= expected + 4.0 * expected.sqrt() + 4.0,
                "{wrong} of {asked} wrong, expected {expected}"
            );
        }
    }
}

#[test]
fn runs_are_taken_from_the_newest_on() {
    for runs in [0, 1, 3, 63, 64] {
        let mut mask = RunMask::all(runs);
        let taken: Vec<_> = std::iter::from_fn(|| mask.take_newest()).collect();
        assert_eq!(taken, (0..runs).collect::<Vec<_>>());
        assert!(mask.is_empty());
    }
    let mut some = RunMask(0b1010);
    assert_eq!(
        (some.take_newest(), some.take_newest(), some.take_newest()),
        (Some(1), Some(3), None)
    );
}
